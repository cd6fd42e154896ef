//! Compares attributes of the canon, such as `Eyes: grey`, with what the sentences of a scene say.

use std::ops::Range;

use serde::Serialize;

use super::outline::contains_run;
use super::sources::Source;
use super::text::{Quote, Text, Token, token_words};
use super::word_lists::WordLists;

/// Longest key of an attribute, in characters and tokens.
const KEY_CHARS_MAX: usize = 40;
const KEY_TOKENS_MAX: usize = 4;

/// A closed class of values. Only values of one class are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ValueClass {
    Number,
    Colour,
    Weekday,
    Month,
    Kinship,
    Side,
}

/// A line `Key: value` whose value has a class.
#[derive(Debug)]
pub(super) struct Attribute {
    key: String,
    /// The first word of the key that says something.
    key_word: String,
    /// Whether the key means an age.
    is_age: bool,
    class: ValueClass,
    /// The values of the class, as they are compared.
    values: Vec<String>,
    /// Tokens of the names it belongs to.
    names: Vec<Vec<String>>,
    /// The names as they are shown.
    name: String,
    /// The line, in bytes.
    range: Range<usize>,
}

/// An attribute and a sentence that has a value of the same class.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AttributeCandidate {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) class: ValueClass,
    /// `agrees` or `differs`. It is a candidate, never a verdict.
    pub(super) relation: &'static str,
    pub(super) canon_value: String,
    pub(super) scene_value: String,
    pub(super) canon: Quote,
    pub(super) scene: Quote,
}

/// The attributes of a source. Those of the facts belong to the name before the last one of their
/// path: `/facts/mira/eyes: grey`.
pub(super) fn attributes(source: &Source, lists: &WordLists) -> Vec<Attribute> {
    let title = source.title();
    let mut names = vec![token_words(&title)];
    names.extend(source.aliases().iter().map(|alias| token_words(alias)));
    names.retain(|name| !name.is_empty());
    let mut found = Vec::new();
    for (at, line) in source.text.lines() {
        let Some((key, value)) = key_and_value(line) else { continue };
        let fact = key.strip_prefix("/facts/").map(str::to_owned);
        let (key, names, name) = match fact.as_deref().map(|path| path.rsplit_once('/')) {
            Some(Some((parents, key))) => {
                let parent = parents.rsplit('/').next().unwrap_or(parents).replace(['_', '-'], " ");
                (key.replace(['_', '-'], " "), vec![token_words(&parent)], parent)
            }
            Some(None) => continue,
            None => (key, names.clone(), title.clone()),
        };
        let words = token_words(&key);
        let key_word = words.iter().find(|word| !lists.stop_words.contains(*word)).cloned();
        let (Some(key_word), Some((class, values))) = (key_word, classified(&value, lists)) else {
            continue;
        };
        if key.chars().count() > KEY_CHARS_MAX || words.len() > KEY_TOKENS_MAX {
            continue;
        }
        let is_age = lists.age.keys.contains(&key_word);
        let range = source.text.line_range(at);
        found.push(Attribute { key, key_word, is_age, class, values, names, name, range });
    }
    found
}

/// Key and value of a line: plain, as a list item, in bold, or as a row of a table.
fn key_and_value(line: &str) -> Option<(String, String)> {
    let bare = |text: &str| {
        text.trim_matches(|c: char| c.is_whitespace() || "*_>|".contains(c)).to_owned()
    };
    let trimmed = line.trim();
    if let Some(row) = trimmed.strip_prefix('|') {
        let mut cells = row.split('|').map(bare);
        let (key, value) = (cells.next()?, cells.next()?);
        let ruled = key.chars().all(|c| matches!(c, '-' | ':' | ' '));
        return (!ruled && !value.is_empty()).then_some((key, value));
    }
    let item = trimmed.trim_start_matches(['-', '*', '+', ' ']);
    let (key, value) = item.split_once(':')?;
    let (key, value) = (bare(key), bare(value));
    (!key.is_empty() && !value.is_empty()).then_some((key, value))
}

/// The class of the first classed word of a value, and all its values of that class.
fn classified(value: &str, lists: &WordLists) -> Option<(ValueClass, Vec<String>)> {
    let words = token_words(value);
    let class = words.iter().find_map(|word| class_of(word, lists))?.0;
    let of_class = |word: &String| class_of(word, lists).filter(|(own, _)| *own == class);
    Some((class, words.iter().filter_map(of_class).map(|(_, value)| value).collect()))
}

