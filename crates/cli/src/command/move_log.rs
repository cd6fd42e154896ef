//! `toolgate log move`: moves the log out of its project, where a file takes its place, and back in.
//!
//! The folder of the log and the file change places in one step of the file system, so a command that
//! is killed leaves the log in one place or in the other.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use toolgate_runtime::port::Store;
use toolgate_store::{Anchor, AnchorFolder, LogPointer, OpenFault, SqliteStore};

use crate::console::{hint, say};
use crate::exit::Exit;
use crate::host::{Create, anchors, anchors_to_read, close_to_others, host_key, own_state_folder};
use crate::person::{self, Nobody};
use crate::project::{LogHome, Place, block_on};
use crate::visible::exact;

/// What is kept in the state folder, in words.
const LOGS: &str = "log outside the project";

/// Moves the log out of the project.
pub(super) fn outside(place: &Place, folder: Option<&Path>) -> Result<Exit> {
    let home = place.log_home()?;
    if home.pointer.is_some() {
        return match place.compare_anchor() {
            Ok(_) => {
                say(&format!("The log lies in {} already.", shown(&home.folder)));
                Ok(Exit::Done)
            }
            Err(OpenFault::ForeignPointer { .. }) => adopt(place, &home),
            Err(fault) => Err(fault.into()),
        };
    }
    if !home.log().exists() {
        return find_again(place, &home, folder);
    }
    // One that cannot be written is refused here.
    drop(place.open()?);
    let log = SqliteStore::look(home.log())?.log_id();
    let target = folder_for_logs(place, folder)?.join(log.to_string());
    if target.symlink_metadata().is_ok() {
        let is_left = matches!(LogPointer::read(&target), Ok(Some(_)));
        ensure!(is_left, "{} is there already; name another folder", shown(&target));
    }
    let pointer = LogPointer { target: target.clone() };
    pointer.write(&target).with_context(|| format!("{} cannot be made", shown(&target)))?;
    let exchanged = SqliteStore::while_closed(home.log(), || exchange(&home.folder, &target));
    match exchanged.map_err(anyhow::Error::from).and_then(|exchanged| exchanged) {
        Ok(()) => {}
        Err(error) => {
            drop(std::fs::remove_file(&target));
            return Err(error);
        }
    }
    say(&format!("✓ The log lies in {}. A file in the project names it.", shown(&target)));
    hint("Do not commit .toolgate: a copy of it is refused elsewhere.");
    Ok(Exit::Done)
}

/// Moves the log back into the project.
pub(super) fn inside(place: &Place) -> Result<Exit> {
    let home = place.log_home()?;
    let Some(pointer) = &home.pointer else {
        ensure!(home.log().exists(), "there is no log in {} yet", shown(&place.folder));
        say("The log lies in the project already.");
        return Ok(Exit::Done);
    };
    drop(place.open()?);
    SqliteStore::while_closed(home.log(), || exchange(pointer, &home.folder))??;
    // What changed places with it is the file.
    let left = std::fs::remove_file(&home.folder);
    left.with_context(|| format!("the log is moved; {} stays behind", shown(&home.folder)))?;
    say("✓ The log lies in the project again.");
    Ok(Exit::Done)
}

/// The folder in which logs have folders of their own.
fn folder_for_logs(place: &Place, named: Option<&Path>) -> Result<PathBuf> {
    let folder = match named {
        Some(folder) => std::path::absolute(folder)?,
        None => own_state_folder(&place.folder, LOGS)?.join("logs"),
    };
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(&folder);
    made.with_context(|| format!("{} cannot be made", shown(&folder)))?;
    let folder = folder.canonicalize()?;
    ensure!(
        !folder.starts_with(place.folder.canonicalize()?),
        "{} lies inside the project; name a folder outside it",
        shown(&folder)
    );
    if named.is_none() {
        close_to_others(&folder)?;
    }
    Ok(folder)
}

