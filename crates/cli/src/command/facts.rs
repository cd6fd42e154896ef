//! `toolgate facts`: what was confirmed, what waits for a person's word, and that word.

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use toolgate_kernel::event::{ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::Project;
use toolgate_packs::workspace::{
    Act, ActRefusal, Behind, Document, Entry, History, Locks, Made, Path, ProposalId, Proposed,
    Root, Skipped, Upshot, decide, proposals,
};
use toolgate_runtime::SayFault;
use toolgate_runtime::log::{Tip, read_from};

use crate::console::{self, say};
use crate::credential;
use crate::exit::Exit;
use crate::person;
use crate::project::{Opened, Place, block_on};
use crate::visible::exact;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate facts list\n  toolgate facts show /facts/city\n  toolgate \
                        facts commit p1 p3\n  toolgate facts reject p2 --reason \"The letter is a \
                        forgery.\"\n  toolgate facts lock /facts/city"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists what waits for your word, the facts, and what is locked.
    #[command(after_help = "Example:\n  toolgate facts list")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows a fact with everything that became of it, or a proposal.
    #[command(
        after_help = "Examples:\n  toolgate facts show /facts/city\n  toolgate facts show p1"
    )]
    Show {
        /// A path such as /facts/city, or a proposal such as p1.
        what: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Makes facts of proposals. A person at the terminal is asked.
    #[command(after_help = "Example:\n  toolgate facts commit p1 p3")]
    Commit {
        /// The proposals, as `list` shows them.
        #[arg(required = true)]
        proposals: Vec<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Takes proposals away, and the facts stay as they are. A person is asked.
    #[command(
        after_help = "Example:\n  toolgate facts reject p2 --reason \"The letter is a forgery.\""
    )]
    Reject {
        /// The proposals, as `list` shows them.
        #[arg(required = true)]
        proposals: Vec<String>,
        /// Why, for the log.
        #[arg(long, default_value = "")]
        reason: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Holds a path of the facts or the draft as it is. A person is asked.
    #[command(
        after_help = "Example:\n  toolgate facts lock /draft/title --reason \"It is decided.\""
    )]
    Lock {
        /// A path such as /facts/city or /draft/title; what is below it is held with it.
        path: String,
        /// Why, for the model and the log.
        #[arg(long, default_value = "")]
        reason: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Holds a path no longer. A person is asked.
    #[command(after_help = "Example:\n  toolgate facts unlock /draft/title")]
    Unlock {
        /// The path, as `list` shows it.
        path: String,
        /// Why, for the log.
        #[arg(long, default_value = "")]
        reason: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

impl Options {
    /// Whether whoever reads the output is a program.
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            What::List { json }
            | What::Show { json, .. }
            | What::Commit { json, .. }
            | What::Reject { json, .. }
            | What::Lock { json, .. }
            | What::Unlock { json, .. } => *json,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let json = options.json();
    let why = |reason: &str| reason.trim().to_owned();
    match &options.what {
        What::List { .. } => list(place, json),
        What::Show { what, .. } => show(place, what, json),
        What::Commit { proposals, .. } => act(place, &Act::Commit(ids(proposals)?), json),
        What::Reject { proposals, reason, .. } => {
            act(place, &Act::Reject(ids(proposals)?, why(reason)), json)
        }
        What::Lock { path, reason, .. } => act(place, &Act::Lock(held(path)?, why(reason)), json),
        What::Unlock { path, reason, .. } => {
            act(place, &Act::Unlock(held(path)?, why(reason)), json)
        }
    }
}

fn ids(texts: &[String]) -> Result<Vec<ProposalId>> {
    texts.iter().map(|text| Ok(text.parse()?)).collect()
}

/// A path that can be held. What names no part of the workspace is meant from the facts.
fn held(text: &str) -> Result<Path> {
    let parts = [Root::Facts, Root::Draft];
    let text = text.strip_suffix('/').unwrap_or(text);
    let text = if text.starts_with('/') { text.to_owned() } else { format!("/facts/{text}") };
    Ok(Path::parse(&text, &parts)?)
}

/// Why a person's word was not written down.
enum Undecided {
    /// It makes no sense, or no longer.
    Refused(anyhow::Error),
    /// The log could not take it.
    Say(SayFault),
}

impl From<SayFault> for Undecided {
    fn from(fault: SayFault) -> Self {
        Self::Say(fault)
    }
}

/// A person's word: shown, asked for, and written down as it was shown, or not at all.
/// Everything that a person decides about facts and locks goes through here.
fn act(place: &Place, act: &Act, json: bool) -> Result<Exit> {
    block_on(async {
        let project = place.look()?.runtime.catch_up().await?;
        let shown = match decide(&project, act) {
            Ok(shown) => shown,
            Err(refusal) => return Ok(refused(refusal.into(), json, Exit::Failed)),
        };
        let card = preview(&shown, act);
        let seen = person::paged(&card).await;
        let Some(event) = shown.event() else {
            report(&shown, json);
            return Ok(Exit::Failed);
        };
        if seen.is_none() || !person::confirm(shown.act, "do this").await? {
            let left = anyhow!("you did not type {}; nothing was changed", shown.act);
            return Ok(refused(left, json, Exit::Failed));
        }
        let person = credential::decider(place).await?;
        let Opened { runtime, .. } = place.open()?;
        let written = runtime.decide(person.author(&card), |project| match decide(project, act) {
            Ok(now) if now == shown => Ok((vec![event.clone()], ())),
            Ok(_) => Err(Undecided::Refused(anyhow!(
                "this changed while you were looking at it; nothing was done. Look again"
            ))),
            Err(refusal) => Err(Undecided::Refused(refusal.into())),
        });
        match written.await {
            Ok(()) => {}
            Err(Undecided::Say(fault)) => return Err(fault.into()),
            Err(Undecided::Refused(error)) => return Ok(refused(error, json, Exit::Failed)),
        }
        report(&shown, json);
        Ok(if shown.skipped.is_empty() { Exit::Done } else { Exit::Failed })
    })
}

fn refused(error: anyhow::Error, json: bool, exit: Exit) -> Exit {
    console::complain(&error, json);
    exit
}

/// Exactly what would change, for the person at the terminal.
fn preview(upshot: &Upshot, act: &Act) -> Vec<String> {
    let mut shown = Vec::new();
    for proposed in &upshot.changed {
        shown.extend(lines(proposed));
        if upshot.act == "reject" {
            shown.push("  This is taken away, and the fact stays as it is.".to_owned());
        }
    }
    shown.extend(upshot.skipped.iter().map(skipped_line));
    if let Some(path) = &upshot.path {
        let path = exact(path);
        shown.push(match upshot.act {
            "lock" => format!("{path}, and what is below it, is held as it is."),
            _ => format!("{path} is held no longer."),
        });
    }
    match act {
        Act::Reject(_, why) | Act::Lock(_, why) | Act::Unlock(_, why) if !why.is_empty() => {
            shown.push(format!("  your reason: {}", exact(why)));
        }
        Act::Commit(_) | Act::Reject(..) | Act::Lock(..) | Act::Unlock(..) => {}
    }
    shown
}

/// A proposal beside the fact, hidden characters made visible.
fn lines(proposed: &Proposed) -> Vec<String> {
    let Proposed { proposal, old, new, made } = proposed;
    let mut lines = vec![format!("{proposal}  {}", exact(&made.path))];
    lines
        .extend(difference(old.as_ref(), new.as_ref()).into_iter().map(|line| format!("  {line}")));
    lines.push(format!("  because: {}", exact(&made.reason)));
    lines.extend(proposed_by(made));
    lines
}

fn proposed_by(made: &Made) -> [String; 2] {
    let Made { by, session, call, at, .. } = made;
    let who = exact(&format!("{by}, call {call} of session {session}"));
    [format!("  proposed by {who}"), format!("  at {at}")]
}

/// What stands there and what would, line by line.
fn difference(old: Option<&Value>, new: Option<&Value>) -> Vec<String> {
    let text = |value: Option<&Value>| match value {
        None => String::new(),
        Some(value) => format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()),
    };
    let (before, after) = (text(old), text(new));
    let diff = TextDiff::from_lines(&before, &after);
    let changes = diff.iter_all_changes().map(|change| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        format!("{sign} {}", exact(change.value().trim_end_matches('\n')))
    });
    let mut lines: Vec<String> = changes.collect();
    if old.is_none() {
        lines.insert(0, "- (nothing)".to_owned());
    }
    if new.is_none() {
        lines.push("+ (nothing: the fact is forgotten)".to_owned());
    }
    lines
}

