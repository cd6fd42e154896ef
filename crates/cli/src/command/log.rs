//! `toolgate log`: the signed head of the log, and a new log in place of one that cannot go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::Role;
use toolgate_kernel::event::{BoundFile, ProjectEvent, Record, RestartedFrom, StreamId};
use toolgate_kernel::fold::{EnrolledPerson, Project};
use toolgate_kernel::tree::SignedNote;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Author, Runtime};
use toolgate_store::{LogSetup, OpenFault, SqliteStore};

use super::{accept_restore, move_log};
use crate::console;
use crate::credential;
use crate::exit::Exit;
use crate::host::{Create, SystemClock, anchors, host_key, log_setup};
use crate::person::{self, Nobody};
use crate::project::{Place, block_on};
use crate::reading;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate log head > head.txt")]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Prints the newest signed head, to be kept elsewhere and compared with `verify --against`.
    #[command(
        after_help = "Example:\n  toolgate log head > head.txt\n  toolgate verify --against head.txt"
    )]
    Head {
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows every change of the configuration that the log has, key by key.
    #[command(after_help = "Example:\n  toolgate log diff-config")]
    DiffConfig {
        /// Print one JSON object per change.
        #[arg(long)]
        json: bool,
    },
    /// Begins a new log that names the one before it, where that one cannot go on. The state is
    /// taken over; sessions, approvals and pins are not.
    #[command(after_help = "Example:\n  toolgate log restart")]
    Restart {
        /// Begin it although no owner of the log before is there any more. The new log says so.
        #[arg(long)]
        owner_lost: bool,
    },
    /// Goes on from a restored backup: a state of the log that is older than what is remembered here.
    /// An owner signs it. Decisions that took permission away are made again; questions, "always"
    /// answers and delegations lapse.
    #[command(after_help = "Example:\n  toolgate log accept-restore")]
    AcceptRestore,
    /// Moves the log out of the project, where a file takes its place, or back in. Then the program of
    /// a server may write everything in the project.
    #[command(
        after_help = "Examples:\n  toolgate log move --outside\n  toolgate log move --outside \
                      /srv/toolgate\n  toolgate log move --inside"
    )]
    Move(MoveOptions),
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct MoveOptions {
    /// Into a folder of its own in DIR, or in toolgate's state folder.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    outside: Option<Option<PathBuf>>,
    /// Back into the project.
    #[arg(long)]
    inside: bool,
}

