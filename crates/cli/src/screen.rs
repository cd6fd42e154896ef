//! Decides when something of a run is shown: what was committed first comes first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use toolgate_kernel::event::{Event, Record, StreamId};
use toolgate_kernel::names::SessionId;
use toolgate_runtime::Committed;
use toolgate_runtime::port::{Store, Streamed};

use crate::console;
use crate::live::Live;
use crate::project::{Opened, block_on};

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
    course: Mutex<Course>,
    live: Live,
    shows: Shows,
    store: Arc<dyn Store>,
}

/// How far the showing has come.
struct Course {
    /// What was committed and is not shown yet.
    events: Receiver<Committed>,
    written: Written,
}

/// Up to where a session's records are written as JSON.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    session: SessionId,
    /// The last record that was written, or was there before.
    seq: u64,
    /// The newest epoch of this process that was heard of. What comes under a newer one is written by
    /// whoever took the session over.
    epoch: Option<u64>,
}

impl Screen {
    /// Records that the log has after `written` are part of what is shown as JSON.
    pub(crate) fn new(opened: &Opened, written: Written, live: Live, shows: Shows) -> Self {
        let course = Course { events: opened.runtime.observe(), written };
        Self { course: Mutex::new(course), live, shows, store: Arc::clone(&opened.store) }
    }

    /// Shows a reply as it comes, after what was committed before it.
    pub(crate) fn streamed(&self, streamed: Streamed<'_>) {
        if self.shows != Shows::Lines {
            return;
        }
        self.show();
        match streamed {
            Streamed::Text(text) | Streamed::Freed(text) => self.live.words(text),
            Streamed::Held(_) => self.live.answering(),
            Streamed::Counted(_) => {}
            Streamed::Thought(_) => self.live.thinking(),
            Streamed::Call { name, bytes } => self.live.writing(name, bytes),
            Streamed::Waits { reason, ms } => self.live.waits(reason, ms),
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

    /// Shows everything there is, also what nobody told of, and says how far that is.
    pub(crate) async fn end(&self) -> Written {
        self.clear();
        let mut written = self.course().written.clone();
        written.rest(self.store.as_ref(), self.shows).await;
        self.course().written.clone_from(&written);
        written
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what was committed since the last time.
    pub(crate) fn show(&self) {
        let mut course = self.course();
        loop {
            match (course.events.try_recv(), self.shows) {
                (Ok(Committed::Session(_, record)), Shows::Json) => {
                    course.written.told(self.store.as_ref(), &record);
                }
                // Whatever went by too fast is read from the log when the next one comes.
                (Err(TryRecvError::Lagged(_)), Shows::Json) => {}
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

impl Written {
    /// Nothing is written yet of a session.
    pub(crate) fn nothing(session: SessionId) -> Self {
        Self { session, seq: 0, epoch: None }
    }

    /// Everything counts as written that the log has of a session now.
    pub(crate) async fn so_far(store: &dyn Store, session: &SessionId) -> Result<Self> {
        let head = store.head(&StreamId::Session(session.clone())).await?;
        let seq = head.map_or(0, |head| head.seq);
        Ok(Self { seq, ..Self::nothing(session.clone()) })
    }

    /// Writes a record as JSON, and before it those of its session that nobody told of.
    fn told(&mut self, store: &dyn Store, record: &Record<Event>) {
        self.epoch = Some(record.epoch);
        if record.seq == self.seq + 1 {
            console::json(record);
            self.seq = record.seq;
        } else if record.seq > self.seq {
            // Whoever shows cannot wait for the log in the midst of driving; another thread can.
            let read = || block_on(self.read_on(store));
            let read = std::thread::scope(|scope| scope.spawn(read).join());
            if let Ok(Err(error)) = read {
                console::hint(&format!("{error:#}. The log has all events."));
            }
        }
    }

    /// Writes everything as JSON that the log has beyond this, where that is what is shown.
    pub(crate) async fn rest(&mut self, store: &dyn Store, shows: Shows) {
        if shows == Shows::Json
            && let Err(error) = self.read_on(store).await
        {
            console::hint(&format!("{error:#}. The log has all events."));
        }
    }

    async fn read_on(&mut self, store: &dyn Store) -> Result<()> {
        let stream = StreamId::Session(self.session.clone());
        loop {
            let rows = store.read(&stream, self.seq + 1, PAGE).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let record = Record::<Event>::decode(&row.bytes)?;
                if self.epoch.is_some_and(|own| record.epoch > own) {
                    return Ok(());
                }
                console::json(&record);
                self.seq = row.seq;
            }
        }
    }
}

/// Records that are read at once.
const PAGE: usize = 200;
