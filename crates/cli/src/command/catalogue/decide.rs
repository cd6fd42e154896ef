//! `toolgate catalogue approve`, `needs-changes`, `reject`, `rollback` and `accept`: shown to an owner at
//! the terminal, asked for by a word, and written down with their signature as it was shown.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use toolgate_kernel::event::{CatalogueDecided, CatalogueRuling, ProjectEvent, ProposalRuling};
use toolgate_kernel::fold::{Project, State};
use toolgate_packs::catalogue::{CatalogueError, StateEdits, field_diff, proposal, versions};
use toolgate_runtime::SayFault;

use super::show::{change_lines, proposal_lines};
use super::{CatalogueDesk, Form, number, project, refused};
use crate::console::{self, say};
use crate::credential::{self, Decider};
use crate::exit::Exit;
use crate::person::{self, Nobody, attended};
use crate::project::{Place, block_on};
use crate::prompts;
use crate::visible::exact;

#[derive(Args)]
pub(super) struct Options {
    /// The number of the proposal.
    proposal: String,
    /// Why, for its author and the log.
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    pub(super) form: Form,
}

#[derive(Args)]
pub(super) struct RollbackOptions {
    /// The tool.
    id: String,
    /// The version that becomes the newest one again.
    version: u64,
    #[command(flatten)]
    pub(super) form: Form,
}

#[derive(Args)]
pub(super) struct AcceptOptions {
    /// The entry, by its id.
    id: String,
    #[command(flatten)]
    pub(super) form: Form,
}

/// Why nothing was decided.
enum Undecided {
    Refused(CatalogueError),
    Moved,
    Say(SayFault),
}

impl From<SayFault> for Undecided {
    fn from(fault: SayFault) -> Self {
        Self::Say(fault)
    }
}

/// What a person would make of the project by a decision.
type Decide<'a> = dyn Fn(&State, &str) -> Result<CatalogueDecided, CatalogueError> + 'a;

/// A decision to be shown and signed.
struct Asked<'a> {
    card: Vec<String>,
    /// The word that is typed.
    word: &'a str,
    /// What the person was shown.
    shown: CatalogueRuling,
    decide: &'a Decide<'a>,
    json: bool,
}

pub(super) fn decide(
    place: &Place,
    desk: &CatalogueDesk,
    options: &Options,
    ruling: ProposalRuling,
) -> Result<Exit> {
    let (id, note) = (number(&options.proposal)?, options.note.trim());
    let json = options.form.json;
    // Without a person nothing is decided, whatever the proposal is.
    attended().then_some(()).ok_or(Nobody)?;
    let step = |state: &State, by: &str| desk.workflow().decide(state, id, ruling, note, by);
    block_on(async {
        let project = project(place).await?;
        let decided = match step(&project.state, "you") {
            Ok(decided) => decided,
            Err(error) if error.code == "BASE_CHANGED" => {
                send_back(place, desk, id, &error).await?;
                return Ok(refused(error, json));
            }
            Err(error) => return Ok(refused(error, json)),
        };
        let mut card = match proposal(&project.state, id) {
            Ok(proposal) => proposal_lines(&proposal),
            Err(error) => return Ok(refused(error, json)),
        };
        card.push(match ruling {
            ProposalRuling::Approve => {
                "Approved, it is shown to models from the next request on.".to_owned()
            }
            ProposalRuling::NeedsChanges => "It goes back to its author.".to_owned(),
            ProposalRuling::Reject => "It is turned down for good.".to_owned(),
        });
        if !note.is_empty() {
            card.push(format!("  your note: {}", exact(note)));
        }
        let word = ruling.as_str();
        let asked = Asked { card, word, shown: decided.ruling, decide: &step, json };
        sign(place, asked).await
    })
}

/// A proposal whose base changed goes back to its author, with the reason.
async fn send_back(
    place: &Place,
    desk: &CatalogueDesk,
    id: u64,
    why: &CatalogueError,
) -> Result<()> {
    let person = credential::decider(place).await?;
    super::propose::write(place, &person, "what a proposal was made for changed", |state| {
        let mut edits = StateEdits::of(state);
        let proposal = desk.workflow().base_changed(&mut edits, id, why)?;
        Ok((proposal, edits.into_changes()))
    })
    .await
    .map(drop)
}

