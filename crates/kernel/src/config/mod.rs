//! Decides what a person may write down of an agent, and makes an agent of it.

mod address;
mod agents;
mod catalogue;
mod check;
mod chosen;
mod difference;
mod digests;
mod directive;
mod finding;
mod flow;
mod harmless;
mod header;
mod loader;
mod masked;
mod migrate;
mod model;
mod phase;
mod policy;
mod preset;
mod provider;
mod reach;
mod read;
mod reserved;
mod sandbox;
mod secret;
mod server;
mod settings;
mod shown;
mod structure;
mod transform;
mod tree;
mod trust;
mod values;
mod wanted;
mod web;
mod yaml;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use address::{AddressProblem, is_private, pasted};
pub use agents::{ProfileText, SelfAuthoringText};
pub use catalogue::{ARCHETYPE_CHARS_MAX, CatalogueConfig, CatalogueSourcesConfig, InjectMode};
pub use check::Checked;
pub use chosen::{ChoiceRefusal, Chosen, ChosenModel};
pub use difference::{ConfigChange, ConfigDifference};
pub use digests::{COSMETIC, ConfigDigests, DigestPart, part_of};
pub use directive::{DirectiveText, DirectivesRefusal, DirectivesText};
pub use finding::{Finding, Mistake, Severity, Span};
pub use flow::{EgressConfig, FilesConfig, LabelsConfig, RuleOfTwoMode, SendsConfig};
pub use harmless::TrustReason;
pub use header::{OWN_HEADERS, is_server_header};
pub use masked::masked_text;
pub use migrate::{Migrated, Naming, Renamed, migrate};
pub use model::{
    CacheText, CallingRefusal, CapabilitiesText, ChoiceText, ModelText, NamesText, OUTPUT_KEYS,
    ToolCallingText, ToolFailurePolicy, ToolUseMode,
};
pub use phase::{ConditionText, GrantText, PhaseRefusal, PhaseText, ToolsText, TransitionText};
pub use policy::{PolicyRefusal, PolicyText, ReadBeforeWriteText};
pub use preset::{PRESETS, Preset, PresetRefusal, effective};
pub use provider::{Known, PROVIDERS, ProviderName, Speech};
pub use reach::ReachLine;
pub use read::{Reading, read};
pub use reserved::{reserved, unreserved};
pub use sandbox::{HomeConfig, NetworkConfig, NetworkWord, SandboxConfig, SandboxModeConfig};
pub use secret::{Secret, SecretPart, SecretRefusal};
pub use server::{OauthText, ServerText, Transport};
pub use settings::SettingsText;
pub use transform::{Reach, Transform, TransformKind, TransformRefusal};
pub use trust::{GateRule, MachinePolicy, TrustBasis, TrustEvidence, TrustGap};
pub use values::{KeyPath, PathStep};
pub use web::WebText;

use crate::agent::{Agent, AgentDraft, AgentRefusal};
use crate::budget::Budget;
use crate::limits::Limits;
use crate::names::{AgentId, GroupName, PhaseName, ServerName, ToolName};
use crate::policy::{MACHINE_POLICY_PREFIX, ReadScope};
use crate::section::Section;

