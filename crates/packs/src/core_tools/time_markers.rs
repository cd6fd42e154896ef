//! Finds dates, weekdays, clock times and other words of time in a text.

use std::collections::BTreeSet;
use std::ops::Range;

use jiff::civil::Date;
use serde_json::{Value, json};

use super::sources::Source;
use super::text::{Text, Token};
use super::word_lists::WordLists;

/// A place where a text says when something is.
#[derive(Debug, Clone)]
pub(super) struct TimeMarker {
    pub(super) kind: MarkerKind,
    /// Where it stands, in bytes.
    pub(super) range: Range<usize>,
    /// Its tokens.
    pub(super) tokens: Range<usize>,
    pub(super) value: MarkerValue,
}

/// What kind of time is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerKind {
    Date,
    Weekday,
    Clock,
    Relative,
    PartOfDay,
    Season,
    Duration,
}

/// What a marker says as a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MarkerValue {
    None,
    /// A whole date, with the weekday that is written before it: 1 is Monday.
    Date(Date, Option<i8>),
    /// A month of a year.
    Month(i16, i8),
    /// A date that no calendar has.
    Impossible,
    Clock(String),
    Days(i64),
}

impl MarkerKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Weekday => "weekday",
            Self::Clock => "clock",
            Self::Relative => "relative",
            Self::PartOfDay => "part_of_day",
            Self::Season => "season",
            Self::Duration => "duration",
        }
    }
}

impl MarkerValue {
    /// The value as an answer shows it.
    pub(super) fn shown(&self) -> Value {
        match self {
            Self::None | Self::Impossible => Value::Null,
            Self::Date(date, _) => date.to_string().into(),
            Self::Month(year, month) => format!("{year:04}-{month:02}").into(),
            Self::Clock(clock) => clock.as_str().into(),
            Self::Days(days) => (*days).into(),
        }
    }
}

impl TimeMarker {
    /// The marker as an answer shows it, with the words themselves as the quote.
    pub(super) fn shown(&self, source: &Source) -> Value {
        let quote = source.text.quote(&source.reference, self.range.clone());
        json!({ "quote": quote, "kind": self.kind.as_str(), "value": self.value.shown() })
    }
}

/// The markers of a text, in order; of several that begin at one word the longest.
pub(super) fn time_markers(text: &Text, lists: &WordLists) -> Vec<TimeMarker> {
    let finder = MarkerFinder { text, lists };
    let mut markers = Vec::new();
    let mut at = 0;
    while at < text.tokens.len() {
        match finder.longest_at(at) {
            Some((length, kind, value)) => {
                let tokens = at..at + length;
                let words = text.tokens_in(&tokens);
                let range = match (words.first(), words.last()) {
                    (Some(first), Some(last)) => first.start..last.end,
                    _ => 0..0,
                };
                markers.push(TimeMarker { kind, range, tokens, value });
                at += length;
            }
            None => at += 1,
        }
    }
    markers
}

/// How many tokens were taken, and what they mean.
type Found = (usize, MarkerKind, MarkerValue);

struct MarkerFinder<'a> {
    text: &'a Text,
    lists: &'a WordLists,
}

