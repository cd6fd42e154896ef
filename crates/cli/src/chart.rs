//! Decides how an agent is drawn: which phase grants which tool, and which phase leads where.

use serde_json::{Value, json};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::RuleOfTwoMode;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::phase::Phase;

use crate::known::Known;

/// Columns of the matrix that stand side by side.
const SIDE_BY_SIDE: usize = 14;

/// The phases with their numbers, as the other drawings use them.
pub(crate) fn legend(agent: &Agent) -> Vec<String> {
    let mut lines = vec!["Phases".to_owned()];
    for (at, phase) in agent.phases().enumerate() {
        let about = phase.about.trim().lines().next().unwrap_or_default();
        let dash = if about.is_empty() { "" } else { "  " };
        lines.push(format!("  {:>2} {}{dash}{about}", at + 1, phase.name));
    }
    lines
}

/// Tools as rows, phases as numbered columns.
pub(crate) fn matrix(known: &Known) -> Vec<String> {
    let agent = &known.agent;
    let phases: Vec<(usize, &Phase)> = agent.phases().enumerate().collect();
    let entries = agent.toolset.entries();
    let longest = entries.iter().map(|entry| entry.spec.name.as_str().len()).max().unwrap_or(0);
    let name_width = longest.clamp(20, 32) + 4;
    let (mut lines, mut waits) = (Vec::new(), false);
    for columns in phases.chunks(SIDE_BY_SIDE) {
        let numbers: String = columns.iter().map(|(at, _)| format!("{:>3}", at + 1)).collect();
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!("{:name_width$}{numbers}", "Tools"));
        for group in agent.toolset.groups() {
            lines.push(format!("  {group}"));
            for (at, entry) in entries.iter().enumerate().filter(|(_, e)| e.spec.group == *group) {
                let ready = known.is_ready(&entry.spec.name);
                waits |= !ready;
                let mark = |phase: &Phase| match (agent.grants(&phase.name, at, None), ready) {
                    (true, true) => '●',
                    (true, false) => '○',
                    (false, _) => '·',
                };
                let marks: String =
                    columns.iter().map(|(_, phase)| format!("{:>3}", mark(phase))).collect();
                let name = shortened(entry.spec.name.as_str(), name_width - 4);
                lines.push(format!("    {name:<width$}{marks}", width = name_width - 4));
            }
        }
    }
    if waits {
        lines.push("  ○ granted, and cannot be called now; `toolgate tools` says why".to_owned());
    }
    lines.extend(known.unasked().map(|(_, told)| format!("  {told}")));
    lines
}

/// The phases with the ways out of each.
pub(crate) fn graph(agent: &Agent) -> Vec<String> {
    let mut lines = vec!["Ways".to_owned()];
    let first = agent.first_phase().map(|phase| &phase.name);
    for phase in agent.phases() {
        let mark = if agent.terminal(&phase.name) { '■' } else { '○' };
        let starts = if first == Some(&phase.name) { "  starts here" } else { "" };
        let ends = if agent.terminal(&phase.name) { "  ends the run" } else { "" };
        lines.push(format!("  {mark} {}{starts}{ends}", phase.name));
        for way in &phase.transitions {
            let arrow = if way.to == phase.name { "↺" } else { "→" };
            lines.push(format!("      {arrow} {}", way.to));
            if let Some(when) = &way.when {
                lines.push(format!("          when {}", when.source().trim()));
                if !way.otherwise.is_empty() {
                    lines.push(format!("          else \"{}\"", way.otherwise.trim()));
                }
            }
        }
    }
    lines
}

/// Which of the three things that make an exfiltration each phase has: private data, untrusted content,
/// and a way out.
pub(crate) fn flows(known: &Known, mode: RuleOfTwoMode) -> Vec<String> {
    let phases: Vec<&Phase> = known.agent.phases().collect();
    let longest = phases.iter().map(|phase| phase.name.as_str().len()).max().unwrap_or(0);
    let mut lines = vec!["Reads private data (P), untrusted content (U), sends (S)".to_owned()];
    for phase in phases {
        let labels = known.labels_in(&phase.name);
        let sends = !labels.sends.is_no();
        let mark = |has, letter| if has { letter } else { '·' };
        let marks = [mark(labels.private, 'P'), mark(labels.untrusted, 'U'), mark(sends, 'S')];
        let [p, u, s] = marks;
        let told = match (labels.private && labels.untrusted && sends, mode) {
            (false, _) => String::new(),
            (true, RuleOfTwoMode::Ask | RuleOfTwoMode::Strict) => {
                format!("  {} has all three: the sending call asks", phase.name)
            }
            (true, RuleOfTwoMode::Deny) => {
                format!("  {} has all three: the sending call is refused", phase.name)
            }
            (true, RuleOfTwoMode::Observe) => {
                format!("  {} has all three: the sending call is logged", phase.name)
            }
            (true, RuleOfTwoMode::Off) => {
                format!("  {} has all three, and the rule of two is off", phase.name)
            }
        };
        lines.push(format!("  {:<longest$}  {p} {u} {s}{told}", phase.name.as_str()));
    }
    lines
}

/// The same as JSON.
pub(crate) fn as_json(known: &Known) -> Value {
    let agent = &known.agent;
    let first = agent.first_phase().map(|phase| phase.name.clone());
    let phases: Vec<Value> = agent
        .phases()
        .map(|phase| {
            let tools: Vec<&str> =
                agent.visible(&phase.name, None).map(|entry| entry.spec.name.as_str()).collect();
            let ways: Vec<Value> = phase
                .transitions
                .iter()
                .map(|way| {
                    let when = way.when.as_ref().map(|when| when.source());
                    json!({ "to": way.to, "when": when, "otherwise": way.otherwise })
                })
                .collect();
            json!({
                "name": phase.name,
                "starts": first.as_ref() == Some(&phase.name),
                "ends": agent.terminal(&phase.name),
                "tools": tools,
                "flow": flow_json(&known.labels_in(&phase.name)),
                "transitions": ways,
            })
        })
        .collect();
    json!({ "phases": phases, "tools": known.tools() })
}

fn flow_json(labels: &FlowLabels) -> Value {
    let FlowLabels { private, untrusted, sends, .. } = labels;
    json!({ "private": private, "untrusted": untrusted, "sends": !sends.is_no() })
}

fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
