//! Moves proposals from state to state. Everything here is a pure function of the project's state;
//! the caller writes the changes down, in one append.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{CatalogueDecided, CatalogueRuling, ProposalRuling};
use toolgate_kernel::fold::State;
use toolgate_kernel::time::Timestamp;

use super::chief::Assessment;
use super::edits::StateEdits;
use super::error::CatalogueError;
use super::harness::HarnessReport;
use super::issue_link::{self, IssueMove, NewIssue};
use super::issue_text::{body, decision_body};
use super::prompt_tool::{PromptTool, TakenIds, core_look_alike, is_core};
use super::proposal::{
    PROPOSAL_FAMILY, PROPOSALS, Proposal, ProposalAuthor, ProposalKind, ProposalState, Submission,
    proposal, proposals, state_after,
};
use super::registry::{Catalogue, CatalogueEntry, PromptOrigin, kept_tools};
use crate::issues::IssueStatus;

/// Most tools of people in the catalogue.
pub(super) const USER_TOOLS_MAX: usize = 100;
/// Most characters that they have together.
pub(super) const USER_CHARS_MAX: usize = 60_000;
/// Most open proposals.
pub(super) const OPEN_MAX: usize = 50;
/// Most open proposals of one agent.
pub(super) const OPEN_PER_AGENT_MAX: usize = 5;
/// Longest note of a person, in characters.
pub(super) const NOTE_CHARS_MAX: usize = 4_000;

/// What a step of the workflow may look at beside the state.
#[derive(Debug, Clone, Copy)]
pub struct Workflow<'a> {
    /// The entries of the user's file.
    pub user: &'a [PromptTool],
    /// Names and aliases of the tools that can be called.
    pub tools: &'a BTreeSet<String>,
    /// Whom the issue of a proposal is assigned to.
    pub chief: &'a str,
    /// The moment.
    pub now: Timestamp,
}

/// How many proposals there were, and how often one changed.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct ProposalCounter {
    last: u64,
    changes: u64,
}

/// A tool that a submission describes, with what it changes.
struct Described {
    tool: PromptTool,
    base: Option<CatalogueEntry>,
}

