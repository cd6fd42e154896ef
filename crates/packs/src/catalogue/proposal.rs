//! A proposal for the catalogue: what is submitted, how it is kept, and which states it has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::ProposalRuling;
use toolgate_kernel::fold::{Shelf, State};
use toolgate_kernel::prompt_text::{PromptField, check_fields};

use super::chief::Assessment;
use super::edits::load;
use super::error::CatalogueError;
use super::harness::HarnessReport;
use super::prompt_tool::{NAME_CHARS_MAX, PromptScope, PromptTool, core_names};

/// The key that counts proposals.
pub(super) const PROPOSALS: &str = "prompt_proposals";
/// The family of the proposals: `prompt_proposal:<number>`.
pub const PROPOSAL_FAMILY: &str = "prompt_proposal";

/// Shortest and longest rationale.
const RATIONALE_CHARS: (usize, usize) = (20, 4_000);
/// Longest example.
const EXAMPLE_CHARS_MAX: usize = 2_000;
/// Longest input of a test case.
const INPUT_CHARS_MAX: usize = 8_000;
/// Longest reply of a test case.
const REPLY_CHARS_MAX: usize = 20_000;
/// Longest pattern.
pub(super) const PATTERN_CHARS_MAX: usize = 200;
/// Most patterns of a kind in one test case.
const PATTERNS_MAX: usize = 10;
/// Fewest and most examples, and test cases.
const SAMPLES: (usize, usize) = (2, 3);

/// What a proposal would do.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProposalKind {
    /// Add a tool.
    #[default]
    New,
    /// Change one.
    Modify,
    /// Take one out of the catalogue.
    Retire,
}

impl ProposalKind {
    /// The kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Modify => "modify",
            Self::Retire => "retire",
        }
    }
}

/// Where a proposal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalState {
    /// It waits for the chief.
    Pending,
    /// It waits for a person.
    Assessed,
    /// It waits for its author.
    NeedsChanges,
    /// It is part of the catalogue.
    Approved,
    /// A person turned it down.
    Rejected,
    /// Its author took it back.
    Withdrawn,
}

impl ProposalState {
    /// Whether it can still become something else.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Assessed | Self::NeedsChanges)
    }

    /// The state as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Assessed => "assessed",
            Self::NeedsChanges => "needs_changes",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// Who made a proposal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum ProposalAuthor {
    /// An agent, or a caller that is no person.
    Agent(String),
    /// A person.
    Person(String),
}

impl std::fmt::Display for ProposalAuthor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Agent(name) => write!(f, "agent {name}"),
            Self::Person(name) => write!(f, "{name}"),
        }
    }
}

/// Whether a test case is to hold or to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// All checks hold.
    Pass,
    /// At least one does not.
    Fail,
}

/// A check of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyCheck {
    /// One JSON value with nothing around it.
    JsonOnly,
    /// No Markdown fences.
    NoFences,
    /// One line of evidence.
    Evidence,
    /// At least one receipt of a call that was made.
    Receipt,
    /// No call that is only printed.
    NoFakeCalls,
}

/// A concrete check of what a model does with the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestCase {
    /// Its name.
    pub name: String,
    /// What the person says to the model.
    pub input: String,
    /// Whether the checks are to hold.
    pub expect: Expected,
    /// Checks of the form of the reply.
    #[serde(default)]
    pub checks: Vec<ReplyCheck>,
    /// Patterns that the reply must have.
    #[serde(default)]
    pub must: Vec<String>,
    /// Patterns that it must not have.
    #[serde(default)]
    pub must_not: Vec<String>,
    /// Most characters of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<u64>,
    /// A reply to check where no model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

/// What is submitted. Fields that a kind needs and that are missing are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Submission {
    /// What it would do: add a tool, change one, or take one out; new when left out.
    #[serde(rename = "type")]
    pub kind: ProposalKind,
    /// The tool. Made of the name when left out, for a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// For a new tool: the tool whose fields it begins with, such as a core tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<String>,
    /// Its name for people, one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The kind of agent it is for; Any when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archetype: Option<String>,
    /// What it works on; the project when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<PromptScope>,
    /// When to use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_notes: Option<String>,
    /// What it is to achieve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goals: Option<String>,
    /// What it must not be used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guardrails: Option<String>,
    /// What the model is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Why it is needed: 20 to 4,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Two or three concrete uses.
    pub examples: Vec<String>,
    /// Two or three concrete checks.
    pub test_cases: Vec<TestCase>,
}

