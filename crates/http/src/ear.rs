//! Decides who is woken by a connection: whoever waits, by what comes from outside. What the parts of a
//! connection tell each other while it is looked at is seen in the same look.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Nobody looks; whoever waits is woken.
const RESTING: u8 = 0;
/// Somebody looks.
const LOOKING: u8 = 1;
/// Somebody looks, and has to look again.
const AGAIN: u8 = 2;

/// How often is looked before others have their turn.
const LOOKS_MAX: usize = 8;

/// What listens for a connection.
pub(super) struct Ear {
    bell: Arc<Bell>,
    /// The same for everybody who waits, so that nobody has to be told of another one.
    waker: Waker,
}

struct Bell {
    state: AtomicU8,
    waiting: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = |state| (state != RESTING).then_some(AGAIN);
        let state = &self.state;
        if state.fetch_update(Ordering::AcqRel, Ordering::Acquire, noted).is_err() {
            self.waiting.wake();
        }
    }
}

impl Ear {
    pub(super) fn new() -> Self {
        let bell = Bell { state: AtomicU8::new(RESTING), waiting: AtomicWaker::new() };
        let bell = Arc::new(bell);
        let waker = Waker::from(Arc::clone(&bell));
        Self { bell, waker }
    }

    /// Looks until there is something, or nothing that is looked at asks to be looked at again.
    pub(super) fn listen<T>(
        &self,
        cx: &Context<'_>,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.bell.waiting.register(cx.waker());
        let mut own = Context::from_waker(&self.waker);
        for _ in 0..LOOKS_MAX {
            self.bell.state.store(LOOKING, Ordering::Release);
            let seen = look(&mut own);
            let before = self.bell.state.swap(RESTING, Ordering::AcqRel);
            if seen.is_ready() || before == LOOKING {
                return seen;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_what_comes_while_nobody_looks_wakes_whoever_waits() {
        let (ear, count) = (Ear::new(), Arc::new(Count::default()));
        let waker = Waker::from(Arc::clone(&count));
        let cx = Context::from_waker(&waker);
        let (woken, mut looks) = (|| count.0.load(Ordering::Relaxed), 0);
        // Twice something happens within the connection itself.
        let seen = ear.listen(&cx, |own| {
            looks += 1;
            if looks < 3 {
                own.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert_eq!((seen, looks, woken()), (Poll::Pending, 3, 0));
        ear.waker.wake_by_ref();
        assert_eq!(woken(), 1, "something came from outside");
        // What has something to say at every look does not keep others from their turn.
        let seen = ear.listen(&cx, |own| {
            own.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!((seen, woken()), (Poll::Pending, 2));
        let seen = ear.listen(&cx, |own| {
            own.waker().wake_by_ref();
            Poll::Ready(7)
        });
        assert_eq!((seen, woken()), (Poll::Ready(7), 2), "it is there, and nobody need look");
    }
}
