//! Decides when something of a run is shown: what was committed first comes first.

use std::sync::{Mutex, PoisonError};

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use toolgate_runtime::port::Streamed;
use toolgate_runtime::{Committed, Runtime};

use crate::console;
use crate::live::Live;

/// What is shown while a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// Lines for a person.
    Lines,
    /// One event per line as JSON.
    Json,
    /// Nothing.
    Nothing,
}

/// What somebody who watches a run sees of it.
pub(crate) struct Screen {
    /// What was committed and is not shown yet.
    events: Mutex<Receiver<Committed>>,
    live: Live,
    shows: Shows,
}

impl Screen {
    pub(crate) fn new(runtime: &Runtime, live: Live, shows: Shows) -> Self {
        Self { events: Mutex::new(runtime.observe()), live, shows }
    }

    /// Shows a reply as it comes, after what was committed before it.
    pub(crate) fn streamed(&self, streamed: Streamed<'_>) {
        if self.shows != Shows::Lines {
            return;
        }
        self.show();
        match streamed {
            Streamed::Text(text) => self.live.words(text),
            Streamed::Thought(_) => self.live.thinking(),
            Streamed::Again => self.live.again(),
        }
    }

    /// Shows what was committed, and for how long nothing came.
    pub(crate) fn tick(&self) {
        self.show();
        if self.shows == Shows::Lines {
            self.live.tick();
        }
    }

    /// Shows everything there is, and leaves the screen to somebody else.
    pub(crate) fn clear(&self) {
        self.show();
        self.live.done();
    }

    /// Shows what was committed since the last time.
    pub(crate) fn show(&self) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match (events.try_recv(), self.shows) {
                (Ok(Committed::Session(_, record)), Shows::Json) => console::json(&record),
                (Ok(Committed::Session(_, record)), Shows::Lines) => self.live.event(&record),
                (Ok(Committed::Project(record)), Shows::Lines) => self.live.project(&record),
                (Ok(_), _) => {}
                (Err(TryRecvError::Lagged(lost)), _) => console::hint(&format!(
                    "{lost} events went by too fast to show; they are in the log."
                )),
                (Err(TryRecvError::Empty | TryRecvError::Closed), _) => return,
            }
        }
    }
}
