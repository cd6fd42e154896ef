//! Decides how groups, grants, allow and deny lists combine, and which of their names do not exist.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::agent::AgentDraft;
use crate::budget::BudgetRefusal;
use crate::limits::LimitRefusal;
use crate::names::{AgentId, GroupName, PhaseName, PolicyName, ServerName, ToolName, nearest};
use crate::phase::{Grant, Phase};
use crate::policy::{EgressRefusal, MACHINE_POLICY_PREFIX, Policy};
use crate::prompt::UnknownWord;
use crate::section::{Toolset, ToolsetRefusal};
use crate::settings::SettingRefusal;
use crate::tool::{Misfit, Problem, Shape};

/// An agent that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentRefusal {
    /// The sections do not go together.
    #[error(transparent)]
    Toolset(#[from] ToolsetRefusal),
    /// A limit is off.
    #[error(transparent)]
    Limit(#[from] LimitRefusal),
    /// The budget is off.
    #[error(transparent)]
    Budget(#[from] BudgetRefusal),
    /// A setting is off.
    #[error(transparent)]
    Setting(#[from] SettingRefusal),
    /// A destination is none.
    #[error(transparent)]
    Egress(#[from] EgressRefusal),
    /// A policy has the name of one that is built in, or of the machine.
    #[error(
        "policy {0}: this name is for a policy that is built in or of the machine; give yours another one"
    )]
    OwnPolicy(PolicyName),
    /// The system prompt uses a word that nobody gives a meaning to.
    #[error("system_prompt: {0}")]
    Word(UnknownWord),
    /// A phase does not grant a tool without which it must not begin.
    #[error("phase {phase}: it requires {tool} and does not grant it")]
    Required {
        /// The phase.
        phase: PhaseName,
        /// The tool.
        tool: ToolName,
    },
    /// There is no phase.
    #[error("an agent needs at least one phase")]
    NoPhase,
    /// Two phases have one name.
    #[error("phase {0} is given twice")]
    PhaseTwice(PhaseName),
    /// An example is a call that no tool of the policy takes.
    #[error("policy {policy}, in an example: {misfit}")]
    Example {
        /// The policy.
        policy: PolicyName,
        /// What is wrong with it.
        misfit: Misfit,
    },
    /// Something names what does not exist.
    #[error("{place}: no {kind} is named {name:?}{}", suggest(.near))]
    Unknown {
        /// Where it is named.
        place: Place,
        /// Tool, group or phase.
        kind: &'static str,
        /// The name.
        name: String,
        /// The nearest name there is.
        near: Option<String>,
    },
}

/// Where something is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the tools of a phase.
    Phase(PhaseName),
    /// In the ways out of a phase.
    Transitions(PhaseName),
    /// In a group.
    Group(GroupName),
    /// In a policy.
    Policy(PolicyName),
    /// In the allow list.
    Allow,
    /// In the deny list.
    Deny,
    /// In the allow list of tool calling.
    CallingAllow,
    /// In the deny list of tool calling.
    CallingDeny,
    /// In the enabled tools of an agent.
    Agent(AgentId),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase(phase) => write!(f, "phase {phase}"),
            Self::Transitions(phase) => write!(f, "transitions of phase {phase}"),
            Self::Group(group) => write!(f, "group {group}"),
            Self::Policy(policy) => write!(f, "policy {policy}"),
            Self::Allow => f.write_str("allow list"),
            Self::Deny => f.write_str("deny list"),
            Self::CallingAllow => f.write_str("tool_allowlist"),
            Self::CallingDeny => f.write_str("tool_denylist"),
            Self::Agent(agent) => write!(f, "enabled_tools of agent {agent}"),
        }
    }
}

fn suggest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// A phase with what it grants.
pub(crate) struct Granted {
    pub(crate) phase: Phase,
    /// Places in the toolset.
    pub(crate) tools: BTreeSet<usize>,
    /// The MCP servers it asks something of.
    pub(crate) servers: BTreeSet<ServerName>,
    /// What it grants of them, whoever of them is there.
    pub(crate) outside: Outside,
}

