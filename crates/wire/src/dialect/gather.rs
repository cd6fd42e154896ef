//! Puts a stream together to one whole answer, within bounds: its terminal marker must have come.

use std::borrow::Cow;

use serde_json::Value;
use toolgate_kernel::event::{FaultKind, Usage};
use toolgate_kernel::limits::Limits;
use toolgate_runtime::port::Tap;

use super::{Dialect, WireFault};
use crate::answer::{self, Unread};
use crate::halves::{self, Waiting};
use crate::lent::Lent;
use toolgate_http::sse::Event;

/// How large a reply may grow while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyBounds {
    /// Bytes of its words, thoughts, names and arguments.
    pub bytes_max: u64,
    /// Calls.
    pub calls_max: u64,
}

impl From<&Limits> for ReplyBounds {
    fn from(limits: &Limits) -> Self {
        Self { bytes_max: limits.reply_bytes_max, calls_max: limits.reply_calls_max }
    }
}

impl Default for ReplyBounds {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

/// How large a reply is so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReplySize {
    pub(crate) bytes: usize,
    pub(crate) calls: usize,
}

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

    /// What the answer has cost so far, as the server counts it.
    fn counts(&self) -> Option<&Value>;

    /// How large the reply is so far. It is asked after every event, so it counts nothing anew.
    fn size(&self) -> ReplySize;

    /// Why what came cannot be put together, though the terminal marker has come.
    fn fault(&self) -> Option<WireFault> {
        None
    }

    /// The answer as it would have come without streaming.
    fn body(self: Box<Self>) -> Value;
}

/// Events in, one whole answer out.
pub struct Gather {
    dialect: Dialect,
    inner: Box<dyn Gathering>,
    bounds: ReplyBounds,
    /// What an event said that tells of a fault: its cost may be in it.
    told: Option<Value>,
    /// `[DONE]` came: nothing of what follows counts.
    done: bool,
    /// Half a character came alone: what of it waits for the other half.
    halves: Option<Waiting>,
}

impl Gather {
    pub(super) fn new(dialect: Dialect, inner: Box<dyn Gathering>, bounds: ReplyBounds) -> Self {
        Self { dialect, inner, bounds, told: None, done: false, halves: None }
    }

    /// Takes the next event and shows its words to the tap.
    pub fn take(&mut self, event: Event<'_>, tap: Tap<'_>) -> Result<(), WireFault> {
        let data = event.data.trim();
        if self.done {
            return Ok(());
        }
        if event.name.trim() == "error" {
            self.told = answer::read(data.as_bytes()).ok();
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
        let (odd, marked);
        let data = match answer::at_a_glance(data) {
            Some(data) => data,
            None => {
                odd = answer::event(data).map_err(unread)?;
                match serde_json::from_str(&odd) {
                    Ok(data) => data,
                    Err(_) => {
                        marked = halves::marked(&odd).ok_or_else(|| unread(Unread::NoJson))?;
                        self.halves.get_or_insert_default();
                        serde_json::from_str(&marked).map_err(|_| unread(Unread::NoJson))?
                    }
                }
            }
        };
        if let Some(fault) = WireFault::told_by(&data) {
            self.told = Some(data.value());
            return Err(fault);
        }
        // A piece of the reply that is passed over could change what the rest means.
        if !data.is_object() && !data.is_null() {
            let reason = "an event of the stream is not an object";
            return Err(WireFault::new(FaultKind::Unreadable, reason));
        }
        match &self.halves {
            None => self.inner.take(event.name, &data, tap),
            Some(waiting) => self.inner.take(event.name, &data, &|said| waiting.pass(said, tap)),
        }?;
        self.check_size()
    }

    /// Refuses a reply as soon as it is too large, and does not wait for its end.
    fn check_size(&self) -> Result<(), WireFault> {
        let ReplySize { bytes, calls } = self.inner.size();
        let ReplyBounds { bytes_max, calls_max } = self.bounds;
        let over = |count: usize, max: u64| u64::try_from(count).unwrap_or(u64::MAX) > max;
        let reason = if over(bytes, bytes_max) {
            format!("the reply has more than {bytes_max} bytes (reply_bytes_max)")
        } else if over(calls, calls_max) {
            format!("the reply has more than {calls_max} calls (reply_calls_max)")
        } else {
            return Ok(());
        };
        Err(WireFault::new(FaultKind::Unreadable, &reason))
    }

    /// Shows what waits: no event follows.
    pub fn end(&self, tap: Tap<'_>) {
        self.halves.iter().for_each(|waiting| waiting.end(tap));
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
    pub fn words(&self) -> Cow<'_, str> {
        match &self.halves {
            None => Cow::Borrowed(self.inner.words()),
            Some(_) => halves::joined(self.inner.words()),
        }
    }

    /// What the answer has cost so far, whether it can be used or not.
    pub fn usage(&self) -> Usage {
        let told = self.told.as_ref().and_then(|told| self.dialect.counts(told));
        told.or(self.inner.counts()).map(|counts| self.dialect.cost(counts)).unwrap_or_default()
    }

    /// Why there is no whole answer: without its terminal marker there is none.
    pub fn fault(&self) -> Option<WireFault> {
        if self.inner.whole() {
            return self.inner.fault();
        }
        Some(WireFault::new(FaultKind::CutOff, "the stream ended before the reply did"))
    }

    /// The whole answer, to be decoded, where there is no fault.
    pub fn body(self) -> Value {
        match &self.halves {
            None => self.inner.body(),
            Some(_) => halves::join_all(self.inner.body()),
        }
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
