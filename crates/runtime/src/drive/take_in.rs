//! Decides what happens when a person wrote into a file that shows state: it is taken in, never
//! overwritten.

use std::sync::Arc;
use std::time::Duration;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Change, Event, ProjectEvent, StreamId};
use toolgate_kernel::names::CallId;
use toolgate_kernel::section::Projection;

use super::{DriveFault, Driver};
use crate::port::{FilesFault, StageTag, StoreFault};
use crate::runtime::SHARED_TRIES;

/// Milliseconds a file must stay as it is before it is taken in: some editors empty it first.
const QUIET_MS: u64 = 100;

impl Driver {
    /// Takes in what people wrote into files that show state, and restores what is gone.
    pub(super) async fn take_in(&mut self) -> Result<(), DriveFault> {
        let agent = Arc::clone(&self.crew.agent);
        for projection in agent.toolset.projections() {
            let found = match self.runtime.files.version(projection.path) {
                Ok(found) => found,
                Err(FilesFault::None) => return Ok(()),
                Err(fault) => {
                    self.cannot_take_in(projection.path, None, &fault.to_string()).await?;
                    continue;
                }
            };
            let shown = projection.shown(&self.runtime.project().0);
            let done = match (found, shown) {
                (Some(found), Some(shown)) if found == shown.file => Ok(()),
                (Some(_), _) => self.look_into(projection).await,
                (None, Some(shown)) => self.restore(projection, shown.file).await,
                (None, None) => Ok(()),
            };
            match done {
                Err(DriveFault::Files(fault)) => {
                    self.cannot_take_in(projection.path, found, &fault.to_string()).await?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Finds out why a file is not as the last call left it: its copy is not in place yet, or
    /// somebody wrote to it.
    async fn look_into(&mut self, projection: &Projection) -> Result<(), DriveFault> {
        self.flush().await?;
        let runtime = Arc::clone(&self.runtime);
        let turn = runtime.project_turn.lock().await;
        for _ in 0..SHARED_TRIES {
            // The file first: what it has was appended before, so the log read later knows it.
            let Some(content) = self.quiet(projection.path).await? else { return Ok(()) };
            let found = Digest::of(&content);
            let project = runtime.catch_up().await?;
            let shown = projection.shown(&project);
            if shown.is_some_and(|shown| found == shown.file) {
                return Ok(());
            }
            // Where no call that counts wrote it, an undo may be about to remove it.
            if shown.is_none_or(|shown| Some(found) == shown.was) {
                self.roll_forward().await?;
                if runtime.files.version(projection.path)? != Some(found) {
                    return Ok(());
                }
                if shown.is_some() && !runtime.files.leftovers()?.is_empty() {
                    let reason = "what the last call wrote cannot be put in place.";
                    return self.cannot_take_in(projection.path, Some(found), reason).await;
                }
                // Nothing waits to be put in place: somebody went back to the version before.
            }
            let keep = self.unplaced.get(projection.path).map(Vec::as_slice).unwrap_or_default();
            let changes = match (projection.take_in)(&project, &content, keep) {
                Ok(changes) => changes,
                Err(reason) => {
                    return self.cannot_take_in(projection.path, Some(found), &reason).await;
                }
            };
            let before = self.session();
            match self.taken_in(projection, changes).await {
                Err(DriveFault::Store(StoreFault::Moved { stream: StreamId::Project, .. })) => {
                    self.rewind(&before);
                }
                done => {
                    drop(turn);
                    return done;
                }
            }
        }
        // Others keep working on it; the next step looks again.
        Ok(())
    }

    /// The content of a file that nobody is just writing to.
    async fn quiet(&self, path: &str) -> Result<Option<Vec<u8>>, DriveFault> {
        let mut content = self.runtime.files.read(path)?;
        for _ in 0..SHARED_TRIES {
            tokio::time::sleep(Duration::from_millis(QUIET_MS)).await;
            let again = self.runtime.files.read(path)?;
            if again == content {
                break;
            }
            content = again;
        }
        Ok(content)
    }

    /// Writes a file that somebody removed. What a person wrote in another form comes back with
    /// the next call that writes it.
    async fn restore(&mut self, projection: &Projection, file: Digest) -> Result<(), DriveFault> {
        let runtime = Arc::clone(&self.runtime);
        let turn = runtime.project_turn.lock().await;
        let project = runtime.catch_up().await?;
        let content = (projection.render)(&project);
        if projection.shown(&project).is_some_and(|shown| shown.file == file)
            && Digest::of(&content) == file
        {
            let tag = StageTag { session: self.session.id.clone(), call: CallId(0), at: 0 };
            runtime.files.stage(&tag, projection.path, Some((&content, file)))?;
            // Somebody may have written it meanwhile: then it is a person's.
            runtime.files.place(&tag, projection.path, None, Some(file))?;
            runtime.files.discard(&tag)?;
        }
        drop(turn);
        Ok(())
    }

    async fn taken_in(
        &mut self,
        projection: &Projection,
        changes: Vec<Change>,
    ) -> Result<(), DriveFault> {
        let event = ProjectEvent::ProjectChanged {
            changes,
            session: None,
            call: None,
            reason: format!("{} was edited", projection.path),
        };
        let who = Actor::File(projection.path.into());
        self.append_with_project(&who, vec![event]).await?;
        self.unplaced.remove(projection.path);
        Ok(())
    }

    /// Tells, once, of a file that stays as it is because nobody can say what it means.
    async fn cannot_take_in(
        &mut self,
        path: &'static str,
        found: Option<Digest>,
        reason: &str,
    ) -> Result<(), DriveFault> {
        if self.unreadable.insert(path, found) == Some(found) || self.session.ended.is_some() {
            return Ok(());
        }
        let reason = reason.trim_end_matches('.');
        let note = format!("{path} cannot be taken in: {reason}. It was left as it is.");
        let path = path.to_owned();
        let event = Event::FileConflicted { call: None, path, found, note };
        self.note(&Actor::System, event)?;
        self.flush().await
    }
}