impl Workflow<'_> {
    /// Takes a proposal in: pending, with an issue for the chief.
    pub fn submit(
        &self,
        edits: &mut StateEdits,
        submission: Submission,
        author: ProposalAuthor,
    ) -> Result<Proposal, CatalogueError> {
        let all = proposals(edits.state())?;
        let open = || all.iter().filter(|proposal| proposal.state.is_open());
        if open().count() >= OPEN_MAX {
            let message = format!("{OPEN_MAX} proposals are open already; decide some first");
            return Err(CatalogueError::new("PROPOSALS_FULL", message));
        }
        let own = open().filter(|proposal| proposal.author == author).count();
        if matches!(author, ProposalAuthor::Agent(_)) && own >= OPEN_PER_AGENT_MAX {
            let message = format!(
                "you have {OPEN_PER_AGENT_MAX} open proposals already; withdraw one, or wait for a \
                 person's word"
            );
            return Err(CatalogueError::new("PROPOSALS_FULL", message));
        }
        let Described { tool, base } = self.describe(edits.state(), &submission, None)?;
        let same = |other: &&Proposal| other.author == author && other.tool.id == tool.id;
        if let Some(other) = open().find(same) {
            let message = format!(
                "proposal {} of yours about {} is open: revise that one",
                other.id, tool.id
            );
            return Err(CatalogueError::new("PROPOSAL_OPEN", message).at("id"));
        }
        let mut counter: ProposalCounter = edits.get(PROPOSALS)?.unwrap_or_default();
        counter.last = counter.last.saturating_add(1);
        edits.put(PROPOSALS, &counter)?;
        let at = self.now.0;
        let mut proposal = Proposal {
            id: counter.last,
            kind: submission.kind,
            base: base.as_ref().map(|base| base.digest),
            before: base.map(|base| base.tool),
            tool,
            rationale: submission.rationale.unwrap_or_default(),
            examples: submission.examples,
            test_cases: submission.test_cases,
            author,
            revision: 1,
            state: ProposalState::Pending,
            issue: 0,
            decision_issue: None,
            assessment: None,
            harness: None,
            note: String::new(),
            created_at: at,
            updated_at: at,
        };
        let issue = NewIssue {
            proposal: proposal.id,
            title: format!("[Tool Proposal] {}", proposal.tool.name),
            body: body(&proposal),
            assigned_to: self.chief.to_owned(),
            status: IssueStatus::Open,
        };
        proposal.issue = issue_link::open(edits, issue, self.now)?;
        self.keep(edits, &mut proposal)?;
        Ok(proposal)
    }

    /// Takes another revision of a proposal in: pending again.
    pub fn revise(
        &self,
        edits: &mut StateEdits,
        id: u64,
        submission: Submission,
        author: &ProposalAuthor,
    ) -> Result<Proposal, CatalogueError> {
        let mut proposal = proposal(edits.state(), id)?;
        own(&proposal, author, "revise")?;
        let open = [ProposalState::Pending, ProposalState::Assessed, ProposalState::NeedsChanges];
        proposal.in_state(&open, "revise")?;
        let submission = over(submission, &proposal);
        let Described { tool, base } =
            self.describe(edits.state(), &submission, Some(&proposal))?;
        proposal.kind = submission.kind;
        proposal.base = base.as_ref().map(|base| base.digest);
        proposal.before = base.map(|base| base.tool);
        proposal.tool = tool;
        proposal.rationale = submission.rationale.unwrap_or_default();
        proposal.examples = submission.examples;
        proposal.test_cases = submission.test_cases;
        proposal.revision = proposal.revision.saturating_add(1);
        proposal.state = ProposalState::Pending;
        (proposal.assessment, proposal.harness) = (None, None);
        let change = IssueMove {
            status: Some(IssueStatus::Open),
            title: Some(format!("[Tool Proposal] {}", proposal.tool.name)),
            body: Some(body(&proposal)),
            comment: Some((author.to_string(), format!("Revision {}.", proposal.revision))),
        };
        issue_link::moved(edits, proposal.issue, change, self.now)?;
        self.close_decision(edits, &proposal, "It was revised.")?;
        self.keep(edits, &mut proposal)?;
        Ok(proposal)
    }

    /// Takes a proposal back, for good.
    pub fn withdraw(
        &self,
        edits: &mut StateEdits,
        id: u64,
        note: &str,
        author: &ProposalAuthor,
    ) -> Result<Proposal, CatalogueError> {
        let mut proposal = proposal(edits.state(), id)?;
        own(&proposal, author, "withdraw")?;
        if !proposal.state.is_open() {
            proposal.in_state(&[ProposalState::Pending, ProposalState::Assessed], "withdraw")?;
        }
        let author = author.to_string();
        self.finish(edits, &mut proposal, ProposalState::Withdrawn, note, &author)?;
        Ok(proposal)
    }

    /// Keeps what the chief says of a revision, with the issue for the person who decides.
    pub fn assess(
        &self,
        edits: &mut StateEdits,
        id: u64,
        assessment: Assessment,
    ) -> Result<Proposal, CatalogueError> {
        let mut proposal = proposal(edits.state(), id)?;
        proposal.in_state(&[ProposalState::Pending], "assess")?;
        if assessment.digest != proposal.digest() {
            let message = format!("proposal {id} was revised meanwhile; assess it again");
            return Err(CatalogueError::new("PROPOSAL_CHANGED", message));
        }
        let comment = assessment.summary();
        proposal.harness = assessment.harness.clone();
        proposal.assessment = Some(assessment);
        proposal.state = ProposalState::Assessed;
        let said = Some((self.chief.to_owned(), comment));
        let change = IssueMove { comment: said, ..IssueMove::default() };
        issue_link::moved(edits, proposal.issue, change, self.now)?;
        let title = format!("[Tool Decision] {}", proposal.tool.name);
        let body = decision_body(&proposal);
        let there = proposal.decision_issue;
        match there {
            Some(issue) => {
                let status = Some(IssueStatus::WaitingOnUser);
                let (title, body) = (Some(title), Some(body));
                let change = IssueMove { status, title, body, comment: None };
                issue_link::moved(edits, issue, change, self.now)?;
            }
            None => {
                let (assigned_to, status) = ("user".to_owned(), IssueStatus::WaitingOnUser);
                let issue = NewIssue { proposal: id, title, body, assigned_to, status };
                proposal.decision_issue = Some(issue_link::open(edits, issue, self.now)?);
            }
        }
        self.keep(edits, &mut proposal)?;
        Ok(proposal)
    }

    /// Keeps what the test cases gave.
    pub fn tested(
        &self,
        edits: &mut StateEdits,
        id: u64,
        report: HarnessReport,
    ) -> Result<Proposal, CatalogueError> {
        let mut proposal = proposal(edits.state(), id)?;
        if report.digest != proposal.digest() {
            let message = format!("proposal {id} was revised meanwhile; test it again");
            return Err(CatalogueError::new("PROPOSAL_CHANGED", message));
        }
        if let Some(assessment) = &mut proposal.assessment {
            assessment.harness_ran(&report);
        }
        proposal.harness = Some(report);
        if let Some(issue) = proposal.decision_issue {
            let body = Some(decision_body(&proposal));
            issue_link::moved(edits, issue, IssueMove { body, ..IssueMove::default() }, self.now)?;
        }
        self.keep(edits, &mut proposal)?;
        Ok(proposal)
    }

    /// What a person's word on a proposal makes of the project.
    pub fn decide(
        &self,
        state: &State,
        id: u64,
        ruling: ProposalRuling,
        note: &str,
        by: &str,
    ) -> Result<CatalogueDecided, CatalogueError> {
        let mut edits = StateEdits::of(state);
        let mut proposal = proposal(state, id)?;
        let note = note.trim();
        let wanted: &[ProposalState] = match ruling {
            ProposalRuling::Approve => &[ProposalState::Assessed],
            ProposalRuling::NeedsChanges => &[ProposalState::Pending, ProposalState::Assessed],
            ProposalRuling::Reject => {
                &[ProposalState::Pending, ProposalState::Assessed, ProposalState::NeedsChanges]
            }
        };
        proposal.in_state(wanted, ruling.as_str())?;
        if ruling != ProposalRuling::Approve && note.is_empty() {
            let message = format!("say why with --note: {} takes one", ruling.as_str());
            return Err(CatalogueError::field("note", message));
        }
        if note.chars().count() > NOTE_CHARS_MAX {
            let message = format!("the note has more than {NOTE_CHARS_MAX} characters");
            return Err(CatalogueError::field("note", message));
        }
        let (revision, digest) = (proposal.revision, proposal.digest());
        if ruling == ProposalRuling::Approve {
            self.approve(&mut edits, &proposal, by)?;
        }
        let after = state_after(ruling);
        if after.is_open() {
            proposal.state = after;
            proposal.note = note.to_owned();
            let said = Some((by.to_owned(), format!("Needs changes: {note}")));
            let change = IssueMove { comment: said, ..IssueMove::default() };
            issue_link::moved(&mut edits, proposal.issue, change, self.now)?;
            self.close_decision(&mut edits, &proposal, "It was sent back.")?;
            self.keep(&mut edits, &mut proposal)?;
        } else {
            self.finish(&mut edits, &mut proposal, after, note, by)?;
        }
        let ruling = CatalogueRuling::Proposal { proposal: id, revision, digest, ruling };
        Ok(CatalogueDecided { ruling, changes: edits.into_changes(), note: note.to_owned() })
    }

    /// Sends a proposal back whose base is no longer what it was made for.
    pub fn base_changed(
        &self,
        edits: &mut StateEdits,
        id: u64,
        why: &CatalogueError,
    ) -> Result<Proposal, CatalogueError> {
        let mut proposal = proposal(edits.state(), id)?;
        proposal.state = ProposalState::NeedsChanges;
        proposal.note = why.to_string();
        let said = Some((issue_link::OPENED_BY.to_owned(), why.to_string()));
        let change = IssueMove { comment: said, ..IssueMove::default() };
        issue_link::moved(edits, proposal.issue, change, self.now)?;
        self.close_decision(edits, &proposal, "What it was made for changed.")?;
        self.keep(edits, &mut proposal)?;
        Ok(proposal)
    }

    /// The tool of a submission, with everything about it that can be known now.
    fn describe(
        &self,
        state: &State,
        submission: &Submission,
        revised: Option<&Proposal>,
    ) -> Result<Described, CatalogueError> {
        submission.check_complete()?;
        let catalogue = Catalogue::of(self.user, state)?;
        let described = match submission.kind {
            ProposalKind::New => self.new_tool(state, &catalogue, submission, revised)?,
            ProposalKind::Modify | ProposalKind::Retire => {
                let id = submission.id.as_deref().unwrap_or_default().trim();
                if is_core(id) {
                    return Err(CatalogueError::core_locked(id));
                }
                let base = based_on(&catalogue, id)?;
                if submission.kind == ProposalKind::Retire && base.source != PromptOrigin::Project {
                    let message = format!("{id} stands in your own prompt file: take it out there");
                    return Err(CatalogueError::field("id", message));
                }
                let tool = match submission.kind {
                    ProposalKind::Retire => base.tool.clone(),
                    ProposalKind::New | ProposalKind::Modify => laid_over(&base.tool, submission),
                };
                Described { tool, base: Some(base.clone()) }
            }
        };
        submission.check_samples()?;
        if let Some(core) = core_look_alike(&described.tool.name) {
            let message = format!(
                "name {:?} reads like the core tool {core}; choose another",
                described.tool.name
            );
            return Err(CatalogueError::field("name", message));
        }
        submission.check_texts(&described.tool)?;
        let same = described.base.as_ref().is_some_and(|base| {
            submission.kind == ProposalKind::Modify && base.digest == described.tool.digest()
        });
        if same {
            let message = "nothing would change: give the fields that are to be another";
            return Err(CatalogueError::field("type", message));
        }
        Ok(described)
    }

    fn new_tool(
        &self,
        state: &State,
        catalogue: &Catalogue,
        submission: &Submission,
        revised: Option<&Proposal>,
    ) -> Result<Described, CatalogueError> {
        let open = proposals(state)?;
        let others = open.iter().filter(|other| {
            other.state.is_open() && revised.is_none_or(|revised| revised.id != other.id)
        });
        let mut prompts: BTreeSet<String> =
            catalogue.entries.iter().map(|entry| entry.tool.id.clone()).collect();
        prompts.extend(
            others.filter(|other| other.kind == ProposalKind::New).map(|o| o.tool.id.clone()),
        );
        let taken = TakenIds { tools: self.tools.clone(), prompts };
        let mut tool = match submission.copy_of.as_deref().map(str::trim) {
            None => laid_over(&empty(), submission),
            Some(from) => {
                let base = based_on(catalogue, from)?;
                let mut copy = base.tool.clone();
                copy.name = format!("{} (custom)", copy.name);
                copy.id = taken.made_of(&format!("{from}_custom"));
                laid_over(&copy, submission)
            }
        };
        let given = submission.id.as_deref().map(str::trim).filter(|id| !id.is_empty());
        match (given, revised) {
            (Some(id), _) => {
                taken.check(id)?;
                tool.id = id.to_owned();
            }
            // A new name does not give a proposal another id.
            (None, Some(revised)) => tool.id = revised.tool.id.clone(),
            (None, None) if tool.id.is_empty() => tool.id = taken.made_of(&tool.name),
            (None, None) => {}
        }
        Ok(Described { tool, base: None })
    }

    fn finish(
        &self,
        edits: &mut StateEdits,
        proposal: &mut Proposal,
        state: ProposalState,
        note: &str,
        by: &str,
    ) -> Result<(), CatalogueError> {
        proposal.state = state;
        proposal.note = note.trim().to_owned();
        let word = match note.trim() {
            "" => format!("{}.", capital(state.as_str())),
            note => format!("{}: {note}", capital(state.as_str())),
        };
        let change = IssueMove {
            status: Some(IssueStatus::Closed),
            comment: Some((by.to_owned(), word.clone())),
            ..IssueMove::default()
        };
        issue_link::moved(edits, proposal.issue, change, self.now)?;
        self.close_decision(edits, proposal, &word)?;
        self.keep(edits, proposal)
    }

    fn close_decision(
        &self,
        edits: &mut StateEdits,
        proposal: &Proposal,
        word: &str,
    ) -> Result<(), CatalogueError> {
        let Some(issue) = proposal.decision_issue else { return Ok(()) };
        let said = Some((issue_link::OPENED_BY.to_owned(), word.to_owned()));
        let status = Some(IssueStatus::Closed);
        let change = IssueMove { status, comment: said, ..IssueMove::default() };
        issue_link::moved(edits, issue, change, self.now)
    }

    fn keep(&self, edits: &mut StateEdits, proposal: &mut Proposal) -> Result<(), CatalogueError> {
        proposal.updated_at = self.now.0;
        edits.put(&format!("{PROPOSAL_FAMILY}:{}", proposal.id), proposal)?;
        let mut counter: ProposalCounter = edits.get(PROPOSALS)?.unwrap_or_default();
        counter.changes = counter.changes.saturating_add(1);
        edits.put(PROPOSALS, &counter)
    }
}