/// An agent as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AgentText {
    /// The version of this form: "1.0", in quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The agent's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What the agent is for, in a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How a run goes on from iteration to iteration, and which model it uses.
    pub settings: SettingsText,
    /// The system prompt before everything else. Words in braces, such as `{phase}`, `{guide}` and
    /// `{phase_rules}`, are filled at the start of each iteration; `{{` is a brace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_prompt: String,
    /// The packs of built-in tools that exist; notes, manuscript_read, manuscript_write and phase
    /// when left out, none when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs: Option<Vec<PackName>>,
    /// How the planning pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<PlanningText>,
    /// How the memory pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryText>,
    /// How the issues pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issues: Option<IssuesConfig>,
    /// How the web pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<WebText>,
    /// How the files pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesConfig>,
    /// How the self_authoring pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_authoring: Option<SelfAuthoringText>,
    /// How the catalogue pack is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueConfig>,
    /// Agents that take part in conversations, by their keys: who they are at first. A session
    /// speaks as one of them when it is started with `--agent`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<AgentId, ProfileText>,
    /// The phase a session starts in; the first one when left out.
    pub default_phase: Option<PhaseName>,
    /// Names for several tools. A group here replaces the built-in one of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_groups: BTreeMap<GroupName, Vec<ToolName>>,
    /// MCP servers, by name; phases choose among them.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub mcp_servers: IndexMap<ServerName, ServerText>,
    /// Models, by name; `settings.model` names the one of a run.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub models: IndexMap<String, ModelText>,
    /// How models are asked to call tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calling: Option<ToolCallingText>,
    /// Directives: instructions that a model may put into its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directives: Option<DirectivesText>,
    /// The phases by name, in order; a single one that grants every tool when left out.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub phases: IndexMap<PhaseName, PhaseText>,
    /// When given, no other tool can ever be called; `[]` allows none.
    // A key with nothing after it was meant to hold something back, so that is a mistake.
    #[schemars(with = "Vec<ToolName>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<ToolName>>,
    /// Tools that can never be called, whatever a phase grants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<ToolName>,
    /// Policies that govern all tools. Each entry has exactly one kind: sequential,
    /// read_before_write, limit, rate or rule.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<PolicyText>,
    /// Policies of the machine, which govern beside those of the file. No file says them, and no digest of a
    /// file covers them.
    #[serde(skip)]
    pub machine_policies: Vec<PolicyText>,
    /// What may leave a session that has read private data and untrusted content.
    pub egress: EgressConfig,
    /// Bounds and deadlines. Zero never means "no limit".
    pub limits: Limits,
    /// What a run may spend, in tokens.
    pub budget: Budget,
}

/// The version of the form a configuration is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// The first and only one.
    #[serde(rename = "1.0")]
    One,
}

/// A pack of built-in tools.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PackName {
    /// Notes under keys.
    Notes,
    /// Looking at the manuscript.
    ManuscriptRead,
    /// Writing the manuscript.
    ManuscriptWrite,
    /// The manuscript as storylines, chapters and beats.
    Beats,
    /// Moving from phase to phase.
    Phase,
    /// The files of the project.
    Files,
    /// A plan with steps.
    Planning,
    /// A list of tasks.
    Tasks,
    /// Issues that people and agents share.
    Issues,
    /// Whiteboards that all sessions share.
    Whiteboard,
    /// Texts that are remembered and found by their words.
    Memory,
    /// Searching the web and reading its pages.
    Web,
    /// Facts that a person confirms, a draft, locks, and what a user interface shows.
    Workspace,
    /// What an agent is told of itself, and what it changes of it.
    SelfAuthoring,
    /// The sixteen core tools, and prompt tools that people approve.
    Catalogue,
}

impl PackName {
    /// All there are.
    pub const ALL: &'static [Self] = &[
        Self::Notes,
        Self::ManuscriptRead,
        Self::ManuscriptWrite,
        Self::Beats,
        Self::Phase,
        Self::Files,
        Self::Planning,
        Self::Tasks,
        Self::Issues,
        Self::Whiteboard,
        Self::Memory,
        Self::Web,
        Self::Workspace,
        Self::SelfAuthoring,
        Self::Catalogue,
    ];

    /// The packs that are there when a configuration names none: a writer's.
    pub const DEFAULT: &'static [Self] =
        &[Self::Notes, Self::ManuscriptRead, Self::ManuscriptWrite, Self::Phase];

    /// As it is written under `packs:`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Notes => "notes",
            Self::ManuscriptRead => "manuscript_read",
            Self::ManuscriptWrite => "manuscript_write",
            Self::Beats => "beats",
            Self::Phase => "phase",
            Self::Files => "files",
            Self::Planning => "planning",
            Self::Tasks => "tasks",
            Self::Issues => "issues",
            Self::Whiteboard => "whiteboard",
            Self::Memory => "memory",
            Self::Web => "web",
            Self::Workspace => "workspace",
            Self::SelfAuthoring => "self_authoring",
            Self::Catalogue => "catalogue",
        }
    }
}

