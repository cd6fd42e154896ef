//! Decides what a scenario file may say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::decision::Role;
use toolgate_kernel::event::{Answer, Change, Conversation, Said};
use toolgate_kernel::evidence::EvidenceMode;
use toolgate_kernel::names::{AgentId, CallId, Family, PhaseName, ToolName};
use toolgate_kernel::request::{RequestError, RequestOptions};
use toolgate_kernel::section::Home;
use toolgate_packs::issues::{IssueAct, NewComment, NewIssue};
use toolgate_packs::workspace::{Act, Path as Pointer, ProposalId, Root};
use toolgate_wire::script::{CallText, ScriptText};

use crate::person::AnswerText;
use crate::tool::{Deed, ToolText};

/// A scenario: an agent with fake tools, a scripted model or direct calls, and a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence that says what it shows; the docs list these.
    pub about: String,
    /// Reference cases it covers, such as `W5`.
    #[serde(default)]
    pub covers: Vec<String>,
    /// The agent: phases, policies, limits.
    #[serde(default)]
    pub agent: AgentText,
    /// Fake tools, by section.
    #[serde(default)]
    pub sections: Vec<SectionText>,
    /// State families that fake tools keep, and where.
    #[serde(default)]
    pub families: BTreeMap<Family, HomeText>,
    /// What is in the project folder at the start.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// What the person says first.
    #[serde(default)]
    pub input: String,
    /// The person who opens its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter: Option<String>,
    /// Whether it is a conversation.
    #[serde(default)]
    pub chat: bool,
    /// As whom its sessions speak.
    #[serde(default)]
    pub speaks: SpeaksText,
    /// What the first request of its sessions narrows.
    #[serde(default, skip_serializing_if = "RequestText::is_default")]
    pub request: RequestText,
    /// The model.
    #[serde(default)]
    pub script: Option<ScriptText>,
    /// The model that looks at new prompts: it gives its first reply to everything.
    #[serde(default)]
    pub reviewer: Option<ScriptText>,
    /// What happens besides, in order, after the model is done or in its place.
    #[serde(default)]
    pub steps: Vec<StepText>,
    /// What a person answers, by tool; nobody is there for the rest.
    #[serde(default)]
    pub answers: BTreeMap<ToolName, AnswerText>,
    /// What a person says when a phase was entered and the run waits; blank to go on.
    #[serde(default)]
    pub words: BTreeMap<PhaseName, String>,
    /// The build of the agent must fail with these words.
    #[serde(default)]
    pub refused: Option<String>,
}

/// As whom sessions speak.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SpeaksText {
    /// The agent.
    pub agent: Option<AgentId>,
    /// The kind of conversation.
    pub conversation: Conversation,
}

/// What a request narrows, as a caller writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestText {
    /// The tools it may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_tools: Vec<String>,
    /// The tool it must use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require_tool: Option<String>,
    /// Whether its answers need evidence.
    #[serde(skip_serializing_if = "EvidenceMode::is_off")]
    pub evidence: EvidenceMode,
}

impl RequestText {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The options that it means.
    pub fn options(&self, agent: &Agent) -> Result<RequestOptions, RequestError> {
        let required = self.require_tool.as_deref();
        RequestOptions::parse(agent, &self.allow_tools, required, self.evidence)
    }
}

/// A section of fake tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SectionText {
    /// Its name.
    pub name: String,
    /// Text for the prompt.
    #[serde(default)]
    pub text: String,
    /// Whether it is there.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its tools.
    #[serde(default)]
    pub tools: Vec<ToolText>,
    /// Policies that govern its tools only.
    #[serde(default)]
    pub policies: Vec<toolgate_kernel::config::PolicyText>,
}

fn yes() -> bool {
    true
}

/// Where a family is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HomeText {
    /// With the session.
    Session,
    /// With the project.
    Project,
    /// With the project, for people only.
    HumanOnly,
}

impl HomeText {
    /// Where that is for the kernel.
    pub fn home(self) -> Home {
        match self {
            Self::Session => Home::Session,
            Self::Project | Self::HumanOnly => Home::Project,
        }
    }
}

