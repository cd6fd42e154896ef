//! Decides, in one place, which version of the content a key names.

use toolgate_kernel::agent::Agent;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::gate::Refusal;
use toolgate_kernel::key::{Access, Key, Touched};
use toolgate_kernel::section::Home;

use crate::port::{Files, FilesFault};

/// Where content is looked up.
pub(crate) struct Lookup<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a Session,
    pub(crate) project: &'a Project,
    pub(crate) files: &'a dyn Files,
}

impl Lookup<'_> {
    /// The footprint with the version each key has now.
    pub(crate) fn touched(&self, keys: &[(Access, Key)]) -> Result<Vec<Touched>, FilesFault> {
        let one = |(access, key): &(Access, Key)| {
            let version = self.version(key)?;
            Ok(Touched { access: *access, key: key.clone(), version })
        };
        keys.iter().map(one).collect()
    }

    /// The version of one key. A key of no family has no content of ours.
    pub(crate) fn version(&self, key: &Key) -> Result<Option<Digest>, FilesFault> {
        match self.agent.toolset.family(key.family()).map(|family| family.home) {
            Some(Home::Session) => Ok(self.session.state.version(key)),
            Some(Home::Project) => Ok(self.project.state.version(key)),
            Some(Home::Files) => self.files.version(key.name()),
            None => Ok(None),
        }
    }
}

/// Why a call is not run whose files could not be looked at: it reaches where it must not, or the
/// file system failed.
pub(crate) fn unlooked(fault: &FilesFault) -> Refusal {
    match fault {
        FilesFault::Outside { .. } | FilesFault::None => Refusal::unreachable(&fault.to_string()),
        FilesFault::TooLarge { .. } | FilesFault::Unavailable { .. } => {
            Refusal::broken(&fault.to_string())
        }
    }
}
