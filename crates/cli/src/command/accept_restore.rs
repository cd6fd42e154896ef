//! `toolgate log accept-restore`: goes on from a state of the log that is older than what is
//! remembered of it.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::Role;
use toolgate_kernel::event::{ProjectEvent, StreamId};
use toolgate_kernel::fold::Project;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::port::Store;
use toolgate_runtime::verify::verify;
use toolgate_runtime::{LostDecision, RestorePlan, Runtime};
use toolgate_store::{Anchor, AnchorFolder, LogSetup, OpenFault, SqliteStore};

use super::history::described;
use crate::card_code::{CardCode, CardWord};
use crate::console::{hint, say};
use crate::credential;
use crate::exit::Exit;
use crate::host::{Create, LogClock, SystemClock, anchors, host_key, log_setup};
use crate::person::{self, Nobody};
use crate::project::{LogHome, Place, block_on};
use crate::visible::exact;

/// Lost decisions that are shown one by one.
const SHOWN_MAX: usize = 100;

/// What is there, and what is remembered of it.
struct OlderLog {
    home: LogHome,
    anchors: AnchorFolder,
    anchor: Anchor,
    project: Arc<Project>,
    plan: RestorePlan,
    /// When its newest record was written, as far as the project knows.
    newest: Option<Timestamp>,
    /// The last lost record of which only the place is known.
    dropped: Option<u64>,
    /// A record before the end of this state that is another one than was written here.
    replaced: Option<u64>,
}