/// How the planning pack is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanningText {
    /// The mindset the model is given.
    pub strategy: Strategy,
}

/// How the memory pack is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryText {
    /// What a refinement may do.
    pub refinement: Refinement,
    /// How much of the core memories a refinement must leave, in percent of their characters: 1 to
    /// 100. When less would be left, everything it did is taken back.
    #[schemars(range(min = 1, max = 100))]
    pub core_percent_min: u64,
}

impl Default for MemoryText {
    fn default() -> Self {
        Self { refinement: Refinement::Full, core_percent_min: 90 }
    }
}

/// How the issues pack is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IssuesConfig {
    /// Words that escalate. A comment of an agent with too many of them freezes the issue.
    #[schemars(length(max = 200), inner(length(min = 1, max = 40)))]
    pub escalation_words: Vec<String>,
    /// How many of them a comment may have: 0 to 100.
    #[schemars(range(max = 100))]
    pub escalation_words_max: u64,
}

impl Default for IssuesConfig {
    fn default() -> Self {
        let words = [
            "urgent",
            "urgently",
            "crucial",
            "critical",
            "critically",
            "disaster",
            "disastrous",
            "catastrophe",
            "catastrophic",
            "emergency",
            "immediately",
            "asap",
            "unacceptable",
            "terrible",
            "alarming",
            "severe",
        ];
        Self { escalation_words: words.map(str::to_owned).to_vec(), escalation_words_max: 4 }
    }
}

/// What a refinement of the memories may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refinement {
    /// Everything within its bounds.
    #[default]
    Full,
    /// Remove what is there twice; nothing is rewritten.
    DedupOnly,
}

/// How a model is told to go about a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Think, call, look, and again.
    #[default]
    React,
    /// Outline first, then act, then look back.
    PlanActReflect,
    /// Restate the goal, split it, give each part its way, put the answers together.
    GoalDecomposeRouteSynthesise,
}

