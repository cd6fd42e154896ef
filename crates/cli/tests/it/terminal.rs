//! A terminal that a test sits at: what the program shows there, and what is typed when it asks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

/// How long a program may keep a test waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// Approves a card: `{code}` becomes the code that the card shows.
pub(crate) const APPROVE: (&str, &str) = ("to deny:", "yes {code}");

/// What a program showed, and how it ended.
pub(crate) struct Seen {
    pub(crate) code: i32,
    pub(crate) screen: String,
}

/// A program at its terminal.
struct Sitting {
    child: Child,
    keys: File,
    shown: Receiver<String>,
    seen: String,
    /// How far codes were read.
    codes_to: usize,
}

/// What stands before the code in the last line of a card.
const BEFORE_CODE: [&str; 3] = ["Type `yes ", "Type `trust ", "Type `restore "];

impl Sitting {
    fn begin(mut command: Command) -> Self {
        let (keys, screen) = open();
        let end = || Stdio::from(screen.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        // The program has the only ends that are left, so reading ends with it.
        drop((command, screen));
        let keys = File::from(keys);
        let shown = watch(keys.try_clone().unwrap());
        Self { child, keys, shown, seen: String::new(), codes_to: 0 }
    }

    /// Waits until something is on the screen.
    fn until(&mut self, words: &str) {
        while !self.seen.contains(words) {
            let Ok(more) = self.shown.recv_timeout(PATIENCE) else {
                self.child.kill().unwrap();
                panic!("{words:?} is not shown:\n{}", self.seen);
            };
            self.seen.push_str(&more);
        }
    }

    /// The code of the newest card, which may not be on the screen yet.
    fn code(&mut self) -> String {
        loop {
            let ends = BEFORE_CODE.iter().filter_map(|it| Some(self.seen.rfind(it)? + it.len()));
            let newest = ends.max();
            let code = newest.filter(|at| *at > self.codes_to);
            if let Some((at, code)) = code.and_then(|at| Some((at, self.seen.get(at..at + 4)?))) {
                self.codes_to = at;
                return code.to_owned();
            }
            let more = self.shown.recv_timeout(PATIENCE);
            self.seen.push_str(&more.unwrap_or_else(|_| panic!("no code:\n{}", self.seen)));
        }
    }

    fn types(&mut self, answer: &str) {
        let answer = match answer.contains("{code}") {
            true => answer.replace("{code}", &self.code()),
            false => answer.to_owned(),
        };
        self.keys.write_all(format!("{answer}\n").as_bytes()).unwrap();
    }

    /// How it ended; one that has not is stopped.
    fn stop(&mut self) -> i32 {
        drop(self.child.kill());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
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

/// Runs a program at a terminal, and tells it to go once something is on the screen. Tells how it
/// ended, and whether the terminal takes lines and shows them as before.
pub(crate) fn told_to_go(mut command: Command, after: &str) -> (i32, bool) {
    let (keys, screen) = open();
    let end = || Stdio::from(screen.try_clone().unwrap());
    let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
    let shown = watch(File::from(keys));
    let mut seen = String::new();
    while !seen.contains(after) {
        let more = shown.recv_timeout(PATIENCE);
        seen.push_str(&more.unwrap_or_else(|_| panic!("{after:?} is not shown:\n{seen}")));
    }
    std::thread::sleep(Duration::from_millis(300));
    let told = Command::new("kill").arg(child.id().to_string()).status();
    assert!(told.unwrap().success());
    let code = child.wait().unwrap().code().unwrap_or(-1);
    let modes = tcgetattr(&screen).unwrap().local_modes;
    (code, modes.contains(LocalModes::ICANON | LocalModes::ECHO))
}

/// Runs a program at a terminal. Each answer is typed once its question is on the screen; what is
/// between the two is done first.
pub(crate) fn typing(command: Command, answers: &[(&str, &str)], between: impl Fn()) -> Seen {
    let mut sitting = Sitting::begin(command);
    for (question, answer) in answers {
        sitting.until(question);
        between();
        sitting.types(answer);
    }
    while let Ok(more) = sitting.shown.recv_timeout(PATIENCE) {
        sitting.seen.push_str(&more);
    }
    // One that says nothing more and does not end is stopped.
    Seen { code: sitting.stop(), screen: sitting.seen.replace("\r\n", "\n") }
}

/// Runs a program that asks for trust, and gives it: with the code of the card, and, where the person
/// has no key yet, with one without a passphrase.
pub(crate) fn trusting(command: Command) -> Seen {
    answering_trust(command, "trust {code}")
}

/// Runs a program that asks for trust, with this answer, and the whole card seen.
pub(crate) fn answering_trust(command: Command, answer: &str) -> Seen {
    answering(command, "to trust this folder:", answer)
}

/// Runs a program that shows a card, page by page, and answers its last question. A key that is made is
/// one without a passphrase.
pub(crate) fn answering(command: Command, last: &str, answer: &str) -> Seen {
    let mut sitting = Sitting::begin(command);
    while let Ok(more) = sitting.shown.recv_timeout(PATIENCE) {
        let was_asked = sitting.seen.contains(last);
        sitting.seen.push_str(&more);
        if sitting.seen.contains(last) && !was_asked {
            sitting.types(answer);
        } else if sitting.seen.ends_with("or type leave:\r\n") {
            // A card that does not fit is shown page by page.
            sitting.types("");
        } else if sitting.seen.ends_with("press Enter for none:\r\n") {
            sitting.types("");
        }
    }
    Seen { code: sitting.stop(), screen: sitting.seen.replace("\r\n", "\n") }
}

/// Runs a program at a terminal, and kills it so long after something is on the screen.
pub(crate) fn killed(command: Command, answers: &[(&str, &str)], at: &str, after: Duration) {
    let mut sitting = Sitting::begin(command);
    for (question, answer) in answers {
        sitting.until(question);
        sitting.types(answer);
    }
    sitting.until(at);
    std::thread::sleep(after);
    sitting.stop();
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
