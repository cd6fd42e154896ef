//! Decides which calls of callers without a model loop are at work together (ADR 0025).

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::CallAdmitted;
use toolgate_kernel::key::{Access, Key, Touched};
use toolgate_kernel::names::ToolName;
use toolgate_kernel::section::Toolset;
use toolgate_kernel::tool::Effect;

/// What a call does while it is at work, as far as others are concerned.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Company {
    /// It looks, and changes nothing.
    Looks,
    /// It reaches the world by this way: the server of its tool, or the tool itself.
    Reaches(Arc<str>),
    /// It changes what is kept here: values, files, the phase.
    Changes,
}

impl Company {
    /// What calls of a tool do, as far as its name and effect tell.
    pub fn of(tool: &ToolName, effect: Effect) -> Self {
        match effect {
            Effect::Read => Self::Looks,
            Effect::Staged => Self::Changes,
            Effect::Idempotent | Effect::External => {
                let way = tool.of_server().map_or(tool.as_str(), |(server, _)| server);
                Self::Reaches(way.into())
            }
        }
    }

    /// Whether a call may begin while one is at work that began before it.
    pub fn begins_beside(&self, at_work: &Self) -> bool {
        match (self, at_work) {
            (_, Self::Changes) => false,
            (Self::Reaches(way), Self::Reaches(other)) => way != other,
            (Self::Looks | Self::Changes, Self::Looks | Self::Reaches(_))
            | (Self::Reaches(_), Self::Looks) => true,
        }
    }
}

/// The place of an admitted call among others: what it does, and to what.
#[derive(Debug, Clone)]
pub(super) struct Place {
    company: Company,
    /// Who made it.
    actor: Actor,
    /// What it touches. A part stands there as its whole.
    touches: Vec<(Access, Key)>,
    /// Whether it was seen to wait for something while it is at work.
    waits: bool,
}

impl Place {
    /// One that reaches the world and writes here too changes what is kept here.
    pub(super) fn of(admitted: &CallAdmitted, actor: Actor, toolset: &Toolset) -> Self {
        let whole =
            |key: &Key| toolset.family(key.family()).and_then(|family| family.whole.clone());
        let touch = |touched: &Touched| {
            (touched.access, whole(&touched.key).unwrap_or(touched.key.clone()))
        };
        let touches: Vec<_> = admitted.touches.iter().map(touch).collect();
        let writes = touches.iter().any(|(access, _)| *access == Access::Write);
        let company = Company::of(&admitted.tool, admitted.effect);
        let company = if writes { Company::Changes } else { company };
        Self { company, actor, touches, waits: false }
    }

    /// Whether it changes something and nobody knows yet whether that takes a while.
    pub(super) fn is_new_change(&self) -> bool {
        self.company == Company::Changes && !self.waits
    }

    /// It has begun and has not come to its end at once.
    pub(super) fn is_seen_to_wait(&mut self) {
        self.waits = true;
    }

    /// Whether this and what another one changes have nothing in common. One that does not say what
    /// it changes has something in common with everybody.
    fn is_apart_from(&self, change: &Self) -> bool {
        let mut writes = change.touches.iter().filter(|(access, _)| *access == Access::Write);
        writes.next().is_some() && !self.clashes_with(change)
    }

    /// Whether one of two changes what the other one touches.
    fn clashes_with(&self, other: &Self) -> bool {
        self.touches.iter().any(|(access, key)| {
            let mut same = other.touches.iter().filter(|(_, theirs)| theirs == key);
            same.any(|(theirs, _)| *access == Access::Write || *theirs == Access::Write)
        })
    }

    fn begins_beside(&self, at_work: &Self) -> bool {
        self.company.begins_beside(&at_work.company)
            || (at_work.company == Company::Changes && at_work.waits && self.is_apart_from(at_work))
    }

