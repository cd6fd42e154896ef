//! A terminal that a test sits at: what the program shows there, and what is typed when it asks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// How long a program may keep a test waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program showed, and how it ended.
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) screen: String,
}

/// Runs a program at a terminal that goes away once something is on the screen. Tells how the
/// program ended; one that does not is stopped, and has no code.
pub(crate) fn hanging_up(mut command: Command, after: &str) -> Option<i32> {
    let (keys, screen) = open();
    let end = || Stdio::from(screen.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((command, screen));
    let mut seen = Vec::new();
    let mut keys = File::from(keys);
    while !String::from_utf8_lossy(&seen).contains(after) {
        let mut buffer = [0; 4096];
        let read = keys.read(&mut buffer).unwrap_or(0);
        assert!(read > 0, "{after:?} is not shown:\n{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..read]);
    }
    drop(keys);
    for _ in 0..PATIENCE.as_millis() / 20 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // One that is gone cannot be killed any more.
    let stopped = child.try_wait().unwrap().is_none();
    drop(child.kill());
    let ended = child.wait().unwrap();
    (!stopped).then(|| ended.code().unwrap_or(-1))
}

/// Both ends of a terminal: where keys are typed, and what a program has.
fn open() -> (OwnedFd, File) {
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
    let screen = OpenOptions::new().read(true).write(true).open(name).unwrap();
    (keys, screen)
}

/// Runs a program at a terminal. Each answer is typed once its question is on the screen; what is
/// between the two is done first.
pub(crate) fn typing(mut command: Command, answers: &[(&str, &str)], between: impl Fn()) -> Seen {
    let (keys, screen) = open();
    let end = || Stdio::from(screen.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    // The program has the only ends that are left, so reading ends with it.
    drop((command, screen));
    let mut keys = File::from(keys);
    let shown = watch(keys.try_clone().unwrap());
    let mut seen = String::new();
    for (question, answer) in answers {
        while !seen.contains(question) {
            let Ok(more) = shown.recv_timeout(PATIENCE) else {
                child.kill().unwrap();
                panic!("{question:?} is not asked:\n{seen}");
            };
            seen.push_str(&more);
        }
        between();
        keys.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }
    while let Ok(more) = shown.recv_timeout(PATIENCE) {
        seen.push_str(&more);
    }
    // One that says nothing more and does not end is stopped.
    drop(child.kill());
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Seen { code, screen: seen.replace("\r\n", "\n") }
}

/// What comes to the screen, until the program ends.
fn watch(mut screen: File) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // A terminal whose program is gone answers with an error.
        while let Ok(read) = screen.read(&mut buffer) {
            let more = String::from_utf8_lossy(&buffer[..read]).into_owned();
            if read == 0 || tell.send(more).is_err() {
                return;
            }
        }
    });
    told
}
