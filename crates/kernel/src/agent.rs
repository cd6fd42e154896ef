//! Decides what an agent is: inert data that says which tools each phase grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::budget::Budget;
use crate::calling::ToolCalling;
use crate::config::{ConfigDigests, EgressConfig, ProfileText};
use crate::digest::Digest;
use crate::evidence::{Archetype, EvidenceMode};
use crate::flow::FlowLabels;
use crate::fold::Session;
use crate::limits::Limits;
pub use crate::mask::{AgentRefusal, Place};
use crate::mask::{Granted, Masks};
use crate::names::{AgentId, GroupName, PhaseName, ServerName, ToolName};
use crate::phase::{Grant, Phase};
use crate::policy::{Policy, RULE_OF_TWO, RuleOfTwo};
use crate::profile::Declared;
use crate::prompt::Template;
use crate::request::RequestOptions;
use crate::section::{Entry, Section, Toolset};
use crate::settings::Settings;
use crate::tool::ToolSpec;

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
    /// Agents that take part in conversations, as they are declared.
    pub agents: IndexMap<AgentId, ProfileText>,
    /// The MCP servers that are declared; what they offer is known once they were asked.
    pub servers: BTreeSet<ServerName>,
    /// When given, no other tool can ever be called.
    pub allow: Option<Vec<ToolName>>,
    /// Tools that can never be called.
    pub deny: Vec<ToolName>,
    /// How the model is asked to call tools, and what that holds back whatever the lists above say.
    pub tool_calling: ToolCalling,
    /// Bounds and deadlines.
    pub limits: Limits,
    /// What a run may spend.
    pub budget: Budget,
    /// How a run goes on from iteration to iteration.
    pub settings: Settings,
    /// Whether reads are remembered by the project.
    pub remember_reads: bool,
    /// What may leave a session that has read private data and untrusted content.
    pub egress: EgressConfig,
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
            agents: IndexMap::new(),
            servers: BTreeSet::new(),
            allow: None,
            deny: Vec::new(),
            tool_calling: ToolCalling::default(),
            limits: Limits::default(),
            budget: Budget::default(),
            settings: Settings::default(),
            remember_reads: false,
            egress: EgressConfig::default(),
        }
    }
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
    /// How the model is asked to call tools.
    pub tool_calling: ToolCalling,
    /// Whether reads are remembered by the project.
    pub remember_reads: bool,
    /// Agents that take part in conversations, by their ids.
    pub agents: BTreeMap<AgentId, Declared>,
    /// Every tool that any phase grants, in declaration order.
    pub every: Arc<[Arc<ToolSpec>]>,
    /// Fingerprint of tools, phases, policies, families, limits, budget, settings and prompt texts.
    pub fingerprint: Digest,
    /// The configuration file that it was made of, where there was one.
    pub source: Option<Arc<ConfigSource>>,
    /// MCP servers that are down, and why, in our own words. Nobody declares this: whoever asks the
    /// servers says so, and it is in no fingerprint.
    pub down: BTreeMap<ServerName, String>,
    phases: Vec<Granted>,
}

/// For whom the tools of a phase are looked at. What it leaves out is neither shown nor callable.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolAudience<'a> {
    /// The agent that the session speaks as, which may hold some of them back.
    pub agent: Option<&'a AgentId>,
    /// What the open request narrows.
    pub request: Option<&'a RequestOptions>,
}

impl<'a> From<Option<&'a AgentId>> for ToolAudience<'a> {
    fn from(agent: Option<&'a AgentId>) -> Self {
        Self { agent, request: None }
    }
}

impl<'a> From<&'a Session> for ToolAudience<'a> {
    fn from(session: &'a Session) -> Self {
        let request = session.request.as_ref().map(|request| &request.options);
        Self { agent: session.agent.as_ref(), request }
    }
}

/// The configuration file that an agent was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSource {
    /// Its digests.
    pub digests: ConfigDigests,
    /// Its text, with `***` in place of literal secrets.
    pub masked_text: String,
    /// What flags and environment variables filled in, secrets masked.
    pub overrides: BTreeMap<String, String>,
}

