//! Catches panics of code that is not ours without letting the panic hook print them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic inside becomes its message.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    install_hook();
    let before = QUIET.replace(true);
    // What `work` borrowed is not looked at again after a panic: the caller only denies.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    outcome.map_err(|payload| message_of(payload.as_ref()))
}

/// Puts a hook before the present one, once; it is silent only for threads inside `catch`.
fn install_hook() {
    // A hook cannot be set while this thread unwinds; then the panic is merely not silent.
    if HOOK.is_completed() || std::thread::panicking() {
        return;
    }
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // During the destruction of a thread the flag may be gone; then speak.
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                previous(info);
            }
        }));
    });
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").chars().take(200).collect()
}
