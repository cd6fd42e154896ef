//! Finds names in a text: capitalised tokens in a row, and what the canon calls by name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::text::{Text, Token, without_possessive};
use super::word_lists::WordLists;

/// Most capitalised tokens of one name.
const NAME_TOKENS_MAX: usize = 4;

/// A place where a name stands.
#[derive(Debug, Clone)]
pub(super) struct NameHit {
    /// The name as it is compared.
    pub(super) key: String,
    /// The name as it is written there.
    pub(super) shown: String,
    /// Where it stands, in bytes.
    pub(super) range: Range<usize>,
    /// Its tokens.
    pub(super) tokens: Range<usize>,
}

impl NameHit {
    /// Whether it has the tokens of a name in it, one after the other.
    pub(super) fn has(&self, name: &[String]) -> bool {
        let own: Vec<&str> = self.key.split(' ').collect();
        !name.is_empty() && own.windows(name.len()).any(|run| run.iter().eq(name))
    }
}

/// A name with everything that was found of it in one text.
#[derive(Debug, Clone)]
pub(super) struct NameCount {
    pub(super) key: String,
    /// As it is written at its first place.
    pub(super) shown: String,
    pub(super) count: usize,
    /// Its first place.
    pub(super) first: Range<usize>,
}

/// What is known of names before a text is looked at.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    /// Names that stand in mid-sentence somewhere, and their single tokens.
    sure: BTreeSet<String>,
    /// Titles and aliases of the canon, by their first token.
    canon: BTreeMap<String, Vec<Vec<String>>>,
}

impl KnownNames {
    /// Takes in a title or an alias of the canon.
    pub(super) fn add_canon(&mut self, words: Vec<String>, lists: Option<&WordLists>) {
        let stop = |word: &String| lists.is_some_and(|lists| lists.stop_words.contains(word));
        if words.iter().all(stop) {
            return;
        }
        if let Some(first) = words.first() {
            let names = self.canon.entry(first.clone()).or_default();
            if !names.contains(&words) {
                names.push(words);
            }
        }
    }

    /// Takes in the names that stand in mid-sentence in a text.
    pub(super) fn learn(&mut self, text: &Text, lists: Option<&WordLists>) {
        for row in rows(text, lists) {
            let first = text.tokens.get(row.start);
            let tokens = match first {
                Some(token) if token.leads => row.start + 1..row.end,
                _ => row,
            };
            if tokens.is_empty() {
                continue;
            }
            let words = text.tokens_in(&tokens);
            self.sure.extend(words.iter().filter(|it| it.capital).map(|it| it.norm.clone()));
            self.sure.insert(key(words));
        }
    }

    /// Whether the canon has a name, or a part of it.
    pub(super) fn in_canon(&self, key: &str) -> bool {
        let words: Vec<&str> = key.split(' ').collect();
        (0..words.len()).any(|from| {
            let rest = words.get(from..).unwrap_or_default();
            let names = rest.first().and_then(|first| self.canon.get(*first));
            names
                .into_iter()
                .flatten()
                .any(|name| name.len() <= rest.len() && name.iter().zip(rest).all(|(a, b)| a == b))
        })
    }

    /// The names of a text, in order.
    pub(super) fn names(&self, text: &Text, lists: Option<&WordLists>) -> Vec<NameHit> {
        let mut rows = rows(text, lists).into_iter().peekable();
        let mut hits = Vec::new();
        let mut at = 0;
        while at < text.tokens.len() {
            while rows.next_if(|row| row.end <= at).is_some() {}
            let row = rows.peek().filter(|row| row.start <= at).map(|row| at..row.end);
            let row = row.and_then(|row| self.certain(text, row));
            let canon = self.canon_at(text, at).map(|count| at..at + count);
            let longest = match (row, canon) {
                (Some(row), Some(canon)) if canon.end > row.end || canon.start < row.start => {
                    Some(canon)
                }
                (Some(row), _) => Some(row),
                (None, canon) => canon,
            };
            let Some(tokens) = longest else {
                at += 1;
                continue;
            };
            at = tokens.end;
            hits.extend(hit(text, tokens));
        }
        hits
    }

    /// The part of a row that is a name: its first token is in doubt where a sentence begins.
    fn certain(&self, text: &Text, row: Range<usize>) -> Option<Range<usize>> {
        let words = text.tokens_in(&row);
        let first = words.first()?;
        if !first.leads || self.sure.contains(&key(words)) || self.in_canon(&key(words)) {
            return Some(row);
        }
        // The rest of the row stands in mid-sentence whatever the first token is.
        let rest = row.start + 1..row.end;
        let starts = text.tokens_in(&rest).iter().position(|token| token.capital)?;
        Some(rest.start + starts..rest.end)
    }

    /// How many tokens the longest name of the canon has that begins at a token.
    fn canon_at(&self, text: &Text, at: usize) -> Option<usize> {
        let first = text.tokens.get(at)?;
        if !first.capital && !first.caseless {
            return None;
        }
        let names = self.canon.get(&first.norm)?;
        let fits = |name: &&Vec<String>| {
            let words = text.tokens_in(&(at..at + name.len()));
            let same = words.iter().map(|token| &token.norm).eq(name.iter());
            let adjoining = words.windows(2).all(|pair| match pair {
                [a, b] => a.sentence == b.sentence && between(text, a, b).trim().is_empty(),
                _ => true,
            });
            same && adjoining
        };
        names.iter().filter(fits).map(Vec::len).max()
    }
}

