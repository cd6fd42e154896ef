//! Decides when a provider is left alone: after too much trouble nobody asks it for a while.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::limits::Limits;

use toolgate_http::after;

/// When a provider is left alone, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerRules {
    /// Requests in a row that failed with all their tries.
    pub failures_max: u32,
    /// Milliseconds of the first rest; each later one is twice as long.
    pub rest_ms: u64,
    /// Milliseconds of the longest rest.
    pub rest_ms_max: u64,
    /// Milliseconds of rest when there is no money: that is not mended in a minute.
    pub billing_ms: u64,
}

/// Milliseconds of the first rest.
const REST_MS: u64 = 30_000;

impl BreakerRules {
    /// As the limits say.
    pub fn within(limits: &Limits) -> Self {
        Self {
            failures_max: u32::try_from(limits.breaker_failures_max).unwrap_or(u32::MAX),
            rest_ms: REST_MS.min(limits.breaker_rest_ms_max),
            rest_ms_max: limits.breaker_rest_ms_max,
            billing_ms: limits.breaker_billing_ms_max,
        }
    }
}

impl Default for BreakerRules {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

/// The breaker of one provider.
pub(crate) struct Breaker {
    rules: BreakerRules,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Requests in a row that failed.
    failures: u32,
    /// Until when nobody asks, and why.
    open: Option<(Instant, FaultKind)>,
    /// Rests in a row.
    rests: u32,
    /// Somebody is trying whether it works again.
    probing: bool,
}

impl State {
    fn open(&self) -> Option<Open> {
        let (until, because) = self.open?;
        let left = until.saturating_duration_since(tokio::time::Instant::now());
        // A part of a millisecond is still to be waited for.
        let left_ms = u64::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        Some(Open { left_ms, because })
    }
}

/// Leave to ask; what came of it must be told.
pub(crate) struct Leave {
    breaker: Arc<Breaker>,
    probe: bool,
    told: bool,
}

/// No leave: how many milliseconds are left, and what began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) left_ms: u64,
    pub(crate) because: FaultKind,
}

impl Breaker {
    pub(crate) fn new(rules: BreakerRules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// Asks for leave. After a rest one may try, and the others wait for what comes of it.
    pub(crate) fn ask(self: &Arc<Self>) -> Result<Leave, Open> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(open) = state.open() else {
            return Ok(Leave { breaker: Arc::clone(self), probe: false, told: false });
        };
        if state.probing || open.left_ms > 0 {
            return Err(Open { left_ms: open.left_ms.max(1), ..open });
        }
        state.probing = true;
        Ok(Leave { breaker: Arc::clone(self), probe: true, told: false })
    }

    /// The rest that goes on, if one does.
    pub(crate) fn open(&self) -> Option<Open> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).open()
    }

    /// Takes in what came of a request; the milliseconds of a rest that begins with it.
    fn settle(&self, fault: Option<FaultKind>, probe: bool) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if probe {
            state.probing = false;
        }
        let Some(kind) = fault else {
            *state = State { probing: state.probing, ..State::default() };
            return None;
        };
        let billing = kind == FaultKind::Billing;
        if kind == FaultKind::Unusable {
            // Nothing was sent, so nothing is known of the provider.
            return None;
        }
        if !billing && !kind.is_trouble() {
            // The provider answered; what it did not like is another matter.
            if probe {
                *state = State::default();
            }
            return None;
        }
        state.failures = state.failures.saturating_add(1);
        // Of several that fail at once, one begins the rest.
        let first = probe || state.open.is_none();
        let opens = first && (billing || probe || state.failures >= self.rules.failures_max);
        opens.then(|| {
            let doubled = 1_u64.checked_shl(state.rests).unwrap_or(u64::MAX);
            let rest_ms = self.rules.rest_ms.saturating_mul(doubled).min(self.rules.rest_ms_max);
            let rest_ms = if billing { self.rules.billing_ms } else { rest_ms };
            state.rests = state.rests.saturating_add(1);
            state.open = Some((after(tokio::time::Instant::now(), rest_ms), kind));
            rest_ms
        })
    }
}

impl Leave {
    /// There was a reply, or a fault that all tries ended in; the milliseconds of a rest that
    /// begins with it.
    pub(crate) fn tell(mut self, fault: Option<FaultKind>) -> Option<u64> {
        self.told = true;
        self.breaker.settle(fault, self.probe)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        // Whoever asked went away; the next one may try.
        if !self.told && self.probe {
            let mut state = self.breaker.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn breaker() -> Arc<Breaker> {
        Arc::new(Breaker::new(BreakerRules::default()))
    }

    fn fail(breaker: &Arc<Breaker>, kind: FaultKind) {
        breaker.ask().ok().unwrap().tell(Some(kind));
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_in_a_row_opens_it_and_a_try_that_works_closes_it() {
        let breaker = breaker();
        fail(&breaker, FaultKind::Overloaded);
        fail(&breaker, FaultKind::Overloaded);
        breaker.ask().ok().unwrap().tell(None);
        for _ in 0..3 {
            fail(&breaker, FaultKind::Unreachable);
        }
        let open = breaker.ask().err().unwrap();
        assert_eq!(open, Open { left_ms: 30_000, because: FaultKind::Unreachable });
        tokio::time::advance(Duration::from_millis(30_000)).await;
        let probe = breaker.ask().ok().unwrap();
        assert!(breaker.ask().is_err(), "one tries, the others wait");
        probe.tell(None);
        assert!(breaker.ask().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_fails_doubles_the_rest_and_one_that_goes_away_changes_nothing() {
        let breaker = breaker();
        for _ in 0..3 {
            fail(&breaker, FaultKind::Overloaded);
        }
        tokio::time::advance(Duration::from_millis(30_000)).await;
        drop(breaker.ask().ok().unwrap());
        fail(&breaker, FaultKind::Overloaded);
        assert_eq!(breaker.ask().err().unwrap().left_ms, 60_000);
    }

    #[tokio::test(start_paused = true)]
    async fn one_billing_fault_is_enough_and_a_bad_request_is_none() {
        let breaker = breaker();
        for _ in 0..9 {
            fail(&breaker, FaultKind::BadRequest);
        }
        fail(&breaker, FaultKind::Billing);
        let open = breaker.ask().err().unwrap();
        assert_eq!(open, Open { left_ms: 300_000, because: FaultKind::Billing });
    }
}