impl MarkerFinder<'_> {
    fn longest_at(&self, at: usize) -> Option<Found> {
        let found = [
            self.date(at),
            self.weekday(at),
            self.clock(at),
            self.relative(at),
            self.duration(at),
            self.named(at),
        ];
        // The first of the longest: the list above is in order of preference.
        found.into_iter().flatten().reduce(|best, next| if next.0 > best.0 { next } else { best })
    }

    fn token(&self, at: usize) -> Option<&Token> {
        self.text.tokens.get(at)
    }

    fn norm(&self, at: usize) -> &str {
        self.token(at).map_or("", |token| token.norm.as_str())
    }

    /// Whether two neighbours belong to one expression: blanks, a comma or a dot between them.
    fn joined(&self, at: usize) -> bool {
        let pair = (self.token(at), self.token(at + 1));
        let (Some(a), Some(b)) = pair else { return false };
        a.sentence == b.sentence
            && self
                .text
                .slice(a.end..b.start)
                .chars()
                .all(|c| c.is_whitespace() || c == ',' || c == '.')
    }

    fn month(&self, at: usize) -> Option<i8> {
        let token = self.token(at).filter(|token| token.capital)?;
        let place = self.lists.time.months.iter().position(|month| *month == token.norm)?;
        i8::try_from(place + 1).ok()
    }

    fn weekday_number(&self, at: usize) -> Option<i8> {
        let place = self.lists.time.weekdays.iter().position(|day| day == self.norm(at))?;
        i8::try_from(place + 1).ok()
    }

    /// A day of a month: `2`, `2nd`.
    fn day(&self, at: usize) -> Option<i8> {
        let word = self.norm(at);
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic());
        let ending = word.get(digits.len()..).unwrap_or_default();
        let ordinal = self.lists.time.ordinal_endings.iter().any(|listed| listed == ending);
        let day: i8 = digits.parse().ok()?;
        ((1..=31).contains(&day) && (ending.is_empty() || ordinal)).then_some(day)
    }

    fn year(&self, at: usize) -> Option<i16> {
        let word = self.norm(at);
        let plain = (3..=4).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
        if plain { word.parse().ok() } else { None }
    }

    fn date(&self, at: usize) -> Option<Found> {
        let (from, weekday) = match self.weekday_number(at).filter(|_| self.joined(at)) {
            // `Monday, the 2nd of March`.
            Some(day) if self.lists.time.of.contains(self.norm(at + 1)) => (at + 2, Some(day)),
            Some(day) => (at + 1, Some(day)),
            None => (at, None),
        };
        let (length, kind, value) = self.date_alone(from)?;
        let value = if let MarkerValue::Date(date, _) = value {
            MarkerValue::Date(date, weekday)
        } else {
            value
        };
        Some((from - at + length, kind, value))
    }

    fn date_alone(&self, at: usize) -> Option<Found> {
        let found = |length, value| Some((length, MarkerKind::Date, value));
        let whole = |year, month, day| match Date::new(year, month, day) {
            Ok(date) => MarkerValue::Date(date, None),
            Err(_) => MarkerValue::Impossible,
        };
        if let Some((year, month, day)) = iso(self.norm(at)) {
            return found(1, whole(year, month, day));
        }
        if let Some(month) = self.month(at) {
            if self.joined(at) {
                if let Some(day) = self.day(at + 1) {
                    return match self.year(at + 2).filter(|_| self.joined(at + 1)) {
                        Some(year) => found(3, whole(year, month, day)),
                        None => found(2, MarkerValue::None),
                    };
                }
                if let Some(year) = self.year(at + 1) {
                    return found(2, MarkerValue::Month(year, month));
                }
            }
            let before = at.checked_sub(1).map_or("", |before| self.norm(before));
            let companion = self.lists.time.month_companions.contains(before);
            return companion.then_some((1, MarkerKind::Date, MarkerValue::None));
        }
        let day = self.day(at).filter(|_| self.joined(at))?;
        let skipped = usize::from(self.lists.time.of.contains(self.norm(at + 1)));
        let month_at = at + 1 + skipped;
        let month = self.month(month_at)?;
        match self.year(month_at + 1).filter(|_| self.joined(month_at)) {
            Some(year) => found(3 + skipped, whole(year, month, day)),
            None => found(2 + skipped, MarkerValue::None),
        }
    }

    fn weekday(&self, at: usize) -> Option<Found> {
        let capital = self.token(at).is_some_and(|token| token.capital);
        self.weekday_number(at).filter(|_| capital)?;
        Some((1, MarkerKind::Weekday, MarkerValue::None))
    }

    fn clock(&self, at: usize) -> Option<Found> {
        let time = &self.lists.time;
        let found = |length, clock| Some((length, MarkerKind::Clock, MarkerValue::Clock(clock)));
        if let Some(word) = time.clock_words.iter().find(|word| word.word == self.norm(at)) {
            return found(1, word.clock.clone());
        }
        let hour =
            self.lists.numbers.value(self.norm(at)).filter(|hour| (0..=24).contains(hour))?;
        let half = |from: usize, hour: i64| {
            // `pm`, or `P.M.` in two tokens.
            let dotted = match (self.token(from), self.token(from + 1)) {
                (Some(a), Some(b)) => self.text.slice(a.start..b.end).to_lowercase(),
                _ => String::new(),
            };
            let is = |marks: &BTreeSet<String>| match marks.contains(self.norm(from)) {
                true => 1,
                false => 2 * usize::from(marks.contains(&dotted)),
            };
            match (is(&time.evening_marks), is(&time.morning_marks)) {
                (0, 0) => (0, hour),
                (0, tokens) => (tokens, if hour == 12 { 0 } else { hour }),
                (tokens, _) => (tokens, if hour < 12 { hour + 12 } else { hour }),
            }
        };
        if time.oclock.contains(self.norm(at + 1)) {
            return found(2, format!("{hour:02}:00"));
        }
        let (a, b) = (self.token(at)?, self.token(at + 1)?);
        let minutes =
            b.norm.parse::<u8>().ok().filter(|minutes| *minutes < 60 && b.norm.len() == 2);
        if let Some(minutes) = minutes
            && self.text.slice(a.end..b.start) == ":"
        {
            let (more, hour) = half(at + 2, hour);
            return found(2 + more, format!("{hour:02}:{minutes:02}"));
        }
        match half(at + 1, hour) {
            (tokens @ 1.., hour) if self.joined(at) => found(1 + tokens, format!("{hour:02}:00")),
            _ => None,
        }
    }

    /// The days of a unit of time.
    fn unit(&self, at: usize) -> Option<i64> {
        let unit = self.lists.time.units.iter().find(|unit| unit.words.contains(self.norm(at)));
        unit.map(|unit| unit.days)
    }

    fn amount(&self, at: usize) -> Option<i64> {
        let word = self.norm(at);
        let one = self.lists.time.a_unit.contains(word).then_some(1);
        one.or_else(|| self.lists.numbers.value(word)).filter(|_| self.joined(at))
    }

    fn relative(&self, at: usize) -> Option<Found> {
        let time = &self.lists.time;
        let word = self.norm(at);
        let found = |length, days| Some((length, MarkerKind::Relative, MarkerValue::Days(days)));
        if time.yesterday.contains(word) {
            return found(1, -1);
        }
        if time.tomorrow.contains(word) {
            return found(1, 1);
        }
        let step = match (time.next.contains(word), time.previous.contains(word)) {
            (true, _) => Some(1),
            (_, true) => Some(-1),
            _ => None,
        };
        if let Some(step) = step.filter(|_| self.joined(at)) {
            if let Some(days) = self.unit(at + 1) {
                return found(2, step * days);
            }
            if time.parts_of_day.contains(self.norm(at + 1)) {
                return found(2, step);
            }
        }
        let days = self.unit(at + 1)?.checked_mul(self.amount(at)?)?;
        if !self.joined(at + 1) {
            return None;
        }
        let direction = self.norm(at + 2);
        if time.later.contains(direction) {
            found(3, days)
        } else if time.earlier.contains(direction) {
            found(3, -days)
        } else {
            None
        }
    }

    fn duration(&self, at: usize) -> Option<Found> {
        self.lists.time.duration.contains(self.norm(at)).then_some(())?;
        let days = self.unit(at + 2)?.checked_mul(self.amount(at + 1)?)?;
        (self.joined(at) && self.joined(at + 1)).then_some((
            3,
            MarkerKind::Duration,
            MarkerValue::Days(days),
        ))
    }

    fn named(&self, at: usize) -> Option<Found> {
        let time = &self.lists.time;
        let kind = if time.parts_of_day.contains(self.norm(at)) {
            MarkerKind::PartOfDay
        } else if time.seasons.contains(self.norm(at)) {
            MarkerKind::Season
        } else {
            return None;
        };
        Some((1, kind, MarkerValue::None))
    }
}

