//! Decides how a handler is run: with a deadline, a way to cancel it, and its panics caught.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;
use toolgate_kernel::envelope::{Code, Trouble};

use crate::port::{Fault, Output, Tool};
use crate::transaction::Transaction;

/// How a handler came to its end.
pub(crate) enum Executed {
    /// It answered, or said that it failed.
    Answered(Result<Output, Fault>),
    /// It was cut off, so an effect on the world may or may not have happened.
    CutOff(Trouble),
}

/// A switch that stops what is running.
#[derive(Clone)]
pub struct Cancel {
    sender: watch::Sender<bool>,
}

impl Default for Cancel {
    fn default() -> Self {
        Self { sender: watch::Sender::new(false) }
    }
}

impl Cancel {
    /// Stops the running call and everything after it.
    pub fn cancel(&self) {
        self.sender.send_replace(true);
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        *self.sender.borrow()
    }

    pub(crate) async fn cancelled(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives as long as `self`, so waiting cannot end by its going away.
        drop(receiver.wait_for(|cancelled| *cancelled).await);
    }
}

/// Runs one handler inside its guards. They cannot be left out: there is no other caller.
pub(crate) async fn execute(
    tool: &dyn Tool,
    tx: &mut Transaction,
    call_ms_max: u64,
    cancel: &Cancel,
) -> Executed {
    if cancel.is_cancelled() {
        return Executed::CutOff(cancelled());
    }
    // The call of `run` itself may panic too, so it happens inside the guarded future.
    let mut guarded = pin!(AssertUnwindSafe(async { tool.run(tx).await }).catch_unwind());
    let stoppable = pin!(async {
        // Most tools answer at once; nobody need listen for a cancellation then.
        if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(guarded.as_mut().poll(cx))).await {
            return Some(done);
        }
        tokio::select! {
            biased;
            answered = guarded => Some(answered),
            () = cancel.cancelled() => None,
        }
    });
    match within(call_ms_max, stoppable).await {
        Some(Some(Ok(result))) => Executed::Answered(result),
        Some(Some(Err(_))) => Executed::CutOff(Trouble::new(
            Code::TOOL_PANICKED,
            "The tool broke down. Try other arguments or another tool.",
        )),
        Some(None) => Executed::CutOff(cancelled()),
        None => Executed::CutOff(Trouble::new(
            Code::TOOL_TIMED_OUT,
            format!("The tool did not answer within {call_ms_max} ms."),
        )),
    }
}

/// Waits for some work, at most so long. A timer is only set for what is not done at once.
///
/// The work is pinned by the caller, because moving a large future costs more than polling it.
pub(crate) async fn within<T>(ms: u64, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        return Some(done);
    }
    tokio::time::timeout(Duration::from_millis(ms), work).await.ok()
}

pub(crate) fn cancelled() -> Trouble {
    Trouble::new(Code::CALL_CANCELLED, "The call was cancelled.")
}
