//! Decides what time it is, for everybody.

use toolgate_kernel::time::Timestamp;

/// Tells the time. Tests own theirs.
pub trait Clock: Send + Sync {
    /// The moment now.
    fn now(&self) -> Timestamp;
}
