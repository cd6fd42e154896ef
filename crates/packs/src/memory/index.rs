//! Decides which memories are found by which words, and in which order.
//!
//! The index is made of the project's state and is no truth of its own (ADR 0019). It remembers
//! which state it was made of; what has changed since is all that is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_kernel::fold::{Shelf, Slot};

/// How soon another use of a word counts less.
const SATURATION: f64 = 1.2;
/// How much the length of a text counts.
const LENGTH_WEIGHT: f64 = 0.75;
/// Words of a query that count.
const QUERY_WORDS_MAX: usize = 32;
/// Characters of a word that count.
const WORD_CHARS_MAX: usize = 40;
/// Texts that are gone before the index is made anew, at least.
const GONE_MAX: u32 = 1_000;

/// Which texts there are and which words they have.
#[derive(Default)]
pub(super) struct Index {
    seen: Shelf,
    texts: Vec<Text>,
    places: BTreeMap<Arc<str>, u32>,
    /// The texts that have a word, by a hash of the word: it is read far sooner than the word, and
    /// two words with one hash would only find a text too many.
    words: BTreeMap<u64, Vec<Use>>,
    there: u32,
    /// Words of all texts together.
    length: u32,
}

struct Text {
    name: Arc<str>,
    words: u32,
    core: bool,
    there: bool,
}

/// A text that has a word, and how often.
struct Use {
    text: u32,
    times: u16,
}

/// A text that was found, with how well it fits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) name: Arc<str>,
    pub(super) score: f64,
}

impl Index {
    /// Takes in what has changed since the last time.
    pub(super) fn update(
        &mut self,
        now: &Shelf,
        content: impl Fn(&Slot) -> Option<(String, bool)>,
    ) {
        let before = std::mem::replace(&mut self.seen, now.clone());
        for (name, slot) in now.changes_since(&before) {
            self.remove(name);
            if let Some((text, core)) = slot.and_then(&content) {
                self.add(name, &text, core);
            }
        }
        let gone = number(self.texts.len()) - self.there;
        if gone > self.there.max(GONE_MAX) {
            *self = Self::default();
            self.update(now, content);
        }
    }

    fn add(&mut self, name: &str, text: &str, core: bool) {
        let Ok(place) = u32::try_from(self.texts.len()) else { return };
        let mut words: Vec<u64> = split(text).map(|word| hash(&word)).collect();
        let count = number(words.len());
        words.sort_unstable();
        for same in words.chunk_by(|a, b| a == b) {
            let Some(word) = same.first() else { continue };
            let times = u16::try_from(same.len()).unwrap_or(u16::MAX);
            self.words.entry(*word).or_default().push(Use { text: place, times });
        }
        let name: Arc<str> = name.into();
        self.places.insert(Arc::clone(&name), place);
        self.texts.push(Text { name, words: count, core, there: true });
        (self.there, self.length) = (self.there + 1, self.length.saturating_add(count));
    }

    fn remove(&mut self, name: &str) {
        let Some(place) = self.places.remove(name) else { return };
        let Some(text) = self.texts.get_mut(place as usize) else { return };
        text.there = false;
        (self.there, self.length) = (self.there - 1, self.length.saturating_sub(text.words));
    }

    /// The texts that have a word of the query, the best first, by BM25, and how many there are.
    /// Where two fit as well, the one whose name comes first. `core` chooses among them.
    pub(super) fn search(
        &self,
        query: &str,
        core: Option<bool>,
        limit: usize,
    ) -> (Vec<Found>, usize) {
        let mut words: Vec<String> = split(query).collect();
        words.sort_unstable();
        words.dedup();
        words.truncate(QUERY_WORDS_MAX);
        let mut scores = vec![0.0_f64; self.texts.len()];
        let average = f64::from(self.length) / f64::from(self.there.max(1));
        for word in words {
            let Some(uses) = self.words.get(&hash(&word)) else { continue };
            let there = |used: &&Use| self.text(used.text).is_some_and(|text| text.there);
            let having = f64::from(number(uses.iter().filter(there).count()));
            let rarity = (1.0 + (f64::from(self.there) - having + 0.5) / (having + 0.5)).ln();
            for used in uses.iter().filter(there) {
                let length = f64::from(self.text(used.text).map_or(0, |text| text.words));
                let times = f64::from(used.times);
                let weight = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length / average.max(1.0);
                if let Some(score) = scores.get_mut(used.text as usize) {
                    *score += rarity * times * (SATURATION + 1.0) / (times + SATURATION * weight);
                }
            }
        }
        let wanted = |text: &Text| core.is_none_or(|core| text.core == core);
        let scored = self.texts.iter().zip(scores);
        let mut found: Vec<(&Text, f64)> =
            scored.filter(|(text, score)| *score > 0.0 && wanted(text)).collect();
        let total = found.len();
        let better = |a: &(&Text, f64), b: &(&Text, f64)| {
            b.1.total_cmp(&a.1).then_with(|| a.0.name.cmp(&b.0.name))
        };
        if total > limit {
            // Only the best are put in order.
            found.select_nth_unstable_by(limit, better);
            found.truncate(limit);
        }
        found.sort_unstable_by(better);
        let named = |(text, score): (&Text, f64)| Found { name: Arc::clone(&text.name), score };
        (found.into_iter().map(named).collect(), total)
    }