fn skipped_line(skipped: &Skipped) -> String {
    let Skipped { proposal, path, why, message } = skipped;
    format!("{proposal}  {} is skipped: {why}. {}", exact(path), exact(message))
}

/// Tells what was done.
fn report(upshot: &Upshot, json: bool) {
    if json {
        return console::json(upshot);
    }
    let done = match upshot.act {
        "reject" => "rejected",
        _ => "committed",
    };
    for proposed in &upshot.changed {
        say(&format!("{}  {} {done}.", proposed.proposal, exact(&proposed.made.path)));
    }
    upshot.skipped.iter().for_each(|skipped| say(&skipped_line(skipped)));
    if let Some(path) = &upshot.path {
        say(&format!("{} {}ed.", exact(path), upshot.act));
    } else if upshot.act == "commit" {
        say(&format!("The facts have etag {}.", upshot.facts_etag));
    }
}

/// One line of the list.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Row<'a> {
    Proposal(&'a Waiting),
    Fact { path: String, value: &'a Value },
    Lock { path: &'a str, reason: &'a str },
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let project = block_on(async { Ok(place.look()?.runtime.catch_up().await?) })?;
    let ids = proposals(&project.state).into_keys();
    let waiting = ids.map(|id| waiting(&project, id)).collect::<Result<Vec<_>, _>>()?;
    let facts = Document::of(&project.state, Root::Facts);
    let locks = Locks::of(&project.state);
    let path = |name: &String| Path { root: Root::Facts, below: vec![name.clone()] }.to_string();
    let members = || facts.value.as_object().into_iter().flatten();
    if json {
        waiting.iter().for_each(|one| console::json(&Row::Proposal(one)));
        members().for_each(|(name, value)| console::json(&Row::Fact { path: path(name), value }));
        for (path, lock) in &locks.0 {
            console::json(&Row::Lock { path, reason: &lock.reason });
        }
        return Ok(Exit::Done);
    }
    if waiting.is_empty() {
        say("Nothing waits for your word.");
    } else {
        say("Waiting for your word:");
    }
    for one in &waiting {
        one.lines().iter().for_each(|line| say(&format!("  {line}")));
    }
    match facts.etag {
        0 => say("There are no facts yet."),
        etag => say(&format!("Facts, etag {etag}:")),
    }
    for (name, value) in members() {
        say(&console::fit(&format!("  {}: {}", exact(&path(name)), exact(&value.to_string()))));
    }
    if !locks.0.is_empty() {
        say("Locked:");
    }
    for (path, lock) in &locks.0 {
        let line = format!("  {}  {}", exact(path), exact(&lock.reason));
        say(&console::fit(line.trim_end()));
    }
    Ok(Exit::Done)
}

/// A proposal, and why a commit of it alone would skip it.
#[derive(Serialize)]
struct Waiting {
    #[serde(flatten)]
    proposed: Proposed,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<Skipped>,
}

impl Waiting {
    fn lines(&self) -> Vec<String> {
        let skipped = self.skipped.iter().map(|skipped| {
            format!("  It would be skipped, {}: {}", skipped.why, exact(&skipped.message))
        });
        lines(&self.proposed).into_iter().chain(skipped).collect()
    }
}

/// A proposal that waits, as it stands now.
fn waiting(project: &Project, id: ProposalId) -> Result<Waiting, ActRefusal> {
    // What a rejection would take away is the proposal itself, whatever became of the fact.
    let proposed = decide(project, &Act::Reject(vec![id], String::new()))?.changed.pop();
    let skipped = decide(project, &Act::Commit(vec![id]))?.skipped.pop();
    let proposed = proposed.ok_or(ActRefusal::NoProposal(id))?;
    Ok(Waiting { proposed, skipped })
}

/// A fact as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    path: String,
    value: Option<Value>,
    locked: bool,
    history: Vec<&'a Entry>,
    /// Older changes that are not among them.
    left_out: usize,
}