/// A proposal as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Its number.
    pub id: u64,
    /// What it would do.
    #[serde(rename = "type")]
    pub kind: ProposalKind,
    /// The tool as it would be; for one that retires, as it is.
    pub tool: PromptTool,
    /// Digest of the tool that it would change or retire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Digest>,
    /// The tool that it would change or retire, to show the difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PromptTool>,
    /// Why it is needed.
    pub rationale: String,
    /// Concrete uses.
    #[serde(default)]
    pub examples: Vec<String>,
    /// Concrete checks.
    #[serde(default)]
    pub test_cases: Vec<TestCase>,
    /// Who made it.
    pub author: ProposalAuthor,
    /// Its revision, from one.
    pub revision: u64,
    /// Where it stands.
    pub state: ProposalState,
    /// The issue for the chief.
    pub issue: u64,
    /// The issue for the person who decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_issue: Option<u64>,
    /// What the chief and the mechanical checks say of this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assessment: Option<Assessment>,
    /// What the test cases gave, of this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<HarnessReport>,
    /// The last word on it: of the person, or of the author who withdrew it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When it was submitted, in milliseconds since 1970.
    pub created_at: i64,
    /// When it last changed.
    pub updated_at: i64,
}

impl Proposal {
    /// Digest of what is proposed in this revision: what a person's word is bound to.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&json!({
            "proposal": self.id, "revision": self.revision, "type": self.kind,
            "tool": self.tool.fields_json(), "base": self.base, "rationale": self.rationale,
            "examples": self.examples, "testCases": self.test_cases,
        }))
    }

    /// A word on it needs this state; the error says which states there are.
    pub(super) fn in_state(
        &self,
        wanted: &[ProposalState],
        act: &str,
    ) -> Result<(), CatalogueError> {
        if wanted.contains(&self.state) {
            return Ok(());
        }
        let allowed = wanted.iter().map(|state| state.as_str().to_owned()).collect();
        let message = match (self.state, act) {
            (ProposalState::Pending, "approve") => format!(
                "proposal {} was not assessed yet: run `toolgate catalogue assess {}` first",
                self.id, self.id
            ),
            _ => format!(
                "proposal {} is {}; {act} takes one that is {}",
                self.id,
                self.state.as_str(),
                wanted.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ")
            ),
        };
        Err(CatalogueError::new("PROPOSAL_STATE", message).allowing(allowed))
    }
}

/// The state that a person's word leads to.
pub(super) fn state_after(ruling: ProposalRuling) -> ProposalState {
    match ruling {
        ProposalRuling::Approve => ProposalState::Approved,
        ProposalRuling::NeedsChanges => ProposalState::NeedsChanges,
        ProposalRuling::Reject => ProposalState::Rejected,
    }
}

/// Every proposal, by number.
pub fn proposals(state: &State) -> Result<Vec<Proposal>, CatalogueError> {
    let shelf = state.shelf(PROPOSAL_FAMILY);
    let ids = shelf.into_iter().flat_map(Shelf::iter).map(|(id, _)| id);
    let read = |id: &str| load(state, &format!("{PROPOSAL_FAMILY}:{id}")).transpose();
    let mut all: Vec<Proposal> = ids.filter_map(read).collect::<Result<_, _>>()?;
    all.sort_by_key(|proposal| proposal.id);
    Ok(all)
}

/// A proposal by its number.
pub fn proposal(state: &State, id: u64) -> Result<Proposal, CatalogueError> {
    let found = load(state, &format!("{PROPOSAL_FAMILY}:{id}"))?;
    found.ok_or_else(|| {
        CatalogueError::new(
            "NOT_FOUND",
            format!("there is no proposal {id}; `toolgate catalogue list` shows those there are"),
        )
    })
}