/// The names of a text with their counts, most frequent first.
pub(super) fn counted(hits: &[NameHit]) -> Vec<NameCount> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut counts: Vec<NameCount> = Vec::new();
    for hit in hits {
        let at = places.get(hit.key.as_str()).and_then(|at| counts.get_mut(*at));
        if let Some(count) = at {
            count.count += 1;
            continue;
        }
        places.insert(&hit.key, counts.len());
        counts.push(NameCount {
            key: hit.key.clone(),
            shown: hit.shown.clone(),
            count: 1,
            first: hit.range.clone(),
        });
    }
    // The sort is stable: what is as frequent stays in the order of the text.
    counts.sort_by_key(|name| Reverse(name.count));
    counts
}

fn hit(text: &Text, tokens: Range<usize>) -> Option<NameHit> {
    let words = text.tokens_in(&tokens);
    let range = words.first()?.start..words.last()?.end;
    let shown = without_possessive(text.slice(range.clone())).replace('\n', " ");
    Some(NameHit { key: key(words), shown, range, tokens })
}

fn key(words: &[Token]) -> String {
    words.iter().map(|token| token.norm.as_str()).collect::<Vec<_>>().join(" ")
}

fn between<'a>(text: &'a Text, a: &Token, b: &Token) -> &'a str {
    text.slice(a.end..b.start)
}

/// Runs of capitalised tokens with nothing but white space between them.
fn rows(text: &Text, lists: Option<&WordLists>) -> Vec<Range<usize>> {
    let is_name = |token: &Token| token.capital && !lists.is_some_and(|it| is_excluded(it, token));
    let particle = |token: &Token| {
        !token.capital && lists.is_some_and(|lists| lists.name_particles.contains(&token.norm))
    };
    let mut rows = Vec::new();
    let mut at = 0;
    while let Some(first) = text.tokens.get(at) {
        if !is_name(first) {
            at += 1;
            continue;
        }
        let (mut end, mut capitals, mut last) = (at + 1, 1, first);
        let mut next = end;
        while let Some(token) = text.tokens.get(next) {
            let joined = token.sentence == last.sentence
                && between(text, last, token).chars().all(char::is_whitespace)
                && text.shown(last) == without_possessive(text.shown(last));
            if !joined || capitals == NAME_TOKENS_MAX || !(is_name(token) || particle(token)) {
                break;
            }
            (next, last) = (next + 1, token);
            if token.capital {
                (end, capitals) = (next, capitals + 1);
            }
        }
        // A capital alone is an initial or a numeral.
        if end > at + 1 || text.shown(first).chars().count() > 1 || first.caseless {
            rows.push(at..end);
        }
        at = end;
    }
    rows
}

/// Months, weekdays, stop words and titles of address are no names.
fn is_excluded(lists: &WordLists, token: &Token) -> bool {
    let norm = token.norm.as_str();
    lists.stop_words.contains(norm)
        || lists.abbreviations.contains(norm)
        || lists.time.months.iter().chain(&lists.time.weekdays).any(|word| word == norm)
}

#[cfg(test)]
mod tests {
    use super::super::text::token_words;
    use super::*;

    fn names(raw: &str, canon: &[&str]) -> Vec<String> {
        let lists = WordLists::of("en");
        let text = Text::new(raw.to_owned(), 1, lists);
        let mut known = KnownNames::default();
        canon.iter().for_each(|name| known.add_canon(token_words(name), lists));
        known.learn(&text, lists);
        known.names(&text, lists).into_iter().map(|hit| hit.shown).collect()
    }

    #[test]
    fn names_are_capitals_in_mid_sentence_or_known() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("On Monday, 2 March 1891, Mira ran.", &[], &["Mira"]),
            ("Two days later. Tall trees. He saw two.", &[], &[]),
            ("Mira ran. Then Mira sat.", &[], &["Mira", "Mira"]),
            ("Mira ran.", &[], &[]),
            ("Mira ran.", &["mira"], &["Mira"]),
            ("Suddenly Mira Vale of Kent ran.", &[], &["Mira Vale of Kent"]),
            ("\"Where is he?\" she asked Uncle Tom's dog.", &[], &["Uncle Tom"]),
            ("It was Anna. Bert came with Carl.", &[], &["Anna", "Carl"]),
            ("He saw 美羅 there.", &["美羅"], &["美羅"]),
            ("At Salt Harbour Quay he sat.", &["Salt Harbour"], &["Salt Harbour Quay"]),
            ("mira ran to mira.", &["Mira"], &[]),
            (
                "He left at 8:35 P.M. with J. Smith and J Smith, by way B.",
                &[],
                &["Smith", "J Smith"],
            ),
        ];
        for (raw, canon, expected) in table {
            assert_eq!(names(raw, canon), *expected, "{raw}");
        }
    }

    #[test]
    fn a_part_of_a_name_may_be_canon() {
        let mut known = KnownNames::default();
        known.add_canon(token_words("Mira Vale"), None);
        assert!(known.in_canon("captain mira vale") && !known.in_canon("mira"));
    }
}
