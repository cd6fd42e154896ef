//! `toolgate catalogue propose`, `assess`, `test` and `withdraw`: what a person does before the
//! decision. Nothing of it goes live.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use toolgate_kernel::event::{Change, ProjectEvent};
use toolgate_kernel::fold::{Project, State};
use toolgate_packs::catalogue::{
    CaseOutcome, CatalogueError, ChiefModel, ChiefRequest, HarnessReport, HarnessRoom, Proposal,
    ProposalAuthor, ProposalState, StateEdits, Submission, core_tools_options, proposal, proposals,
    run_model, run_replies,
};
use toolgate_packs::{catalogue, core_tools::CoreToolsOptions};
use toolgate_runtime::SayFault;
use toolgate_runtime::port::Provider;

use super::{CatalogueDesk, Form, number, project, refused};
use crate::console::{self, say};
use crate::credential::{self, Decider};
use crate::environment::{self, Flags};
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::model;
use crate::person::{Nobody, attended};
use crate::project::{Place, block_on, bounded};
use crate::visible::exact;

#[derive(Args)]
pub(super) struct Options {
    /// A JSON file with the fields of the proposal: name, prompt, rationale, examples, testCases, and
    /// what else a prompt tool has.
    file: PathBuf,
    /// Begin with the fields of this tool. A copy of a core tool gets the id with _custom behind it.
    #[arg(long, value_name = "ID", conflicts_with = "revise")]
    copy_of: Option<String>,
    /// Another revision of this proposal of yours.
    #[arg(long, value_name = "N")]
    revise: Option<String>,
    #[command(flatten)]
    pub(super) form: Form,
}

#[derive(Args)]
pub(super) struct AssessOptions {
    /// The proposal; all that wait when left out.
    proposal: Option<String>,
    /// The model that assesses it, in place of the chief's: a name under `models`, provider:model, or
    /// script:FILE.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    pub(super) form: Form,
}

#[derive(Args)]
pub(super) struct WithdrawOptions {
    /// The proposal.
    proposal: String,
    /// Why.
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    pub(super) form: Form,
}

#[derive(Args)]
pub(super) struct TestOptions {
    /// The proposal.
    proposal: String,
    /// The model that answers the test cases: a name under `models`, or provider:model.
    #[arg(long, value_name = "MODEL", conflicts_with = "script")]
    model: Option<String>,
    /// A script that plays the model: one turn for each test case.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    #[command(flatten)]
    pub(super) form: Form,
}

/// Why nothing was written down.
enum Unwritten {
    Refused(CatalogueError),
    Say(SayFault),
}

impl From<SayFault> for Unwritten {
    fn from(fault: SayFault) -> Self {
        Self::Say(fault)
    }
}

/// Writes down what a person does with proposals. Calls and unsigned records reach none of it.
pub(super) async fn write(
    place: &Place,
    person: &Decider,
    reason: &str,
    step: impl Fn(&State) -> Result<(Proposal, Vec<Change>), CatalogueError>,
) -> Result<std::result::Result<Proposal, CatalogueError>> {
    let opened = place.open()?;
    let shown = vec![reason.to_owned()];
    let written = opened.runtime.decide(person.author(&shown), |project: &Project| {
        let (proposal, changes) = step(&project.state).map_err(Unwritten::Refused)?;
        let reason = reason.to_owned();
        let event = ProjectEvent::ProjectChanged { changes, session: None, call: None, reason };
        Ok((vec![event], proposal))
    });
    match written.await {
        Ok(proposal) => Ok(Ok(proposal)),
        Err(Unwritten::Refused(error)) => Ok(Err(error)),
        Err(Unwritten::Say(fault)) => Err(fault.into()),
    }
}

fn author(person: &Decider) -> ProposalAuthor {
    let name = person.who.name().map(ToString::to_string);
    ProposalAuthor::Person(name.unwrap_or_default())
}