/// Year, month and day of an ISO date.
fn iso(word: &str) -> Option<(i16, i8, i8)> {
    let mut parts = word.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let sized = year.len() == 4 && month.len() == 2 && day.len() == 2 && parts.next().is_none();
    let parsed = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    sized.then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, words and value.
    type ExpectedMarker = (&'static str, &'static str, &'static str);

    #[test]
    fn markers_are_found_by_their_longest_form() {
        let lists = WordLists::of("en").unwrap();
        let table: &[(&str, &[ExpectedMarker])] = &[
            (
                "On Monday, 2 March 1891, she ran.",
                &[("date", "Monday, 2 March 1891", "\"1891-03-02\"")],
            ),
            ("It was March 2nd, 1891.", &[("date", "March 2nd, 1891", "\"1891-03-02\"")]),
            ("the 2nd of March 1891", &[("date", "2nd of March 1891", "\"1891-03-02\"")]),
            (
                "1891-03-02 came, in May 1892",
                &[("date", "1891-03-02", "\"1891-03-02\""), ("date", "May 1892", "\"1892-05\"")],
            ),
            ("she may last a second; they march on", &[]),
            (
                "It was in May that May came, on 3 May.",
                &[("date", "May", "null"), ("date", "3 May", "null")],
            ),
            ("on 29 February 1891", &[("date", "29 February 1891", "null")]),
            (
                "at 9:30 pm or at five o'clock, by noon, at 9 am",
                &[
                    ("clock", "9:30 pm", "\"21:30\""),
                    ("clock", "five o'clock", "\"05:00\""),
                    ("clock", "noon", "\"12:00\""),
                    ("clock", "9 am", "\"09:00\""),
                ],
            ),
            (
                "Left Munich at 8:35 P.M., on 1st May, early next morning; at 6:46, but late",
                &[
                    ("clock", "8:35 P.M", "\"20:35\""),
                    ("date", "1st May", "null"),
                    ("relative", "next morning", "1"),
                    ("clock", "6:46", "\"06:46\""),
                ],
            ),
            ("It was in March. 2 men came.", &[("date", "March", "null")]),
            (
                "Two days later, a week ago, the next morning, yesterday",
                &[
                    ("relative", "Two days later", "2"),
                    ("relative", "a week ago", "-7"),
                    ("relative", "next morning", "1"),
                    ("relative", "yesterday", "-1"),
                ],
            ),
            (
                "for three weeks of winter, until Friday at dusk",
                &[
                    ("duration", "for three weeks", "21"),
                    ("season", "winter", "null"),
                    ("weekday", "Friday", "null"),
                    ("part_of_day", "dusk", "null"),
                ],
            ),
        ];
        for (raw, expected) in table {
            let text = Text::new((*raw).to_owned(), 1, Some(lists));
            let found: Vec<_> = time_markers(&text, lists)
                .into_iter()
                .map(|it| {
                    (
                        it.kind.as_str(),
                        text.slice(it.range.clone()).to_owned(),
                        it.value.shown().to_string(),
                    )
                })
                .collect();
            let found: Vec<_> =
                found.iter().map(|(a, b, c)| (*a, b.as_str(), c.as_str())).collect();
            assert_eq!(found, *expected, "{raw}");
        }
    }
}
