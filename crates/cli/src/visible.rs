//! Decides which characters are shown as they are: what cannot be seen, or acts on a terminal, is
//! shown by its number, unless it holds an ordinary emoji or letter together.

use toolgate_kernel::actor::Actor;
use toolgate_kernel::letters;

/// Flags of countries that are spelled with tags.
const TAGGED_FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];

/// The text with what is hidden made visible, after the character that was shown before it.
pub(crate) fn visible_after(last: &mut Option<char>, text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let next = rest.clone().next();
        if c == '\u{1f3f4}'
            && let Some(tags) = flag(rest.as_str())
        {
            out.push(c);
            out.push_str(tags);
            rest.by_ref().take(tags.chars().count()).for_each(drop);
        } else if c == '\t' {
            // A terminal would jump, by as much as it likes.
            out.push_str("    ");
        } else if c == '\r' && next == Some('\n') {
            // The line ends all the same.
        } else if c == '\n' || !is_unshown(c) || holds(*last, c, next) {
            out.push(c);
        } else {
            out.push_str(&format!("<U+{:04X}>", u32::from(c)));
        }
        *last = Some(c);
    }
    out
}

/// The same of what a person is asked about: blanks that are not the space are visible too, and a
/// word that mixes alphabets is marked, because it may be taken for another.
pub(crate) fn exact(text: &str) -> String {
    let (mut out, mut word) = (String::with_capacity(text.len()), String::new());
    for c in visible_after(&mut None, text).chars() {
        if c.is_alphanumeric() {
            word.push(c);
            continue;
        }
        end_word(&mut out, &mut word);
        match c {
            '\n' => out.push(' '),
            c if letters::is_blank(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
    end_word(&mut out, &mut word);
    out
}

fn end_word(out: &mut String, word: &mut String) {
    out.push_str(word);
    if let Some(alphabets) = letters::mixed(word) {
        out.push_str(&format!("<mixes {}>", alphabets.join(", ")));
    }
    word.clear();
}

/// Who somebody is, as a person is shown it.
pub(crate) fn named(who: &Actor) -> String {
    exact(&who.to_string())
}

/// Whether a character says something only together with the one after it.
pub(crate) fn is_joining(c: char) -> bool {
    c == '\r' || c == '\u{200d}' || c == '\u{200c}' || c == '\u{1f3f4}' || letters::is_tag(c)
}

/// What nobody sees, or what acts on a terminal.
fn is_unshown(c: char) -> bool {
    c.is_control() || letters::is_hidden(c)
}

/// Whether a hidden character does ordinary work between its neighbours.
fn holds(last: Option<char>, c: char, next: Option<char>) -> bool {
    let Some(last) = last else { return false };
    match c {
        '\u{200d}' if is_emoji(last) || last == '\u{fe0f}' => next.is_some_and(is_emoji),
        // Scripts whose letters change their form next to each other.
        '\u{200c}' | '\u{200d}' => is_joined(last) && next.is_some_and(is_joined),
        '\u{fe0e}' | '\u{fe0f}' => is_emoji(last) || matches!(last, '0'..='9' | '#' | '*'),
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' => is_han(last),
        _ => false,
    }
}

/// Pictures, and the colours of skin.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}')
        || matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{24c2}')
        || matches!(c, '\u{25a0}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}')
        || matches!(c, '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}')
        || matches!(c, '\u{1f000}'..='\u{1faff}')
}

fn is_joined(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{fb50}'..='\u{fdff}')
        && !matches!(c, '\u{61c}')
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
        || matches!(c, '\u{20000}'..='\u{323af}')
}

/// The tags of a known flag at the begin of a text; anything else in tags is hidden writing.
fn flag(text: &str) -> Option<&str> {
    TAGGED_FLAGS.iter().find_map(|name| {
        let tag = |letter: u8| char::from_u32(0xe0000 + u32::from(letter));
        let tags: String = name.bytes().filter_map(tag).chain(['\u{e007f}']).collect();
        text.starts_with(&tags).then(|| text.get(..tags.len())).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        visible_after(&mut None, text)
    }

    #[test]
    fn ordinary_writing_is_shown_as_it_is() {
        for text in [
            "👩\u{200d}💻 👨\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}\u{200d}🌈 👍🏽 ❤\u{fe0f}",
            "🧑🏿\u{200d}🚀 1\u{fe0f}\u{20e3} 🇩🇪 ☎\u{fe0e}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
            "می\u{200c}خواهم क्\u{200d}ष",
            "葛\u{e0100}",
            "plain\ntext",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_is_hidden_is_shown() {
        for (text, wanted) in [
            ("a\u{202e}b", "a<U+202E>b"),
            ("a\tb\r\nc\rd", "a    b\nc<U+000D>d"),
            ("pay\u{200d}pal", "pay<U+200D>pal"),
            ("👩\u{200d}x", "👩<U+200D>x"),
            ("\u{200d}👩", "<U+200D>👩"),
            ("a\u{200b}b\u{feff}", "a<U+200B>b<U+FEFF>"),
            ("😀\u{e0041}\u{e0042}", "😀<U+E0041><U+E0042>"),
            ("🏴\u{e0041}\u{e007f}", "🏴<U+E0041><U+E007F>"),
            ("😀\u{fe0f}\u{fe0f}", "😀\u{fe0f}<U+FE0F>"),
            ("😀\u{e0101}\u{e0102}", "😀<U+E0101><U+E0102>"),
            ("\u{1b}[2J", "<U+001B>[2J"),
            ("ا\u{202b}ب", "ا<U+202B>ب"),
        ] {
            assert_eq!(shown(text), wanted);
        }
    }

    #[test]
    fn what_a_person_approves_shows_every_blank() {
        let text = "rm\u{a0}-rf\u{2003}\u{3000}\u{2800}x y\u{200b}";
        assert_eq!(exact(text), "rm<U+00A0>-rf<U+2003><U+3000><U+2800>x y<U+200B>");
    }

    #[test]
    fn a_word_that_mixes_alphabets_is_marked() {
        let ada = Actor::Agent("\u{430}da".into());
        assert_eq!(named(&ada), "agent:\u{430}da<mixes Cyrillic, Latin>");
        for text in ["agent:ада", "Ada и Ева", "Zoë", "λ is a letter"] {
            assert_eq!(exact(text), text);
        }
    }

    /// Words come in pieces, and what holds two of them together comes between.
    #[test]
    fn a_text_in_pieces_is_shown_as_a_whole() {
        let text =
            "Go 👩\u{200d}💻 🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f} a\u{200d}b!";
        let (mut last, mut rest, mut out) = (None, String::new(), String::new());
        for c in text.chars() {
            rest.push(c);
            let end = rest.trim_end_matches(is_joining).len();
            let ready = rest.drain(..end).collect::<String>();
            out.push_str(&visible_after(&mut last, &ready));
        }
        assert_eq!(out, shown(text));
    }
}
