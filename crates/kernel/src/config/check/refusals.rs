//! Decides where a refusal stands in the file, and what to write in its place.

use super::{ConfigRefusal, Desk, Finding, Mistake, Span, Step};
use crate::agent::{AgentRefusal, Place};
use crate::config::finding::quoted;
use crate::config::{CallingRefusal, PhaseRefusal, PolicyRefusal, structure};
use crate::names::{PolicyName, nearest};
use crate::policy::{EgressRefusal, RuleRefusal};
use crate::prompt::UnknownWord;

impl Desk<'_> {
    /// What could not be made of the text itself; `at` is its place in a list.
    pub(super) fn refusal(&self, at: usize, refusal: &ConfigRefusal) -> Vec<Finding> {
        match refusal {
            // Its kind may be what did not fit.
            ConfigRefusal::Policy(PolicyRefusal::NotOne { found: 0, .. })
                if self.doubtful("policies") =>
            {
                Vec::new()
            }
            ConfigRefusal::Policy(refusal) => vec![self.policy(at, refusal)],
            ConfigRefusal::Phase(refusal) => vec![self.phase(refusal)],
            ConfigRefusal::Calling(refusal) => vec![self.calling(refusal)],
            ConfigRefusal::Agent(refusal) => self.agent_refusal(refusal),
            ConfigRefusal::DefaultPhase(name) => {
                if self.reading.dropped.contains(name.as_str())
                    || self.text().phases.is_empty() && self.doubtful("phases")
                {
                    return Vec::new();
                }
                let known = self.text().phases.keys().map(|phase| phase.as_str());
                let near = nearest(name.as_str(), known);
                let message = format!("default_phase: there is no phase {}", quoted(name.as_str()));
                let place = self.place(&[Step::Key("default_phase")]);
                let finding = Finding::error(Mistake::UnknownName, message).at(place);
                vec![match (near, self.listed("phase")) {
                    (None, Some(known)) => finding.help(format!("there is {known}")),
                    (near, _) => finding.near(near),
                }]
            }
        }
    }

    fn policy(&self, at: usize, refusal: &PolicyRefusal) -> Finding {
        let list = [Step::Key("policies"), Step::Item(at)];
        let under = |rest: &[Step<'_>]| self.place(&[&list, rest].concat());
        let place = match refusal {
            PolicyRefusal::NotOne { .. } => under(&[]),
            PolicyRefusal::Limit(_) => {
                let rate = self.text().policies.get(at).is_some_and(|text| text.rate.is_some());
                under(&[Step::Key(if rate { "rate" } else { "limit" }), Step::Key("max")])
            }
            PolicyRefusal::Rule(refusal) => {
                let rule = Step::Key("rule");
                match refusal {
                    RuleRefusal::NoCondition(_) => under(&[rule]),
                    RuleRefusal::NoTools(_) => under(&[rule, Step::Key("tools")]),
                    RuleRefusal::NothingAsked(_, key) => under(&[rule, Step::Key(key)]),
                    RuleRefusal::Requirement(_, found) => {
                        let key = if found.starts_with("`by") { "by" } else { "count" };
                        under(&[rule, Step::Key(key)])
                    }
                    RuleRefusal::Condition { side, .. } => under(&[rule, Step::Key(side)]),
                    RuleRefusal::Example { list, at, .. } => {
                        under(&[rule, Step::Key(list), Step::Item(at.saturating_sub(1))])
                    }
                }
            }
        };
        let code = match refusal {
            PolicyRefusal::Rule(RuleRefusal::Condition { .. }) => Mistake::Condition,
            PolicyRefusal::NotOne { .. } | PolicyRefusal::Limit(_) | PolicyRefusal::Rule(_) => {
                Mistake::Policy
            }
        };
        Finding::error(code, refusal.to_string()).at(place)
    }

    fn phase(&self, refusal: &PhaseRefusal) -> Finding {
        match refusal {
            PhaseRefusal::Name { phase, entry, refusal } => {
                let path = [Step::Key("phases"), Step::Key(phase.as_str()), Step::Key("tools")];
                let span = self.named(&path, |text| text == entry).first().copied();
                if entry == "*" {
                    return structure::star(span.unwrap_or_default());
                }
                let toolset = self.agent().map(|agent| &agent.toolset);
                let groups = toolset.iter().flat_map(|toolset| toolset.groups());
                let known: Vec<String> = groups.map(|group| group.to_string()).collect();
                let near = nearest(entry, known.iter().map(String::as_str));
                Finding::error(Mistake::BadName, refusal.to_string()).at(span).near(near)
            }
            PhaseRefusal::Otherwise { phase, at, to } => {
                let phase = Step::Key(phase.as_str());
                let way = [Step::Key("phases"), phase, Step::Key("transitions"), Step::Item(*at)];
                let place = self.key(&[&way[..], &[Step::Key("otherwise")]].concat());
                let message = format!("the way to {to} has `otherwise` and no `when`");
                let help = "add `when`, or leave `otherwise` out: the way is always open";
                Finding::error(Mistake::Condition, message).at(place).help(help)
            }
            PhaseRefusal::Condition { phase, at, to, fault } => {
                let phase = Step::Key(phase.as_str());
                let way = [Step::Key("phases"), phase, Step::Key("transitions"), Step::Item(*at)];
                let place = self.place(&[&way[..], &[Step::Key("when")]].concat());
                let message = format!("the condition of the way to {to} cannot be used: {fault}");
                Finding::error(Mistake::Condition, message).at(place)
            }
        }
    }

    /// Where a key of tool calling stands that holds for the run: with its model, or for all.
    pub(super) fn calling_key<'k>(&'k self, key: &'k str) -> Vec<Step<'k>> {
        let all = vec![Step::Key("tool_calling"), Step::Key(key)];
        let Some(name) = self.text().declared() else { return all };
        let own = [&[Step::Key("models"), Step::Key(name)], &all[..]].concat();
        if self.key(&own).is_some() { own } else { all }
    }

    /// What could not be made of tool calling.
    pub(super) fn calling(&self, refusal: &CallingRefusal) -> Finding {
        let path = |key| self.calling_key(key);
        match refusal {
            CallingRefusal::Choice(_) => {
                let finding = Finding::error(Mistake::BadName, refusal.to_string());
                finding.at(self.place(&path("tool_choice")))
            }
            CallingRefusal::NoWords => {
                let finding = Finding::error(Mistake::WrongType, refusal.to_string());
                finding.at(self.place(&path("fix_empty_final_user_text")))
            }
            CallingRefusal::Name { key, entry, refusal } => {
                let message = format!("{key}: {refusal}");
                Finding::error(Mistake::BadName, message).at(self.inside(&path(key), entry))
            }
            CallingRefusal::TwoLimits { key, .. } => {
                let finding = Finding::error(Mistake::OutOfRange, refusal.to_string());
                finding.at(self.place(&path(key)))
            }
        }
    }

    /// What could not be put together.
    pub(super) fn agent_refusal(&self, refusal: &AgentRefusal) -> Vec<Finding> {
        match refusal {
            AgentRefusal::Limit(refusal) => {
                let other = match refusal.name() {
                    "args_bytes_max" => "max_tool_args_bytes",
                    "result_bytes_max" => "max_tool_output_bytes",
                    "iteration_turns_max" => "max_turns",
                    "turn_calls_max" => "max_tool_calls_per_turn",
                    _ => refusal.name(),
                };
                let limits = Step::Key("limits");
                // A limit has two names and two places; where it is written is where it is marked.
                let paths = [
                    self.calling_key(other),
                    vec![limits, Step::Key(refusal.name())],
                    vec![limits, Step::Key(other)],
                ];
                let written = paths.iter().find(|path| self.key(path).is_some());
                let place = written.and_then(|path| self.place(path));
                vec![Finding::error(Mistake::OutOfRange, refusal.to_string()).at(place)]
            }
            AgentRefusal::Budget(refusal) => {
                let place = self.place(&[Step::Key("budget"), Step::Key(refusal.0)]);
                vec![Finding::error(Mistake::OutOfRange, refusal.to_string()).at(place)]
            }
            AgentRefusal::Setting(refusal) => {
                let path = [Step::Key("settings"), Step::Key(refusal.0)];
                let place = self.key(&path).and_then(|_| self.place(&path));
                vec![Finding::error(Mistake::OutOfRange, refusal.to_string()).at(place)]
            }
            AgentRefusal::Word(word) if !self.of_a_pack("word", &word.name) => {
                vec![self.word(word)]
            }
            AgentRefusal::Required { phase, tool } => {
                let path = [Step::Key("phases"), Step::Key(phase.as_str()), Step::Key("tools")];
                let required = [&path[..], &[Step::Key("required")]].concat();
                let span = self.named(&required, |text| text == tool.as_str()).first().copied();
                let message = format!("the phase {phase} requires `{tool}` and does not grant it");
                let help = format!("add `{tool}` under `include:`, or take it out here");
                vec![Finding::error(Mistake::Required, message).at(span).help(help)]
            }
            AgentRefusal::Example { policy, misfit } => {
                let place = self.place(&self.policy_path(policy));
                let message = format!("policy {policy}, in an example: {misfit}");
                vec![Finding::error(Mistake::Policy, message).at(place)]
            }
            AgentRefusal::Unknown { place, kind, name, near } => {
                self.unknown(place, kind, name, near.as_deref())
            }
            AgentRefusal::Egress(EgressRefusal(entry)) => {
                let path = [Step::Key("egress"), Step::Key("allow")];
                let span =
                    self.named(&path, |text| text.starts_with(entry.as_str())).first().copied();
                vec![Finding::error(Mistake::Policy, refusal.to_string()).at(span)]
            }
            AgentRefusal::OwnPolicy(name) => {
                let path = self.policy_path(name);
                let finding = Finding::error(Mistake::Policy, refusal.to_string());
                vec![finding.at(self.place(&path))]
            }
            AgentRefusal::Word(_) => Vec::new(),
            AgentRefusal::Toolset(_) | AgentRefusal::NoPhase | AgentRefusal::PhaseTwice(_) => {
                vec![Finding::error(Mistake::Agent, refusal.to_string())]
            }
        }
    }

    fn unknown(&self, place: &Place, kind: &str, name: &str, near: Option<&str>) -> Vec<Finding> {
        let doubt = match kind {
            "phase" => self.reading.dropped.contains(name),
            "group" => self.of_a_pack(kind, name) || self.reading.dropped.contains(name),
            _ => self.of_a_pack(kind, name),
        };
        if doubt {
            return Vec::new();
        }
        let phase;
        let calling = |key| self.calling_key(key);
        let path = match place {
            Place::Phase(name) => {
                phase = name.clone();
                vec![Step::Key("phases"), Step::Key(phase.as_str()), Step::Key("tools")]
            }
            Place::Transitions(name) => {
                phase = name.clone();
                vec![Step::Key("phases"), Step::Key(phase.as_str()), Step::Key("transitions")]
            }
            Place::Group(name) => vec![Step::Key("tool_groups"), Step::Key(name.as_str())],
            Place::Policy(name) => self.policy_path(name),
            Place::Allow => vec![Step::Key("allow")],
            Place::Deny => vec![Step::Key("deny")],
            Place::CallingAllow => calling("tool_allowlist"),
            Place::CallingDeny => calling("tool_denylist"),
            Place::Agent(id) => {
                vec![Step::Key("agents"), Step::Key(id.as_str()), Step::Key("enabled_tools")]
            }
        };
        let named = |path: &[Step<'_>]| {
            self.named(path, |text| {
                let signed = text.strip_prefix(['+', '-']).filter(|_| kind == "tool");
                signed.unwrap_or(text) == name
            })
        };
        let mut spans = named(&path);
        if spans.is_empty() && matches!(place, Place::Policy(_)) {
            // Of two policies with one name, which is refused elsewhere, the second may be meant.
            spans = named(&[Step::Key("policies")]);
        }
        let finding = |span: Option<Span>| {
            let message = format!("{place}: there is no {kind} {}", quoted(name));
            let finding = Finding::error(Mistake::UnknownName, message).at(span);
            let agent = self.agent();
            let tool = agent.is_some_and(|agent| agent.toolset.find(name).is_some());
            if kind == "group" && tool {
                return finding
                    .help(format!("`{name}` is a tool: write `+{name}` for one more tool"));
            }
            let everything = self.reading.every.as_ref().filter(|_| !self.doubtful("packs"));
            let pack = everything.and_then(|every| every.packs.get(name));
            if let Some(pack) = pack.filter(|_| kind != "phase") {
                return finding.help(format!("the pack `{pack}` has it: add it to `packs:`"));
            }
            // Any two short names are near each other.
            let every = self.every(kind).filter(|_| kind != "phase" && self.doubtful("packs"));
            let meant = every.and_then(|every| nearest(name, every.iter().map(String::as_str)));
            let near = near.or(meant).filter(|_| name.chars().nth(2).is_some());
            let listed = self.listed(kind).filter(|_| kind == "phase" || !self.doubtful("packs"));
            match (near, listed) {
                (None, Some(known)) => finding.help(format!("there is {known}")),
                (near, _) => finding.near(near),
            }
        };
        match spans.as_slice() {
            [] if matches!(place, Place::CallingAllow | Place::CallingDeny) => {
                // One text may hold several names.
                vec![finding(self.inside(&path, name))]
            }
            [] => vec![finding(self.place(&path))],
            spans => spans.iter().map(|span| finding(Some(*span))).collect(),
        }
    }

    /// What there is of a kind, when it can be told in a line.
    fn listed(&self, kind: &str) -> Option<String> {
        let agent = self.agent()?;
        let names: Vec<String> = match kind {
            "group" => {
                let own = self.text().tool_groups.keys().map(|group| group.to_string());
                let mut groups: Vec<String> =
                    agent.toolset.groups().iter().map(|group| group.to_string()).collect();
                groups.extend(own);
                groups.sort();
                groups.dedup();
                groups
            }
            "phase" => agent.phases().map(|phase| phase.name.to_string()).collect(),
            "state family" => agent.toolset.families().map(|f| f.name.to_string()).collect(),
            _ => Vec::new(),
        };
        (1..=12).contains(&names.len()).then(|| names.join(", "))
    }

    /// The path of a policy by its name, said or made.
    fn policy_path(&self, name: &PolicyName) -> Vec<Step<'static>> {
        let mut policies = self.text().policies.iter();
        let place = policies.position(|policy| policy.effective_name().as_ref() == Some(name));
        let mut path = vec![Step::Key("policies")];
        path.extend(place.map(Step::Item));
        path
    }

    fn word(&self, word: &UnknownWord) -> Finding {
        let written = format!("{{{}}}", word.name);
        let text = &self.text().system_prompt;
        let before = text.get(..word.at).unwrap_or_default().matches(&written).count();
        let key = Step::Key("system_prompt");
        let node = self.reading.tree.as_ref().and_then(|tree| tree.find(&[key]));
        let inside = node.and_then(|node| {
            let slice = self.reading.source().get(node.span.start..node.span.end)?;
            let (at, _) = slice.match_indices(&written).nth(before)?;
            let start = node.span.start + at;
            Some(Span { start, end: start + written.len() })
        });
        let message = format!("{} has no meaning in a prompt", quoted(&written));
        let finding = Finding::error(Mistake::UnknownWord, message).at(inside.or(self.key(&[key])));
        match &word.near {
            Some(near) => finding.help(format!("did you mean `{{{near}}}`?")),
            None => finding.help("write `{{` for a brace that is only text"),
        }
    }
}
