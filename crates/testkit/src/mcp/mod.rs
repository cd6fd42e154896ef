//! Decides how an MCP server misbehaves: one way at a time, and every executed call is written to
//! the world's ledger.

// Each place knows the few ways that concern it.
#![allow(clippy::wildcard_enum_match_arm)]

mod answer;
mod events;
mod guarded;
mod http;
mod stdio;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use clap::ValueEnum;
use serde_json::Value;

pub use guarded::{Guarded, Twist};
pub use http::serve as serve_http;
pub use stdio::serve as serve_stdio;

/// The ways to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// It keeps to the protocol.
    Normal,
    /// Lines of a package manager before every answer.
    Noise,
    /// Two hundred such lines at the start.
    NoiseFlood,
    /// Half an answer and then nothing.
    Half,
    /// A line of five million letters before the answer.
    LongLine,
    /// Bytes that are no text before every answer.
    BadUtf8,
    /// Answers to questions that nobody asked.
    UnknownIds,
    /// Two answers to one question.
    DuplicateIds,
    /// Numbers answered as texts, and texts as numbers.
    IdType,
    /// It ends at once.
    ExitAtOnce,
    /// It ends when a tool is called, after the effect.
    ExitMidCall,
    /// It answers no call any more, and nothing else.
    Hang,
    /// A byte at a time.
    Drip,
    /// Progress without end, and no answer.
    ProgressFlood,
    /// Ten thousand times the word that its list changed.
    ListFlood,
    /// A hundred thousand tools.
    ToolFlood,
    /// One tool more than is borne.
    ManyTools,
    /// A list whose next page is the same.
    CursorLoop,
    /// A list whose pages never end.
    EndlessPages,
    /// It starts a program of its own and goes on.
    Grandchild,
    /// It starts a program of its own and ends.
    Orphan,
    /// It does not end when its input does.
    IgnoreEof,
    /// It writes to its error output without end.
    StderrFlood,
    /// The definition of a tool is another one after two calls.
    Change,
    /// Between two and four calls a definition is another one; then it is the first one again, and
    /// another tool is gone.
    Wander,
    /// The first call never ends; all others do.
    HangOnce,
    /// Data of as many levels as the text says, in a field that the schema does not name.
    Nested,
    /// The data of a result are not what the schema says.
    WrongStructured,
    /// A result of a hundred million letters.
    ResultBomb,
    /// A result that is too long, and says behind its content that the tool failed.
    LongFailure,
    /// A result with one part of every kind, good and bad.
    Parts,
    /// It asks for a model, for roots and for a person's key before it answers.
    AsksBack,
    /// It wants input before it answers, as the 2026 revision has it.
    InputRequired,
    /// It wants messages sent to another server.
    EndpointElsewhere,
    /// It wants to know who asks, and says that a private address knows.
    Unauthorized,
    /// Over HTTP, it does a call and then does not allow it: the text says with which status.
    ForbidsCalls,
    /// Its stream ends before the answer.
    CutStream,
    /// Its stream ends before the answer, which comes over another one.
    Resumes,
    /// Over HTTP, it does the first call and answers that it does not know the session.
    Forgets,
    /// It refuses the first question in the words of the new revision.
    ModernRefusal,
    /// It answers a question that it does not know with nothing.
    EmptyAtUnknown,
    /// It ends at a question that it does not know.
    ExitAtUnknown,
    /// Two tools of one name.
    DuplicateTools,
    /// Instructions for the model.
    Instructions,
    /// The first stream of notifications ends as soon as it is open. Later it changes as `Change`.
    CutListen,
    /// It names the path for messages late, and takes none before.
    LateEndpoint,
    /// It starts a program in a session of its own, whose starter ends.
    Daemon,
    /// It does not say what it has before it is let go: before there is a file beside its ledger that
    /// ends in `.go`.
    SlowList,
    /// It repeats the key it was given in its descriptions, and where a call of `write` fails.
    Tattle,
    /// It repeats it where it is asked for its list.
    TattleList,
    /// It answers a call with the text of the call, as it is: `$ID` in it stands for the id of the
    /// request, and `$NUMBER` for the number in that id.
    Raw,
}

/// A picture of one dot, in base64.
pub const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Which revisions it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Era {
    /// With a handshake.
    Legacy,
    /// Without one.
    Modern,
}

/// A server that misbehaves.
pub struct Server {
    /// How.
    pub mode: Mode,
    /// Which revisions it speaks.
    pub era: Era,
    /// Whether answers over HTTP come as streams.
    pub streams: bool,
    /// Where executed calls are written.
    pub ledger: Option<PathBuf>,
    /// How many calls there were.
    pub calls: AtomicUsize,
    /// What our own requests are numbered.
    pub asked: AtomicU64,
    /// Who waits for answers of the client.
    pub waiting: Mutex<Vec<(u64, Sender<Value>)>>,
    /// An answer that is asked for over another stream.
    pub kept: Mutex<Option<String>>,
    /// Who hears of changes: a way to say it.
    pub listeners: Mutex<Vec<Sender<String>>>,
}

impl Server {
    /// A server.
    pub fn new(mode: Mode, era: Era, streams: bool, ledger: Option<PathBuf>) -> Self {
        Self {
            mode,
            era,
            streams,
            ledger,
            calls: AtomicUsize::new(0),
            asked: AtomicU64::new(1),
            waiting: Mutex::default(),
            kept: Mutex::default(),
            listeners: Mutex::default(),
        }
    }

    /// Writes what happened to the ledger: a line in one piece, because many write at once.
    pub fn record(&self, what: &str) {
        let Some(path) = &self.ledger else { return };
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let written = opened.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes()));
        if let Err(error) = written {
            let _ = writeln!(std::io::stderr(), "the ledger cannot be written: {error}");
            std::process::exit(74);
        }
    }

    /// Tells everybody who listens.
    pub fn announce(&self, text: &str) {
        if let Ok(listeners) = self.listeners.lock() {
            for listener in listeners.iter() {
                let _ = listener.send(text.to_owned());
            }
        }
    }

    fn next_call(&self) -> usize {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }
}
