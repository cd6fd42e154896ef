//! Decides what an agent is: inert data that says which tools each phase grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::budget::{Budget, BudgetRefusal};
use crate::digest::Digest;
use crate::limits::{LimitRefusal, Limits};
use crate::names::{GroupName, PhaseName, ToolName, nearest};
use crate::phase::{Grant, Phase};
use crate::policy::Policy;
use crate::prompt::{Template, UnknownWord};
use crate::section::{Entry, Section, Toolset, ToolsetRefusal};
use crate::settings::{SettingRefusal, Settings};
use crate::tool::{Misfit, Problem, Shape};

/// Everything an agent is made of.
pub struct AgentDraft {
    /// Its name.
    pub name: String,
    /// The system prompt before the sections' texts, with words in braces.
    pub system_prompt: String,
    /// Sections, in order.
    pub sections: Vec<Section>,
    /// Policies that govern all tools.
    pub policies: Vec<Arc<dyn Policy>>,
    /// Phases; the first one is where a session starts.
    pub phases: Vec<Phase>,
    /// Groups of the configuration; they replace a tool's own group of the same name.
    pub groups: BTreeMap<GroupName, Vec<ToolName>>,
    /// When given, no other tool can ever be called.
    pub allow: Option<Vec<ToolName>>,
    /// Tools that can never be called.
    pub deny: Vec<ToolName>,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// What a run may spend.
    pub budget: Budget,
    /// How a run goes on from iteration to iteration.
    pub settings: Settings,
    /// Whether reads are remembered by the project.
    pub remember_reads: bool,
}

impl AgentDraft {
    /// An agent with the given sections and one phase, `main`, that grants everything.
    pub fn new(name: &str, sections: Vec<Section>) -> Self {
        Self {
            name: name.to_owned(),
            system_prompt: String::new(),
            sections,
            policies: Vec::new(),
            phases: PhaseName::parse("main").into_iter().map(Phase::new).collect(),
            groups: BTreeMap::new(),
            allow: None,
            deny: Vec::new(),
            limits: Limits::default(),
            budget: Budget::default(),
            settings: Settings::default(),
            remember_reads: false,
        }
    }
}

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
    #[error("{place}, in an example: {misfit}")]
    Example {
        /// The policy.
        place: String,
        /// What is wrong with it.
        misfit: Misfit,
    },
    /// Something names what does not exist.
    #[error("{place}: no {kind} is named {name:?}{}", suggest(.near))]
    Unknown {
        /// Where it is named.
        place: String,
        /// Tool, group or phase.
        kind: &'static str,
        /// The name.
        name: String,
        /// The nearest name there is.
        near: Option<String>,
    },
}

fn suggest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// An agent, checked and ready. It has no behaviour: `next` decides, the runtime performs.
pub struct Agent {
    /// Its name.
    pub name: String,
    /// The system prompt before the sections' texts.
    pub prompt: Template,
    /// The tools.
    pub toolset: Toolset,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// What a run may spend.
    pub budget: Budget,
    /// How a run goes on from iteration to iteration.
    pub settings: Settings,
    /// Whether reads are remembered by the project.
    pub remember_reads: bool,
    /// Fingerprint of tools, phases, policies and limits.
    pub fingerprint: Digest,
    phases: Vec<(Phase, BTreeSet<usize>)>,
}

