//! What one call brings into the session and where it sends, for the rule of two.

use serde_json::Value;

use super::Call;
use crate::flow::{CallLabels, Sends, host_of};
use crate::fold::World;
use crate::key::Access;
use crate::names::Family;
use crate::section::{FILE_FAMILY, Home};

/// Where a call sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination<'a> {
    /// To the service of its tool.
    Service,
    /// To a host.
    Host {
        /// The host, in small letters.
        host: String,
        /// The address.
        url: &'a str,
    },
    /// To an address that cannot be read.
    Unreadable,
}

impl Call {
    /// Where it sends; nothing where it does not.
    pub(crate) fn destination(&self) -> Option<Destination<'_>> {
        match &self.spec.labels_for(&self.args).sends {
            Sends::No => None,
            Sends::Configured => Some(Destination::Service),
            Sends::To(pointer) => {
                let url = self.argument(pointer).and_then(Value::as_str);
                let read = url.and_then(|url| Some((host_of(url)?, url)));
                Some(
                    read.map_or(Destination::Unreadable, |(host, url)| Destination::Host {
                        host,
                        url,
                    }),
                )
            }
        }
    }

    /// The argument at a JSON Pointer.
    fn argument(&self, pointer: &str) -> Option<&Value> {
        let rest = pointer.strip_prefix('/')?;
        let (first, inner) = match rest.split_once('/') {
            Some((first, inner)) => (first, format!("/{inner}")),
            None => (rest, String::new()),
        };
        self.args_tree().get(first)?.pointer(&inner)
    }

    /// The labels of its tool, with what it reads here: state of the project and files are private, and
    /// untrusted where untrusted content may have been written there.
    pub(crate) fn labels(&self, world: &World<'_>) -> CallLabels {
        let own = self.spec.labels_for(&self.args);
        let mut labels = CallLabels {
            private: own.private,
            untrusted: own.untrusted,
            finds_urls: own.finds_urls,
            sends: None,
            observed: None,
        };
        let reads = self.keys.iter().filter(|(access, _)| *access == Access::Read);
        for (_, key) in reads {
            let family = world.toolset.family(key.family());
            labels.private |= family.is_some_and(|family| family.home != Home::Session);
            labels.untrusted |= world.project.untrusted.contains_key(key.family());
        }
        // What reads without saying which keys may have read all that its section keeps; a section
        // that keeps nothing reads files.
        let section = world.toolset.entries().get(self.place).map(|entry| &entry.section);
        let keeps = |family: &Family| world.toolset.keeper(family) == section;
        let reads_files = !world.toolset.families().any(|family| keeps(&family.name));
        let may_read = |family: &Family| match family.as_str() {
            FILE_FAMILY => reads_files,
            _ => keeps(family),
        };
        labels.untrusted |= own.private && world.project.untrusted.keys().any(may_read);
        labels.sends = self.destination().map(|destination| match destination {
            Destination::Host { host, .. } => host,
            Destination::Service | Destination::Unreadable => self.spec.name.to_string(),
        });
        labels
    }
}