impl Agent {
    /// The same, bound to the file that it was made of: what the file says of servers, addresses and
    /// secrets is part of the fingerprint, which approvals are bound to.
    pub fn with_source(mut self, source: ConfigSource) -> Self {
        let ConfigDigests { reach, gate, .. } = source.digests;
        self.fingerprint = Digest::of_json(&json!([self.fingerprint, reach, gate]));
        self.source = Some(Arc::new(source));
        self
    }

    /// Checks that everything named exists and computes what each phase grants.
    pub fn build(draft: AgentDraft) -> Result<Self, AgentRefusal> {
        Self::survey(draft).agent()
    }

    /// The same, but goes on after the first thing that is off, so that all of them can be told.
    pub fn survey(mut draft: AgentDraft) -> Survey {
        let mut refused = Vec::new();
        if let Some(policy) = draft.policies.iter().find(|one| one.name().as_str() == RULE_OF_TWO) {
            refused.push(AgentRefusal::OwnPolicy(policy.name().clone()));
        }
        match RuleOfTwo::of(&draft.egress) {
            Ok(rule) => draft.policies.extend(rule.map(|rule| Arc::new(rule) as Arc<dyn Policy>)),
            Err(refusal) => refused.push(refusal.into()),
        }
        refused.extend(draft.limits.refusals().map(AgentRefusal::from));
        refused.extend(draft.budget.refusals().map(AgentRefusal::from));
        refused.extend(draft.settings.refusals().map(AgentRefusal::from));
        let toolset = match Toolset::build(&draft.sections, &draft.policies) {
            Ok(toolset) => toolset,
            Err(refusal) => {
                refused.push(refusal.into());
                return Survey { refused, agent: None };
            }
        };
        let mut masks = Masks { toolset: &toolset, draft: &draft, refused };
        let phases = masks.phases();
        let enabled = masks.enabled();
        let mut refused = masks.refused;
        let prompt = Template::parse(&draft.system_prompt, &toolset).unwrap_or_else(|unknown| {
            refused.extend(unknown.into_iter().map(AgentRefusal::Word));
            Template::default()
        });
        let fingerprint = fingerprint(&draft, &toolset, &phases);
        let granted: BTreeSet<usize> =
            phases.iter().flat_map(|granted| &granted.tools).copied().collect();
        let entries = granted.iter().filter_map(|at| toolset.entries().get(*at));
        let every: Arc<[Arc<ToolSpec>]> = entries.map(|entry| Arc::clone(&entry.spec)).collect();
        let agents = declared(&draft, enabled, &toolset, &every);
        let agent = Self {
            name: draft.name,
            prompt,
            toolset,
            limits: draft.limits,
            budget: draft.budget,
            settings: draft.settings,
            tool_calling: draft.tool_calling,
            remember_reads: draft.remember_reads,
            agents,
            every,
            fingerprint,
            source: None,
            down: BTreeMap::new(),
            phases,
        };
        Survey { refused, agent: Some(agent) }
    }

    /// The phase a session starts in.
    pub fn first_phase(&self) -> Option<&Phase> {
        self.phases.first().map(|granted| &granted.phase)
    }

    /// A phase by its name.
    pub fn phase(&self, name: &PhaseName) -> Option<&Phase> {
        self.granted(name).map(|granted| &granted.phase)
    }

    /// Every phase, in order.
    pub fn phases(&self) -> impl Iterator<Item = &Phase> {
        self.phases.iter().map(|granted| &granted.phase)
    }

    /// Whether a run ends with the phase: nothing follows it, and it is not the only one.
    pub fn terminal(&self, name: &PhaseName) -> bool {
        self.phases.len() > 1 && self.phase(name).is_some_and(|phase| phase.transitions.is_empty())
    }

    /// The MCP servers a phase asks something of.
    pub fn servers(&self, phase: &PhaseName) -> impl Iterator<Item = &ServerName> {
        self.granted(phase).into_iter().flat_map(|granted| &granted.servers)
    }

