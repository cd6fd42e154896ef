//! Maps letters to the plain ones that a reader takes them for, so that words are found however
//! they are written.
//!
//! Unicode knows most of these letters: compatibility forms (NFKD) and the confusables of UTS 39.
//! The tables below have those that it maps to another letter, or to none.

use unicode_normalization::UnicodeNormalization;

use crate::letters::is_hidden;

/// Letters that look like a plain one, or are one with something on it.
const LIKE: &[(char, &str)] = &[
    ('a', "аαᴀɑӑӓ"),
    ('b', "ьЬвВβʙƀɓ"),
    ('c', "сϲᴄƈ"),
    ('d', "ԁᴅđɗ"),
    ('e', "еєҽᴇɛѐё"),
    ('f', "ғϝƒꜰ"),
    ('g', "ɡɢցǥ"),
    ('h', "һհнʜħ"),
    ('i', "іιɩıɪӏїꙇ"),
    ('j', "јϳᴊʝ"),
    ('k', "кκᴋƙ"),
    ('l', "ʟłƚɫ"),
    ('m', "мᴍ"),
    ('n', "ոпηɴŋ"),
    ('o', "оοσօᴏøǿӧ"),
    ('p', "рρᴘƥ"),
    ('q', "ԛզ"),
    ('r', "гʀ"),
    ('s', "ѕꜱ"),
    ('t', "тτᴛŧ"),
    ('u', "υսᴜ"),
    ('v', "ѵνᴠ"),
    ('w', "ԝωᴡ"),
    ('x', "хχҳ"),
    ('y', "уγʏўӯ"),
    ('z', "ᴢƶ"),
];

/// Capitals that look like one, where the small letter does not.
const LIKE_CAPITAL: &[(char, &str)] = &[
    ('A', "АΑ"),
    ('B', "Β"),
    ('C', "СϹ"),
    ('E', "ЕΕ"),
    ('H', "НΗ"),
    ('I', "ІΙӀ"),
    ('J', "Ј"),
    ('K', "КΚ"),
    ('M', "МΜ"),
    ('N', "Ν"),
    ('O', "ОΟ"),
    ('P', "РΡ"),
    ('S', "Ѕ"),
    ('T', "ТΤ"),
    ('V', "Ѵ"),
    ('X', "ХΧ"),
    ('Y', "ҮΥУ"),
    ('Z', "Ζ"),
];

/// Marks that stand over, under or across the letter before them. Marks that some scripts are
/// written with are none of these.
pub fn is_mark(c: char) -> bool {
    matches!(u32::from(c),
        0x300..=0x36f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff | 0xfe20..=0xfe2f)
}

/// The text in plain letters, as far as its letters look like them; the marks are gone.
pub fn plain_letters(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    // What has a place of its own in a table is looked up before it is taken apart.
    let parts = text.chars().flat_map(|c| match listed(c) {
        Some(plain) => Parts::Plain(Some(plain)),
        None if is_syllable(c) => Parts::Plain(Some(c)),
        None => Parts::Apart(c.nfkd()),
    });
    let plain = parts.filter(|c| !is_mark(*c)).map(plain);
    plain.nfc().collect()
}

/// A name as it is told from others by a reader: look-alike letters, case, marks, blanks and
/// characters that are not seen make no difference.
pub fn name_skeleton(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !is_hidden(*c)).collect();
    let lower = plain_letters(&shown).to_lowercase();
    let skeleton = lower.chars().filter(|c| c.is_alphanumeric()).map(|c| match c {
        '1' | 'l' => 'i',
        '0' => 'o',
        c => c,
    });
    skeleton.collect::<String>().replace("rn", "m")
}

/// Korean syllables, which are not taken apart.
fn is_syllable(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

/// One character as it is, or all that it is made of.
enum Parts<I> {
    Plain(Option<char>),
    Apart(I),
}

impl<I: Iterator<Item = char>> Iterator for Parts<I> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            Self::Plain(plain) => plain.take(),
            Self::Apart(parts) => parts.next(),
        }
    }
}

fn plain(c: char) -> char {
    if c.is_ascii() {
        return c;
    }
    listed(c).or_else(|| confusable(c)).unwrap_or(c)
}

/// The plain letter of a character that stands in a table here.
fn listed(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c);
    }
    let of = |table: &[(char, &str)], c: char| {
        table.iter().find(|(_, like)| like.contains(c)).map(|(plain, _)| *plain)
    };
    let small = || c.to_lowercase().next().and_then(|small| of(LIKE, small));
    styled(c).or_else(|| of(LIKE_CAPITAL, c)).or_else(|| of(LIKE, c)).or_else(small)
}

/// The one plain letter or digit that UTS 39 has a letter be taken for.
fn confusable(c: char) -> Option<char> {
    let mut letter = [0; 4];
    let mut prototype = unicode_security::skeleton(c.encode_utf8(&mut letter));
    let first = prototype.next().filter(char::is_ascii_alphanumeric)?;
    prototype.next().is_none().then_some(first)
}

/// Letters of alphabets that are the plain one in another dress, where Unicode does not say so.
fn styled(c: char) -> Option<char> {
    let code = u32::from(c);
    let at = |start: u32| u8::try_from((code - start) % 26).ok().map(|at| char::from(b'a' + at));
    match code {
        0x1_f150..=0x1_f169 => at(0x1_f150),
        0x1_f170..=0x1_f189 => at(0x1_f170),
        0x1_f1e6..=0x1_f1ff => at(0x1_f1e6),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_taken_for_what_they_look_like() {
        for (dressed, bare) in [
            ("i\u{336}g\u{336}n\u{336}o\u{336}r\u{336}e\u{336}", "ignore"),
            ("Ígnóre prévìous", "Ignore previous"),
            ("\u{456}gn\u{43e}r\u{435}", "ignore"),
            ("ѕесrеt", "secret"),
            ("ɪɢɴᴏʀᴇ", "ignore"),
            ("\u{1d4d8}\u{1d4f0}\u{1d4f7}\u{1d4f8}\u{1d4fb}\u{1d4ee}", "Ignore"),
            ("\u{ff29}\u{ff27}NORE", "IGNORE"),
            ("\u{24d8}\u{24d6}nore", "ignore"),
            ("ІGNОRЕ", "IGNORE"),
            ("🇮🇬nore", "ignore"),
            ("ⅰgnоre", "ignore"),
            ("天気 ok", "天気 ok"),
            ("한국어 हिन्दी", "한국어 हिन्दी"),
        ] {
            assert_eq!(plain_letters(dressed), bare, "{dressed}");
        }
    }

    #[test]
    fn names_that_look_alike_are_one() {
        for other in
            ["C\u{430}non Checker", "canon_checker", "CANON  CHECKER", "Can0n\u{200b}-Checker"]
        {
            assert_eq!(name_skeleton("Canon Checker"), name_skeleton(other), "{other}");
        }
        for (one, other) in [("file_reader", "fi1e_reader"), ("Timeline", "Tirneline")] {
            assert_eq!(name_skeleton(one), name_skeleton(other), "{other}");
        }
        assert_ne!(name_skeleton("Canon Checker"), name_skeleton("Canon Keeper"));
    }

    #[test]
    fn no_letter_stands_for_two() {
        let all: Vec<char> = LIKE.iter().flat_map(|(_, like)| like.chars()).collect();
        let each: std::collections::BTreeSet<&char> = all.iter().collect();
        assert_eq!(each.len(), all.len());
        assert!(all.iter().all(|c| !c.is_ascii()));
    }
}
