//! Decides which processes belong to a program though they left its group: its descendants, and all
//! that carry its mark in their environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal};

/// The variable that holds the mark. Whatever a program starts inherits it.
pub(super) const MARK: &str = "TOOLGATE_PROGRAM";

/// Bytes of an environment in which the mark is looked for.
const ENVIRON_BYTES_MAX: u64 = 1 << 20;

/// What tells the processes of one program from all others.
#[derive(Debug, Clone)]
pub(super) struct Mark(String);

/// A process, told from any later one with the same number by when it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stray {
    id: i32,
    since: u64,
}

impl Mark {
    /// A mark that no other program has, as long as this computer runs.
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let us = std::process::id();
        let since = i32::try_from(us).ok().and_then(status).map_or(0, |(_, since)| since);
        Self(format!("{us}-{since}-{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The value of the variable. A program that was itself started under a mark keeps that too.
    pub(super) fn beside(&self, outer: Option<&str>) -> String {
        match outer.filter(|outer| !outer.is_empty()) {
            Some(outer) => format!("{outer},{}", self.0),
            None => self.0.clone(),
        }
    }

    /// The processes that carry the mark.
    pub(super) fn carriers(&self) -> BTreeSet<Stray> {
        processes().filter(|id| self.marks(*id)).filter_map(stray).collect()
    }

    fn marks(&self, id: i32) -> bool {
        let Ok(file) = fs::File::open(format!("/proc/{id}/environ")) else { return false };
        let mut bytes = Vec::new();
        if file.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            return false;
        }
        let values = bytes.split(|byte| *byte == 0).filter_map(|entry| {
            let value = entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(value).ok()
        });
        values.flat_map(|value| value.split(',')).any(|mark| mark == self.0)
    }
}

/// What a process that is still ours started, and what that started.
pub(super) fn descendants(root: Pid) -> BTreeSet<Stray> {
    let mut children: BTreeMap<i32, Vec<Stray>> = BTreeMap::new();
    for id in processes() {
        if let Some((parent, since)) = status(id) {
            children.entry(parent).or_default().push(Stray { id, since });
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(id) = open.pop() {
        for child in children.remove(&id).unwrap_or_default() {
            open.push(child.id);
            found.insert(child);
        }
    }
    found
}

impl Stray {
    /// Whether it is there still, and no zombie.
    pub(super) fn lives(self) -> bool {
        stray(self.id) == Some(self)
    }

    /// Sends it a signal, if it is there still.
    pub(super) fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.id) else { return };
        if signal_exactly(self, pid, signal).is_none() && self.lives() {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// Sends a signal through a handle, which another process with the same number never gets; nothing
/// where the system has no such handles.
#[cfg(target_os = "linux")]
fn signal_exactly(stray: Stray, pid: Pid, signal: Signal) -> Option<()> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => {
            // The handle is of whoever has the number now.
            if stray.lives() {
                let _ = pidfd_send_signal(&handle, signal);
            }
            Some(())
        }
        Err(Errno::NOSYS) => None,
        Err(_) => Some(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_exactly(_: Stray, _: Pid, _: Signal) -> Option<()> {
    None
}

/// All processes there are, where the system tells; else none.
fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn stray(id: i32) -> Option<Stray> {
    status(id).map(|(_, since)| Stray { id, since })
}

/// The parent of a process and when it began, in the clock of the system; nothing for a zombie.
fn status(id: i32) -> Option<(i32, u64)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in parentheses, and may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let since = fields.nth(17)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some((parent, since))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_is_known_by_its_mark_and_by_its_parent() {
        let (mark, other) = (Mark::new(), Mark::new());
        let mut child =
            Command::new("sleep").arg("60").env(MARK, mark.beside(Some("outer"))).spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let us = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let found = |strays: &BTreeSet<Stray>| strays.iter().copied().find(|stray| stray.id == id);
        // The mark is there once the program has begun.
        let mut marked = None;
        for _ in 0..500 {
            marked = found(&mark.carriers());
            if marked.is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let stray = marked.unwrap();
        assert_eq!(found(&descendants(us)), Some(stray));
        assert_eq!(found(&other.carriers()), None);
        Stray { since: stray.since + 1, ..stray }.signal(Signal::KILL);
        assert!(stray.lives(), "a later process of the same number is another one");
        stray.signal(Signal::KILL);
        child.wait().unwrap();
        assert!(!stray.lives());
    }
}