pub(super) fn propose(place: &Place, desk: &CatalogueDesk, options: &Options) -> Result<Exit> {
    attended().then_some(()).ok_or(Nobody)?;
    let mut submission = read_submission(&options.file)?;
    if options.copy_of.is_some() {
        submission.copy_of.clone_from(&options.copy_of);
    }
    let revised = options.revise.as_deref().map(number).transpose()?;
    let json = options.form.json;
    block_on(async {
        let step = |state: &State, author: &ProposalAuthor| {
            let mut edits = StateEdits::of(state);
            let (workflow, submission) = (desk.workflow(), submission.clone());
            let proposal = match revised {
                Some(id) => workflow.revise(&mut edits, id, submission, author)?,
                None => workflow.submit(&mut edits, submission, author.clone())?,
            };
            Ok((proposal, edits.into_changes()))
        };
        // What is wrong is told before anybody is asked for a passphrase.
        let project = project(place).await?;
        if revised.is_none()
            && let Err(error) = step(&project.state, &ProposalAuthor::Person("you".to_owned()))
        {
            return Ok(refused(error, json));
        }
        let person = credential::decider(place).await?;
        let author = author(&person);
        let written = write(place, &person, "propose a prompt tool", |state| step(state, &author));
        match written.await? {
            Err(error) => Ok(refused(error, json)),
            Ok(proposal) => {
                told(&proposal, json);
                Ok(Exit::Done)
            }
        }
    })
}