fn show(place: &Place, what: &str, json: bool) -> Result<Exit> {
    if let Ok(id) = what.parse::<ProposalId>() {
        return show_proposal(place, id, json);
    }
    let path = held(what)?;
    let history = block_on(async {
        let (store, mut history) = (place.look()?.store, History::of(path.clone()));
        let each = |record: Record<ProjectEvent>, _: &_| history.take(&record);
        read_from(store.as_ref(), &StreamId::Project, Tip::START, each).await?;
        Ok(history)
    })?;
    let (value, locked) = (history.value(), history.locked());
    let (entries, left_out) = history.entries();
    let entries: Vec<&Entry> = entries.collect();
    let path = path.to_string();
    if value.is_none() && entries.is_empty() {
        let none = anyhow!("there is nothing at {path}, and never was");
        return Ok(refused(none, json, Exit::Failed));
    }
    if json {
        console::json(&Shown { path, value, locked, history: entries, left_out });
        return Ok(Exit::Done);
    }
    say(&format!("{}{}", exact(&path), if locked { "  (locked)" } else { "" }));
    match &value {
        None => say("  (nothing)"),
        Some(value) => {
            let text = serde_json::to_string_pretty(value).unwrap_or_default();
            text.lines().for_each(|line| say(&format!("  {}", exact(line))));
        }
    }
    if left_out > 0 {
        say(&format!("\n{left_out} older changes are not shown."));
    }
    entries.into_iter().for_each(show_entry);
    Ok(Exit::Done)
}

fn show_entry(entry: &Entry) {
    let Entry { at, by, what, reason, old, new, proposals, .. } = entry;
    say(&format!("\n{at}  {what} by {}: {}", exact(by), exact(reason)));
    if *what == "changed" {
        difference(old.as_ref(), new.as_ref()).iter().for_each(|line| say(&format!("  {line}")));
    }
    for Behind { proposal, made } in proposals {
        say(&format!("  {proposal}: {}", exact(&made.reason)));
        proposed_by(made).iter().for_each(|line| say(line));
    }
}

fn show_proposal(place: &Place, id: ProposalId, json: bool) -> Result<Exit> {
    let project = block_on(async { Ok(place.look()?.runtime.catch_up().await?) })?;
    match waiting(&project, id) {
        Err(refusal) => return Ok(refused(refusal.into(), json, Exit::Failed)),
        Ok(one) if json => console::json(&Row::Proposal(&one)),
        Ok(one) => one.lines().iter().for_each(|line| say(line)),
    }
    Ok(Exit::Done)
}
