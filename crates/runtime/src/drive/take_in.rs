//! Decides what happens when a person wrote into a file that shows state: it is taken in, never
//! overwritten.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::{Digest, unhex};
use toolgate_kernel::event::{Change, Event, ProjectEvent, StreamId};
use toolgate_kernel::fold::{Project, Slot};
use toolgate_kernel::names::CallId;
use toolgate_kernel::section::Projection;

use super::{DriveFault, Driver};
use crate::port::{FilesFault, StageTag, StoreFault};
use crate::runtime::SHARED_TRIES;

/// Who is named as the author of what was found in a file: whoever can write there is a person.
const EDITOR: &str = "editor";

impl Driver {
    /// Takes in what people wrote into files that show state.
    pub(super) async fn take_in(&mut self) -> Result<(), DriveFault> {
        let agent = Arc::clone(&self.crew.agent);
        for projection in agent.toolset.projections() {
            let project = self.runtime.project().0;
            let found = match self.runtime.files.version(projection.path) {
                Err(FilesFault::None) => return Ok(()),
                found => found?,
            };
            match (found, kept(&project, projection)) {
                (Some(found), kept) if Some(found) != kept => self.take_in_file(projection).await?,
                (None, Some(kept)) => self.restore(projection, kept)?,
                (Some(_) | None, _) => {}
            }
        }
        Ok(())
    }

    async fn take_in_file(&mut self, projection: &Projection) -> Result<(), DriveFault> {
        self.flush().await?;
        let (runtime, before) = (Arc::clone(&self.runtime), self.session());
        let turn = runtime.project_turn.lock().await;
        for _ in 0..SHARED_TRIES {
            let project = runtime.catch_up().await?;
            let Some(content) = runtime.files.read(projection.path)? else { return Ok(()) };
            let found = Digest::of(&content);
            if Some(found) == kept(&project, projection) {
                // Another session took it in meanwhile.
                return Ok(());
            }
            let changes = match (projection.take_in)(&project, &content) {
                Ok(changes) => changes,
                Err(reason) => return self.cannot_take_in(projection.path, found, &reason).await,
            };
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
        Err(DriveFault::Stopped)
    }

    /// Writes a file that somebody removed. What a person wrote in another form comes back with
    /// the next call that writes it.
    fn restore(&self, projection: &Projection, kept: Digest) -> Result<(), DriveFault> {
        let content = (projection.render)(&self.runtime.project().0);
        if Digest::of(&content) == kept {
            let tag = StageTag { session: self.session.id.clone(), call: CallId(0), at: 0 };
            self.runtime.files.stage(&tag, projection.path, Some((&content, kept)))?;
            // Somebody may have written it meanwhile: then it is a person's.
            self.runtime.files.place(&tag, projection.path, None, Some(kept))?;
        }
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
        let who = Actor::Human(EDITOR.into());
        self.append_with_project(&who, vec![event]).await
    }

    /// Tells, once, of a file that stays as it is because nobody can say what it means.
    async fn cannot_take_in(
        &mut self,
        path: &'static str,
        found: Digest,
        reason: &str,
    ) -> Result<(), DriveFault> {
        if self.unreadable.insert(path, found) == Some(found) || self.session.ended.is_some() {
            return Ok(());
        }
        let note =
            format!("{path} was edited and cannot be taken in: {reason} It was left as it is.");
        let path = path.to_owned();
        let event = Event::FileConflicted { call: None, path, found: Some(found), note };
        self.note(&Actor::System, event)?;
        self.flush().await
    }
}

/// The fingerprint of the file as calls left it.
fn kept(project: &Project, projection: &Projection) -> Option<Digest> {
    let text = project.state.get(&projection.key).and_then(Slot::as_one)?.as_str()?;
    unhex(text).map(Digest)
}