    fn text(&self, place: u32) -> Option<&Text> {
        self.texts.get(place as usize)
    }
}

/// FNV-1a.
fn hash(word: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    word.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The words of a text, in small letters. Scripts without spaces are split into their characters.
fn split(text: &str) -> impl Iterator<Item = String> {
    let runs = text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty());
    runs.flat_map(|run| {
        let mut words = Vec::new();
        let mut word = String::new();
        for c in run.chars() {
            if unspaced(c) {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                words.push(c.to_string());
            } else {
                word.extend(c.to_lowercase());
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    })
    .map(|word| match word.char_indices().nth(WORD_CHARS_MAX) {
        Some((end, _)) => word.get(..end).unwrap_or_default().to_owned(),
        None => word,
    })
}

fn unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{0e00}'..='\u{0eff}')
        || matches!(c, '\u{20000}'..='\u{3ffff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use toolgate_kernel::event::Change;
    use toolgate_kernel::fold::State;
    use toolgate_kernel::key::Key;

    use super::*;

    fn content(slot: &Slot) -> Option<(String, bool)> {
        let text = slot.as_one().and_then(Value::as_str)?;
        Some((text.to_owned(), text.contains('c')))
    }

    fn put(state: &mut State, name: &str, text: &str) {
        let key = Key::parse(&format!("m:{name}")).unwrap();
        state.apply(&Change::Put { key, value: text.into(), v: 1 }).unwrap();
    }

    fn names(index: &Index, query: &str) -> Vec<String> {
        index.search(query, None, 100).0.iter().map(|found| found.name.to_string()).collect()
    }

    #[test]
    fn rare_words_and_short_texts_come_first() {
        let mut state = State::default();
        put(&mut state, "a", "the cat sat on the mat");
        put(&mut state, "b", "the dog sat on the log and then on the mat by the door of the house");
        put(&mut state, "c", "Über 東京 café");
        put(&mut state, "d", "cat cat cat");
        let mut index = Index::default();
        index.update(state.shelf("m").unwrap(), content);
        for (query, expected) in [
            ("CAT", vec!["d", "a"]),
            ("mat", vec!["a", "b"]),
            ("dog the", vec!["b", "a"]),
            ("über", vec!["c"]),
            ("京", vec!["c"]),
            ("caf", vec![]),
            ("?!", vec![]),
        ] {
            assert_eq!(names(&index, query), expected, "{query}");
        }
        let best = |core, limit| {
            let (found, total) = index.search("the cat mat", core, limit);
            (found.iter().map(|found| found.name.to_string()).collect::<Vec<_>>().join(""), total)
        };
        assert_eq!(best(None, 2), ("ab".to_owned(), 3));
        assert_eq!(best(Some(false), 9), ("b".to_owned(), 1));
    }

    proptest! {
        /// However it came about, the index finds what one made anew finds.
        #[test]
        fn an_index_that_was_kept_is_one_made_anew(
            steps in prop::collection::vec((0..12_u8, prop::option::of("[abc]{1,2}( [abc]{1,2}){0,4}")), 1..60),
        ) {
            let (mut state, mut kept) = (State::default(), Index::default());
            let none = Shelf::default();
            for (at, (name, text)) in steps.into_iter().enumerate() {
                match text {
                    Some(text) => put(&mut state, &name.to_string(), &text),
                    None => {
                        let key = Key::parse(&format!("m:{name}")).unwrap();
                        state.apply(&Change::Remove { key }).unwrap();
                    }
                }
                if at % 3 == 0 {
                    kept.update(state.shelf("m").unwrap_or(&none), content);
                }
            }
            let shelf = state.shelf("m").unwrap_or(&none);
            kept.update(shelf, content);
            let mut anew = Index::default();
            anew.update(shelf, content);
            for query in ["a", "b c", "ab", "abc a b c"] {
                prop_assert_eq!(names(&kept, query), names(&anew, query));
            }
            prop_assert_eq!(kept.there, number(shelf.len()));
        }
    }

    #[test]
    fn what_is_gone_does_not_pile_up() {
        let mut index = Index::default();
        for round in 0..5_000 {
            let mut state = State::default();
            put(&mut state, "a", &format!("word{round}"));
            index.update(state.shelf("m").unwrap(), content);
        }
        assert!(number(index.texts.len().max(index.words.len())) <= GONE_MAX + 2);
        assert_eq!(names(&index, "word4999"), ["a"]);
    }
}
