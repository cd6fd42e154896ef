//! Decides what of a tool's description and schemas is suspicious: hidden text, orders to the
//! model, other tools' names, and schemas that cannot be checked.

/// Whether a character is not seen, or changes what is seen.
pub fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' | '\u{180b}'..='\u{180d}' | '\u{115f}' | '\u{1160}' | '\u{3164}')
}
