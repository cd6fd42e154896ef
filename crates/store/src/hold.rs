//! Decides which process has a session: the one that holds a lock on a file of it. The lock goes
//! with the process, however it dies, so nobody waits for the dead.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toolgate_kernel::names::SessionId;

/// How often a file that somebody removed at the same moment is made again.
const TRIES_MAX: u32 = 100;
/// Bytes of a process id and an address.
const SIGNED_BYTES_MAX: u64 = 100;

/// A session that this process has, until this is dropped.
#[derive(Debug)]
pub struct Hold {
    file: File,
    path: PathBuf,
}

/// Why a session cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum HoldFault {
    /// Another process has it.
    #[error("session {session} is at work in {}", who(.process))]
    Held {
        /// The session.
        session: SessionId,
        /// The id of the process, when it could be read.
        process: Option<u32>,
    },
    /// Another process is about to have it, for longer than it was waited for.
    #[error("another process is taking session {session} over at this moment; try again")]
    ChangesHands {
        /// The session.
        session: SessionId,
    },
    /// Another process took it over.
    #[error("session {session} was taken over by {}", who(.process))]
    Lost {
        /// The session.
        session: SessionId,
        /// The id of the process, when it could be read.
        process: Option<u32>,
    },
    /// Another process took it over, and nobody has it any more.
    #[error(
        "session {session} was taken over by a process that has let it go since; start again to \
         have it"
    )]
    LetGo {
        /// The session.
        session: SessionId,
    },
    /// The file cannot be made or locked.
    #[error("{path}: cannot be locked; check that the folder may be written")]
    Unreachable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What becomes of a session that another process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// It keeps it.
    Respected,
    /// It loses it: it can write nothing more once the session is claimed.
    Displaced,
}

fn who(process: &Option<u32>) -> String {
    process.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
}

impl Hold {
    /// Takes a session, in a folder that is kept for such files.
    pub fn take(folder: &Path, session: &SessionId, rival: Rival) -> Result<Self, HoldFault> {
        let path = folder.join(session.as_str());
        let unreachable = |source| HoldFault::Unreachable { path: path.clone(), source };
        make_folder(folder).map_err(unreachable)?;
        for _ in 0..TRIES_MAX {
            let mut file = open(&path).map_err(unreachable)?;
            match file.try_lock() {
                // Between opening and locking somebody may have removed it.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => {
                    sign(&mut &file, "").map_err(unreachable)?;
                    return Ok(Self { file, path });
                }
                Err(TryLockError::WouldBlock) if rival == Rival::Displaced => {
                    let file = displace(&path).map_err(unreachable)?;
                    return Ok(Self { file, path });
                }
                Err(TryLockError::WouldBlock) => {
                    let (session, process) = (session.clone(), signed(&mut file));
                    return Err(HoldFault::Held { session, process });
                }
                Err(TryLockError::Error(source)) => return Err(unreachable(source)),
            }
        }
        Err(HoldFault::Held { session: session.clone(), process: None })
    }
}

impl Hold {
    /// Writes down where the session is offered, for whoever takes it over.
    pub fn offer_at(&self, address: SocketAddr) -> io::Result<()> {
        sign(&mut &self.file, &format!(" {address}"))
    }

    /// Where whoever has a session offers it, if they say so.
    pub fn offered_at(folder: &Path, session: &SessionId) -> Option<SocketAddr> {
        let mut said = String::new();
        let file = File::open(folder.join(session.as_str())).ok()?;
        file.take(SIGNED_BYTES_MAX).read_to_string(&mut said).ok()?;
        said.split_whitespace().nth(1)?.parse().ok()
    }

    /// Whether another process took the session over, and which.
    pub fn lost(&self, session: &SessionId) -> Option<HoldFault> {
        if is_at(&self.file, &self.path) {
            return None;
        }
        let session = session.clone();
        Some(match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HoldFault::LetGo { session },
            found => {
                let process = found.ok().and_then(|mut file| signed(&mut file));
                HoldFault::Lost { session, process }
            }
        })
    }
}

/// Between having a session and driving it a server is alone: of several that take one over at the
/// same time, the last one to have it must be the last one to claim it. It goes with the process too.
#[derive(Debug)]
pub struct Handover {
    /// The lock is held as long as it is open.
    file: File,
    path: PathBuf,
}

