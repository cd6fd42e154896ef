//! Tells a session that the log was restored to an older state: what people decided before lapses,
//! and calls that were open are not run, because they may have run in the part that is lost.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, RawCall, RestoreRef};
use toolgate_kernel::fold::{LogRestore, Project};
use toolgate_kernel::gate::Refusal;

use super::{DriveFault, Driver};

impl Driver {
    /// Writes down that the log was restored, where the session does not know it yet, and ends every
    /// call that was open.
    pub(super) async fn learn_of_restore(&mut self, project: &Project) -> Result<(), DriveFault> {
        if !self.note_restore(project)? {
            return Ok(());
        }
        let session = self.session();
        let open: Vec<Arc<RawCall>> =
            session.open.iter().map(|open| Arc::clone(&open.raw)).collect();
        for raw in open {
            match self.admitted(raw.id) {
                Some(_) => self.settle_lost_in_restore(raw.id)?,
                None => self.refuse(&raw, &Refusal::restored())?,
            }
        }
        self.flush().await
    }

    /// Writes down that the log was restored, where the session does not know it yet. Tells whether
    /// it did not.
    pub(super) fn note_restore(&mut self, project: &Project) -> Result<bool, DriveFault> {
        let Some(restore) = unknown_restore(project, self.session.restored) else {
            return Ok(false);
        };
        self.note(&Actor::System, Event::LogRestored { restore })?;
        Ok(true)
    }
}

/// The newest restore of the log, where it is another one than the one that is known.
pub fn unknown_restore(project: &Project, known: Option<RestoreRef>) -> Option<RestoreRef> {
    let newest = project.restores.back().map(LogRestore::named)?;
    (known != Some(newest)).then_some(newest)
}
