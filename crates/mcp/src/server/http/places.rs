//! Decides who gets a connection: so many in all, a part of them for one client, and whoever has shown
//! no token makes room first.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// One client has at most this part of all places.
const CLIENT_PART: usize = 4;

/// The places of a server.
pub(super) struct Places {
    max: usize,
    client_max: usize,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    taken: usize,
    /// Those of whom no token was seen yet, the first to come first, and how each is told to leave.
    strangers: BTreeMap<u64, Arc<Notify>>,
    /// How many were told to leave and have not left.
    leaving: usize,
    /// How many each client has.
    clients: BTreeMap<Arc<str>, usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    pub(super) fn new(max: usize) -> Arc<Self> {
        let client_max = (max / CLIENT_PART).max(1);
        let (state, freed) = (Mutex::default(), Notify::new());
        Arc::new(Self { max, client_max, state, freed })
    }

    /// A place for somebody who came. When all are taken, whoever has shown no token for the longest
    /// time leaves; when everybody has, it waits.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(place) = self.try_take() {
                return place;
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut state = lock(&self.state);
        if state.taken >= self.max {
            if state.leaving == 0
                && let Some((_, leave)) = state.strangers.pop_first()
            {
                state.leaving = 1;
                leave.notify_one();
            }
            return None;
        }
        let (id, leave) = (state.next, Arc::new(Notify::new()));
        (state.next, state.taken) = (id + 1, state.taken + 1);
        state.strangers.insert(id, Arc::clone(&leave));
        Some(Place { places: Arc::clone(self), id, leave, client: Mutex::default() })
    }
}

/// A connection's place.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    leave: Arc<Notify>,
    /// Whose token came last this way.
    client: Mutex<Option<Arc<str>>>,
}

impl Place {
    /// Waits until somebody else needs the place more.
    pub(super) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// Counts the place as a client's, unless that one has its part already.
    pub(super) fn belongs_to(&self, client: &Arc<str>) -> bool {
        let mut own = lock(&self.client);
        if own.as_ref() == Some(client) {
            return true;
        }
        let mut state = lock(&self.places.state);
        let has = state.clients.get(client).copied().unwrap_or(0);
        let known = own.is_some() || state.strangers.contains_key(&self.id);
        if has >= self.places.client_max || !known {
            return false;
        }
        state.clients.insert(Arc::clone(client), has + 1);
        match own.replace(Arc::clone(client)) {
            Some(before) => state.gives_back(&before),
            None => drop(state.strangers.remove(&self.id)),
        }
        true
    }
}

impl State {
    fn gives_back(&mut self, client: &Arc<str>) {
        if let Some(has) = self.clients.get_mut(client) {
            *has -= 1;
            if *has == 0 {
                self.clients.remove(client);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let own = lock(&self.client).take();
        let mut state = lock(&self.places.state);
        state.taken -= 1;
        match own {
            Some(client) => state.gives_back(&client),
            None if state.strangers.remove(&self.id).is_some() => {}
            None => state.leaving = 0,
        }
        drop(state);
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn nobody_has_all_places_and_strangers_make_room() {
        let places = Places::new(8);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut taken = Vec::new();
        for _ in 0..8 {
            taken.push(places.take().await);
        }
        assert!(taken[1].belongs_to(&a) && taken[2].belongs_to(&a));
        assert!(taken[1].belongs_to(&a), "it is counted once");
        assert!(!taken[3].belongs_to(&a), "a client has a part");
        assert!(taken[3].belongs_to(&b));
        assert!(taken[2].belongs_to(&b), "whoever comes last this way counts");
        assert!(taken[4].belongs_to(&a));
        // The first stranger is told to leave, and nobody else, however often somebody asks.
        assert!(places.take().now_or_never().is_none() && places.take().now_or_never().is_none());
        assert!(taken[0].lost().now_or_never().is_some() && !taken[0].belongs_to(&b));
        assert!(taken[5].lost().now_or_never().is_none());
        drop(taken.remove(0));
        let next = places.take().now_or_never().expect("there is room");
        drop((next, taken));
        let state = lock(&places.state);
        assert!(state.taken == 0 && state.clients.is_empty() && state.strangers.is_empty());
    }
}