pub(super) fn run(place: &Place) -> Result<Exit> {
    person::attended().then_some(()).ok_or(Nobody)?;
    let fault = match place.compare_anchor() {
        Ok(_) => {
            say("This log is not older than what is remembered of it. There is nothing to accept.");
            return Ok(Exit::Done);
        }
        Err(fault @ (OpenFault::RolledBack { .. } | OpenFault::Rewritten { .. })) => fault,
        Err(fault) => return Err(fault.into()),
    };
    block_on(async {
        let older = look(place).await?;
        // Killed between the commit and what is remembered: it was signed already.
        let is_signed = older.project.restores.back().is_some_and(|it| it.seen == older.plan.seen);
        if is_signed {
            remember(place, &older).await?;
            say("✓ The restore was signed before. The log goes on from here.");
            return Ok(Exit::Done);
        }
        if matches!(fault, OpenFault::Rewritten { .. }) {
            // It has as many commits and other ones: it is no earlier state.
            return Err(fault.into());
        }
        refuse_others(place, &older.plan)?;
        let code = CardCode::new()?;
        let card = card(&older, &code);
        person::forget_typed();
        if person::paged(&card).await.is_none() || !typed_code(&code).await {
            say("Nothing was changed.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        refuse_other(&older.plan, &person.key())?;
        let store = Arc::new(open(place, &older)?);
        // Later than everything that was signed in the lost part.
        let clock = Arc::new(LogClock::not_before(store.newest_at().plus_ms(1)));
        let runtime = Runtime::new(Arc::clone(&store) as Arc<dyn Store>, clock);
        runtime.accept_restore(person.author(&card), &older.plan).await?;
        drop(runtime);
        store.remember(older.home.pointer.as_deref(), &older.anchors).await?;
        say("✓ The log goes on from the restored state.");
        Ok(Exit::Done)
    })
}

/// Reads the log that is there. It must be sound, and an earlier state of the one that is remembered.
async fn look(place: &Place) -> Result<OlderLog> {
    let home = place.log_home()?;
    let store = SqliteStore::look(home.log())?;
    let own = host_key(&place.folder, Create::No)?.public();
    let (found, path) = (store.host(), home.log());
    if found != own {
        return Err(OpenFault::OtherHost { path, found, own }.into());
    }
    let report = verify(&store).await?;
    ensure!(
        report.problems.is_empty(),
        "the log in its place is not sound: see `toolgate verify`. Restore another copy, or begin a \
         new log with `toolgate log restart`"
    );
    let (log, anchors) = (store.log_id(), anchors(&place.folder)?);
    let anchor = anchors.read(log)?.context("nothing is remembered of this log any more")?;
    let seen = own.open(log, &anchor.note)?;
    let now = store.tree_head().await?.context("the log has no commit")?;
    let store: Arc<dyn Store> = Arc::new(store);
    let runtime = Runtime::new(Arc::clone(&store), Arc::new(SystemClock));
    let project = runtime.catch_up().await?;
    let newest = newest(store.as_ref(), project.seq).await?;
    let (mut lost, mut dropped, mut replaced) = (Vec::new(), None, None);
    for copy in anchors.decisions(log)? {
        let there = store.read(&StreamId::Project, copy.seq, 1).await?;
        if there.first().is_some_and(|row| row.hash == copy.link) {
            continue;
        }
        if copy.seq <= project.seq {
            replaced = Some(copy.seq);
        }
        match copy.record {
            Some(record) => lost.push(record),
            None => dropped = Some(copy.seq),
        }
    }
    let plan = RestorePlan::of(log, (seen, now), &project, lost);
    Ok(OlderLog { home, anchors, anchor, project, plan, newest, dropped, replaced })
}

async fn newest(store: &dyn Store, seq: u64) -> Result<Option<Timestamp>> {
    let rows = store.read(&StreamId::Project, seq, 1).await?;
    let record = rows.first().map(|row| {
        toolgate_kernel::event::Record::<ProjectEvent>::decode(&row.bytes).map(|record| record.at)
    });
    Ok(record.transpose()?)
}

/// Opens the log to write in it, though it is older than what is remembered.
fn open(place: &Place, older: &OlderLog) -> Result<SqliteStore> {
    let pointer = older.home.pointer.clone();
    let setup = LogSetup { pointer, ..log_setup(&place.folder, Create::No)? };
    let store = SqliteStore::open_to_accept(older.home.log(), &setup)?;
    let anchor = older.anchors.read(store.log_id())?;
    ensure!(
        anchor.as_ref() == Some(&older.anchor),
        "what is remembered of the log changed while you were looking at it; look again"
    );
    Ok(store)
}

/// Remembers the restored log as the newest.
async fn remember(place: &Place, older: &OlderLog) -> Result<()> {
    let store = open(place, older)?;
    Ok(store.remember(older.home.pointer.as_deref(), &older.anchors).await?)
}

/// Refuses everyone whose key here may not accept the log, before anything is asked.
fn refuse_others(place: &Place, plan: &RestorePlan) -> Result<()> {
    match credential::known_key(place)? {
        Some(key) => refuse_other(plan, &key),
        None => bail!(
            "only an owner of this log accepts a restored copy, and there is no person's key here; \
             nothing was changed"
        ),
    }
}

fn refuse_other(plan: &RestorePlan, key: &PersonKey) -> Result<()> {
    if plan.may_accept(key) {
        return Ok(());
    }
    let role = |role: Option<Role>| role.map_or("not enrolled".to_owned(), |role| role.to_string());
    let (before, after) = plan.roles(key);
    let lost = if before == after {
        String::new()
    } else {
        format!(", and {} after what is lost", role(after))
    };
    bail!(
        "only an owner of this log accepts a restored copy; your key is {} in it{lost}; nothing was \
         changed",
        role(before)
    )
}

/// What a person is shown: how much is lost, which decisions, and what follows.
fn card(older: &OlderLog, code: &CardCode) -> Vec<String> {
    let OlderLog { anchor, plan, newest, dropped, replaced, .. } = older;
    let RestorePlan { seen, now, lost, put_back, .. } = plan;
    let until = newest.map_or(String::new(), |at| format!(", the project's last record at {at}"));
    let mut rows = vec![
        format!("  in place    {} commits{until}", now.size),
        format!("  remembered  {} commits, until {}", seen.size, anchor.at),
        format!("  lost        {} commits", seen.size.saturating_sub(now.size)),
    ];
    if lost.is_empty() {
        rows.push("  No decision of a person is known to be lost.".to_owned());
    } else {
        rows.push(format!("Decisions that are lost ({}):", lost.len()));
        rows.extend(lost.iter().take(SHOWN_MAX).map(|lost| lost_row(plan, lost)));
    }
    if lost.len() > SHOWN_MAX {
        rows.push(format!("  … and {} more", lost.len() - SHOWN_MAX));
    }
    if let Some(seq) = dropped {
        rows.push(format!("  Of decisions up to record {seq} no copy is kept."));
    }
    if let Some(seq) = replaced {
        rows.push(format!(
            "  Record {seq} is another one here than was written: it is NOT only older."
        ));
    }
    if !put_back.is_empty() {
        rows.push("Decided again now, signed with your key:".to_owned());
        rows.extend(put_back.iter().map(|event| format!("  {}", decided_again(event))));
    }
    rows.push("From here on:".to_owned());
    rows.push("  Questions, \"always\" answers and delegations of before do not count.".to_owned());
    rows.push("  Calls that were open are not run: they may have taken effect since.".to_owned());
    rows.push("  Other lost decisions do not count; make them again.".to_owned());
    let mut card = vec![
        String::new(),
        "This log is older than the one that was written here. Do you go on from it?".to_owned(),
    ];
    card.extend(code.among(rows));
    card
}

fn lost_row(plan: &RestorePlan, LostDecision { record, counts }: &LostDecision) -> String {
    let statement = record.decision.as_deref().map(|signed| &signed.statement);
    let what = statement.map_or("unsigned".to_owned(), |statement| described(&statement.what));
    let who = statement.and_then(|statement| plan.name_of(&statement.by)).unwrap_or("unknown key");
    let counts =
        if *counts { "" } else { " (does not count: its signature or signer is not good)" };
    format!("  {}  {}: {}{counts}", record.at, exact(who), exact(&what))
}

fn decided_again(event: &ProjectEvent) -> String {
    match event {
        ProjectEvent::PersonRevoked { key, .. } => format!("revokes the key {key}"),
        ProjectEvent::PersonEnrolled { name, role, .. } => {
            format!("{} is no more than {role}", exact(name))
        }
        ProjectEvent::ToolPinned(pinned) => {
            format!("rejects a definition of {}", exact(pinned.tool.as_str()))
        }
        ProjectEvent::ProjectChanged { .. } => "locks what was locked".to_owned(),
        ProjectEvent::ProjectOpened { .. }
        | ProjectEvent::SessionOpened { .. }
        | ProjectEvent::ProjectConfigured { .. }
        | ProjectEvent::FamiliesMarked { .. }
        | ProjectEvent::FamiliesCleared { .. }
        | ProjectEvent::ConfigTrusted { .. }
        | ProjectEvent::ClientDelegated(_)
        | ProjectEvent::DelegationEnded { .. }
        | ProjectEvent::LogRestored { .. }
        | ProjectEvent::CatalogueDecided(_)
        | ProjectEvent::DelegationUsed { .. } => "nothing".to_owned(),
    }
}

/// Waits for the code of the card. A slip of the hand is asked about again.
async fn typed_code(code: &CardCode) -> bool {
    for left in (0..person::TRIES).rev() {
        hint(&code.restore_prompt());
        let Some(typed) = person::word().await else { return false };
        match code.read(&typed) {
            CardWord::Restore => return true,
            CardWord::No(_) | CardWord::Blank => return false,
            CardWord::Yes
            | CardWord::Always
            | CardWord::Edit
            | CardWord::Trust
            | CardWord::NoCode
            | CardWord::Unknown => {
                if left > 0 {
                    hint("To go on from it, type the word with the code that stands above.");
                }
            }
        }
    }
    false
}
