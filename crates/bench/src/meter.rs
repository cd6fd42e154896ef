//! Decides how time is taken: CPU time of this process, the best of several rounds.

use std::time::Duration;

/// Rounds of which the best counts.
pub(crate) const ROUNDS: usize = 7;

/// CPU time this process has used so far, on all its threads.
pub(crate) fn cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // The kernel of the operating system counts in nanoseconds here.
    let nanos = threads.map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanos.sum())
}

/// Nanoseconds per call of the best round, out of a round's total.
pub(crate) fn per_call(best: Duration, calls: u32) -> u64 {
    u64::try_from(best.as_nanos() / u128::from(calls.max(1))).unwrap_or(u64::MAX)
}