/// Only the author changes or withdraws a proposal.
fn own(proposal: &Proposal, author: &ProposalAuthor, act: &str) -> Result<(), CatalogueError> {
    if proposal.author == *author {
        return Ok(());
    }
    let message =
        format!("proposal {} is {}'s; nobody else can {act} it", proposal.id, proposal.author);
    Err(CatalogueError::new("NOT_YOURS", message))
}

fn based_on<'a>(catalogue: &'a Catalogue, id: &str) -> Result<&'a CatalogueEntry, CatalogueError> {
    catalogue.find(id).ok_or_else(|| {
        let known = catalogue.entries.iter().map(|entry| entry.tool.id.clone()).collect();
        let message = format!("there is no prompt tool {id}");
        CatalogueError::new("NOT_FOUND", message).at("id").allowing(known)
    })
}

fn empty() -> PromptTool {
    PromptTool {
        id: String::new(),
        name: String::new(),
        archetype: String::new(),
        scope: super::prompt_tool::PromptScope::Project,
        usage_notes: String::new(),
        goals: String::new(),
        guardrails: String::new(),
        prompt: String::new(),
        created_at: 0,
        updated_at: 0,
    }
}

/// A tool with the fields that a submission gives.
fn laid_over(base: &PromptTool, submission: &Submission) -> PromptTool {
    let of = |given: &Option<String>, base: &str| given.clone().unwrap_or_else(|| base.to_owned());
    PromptTool {
        id: base.id.clone(),
        name: of(&submission.name, &base.name),
        archetype: of(&submission.archetype, &base.archetype),
        scope: submission.scope.unwrap_or(base.scope),
        usage_notes: of(&submission.usage_notes, &base.usage_notes),
        goals: of(&submission.goals, &base.goals),
        guardrails: of(&submission.guardrails, &base.guardrails),
        prompt: of(&submission.prompt, &base.prompt),
        created_at: base.created_at,
        updated_at: base.updated_at,
    }
    .normalised()
}