pub(super) fn rollback(
    place: &Place,
    desk: &CatalogueDesk,
    options: &RollbackOptions,
) -> Result<Exit> {
    let RollbackOptions { id, version, form } = options;
    attended().then_some(()).ok_or(Nobody)?;
    let step = |state: &State, by: &str| desk.workflow().roll_back(state, id, *version, by);
    block_on(async {
        let project = project(place).await?;
        let decided = match step(&project.state, "you") {
            Ok(decided) => decided,
            Err(error) => return Ok(refused(error, form.json)),
        };
        let all = versions(&project.state, id)?;
        let now = all.last().and_then(|last| last.tool.as_ref());
        let then = all.iter().find(|one| one.version == *version).and_then(|one| one.tool.as_ref());
        let mut card = vec![format!("Version {version} of {} becomes its newest one:", exact(id))];
        card.extend(change_lines(&field_diff(now, then)));
        let word = "rollback";
        let asked = Asked { card, word, shown: decided.ruling, decide: &step, json: form.json };
        sign(place, asked).await
    })
}

pub(super) fn accept(place: &Place, desk: &CatalogueDesk, options: &AcceptOptions) -> Result<Exit> {
    let AcceptOptions { id, form } = options;
    attended().then_some(()).ok_or(Nobody)?;
    let step = |state: &State, _: &str| desk.workflow().accept(state, id);
    block_on(async {
        let project = project(place).await?;
        let decided = match step(&project.state, "you") {
            Ok(decided) => decided,
            Err(error) => return Ok(refused(error, form.json)),
        };
        let tool = desk.user.tools.iter().find(|tool| tool.id == *id);
        let mut card = vec![format!(
            "The entry {} of your own prompt file is used in this project:",
            exact(id)
        )];
        card.extend(change_lines(&field_diff(None, tool)));
        let word = "accept";
        let asked = Asked { card, word, shown: decided.ruling, decide: &step, json: form.json };
        sign(place, asked).await
    })
}

/// Shows, asks, signs, and writes down exactly what was shown, or nothing.
async fn sign(place: &Place, asked: Asked<'_>) -> Result<Exit> {
    let Asked { card, word, shown, decide, json } = asked;
    let seen = person::paged(&card).await;
    if seen.is_none() || !person::confirm(word, "do this").await? {
        console::complain(&anyhow!("you did not type {word}; nothing was changed"), json);
        return Ok(Exit::Failed);
    }
    let person: Decider = credential::decider(place).await?;
    let by = person.who.name().map(ToString::to_string).unwrap_or_default();
    let opened = place.open()?;
    let written = opened.runtime.decide(person.author(&card), |project: &Project| {
        let now = decide(&project.state, &by).map_err(Undecided::Refused)?;
        if now.ruling != shown {
            return Err(Undecided::Moved);
        }
        Ok((vec![ProjectEvent::CatalogueDecided(Box::new(now))], ()))
    });
    match written.await {
        Ok(()) => {}
        Err(Undecided::Refused(error)) => return Ok(refused(error, json)),
        Err(Undecided::Moved) => {
            let why = anyhow!(
                "PROPOSAL_CHANGED: this changed while you were looking at it; nothing was done. Look \
                 again"
            );
            console::complain(&why, json);
            return Ok(Exit::Failed);
        }
        Err(Undecided::Say(fault)) => return Err(fault.into()),
    }
    let project = opened.runtime.catch_up().await?;
    prompts::roll_forward(place, &project);
    if json {
        console::json(&json!({ "ok": true, "decided": shown }));
        return Ok(Exit::Done);
    }
    match &shown {
        CatalogueRuling::Proposal { proposal, ruling, .. } => {
            let done = match ruling {
                ProposalRuling::Approve => "approved. The next request of a model carries it",
                ProposalRuling::NeedsChanges => "sent back to its author",
                ProposalRuling::Reject => "rejected",
            };
            say(&format!("Proposal {proposal} is {done}."));
        }
        CatalogueRuling::Entry { id, .. } => say(&format!("{} is accepted.", exact(id))),
        CatalogueRuling::Rollback { id, version, .. } => {
            say(&format!("{} is as it was in version {version}.", exact(id)));
        }
    }
    Ok(Exit::Done)
}
