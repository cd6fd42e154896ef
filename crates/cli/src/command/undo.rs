//! `toolgate sessions undo`: shows what would go back and what would not, and does it on the word
//! of the person at the terminal.

use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::event::{FileChange, UndoneCall};
use toolgate_kernel::fold::Slot;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::section::Home;
use toolgate_runtime::{Back, DriveFault, Driver, Range, Undo, UndoRefusal, preview};

use super::run::Have;
use crate::console::{self, fit, hint, say, visible};
use crate::credential;
use crate::environment::Flags;
use crate::exit::Exit;
use crate::person::{self, Nobody};
use crate::project::{Place, block_on};
use crate::reading;
use crate::servers::Servers;
use crate::trust::TrustedCrew;

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 28;

/// Keys that are shown at the terminal; `--dry-run --json` has all of them.
const KEYS_SHOWN_MAX: usize = 40;

#[derive(Args)]
pub(crate) struct How {
    /// How many calls, the last ones first. Calls that changed nothing here do not count.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "to")]
    calls: usize,
    /// Every call that settled after this record of the session.
    #[arg(long, value_name = "SEQ")]
    to: Option<u64>,
    /// Show what would be undone, and undo nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print it as one JSON object.
    #[arg(long, requires = "dry_run")]
    pub(crate) json: bool,
    /// A sentence for the model.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    have: Have,
}

impl How {
    fn range(&self) -> Range {
        self.to.map_or(Range::Calls(self.calls), Range::After)
    }
}

pub(crate) fn run(place: &Place, session: &str, how: &How) -> Result<Exit> {
    ensure!(how.calls > 0 || how.to.is_some(), "--calls must be at least 1");
    let session = SessionId::parse(session)?;
    let loaded = place.load(&Flags::default(), |_| {})?;
    // Who only looks is told of a session that is not there before anything is opened.
    let log = place.log()?;
    block_on(reading::session(log.store.as_ref(), &session))?;
    drop(log);
    if how.dry_run {
        let (opened, crew) = (place.open()?, loaded.crew);
        let undo = block_on(async {
            Ok(preview(&opened.runtime, &crew.agent, &session, how.range()).await?)
        })?;
        match how.json {
            true => console::json(&Shown::of(&undo)),
            false => lines(&undo, &crew.agent).iter().for_each(|line| say(line)),
        }
        return Ok(Exit::Done);
    }
    person::attended().then_some(()).ok_or(Nobody)?;
    let trusted = block_on(place.trusted_crew(&Flags::default()))?;
    let TrustedCrew { mut crew, text, access } = trusted;
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    let agent = Arc::clone(&crew.agent);
    block_on(servers.around_until_told(async {
        let claim = Driver::resume(Arc::clone(&opened.runtime), crew, session.clone());
        let (mut driver, _hold) = opened.take(&session, how.have.rival(), claim).await?;
        let undo = driver.undo_preview(how.range()).await?;
        let card = lines(&undo, &agent);
        let seen = person::paged(&card).await;
        if !undo.locked.is_empty() {
            return Err(DriveFault::from(UndoRefusal::Locked(undo.locked)).into());
        }
        if !how.note.trim().is_empty() {
            hint(&format!("The model is told: {}", visible(how.note.trim())));
        }
        if seen.is_none() || !person::confirm("undo", "do this").await? {
            say("Nothing was undone.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        driver.undo(person.author(&card), &undo, how.note.trim()).await?;
        match undo.calls.len() {
            1 => console::hanging(&format!("{} is undone.", undo.told()), 0),
            _ => console::hanging(&format!("{} are undone.", undo.told()), 0),
        }
        Ok(Exit::Done)
    }))
}

/// What would be undone, for programs.
#[derive(Serialize)]
struct Shown<'a> {
    session: &'a SessionId,
    calls: &'a [UndoneCall],
    keys: Vec<KeyShown<'a>>,
    phase: Option<PhaseShown<'a>>,
    files: &'a [FileChange],
    /// What stays as it is, in words.
    left: &'a [String],
    /// Locked paths that would change: nothing is undone while there is one.
    locked: &'a [String],
}

#[derive(Serialize)]
struct KeyShown<'a> {
    key: &'a Key,
    home: Home,
    now: Option<Value>,
    then: Option<Value>,
}

#[derive(Serialize)]
struct PhaseShown<'a> {
    now: &'a PhaseName,
    then: &'a PhaseName,
}

impl<'a> Shown<'a> {
    fn of(undo: &'a Undo) -> Self {
        let key = |back: &'a Back| KeyShown {
            key: &back.key,
            home: back.home,
            now: back.now.as_ref().map(Slot::value),
            then: back.then.as_ref().map(Slot::value),
        };
        Self {
            session: &undo.session,
            calls: &undo.calls,
            keys: undo.keys.iter().map(key).collect(),
            phase: undo.phase.as_ref().map(|(now, then)| PhaseShown { now, then }),
            files: &undo.files,
            left: &undo.left,
            locked: &undo.locked,
        }
    }
}

/// What would go back and what would not.
fn lines(undo: &Undo, agent: &Agent) -> Vec<String> {
    let mut lines =
        console::whole_lines(&format!("Of {} would be undone: {}", undo.session, undo.told()), 2);
    // Of a file that shows state the file is named, not its fingerprint. What only counts is counted
    // on, and nothing of it goes back.
    let shows = |key: &Key| agent.toolset.projections().any(|shown| shown.key == *key);
    let counts = |key: &Key| agent.toolset.families().any(|one| one.whole.as_ref() == Some(key));
    let told = |back: &&Back| !shows(&back.key) && !counts(&back.key);
    let keys: Vec<&Back> = undo.keys.iter().filter(told).collect();
    lines.extend(keys.iter().take(KEYS_SHOWN_MAX).map(|back| {
        let key = visible(&back.key.to_string());
        fit(&format!("  {key}: {} → {}", short(&back.now), short(&back.then)))
    }));
    if let Some(more) = keys.len().checked_sub(KEYS_SHOWN_MAX).filter(|more| *more > 0) {
        lines.push(format!("  and {more} more; --dry-run --json shows all"));
    }
    lines.extend(undo.phase.as_ref().map(|(now, then)| format!("  phase: {now} → {then}")));
    lines.extend(undo.files.iter().map(|FileChange { path, old, new, kept: _ }| {
        let what = match (old, new) {
            (Some(_), None) => "is removed",
            (None, _) => "comes back",
            (Some(_), Some(_)) => "goes back",
        };
        fit(&format!("  {} {what}", visible(path)))
    }));
    if undo.keys.is_empty() && undo.files.is_empty() && undo.phase.is_none() {
        lines.push("  nothing that is kept here".to_owned());
    }
    if !undo.locked.is_empty() {
        lines.push("Locked, so nothing can be undone before it is unlocked:".to_owned());
        lines.extend(undo.locked.iter().map(|path| fit(&format!("  {}", visible(path)))));
    }
    if !undo.left.is_empty() {
        lines.push("What stays as it is:".to_owned());
        let left = undo.left.iter();
        lines
            .extend(left.flat_map(|left| console::whole_lines(&format!("  {}", visible(left)), 2)));
    }
    lines
}

fn short(slot: &Option<Slot>) -> String {
    let Some(slot) = slot else { return "nothing".to_owned() };
    let text = slot.value().to_string();
    let cut: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", visible(&cut))
}
