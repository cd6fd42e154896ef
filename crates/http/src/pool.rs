//! Decides which connection a request takes: one that is open and idle, else a new one.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use super::connection::Connection;
use super::patience::after;

/// Connections to one server that are kept while nobody uses them.
const IDLE_MAX: usize = 64;
/// Milliseconds after which an idle connection is not used again; servers close theirs too.
const IDLE_MS_MAX: u64 = 30_000;

/// The idle connections to one server.
#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    /// The idle connection that was used last, if it can still be used.
    pub(super) async fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.pop()?;
            let fresh = tokio::time::Instant::now() < after(connection.used, IDLE_MS_MAX);
            if fresh && connection.is_usable().await {
                return Some(connection);
            }
        }
    }

    fn pop(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a connection whose answer was read to its end. What is old goes.
    pub(super) fn give(&self, mut connection: Connection) {
        let now = tokio::time::Instant::now();
        connection.used = now;
        let old: Vec<Connection> = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            // The oldest stand first.
            let count = idle.iter().take_while(|c| is_old(c, now)).count();
            let surplus = (idle.len() + 1).saturating_sub(IDLE_MAX);
            let many = count.max(surplus).min(idle.len());
            let gone = idle.drain(..many).collect();
            idle.push(connection);
            gone
        };
        // Closing is work for the operating system; nobody waits for the lock meanwhile.
        drop(old);
    }
}

fn is_old(connection: &Connection, now: Instant) -> bool {
    after(connection.used, IDLE_MS_MAX) <= now
}
