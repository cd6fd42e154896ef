//! Decides to what calls that are undone go back, and what stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Change, FileChange, Outcome};
use toolgate_kernel::fold::{Project, Slot};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::SectionName;
use toolgate_kernel::policy::SEEN_FAMILY;
use toolgate_kernel::section::{CHANGES, Home, Projection, Shown};

use super::past::{Link, Made, Past};
use super::{Back, Undo};
use crate::drive::DriveFault;
use crate::runtime::Runtime;

/// Characters of arguments that are shown where an effect outside stays.
const ARGS_CHARS_MAX: usize = 200;

impl Past {
    /// Lists what reached the world, which nothing here takes back.
    pub(super) fn outside(&self, undo: &mut Undo) {
        let Some(first) = undo.calls.first().map(|one| one.call) else { return };
        let mut left = Vec::new();
        for (call, made) in self.made.range(first..) {
            let Made { tool, args, .. } = made;
            let args: String = args.chars().take(ARGS_CHARS_MAX).collect();
            if made.outcome == Outcome::Unknown {
                left.push(format!("{call} ({tool} {args}): nobody knows whether it was done."));
            } else if made.effect.needs_intent() {
                left.push(format!("{call} ({tool} {args}): what it did outside stays."));
            }
        }
        undo.left.extend(left);
    }

    pub(super) fn phase(&self, agent: &Agent, undo: &mut Undo) {
        let moves: Vec<_> = self.undone(undo).filter_map(|(_, made)| made.phase.clone()).collect();
        let Some(now) = self.session.phase.clone().filter(|_| !moves.is_empty()) else { return };
        let mut then = now.clone();
        for (from, to) in moves.into_iter().rev() {
            if to != then {
                undo.left.push(format!("Somebody else entered phase {then}; it stays."));
                break;
            }
            then = from;
        }
        if agent.phase(&then).is_none() {
            undo.left.push(format!("There is no phase {then} any more, so {now} stays."));
        } else if then != now {
            undo.phase = Some((now, then));
        }
    }

    /// Files that calls wrote, but those that show state: they follow from it.
    pub(super) async fn files(
        &self,
        runtime: &Runtime,
        agent: &Agent,
        undo: &mut Undo,
    ) -> Result<(), DriveFault> {
        let mut paths: BTreeMap<String, Vec<FileChange>> = BTreeMap::new();
        let shows = |path: &str| agent.toolset.projections().any(|shown| shown.path == path);
        for change in self.undone(undo).flat_map(|(_, made)| &made.files) {
            if !shows(&change.path) {
                paths.entry(change.path.clone()).or_default().push(change.clone());
            }
        }
        for (path, changes) in paths {
            let now = match runtime.files.version(&path) {
                Ok(now) => now,
                Err(fault) => {
                    undo.left.push(format!("{fault}; it stays as it is."));
                    continue;
                }
            };
            let mut then = now;
            for change in changes.iter().rev() {
                if change.new != then {
                    break;
                }
                then = change.old;
            }
            let first = changes.first().and_then(|change| change.old);
            if then != first {
                undo.left.push(somebody_else(&path, then != now));
            }
            if then == now {
                continue;
            }
            if let Some(hash) = then
                && runtime.store.blob(hash).await?.is_none()
            {
                undo.left.push(format!(
                    "{path}: what it said before was not kept, because it was too large or had a \
                     secret in it; it stays."
                ));
                continue;
            }
            undo.files.push(FileChange { path, old: now, new: then, kept: false });
        }
        Ok(())
    }

    pub(super) fn keys(&self, runtime: &Runtime, agent: &Agent, undo: &mut Undo) {
        let toolset = &agent.toolset;
        let mut stays: Vec<&SectionName> = Vec::new();
        for (section, projection) in toolset.shown() {
            let shown = projection.shown(&self.project).map(|shown| shown.file);
            let touched = !self.links_of(undo, Home::Project, &projection.key).is_empty();
            match runtime.files.version(projection.path) {
                Ok(found) if found == shown || !touched => {}
                Ok(_) | Err(_) => {
                    stays.push(section);
                    let path = projection.path;
                    undo.left.push(format!(
                        "{path} was edited and is not taken in yet; what calls wrote there stays."
                    ));
                }
            }
        }
        for (home, key) in self.links.keys() {
            let shows = toolset.projections().any(|projection| projection.key == *key);
            let kept = toolset.keeper(key.family()).is_some_and(|keeper| stays.contains(&keeper));
            let links = self.links_of(undo, *home, key);
            if shows || kept || links.is_empty() {
                continue;
            }
            let counts = toolset.families().any(|family| family.whole.as_ref() == Some(key));
            match counts.then(|| self.counted_on(*home, key)).flatten() {
                Some(back) => undo.keys.push(back),
                None => self.key(*home, key, &links, undo),
            }
        }
        for (section, projection) in toolset.shown() {
            if !stays.contains(&section) {
                let own = |back: &Back| toolset.keeper(back.key.family()) == Some(section);
                let moved = if undo.keys.iter().any(own) { Moved::Yes } else { Moved::No };
                self.show(runtime, projection, moved, undo);
            }
        }
        undo.keys.sort_by(|one, other| one.key.cmp(&other.key));
    }

