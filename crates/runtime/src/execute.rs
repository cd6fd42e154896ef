//! Decides how a handler is run: with a deadline, a way to cancel it, and its panics caught.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;
use toolgate_kernel::envelope::{Code, Trouble};

use crate::port::{Fault, Output, Tool};
use crate::transaction::Transaction;

/// How a handler came to its end.
pub(crate) enum Executed {
    /// It answered, or said that it failed. An answer is handed on often before it is looked at.
    Answered(Box<Result<Output, Fault>>),
    /// It was cut off, so an effect on the world may or may not have happened.
    CutOff(Box<Trouble>),
}

/// A switch that stops what is running.
#[derive(Clone, Default)]
pub struct Cancel {
    switch: Arc<Switch>,
}

/// Looked at before every call, so looking takes no lock.
#[derive(Default)]
struct Switch {
    used: AtomicBool,
    waiting: Notify,
}

impl Cancel {
    /// Stops the running call and everything after it.
    pub fn cancel(&self) {
        self.switch.used.store(true, Ordering::SeqCst);
        self.switch.waiting.notify_waiters();
    }

    /// Whether it was used.
    pub fn is_cancelled(&self) -> bool {
        self.switch.used.load(Ordering::SeqCst)
    }

    pub(crate) async fn cancelled(&self) {
        // It hears of a use from here on, and looks for one that was before.
        let waiting = self.switch.waiting.notified();
        if !self.is_cancelled() {
            waiting.await;
        }
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
        return cut_off(cancelled());
    }
    // The call of `run` itself may panic too, so it happens inside the guarded future. An answer is
    // large, and is boxed before it is handed on.
    let running = async { Executed::Answered(Box::new(tool.run(tx).await)) };
    let mut guarded = pin!(AssertUnwindSafe(running).catch_unwind());
    // Most tools answer at once; no timer is set then, and nobody listens for a cancellation.
    // However much it or a neighbour does at each look, its time is looked at too: nothing that
    // counts what is done, as `select!` does, stands around this.
    let mut cut = pin!(unconstrained(cut_short(call_ms_max, cancel)));
    poll_fn(|cx| match guarded.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(done.unwrap_or_else(|_| panicked())),
        Poll::Pending => cut.as_mut().poll(cx),
    })
    .await
}

/// What becomes of a call that takes too long, or is cancelled.
async fn cut_short(call_ms_max: u64, cancel: &Cancel) -> Executed {
    tokio::select! {
        biased;
        () = cancel.cancelled() => cut_off(cancelled()),
        () = tokio::time::sleep(Duration::from_millis(call_ms_max)) => {
            let message = format!("The tool did not answer within {call_ms_max} ms.");
            cut_off(Trouble::new(Code::TOOL_TIMED_OUT, message))
        }
    }
}

fn cut_off(trouble: Trouble) -> Executed {
    Executed::CutOff(Box::new(trouble))
}

fn panicked() -> Executed {
    let message = "The tool broke down. Try other arguments or another tool.";
    cut_off(Trouble::new(Code::TOOL_PANICKED, message))
}

/// Waits for some work, at most so long. A timer is only set for what is not done at once.
///
/// The work is pinned by the caller, because moving a large future costs more than polling it.
pub(crate) async fn within<T>(
    ms: u64,
    mut work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    let mut late = pin!(unconstrained(async {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => late.as_mut().poll(cx).map(|()| None),
    })
    .await
}

pub(crate) fn cancelled() -> Trouble {
    Trouble::new(Code::CALL_CANCELLED, "The call was cancelled.")
}
