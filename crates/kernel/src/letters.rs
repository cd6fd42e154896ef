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
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0080}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
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

/// Characters that look like a space, or like nothing, and are not the space.
pub fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{2800}' | '\u{3000}' | '\u{1d159}'
    )
}

/// The alphabet of a letter, of those whose letters are taken for each other.
fn alphabet(c: char) -> Option<&'static str> {
    Some(match c {
        'A'..='Z' | 'a'..='z' | '\u{c0}'..='\u{2af}' | '\u{1e00}'..='\u{1eff}' => "Latin",
        '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' => "Latin",
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => "Greek",
        '\u{400}'..='\u{52f}' | '\u{1c80}'..='\u{1c8f}' | '\u{a640}'..='\u{a69f}' => "Cyrillic",
        '\u{531}'..='\u{58f}' => "Armenian",
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => "Cherokee",
        _ => return None,
    })
}

/// The alphabets of a name that mixes some whose letters are taken for each other, in its order.
pub fn mixed(name: &str) -> Option<Vec<&'static str>> {
    let mut found = Vec::new();
    for alphabet in name.chars().filter_map(alphabet) {
        if !found.contains(&alphabet) {
            found.push(alphabet);
        }
    }
    (found.len() > 1).then_some(found)
}

/// Whether a text shows nothing: it is empty, or all blanks, control and hidden characters.
pub fn is_unseen(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_blank(c) || is_hidden(c))
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
    fn blanks_are_told_from_the_space() {
        for c in "\u{a0}\u{1680}\u{2000}\u{2003}\u{200a}\u{202f}\u{205f}\u{2800}\u{3000}".chars() {
            assert!(is_blank(c), "U+{:04X}", u32::from(c));
        }
        for c in " \t\nax天\u{200b}".chars() {
            assert!(!is_blank(c), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn a_text_that_shows_nothing_is_known() {
        for text in
            ["", " \n\t", "\u{200b}", "\u{0}\u{1b}\u{7f}\u{85}", "\u{2800}\u{3000}\u{1d159}"]
        {
            assert!(is_unseen(text), "{text:?}");
        }
        for text in ["a", " . ", "\u{1b}[0mx", "👍\u{fe0f}", "\u{fffd}"] {
            assert!(!is_unseen(text), "{text:?}");
        }
    }

    #[test]
    fn names_that_mix_alphabets_are_known() {
        assert_eq!(mixed("\u{430}da"), Some(vec!["Cyrillic", "Latin"]));
        assert_eq!(mixed("\u{391}da"), Some(vec!["Greek", "Latin"]));
        for name in ["Ada", "Жанна", "Ελένη", "Zoë", "田中 Ada", "ada-2"] {
            assert_eq!(mixed(name), None, "{name}");
        }
    }

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
