//! Decides how moments and deadlines are written; the clock itself is outside the kernel.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970 UTC. Order in the log is by sequence, never by this.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This moment and some milliseconds more.
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this moment; zero when the clock went back.
    pub fn ms_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// A text that is no length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no length of time: write a number and a unit, such as 30m, 8h or 7d")]
pub struct DurationRefusal(String);

/// Reads a length of time such as `30m`, `8h` or `7d`, in milliseconds. A day has 24 hours.
pub fn read_duration_ms(text: &str) -> Result<u64, DurationRefusal> {
    let read = || -> Option<u64> {
        let span: jiff::Span = text.trim().parse().ok()?;
        let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok()?;
        u64::try_from(duration.as_millis()).ok().filter(|ms| *ms > 0)
    };
    read().ok_or_else(|| DurationRefusal(text.to_owned()))
}

/// The moment a run must be over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Deadline(Timestamp);

/// A deadline that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadlineRefusal {
    /// The text has no offset from UTC, or is no time at all.
    #[error("{0:?} is no deadline: write the time with its offset, such as 2026-11-15T18:00:00Z")]
    Unreadable(String),
    /// The moment has passed or is less than a second away.
    #[error("the deadline must be at least one second ahead")]
    TooNear,
}

impl Deadline {
    /// A deadline at least one second ahead of `now`.
    pub fn new(at: Timestamp, now: Timestamp) -> Result<Self, DeadlineRefusal> {
        if at.0.saturating_sub(now.0) < 1_000 {
            return Err(DeadlineRefusal::TooNear);
        }
        Ok(Self(at))
    }

    /// Reads RFC 3339 text; a time without an offset is refused, because it names no moment.
    pub fn parse(text: &str, now: Timestamp) -> Result<Self, DeadlineRefusal> {
        let moment: jiff::Timestamp = text
            .parse()
            .map_err(|_| DeadlineRefusal::Unreadable(text.chars().take(80).collect()))?;
        Self::new(Timestamp(moment.as_millisecond()), now)
    }

    /// The moment itself.
    pub fn at(self) -> Timestamp {
        self.0
    }

    /// Milliseconds left; zero once it has passed.
    pub fn ms_left(self, now: Timestamp) -> u64 {
        self.0.ms_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_moment_ahead() {
        let now = Timestamp(1_000_000);
        assert_eq!(Deadline::new(Timestamp(1_000_500), now), Err(DeadlineRefusal::TooNear));
        assert_eq!(Deadline::new(Timestamp(1_001_000), now).unwrap().ms_left(now), 1_000);
        assert!(Deadline::parse("2026-11-15T18:00:00Z", now).is_ok());
        for naive in ["2026-11-15T18:00:00", "tomorrow", ""] {
            assert!(matches!(Deadline::parse(naive, now), Err(DeadlineRefusal::Unreadable(_))));
        }
    }

    #[test]
    fn a_clock_that_goes_back_never_gives_time_away() {
        assert_eq!(Timestamp(5).ms_since(Timestamp(9)), 0);
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
    }
}
