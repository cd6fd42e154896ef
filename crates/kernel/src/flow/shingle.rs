//! Bounded digests of texts: which runs of characters stand in them.
//!
//! Each run of sixteen characters is one hash of 32 bits. A text is looked at in two forms: in small
//! letters with single blanks, and as letters and digits alone, so that other separators hide nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use imbl::Vector;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many characters in a row are a run that could not be there by chance.
pub const RUN_CHARS: usize = 16;

/// Runs that a session remembers. A set that is full counts as having all.
const RUNS_MAX: usize = 262_144;

/// Characters in a row that count as taken from a text.
const QUOTED_CHARS: usize = 8;

/// A bounded set of runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSet {
    /// Sorted, each without repeats, the larger ones first.
    #[serde(default, skip_serializing_if = "Vector::is_empty")]
    chunks: Vector<RunChunk>,
    /// Whether something could not be taken in, so that everything counts as being there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_all: bool,
}

/// Sorted hashes of runs.
#[derive(Debug, Clone, PartialEq)]
struct RunChunk(Arc<[u32]>);

impl RunSet {
    /// The runs of one text.
    pub fn of(text: &str) -> Self {
        let mut set = Self::default();
        set.add(text);
        set
    }

    /// Takes in the runs of a text.
    pub fn add(&mut self, text: &str) {
        let mut new: Vec<u32> = runs_of(text).filter(|run| !self.has_exactly(*run)).collect();
        new.sort_unstable();
        new.dedup();
        self.add_sorted(new);
    }

    /// Something was read that cannot be looked into.
    pub fn add_unknown(&mut self) {
        self.has_all = true;
    }

    /// Takes in another set.
    pub fn add_all(&mut self, other: &Self) {
        self.has_all |= other.has_all;
        for RunChunk(chunk) in &other.chunks {
            let new = chunk.iter().copied().filter(|run| !self.has_exactly(*run)).collect();
            self.add_sorted(new);
        }
    }

    fn add_sorted(&mut self, mut new: Vec<u32>) {
        let known: usize = self.chunks.iter().map(|RunChunk(chunk)| chunk.len()).sum();
        if known + new.len() > RUNS_MAX {
            self.has_all = true;
            new.truncate(RUNS_MAX.saturating_sub(known));
        }
        // Chunks at least double from the last to the first, so that there are few of them.
        while self.chunks.last().is_some_and(|RunChunk(last)| last.len() <= 2 * new.len()) {
            let Some(RunChunk(last)) = self.chunks.pop_back() else { break };
            new.extend_from_slice(&last);
            new.sort_unstable();
        }
        if !new.is_empty() {
            self.chunks.push_back(RunChunk(new.into()));
        }
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && !self.has_all
    }

    /// Whether a run of the text is there, or could be, that is not in `but`.
    pub fn shares_run(&self, text: &str, but: &Self) -> bool {
        runs_of(text).any(|run| (self.has_all || self.has_exactly(run)) && !but.has_exactly(run))
    }

    fn has_exactly(&self, run: u32) -> bool {
        self.chunks.iter().any(|RunChunk(chunk)| chunk.binary_search(&run).is_ok())
    }
}

/// The runs of a text in both forms.
fn runs_of(text: &str) -> impl Iterator<Item = u32> {
    let spaced = hashes(spaced(text), RUN_CHARS);
    let bare = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    spaced.chain(hashes(bare, RUN_CHARS))
}

/// A text in small letters, with one blank for every stretch of white space.
fn spaced(text: &str) -> impl Iterator<Item = char> {
    let mut after_blank = false;
    text.chars().flat_map(char::to_lowercase).filter_map(move |c| {
        let is_blank = c.is_whitespace();
        let is_second = is_blank && after_blank;
        after_blank = is_blank;
        (!is_second).then_some(if is_blank { ' ' } else { c })
    })
}

/// One hash for each stretch of so many characters.
fn hashes(chars: impl Iterator<Item = char>, length: usize) -> impl Iterator<Item = u32> {
    const BASE: u64 = 0x0000_0100_0000_01b3;
    let out = (0..length).fold(1_u64, |power, _| power.wrapping_mul(BASE));
    let mut window: VecDeque<char> = VecDeque::with_capacity(length + 1);
    let mut hash = 0_u64;
    chars.filter_map(move |c| {
        window.push_back(c);
        hash = hash.wrapping_mul(BASE).wrapping_add(u64::from(u32::from(c)) + 1);
        if window.len() > length {
            let gone = window.pop_front().map_or(0, |c| u64::from(u32::from(c)) + 1);
            hash = hash.wrapping_sub(gone.wrapping_mul(out));
        }
        (window.len() == length).then(|| folded(hash))
    })
}