impl Handover {
    /// Begins one in a folder that is kept for such files; nothing while another process has begun
    /// one of the same session.
    pub fn take(folder: &Path, session: &SessionId) -> Result<Option<Self>, HoldFault> {
        let path = folder.join(handover_name(session));
        let unreachable = |source| HoldFault::Unreachable { path: path.clone(), source };
        make_folder(folder).map_err(unreachable)?;
        let file = open(&path).map_err(unreachable)?;
        match file.try_lock() {
            // Whoever had it has just removed it; the next look finds another one.
            Ok(()) if !is_at(&file, &path) => Ok(None),
            Ok(()) => Ok(Some(Self { file, path })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(unreachable(source)),
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

/// The name of its file, which is that of no session.
fn handover_name(session: &SessionId) -> String {
    format!("{session}.handover")
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Whoever displaced us has a file of its own there.
        if is_at(&self.file, &self.path) {
            drop(std::fs::remove_file(&self.path));
        }
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Puts a file of ours, locked and signed, in the place of another one: there is no moment without
/// one that says who has the session.
fn displace(path: &Path) -> io::Result<File> {
    // No session has such a name, and no other process.
    let ours = path.with_extension(format!("taking.{}", std::process::id()));
    let file = open(&ours)?;
    let placed = file.try_lock().map_err(io::Error::from).and_then(|()| sign(&mut &file, ""));
    if let Err(error) = placed.and_then(|()| std::fs::rename(&ours, path)) {
        drop(std::fs::remove_file(&ours));
        return Err(error);
    }
    Ok(file)
}

/// Writes down who has it, and more, for those who come later. The process stands there throughout.
fn sign(file: &mut &File, more: &str) -> io::Result<()> {
    let said = format!("{}{more}", std::process::id());
    file.seek(SeekFrom::Start(0))?;
    file.write_all(said.as_bytes())?;
    file.set_len(u64::try_from(said.len()).unwrap_or(u64::MAX))
}

fn signed(file: &mut File) -> Option<u32> {
    let mut said = String::new();
    file.take(SIGNED_BYTES_MAX).read_to_string(&mut said).ok()?;
    said.split_whitespace().next()?.parse().ok()
}

/// Whether a file is the one that stands at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: std::fs::Metadata| (found.dev(), found.ino());
    let (own, there) = (file.metadata().map(place), std::fs::symlink_metadata(path).map(place));
    matches!((own, there), (Ok(own), Ok(there)) if own == there)
}

/// Elsewhere an open file cannot be removed, so what stands there is it.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn a_session_is_had_by_one_until_it_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, id) = (folder.path().join("held"), SessionId::parse("run-1").unwrap());
        let take = |rival| Hold::take(&folder, &id, rival);
        let first = take(Rival::Respected).unwrap();
        let own = Some(std::process::id());
        let refused = take(Rival::Respected).unwrap_err();
        assert!(matches!(refused, HoldFault::Held { process, .. } if process == own), "{refused}");
        let other = SessionId::parse("run-2").unwrap();
        assert!(Hold::take(&folder, &other, Rival::Respected).is_ok(), "another session is free");
        drop(first);
        drop(take(Rival::Respected).unwrap());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing stays behind");
    }

    #[test]
    fn who_is_displaced_gives_nothing_back() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::parse("run-1").unwrap();
        let take = |rival| Hold::take(folder.path(), &id, rival);
        let first = take(Rival::Respected).unwrap();
        let second = take(Rival::Displaced).unwrap();
        drop(first);
        assert!(take(Rival::Respected).is_err(), "the second has it still");
        drop(second);
        assert!(take(Rival::Respected).is_ok());
    }

    #[test]
    fn who_is_displaced_can_know_it() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::parse("run-1").unwrap();
        let first = Hold::take(folder.path(), &id, Rival::Respected).unwrap();
        assert!(first.lost(&id).is_none());
        let second = Hold::take(folder.path(), &id, Rival::Displaced).unwrap();
        let own = Some(std::process::id());
        let lost = first.lost(&id).unwrap();
        assert!(matches!(lost, HoldFault::Lost { process, .. } if process == own), "{lost}");
        drop(second);
        let told = first.lost(&id).unwrap().to_string();
        assert!(told.contains("a process that has let it go since"), "{told}");
    }

    /// Whoever has just taken it has perhaps not signed yet.
    #[test]
    fn who_is_not_known_yet_has_not_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::parse("run-1").unwrap();
        let first = Hold::take(folder.path(), &id, Rival::Respected).unwrap();
        let path = folder.path().join("run-1");
        std::fs::remove_file(&path).unwrap();
        let unsigned = File::create(&path).unwrap();
        let told = first.lost(&id).unwrap().to_string();
        assert_eq!(told, "session run-1 was taken over by another process");
        drop(unsigned);
    }

    /// In a take-over there is no moment without a file that says who has the session.
    #[test]
    fn whoever_is_displaced_knows_by_whom_at_any_moment() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::parse("run-1").unwrap();
        let take = |rival| Hold::take(folder.path(), &id, rival);
        let first = take(Rival::Respected).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut told = std::collections::BTreeSet::new();
                while !done.load(SeqCst) {
                    told.extend(first.lost(&id).map(|lost| lost.to_string()));
                }
                told
            });
            let takers: Result<Vec<Hold>, HoldFault> =
                (0..200).map(|_| take(Rival::Displaced)).collect();
            done.store(true, SeqCst);
            let told: Vec<String> = looking.join().unwrap().into_iter().collect();
            let by_us = format!("session run-1 was taken over by process {}", std::process::id());
            assert!(told.iter().all(|told| *told == by_us), "{told:?}");
            assert_eq!(takers.unwrap().len(), 200);
        });
        drop(first);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays behind");
    }

    #[test]
    fn one_process_at_a_time_takes_a_session_over_and_others_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["run-1", "run-2"].map(|id| SessionId::parse(id).unwrap());
        let take = |id| Handover::take(folder.path(), id).unwrap();
        let first = take(&one);
        assert!(first.is_some() && take(&one).is_none());
        assert!(take(&two).is_some(), "another session is free");
        drop(first);
        assert!(take(&one).is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays behind");
        assert!(SessionId::parse(&handover_name(&one)).is_err());
    }

    /// What a process that was killed leaves behind is a file without a lock.
    #[test]
    fn the_dead_hold_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("run-1"), "4711").unwrap();
        let id = SessionId::parse("run-1").unwrap();
        assert!(Hold::take(folder.path(), &id, Rival::Respected).is_ok());
    }
}
