//! Decides which calls of callers without a model loop are at work together (ADR 0025).

use std::sync::Arc;

use toolgate_kernel::event::CallAdmitted;
use toolgate_kernel::key::Access;
use toolgate_kernel::names::ToolName;
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

    /// The same of a call that was admitted: one that reaches the world and writes here too changes
    /// what is kept here.
    pub(super) fn of_call(admitted: &CallAdmitted) -> Self {
        let writes = admitted.touches.iter().any(|touched| touched.access == Access::Write);
        if writes { Self::Changes } else { Self::of(&admitted.tool, admitted.effect) }
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

    /// Whether a call may begin before one that was admitted earlier and has not begun. What changes
    /// something overtakes nobody.
    fn overtakes(&self, waiting: &Self) -> bool {
        *self != Self::Changes && self.begins_beside(waiting)
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

    #[test]
    fn only_what_would_get_in_each_others_way_waits() {
        let of = |name: &str, effect| Company::of(&ToolName::parse(name).unwrap(), effect);
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
}