impl Submission {
    /// Names every field that is missing.
    pub(super) fn check_complete(&self) -> Result<(), CatalogueError> {
        let blank =
            |text: &Option<String>| text.as_deref().is_none_or(|text| text.trim().is_empty());
        let mut missing = Vec::new();
        if self.kind != ProposalKind::New && blank(&self.id) {
            missing.push("id");
        }
        let has_base = self.kind != ProposalKind::New || self.copy_of.is_some();
        if !has_base && blank(&self.name) {
            missing.push("name");
        }
        if !has_base && blank(&self.prompt) {
            missing.push("prompt");
        }
        if blank(&self.rationale) {
            missing.push("rationale");
        }
        if self.kind != ProposalKind::Retire {
            if self.examples.is_empty() {
                missing.push("examples");
            }
            if self.test_cases.is_empty() {
                missing.push("testCases");
            }
        }
        let Some(first) = missing.first() else { return Ok(()) };
        let message = format!("a proposal of this type needs {}", missing.join(", "));
        let error = CatalogueError::new("FIELDS_MISSING", message).at(*first);
        Err(error.allowing(missing.iter().map(|field| (*field).to_owned()).collect()))
    }

    /// Checks the counts of what belongs to a proposal beside its tool.
    pub(super) fn check_samples(&self) -> Result<(), CatalogueError> {
        if self.kind == ProposalKind::Retire {
            return Ok(());
        }
        let (min, max) = SAMPLES;
        for (field, count) in
            [("examples", self.examples.len()), ("testCases", self.test_cases.len())]
        {
            if !(min..=max).contains(&count) {
                let message = format!("{field} has {count} entries; give {min} or {max}");
                return Err(CatalogueError::field(field, message));
            }
        }
        for (at, case) in self.test_cases.iter().enumerate() {
            case.check(&format!("testCases[{at}]"))?;
        }
        Ok(())
    }

    /// Holds all texts against the text rules, those of the tool first.
    pub(super) fn check_texts(&self, tool: &PromptTool) -> Result<(), CatalogueError> {
        let rationale = self.rationale.as_deref().unwrap_or_default();
        let (min, max) = RATIONALE_CHARS;
        let mut named: Vec<(String, PromptField<'_>)> = Vec::new();
        let plain = |name: &str, text, max| (name.to_owned(), PromptField::new("", text, max));
        for (at, example) in self.examples.iter().enumerate() {
            let (name, field) = plain(&format!("examples[{at}]"), example, EXAMPLE_CHARS_MAX);
            named.push((name, field.at_least(1)));
        }
        for (at, case) in self.test_cases.iter().enumerate() {
            let place = |field: &str| format!("testCases[{at}].{field}");
            let (name, field) = plain(&place("name"), &case.name, NAME_CHARS_MAX);
            named.push((name, field.at_least(1).one_line()));
            let (name, field) = plain(&place("input"), &case.input, INPUT_CHARS_MAX);
            named.push((name, field.at_least(1)));
            for pattern in &case.must {
                named.push(plain(&place("must"), pattern, PATTERN_CHARS_MAX));
            }
            for pattern in &case.must_not {
                let (name, field) = plain(&place("must_not"), pattern, PATTERN_CHARS_MAX);
                named.push((name, field.never_shown()));
            }
            if let Some(reply) = &case.reply {
                let (name, field) = plain(&place("reply"), reply, REPLY_CHARS_MAX);
                named.push((name, field.never_shown()));
            }
        }
        let mut fields = tool.text_fields();
        fields.push(PromptField::new("rationale", rationale, max).at_least(min));
        fields.extend(named.iter().map(|(name, field)| PromptField { name, ..*field }));
        Ok(check_fields(&fields, &core_names())?)
    }
}

impl TestCase {
    fn check(&self, place: &str) -> Result<(), CatalogueError> {
        let nothing = self.checks.is_empty()
            && self.must.is_empty()
            && self.must_not.is_empty()
            && self.max_chars.is_none();
        if nothing {
            let message =
                format!("{place} checks nothing: give checks, must, must_not or max_chars");
            return Err(CatalogueError::field(&format!("{place}.checks"), message));
        }
        for (field, patterns) in [("must", &self.must), ("must_not", &self.must_not)] {
            let place = format!("{place}.{field}");
            if patterns.len() > PATTERNS_MAX {
                let message = format!("{place} has more than {PATTERNS_MAX} patterns");
                return Err(CatalogueError::field(&place, message));
            }
            for pattern in patterns {
                if let Err(error) = super::harness::compiled(pattern) {
                    let message = format!("{place}: {pattern:?} is not a usable pattern: {error}");
                    return Err(CatalogueError::field(&place, message));
                }
            }
        }
        Ok(())
    }
}