impl Agent {
    /// Checks that everything named exists and computes what each phase grants.
    pub fn build(draft: AgentDraft) -> Result<Self, AgentRefusal> {
        draft.limits.check()?;
        draft.budget.check()?;
        draft.settings.check()?;
        let toolset = Toolset::build(&draft.sections, &draft.policies)?;
        if draft.phases.is_empty() {
            return Err(AgentRefusal::NoPhase);
        }
        let masks = Masks { toolset: &toolset, draft: &draft };
        masks.check_policies()?;
        masks.check_groups()?;
        let mut phases: Vec<(Phase, BTreeSet<usize>)> = Vec::new();
        for phase in &draft.phases {
            if phases.iter().any(|(other, _)| other.name == phase.name) {
                return Err(AgentRefusal::PhaseTwice(phase.name.clone()));
            }
            masks.check_transitions(phase)?;
            phases.push((phase.clone(), masks.granted(phase)?));
        }
        for (phase, granted) in &phases {
            masks.check_required(phase, granted)?;
        }
        let prompt = Template::parse(&draft.system_prompt, &toolset);
        let first = |unknown: Vec<UnknownWord>| unknown.into_iter().next();
        let prompt = match prompt.map_err(first) {
            Ok(prompt) => prompt,
            Err(Some(unknown)) => return Err(AgentRefusal::Word(unknown)),
            Err(None) => Template::default(),
        };
        let fingerprint = fingerprint(&draft, &toolset, &phases);
        Ok(Self {
            name: draft.name,
            prompt,
            toolset,
            limits: draft.limits,
            budget: draft.budget,
            settings: draft.settings,
            remember_reads: draft.remember_reads,
            fingerprint,
            phases,
        })
    }

    /// The phase a session starts in.
    pub fn first_phase(&self) -> Option<&Phase> {
        self.phases.first().map(|(phase, _)| phase)
    }

    /// A phase by its name.
    pub fn phase(&self, name: &PhaseName) -> Option<&Phase> {
        self.granted(name).map(|(phase, _)| phase)
    }

    /// Every phase, in order.
    pub fn phases(&self) -> impl Iterator<Item = &Phase> {
        self.phases.iter().map(|(phase, _)| phase)
    }

    /// Whether a run ends with the phase: nothing follows it, and it is not the only one.
    pub fn terminal(&self, name: &PhaseName) -> bool {
        self.phases.len() > 1 && self.phase(name).is_some_and(|phase| phase.transitions.is_empty())
    }

    fn granted(&self, name: &PhaseName) -> Option<&(Phase, BTreeSet<usize>)> {
        self.phases.iter().find(|(phase, _)| phase.name == *name)
    }

    /// The tools a phase grants, in declaration order: what is shown AND what may be called.
    pub fn visible(&self, phase: &PhaseName) -> impl Iterator<Item = &Entry> {
        let granted = self.granted(phase).map(|(_, granted)| granted);
        let entries = self.toolset.entries();
        granted.into_iter().flatten().filter_map(|at| entries.get(*at))
    }

    /// Whether a phase grants the tool at a place of the toolset.
    pub fn grants(&self, phase: &PhaseName, tool: usize) -> bool {
        self.granted(phase).is_some_and(|(_, granted)| granted.contains(&tool))
    }
}

/// How groups, grants, allow and deny lists combine: in this one place.
struct Masks<'a> {
    toolset: &'a Toolset,
    draft: &'a AgentDraft,
}