/// An agent that cannot be made of what was written.
#[derive(Debug, thiserror::Error)]
pub enum ConfigRefusal {
    /// A policy is not usable.
    #[error(transparent)]
    Policy(#[from] PolicyRefusal),
    /// A phase is not usable.
    #[error(transparent)]
    Phase(#[from] PhaseRefusal),
    /// Tool calling is not usable.
    #[error("tool_calling: {0}")]
    Calling(#[from] CallingRefusal),
    /// The parts do not go together.
    #[error(transparent)]
    Agent(#[from] AgentRefusal),
    /// The phase to start in does not exist.
    #[error("default_phase: there is no phase {0}")]
    DefaultPhase(PhaseName),
}

impl AgentText {
    /// Every value that may be a secret, with the name it is written under.
    pub fn secrets(&self) -> Vec<(&str, &Secret)> {
        fn named<'a>(
            values: impl IntoIterator<Item = (&'a String, &'a Secret)>,
        ) -> impl Iterator<Item = (&'a str, &'a Secret)> {
            values.into_iter().map(|(name, secret)| (name.as_str(), secret))
        }
        let mut all: Vec<(&str, &Secret)> = Vec::new();
        all.extend(self.settings.api_key.iter().map(|key| ("api_key", key)));
        for model in self.models.values() {
            all.extend(model.api_key.iter().map(|key| ("api_key", key)));
            all.extend(named(&model.headers));
        }
        for server in self.mcp_servers.values() {
            all.extend(server.auth.iter().map(|token| ("auth", token)));
            all.extend(named(&server.env).chain(named(&server.headers)));
            let oauth = server.oauth.iter().flat_map(|oauth| &oauth.client_secret);
            all.extend(oauth.map(|secret| ("client_secret", secret)));
        }
        all
    }

    /// Every file that a secret is read from.
    pub fn secret_files(&self) -> Vec<&str> {
        let parts = self.secrets().into_iter().flat_map(|(_, it)| it.parts().unwrap_or_default());
        parts
            .filter_map(|part| match part {
                SecretPart::File(path) => Some(path),
                SecretPart::Word(_) | SecretPart::Variable(_) => None,
            })
            .collect()
    }

    /// Makes an agent of what was written and the sections that were enabled.
    pub fn build(self, sections: Vec<Section>) -> Result<Agent, ConfigRefusal> {
        let mut first = None;
        let draft = self.draft(sections, |_, refusal| {
            first.get_or_insert(refusal);
        });
        match first {
            Some(refusal) => Err(refusal),
            None => Ok(Agent::build(draft)?),
        }
    }

    /// The draft of an agent, without what cannot be used; `refuse` is told of that, and of its
    /// place in a list.
    fn draft(
        self,
        sections: Vec<Section>,
        mut refuse: impl FnMut(usize, ConfigRefusal),
    ) -> AgentDraft {
        let mut draft = AgentDraft::new(&self.name, sections);
        let (calling, window) = match self.chosen() {
            Ok(Chosen::Model(model)) => {
                // Whoever answers must be able to read it.
                let others = self.fallbacks(&model).unwrap_or_default();
                let all = std::iter::once(&*model).chain(&others);
                let window = all.filter_map(|m| m.text.capabilities.context_window_tokens).min();
                (Some(model.calling), window)
            }
            Ok(Chosen::None | Chosen::Script(_)) | Err(_) => (self.tool_calling.clone(), None),
        };
        draft.remember_reads = self.policies.iter().any(|policy| {
            policy.read_before_write.as_ref().is_some_and(|text| text.scope == ReadScope::Project)
        });
        for (at, text) in self.policies.into_iter().enumerate() {
            let named = text.name.as_ref();
            if let Some(name) = named.filter(|one| one.as_str().starts_with(MACHINE_POLICY_PREFIX))
            {
                refuse(at, AgentRefusal::OwnPolicy(name.clone()).into());
            }
            match text.build(at + 1) {
                Ok(policy) => draft.policies.push(policy),
                Err(refusal) => refuse(at, refusal.into()),
            }
        }
        for (at, text) in self.machine_policies.into_iter().enumerate() {
            match text.build(at + 1) {
                Ok(policy) => draft.policies.push(policy),
                Err(refusal) => refuse(at, refusal.into()),
            }
        }
        if !self.phases.is_empty() {
            let mut build = |(name, text): (PhaseName, PhaseText)| {
                text.build(name, |refusal| refuse(0, refusal.into()))
            };
            draft.phases = self.phases.into_iter().map(&mut build).collect();
        }
        if let Some(first) = self.default_phase {
            match draft.phases.iter().position(|phase| phase.name == first) {
                None => refuse(0, ConfigRefusal::DefaultPhase(first)),
                Some(at) => {
                    let phase = draft.phases.remove(at);
                    draft.phases.insert(0, phase);
                }
            }
        }
        draft.settings = self.settings.settings();
        if let Some(window) = window {
            let context = &mut draft.settings.max_context_tokens;
            *context = (*context).min(window);
        }
        draft.system_prompt = self.system_prompt;
        draft.groups = self.tool_groups;
        draft.agents = self.agents;
        draft.servers = self.mcp_servers.into_keys().collect();
        draft.allow = self.allow;
        draft.egress = self.egress;
        draft.deny = self.deny;
        draft.limits = self.limits;
        if let Some(text) = calling {
            draft.tool_calling = text.build(&mut draft.limits, |refusal| refuse(0, refusal.into()));
        }
        draft.budget = self.budget;
        draft
    }
}