fn read_submission(path: &Path) -> Result<Submission> {
    let bytes = bounded(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_slice(&bytes)
        .with_context(|| format!("{} is not a proposal (docs/catalogue.md)", path.display()))
}

fn told(proposal: &Proposal, json: bool) {
    if json {
        let digest = proposal.digest();
        console::json(&json!({ "ok": true, "proposal": proposal, "digest": digest }));
        return;
    }
    let Proposal { id, tool, revision, state, issue, .. } = proposal;
    say(&format!(
        "Proposal {id} ({}), revision {revision}, is {}; issue #{issue}. Nothing is live yet.",
        exact(&tool.id),
        state.as_str()
    ));
    if *state == ProposalState::Pending {
        say(&format!("Next: toolgate catalogue assess {id}"));
    }
}

pub(super) fn withdraw(
    place: &Place,
    desk: &CatalogueDesk,
    options: &WithdrawOptions,
) -> Result<Exit> {
    attended().then_some(()).ok_or(Nobody)?;
    let (id, json) = (number(&options.proposal)?, options.form.json);
    block_on(async {
        let person = credential::decider(place).await?;
        let author = author(&person);
        let written = write(place, &person, "withdraw a proposal", |state| {
            let mut edits = StateEdits::of(state);
            let proposal = desk.workflow().withdraw(&mut edits, id, &options.note, &author)?;
            Ok((proposal, edits.into_changes()))
        });
        match written.await? {
            Err(error) => Ok(refused(error, json)),
            Ok(proposal) => {
                told(&proposal, json);
                Ok(Exit::Done)
            }
        }
    })
}

/// The chief's model: the one that was named, else that of the agent who is the chief.
async fn chief_model(
    place: &Place,
    desk: &CatalogueDesk,
    named: Option<&str>,
) -> Result<ChiefModel> {
    let own = desk.text.catalogue.as_ref().and_then(|own| own.chief.as_ref());
    let of_agent = own.and_then(|chief| desk.text.agents.get(chief)?.model.as_deref());
    let of_run = own.and(desk.text.settings.model.as_deref());
    let Some(name) = named.or(of_agent).or(of_run) else {
        let why = match own {
            None => "no chief is configured: name an agent under `catalogue.chief`",
            Some(_) => "the chief has no model: give it one under `agents`, or use --model",
        };
        return Ok(Err(why.to_owned()));
    };
    let name = name.trim();
    // A script is a file that the person names; nothing else is reached by it.
    if let Some(file) = name.strip_prefix("script:") {
        return Ok(Ok(Arc::new(model::script(file)?)));
    }
    let trusted = place.trusted_crew(&Flags::default()).await?;
    let found = model::by_name(&trusted.access, &trusted.text, name);
    Ok(found.map_err(|error| format!("{error:#}")))
}

pub(super) fn assess(place: &Place, desk: &CatalogueDesk, options: &AssessOptions) -> Result<Exit> {
    attended().then_some(()).ok_or(Nobody)?;
    let json = options.form.json;
    let wanted = options.proposal.as_deref().map(number).transpose()?;
    block_on(async {
        let project = project(place).await?;
        let due: Vec<Proposal> = match wanted {
            Some(id) => match proposal(&project.state, id) {
                Ok(proposal) => vec![proposal],
                Err(error) => return Ok(refused(error, json)),
            },
            None => {
                let pending = |one: &Proposal| one.state == ProposalState::Pending;
                proposals(&project.state)?.into_iter().filter(pending).collect()
            }
        };
        if due.is_empty() && !json {
            say("No proposal waits to be assessed.");
        }
        let person = credential::decider(place).await?;
        let mut exit = Exit::Done;
        for proposal in due {
            let model = chief_model(place, desk, options.model.as_deref()).await?;
            let nonce: [u8; 16] = environment::random()?;
            let nonce = format!("{:032x}", u128::from_be_bytes(nonce));
            let harness = proposal.harness.clone().or_else(|| {
                let replies = proposal.test_cases.iter().any(|case| case.reply.is_some());
                replies.then(|| run_replies(&proposal))
            });
            let now = desk.workflow().now;
            let request = ChiefRequest { model, nonce: &nonce, harness, now };
            let assessment = catalogue::assess(&proposal, request).await;
            let written = write(place, &person, "assess a proposal", |state| {
                let mut edits = StateEdits::of(state);
                let kept = desk.workflow().assess(&mut edits, proposal.id, assessment.clone())?;
                Ok((kept, edits.into_changes()))
            });
            match written.await? {
                Err(error) => exit = refused(error, json),
                Ok(kept) if json => told(&kept, true),
                Ok(kept) => {
                    say(&format!("Proposal {}:", kept.id));
                    for line in assessment.lines() {
                        say(&format!("  {}", exact(&line)));
                    }
                    say(&format!("Next: toolgate catalogue show {}", kept.id));
                }
            }
        }
        Ok(exit)
    })
}

pub(super) fn test(place: &Place, desk: &CatalogueDesk, options: &TestOptions) -> Result<Exit> {
    let (id, json) = (number(&options.proposal)?, options.form.json);
    block_on(async {
        let project = project(place).await?;
        let proposal = match proposal(&project.state, id) {
            Ok(proposal) => proposal,
            Err(error) => return Ok(refused(error, json)),
        };
        let provider: Option<Arc<dyn Provider>> = match (&options.script, &options.model) {
            (Some(file), _) => {
                let Some(file) = file.to_str() else {
                    bail!("the name of the script is not UTF-8")
                };
                Some(Arc::new(model::script(file)?))
            }
            (None, Some(name)) => {
                let trusted = place.trusted_crew(&Flags::default()).await?;
                Some(model::by_name(&trusted.access, &trusted.text, name)?)
            }
            (None, None) => None,
        };
        let report = match provider {
            None => run_replies(&proposal),
            Some(provider) => {
                let files = place.look()?.runtime.files();
                let clock = Arc::new(SystemClock);
                let options: CoreToolsOptions = core_tools_options(&desk.text);
                run_model(&proposal, &HarnessRoom { provider, clock, files, options }).await?
            }
        };
        let recorded = attended() && proposal.state.is_open();
        if recorded {
            let person = credential::decider(place).await?;
            let written = write(place, &person, "test a proposal", |state| {
                let mut edits = StateEdits::of(state);
                let kept = desk.workflow().tested(&mut edits, id, report.clone())?;
                Ok((kept, edits.into_changes()))
            });
            if let Err(error) = written.await? {
                return Ok(refused(error, json));
            }
        }
        shown(&report, recorded, json);
        let failed = report.cases.iter().any(|case| case.outcome == CaseOutcome::Failed);
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}

fn shown(report: &HarnessReport, recorded: bool, json: bool) {
    if json {
        console::json(&json!({ "report": report, "recorded": recorded }));
        return;
    }
    report.lines().iter().for_each(|line| say(&exact(line)));
    if !recorded {
        console::hint(
            "Nobody is at a terminal, or the proposal is closed: the result is not kept.",
        );
    }
}
