//! Decides when something of a run is shown: what was committed first comes first.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use toolgate_kernel::event::{Event, Record, StreamId};
use toolgate_kernel::names::SessionId;
use toolgate_runtime::port::{Store, Streamed};
use toolgate_runtime::{Committed, Driver};

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
    session: SessionId,
    /// The last record that was written as JSON, or was there before.
    written: u64,
}

impl Screen {
    pub(crate) fn new(opened: &Opened, driver: &Driver, live: Live, shows: Shows) -> Self {
        let (session, written) = (driver.session().id.clone(), driver.durable_tip().seq);
        let course = Course { events: opened.runtime.observe(), session, written };
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
            Streamed::Held(_) | Streamed::Counted(_) => {}
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

    /// Shows what was committed since the last time.
    pub(crate) fn show(&self) {
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match (course.events.try_recv(), self.shows) {
                (Ok(Committed::Session(_, record)), Shows::Json) => {
                    if let Err(error) = course.write(self.store.as_ref(), &record) {
                        console::hint(&format!("{error:#}. The log has all events."));
                    }
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

impl Course {
    /// Writes a record as JSON, and before it those of its session that nobody told of.
    fn write(&mut self, store: &dyn Store, record: &Record<Event>) -> Result<()> {
        if record.seq == self.written + 1 {
            console::json(record);
            self.written = record.seq;
        } else if record.seq > self.written {
            let stream = StreamId::Session(self.session.clone());
            let written = &mut self.written;
            // Whoever shows cannot wait for the log in the midst of driving; another thread can.
            let read = move || block_on(missed(store, &stream, written, record.seq));
            let read = std::thread::scope(|scope| scope.spawn(read).join());
            read.ok().context("events that went by too fast could not be read")??;
        }
        Ok(())
    }
}

/// Records that are read at once.
const PAGE: usize = 200;

/// Writes what a stream has after a place as JSON, up to another place or beyond.
async fn missed(store: &dyn Store, stream: &StreamId, at: &mut u64, to: u64) -> Result<()> {
    while *at < to {
        let rows = store.read(stream, *at + 1, PAGE).await?;
        ensure!(!rows.is_empty(), "{stream} ends before an event that was told");
        for row in rows {
            console::json(&Record::<Event>::decode(&row.bytes)?);
            *at = row.seq;
        }
    }
    Ok(())
}
