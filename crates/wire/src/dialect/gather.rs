//! Decides when a stream is a whole answer: its terminal marker must have come.

use serde_json::Value;
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::Tap;

use super::WireFault;
use crate::answer::{self, Unread};
use crate::lent::Lent;
use toolgate_http::sse::Event;

/// How a dialect puts a stream together.
pub(crate) trait Gathering: Send {
    /// Takes the next event. `data` is its data, read as JSON.
    fn take(&mut self, name: &str, data: &Lent<'_>, tap: Tap<'_>) -> Result<(), WireFault>;

    /// The sender said `[DONE]`.
    fn closed(&mut self) {}

    /// Whether the terminal marker has come: what was gathered is whole.
    fn whole(&self) -> bool;

    /// The words that came so far.
    fn words(&self) -> &str;

    /// The answer as it would have come without streaming, where that can be told.
    fn body(self: Box<Self>) -> Result<Value, WireFault>;
}

/// Events in, one whole answer out.
pub struct Gather {
    inner: Box<dyn Gathering>,
    /// `[DONE]` came: nothing of what follows counts.
    done: bool,
}

impl Gather {
    pub(super) fn new(inner: Box<dyn Gathering>) -> Self {
        Self { inner, done: false }
    }

    /// Takes the next event and shows its words to the tap.
    pub fn take(&mut self, event: Event<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let data = event.data.trim();
        if self.done {
            return Ok(());
        }
        if event.name.trim() == "error" {
            return Err(WireFault::named(data));
        }
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            self.inner.closed();
            return Ok(());
        }
        let text = answer::event(data).map_err(unread)?;
        let data: Lent<'_> = serde_json::from_str(&text).map_err(|_| unread(Unread::NoJson))?;
        if let Some(fault) = WireFault::told_by(&data) {
            return Err(fault);
        }
        self.inner.take(event.name, &data, tap)
    }

    /// Whether the sender said `[DONE]`, so that nothing more is to be read.
    pub fn done(&self) -> bool {
        self.done
    }

    /// Whether the terminal marker has come, so that the reply is complete.
    pub fn whole(&self) -> bool {
        self.inner.whole()
    }

    /// The words that came so far.
    pub fn words(&self) -> &str {
        self.inner.words()
    }

    /// What was gathered of an answer that is not whole, where that can be told: what it cost may be
    /// in it, and nothing else of it counts.
    pub(crate) fn unfinished(self) -> Option<Value> {
        self.inner.body().ok()
    }

    /// The whole answer, to be decoded. Without its terminal marker there is none.
    pub fn finish(self) -> Result<Value, WireFault> {
        if self.inner.whole() { self.inner.body() } else { Err(Self::cut_off()) }
    }

    /// The terminal marker never came.
    pub(crate) fn cut_off() -> WireFault {
        WireFault::new(FaultKind::CutOff, "the stream ended before the reply did")
    }
}

fn unread(why: Unread) -> WireFault {
    match why {
        Unread::NoJson => {
            WireFault::new(FaultKind::Unreadable, "an event of the stream is no JSON")
        }
        Unread::TooDeep => WireFault::too_deep(),
    }
}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather").field("done", &self.done).finish_non_exhaustive()
    }
}
