//! Decides how time is taken: CPU time of this process, the best of several rounds.

use std::time::Duration;

/// Rounds of which the best counts.
pub(crate) const ROUNDS: usize = 7;

/// CPU time this process has used so far, on all its threads.
pub(crate) fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// Nanoseconds per call of the best round, out of a round's total.
pub(crate) fn per_call(best: Duration, calls: u32) -> u64 {
    u64::try_from(best.as_nanos() / u128::from(calls.max(1))).unwrap_or(u64::MAX)
}
