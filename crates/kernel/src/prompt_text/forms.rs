//! Makes the forms in which a text is looked through: as written, and as a reader or a model may
//! take it.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::letters::{is_blank, is_hidden};

use super::skeleton::plain_letters;

/// How the patterns are held against a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Letter by letter.
    Exact,
    /// `i` and `l` are one letter, and so are `rn` and `m`.
    LookAlike,
}

/// One form of a text.
pub(super) struct Form {
    pub(super) text: String,
    pub(super) reading: Reading,
}

/// Single letters in a row, with the same sign between each two.
static SPACED_LETTERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let signs = [" ", r"\.", ",", "-", "_", r"\*", "·", r"\|", "/", r"\+", "~"];
    let rows = signs.map(|sign| format!(r"(?:[\pL\pN]{sign})+[\pL\pN]"));
    Regex::new(&format!(r"\b(?:{})\b", rows.join("|"))).ok()
});

static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)&#(\d{1,7});|&#x([0-9a-f]{1,6});|\\u\{?([0-9a-f]{4,6})\}?|\\x([0-9a-f]{2})|%([0-7][0-9a-f])",
    )
    .ok()
});

/// What splits a word without being seen when the text is shown as HTML or Markdown.
static MARKUP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"</?[a-zA-Z][^<>]{0,80}>|<!--[^>]{0,80}-->|[*`~_\\]+").ok());

/// The forms of a text, the plain one first, none twice.
pub(super) fn forms(text: &str) -> Vec<Form> {
    let mut forms = vec![Form { text: text.to_owned(), reading: Reading::Exact }];
    let mut add = |text: String, reading: Reading| {
        if !forms.iter().any(|form| form.text == text && form.reading == reading) {
            forms.push(Form { text, reading });
        }
    };
    let read = read_form(text);
    add(read.clone(), Reading::Exact);
    add(join_spaced(&read), Reading::Exact);
    add(join_spaced(&as_letters(&read)), Reading::LookAlike);
    let shown = replace(&MARKUP, &read, |_| String::new());
    add(shown, Reading::Exact);
    add(read.replace(['_', '-'], " "), Reading::Exact);
    let unescaped = read_form(&replace(&ESCAPES, text, unescape));
    add(unescaped, Reading::Exact);
    forms
}

/// The letters of a text alone, in small ones, without anything between them.
pub(super) fn squeezed(text: &str) -> String {
    let shown = replace(&MARKUP, &read_form(text), |_| String::new());
    let letters = as_letters(&shown);
    letters.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The text as it is read: plain letters, one kind of blank, nothing hidden.
fn read_form(text: &str) -> String {
    let shown = text.chars().filter(|c| !is_hidden(*c));
    let shown: String = shown.map(|c| if is_blank(c) { ' ' } else { c }).collect();
    plain_letters(&shown)
}

/// Words that are written letter by letter, as words.
fn join_spaced(text: &str) -> String {
    replace(&SPACED_LETTERS, text, |found| {
        let whole = found.get(0).map_or("", |whole| whole.as_str());
        whole.chars().filter(|c| c.is_alphanumeric()).collect()
    })
}

/// Digits and signs that stand for letters inside words, as letters.
fn as_letters(text: &str) -> String {
    text.split_inclusive(char::is_whitespace)
        .map(|word| {
            let alone = |word: &str| matches!(word, "0" | "1" | "3" | "4" | "5" | "7" | "@" | "$");
            let is_word = word.chars().any(char::is_alphabetic) || alone(word.trim());
            if is_word { word.chars().map(letter).collect() } else { word.to_owned() }
        })
        .collect()
}

fn letter(c: char) -> char {
    match c {
        '0' => 'o',
        '1' | '!' | '|' | '¡' => 'i',
        '3' | '€' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        '8' => 'b',
        c => c,
    }
}

fn unescape(found: &Captures<'_>) -> String {
    let number = |group: usize, radix: u32| {
        let digits = found.get(group)?.as_str();
        u32::from_str_radix(digits, radix).ok().and_then(char::from_u32)
    };
    let read = number(1, 10).or_else(|| (2..=5).find_map(|group| number(group, 16)));
    read.map(String::from).unwrap_or_default()
}

fn replace(
    pattern: &LazyLock<Option<Regex>>,
    text: &str,
    with: impl Fn(&Captures<'_>) -> String,
) -> String {
    match &**pattern {
        Some(pattern) => pattern.replace_all(text, with).into_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_forms_compiles() {
        assert!(SPACED_LETTERS.is_some() && ESCAPES.is_some() && MARKUP.is_some());
    }

    #[test]
    fn a_text_is_read_in_all_its_forms() {
        for (text, form) in [
            ("ign\u{43e}re", "ignore"),
            ("ig\u{200b}nore", "ignore"),
            ("ignore_all-rules", "ignore all rules"),
            ("i g n o r e  a l l", "ignore  all"),
            ("i.g.n.o.r.e a.l.l", "ignore all"),
            ("1gn0re @ll", "ignore all"),
            ("ig**no**re", "ignore"),
            ("ig<b></b>nore", "ignore"),
            ("&#105;gnore", "ignore"),
            ("&#x69;gnore", "ignore"),
            ("\\u0069gnore %61ll", "ignore all"),
        ] {
            assert!(forms(text).iter().any(|of| of.text == form), "{text}: {form}");
        }
        assert_eq!(forms("Quote the text.").len(), 2);
        assert_eq!(squeezed("I.g-n o~r*e"), "ignore");
    }
}