/// Which tools of MCP servers a phase grants, by name: also those that are not there now.
#[derive(Default)]
pub(crate) struct Outside {
    /// All tools of these servers.
    servers: BTreeSet<ServerName>,
    /// These tools.
    tools: BTreeSet<ToolName>,
    /// None of these, whatever is said above.
    never: BTreeSet<ToolName>,
    /// Only these, where there is such a list; and only what is in all of them.
    only: Vec<BTreeSet<ToolName>>,
}

impl Outside {
    /// Whether a tool of a server is granted.
    pub(crate) fn grants(&self, tool: &ToolName) -> bool {
        let Some((server, _)) = tool.of_server() else { return false };
        let wire = tool.on_wire();
        let names = |list: &BTreeSet<ToolName>| list.contains(tool) || list.contains(&wire);
        (self.servers.contains(server) || names(&self.tools))
            && !names(&self.never)
            && self.only.iter().all(names)
    }
}

/// How groups, grants, allow and deny lists combine: in this one place. A name that does not
/// exist is noted, and grants nothing.
pub(crate) struct Masks<'a> {
    pub(crate) toolset: &'a Toolset,
    pub(crate) draft: &'a AgentDraft,
    pub(crate) refused: Vec<AgentRefusal>,
}

impl Masks<'_> {
    /// Every phase with the tools it grants.
    pub(crate) fn phases(&mut self) -> Vec<Granted> {
        if self.draft.phases.is_empty() {
            self.refused.push(AgentRefusal::NoPhase);
        }
        self.check_policies();
        self.check_groups();
        let mut phases: Vec<Granted> = Vec::new();
        for phase in &self.draft.phases {
            if phases.iter().any(|other| other.phase.name == phase.name) {
                self.refused.push(AgentRefusal::PhaseTwice(phase.name.clone()));
                continue;
            }
            self.check_transitions(phase);
            let (tools, servers) = (self.granted(phase), self.servers(phase));
            let outside = self.outside(phase);
            phases.push(Granted { phase: phase.clone(), tools, servers, outside });
        }
        let held_back = self.held_back();
        for Granted { phase, tools, .. } in &mut phases {
            tools.retain(|tool| !held_back.contains(tool));
            self.check_required(phase, tools);
        }
        phases
    }

    /// The tools each agent of conversations may use, in order; `None` for all.
    pub(crate) fn enabled(&mut self) -> Vec<Option<BTreeSet<usize>>> {
        let mut enabled = Vec::new();
        for (id, text) in &self.draft.agents {
            let tools = text.enabled_tools.as_deref();
            let place = Place::Agent(id.clone());
            enabled.push(tools.map(|tools| self.tools(tools, &place).into_iter().collect()));
        }
        enabled
    }

    /// What no phase grants: what an allow list leaves out, and what a deny list names.
    fn held_back(&mut self) -> BTreeSet<usize> {
        let (draft, calling) = (self.draft, &self.draft.tool_calling);
        let every = 0..self.toolset.entries().len();
        let mut held_back: BTreeSet<usize> = every.clone().filter(|_| calling.disabled).collect();
        let allows = [(&draft.allow, Place::Allow), (&calling.allow, Place::CallingAllow)];
        for (allow, place) in allows {
            if let Some(allow) = allow {
                let allowed = self.tools(allow, &place);
                held_back.extend(every.clone().filter(|tool| !allowed.contains(tool)));
            }
        }
        for (deny, place) in [(&draft.deny, Place::Deny), (&calling.deny, Place::CallingDeny)] {
            held_back.extend(self.tools(deny, &place));
        }
        held_back
    }

    fn granted(&mut self, phase: &Phase) -> BTreeSet<usize> {
        let place = Place::Phase(phase.name.clone());
        let entries = self.toolset.entries().iter().enumerate();
        let Grant::Some { groups, servers, include, exclude } = &phase.grant else {
            let own = entries.filter(|(_, entry)| entry.spec.name.of_server().is_none());
            return own.map(|(at, _)| at).collect();
        };
        let of_servers = entries.filter(|(_, entry)| {
            let server = entry.spec.name.of_server().map(|(server, _)| server);
            server.is_some_and(|server| servers.iter().any(|granted| granted.as_str() == server))
        });
        let mut granted: BTreeSet<usize> = of_servers.map(|(at, _)| at).collect();
        for group in groups {
            granted.extend(self.group(group, &place));
        }
        granted.extend(self.tools(include, &place));
        for tool in self.tools(exclude, &place) {
            granted.remove(&tool);
        }
        granted
    }

    /// The same for tools of servers, by name: what a server offers is known once it was asked.
    fn outside(&self, phase: &Phase) -> Outside {
        let (draft, calling) = (self.draft, &self.draft.tool_calling);
        let Grant::Some { groups, servers, include, exclude } = &phase.grant else {
            return Outside::default();
        };
        if calling.disabled {
            return Outside::default();
        }
        let grouped = groups.iter().filter_map(|group| draft.groups.get(group)).flatten();
        let never = exclude.iter().chain(&draft.deny).chain(&calling.deny);
        let only = [&draft.allow, &calling.allow].into_iter().flatten();
        Outside {
            servers: servers.iter().cloned().collect(),
            tools: grouped.chain(include).cloned().collect(),
            never: never.cloned().collect(),
            only: only.map(|list| list.iter().cloned().collect()).collect(),
        }
    }

    /// The servers a phase asks something of, whatever they turn out to offer.
    fn servers(&self, phase: &Phase) -> BTreeSet<ServerName> {
        let Grant::Some { groups, servers, include, .. } = &phase.grant else {
            return BTreeSet::new();
        };
        let mut wanted: BTreeSet<ServerName> = servers.iter().cloned().collect();
        let grouped = groups.iter().filter_map(|group| self.draft.groups.get(group)).flatten();
        for tool in grouped.chain(include).chain(&phase.required) {
            let server = tool.of_server().and_then(|(server, _)| ServerName::parse(server).ok());
            wanted.extend(server);
        }
        wanted
    }

    fn group(&mut self, name: &GroupName, place: &Place) -> Vec<usize> {
        if let Some(tools) = self.draft.groups.get(name) {
            // What does not exist in it was noted when the groups were looked at.
            return tools.iter().filter_map(|tool| self.toolset.find(tool.as_str())).collect();
        }
        let entries = self.toolset.entries().iter().enumerate();
        let tools: Vec<usize> =
            entries.filter(|(_, entry)| entry.spec.group == *name).map(|(at, _)| at).collect();
        if tools.is_empty() {
            let known = self.toolset.groups();
            let known = known.iter().map(|group| group.as_str());
            let known = known.chain(self.draft.groups.keys().map(GroupName::as_str));
            self.refused.push(unknown(place, "group", name.as_str(), known));
        }
        tools
    }

    fn tools(&mut self, names: &[ToolName], place: &Place) -> Vec<usize> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            match self.toolset.find(name.as_str()) {
                Some(at) => found.push(at),
                // What a server offers is known once it was asked.
                None if self.declares(name) => {}
                None => {
                    let known = self.toolset.entries().iter().map(|entry| entry.spec.name.as_str());
                    self.refused.push(unknown(place, "tool", name.as_str(), known));
                }
            }
        }
        found
    }

    /// A policy that names what does not exist would govern nothing, and nobody would know.
    /// Whether a name is that of a tool of a server that is declared.
    fn declares(&self, name: &ToolName) -> bool {
        name.of_server().is_some_and(|(server, _)| self.draft.servers.contains(server))
    }

    fn check_policies(&mut self) {
        let enabled = self.draft.sections.iter().filter(|section| section.enabled);
        let own = enabled.flat_map(|section| &section.policies);
        // A policy of the machine names tools that only some of its projects have.
        let of_project =
            |policy: &&Arc<dyn Policy>| !policy.name().as_str().starts_with(MACHINE_POLICY_PREFIX);
        for policy in own.chain(self.draft.policies.iter().filter(of_project)) {
            let place = Place::Policy(policy.name().clone());
            let names = policy.names();
            let named: Vec<ToolName> = names.tools.into_iter().cloned().collect();
            let found = self.tools(&named, &place);
            self.check_own_names(&named, &place);
            let entries = found.iter().filter_map(|at| self.toolset.entries().get(*at));
            let shapes: Vec<&Shape> = entries.map(|entry| &entry.spec.input_shape).collect();
            // Without the tools nothing can be said of their arguments.
            for example in names.examples.iter().filter(|_| shapes.len() == named.len()) {
                if let Err(misfit) = check_example(&shapes, example) {
                    let policy = policy.name().clone();
                    self.refused.push(AgentRefusal::Example { policy, misfit });
                }
            }
            for family in names.families {
                if self.toolset.family(family).is_none() {
                    let known = self.toolset.families().map(|family| family.name.as_str());
                    self.refused.push(unknown(&place, "state family", family.as_str(), known));
                }
            }
        }
    }

    /// A policy goes by the names that tools have. By another name of theirs it would govern nothing.
    fn check_own_names(&mut self, named: &[ToolName], place: &Place) {
        for name in named {
            let entry = self.toolset.find(name.as_str());
            let entry = entry.and_then(|at| self.toolset.entries().get(at));
            if let Some(entry) = entry.filter(|entry| entry.spec.name != *name) {
                let near = Some(entry.spec.name.to_string());
                let (place, name) = (place.clone(), name.to_string());
                self.refused.push(AgentRefusal::Unknown { place, kind: "tool", name, near });
            }
        }
    }

    /// A group that no phase uses yet is checked all the same.
    fn check_groups(&mut self) {
        for (name, tools) in &self.draft.groups {
            self.tools(tools, &Place::Group(name.clone()));
        }
    }

    fn check_required(&mut self, phase: &Phase, granted: &BTreeSet<usize>) {
        let place = Place::Phase(phase.name.clone());
        for tool in &phase.required {
            for at in self.tools(std::slice::from_ref(tool), &place) {
                if !granted.contains(&at) {
                    let (phase, tool) = (phase.name.clone(), tool.clone());
                    self.refused.push(AgentRefusal::Required { phase, tool });
                }
            }
        }
    }

    fn check_transitions(&mut self, phase: &Phase) {
        let known = || self.draft.phases.iter().map(|phase| phase.name.as_str());
        for to in phase.transitions.iter().map(|transition| &transition.to) {
            if !known().any(|name| name == to.as_str()) {
                let place = Place::Transitions(phase.name.clone());
                let refusal = unknown(&place, "phase", to.as_str(), known());
                self.refused.push(refusal);
            }
        }
    }
}

/// An example may leave arguments out, but a name that no tool has is a slip: the rule would look
/// at something that never comes.
fn check_example(shapes: &[&Shape], args: &Map<String, Value>) -> Result<(), Misfit> {
    let mut first = None;
    for shape in shapes {
        let fitted = shape.fit(&mut Value::Object(args.clone()), &mut Vec::new());
        let misfits = fitted.err().unwrap_or_default();
        match misfits.into_iter().find(|misfit| misfit.problem == Problem::Unknown) {
            None => return Ok(()),
            Some(misfit) => first = first.or(Some(misfit)),
        }
    }
    first.map_or(Ok(()), Err)
}

fn unknown<'a>(
    place: &Place,
    kind: &'static str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> AgentRefusal {
    let near = nearest(name, known).map(str::to_owned);
    AgentRefusal::Unknown { place: place.clone(), kind, name: name.to_owned(), near }
}
