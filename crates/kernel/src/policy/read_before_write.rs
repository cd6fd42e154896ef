//! Decides whether what a call overwrites was read in its present form.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Names, Policy, Verdict};
use crate::fold::World;
use crate::gate::Call;
use crate::key::{Access, Key, Touched};
use crate::names::{Family, PolicyName};
use crate::tool::ToolSpec;

/// How long a read counts.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReadScope {
    /// Within the iteration that made it.
    #[default]
    Iteration,
    /// Within the session.
    Session,
    /// For every session of the project.
    Project,
}

/// Whether what the session wrote itself counts as read.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OwnWrites {
    /// It does not: after a write the content must be read again.
    #[default]
    Unread,
    /// It does.
    Read,
}

/// The family under which the project remembers reads for [`ReadScope::Project`].
pub const SEEN_FAMILY: &str = "seen";

/// The key under which the project remembers that `key` was read.
pub fn seen_key(key: &Key) -> Option<Key> {
    let family = Family::parse(SEEN_FAMILY).ok()?;
    // A key too long to be remembered was never read, so its write is denied.
    Key::new(family, &key.to_string()).ok()
}

/// Existing content must be read before it is overwritten. Creating is free.
///
/// It compares content hashes, so a read of an older content does not count. A file that shows
/// state is written along with that state, so there the state alone is what must have been read.
pub struct ReadBeforeWrite {
    name: PolicyName,
    families: BTreeSet<Family>,
    scope: ReadScope,
    own_writes: OwnWrites,
}

impl ReadBeforeWrite {
    /// Governs the given families of keys; none given means all of them.
    pub fn new(
        name: PolicyName,
        families: BTreeSet<Family>,
        scope: ReadScope,
        own_writes: OwnWrites,
    ) -> Self {
        Self { name, families, scope, own_writes }
    }

    /// Whether reads must be remembered by the project.
    pub fn scope(&self) -> ReadScope {
        self.scope
    }

    fn was_read(&self, touched: &Touched, world: &World<'_>) -> bool {
        if self.scope == ReadScope::Project {
            let slot =
                seen_key(&touched.key).and_then(|key| world.project.state.get(&key).cloned());
            let version = slot.as_ref().and_then(|slot| slot.as_one()).and_then(Value::as_str);
            return version.is_some()
                && version == touched.version.map(|v| v.to_string()).as_deref();
        }
        world.session.reads.get(&touched.key).is_some_and(|seen| {
            seen.version == touched.version
                && (seen.access == Access::Read || self.own_writes == OwnWrites::Read)
                && (self.scope != ReadScope::Iteration || seen.iteration == world.session.iteration)
        })
    }
}

impl Policy for ReadBeforeWrite {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        tool.touches_anything()
    }

    fn judge(&self, _: &Call, touched: &[Touched], world: &World<'_>) -> Verdict {
        let writes = |key: &Key| touched.iter().any(|t| t.access == Access::Write && t.key == *key);
        let shown = |key: &Key| {
            let mut projections = world.toolset.projections();
            projections.any(|projection| projection.shows(key) && writes(&projection.key))
        };
        let governed = |key: &Key| {
            (self.families.is_empty() || self.families.contains(key.family())) && !shown(key)
        };
        let unread = touched.iter().find(|touched| {
            touched.access == Access::Write
                && touched.version.is_some()
                && governed(&touched.key)
                && !self.was_read(touched, world)
        });
        match unread {
            None => Verdict::Allow,
            Some(touched) => {
                Verdict::Deny(format!("{} must be read before overwriting.", named(&touched.key)))
            }
        }
    }

    fn names(&self) -> Names<'_> {
        Names { families: self.families.iter().collect(), ..Names::default() }
    }

    fn describe(&self) -> Value {
        json!({ "read_before_write": {
            "families": self.families, "scope": self.scope, "own_writes": self.own_writes,
        }})
    }
}

/// A key as a sentence names it: `File 'canon.md'`.
fn named(key: &Key) -> String {
    let family = key.family().as_str();
    let capital: String =
        family.chars().take(1).flat_map(char::to_uppercase).chain(family.chars().skip(1)).collect();
    if key.name().is_empty() { capital } else { format!("{capital} '{}'", key.name()) }
}
