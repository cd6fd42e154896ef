//! Decides how calls are undone: by new events in one append, on a person's word, and only what
//! that person was shown.

use std::borrow::Cow;
use std::sync::Arc;

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{AuthorRefusal, Event, FileChange, ProjectEvent, StreamId, Undone};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::CallId;
use toolgate_kernel::section::Home;

use super::{DriveFault, Driver};
use crate::authority::Author;
use crate::crash_point;
use crate::people::may_sign;
use crate::port::{StageTag, StoreFault};
use crate::runtime::SHARED_TRIES;
use crate::undo::{REPLACED_BYTES_MAX, Range, Undo, UndoRefusal, preview};

/// Things that stay as they are of which the model is told.
const LEFT_TOLD_MAX: usize = 10;

impl Driver {
    /// What would be undone. What people wrote into files that show state is taken in first.
    pub async fn undo_preview(&mut self, range: Range) -> Result<Undo, DriveFault> {
        self.enter()?;
        self.take_in_news().await?;
        preview(&self.runtime, &self.crew.agent, &self.session.id, range).await
    }

    /// Undoes calls on a person's word, also in a session that has ended. When anything of what
    /// the person was shown is otherwise by now, or a lock would be broken, nothing is undone.
    /// `note` is a sentence for the model.
    pub async fn undo<'a>(
        &mut self,
        author: impl Into<Author<'a>>,
        undo: &Undo,
        note: &str,
    ) -> Result<(), DriveFault> {
        self.enter()?;
        let author = author.into();
        if !author.actor.is_human() {
            let (act, actor) = ("undo calls", author.actor.clone());
            return Err(AuthorRefusal { act, actor }.into());
        }
        if !undo.locked.is_empty() {
            return Err(UndoRefusal::Locked(undo.locked.clone()).into());
        }
        let event = self.undone(undo, note);
        let author = self.runtime.vouch(author, &self.stream, &event).await?;
        self.tick();
        let runtime = Arc::clone(&self.runtime);
        let turn = runtime.project_turn.lock().await;
        let before = self.session();
        let mut fresh = undo.clone();
        for _ in 0..SHARED_TRIES {
            let project = runtime.catch_up().await?;
            let decided = std::slice::from_ref(&event);
            may_sign(&project, author, &self.stream, decided, self.now)?;
            if (self.base, runtime.project().1) != fresh.tips {
                fresh = preview(&runtime, &self.crew.agent, &self.session.id, undo.range).await?;
            }
            if !fresh.same(undo) || !self.files_are_as_seen(undo)? {
                return Err(UndoRefusal::LookAgain.into());
            }
            match self.write_undone(author, &fresh, event.clone()).await {
                Err(DriveFault::Store(StoreFault::Moved { stream: StreamId::Project, .. })) => {
                    self.rewind(&before);
                }
                done => {
                    drop(turn);
                    return done;
                }
            }
        }
        self.discard_undone(&event);
        Err(UndoRefusal::LookAgain.into())
    }

    fn undone(&self, undo: &Undo, note: &str) -> Event {
        let rest = if undo.left.is_empty() { "." } else { ", but for this:" };
        let they = if undo.calls.len() == 1 { "it" } else { "they" };
        let mut told = format!(
            "A person undid {}. What {they} changed is as it was before{rest}",
            undo.told()
        );
        for left in undo.left.iter().take(LEFT_TOLD_MAX) {
            told.push_str(&format!(" {left}"));
        }
        if !note.is_empty() {
            told.push_str(&format!(" {note}"));
        }
        Event::Undone(Box::new(Undone {
            id: CallId(self.session.next_call),
            calls: undo.calls.clone(),
            changes: undo.changes(Home::Session),
            files: undo.files.clone(),
            left: undo.left.clone(),
            note: told,
        }))
    }

    fn files_are_as_seen(&self, undo: &Undo) -> Result<bool, DriveFault> {
        for change in &undo.files {
            if self.runtime.files.version(&change.path)? != change.old {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes everything in one append, then puts the files in place.
    async fn write_undone(
        &mut self,
        author: Author<'_>,
        undo: &Undo,
        event: Event,
    ) -> Result<(), DriveFault> {
        if let Err(fault) = self.stage_undone(undo, &event).await {
            self.discard_undone(&event);
            return Err(fault);
        }
        let Event::Undone(undone) = &event else { return Ok(()) };
        let (id, files) = (undone.id, undone.files.clone());
        let (project, reason) = (undo.changes(Home::Project), format!("undo of {}", undo.told()));
        let wrote: Vec<Key> = project.iter().filter_map(|change| change.key().cloned()).collect();
        self.note(author, event)?;
        if let Some((from, phase)) = undo.phase.clone() {
            let (reason, call) = (reason.clone(), None);
            self.note(author, Event::PhaseEntered { phase, from, reason, call })?;
        }
        crash_point!("before_undo");
        let session = Some(self.session.id.clone());
        let event = ProjectEvent::ProjectChanged { changes: project, session, call: None, reason };
        // Nothing is written where the project moved on, so that the person may still decide this.
        let events = if wrote.is_empty() { Vec::new() } else { vec![event] };
        self.append_with_project(author, events).await?;
        crash_point!("after_undo");
        self.forget_undone(undo)?;
        self.place_all(id, files, &wrote).await
    }

    async fn stage_undone(&self, undo: &Undo, event: &Event) -> Result<(), DriveFault> {
        for (tag, change) in self.undone_files(event) {
            let content = match (change.new, undo.shown.get(&change.path)) {
                (None, _) => None,
                (Some(_), Some(content)) => Some(Arc::clone(content)),
                (Some(hash), None) => {
                    let kept = self.runtime.store.blob(hash).await?;
                    Some(Arc::new(kept.ok_or(UndoRefusal::LookAgain)?))
                }
            };
            let content = content.as_ref().map(|content| content.as_slice());
            self.runtime.files.stage(&tag, &change.path, content.zip(change.new))?;
            crash_point!("after_stage");
        }
        Ok(())
    }

    fn undone_files(&self, event: &Event) -> Vec<(StageTag, FileChange)> {
        let Event::Undone(undone) = event else { return Vec::new() };
        let tag = |at| StageTag { session: self.session.id.clone(), call: undone.id, at };
        let files = undone.files.iter().cloned().enumerate();
        files.map(|(at, change)| (tag(at), change)).collect()
    }

    /// Forgets what was staged. What cannot be removed now is removed by the next resume.
    fn discard_undone(&self, event: &Event) {
        for (tag, _) in self.undone_files(event) {
            drop(self.runtime.files.discard(&tag));
        }
    }

    /// Forgets copies of the undone calls that could not be put in place so far.
    fn forget_undone(&self, undo: &Undo) -> Result<(), DriveFault> {
        for tag in self.runtime.files.leftovers()? {
            if undo.has(tag.call) && tag.session == self.session.id {
                self.runtime.files.discard(&tag)?;
            }
        }
        Ok(())
    }

    /// Keeps what files said before a call, so that it can be undone. A file that shows state
    /// follows from the state. One with a known secret is not kept: the log has no secrets.
    pub(super) fn keep_replaced(&mut self, files: &mut [FileChange]) {
        let toolset = &self.crew.agent.toolset;
        let shows = |path: &str| toolset.projections().any(|shown| shown.path == path);
        for change in files.iter_mut().filter(|change| change.new != change.old) {
            let Some(old) = change.old.filter(|_| !shows(&change.path)) else { continue };
            let Ok(Some(content)) = self.runtime.files.read(&change.path) else { continue };
            if content.len() > REPLACED_BYTES_MAX || self.has_secret(&content) {
                continue;
            }
            if Digest::of(&content) == old {
                self.pending.blobs.push((old, content));
                change.kept = true;
            }
        }
    }

    fn has_secret(&self, content: &[u8]) -> bool {
        let text = String::from_utf8_lossy(content);
        matches!(self.runtime.redactor.redact(&text), Cow::Owned(_))
    }
}
