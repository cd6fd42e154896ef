//! Reads the word lists of a language. `words/README.md` describes the files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// The languages that have word lists, by the code that a configuration names.
const LANGUAGES: &[(&str, &str)] = &[("en", include_str!("words/en.yaml"))];

/// The endings that a listed word may have in a text.
const ENDINGS: &[&str] = &["s", "d", "ed", "ing"];

/// Letters from which on a role word is also found as the beginning of a longer one.
const STEM_LETTERS_MIN: usize = 5;

/// The words of one language.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WordLists {
    pub(super) stop_words: BTreeSet<String>,
    pub(super) abbreviations: BTreeSet<String>,
    pub(super) name_particles: BTreeSet<String>,
    pub(super) adverb_exceptions: BTreeSet<String>,
    pub(super) fillers: BTreeSet<String>,
    inflection_exceptions: BTreeSet<String>,
    pub(super) person: PersonWords,
    pub(super) senses: BTreeMap<String, Vec<String>>,
    pub(super) conflict: BTreeSet<String>,
    pub(super) stakes: StakesWords,
    pub(super) deadline: BTreeSet<String>,
    pub(super) values: ValueWords,
    pub(super) numbers: NumberWords,
    pub(super) age: AgeWords,
    pub(super) time: TimeWords,
    pub(super) roles: RoleWords,
    pub(super) priority: PriorityWords,
    pub(super) scope: BTreeSet<String>,
    pub(super) slots: SlotWords,
    pub(super) placeholders: PlaceholderWords,
}

/// Pronouns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PersonWords {
    pub(super) first: BTreeSet<String>,
    pub(super) second: BTreeSet<String>,
    pub(super) third: BTreeSet<String>,
}

/// Words that tell what is at stake. An item may have several words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StakesWords {
    pub(super) need: Vec<String>,
    pub(super) risk: Vec<String>,
    pub(super) loss: Vec<String>,
    pub(super) survival: Vec<String>,
    pub(super) condition: Vec<String>,
}

/// The closed classes of attribute values that are words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueWords {
    pub(super) colour: BTreeSet<String>,
    pub(super) kinship: BTreeSet<String>,
    pub(super) side: BTreeSet<String>,
}

/// Number words, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NumberWords {
    ones: Vec<String>,
    tens: Vec<String>,
    hundred: String,
}

/// How an age is said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgeWords {
    pub(super) keys: BTreeSet<String>,
    pub(super) before: BTreeSet<String>,
    pub(super) after: Vec<String>,
}

/// Words of time markers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeWords {
    pub(super) months: Vec<String>,
    pub(super) month_companions: BTreeSet<String>,
    pub(super) weekdays: Vec<String>,
    pub(super) units: Vec<TimeUnit>,
    pub(super) later: BTreeSet<String>,
    pub(super) earlier: BTreeSet<String>,
    pub(super) next: BTreeSet<String>,
    pub(super) previous: BTreeSet<String>,
    pub(super) yesterday: BTreeSet<String>,
    pub(super) tomorrow: BTreeSet<String>,
    pub(super) a_unit: BTreeSet<String>,
    pub(super) clock_words: Vec<ClockWord>,
    pub(super) oclock: BTreeSet<String>,
    pub(super) morning_marks: BTreeSet<String>,
    pub(super) evening_marks: BTreeSet<String>,
    pub(super) parts_of_day: BTreeSet<String>,
    pub(super) seasons: BTreeSet<String>,
    pub(super) duration: BTreeSet<String>,
    pub(super) ordinal_endings: Vec<String>,
    pub(super) of: BTreeSet<String>,
}

/// A unit of time and how many days it has.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeUnit {
    pub(super) words: BTreeSet<String>,
    pub(super) days: i64,
}

/// A word for a time of day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClockWord {
    pub(super) word: String,
    pub(super) clock: String,
}

/// The words by which a request is routed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleWords {
    pub(super) planner: Vec<String>,
    pub(super) writer: Vec<String>,
    pub(super) editor: Vec<String>,
    pub(super) critic: Vec<String>,
    pub(super) continuity: Vec<String>,
    pub(super) chief: Vec<String>,
}

/// Words that say how soon something is needed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PriorityWords {
    pub(super) high: BTreeSet<String>,
    pub(super) low: BTreeSet<String>,
}

/// Words that fill the slots of a scene brief.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlotWords {
    pub(super) place: BTreeSet<String>,
    pub(super) aim: BTreeSet<String>,
    pub(super) obstacle: BTreeSet<String>,
    pub(super) turn: BTreeSet<String>,
}

