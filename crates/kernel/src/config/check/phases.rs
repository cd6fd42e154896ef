//! Decides whether phases lead somewhere, and whether what models are told fits what is granted.

use std::collections::BTreeSet;

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::agent::{Agent, AgentRefusal};
use crate::fold::{Counted, Project, Session, World};
use crate::names::{PhaseName, SessionId, nearest};
use crate::phase::Phase;
use crate::policy::expression::EvaluationFault;
use crate::policy::{FACTS_FAMILY, holds};
use crate::time::Timestamp;

/// The group of the tools that change the phase.
const PHASE_GROUP: &str = "phase";

impl Desk<'_> {
    pub(super) fn phases(&self, found: &mut Vec<Finding>) {
        let Some(agent) = self.agent() else { return };
        let reached = reached(agent, agent.first_phase());
        for phase in agent.phases().filter(|_| !self.text().phases.is_empty()) {
            self.ways(agent, phase, &reached, found);
            if self.certain() {
                self.tools(agent, phase, found);
            }
            self.conditions(agent, phase, found);
        }
        let ends = |name: &PhaseName| agent.terminal(name);
        let several = agent.phases().count() > 1;
        if several && !reached.iter().any(ends) && !self.doubtful("phases") {
            let finding = Finding::new(
                Severity::Warning,
                Mistake::NoWayOut,
                "no phase that ends the run can be reached",
            );
            let help = "give one phase `transitions: []`; a run ends with such a phase";
            found.push(finding.at(self.key(&[Step::Key("phases")])).help(help));
        }
    }

    fn ways(
        &self,
        agent: &Agent,
        phase: &Phase,
        reached: &BTreeSet<PhaseName>,
        found: &mut Vec<Finding>,
    ) {
        let name = &phase.name;
        let path = [Step::Key("phases"), Step::Key(name.as_str())];
        if !reached.contains(name) && !self.doubtful("phases") {
            let message = format!("no way leads to the phase {name}");
            let finding = Finding::new(Severity::Warning, Mistake::UnreachablePhase, message);
            let help = format!("name {name} in the `transitions` of a phase, or take it out");
            found.push(finding.at(self.key(&path)).help(help));
        }
        let ways = [&path[..], &[Step::Key("transitions")]].concat();
        let others = phase.transitions.iter().any(|way| way.to != *name);
        if !phase.transitions.is_empty() && !others {
            let message = format!("the phase {name} has no way out: it only leads to itself");
            let help = "add another phase, or write `transitions: []` to end the run with it";
            let finding = Finding::error(Mistake::NoWayOut, message);
            found.push(finding.at(self.key(&ways)).help(help));
        }
        let moves = |group: &str| group == PHASE_GROUP;
        let mover = agent.visible(name, None).any(|entry| moves(entry.spec.group.as_str()));
        if others && !mover && self.certain() {
            let message =
                format!("the phase {name} has ways out and grants no tool that can take them");
            let finding = Finding::new(Severity::Warning, Mistake::NoPhaseTool, message);
            let help = "grant the group `phase`; without it only a person can move on";
            found.push(finding.at(self.key(&ways)).help(help));
        }
    }

    /// Conditions that can never hold, tried on a project in which nothing happened yet.
    fn conditions(&self, agent: &Agent, phase: &Phase, found: &mut Vec<Finding>) {
        let Ok(id) = SessionId::parse("check") else { return };
        let (mut session, project) = (Session::new(id), Project::default());
        session.phase = Some(phase.name.clone());
        let world = World {
            session: &session,
            project: &project,
            toolset: &agent.toolset,
            now: Timestamp(0),
            counted: Counted::NotYet,
        };
        let path = [Step::Key("phases"), Step::Key(phase.name.as_str()), Step::Key("transitions")];
        for (at, way) in phase.transitions.iter().enumerate() {
            let Some(when) = &way.when else { continue };
            let place = [&path[..], &[Step::Item(at), Step::Key("when")]].concat();
            let source = when.source();
            let finding = match holds(when, &world) {
                Err(EvaluationFault::NoField { name })
                    if ["project.", "session."]
                        .iter()
                        .any(|root| source.contains(&format!("{root}{name}"))) =>
                {
                    if self.of_a_pack("state family", &name) {
                        continue;
                    }
                    let families = agent.toolset.families().map(|family| family.name.as_str());
                    let near = nearest(&name, families).map(str::to_owned);
                    let message = format!("there is no state family `{name}`");
                    Finding::error(Mistake::UnknownName, message).near(near.as_deref())
                }
                Err(EvaluationFault::NoVariable { name })
                    if name == FACTS_FAMILY && !self.of_a_pack("state family", &name) =>
                {
                    let message = "`facts` has no value here, so this never holds";
                    let finding = Finding::error(Mistake::UnknownName, message);
                    finding.help("facts come with the pack `workspace`; add it to `packs`")
                }
                Err(fault @ EvaluationFault::NotBoolean { .. }) => {
                    Finding::error(Mistake::Condition, fault.to_string())
                }
                Ok(_) | Err(_) => continue,
            };
            found.push(finding.at(self.place(&place)));
        }
    }

    /// Whether it is certain what is granted.
    fn certain(&self) -> bool {
        let lists = |refusal: &AgentRefusal| matches!(refusal, AgentRefusal::Unknown { kind, .. } if matches!(*kind, "tool" | "group"));
        !["packs", "tool_groups", "allow", "tool_calling", "phases"]
            .iter()
            .any(|key| self.doubtful(key))
            && !self.survey.refused.iter().any(lists)
    }

    /// Tools that the model is told of and cannot use.
    fn tools(&self, agent: &Agent, phase: &Phase, found: &mut Vec<Finding>) {
        let name = &phase.name;
        let granted: BTreeSet<&str> =
            agent.visible(name, None).map(|entry| entry.spec.name.as_str()).collect();
        let known: Vec<&str> =
            agent.toolset.entries().iter().map(|entry| entry.spec.name.as_str()).collect();
        let path = [Step::Key("phases"), Step::Key(name.as_str())];
        let rules =
            phase.rules.iter().enumerate().map(|(at, rule)| {
                ([&path[..], &[Step::Key("rules"), Step::Item(at)]].concat(), rule)
            });
        let guide = ([&path[..], &[Step::Key("guide")]].concat(), &phase.guide);
        for (place, text) in rules.chain([guide]) {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
            // A tool called `plan` is also a plain word.
            let named: BTreeSet<&str> = words
                .filter(|word| word.contains(['_', '-']) && known.contains(word))
                .filter(|word| !granted.contains(word))
                .collect();
            for tool in named {
                let message = format!("this names `{tool}`, which the phase {name} does not grant");
                let finding = Finding::new(Severity::Warning, Mistake::UngrantedTool, message);
                found.push(finding.at(self.inside(&place, tool)).help(format!(
                    "grant it with `include: [{tool}]`, or say it without the tool"
                )));
            }
        }
    }

    /// The place of a word inside a text, or the text.
    pub(super) fn inside(&self, path: &[Step<'_>], word: &str) -> Option<super::Span> {
        let node = self.reading.tree.as_ref()?.find(path)?;
        let slice = self.reading.source().get(node.span.start..node.span.end)?;
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let whole = |at: &usize| {
            let (before, after) = (slice.get(..*at), slice.get(at + word.len()..));
            !before.is_some_and(|text| text.ends_with(part))
                && !after.is_some_and(|text| text.starts_with(part))
        };
        match slice.match_indices(word).map(|(at, _)| at).find(whole) {
            Some(at) => {
                let start = node.span.start + at;
                Some(super::Span { start, end: start + word.len() })
            }
            None => self.place(path),
        }
    }

    pub(super) fn prompt(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        let ruled = text.phases.values().any(|phase| !phase.rules.is_empty());
        let said = text.system_prompt.contains("{phase_rules}");
        if ruled && !said && !text.system_prompt.trim().is_empty() {
            let message = "the prompt has no `{phase_rules}`: the rules are put after it";
            let finding = Finding::new(Severity::Note, Mistake::RulesAppended, message);
            found.push(finding.at(self.key(&[Step::Key("system_prompt")])));
        }
    }
}

/// The phases that can be reached from one.
fn reached(agent: &Agent, from: Option<&Phase>) -> BTreeSet<PhaseName> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Phase> = from.into_iter().collect();
    while let Some(phase) = open.pop() {
        if reached.insert(phase.name.clone()) {
            open.extend(phase.transitions.iter().filter_map(|way| agent.phase(&way.to)));
        }
    }
    reached
}
