//! Decides where a process may be made to die, for the crash loop only.

/// Names a durable step. With the feature `crash-points` the n-th one that is reached ends the
/// process or fails; without it there is nothing here.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::reached($name);
    };
}

#[cfg(feature = "crash-points")]
pub use counted::{Plot, plot, reached, report};

#[cfg(feature = "crash-points")]
mod counted {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// What is to happen at the n-th point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Plot {
        /// Nothing; points are only counted.
        Count,
        /// The process kills itself at the n-th point.
        KillAt(u64),
        /// The n-th point panics, which ends the driver and leaves the process.
        PanicAt(u64),
    }

    struct Counter {
        plot: Plot,
        total: u64,
        hits: BTreeMap<&'static str, u64>,
    }

    static COUNTER: Mutex<Counter> =
        Mutex::new(Counter { plot: Plot::Count, total: 0, hits: BTreeMap::new() });

    fn counter() -> MutexGuard<'static, Counter> {
        COUNTER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts counting anew.
    pub fn plot(plot: Plot) {
        *counter() = Counter { plot, total: 0, hits: BTreeMap::new() };
    }

    /// How often each point was reached since.
    pub fn report() -> BTreeMap<&'static str, u64> {
        counter().hits.clone()
    }

    /// Called at every point.
    #[allow(clippy::panic)]
    pub fn reached(name: &'static str) {
        let (plot, total) = {
            let mut counter = counter();
            counter.total += 1;
            *counter.hits.entry(name).or_default() += 1;
            (counter.plot, counter.total)
        };
        match plot {
            Plot::KillAt(at) if at == total => {
                // SIGKILL, so that nothing gets the chance to tidy up.
                let me = std::process::id().to_string();
                drop(std::process::Command::new("kill").args(["-9", &me]).status());
                std::process::abort();
            }
            Plot::PanicAt(at) if at == total => panic!("crash point {name}, number {total}"),
            Plot::Count | Plot::KillAt(_) | Plot::PanicAt(_) => {}
        }
    }
}