    /// Whether a phase grants a tool of an MCP server, be it there or not, to whoever a session
    /// speaks as. An agent that may use some tools only may use none that is not there.
    pub fn grants_outside(
        &self,
        phase: &PhaseName,
        tool: &ToolName,
        audience: ToolAudience<'_>,
    ) -> bool {
        let ToolAudience { agent, request } = audience;
        let any = agent.is_none_or(|who| self.agents.get(who).is_some_and(|d| d.enabled.is_none()));
        let any = any && request.is_none_or(|request| request.allows(tool));
        any && self.granted(phase).is_some_and(|granted| granted.outside.grants(tool))
    }

    fn granted(&self, name: &PhaseName) -> Option<&Granted> {
        self.phases.iter().find(|granted| granted.phase.name == *name)
    }

    /// Whether answers of a session need evidence now: where its agent, its phase or the open request
    /// requires it.
    pub fn evidence(&self, session: &Session) -> EvidenceMode {
        let declared = session.agent.as_ref().and_then(|id| self.agents.get(id));
        let phase = session.phase.as_ref().and_then(|phase| self.phase(phase));
        let all = [
            declared.map(|agent| agent.evidence),
            phase.map(|phase| phase.evidence),
            session.request.as_ref().map(|request| request.options.evidence),
        ];
        all.into_iter().flatten().max().unwrap_or_default()
    }

    /// What the agent of a session is for.
    pub fn archetype(&self, session: &Session) -> Archetype {
        let declared = session.agent.as_ref().and_then(|id| self.agents.get(id));
        declared.map(|agent| agent.archetype).unwrap_or_default()
    }

    /// Whether a tool is one of a server that some phase asks something of.
    pub(crate) fn declares_server_of(&self, tool: &ToolName) -> bool {
        let Some((server, _)) = tool.of_server() else { return false };
        let mut servers = self.phases.iter().flat_map(|granted| &granted.servers);
        servers.any(|declared| declared.as_str() == server)
    }

    /// The tools a phase grants to an audience, in declaration order: what is shown AND what may be
    /// called.
    pub fn visible<'a>(
        &'a self,
        phase: &PhaseName,
        audience: impl Into<ToolAudience<'a>>,
    ) -> impl Iterator<Item = &'a Entry> {
        let granted = self.granted(phase).map(|granted| &granted.tools);
        let entries = self.toolset.entries();
        let audience = audience.into();
        let enabled = move |at: &&usize| self.serves(audience, **at);
        granted.into_iter().flatten().filter(enabled).filter_map(|at| entries.get(*at))
    }

    /// Whether a phase grants the tool at a place of the toolset to an audience.
    pub fn grants<'a>(
        &self,
        phase: &PhaseName,
        tool: usize,
        audience: impl Into<ToolAudience<'a>>,
    ) -> bool {
        let granted = self.granted(phase).is_some_and(|granted| granted.tools.contains(&tool));
        granted && self.serves(audience.into(), tool)
    }

    /// Whether an audience may use a tool, in whichever phase grants it.
    fn serves(&self, audience: ToolAudience<'_>, tool: usize) -> bool {
        let entry = || self.toolset.entries().get(tool);
        let allows =
            |request: &RequestOptions| entry().is_some_and(|it| request.allows(&it.spec.name));
        self.enables(audience.agent, tool) && audience.request.is_none_or(allows)
    }

    /// Whether an agent may use a tool at all. One that is not declared may use none.
    pub(crate) fn enables(&self, who: Option<&AgentId>, tool: usize) -> bool {
        let Some(who) = who else { return true };
        let declared = self.agents.get(who);
        declared.is_some_and(|d| d.enabled.as_ref().is_none_or(|some| some.contains(&tool)))
    }

    /// What the tools of a phase bring into a session together, and whether one of them sends.
    pub fn labels_in(&self, phase: &PhaseName) -> FlowLabels {
        let labels = self.visible(phase, None).flat_map(|entry| entry.spec.every_label());
        labels.fold(FlowLabels::default(), |all, one| all.tightened_by(one))
    }

    /// Every tool that any phase grants to whoever a session speaks as.
    pub fn every_for(&self, who: Option<&AgentId>) -> Arc<[Arc<ToolSpec>]> {
        match who {
            None => Arc::clone(&self.every),
            Some(who) => self.agents.get(who).map(|d| Arc::clone(&d.every)).unwrap_or_default(),
        }
    }
}