    /// Whether a call may begin before one that was admitted earlier and has not begun, because it
    /// waits for a change that takes a while. What changes something overtakes no other call of its
    /// client.
    fn overtakes(&self, waiting: &Self) -> bool {
        match (&self.company, &waiting.company) {
            (Company::Changes, _) if self.actor == waiting.actor => false,
            (_, Company::Changes) => self.is_apart_from(waiting),
            (Company::Changes, Company::Looks | Company::Reaches(_)) => !self.clashes_with(waiting),
            (Company::Looks | Company::Reaches(_), Company::Looks | Company::Reaches(_)) => {
                self.company.begins_beside(&waiting.company)
            }
        }
    }

    /// Whether a call may begin now.
    pub(super) fn may_begin<'a>(
        &self,
        mut at_work: impl Iterator<Item = &'a Self>,
        mut waiting: impl Iterator<Item = &'a Self>,
    ) -> bool {
        at_work.all(|other| self.begins_beside(other)) && waiting.all(|other| self.overtakes(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that touches keys: those that begin with `!` are written.
    fn place(name: &str, effect: Effect, keys: &[&str]) -> Place {
        let touch = |key: &&str| match key.strip_prefix('!') {
            Some(key) => (Access::Write, Key::parse(key).unwrap()),
            None => (Access::Read, Key::parse(key).unwrap()),
        };
        let company = Company::of(&ToolName::parse(name).unwrap(), effect);
        let actor = Actor::Client("one".into());
        Place { company, actor, touches: keys.iter().map(touch).collect(), waits: false }
    }

    #[test]
    fn only_what_would_get_in_each_others_way_waits() {
        let of = |name: &str, effect| place(name, effect, &[]);
        let look = of("mcp:x:look", Effect::Read);
        let (x, y) = (of("mcp:x:do", Effect::External), of("mcp:y:do", Effect::Idempotent));
        let (again, own) = (of("mcp:x:other", Effect::Idempotent), of("web", Effect::External));
        let change = of("mcp:x:note", Effect::Staged);
        for (later, earlier, beside, ahead) in [
            (&look, &look, true, true),
            (&look, &x, true, true),
            (&look, &change, false, false),
            (&x, &look, true, true),
            (&x, &y, true, true),
            (&x, &own, true, true),
            (&x, &again, false, false),
            (&x, &change, false, false),
            (&change, &look, true, false),
            (&change, &x, true, false),
            (&change, &change, false, false),
        ] {
            assert_eq!(later.begins_beside(earlier), beside, "{later:?} beside {earlier:?}");
            assert_eq!(later.overtakes(earlier), ahead, "{later:?} before {earlier:?}");
        }
    }

    #[test]
    fn a_change_that_takes_a_while_is_in_the_way_of_what_it_has_in_common_with() {
        let change = place("own", Effect::Staged, &["!agents", "note:a"]);
        let waits = Place { waits: true, ..change.clone() };
        let silent = Place { waits: true, ..place("own", Effect::Staged, &[]) };
        for (effect, keys, apart) in [
            (Effect::Read, &[][..], true),
            (Effect::Read, &["note:a", "note:b"], true),
            (Effect::Read, &["agents"], false),
            (Effect::External, &["agents"], false),
            (Effect::External, &[], true),
            (Effect::Staged, &[], true),
            (Effect::Staged, &["!note:b"], true),
            (Effect::Staged, &["!note:a"], false),
            (Effect::Staged, &["!agents"], false),
        ] {
            let later = place("later", effect, keys);
            let actor = Actor::Client("another".into());
            let others = Place { actor, ..later.clone() };
            assert!(!later.begins_beside(&change), "nobody knows yet whether it waits: {keys:?}");
            assert!(!later.begins_beside(&silent), "it does not say what it changes: {keys:?}");
            assert_eq!(later.begins_beside(&waits), apart, "{effect:?} {keys:?}");
            assert_eq!(others.overtakes(&waits), apart, "{effect:?} {keys:?}");
            let own = apart && effect != Effect::Staged;
            assert_eq!(later.overtakes(&waits), own, "{effect:?} {keys:?}");
        }
    }
}
