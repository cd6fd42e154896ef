//! Decides what time it is in a test: it moves only when told, or a little at each look.

use std::sync::atomic::{AtomicI64, Ordering};

use toolgate_kernel::time::Timestamp;
use toolgate_runtime::port::Clock;

/// A clock that tests own.
#[derive(Debug)]
pub struct FakeClock {
    now: AtomicI64,
}

impl Default for FakeClock {
    fn default() -> Self {
        // A moment that is easy to recognise: 2026-01-01T00:00:00Z.
        Self { now: AtomicI64::new(1_767_225_600_000) }
    }
}

impl FakeClock {
    /// Moves the clock.
    pub fn pass_ms(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }
}