/// A revision with what it does not say taken from the revision before.
fn over(new: Submission, before: &Proposal) -> Submission {
    let tool = &before.tool;
    let of = |given: Option<String>, before: &str| given.or_else(|| Some(before.to_owned()));
    Submission {
        kind: before.kind,
        id: match before.kind {
            ProposalKind::New => new.id,
            ProposalKind::Modify | ProposalKind::Retire => Some(tool.id.clone()),
        },
        copy_of: None,
        name: of(new.name, &tool.name),
        archetype: of(new.archetype, &tool.archetype),
        scope: new.scope.or(Some(tool.scope)),
        usage_notes: of(new.usage_notes, &tool.usage_notes),
        goals: of(new.goals, &tool.goals),
        guardrails: of(new.guardrails, &tool.guardrails),
        prompt: of(new.prompt, &tool.prompt),
        rationale: of(new.rationale, &before.rationale),
        examples: if new.examples.is_empty() { before.examples.clone() } else { new.examples },
        test_cases: match new.test_cases.is_empty() {
            true => before.test_cases.clone(),
            false => new.test_cases,
        },
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The digest of a tool as the project keeps it.
pub fn kept_digest(state: &State, id: &str) -> Result<Option<Digest>, CatalogueError> {
    Ok(kept_tools(state)?.iter().find(|kept| kept.tool.id == id).map(|kept| kept.tool.digest()))
}