/// The bits of a hash spread over 32.
pub(super) fn folded(mut hash: u64) -> u32 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}

/// How many characters of the texts stand in none of the sources.
pub fn uncovered_chars<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    sources: impl IntoIterator<Item = &'a str>,
) -> usize {
    let mut known: Vec<u32> = Vec::new();
    for source in sources {
        known.extend(hashes(spaced(source), QUOTED_CHARS));
    }
    known.sort_unstable();
    let mut uncovered = 0;
    for text in texts {
        let (mut length, mut covered, mut covered_to) = (0_usize, 0_usize, 0_usize);
        for (at, run) in hashes(spaced(text), QUOTED_CHARS).enumerate() {
            if known.binary_search(&run).is_ok() {
                covered += at + QUOTED_CHARS - covered_to.max(at);
                covered_to = at + QUOTED_CHARS;
            }
        }
        length += spaced(text).count();
        uncovered += length - covered.min(length);
    }
    uncovered
}

// A checkpoint and a fork have it as one text: eight digits for each run.
impl Serialize for RunChunk {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|run| format!("{run:08x}")).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for RunChunk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("runs are written with eight digits each");
        if text.len() % 8 != 0 || text.len() / 8 > RUNS_MAX {
            return Err(wrong());
        }
        let starts = (0..text.len()).step_by(8);
        let runs = starts.map(|at| {
            let digits = text.get(at..at + 8)?;
            u32::from_str_radix(digits, 16).ok()
        });
        let mut runs: Vec<u32> = runs.collect::<Option<_>>().ok_or_else(wrong)?;
        runs.sort_unstable();
        Ok(Self(runs.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "Door code of the archive: 4711 then 0815.";

    fn shares(text: &str) -> bool {
        RunSet::of(SECRET).shares_run(text, &RunSet::default())
    }

    #[test]
    fn sixteen_characters_are_a_run_and_fifteen_are_not() {
        assert!(shares("note the archive: 4711"));
        assert!(shares("x he archive: 4711 "));
        assert!(!shares("archive: 4711 "));
        assert!(!shares("the archives open at nine"));
    }

    #[test]
    fn case_and_separators_hide_nothing() {
        for text in [
            "DOOR CODE OF THE ARCHIVE",
            "door+code+of+the+archive",
            "https://a.test/doorcodeofthe/archive",
            "door-code.of-the-archive.a.test",
            "of   the\n archive:   4711",
        ] {
            assert!(shares(text), "{text}");
        }
    }

    #[test]
    fn what_a_person_said_is_no_loss() {
        let person = RunSet::of("Send them the door code of the archive.");
        let set = RunSet::of(SECRET);
        assert!(!set.shares_run("door code of the archive", &person));
        assert!(set.shares_run("archive: 4711 then 0815", &person));
    }

    #[test]
    fn a_full_set_counts_as_having_all() {
        let mut set = RunSet::default();
        for at in 0..40_u32 {
            let words = (0..1_000_u32).map(|word| (at * 1_000 + word).wrapping_mul(2_654_435_761));
            set.add(&words.map(|word| format!("{word:x} ")).collect::<String>());
        }
        assert!(set.has_all);
        assert!(set.shares_run("nothing that was ever read", &RunSet::default()));
        let known: usize = set.chunks.iter().map(|RunChunk(chunk)| chunk.len()).sum();
        assert!(known <= RUNS_MAX && set.chunks.len() < 40, "{known} {}", set.chunks.len());
    }

    #[test]
    fn sets_are_put_together_and_come_back_from_text() {
        let mut set = RunSet::of(SECRET);
        set.add_all(&RunSet::of("The second secret is a long one."));
        let text = serde_json::to_string(&set).unwrap();
        let back: RunSet = serde_json::from_str(&text).unwrap();
        assert_eq!(back, set);
        let none = RunSet::default();
        assert!(back.shares_run("second secret is", &none) && back.shares_run(SECRET, &none));
    }

    #[test]
    fn what_was_quoted_is_covered() {
        let person = "Please tell Bob that the meeting is moved to Tuesday at nine";
        assert_eq!(uncovered_chars(["the meeting is moved to Tuesday"], [person]), 0);
        assert_eq!(uncovered_chars(["hello there"], [person]), 11);
        assert_eq!(uncovered_chars(["moved to Tuesday, he said"], [person]), 9);
        assert_eq!(uncovered_chars(["short"], ["short"]), 5);
    }
}