/// What marks a draft as unfinished.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaceholderWords {
    pub(super) words: BTreeSet<String>,
    pub(super) phrases: Vec<String>,
}

static LOADED: LazyLock<BTreeMap<&'static str, WordLists>> = LazyLock::new(|| {
    // A file that cannot be read is a missing language here and a failed test; see `tests`.
    let read =
        |(code, text): &(&'static str, &str)| Some((*code, serde_saphyr::from_str(text).ok()?));
    LANGUAGES.iter().filter_map(read).collect()
});

impl WordLists {
    /// The lists of a language; `None` when it has no file.
    pub(super) fn of(language: &str) -> Option<&'static Self> {
        LOADED.get(language)
    }

    /// Whether a normalised token is this word, or the word with one of the four endings.
    pub(super) fn is_form_of(&self, word: &str, token: &str) -> bool {
        let Some(ending) = token.strip_prefix(word) else { return false };
        ending.is_empty()
            || (ENDINGS.contains(&ending) && !self.inflection_exceptions.contains(token))
    }

    /// The word of a role that a token is, in one of its forms or as the beginning of a longer word.
    pub(super) fn role_word<'a>(&self, words: &'a [String], token: &str) -> Option<&'a str> {
        let fits = |word: &&String| {
            let stem = word.chars().count() >= STEM_LETTERS_MIN && token.starts_with(word.as_str());
            stem || self.is_form_of(word, token)
        };
        words.iter().find(fits).map(String::as_str)
    }

    /// Whether a token is content: at least four letters, and no stop word.
    pub(super) fn is_content(&self, token: &str) -> bool {
        token.chars().filter(|c| c.is_alphabetic()).count() >= 4 && !self.stop_words.contains(token)
    }
}

impl NumberWords {
    /// The value of a number in digits or words, up to one hundred in words.
    pub(super) fn value(&self, token: &str) -> Option<i64> {
        if token.bytes().all(|byte| byte.is_ascii_digit()) {
            return token.parse().ok();
        }
        let place = |list: &[String], word: &str| {
            let at = list.iter().position(|listed| listed == word)?;
            i64::try_from(at).ok()
        };
        if let Some(value) = place(&self.ones, token) {
            return Some(value);
        }
        let tens = |word: &str| Some((place(&self.tens, word)? + 2) * 10);
        if let Some((ten, one)) = token.split_once('-') {
            let one = place(&self.ones, one).filter(|one| (1..=9).contains(one))?;
            return Some(tens(ten)? + one);
        }
        tens(token).or_else(|| (token == self.hundred).then_some(100))
    }
}

impl StakesWords {
    /// The classes with their words, in the order in which they are reported.
    pub(super) fn classes(&self) -> [(&'static str, &[String]); 5] {
        [
            ("need", &self.need),
            ("risk", &self.risk),
            ("loss", &self.loss),
            ("survival", &self.survival),
            ("condition", &self.condition),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_can_be_read() {
        for (code, text) in LANGUAGES {
            let read: Result<WordLists, _> = serde_saphyr::from_str(text);
            let lists = read.unwrap_or_else(|error| panic!("{code}: {error}"));
            assert_eq!((lists.time.months.len(), lists.time.weekdays.len()), (12, 7), "{code}");
            assert_eq!((lists.numbers.ones.len(), lists.numbers.tens.len()), (20, 8), "{code}");
            for word in ["must", "before", "unless", "two"] {
                assert!(*code != "en" || lists.stop_words.contains(word), "{word}");
            }
        }
    }

    #[test]
    fn listed_words_match_whole_tokens_in_their_forms() {
        let words = WordLists::of("en").unwrap();
        for (word, token, matches) in [
            ("risk", "risk", true),
            ("risk", "risked", true),
            ("save", "saved", true),
            ("die", "diet", false),
            ("cost", "costume", false),
            ("see", "seed", false),
        ] {
            assert_eq!(words.is_form_of(word, token), matches, "{word} {token}");
        }
        assert_eq!(words.role_word(&words.roles.editor, "credit"), None);
        assert_eq!(words.role_word(&words.roles.editor, "tightening"), Some("tighten"));
    }

    #[test]
    fn numbers_in_words_reach_one_hundred() {
        let numbers = &WordLists::of("en").unwrap().numbers;
        for (text, value) in [
            ("19", Some(19)),
            ("zero", Some(0)),
            ("twelve", Some(12)),
            ("forty-two", Some(42)),
            ("ninety", Some(90)),
            ("hundred", Some(100)),
            ("forty-twelve", None),
            ("many", None),
        ] {
            assert_eq!(numbers.value(text), value, "{text}");
        }
    }
}
