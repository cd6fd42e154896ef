//! Decides whether what a file says can be used, and tells everything that is off in one go.

mod agents;
mod catalogue;
mod directives;
mod idle;
mod models;
mod outside;
mod phases;
mod refusals;
mod rules;
mod seen;
mod transforms;
mod web;

use std::collections::BTreeSet;

use super::finding::{Finding, Mistake, Severity, Span};
use super::read::Reading;
use super::tree::Step;
use super::{AgentText, ConfigRefusal};
use crate::agent::{Agent, Survey};
use crate::section::Section;

/// A configuration that was looked at.
pub struct Checked {
    /// What it says.
    pub text: AgentText,
    /// Everything that was found, in the order of the file.
    pub findings: Vec<Finding>,
    source: String,
    agent: Option<Agent>,
}

impl Checked {
    /// The file to show snippets of, with secrets blanked.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The agent; absent when there is an error, whatever else could be read.
    pub fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// The same, to keep.
    pub fn into_agent(self) -> Option<Agent> {
        self.agent
    }
}

impl Reading {
    /// Looks at everything that is written, with the sections that it enables.
    pub fn check(mut self, sections: Vec<Section>) -> Checked {
        let others = self.other_models();
        let kept = (!others.is_empty()).then(|| sections.clone());
        let (refused, survey) = surveyed(&self.text, sections);
        let mut found = Vec::new();
        if self.tree.is_some() {
            let desk = Desk { reading: &self, text: &self.text, survey: &survey };
            desk.refused(&refused, &mut found);
            desk.rules(&mut found);
            desk.phases(&mut found);
            desk.prompt(&mut found);
            desk.outside(&mut found);
            desk.directives(&mut found);
            desk.seen(&mut found);
            desk.web(&mut found);
            desk.flow(&mut found);
            desk.agents(&mut found);
            desk.catalogue(&mut found);
            desk.former(&mut found);
            for text in others {
                let (refused, survey) = surveyed(&text, kept.clone().unwrap_or_default());
                let desk = Desk { reading: &self, text: &text, survey: &survey };
                desk.refused(&refused, &mut found);
                desk.choice(&mut found);
            }
        }
        self.findings.extend(found);
        let mut findings = self.findings;
        findings.sort_by_key(|finding| finding.span.map_or(usize::MAX, |span| span.start));
        let mut seen: Vec<Finding> = Vec::new();
        findings.retain(|finding| {
            let new = !seen.contains(finding);
            if new {
                seen.push(finding.clone());
            }
            new
        });
        let wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
        let agent = match (wrong, survey.agent()) {
            (false, Ok(agent)) => Some(agent),
            (false, Err(refusal)) => {
                findings.push(Finding::error(Mistake::Agent, refusal.to_string()));
                None
            }
            (true, _) => None,
        };
        Checked { text: self.text, findings, source: self.source, agent }
    }
}

/// What could not be made of the text, each with its place in a list.
type Refused = Vec<(usize, ConfigRefusal)>;

/// What becomes of a text, with all that could not be made of it.
fn surveyed(text: &AgentText, sections: Vec<Section>) -> (Refused, Survey) {
    let mut refused = Vec::new();
    let draft = text.clone().draft(sections, |at, refusal| refused.push((at, refusal)));
    (refused, Agent::survey(draft))
}

impl Reading {
    /// The same for every other model that says itself how it is asked to call tools: a run with
    /// it must be possible too.
    fn other_models(&self) -> Vec<AgentText> {
        if self.tree.is_none() || self.doubtful.contains("models") {
            return Vec::new();
        }
        let used = self.text.declared();
        let own = self.text.models.iter().filter(|(_, model)| model.tool_calling.is_some());
        let others = own.map(|(name, _)| name).filter(|name| Some(name.as_str()) != used);
        let with = |name: &String| {
            let mut text = self.text.clone();
            text.settings.model = Some(name.clone());
            (text.settings.base_url, text.settings.api_key) = (None, None);
            text
        };
        others.map(with).collect()
    }
}

/// What the checks look at.
struct Desk<'a> {
    reading: &'a Reading,
    text: &'a AgentText,
    survey: &'a Survey,
}

impl Desk<'_> {
    /// Everything that could not be made of the text, or put together.
    fn refused(&self, refused: &Refused, found: &mut Vec<Finding>) {
        found.extend(refused.iter().flat_map(|(at, refusal)| self.refusal(*at, refusal)));
        found.extend(self.survey.refused.iter().flat_map(|refusal| self.agent_refusal(refusal)));
    }

    /// The place of a value.
    fn place(&self, path: &[Step<'_>]) -> Option<Span> {
        self.reading.tree.as_ref()?.place(path)
    }

    /// The place of a key.
    fn key(&self, path: &[Step<'_>]) -> Option<Span> {
        self.reading.tree.as_ref()?.key(path)
    }

    /// The places under a path where some name stands.
    fn named(&self, path: &[Step<'_>], wanted: impl Fn(&str) -> bool) -> Vec<Span> {
        let mut found = Vec::new();
        if let Some(node) = self.reading.tree.as_ref().and_then(|tree| tree.find(path)) {
            node.named(&wanted, &mut found);
        }
        found
    }

    /// Whether what stands under a key at the top could not be read whole.
    fn doubtful(&self, key: &str) -> bool {
        self.reading.doubtful.contains(key)
    }

    /// Whether a name that is missing may be missing because of a pack that could not be read: some
    /// pack has it, or it is called as what could not be read.
    fn of_a_pack(&self, kind: &str, name: &str) -> bool {
        if !self.doubtful("packs") {
            return false;
        }
        let Some(known) = self.every(kind) else { return true };
        known.contains(name) || self.reading.dropped.contains(name)
    }

    /// The names that all packs together have, of a kind.
    fn every(&self, kind: &str) -> Option<&BTreeSet<String>> {
        let every = self.reading.every.as_ref()?;
        Some(match kind {
            "group" => &every.groups,
            "state family" => &every.families,
            "word" => &every.words,
            _ => &every.tools,
        })
    }

    fn text(&self) -> &AgentText {
        self.text
    }

    fn agent(&self) -> Option<&Agent> {
        self.survey.so_far()
    }
}