    /// A whole counts the changes of its parts, and an undo is one of them. Nothing of it goes back:
    /// a number that was given out would be given out again, and whoever knows it would take the new
    /// thing for the old.
    fn counted_on(&self, home: Home, key: &Key) -> Option<Back> {
        let now = self.state(home).get(key).cloned();
        let slot = now.as_ref()?;
        let mut value = slot.as_one()?.clone();
        let count = if value.is_object() { value.get_mut(CHANGES)? } else { &mut value };
        *count = count.as_u64()?.saturating_add(1).into();
        let mut state = self.state(home).clone();
        let put = Change::Put { key: key.clone(), value, v: slot.layout() };
        state.apply(&put).ok()?;
        let then = state.get(key).cloned();
        Some(Back { key: key.clone(), home, now, then })
    }

    fn key(&self, home: Home, key: &Key, links: &[&Link], undo: &mut Undo) {
        let now = self.state(home).get(key).cloned();
        let (then, whole) = before(&now, links, version);
        // What was read is remembered anew with every read; nobody need be told.
        if !whole && key.family().as_str() != SEEN_FAMILY {
            let moved = version(&then) != version(&now);
            undo.left.push(somebody_else(&key.to_string(), moved));
        }
        if version(&then) != version(&now) {
            undo.keys.push(Back { key: key.clone(), home, now, then });
        }
    }

    /// The project as it will be.
    pub(super) fn project_after(&self, undo: &Undo) -> Project {
        let mut project = self.project.clone();
        for change in undo.changes(Home::Project) {
            // It takes back what was there, so there is nothing that it could not be made to.
            let applied = project.state.apply(&change);
            debug_assert!(applied.is_ok());
        }
        project
    }

    /// Writes a file that shows state as the state will be, where any of it goes back.
    fn show(&self, runtime: &Runtime, projection: &Projection, moved: Moved, undo: &mut Undo) {
        let links = self.links_of(undo, Home::Project, &projection.key);
        if links.is_empty() {
            return;
        }
        let (key, now) = (&projection.key, self.project.state.get(&projection.key).cloned());
        // An undo leaves the fingerprint with another version of the file before it.
        let (then, whole) = before(&now, &links, file);
        let Ok(found) = runtime.files.version(projection.path) else { return };
        let path = projection.path.to_owned();
        if whole && then.is_none() {
            undo.keys.push(Back { key: key.clone(), home: Home::Project, now, then });
            if found.is_some() {
                undo.files.push(FileChange { path, old: found, new: None, kept: false });
            }
            return;
        }
        if moved == Moved::No {
            return;
        }
        let mut project = self.project_after(undo);
        let content = (projection.render)(&project);
        let digest = Digest::of(&content);
        let layout = now.as_ref().map_or(1, Slot::layout);
        let value = serde_json::json!(Shown { file: digest, was: found });
        let put = Change::Put { key: key.clone(), value, v: layout };
        drop(project.state.apply(&put));
        let then = project.state.get(key).cloned();
        if found != Some(digest) {
            undo.keys.push(Back { key: key.clone(), home: Home::Project, now, then });
            let new = Some(digest);
            undo.files.push(FileChange { path: path.clone(), old: found, new, kept: false });
            undo.shown.insert(path, Arc::new(content));
        }
    }
}

/// What a key had before the calls, as far as nobody else changed it in between; and whether
/// nobody did. `known` is what a value is known by.
fn before(
    now: &Option<Slot>,
    links: &[&Link],
    known: fn(&Option<Slot>) -> Option<Digest>,
) -> (Option<Slot>, bool) {
    let mut then = now.clone();
    for link in links.iter().rev() {
        if known(&link.after) != known(&then) {
            return (then, false);
        }
        then.clone_from(&link.before);
    }
    (then, true)
}

/// The version of the file that a fingerprint is of.
fn file(slot: &Option<Slot>) -> Option<Digest> {
    Shown::deserialize(slot.as_ref()?.as_one()?).ok().map(|shown| shown.file)
}

/// Whether any of the state that a file shows goes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

fn version(slot: &Option<Slot>) -> Option<Digest> {
    slot.as_ref().map(Slot::version)
}

fn somebody_else(what: &str, moved: bool) -> String {
    if moved {
        format!("{what} goes back to what somebody else made of it in between.")
    } else {
        format!("{what} was changed by somebody else since; it stays as it is.")
    }
}
