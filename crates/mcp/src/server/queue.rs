//! Decides in which order callers come to the session: client by client, so that nobody who asks for
//! much keeps others from asking for little.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::limits::Limits;

/// What waits, by client. The client at the head of `order` is next.
struct Lanes<T> {
    by_client: BTreeMap<Actor, VecDeque<T>>,
    order: VecDeque<Actor>,
    waiting: usize,
    /// Nobody comes any more.
    closed: bool,
    /// Nobody is let in any more.
    ended: bool,
    /// Nobody may come any more; those who wait still have their turn.
    full: bool,
}

/// A queue in which each client has its turn.
pub(super) struct Queue<T> {
    lanes: Mutex<Lanes<T>>,
    came: Notify,
    max: usize,
    client_max: usize,
}

/// Why somebody cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// Too many wait.
    All,
    /// Too many of this client wait.
    Client,
    /// The queue has ended.
    Ended,
}

impl<T> Queue<T> {
    pub(super) fn new(limits: &Limits) -> Self {
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let lanes = Lanes {
            by_client: BTreeMap::new(),
            order: VecDeque::new(),
            waiting: 0,
            closed: false,
            ended: false,
            full: false,
        };
        let (max, client_max) = (count(limits.mcp_queue_max), count(limits.mcp_client_queue_max));
        Self { lanes: Mutex::new(lanes), came: Notify::new(), max, client_max }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes<T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody comes.
    pub(super) fn put(&self, client: &Actor, waiting: T) -> Result<(), Full> {
        let mut lanes = self.lanes();
        if lanes.ended || lanes.full {
            return Err(Full::Ended);
        }
        if lanes.waiting >= self.max {
            return Err(Full::All);
        }
        let lane = lanes.by_client.entry(client.clone()).or_default();
        if lane.len() >= self.client_max {
            return Err(Full::Client);
        }
        let first = lane.is_empty();
        lane.push_back(waiting);
        lanes.waiting += 1;
        if first {
            lanes.order.push_back(client.clone());
        }
        drop(lanes);
        self.came.notify_one();
        Ok(())
    }

    /// The same, unless somebody of this client is there already.
    pub(super) fn put_alone(&self, client: &Actor, waiting: T) {
        if !self.lanes().by_client.contains_key(client) {
            let _full = self.put(client, waiting);
        }
    }

    /// Waits until somebody is there; nobody means that nobody will come. Giving up the wait loses
    /// nothing.
    pub(super) async fn look(&self) -> bool {
        loop {
            let came = self.came.notified();
            {
                let lanes = self.lanes();
                if lanes.waiting > 0 {
                    return true;
                }
                if lanes.closed {
                    return false;
                }
            }
            came.await;
        }
    }

    /// Waits until somebody comes, or nobody will. It may return once too often.
    pub(super) async fn news(&self) {
        self.came.notified().await;
    }

    /// Takes those who are next, one of each client after the other, as `takes` says of each.
    pub(super) fn take(&self, mut takes: impl FnMut(&Actor, &T) -> Pick, mut each: impl FnMut(T)) {
        let mut lanes = self.lanes();
        // How many of a client stay behind, where some do.
        let (mut passed, mut behind) = (0, BTreeMap::<Actor, usize>::new());
        while let Some(client) = lanes.order.get(passed).cloned() {
            let Some(lane) = lanes.by_client.get_mut(&client) else { break };
            let at = behind.get(&client).copied().unwrap_or(0);
            let pick = lane.get(at).map_or(Pick::Pass, |next| takes(&client, next));
            match pick {
                Pick::Stop => break,
                Pick::Pass => {
                    passed += 1;
                    continue;
                }
                Pick::Later => {
                    behind.insert(client, at + 1);
                    continue;
                }
                Pick::Take => {}
            }
            let next = lane.remove(at);
            let rest = !lane.is_empty();
            if !rest {
                lanes.by_client.remove(&client);
            }
            lanes.waiting -= 1;
            // Whoever had a turn waits behind all others.
            lanes.order.remove(passed);
            if rest {
                lanes.order.push_back(client);
            }
            next.into_iter().for_each(&mut each);
        }
    }

    /// Nobody comes any more.
    fn close(&self) {
        self.lanes().closed = true;
        self.came.notify_one();
    }

    /// Nobody may come any more.
    pub(super) fn turn_away(&self) {
        self.lanes().full = true;
    }

    /// Nobody is let in any more, and those who wait are sent away.
    pub(super) fn end(&self) {
        let mut lanes = self.lanes();
        (lanes.ended, lanes.waiting) = (true, 0);
        lanes.order.clear();
        let left = std::mem::take(&mut lanes.by_client);
        drop(lanes);
        drop(left);
    }
}

/// What becomes of whoever is next.
pub(super) enum Pick {
    /// It is let in.
    Take,
    /// It stays behind, and the next one of the same client is asked.
    Later,
    /// It waits with all of its client, and the next client is asked.
    Pass,
    /// Everybody waits.
    Stop,
}

/// The side at which callers come. When the last one is gone, nobody comes any more.
pub(super) struct QueueIn<T>(pub(super) Arc<Queue<T>>);

impl<T> Drop for QueueIn<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The side at which callers are let in. Once it is gone, nobody is.
pub(super) struct QueueOut<T>(pub(super) Arc<Queue<T>>);

impl<T> Drop for QueueOut<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue<u32> {
        Queue::new(&Limits { mcp_queue_max: 6, mcp_client_queue_max: 4, ..Limits::default() })
    }