/// The class of a word, and the value it stands for: `nineteen` is `19`.
fn class_of(word: &str, lists: &WordLists) -> Option<(ValueClass, String)> {
    let named = |list: &[String]| list.iter().any(|listed| listed == word);
    let class = if let Some(number) = lists.numbers.value(word) {
        return Some((ValueClass::Number, number.to_string()));
    } else if lists.values.colour.contains(word) {
        ValueClass::Colour
    } else if named(&lists.time.weekdays) {
        ValueClass::Weekday
    } else if named(&lists.time.months) {
        ValueClass::Month
    } else if lists.values.kinship.contains(word) {
        ValueClass::Kinship
    } else if lists.values.side.contains(word) {
        ValueClass::Side
    } else {
        return None;
    };
    Some((class, word.to_owned()))
}

/// The sentences of a scene that say something of an attribute of a canon source.
pub(super) fn candidates(
    canon: &Source,
    scene: &Source,
    lists: &WordLists,
) -> Vec<AttributeCandidate> {
    let text = &scene.text;
    let mut found = Vec::new();
    for attribute in attributes(canon, lists) {
        for paragraph in &text.paragraphs {
            let words: Vec<String> =
                text.tokens_in(&paragraph.tokens).iter().map(|token| token.norm.clone()).collect();
            if !attribute.names.iter().any(|name| contains_run(&words, name)) {
                continue;
            }
            for sentence in text.sentences.get(paragraph.sentences.clone()).unwrap_or_default() {
                let tokens = text.tokens_in(&sentence.tokens);
                let Some(value) = attribute.value_in(tokens, lists) else { continue };
                let agrees = attribute.values.contains(&value);
                found.push(AttributeCandidate {
                    name: attribute.name.clone(),
                    key: attribute.key.clone(),
                    class: attribute.class,
                    relation: if agrees { "agrees" } else { "differs" },
                    canon_value: attribute.values.join(" "),
                    scene_value: value,
                    canon: line_quote(&canon.text, &canon.reference, &attribute.range),
                    scene: text.quote(&scene.reference, sentence.range.clone()),
                });
            }
        }
    }
    // What differs is what an editor looks for; the order is else that of the canon.
    found.sort_by_key(|candidate| candidate.relation == "agrees");
    found
}

fn line_quote(text: &Text, source: &str, range: &Range<usize>) -> Quote {
    text.quote(source, range.clone())
}

impl Attribute {
    /// The value that a sentence gives: one that agrees, else the one nearest to the key.
    fn value_in(&self, tokens: &[Token], lists: &WordLists) -> Option<String> {
        if self.is_age
            && let Some(age) = age_in(tokens, lists)
        {
            return Some(age);
        }
        let key = tokens.iter().position(|token| same_number(&self.key_word, &token.norm))?;
        let values = tokens.iter().enumerate().filter(|(at, _)| *at != key);
        let mut values: Vec<(usize, String)> = values
            .filter_map(|(at, token)| {
                let (class, value) = class_of(&token.norm, lists)?;
                (class == self.class).then_some((at.abs_diff(key), value))
            })
            .collect();
        values.sort_by_key(|(distance, value)| (!self.values.contains(value), *distance));
        values.into_iter().next().map(|(_, value)| value)
    }
}

/// The number of `nineteen years old` or `aged 19`.
fn age_in(tokens: &[Token], lists: &WordLists) -> Option<String> {
    for (at, token) in tokens.iter().enumerate() {
        let Some(number) = lists.numbers.value(&token.norm) else { continue };
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let rest: Vec<String> =
            tokens.iter().skip(at + 1).take(3).map(|token| token.norm.clone()).collect();
        let after = lists.age.after.iter().any(|phrase| rest.starts_with(&token_words(phrase)));
        if after || before.is_some_and(|before| lists.age.before.contains(&before.norm)) {
            return Some(number.to_string());
        }
    }
    None
}

/// Whether two words are one, in singular or plural.
fn same_number(one: &str, other: &str) -> bool {
    let plural =
        |word: &str, of: &str| word.strip_prefix(of).is_some_and(|end| matches!(end, "s" | "es"));
    one == other || plural(one, other) || plural(other, one)
}