/// Something that happens in a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepText {
    /// A call by a caller without a model.
    Call(CallText),
    /// The process ends and the session is resumed.
    Restart,
    /// Somebody says something to the session.
    Say(SayText),
    /// A person answers, from another process, about a call that waits.
    Decide(DecideText),
    /// Ada makes other people known, in these roles.
    Enrol(BTreeMap<String, Role>),
    /// What a person said yes to is made.
    TakeUp,
    /// Time passes.
    ClockMs(i64),
    /// Somebody moves the session to another phase.
    MoveTo(PhaseName),
    /// Somebody changes the session's state.
    Change(ChangeText),
    /// Somebody decides about facts and locks.
    Facts(FactsText),
    /// A proposal for the catalogue is assessed, or decided about.
    Catalogue(CatalogueStep),
    /// A person says or does something about an issue.
    Issue(IssueText),
    /// Ada undoes the last so many calls.
    Undo(usize),
    /// A new session begins with what this one knew, and takes over from here.
    Fork(ForkText),
    /// Somebody writes a file.
    WriteFile(String, String),
    /// The model drives on.
    Run,
    /// A caller opens a request with these options.
    Request(RequestText),
    /// A second session of the same project takes over from here.
    OtherSession,
    /// A second session, which speaks as this agent, takes over from here.
    OtherSessionAs(AgentId),
}

/// Where a session is forked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkText {
    /// The last record that counts; the end of its log when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
}

/// Something said to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SayText {
    /// Who.
    pub actor: Actor,
    /// What.
    pub said: Said,
}

/// A person's word on a call that waits, as it was shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideText {
    /// Who decides; Ada when left out.
    #[serde(default = "ada")]
    pub who: String,
    /// The call.
    pub call: CallId,
    /// The answer.
    pub answer: Answer,
    /// A sentence for the model.
    #[serde(default)]
    pub note: String,
    /// Other arguments, where the person changes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Whether later calls that raise the same question need no answer.
    #[serde(default)]
    pub always: bool,
}

fn ada() -> String {
    "ada".to_owned()
}

/// A change from outside a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeText {
    /// Who.
    pub actor: Actor,
    /// What.
    pub changes: Vec<Change>,
}

/// A decision about facts and locks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FactsText {
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: ActText,
}

/// An act about the catalogue, with its author.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogueStep {
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: CatalogueAct,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CatalogueAct {
    /// Assesses a proposal, by the mechanical checks alone.
    Assess(u64),
    /// Approves one.
    Approve(u64),
    /// Sends one back.
    NeedsChanges(u64),
    /// Turns one down.
    Reject(u64),
    /// Makes a version of a tool its newest one.
    Rollback(String, u64),
}

/// What is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActText {
    /// Makes facts of proposals.
    Commit(Vec<ProposalId>),
    /// Takes proposals away.
    Reject(Vec<ProposalId>),
    /// Holds a path.
    Lock(String),
    /// Holds it no longer.
    Unlock(String),
}

/// What a person does with an issue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueText {
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: IssueActText,
}

/// What is done with an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IssueActText {
    /// A new one, by its title.
    Open(String),
    /// One that is closed is open again.
    Reopen(u64),
    /// Something is said about one.
    Comment(u64, String),
    /// It is assigned.
    Assign(u64, String),
    /// It is dealt with.
    Close(u64),
}

impl IssueActText {
    /// The act itself.
    pub fn act(&self) -> IssueAct {
        match self.clone() {
            Self::Open(title) => IssueAct::Open(NewIssue { title, ..NewIssue::default() }),
            Self::Reopen(id) => IssueAct::Reopen(id),
            Self::Comment(id, body) => {
                IssueAct::Comment(id, NewComment { body, ..NewComment::default() })
            }
            Self::Assign(id, to) => IssueAct::Assign(id, Some(to)),
            Self::Close(id) => IssueAct::Close(id),
        }
    }
}

impl ActText {
    /// The act itself.
    pub fn act(&self) -> Result<Act> {
        let path = |text: &str| Pointer::parse(text, &[Root::Facts, Root::Draft]);
        Ok(match self {
            Self::Commit(ids) => Act::Commit(ids.clone()),
            Self::Reject(ids) => Act::Reject(ids.clone(), String::new()),
            Self::Lock(text) => Act::Lock(path(text)?, String::new()),
            Self::Unlock(text) => Act::Unlock(path(text)?, String::new()),
        })
    }
}

impl Scenario {
    /// Whether a tool lets time pass, so that a call that is run again finds another moment.
    pub fn passes_time(&self) -> bool {
        let tools = self.sections.iter().flat_map(|section| &section.tools);
        let mut deeds = tools.flat_map(|tool| tool.does.iter().flatten());
        deeds.any(|deed| matches!(deed, Deed::ClockMs(_)))
    }

    /// Reads a scenario file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_saphyr::from_str(&text)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }

    /// Every scenario under a folder, in order.
    pub fn find(folder: &Path) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "yaml") {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}