/// Everything that is off with a draft, and the agent as far as it could be made.
pub struct Survey {
    /// What is off, in the order in which it was looked at.
    pub refused: Vec<AgentRefusal>,
    agent: Option<Agent>,
}

impl Survey {
    /// The agent; the first refusal when there is one.
    pub fn agent(self) -> Result<Agent, AgentRefusal> {
        match (self.refused.into_iter().next(), self.agent) {
            (None, Some(agent)) => Ok(agent),
            (Some(refusal), _) => Err(refusal),
            (None, None) => Err(AgentRefusal::NoPhase),
        }
    }

    /// What could be made of it so far, to look at and never to run.
    pub(crate) fn so_far(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }
}

/// The agents of conversations, with the tools each may use.
fn declared(
    draft: &AgentDraft,
    enabled: Vec<Option<BTreeSet<usize>>>,
    toolset: &Toolset,
    every: &Arc<[Arc<ToolSpec>]>,
) -> BTreeMap<AgentId, Declared> {
    let agents = draft.agents.iter().zip(enabled).map(|((id, text), enabled)| {
        let own = enabled.as_ref().map(|enabled| {
            let may = |spec: &&Arc<ToolSpec>| {
                toolset.find(spec.name.as_str()).is_some_and(|at| enabled.contains(&at))
            };
            every.iter().filter(may).cloned().collect()
        });
        let every = own.unwrap_or_else(|| Arc::clone(every));
        let archetype = Archetype::named(text.archetype.as_deref());
        let evidence = text.evidence;
        (id.clone(), Declared { first: text.first(), archetype, evidence, enabled, every })
    });
    agents.collect()
}

fn fingerprint(draft: &AgentDraft, toolset: &Toolset, phases: &[Granted]) -> Digest {
    let tools: Vec<_> = toolset
        .entries()
        .iter()
        .filter(|entry| entry.spec.name.of_server().is_none())
        .map(|entry| {
            let policies: Vec<_> =
                entry.policies.iter().map(|p| json!([p.name(), p.describe()])).collect();
            json!([entry.spec.version, policies])
        })
        .collect();
    let phases: Vec<_> = phases.iter().map(|granted| face(granted, toolset)).collect();
    let families: Vec<_> = toolset
        .families()
        .map(|family| json!([family.name, family.home, family.guard, family.layout]))
        .collect();
    let mut face = json!({
        "families": families, "tools": tools, "phases": phases, "limits": draft.limits, "budget": draft.budget,
        "settings": draft.settings.face(), "calling": draft.tool_calling.face(), "system_prompt": draft.system_prompt, "texts": toolset.texts(),
    });
    if let (false, Value::Object(face)) = (draft.agents.is_empty(), &mut face) {
        face.insert("agents".to_owned(), json!(draft.agents));
    }
    if let (false, Value::Object(face)) = (toolset.faces().is_empty(), &mut face) {
        face.insert("sections".to_owned(), json!(toolset.faces()));
    }
    if let (false, Value::Object(face)) = (draft.egress == EgressConfig::default(), &mut face) {
        face.insert("egress".to_owned(), json!(draft.egress));
    }
    Digest::of_json(&face)
}

/// What the fingerprint says of a phase. What servers offer changes without a person's doing, so
/// only what was granted of them counts.
fn face(granted: &Granted, toolset: &Toolset) -> Value {
    let own = |at: &&usize| {
        let entry = toolset.entries().get(**at);
        entry.is_some_and(|entry| entry.spec.name.of_server().is_none())
    };
    let tools: Vec<&usize> = granted.tools.iter().filter(own).collect();
    match &granted.phase.grant {
        Grant::Some { servers, include, .. } if !granted.servers.is_empty() => {
            json!([granted.phase.face(), tools, servers, include])
        }
        Grant::All | Grant::Some { .. } => json!([granted.phase.face(), tools]),
    }
}
