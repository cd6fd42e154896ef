//! `toolgate verify`: whether the log is what was written.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use toolgate_kernel::fold::LogRestore;
use toolgate_kernel::tree::SignedNote;
use toolgate_runtime::port::Store;
use toolgate_runtime::verify::{Problem, Report, verify};
use toolgate_store::{OpenFault, SqliteStore};

use super::trust_root::{RootArgs, RootCheck, RootOfTrust, RootProblem};
use crate::console;
use crate::exit::Exit;
use crate::host::{Create, anchors_to_read, host_key};
use crate::project::{Place, block_on, named};
use crate::reading;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate verify --json\n  toolgate verify --against head.txt")]
pub(crate) struct Options {
    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// A head that `toolgate log head` printed earlier: the log must still contain it.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    root: RootArgs,
}

/// The report, and what vouches for it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    report: Report,
    log: String,
    /// The newest signed head.
    commits: u64,
    host_key: String,
    /// Whether that is the key of this user on this machine.
    own_host_key: bool,
    /// Commits that are remembered outside the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    anchored: Option<u64>,
    /// Whether the log was begun anew although no owner of the one before was there.
    owner_lost: bool,
    /// Where an owner went on from a restored backup: what was given up counts as that, and nothing
    /// else may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restores: Vec<ShownRestore>,
    /// The folder that this log is a copy of.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_of: Option<PathBuf>,
    /// The person on whose decision all others rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<RootOfTrust>,
}

/// A restore that stands in the log.
#[derive(Serialize)]
struct ShownRestore {
    /// Its record in the project stream.
    record: u64,
    /// The commits that it goes on from.
    from: u64,
    /// The commits that there were.
    seen: u64,
}

impl ShownRestore {
    fn of(restore: &LogRestore) -> Self {
        Self { record: restore.seq, from: restore.now.size, seen: restore.seen.size }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let store = place.log_as_it_is()?;
    let mut shown = checked(place, &store)?;
    if let Some(file) = &options.against {
        let against = against(&store, file)?;
        shown.report.problems.extend(against.map(of_log));
    }
    let is_known_here = shown.anchored.is_some();
    let anchors = anchors_to_read();
    let remembered = anchors.and_then(|anchors| anchors.root_person(store.log_id()).ok().flatten());
    let check = options.root.check(&store, is_known_here, remembered);
    let RootCheck { root, problems } = block_on(check)?;
    shown.root = root;
    shown.report.problems.extend(problems.into_iter().map(of_people));
    let exit = if shown.report.problems.is_empty() { Exit::Done } else { Exit::Failed };
    if options.json {
        console::json(&shown);
    } else {
        print(&shown);
    }
    Ok(exit)
}

fn checked(place: &Place, store: &SqliteStore) -> Result<Shown> {
    let (mut report, note, first) = block_on(async {
        let report = verify(store).await?;
        // What is wrong with the head is in the report, and so is what cannot be read.
        let first = reading::project(store).await.ok();
        Ok((report, store.note().await.ok().flatten(), first))
    })?;
    let head = note.and_then(|note| SignedNote::parse(&note).ok());
    let (mut anchored, mut copy_of) = (None, None);
    match place.compare_anchor() {
        Ok(anchor) => anchored = anchor.map(|anchor| anchor.size),
        Err(OpenFault::Copied { original, .. }) => copy_of = Some(original),
        Err(fault) => report.problems.push(of_log(fault.to_string())),
    }
    let own = host_key(&place.folder, Create::No).is_ok_and(|own| own.public() == store.host());
    Ok(Shown {
        report,
        log: store.log_id().to_string(),
        commits: head.map_or(0, |note| note.head.size),
        host_key: store.host().to_string(),
        own_host_key: own,
        anchored,
        restores: first.iter().flat_map(|one| &one.restores).map(ShownRestore::of).collect(),
        owner_lost: first.is_some_and(|project| project.owner_lost),
        copy_of,
        root: None,
    })
}

/// What is wrong when the log is compared with a head that was kept elsewhere.
fn against(store: &SqliteStore, file: &std::path::Path) -> Result<Option<String>> {
    let (name, bytes) = named(file)?;
    let text = String::from_utf8(bytes).ok().with_context(|| format!("{name} is not a text"))?;
    let head = match store.host().open(store.log_id(), &text) {
        Ok(head) => head,
        Err(fault) => return Ok(Some(format!("{name} does not fit this log: {fault}"))),
    };
    let (root, restores) = block_on(async {
        // Whether each is signed is in the report.
        let restores = reading::project(store).await.map(|project| project.restores);
        Ok((store.root_at(head.size).await?, restores.unwrap_or_default()))
    })?;
    let size = head.size;
    if restores.iter().any(|restore| restore.gives_up(&head)) {
        return Ok(None);
    }
    Ok(match root {
        Some(root) if root == head.root => None,
        Some(_) => Some(format!("its first {size} commits are not those of {name}")),
        None => Some(format!("it has fewer commits than {name}, which counts {size}")),
    })
}

fn of_log(what: String) -> Problem {
    Problem { stream: "log".to_owned(), seq: 0, what: what.into() }
}

fn of_people(RootProblem { seq, what }: RootProblem) -> Problem {
    Problem { stream: "project".to_owned(), seq, what: what.into() }
}

fn print(shown: &Shown) {
    let report = &shown.report;
    let records = report.streams.values().fold(0, |sum: u64, records| sum.saturating_add(*records));
    for problem in &report.problems {
        let place =
            if problem.seq == 0 { String::new() } else { format!(", record {}", problem.seq) };
        let what = console::visible(&problem.what);
        console::say(&format!("✗ {}{place}: {what}", problem.stream));
    }
    let streams = report.streams.len();
    match report.problems.len() {
        0 => console::say(&format!("✓ {records} records in {streams} streams are as written.")),
        1 => console::say(&format!("1 problem in {records} records of {streams} streams.")),
        n => console::say(&format!("{n} problems in {records} records of {streams} streams.")),
    }
    let whose = if shown.own_host_key { "yours on this machine" } else { "not the one here" };
    let key: String = shown.host_key.chars().take(16).collect();
    let commits = shown.commits;
    console::say(&format!("  {commits} commits, signed by the host key {key}… ({whose})."));
    for ShownRestore { record, from, seen } in &shown.restores {
        console::say(&format!(
            "  An owner went on from commit {from} in project record {record}; commits up to {seen} are \
             given up."
        ));
    }
    match (&shown.copy_of, shown.anchored) {
        (Some(original), _) => {
            let original = console::visible(&original.display().to_string());
            console::say(&format!("  This is a copy of the log in {original}."));
        }
        (None, Some(size)) => {
            console::say(&format!("  It contains the {size} commits that are remembered here."));
        }
        (None, None) => {
            console::say("  Nothing is remembered of it here: it is seen for the first time.")
        }
    }
    console::say(&match &shown.root {
        Some(root) => format!("  {}", console::visible(&root.line())),
        None => "  No person decided anything in it.".to_owned(),
    });
    if shown.owner_lost {
        console::say("  It was begun anew without an owner of the log before.");
    }
    console::say(
        "The host key proves nothing against its holder, who could have invented calls and results.",
    );
}