impl Masks<'_> {
    fn granted(&self, phase: &Phase) -> Result<BTreeSet<usize>, AgentRefusal> {
        let place = format!("phase {}", phase.name);
        let mut granted: BTreeSet<usize> = match &phase.grant {
            Grant::All => (0..self.toolset.entries().len()).collect(),
            Grant::Some { groups, include, exclude } => {
                let mut granted = BTreeSet::new();
                for group in groups {
                    granted.extend(self.group(group, &place)?);
                }
                granted.extend(self.tools(include, &place)?);
                for tool in self.tools(exclude, &place)? {
                    granted.remove(&tool);
                }
                granted
            }
        };
        if let Some(allow) = &self.draft.allow {
            let allowed: BTreeSet<usize> = self.tools(allow, "allow list")?.into_iter().collect();
            granted.retain(|tool| allowed.contains(tool));
        }
        for tool in self.tools(&self.draft.deny, "deny list")? {
            granted.remove(&tool);
        }
        Ok(granted)
    }

    fn group(&self, name: &GroupName, place: &str) -> Result<Vec<usize>, AgentRefusal> {
        if let Some(tools) = self.draft.groups.get(name) {
            return self.tools(tools, &format!("group {name}"));
        }
        let entries = self.toolset.entries().iter().enumerate();
        let tools: Vec<usize> =
            entries.filter(|(_, entry)| entry.spec.group == *name).map(|(at, _)| at).collect();
        if tools.is_empty() {
            let known = self.toolset.groups();
            let known = known.iter().map(|group| group.as_str());
            let known = known.chain(self.draft.groups.keys().map(GroupName::as_str));
            return Err(unknown(place, "group", name.as_str(), known));
        }
        Ok(tools)
    }

    fn tools(&self, names: &[ToolName], place: &str) -> Result<Vec<usize>, AgentRefusal> {
        let known = || self.toolset.entries().iter().map(|entry| entry.spec.name.as_str());
        let find = |name: &ToolName| {
            self.toolset
                .find(name.as_str())
                .ok_or_else(|| unknown(place, "tool", name.as_str(), known()))
        };
        names.iter().map(find).collect()
    }

    /// A policy that names what does not exist would govern nothing, and nobody would know.
    fn check_policies(&self) -> Result<(), AgentRefusal> {
        let enabled = self.draft.sections.iter().filter(|section| section.enabled);
        let own = enabled.flat_map(|section| &section.policies);
        for policy in own.chain(&self.draft.policies) {
            let place = format!("policy {}", policy.name());
            let names = policy.names();
            let mut shapes = Vec::new();
            for tool in names.tools {
                let found = self.tools(std::slice::from_ref(tool), &place)?;
                let entries = found.iter().filter_map(|at| self.toolset.entries().get(*at));
                shapes.extend(entries.map(|entry| &entry.spec.input_shape));
            }
            for example in names.examples {
                check_example(&shapes, example)
                    .map_err(|misfit| AgentRefusal::Example { place: place.clone(), misfit })?;
            }
            for family in names.families {
                if self.toolset.family(family).is_none() {
                    let known = self.toolset.families().map(|family| family.name.as_str());
                    return Err(unknown(&place, "state family", family.as_str(), known));
                }
            }
        }
        Ok(())
    }

    /// A group that no phase uses yet is checked all the same.
    fn check_groups(&self) -> Result<(), AgentRefusal> {
        for (name, tools) in &self.draft.groups {
            self.tools(tools, &format!("group {name}"))?;
        }
        Ok(())
    }

    fn check_required(&self, phase: &Phase, granted: &BTreeSet<usize>) -> Result<(), AgentRefusal> {
        let place = format!("phase {}", phase.name);
        let required = self.tools(&phase.required, &place)?;
        let missing = required.iter().zip(&phase.required).find(|(at, _)| !granted.contains(at));
        match missing {
            None => Ok(()),
            Some((_, tool)) => {
                let (phase, tool) = (phase.name.clone(), tool.clone());
                Err(AgentRefusal::Required { phase, tool })
            }
        }
    }

    fn check_transitions(&self, phase: &Phase) -> Result<(), AgentRefusal> {
        let known = || self.draft.phases.iter().map(|phase| phase.name.as_str());
        for to in phase.transitions.iter().map(|transition| &transition.to) {
            if !known().any(|name| name == to.as_str()) {
                let place = format!("transitions of phase {}", phase.name);
                return Err(unknown(&place, "phase", to.as_str(), known()));
            }
        }
        Ok(())
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
    place: &str,
    kind: &'static str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> AgentRefusal {
    let near = nearest(name, known).map(str::to_owned);
    AgentRefusal::Unknown { place: place.to_owned(), kind, name: name.to_owned(), near }
}

fn fingerprint(
    draft: &AgentDraft,
    toolset: &Toolset,
    phases: &[(Phase, BTreeSet<usize>)],
) -> Digest {
    let tools: Vec<_> = toolset
        .entries()
        .iter()
        .map(|entry| {
            let policies: Vec<_> =
                entry.policies.iter().map(|p| json!([p.name(), p.describe()])).collect();
            json!([entry.spec.version, policies])
        })
        .collect();
    let phases: Vec<_> =
        phases.iter().map(|(phase, granted)| json!([phase.face(), granted])).collect();
    let families: Vec<_> = toolset
        .families()
        .map(|family| json!([family.name, family.home, family.guard, family.layout]))
        .collect();
    Digest::of_json(&json!({
        "families": families, "tools": tools, "phases": phases, "limits": draft.limits, "budget": draft.budget,
        "settings": draft.settings, "system_prompt": draft.system_prompt, "texts": toolset.texts(),
    }))
}
