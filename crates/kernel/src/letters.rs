//! Decides which characters nobody sees, or change how others are seen.

/// Letters of a second alphabet that is never shown.
pub fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Characters that take no room, or separate what looks like one line.
pub fn is_zero_width(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
        | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
}

/// Marks that turn the direction of writing.
pub fn is_bidi(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Selectors choose how the character before them looks; a row of them is a text.
pub fn is_selector(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character is one of all these. Control characters are not: each reader has its own
/// that are ordinary.
pub fn is_hidden(c: char) -> bool {
    is_tag(c) || is_zero_width(c) || is_bidi(c) || is_selector(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_is_not_hidden() {
        let hidden = "\u{200b}\u{202e}\u{2066}\u{e0041}\u{fe0f}\u{feff}\u{2028}\u{ad}\u{180f}\u{2065}\u{17b4}";
        for c in hidden.chars() {
            assert!(is_hidden(c), "U+{:04X}", u32::from(c));
        }
        for c in "aä天あ👍🏽ب \u{a0}\u{3000}\u{301}\n\t\u{1b}".chars() {
            assert!(!is_hidden(c), "U+{:04X}", u32::from(c));
        }
    }
}