/// Has two names change places. Both lie on one file system, as do the copies of files that are put in
/// place from the folder of the log.
fn exchange(one: &Path, other: &Path) -> Result<()> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::XDEV) => bail!(
            "{} lies on another file system than the project, and files are put in place from the \
             folder of the log; name a folder on the same one: toolgate log move --outside DIR",
            shown(other)
        ),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => bail!(
            "the file system of {} cannot have two names change places, so the log cannot be moved \
             safely; nothing was changed",
            shown(other)
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be moved", shown(one)));
        }
    }
    for path in [one, other] {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // It lasts when both folders do; until then a power cut leaves it where it was.
        let opened = File::open(folder.unwrap_or(Path::new(".")));
        drop(opened.and_then(|folder| folder.sync_all()));
    }
    Ok(())
}

/// Writes the file in the project anew, where it was lost and the log is where it would have been
/// moved to. What is remembered of the log says that it belongs here.
fn find_again(place: &Place, home: &LogHome, folder: Option<&Path>) -> Result<Exit> {
    let fault = match place.compare_anchor() {
        Err(fault @ OpenFault::Lost { .. }) => fault,
        Err(fault) => return Err(fault.into()),
        Ok(_) => {
            bail!("there is no log in {} yet; `toolgate run` begins one", shown(&place.folder))
        }
    };
    let OpenFault::Lost { expected, .. } = &fault else { return Err(fault.into()) };
    let target = folder_for_logs(place, folder)?.join(expected.to_string());
    let found = SqliteStore::look(target.join("log.db")).is_ok_and(|log| log.log_id() == *expected);
    if !found || home.folder.symlink_metadata().is_ok() {
        return Err(fault.into());
    }
    LogPointer { target: target.clone() }.write(&home.folder)?;
    if let Err(fault) = place.compare_anchor() {
        drop(std::fs::remove_file(&home.folder));
        return Err(fault.into());
    }
    say(&format!("✓ The log in {} is found again.", shown(&target)));
    Ok(Exit::Done)
}

/// Lets a person say that a log belongs to this folder, which was moved.
fn adopt(place: &Place, home: &LogHome) -> Result<Exit> {
    person::attended().then_some(()).ok_or(Nobody)?;
    let store = SqliteStore::look(home.log())?;
    let own = host_key(&place.folder, Create::No)?.public();
    if store.host() != own {
        let (path, found) = (home.log(), store.host());
        return Err(OpenFault::OtherHost { path, found, own }.into());
    }
    ensure!(anchors_to_read().is_some(), "the record of the newest log needs a home");
    let anchors = anchors(&place.folder)?;
    let anchor = anchors.read(store.log_id())?;
    if let Some(anchor) = &anchor {
        // The other folder is not robbed of its log.
        let there = LogPointer::read(&anchor.folder).ok().flatten();
        let is_there = there.is_some_and(|there| is_same(&there.target, &home.folder))
            || anchor.folder.join("log.db").exists();
        ensure!(
            !is_there,
            "the log in {} belongs to {}, which is still there; remove {} and begin a log of its own",
            shown(&home.folder),
            shown(&anchor.folder),
            shown(home.pointer.as_deref().unwrap_or(&place.folder))
        );
        say(&format!("The log in {} belonged to {},", shown(&home.folder), shown(&anchor.folder)));
        say("which is not there any more. Was it moved here?");
    } else {
        say(&format!("Nothing is remembered of the log in {}.", shown(&home.folder)));
        say("Is it the log of this folder?");
    }
    block_on(async {
        if !person::confirm("move", "use it here").await? {
            say("Nothing was changed.");
            return Ok(Exit::Failed);
        }
        bind(&store, home, &anchors, anchor).await?;
        // It must still contain what is remembered of it.
        place.compare_anchor()?;
        say("✓ The log belongs to this folder.");
        Ok(Exit::Done)
    })
}

/// Remembers that a log belongs to this folder, and of the log what was remembered before.
async fn bind(
    store: &SqliteStore,
    home: &LogHome,
    anchors: &AnchorFolder,
    anchor: Option<Anchor>,
) -> Result<()> {
    let Some(anchor) = anchor else {
        return Ok(store.remember(home.pointer.as_deref(), anchors).await?);
    };
    let (log, folder) = (store.log_id(), home.known_folder()?);
    anchors.replace(log, &Anchor { folder: folder.clone(), ..anchor })?;
    Ok(anchors.set_log_in(&folder, log)?)
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

fn shown(path: &Path) -> String {
    exact(&path.display().to_string())
}
