//! Decides whether a request that failed is tried again, when, and how often.

use std::sync::atomic::{AtomicU64, Ordering};

use toolgate_kernel::event::{FaultKind, Worth};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::time::Timestamp;

/// How often and how soon a request is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// Tries of one request, the first among them.
    pub attempts_max: u32,
    /// Milliseconds of the first wait at most; each later one may be twice as long.
    pub backoff_ms: u64,
    /// Milliseconds of any such wait at most.
    pub backoff_ms_max: u64,
    /// Milliseconds a server may ask to wait; beyond that the request fails and says until when.
    pub asked_ms_max: u64,
}

/// Milliseconds of the first wait.
const BACKOFF_MS: u64 = 500;

impl Retries {
    /// As the limits say.
    pub fn within(limits: &Limits) -> Self {
        Self {
            attempts_max: u32::try_from(limits.attempts_max).unwrap_or(u32::MAX),
            backoff_ms: BACKOFF_MS.min(limits.backoff_ms_max),
            backoff_ms_max: limits.backoff_ms_max,
            asked_ms_max: limits.retry_after_ms_max,
        }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

/// What to do after a try that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// Wait, then try again.
    Again {
        /// How long.
        wait_ms: u64,
    },
    /// No further try.
    GiveUp,
    /// No further try: the server wants to be left alone for longer than anybody waits.
    Until(Timestamp),
}

/// What is known of the tries so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tries {
    /// How many failed, the last among them.
    pub(crate) failed: u32,
    /// How many of them failed in the same way as the last.
    pub(crate) alike: u32,
    /// Milliseconds until the turn must be over.
    pub(crate) left_ms: u64,
}

impl Retries {
    /// What to do after a try that failed in this way; `asked_ms` is what the server asks to wait.
    pub(crate) fn next(
        &self,
        kind: FaultKind,
        asked_ms: Option<u64>,
        tries: Tries,
        now: Timestamp,
        dice: &Dice,
    ) -> Next {
        let worth = kind.worth();
        if worth == Worth::Never {
            return Next::GiveUp;
        }
        if let Some(asked_ms) = asked_ms.filter(|ms| *ms > self.asked_ms_max) {
            return Next::Until(now.plus_ms(asked_ms));
        }
        let spent = tries.failed >= self.attempts_max;
        if spent || worth == Worth::Once && tries.alike > 1 {
            return Next::GiveUp;
        }
        let wait_ms = match (worth, asked_ms) {
            // Another word of the model is not worth waiting for.
            (Worth::Once, None) => 0,
            // Those who are told the same moment must not all come back at it.
            (_, Some(asked_ms)) => asked_ms.saturating_add(dice.up_to(self.backoff_ms)),
            (_, None) => dice.up_to(self.backoff(tries.failed)),
        };
        if wait_ms >= tries.left_ms { Next::GiveUp } else { Next::Again { wait_ms } }
    }

    /// The longest wait after so many failures.
    fn backoff(&self, failed: u32) -> u64 {
        let doubled = 1_u64.checked_shl(failed.saturating_sub(1)).unwrap_or(u64::MAX);
        self.backoff_ms.saturating_mul(doubled).min(self.backoff_ms_max)
    }
}

/// Chance, from a seed that is handed in.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    /// Dice that always fall the same way for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number from zero to `max`, both possible.
    pub(crate) fn up_to(&self, max: u64) -> u64 {
        // SplitMix64: good enough to spread waits, and no more is asked of it.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        z.checked_rem(max.saturating_add(1)).unwrap_or(z)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_767_225_600_000);

    fn next(kind: FaultKind, asked_ms: Option<u64>, failed: u32, alike: u32) -> Next {
        let tries = Tries { failed, alike, left_ms: 120_000 };
        Retries::default().next(kind, asked_ms, tries, NOW, &Dice::new(7))
    }

    #[test]
    fn what_cannot_get_better_is_not_tried_again() {
        use FaultKind as K;
        let never = [
            K::Billing,
            K::Unauthorized,
            K::NotFound,
            K::BadRequest,
            K::TooLarge,
            K::Filtered,
            K::UnknownFinish,
            K::Redirected,
            K::CircuitOpen,
            K::Unusable,
            K::ToolCallRejected,
            K::ToolRequired,
            K::EvidenceRejected,
        ];
        for kind in never {
            assert_eq!(next(kind, Some(1), 1, 1), Next::GiveUp, "{kind:?}");
        }
        for kind in [K::Truncated, K::MalformedCall, K::NoCalls, K::Unreadable] {
            assert_eq!(next(kind, None, 1, 1), Next::Again { wait_ms: 0 }, "{kind:?}");
            assert_eq!(next(kind, None, 2, 2), Next::GiveUp, "{kind:?}");
        }
    }

    #[test]
    fn trouble_is_tried_four_times_with_longer_and_longer_waits() {
        use FaultKind as K;
        for kind in [K::Unreachable, K::Tls, K::TimedOut, K::RateLimited, K::Overloaded, K::CutOff]
        {
            for (failed, longest) in [(1, 500), (2, 1_000), (3, 2_000)] {
                let Next::Again { wait_ms } = next(kind, None, failed, failed) else {
                    panic!("{kind:?} after {failed}");
                };
                assert!(wait_ms <= longest, "{kind:?} after {failed}: {wait_ms}");
            }
            assert_eq!(next(kind, None, 4, 4), Next::GiveUp);
        }
        assert_eq!(Retries::default().backoff(99), 8_000);
    }

    #[test]
    fn a_server_is_given_the_time_it_asks_for_and_no_more_than_that() {
        let Next::Again { wait_ms } = next(FaultKind::RateLimited, Some(60_000), 1, 1) else {
            panic!("it is not tried again");
        };
        assert!((60_000..=60_500).contains(&wait_ms), "{wait_ms}");
        let until = next(FaultKind::RateLimited, Some(60_001), 1, 1);
        assert_eq!(until, Next::Until(NOW.plus_ms(60_001)));
        let tries = Tries { failed: 1, alike: 1, left_ms: 5_000 };
        let rules = Retries::default();
        let late = rules.next(FaultKind::RateLimited, Some(5_000), tries, NOW, &Dice::new(7));
        assert_eq!(late, Next::GiveUp, "the turn is over before");
    }

    #[test]
    fn waits_are_spread_over_the_whole_range() {
        let dice = Dice::new(1);
        let thrown: Vec<u64> = (0..400).map(|_| dice.up_to(3)).collect();
        for face in 0..=3 {
            assert!(thrown.iter().filter(|t| **t == face).count() > 50, "{face}");
        }
        assert_eq!(Dice::new(1).up_to(0), 0);
        Dice::new(1).up_to(u64::MAX);
    }
}
