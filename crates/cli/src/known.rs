//! Decides what is told of servers' tools when nobody is asked: what the log has seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::names::{PhaseName, ServerName, ToolName};
use toolgate_kernel::phase::Grant;
use toolgate_kernel::pin::Pins;
use toolgate_kernel::section::{Entry, Section};
use toolgate_mcp::{Recollection, recall};
use toolgate_packs::enabled;

use crate::project::{Place, block_on};
use crate::reading;
use crate::servers;

/// What asks the servers of a project, and nothing else.
const CONNECT: &str = "toolgate tools --connect";

/// An agent with the tools of servers that are known, to look at and never to run.
pub(crate) struct Known {
    pub(crate) agent: Agent,
    /// The same without the tools that cannot be called, as far as is known.
    pub(crate) ready: Agent,
    states: BTreeMap<ToolName, Recollection>,
    /// Servers that were never asked.
    unasked: Vec<ServerName>,
    /// What the tools of those are taken for.
    unasked_labels: BTreeMap<ServerName, FlowLabels>,
}

impl Known {
    /// What is known beside an agent of our own tools.
    pub(crate) fn of(folder: &Path, agent: &Agent, text: &AgentText, pins: &Pins) -> Result<Self> {
        let mut named: BTreeSet<ToolName> = text.tool_groups.values().flatten().cloned().collect();
        for phase in agent.phases() {
            named.extend(phase.required.iter().cloned());
            if let Grant::Some { include, .. } = &phase.grant {
                named.extend(include.iter().cloned());
            }
        }
        let own: Vec<Section> = enabled(text)?.into_iter().map(|pack| pack.section).collect();
        let taken = own.iter().flat_map(|section| &section.tools);
        let taken = taken.map(|spec| spec.name.to_string()).collect();
        let recalled = recall(&servers::all_terms(folder, text), pins, &named, taken);
        let states = recalled.tools;
        let is_ready =
            |tool: &ToolName| states.get(tool).is_none_or(|state| *state == Recollection::Ready);
        let narrow = |section: &Section| {
            let mut narrow = section.clone();
            narrow.tools.retain(|spec| is_ready(&spec.name));
            narrow
        };
        let narrowed = own.iter().cloned().chain(recalled.sections.iter().map(narrow)).collect();
        let ready = text.clone().build(narrowed)?;
        let sections = own.into_iter().chain(recalled.sections).collect();
        let agent = text.clone().build(sections)?;
        let unasked = recalled.unasked;
        let labels = unasked.iter().filter_map(|name| {
            let server = text.mcp_servers.get(name)?;
            let is_logged_in = servers::is_logged_in(folder, server);
            Some((name.clone(), server.tool_labels("*", is_logged_in, &FlowLabels::default())))
        });
        let unasked_labels = labels.collect();
        Ok(Self { agent, ready, states, unasked, unasked_labels })
    }

    /// What the tools of a phase bring into a session together, and whether one of them sends.
    pub(crate) fn labels_in(&self, phase: &PhaseName) -> FlowLabels {
        let unasked = self.agent.servers(phase).filter_map(|name| self.unasked_labels.get(name));
        unasked.fold(self.agent.labels_in(phase), |all, one| all.tightened_by(one))
    }

    /// Whether a tool can be called as far as is known.
    pub(crate) fn is_ready(&self, tool: &ToolName) -> bool {
        self.states.get(tool).is_none_or(|state| *state == Recollection::Ready)
    }

    /// How a tool of a server stands, in a line for people; nothing for a tool of our own.
    pub(crate) fn told(&self, tool: &ToolName) -> Option<String> {
        Some(match self.states.get(tool)? {
            Recollection::Ready => "ready".to_owned(),
            Recollection::Held => format!("held back; see: toolgate mcp pins diff {tool}"),
            Recollection::Rejected(by) => {
                let by = by.as_ref().map_or("a person".to_owned(), ToString::to_string);
                format!("rejected by {by}; to use it: toolgate mcp pins accept {tool}")
            }
            Recollection::Unusable(why) => format!("left out: {why}"),
            Recollection::Gone => "its server does not offer it any more".to_owned(),
            Recollection::Unseen if self.asked(tool) => "its server never offered it".to_owned(),
            Recollection::Unseen => format!("not seen yet; connect once: {CONNECT}"),
        })
    }

    fn asked(&self, tool: &ToolName) -> bool {
        let server = tool.of_server().map(|(server, _)| server);
        server.is_some_and(|server| !self.unasked.iter().any(|other| other.as_str() == server))
    }

    /// The same in a word, for programs.
    pub(crate) fn state(&self, tool: &ToolName) -> Option<&'static str> {
        Some(match self.states.get(tool)? {
            Recollection::Ready => "ready",
            Recollection::Held => "held",
            Recollection::Rejected(_) => "rejected",
            Recollection::Unusable(_) => "unusable",
            Recollection::Gone => "gone",
            Recollection::Unseen => "not_seen",
        })
    }

    /// Servers that were never asked, with what to do.
    pub(crate) fn unasked(&self) -> impl Iterator<Item = (&ServerName, String)> {
        let told = |server| format!("MCP server {server}: not seen yet; connect once: {CONNECT}");
        self.unasked.iter().map(move |server| (server, told(server)))
    }

    /// Every tool as JSON, with the phases that grant it.
    pub(crate) fn tools(&self) -> Vec<Value> {
        let entries = self.agent.toolset.entries().iter().enumerate();
        let one = |(at, entry): (usize, &Entry)| {
            let granted =
                self.agent.phases().filter(|phase| self.agent.grants(&phase.name, at, None));
            let phases: Vec<_> = granted.map(|phase| &phase.name).collect();
            let spec = &entry.spec;
            let mut tool = json!({
                "name": spec.name, "wire": spec.wire, "group": spec.group, "effect": spec.effect,
                "description": spec.about, "phases": phases,
            });
            if let (Some(map), Some(state)) = (tool.as_object_mut(), self.state(&spec.name)) {
                map.insert("state".to_owned(), state.into());
                let why = self.told(&spec.name).filter(|_| !self.is_ready(&spec.name));
                map.extend(why.map(|why| ("why".to_owned(), why.into())));
            }
            tool
        };
        entries.map(one).collect()
    }
}

impl Place {
    /// Which tools of servers this project has ever seen.
    pub(crate) fn pins(&self) -> Result<Pins> {
        if !self.home()?.join("log.db").exists() {
            return Ok(Pins::default());
        }
        let log = self.log()?;
        Ok(block_on(async { reading::project(log.store.as_ref()).await })?.pins)
    }
}