impl Options {
    pub(crate) fn json(&self) -> bool {
        matches!(self.what, What::Head { json: true } | What::DiffConfig { json: true })
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    match &options.what {
        What::Head { json } => head(place, *json),
        What::DiffConfig { json } => diff_config(place, *json),
        What::Restart { owner_lost } => restart(place, *owner_lost),
        What::AcceptRestore => accept_restore::run(place),
        What::Move(MoveOptions { outside: Some(folder), .. }) => {
            move_log::outside(place, folder.as_deref())
        }
        What::Move(MoveOptions { outside: None, .. }) => move_log::inside(place),
    }
}

/// A signed head, for programs.
#[derive(Serialize)]
struct ShownHead {
    log: String,
    size: u64,
    root: String,
    host_key: String,
    note: String,
}

fn head(place: &Place, json: bool) -> Result<Exit> {
    let store = place.log_as_it_is()?;
    let note = block_on(async { Ok(store.note().await?) })?;
    let note = note.context("the log has no commit yet")?;
    if !json {
        // It ends with a line break of its own.
        console::say(note.trim_end());
        return Ok(Exit::Done);
    }
    let head = SignedNote::parse(&note)?.head;
    console::json(&ShownHead {
        log: store.log_id().to_string(),
        size: head.size,
        root: head.root.to_string(),
        host_key: store.host().to_string(),
        note,
    });
    Ok(Exit::Done)
}

/// One change of the configuration, for programs.
#[derive(Serialize)]
struct ShownChange {
    at: String,
    session: String,
    config: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<Box<BoundFile>>,
    /// How it differs from the one before; absent for the first one, and where no text was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<String>>,
}

fn diff_config(place: &Place, json: bool) -> Result<Exit> {
    let log = place.log()?;
    let changes = block_on(async {
        let mut bound = Vec::new();
        let each = |record: Record<ProjectEvent>, _: &_| {
            if let ProjectEvent::ProjectConfigured { config, session, file } = record.event {
                bound.push((record.at, session, config, file));
            }
        };
        read_from(log.store.as_ref(), &StreamId::Project, Tip::START, each).await?;
        let (mut changes, mut before): (Vec<ShownChange>, Option<String>) = (Vec::new(), None);
        for (at, session, config, file) in bound {
            let text = match &file {
                Some(file) => log.store.blob(file.text).await?,
                None => None,
            };
            let text = text.and_then(|text| String::from_utf8(text).ok());
            let differs = before.as_ref().zip(text.as_ref());
            let differs = differs.map(|(before, after)| console::config_difference(before, after));
            let (at, session) = (at.to_string(), session.to_string());
            let config = config.to_string();
            changes.push(ShownChange { at, session, config, file, changes: differs });
            before = text;
        }
        Ok(changes)
    })?;
    for change in &changes {
        if json {
            console::json(change);
            continue;
        }
        let short: String = change.config.chars().take(12).collect();
        console::say(&format!("{}  {short}  session {}", change.at, change.session));
        match &change.changes {
            Some(lines) => lines.iter().for_each(|line| console::say(line)),
            None => console::say("  There is no text before it to compare with."),
        }
        for (key, value) in change.file.iter().flat_map(|file| &file.overrides) {
            console::say(&format!("  by a flag or a variable: {key}: {}", console::visible(value)));
        }
    }
    if changes.is_empty() && !json {
        console::say("The log has no configuration yet.");
    }
    Ok(Exit::Done)
}

/// What there is to go on from.
struct Predecessor {
    from: RestartedFrom,
    /// Its state, where it can be trusted.
    project: Option<Project>,
    /// Who decided first in it, as it is remembered here.
    root_person: Option<PersonKey>,
    /// Why it cannot go on, where it cannot.
    why: Option<String>,
    file: PathBuf,
}

impl Predecessor {
    /// Whether a key is an owner's there. A log in which no person decided anything has no owner yet;
    /// of one that cannot be read it is known who decided first, if it was ever read here.
    fn is_owner(&self, key: PersonKey) -> bool {
        let Some(project) = &self.project else {
            return self.root_person.is_none_or(|root| root == key);
        };
        let counts = |one: &EnrolledPerson| one.role == Role::Owner && one.revoked.is_none();
        project.people.is_empty() || project.people.get(&key).is_some_and(counts)
    }
}

fn restart(place: &Place, owner_lost: bool) -> Result<Exit> {
    person::attended().then_some(()).ok_or(Nobody)?;
    let log_home = place.log_home()?;
    let (home, path) = (log_home.folder.clone(), log_home.log());
    if log_home.pointer.is_none() {
        let made = std::fs::create_dir_all(&home);
        made.with_context(|| format!("{} cannot be made", home.display()))?;
    } else if let Err(fault @ OpenFault::ForeignPointer { .. }) = place.compare_anchor() {
        // It may be another project's.
        return Err(fault.into());
    }
    let known = log_home.known_folder()?;
    let mut old = predecessor(place, &home, &known, &path)?;
    let shown = report(&old);
    shown.iter().for_each(|line| console::say(line));
    block_on(async {
        if !person::confirm("restart", "begin a new log").await? {
            console::say("Nothing was changed.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        old.from.owner_lost = !old.is_owner(person.key());
        if old.from.owner_lost && !owner_lost {
            bail!(
                "only an owner of the log before may begin a new one; `toolgate people list` shows \
                 them. If no owner is there any more: `toolgate log restart --owner-lost`"
            );
        }
        let new = home.join("restart.db");
        begin(place, &new, &old, person.author(&shown)).await?;
        let aside = home.join(format!("log-{}.db", old.from.log));
        if old.file == path {
            SqliteStore::set_aside(&path, &aside)?;
        }
        std::fs::rename(&new, &path).context("the new log cannot take its place")?;
        let anchors = anchors(&place.folder)?;
        anchors.release(&known)?;
        if let Some(pointer) = &log_home.pointer {
            SqliteStore::look(&path)?.remember(Some(pointer), &anchors).await?;
        }
        let kept = match aside.exists() {
            true => format!("The one before is kept in {}.", aside.display()),
            false => "The one before is lost.".to_owned(),
        };
        console::say(&format!("✓ A new log begins. {kept}"));
        Ok(Exit::Done)
    })
}

/// Writes the new log beside the old one.
async fn begin(place: &Place, new: &Path, old: &Predecessor, person: Author<'_>) -> Result<()> {
    if new.exists() {
        std::fs::remove_file(new).context("what is left of an earlier try cannot be removed")?;
    }
    let setup = LogSetup { anchors: None, ..log_setup(&place.folder, Create::Yes)? };
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(new, &setup)?);
    let runtime = Runtime::new(store, Arc::new(SystemClock));
    let project = old.project.clone().unwrap_or_default();
    Ok(runtime.restart(person, old.from.clone(), &project).await?)
}

/// The log in its place, or the one that an earlier try set aside, or what is remembered of one that
/// is lost.
fn predecessor(place: &Place, home: &Path, known: &Path, path: &Path) -> Result<Predecessor> {
    let anchors = anchors(&place.folder)?;
    let fault = place.compare_anchor().err();
    let expected = anchors.log_in(known)?;
    let aside = expected.map(|log| home.join(format!("log-{log}.db"))).filter(|file| file.exists());
    let file = match (path.exists(), aside) {
        (true, _) => path.to_owned(),
        (false, Some(aside)) => aside,
        (false, None) => {
            let Some(OpenFault::Lost { expected, anchored, .. }) = &fault else {
                bail!(
                    "there is no log in {} yet; `toolgate run` begins one",
                    place.folder.display()
                );
            };
            let from =
                RestartedFrom { log: *expected, size: *anchored, root: None, owner_lost: false };
            let why = fault.map(|fault| fault.to_string());
            let root_person = anchors.root_person(from.log)?;
            let file = PathBuf::new();
            return Ok(Predecessor { from, project: None, root_person, why, file });
        }
    };
    let store = SqliteStore::look(&file)?;
    block_on(async {
        let own = host_key(&place.folder, Create::No).is_ok_and(|own| own.public() == store.host());
        // State is signed with the person's key from then on, so it must be what was written here.
        let sound = own && verify(&store).await.is_ok_and(|report| report.problems.is_empty());
        let note = store.note().await.ok().flatten();
        let head = note.and_then(|note| SignedNote::parse(&note).ok()).map(|note| note.head);
        let (size, root) = (head.map_or(0, |head| head.size), head.map(|head| head.root));
        let project = if sound { reading::project(&store).await.ok() } else { None };
        let why = match (&fault, sound) {
            (Some(fault), _) => Some(fault.to_string()),
            (None, false) if own => Some("It is damaged; see `toolgate verify`.".to_owned()),
            (None, false) => {
                let host = store.host();
                Some(format!("It is signed by the host key {host}, which is not the one here."))
            }
            (None, true) => None,
        };
        let from = RestartedFrom { log: store.log_id(), size, root, owner_lost: false };
        let root_person = anchors.root_person(from.log)?;
        Ok(Predecessor { from, project, root_person, why, file })
    })
}

/// What a restart takes over, and what it does not.
fn report(old: &Predecessor) -> Vec<String> {
    let RestartedFrom { log, size, .. } = &old.from;
    let mut lines = vec![format!("The log {log} has {size} commits.")];
    lines.extend(old.why.as_ref().map(|why| format!("  {}", console::visible(why))));
    lines.push(match &old.project {
        Some(project) => {
            let keys: usize = project.state.shelves().map(|(_, shelf)| shelf.len()).sum();
            format!("  Taken over, signed with your key: {keys} values of its state.")
        }
        None => "  Its state cannot be trusted, and is not taken over.".to_owned(),
    });
    lines.push(
        "  Not taken over: sessions, approvals, \"always\" answers, accepted tool definitions."
            .to_owned(),
    );
    lines
}