    fn client(name: &str) -> Actor {
        Actor::Client(name.into())
    }

    fn all(queue: &Queue<u32>, takes: impl FnMut(&Actor, &u32) -> Pick) -> Vec<u32> {
        let mut taken = Vec::new();
        queue.take(takes, |one| taken.push(one));
        taken
    }

    #[test]
    fn each_client_has_its_turn_and_a_bound_of_its_own() {
        let (queue, a, b): (_, Actor, Actor) = (queue(), client("a"), client("b"));
        for at in 0..4 {
            assert_eq!(queue.put(&a, at), Ok(()));
        }
        assert_eq!(queue.put(&a, 4), Err(Full::Client), "one client alone does not fill it");
        assert_eq!((queue.put(&b, 10), queue.put(&b, 11)), (Ok(()), Ok(())));
        assert_eq!(queue.put(&b, 12), Err(Full::All));
        let mut left = 3;
        let some = all(&queue, |_, _| {
            left -= 1;
            if left < 0 { Pick::Stop } else { Pick::Take }
        });
        assert_eq!(some, [0, 10, 1]);
        assert_eq!(all(&queue, |_, _| Pick::Take), [11, 2, 3], "turns go on where they stopped");
    }

    #[test]
    fn whoever_is_passed_over_keeps_its_place() {
        let (queue, a, b): (_, Actor, Actor) = (queue(), client("a"), client("b"));
        for (client, at) in [(&a, 1), (&a, 2), (&b, 3)] {
            queue.put(client, at).unwrap();
        }
        let mut had = Vec::new();
        let once = all(&queue, |client, _| {
            if had.contains(client) {
                return Pick::Pass;
            }
            had.push(client.clone());
            Pick::Take
        });
        assert_eq!((once, all(&queue, |_, _| Pick::Take)), (vec![1, 3], vec![2]));
    }

    #[test]
    fn whoever_stays_behind_is_overtaken_by_others_of_its_client() {
        let (queue, a, b): (_, Actor, Actor) = (queue(), client("a"), client("b"));
        for (client, at) in [(&a, 1), (&a, 2), (&a, 3), (&b, 4), (&b, 5)] {
            queue.put(client, at).unwrap();
        }
        let odd_stays = |_: &Actor, at: &u32| if at % 2 == 1 { Pick::Later } else { Pick::Take };
        assert_eq!(all(&queue, odd_stays), [2, 4]);
        assert_eq!(all(&queue, |_, _| Pick::Take), [1, 5, 3]);
        assert_eq!(queue.lanes().waiting, 0);
    }

    #[tokio::test]
    async fn whoever_leaves_ends_the_waiting() {
        let queue = Arc::new(queue());
        let (entry, exit) = (QueueIn(Arc::clone(&queue)), QueueOut(Arc::clone(&queue)));
        queue.put(&client("a"), 1).unwrap();
        drop(entry);
        assert!(queue.look().await, "those who came are still let in");
        drop(exit);
        assert_eq!(queue.put(&client("a"), 2), Err(Full::Ended));
        assert!(!queue.look().await);
    }
}
