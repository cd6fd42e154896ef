//! Decides how the person at the terminal is asked: shown exactly what would run, then what is to
//! be done about it.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, PoisonError, mpsc};

use futures_util::future::BoxFuture;
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Answer;
use toolgate_runtime::port::{Pause, Person, Question, Response, Word};
use zeroize::Zeroizing;

use crate::console::{hint, visible};
use crate::credential;

/// Whoever sits at the terminal.
pub(crate) struct AtTerminal {
    project: PathBuf,
    /// Makes the screen ready for a question.
    ready: Ready,
}

/// What is done before a question is put: whoever draws on the screen clears it.
#[derive(Default, Clone)]
pub(crate) struct Ready(Arc<std::sync::Mutex<Option<Clearing>>>);

type Clearing = Box<dyn Fn() + Send>;

impl Ready {
    /// From now on this is done, and what was done before is not.
    pub(crate) fn becomes(&self, clearing: impl Fn() + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(clearing));
    }

    fn clear(&self) {
        if let Some(clear) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            clear();
        }
    }
}

impl AtTerminal {
    /// The person at the terminal; nobody when input or output is a pipe.
    pub(crate) fn here(project: &Path, ready: Ready) -> Option<Arc<dyn Person>> {
        let project = project.to_owned();
        attended().then(|| Arc::new(Self { project, ready }) as Arc<dyn Person>)
    }

    async fn answer(&self, question: &Question) -> Option<Response> {
        self.ready.clear();
        let about = format!("{} ({})", question.policy, visible(&question.reason));
        hint(&format!("\n{about} wants your word."));
        let choice = choose(question.tool.as_str(), &question.args).await?;
        // Whoever has the key is the person; without it nobody has answered.
        let person = match credential::unlock(&self.project).await {
            Ok(person) => person?,
            Err(error) => {
                hint(&format!("{error:#}"));
                return None;
            }
        };
        Some(Response {
            who: Actor::Human(Arc::clone(&person.name)),
            signer: Some(person),
            answer: choice.answer,
            note: choice.note,
            args: choice.args,
            always: choice.always,
        })
    }
}

/// What a person chose to do about a call.
struct Choice {
    answer: Answer,
    note: String,
    args: Option<Map<String, Value>>,
    always: bool,
}

/// Shows exactly what would run and asks what is to be done about it. Nothing when nobody answers.
async fn choose(tool: &str, args: &Map<String, Value>) -> Option<Choice> {
    let (mut changed, mut shown) = (None, args.clone());
    loop {
        show(tool, &shown);
        hint("Type yes, always (in this session), edit, or no (and why, for the model):");
        let said = line().await?;
        let said = said.trim();
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let answer = match word.to_ascii_lowercase().as_str() {
            "yes" | "always" if rest.is_empty() => Answer::Approve,
            "edit" if rest.is_empty() => {
                if let Some(args) = edited().await? {
                    shown.clone_from(&args);
                    changed = Some(args);
                }
                continue;
            }
            _ => Answer::Deny,
        };
        let always = answer == Answer::Approve && word.eq_ignore_ascii_case("always");
        // Only what follows a no is meant for the model; a slip of the hand is not.
        let note = if word.eq_ignore_ascii_case("no") { rest.trim() } else { "" };
        let args = changed.filter(|_| answer == Answer::Approve);
        return Some(Choice { answer, note: note.to_owned(), args, always });
    }
}

/// Shows exactly what would run, invisible characters too.
pub(crate) fn show(tool: &str, args: &Map<String, Value>) {
    hint("This would run, and nothing else:");
    hint(&format!("  {tool}"));
    let args = serde_json::to_string_pretty(args).unwrap_or_default();
    args.lines().for_each(|line| hint(&format!("  {}", visible(line))));
}

/// Arguments that a person types; nothing when they are none.
async fn edited() -> Option<Option<Map<String, Value>>> {
    hint("Type the arguments as one line of JSON, or press Enter to leave them:");
    let typed = line().await?;
    if typed.trim().is_empty() {
        return Some(None);
    }
    match serde_json::from_str::<Map<String, Value>>(&typed) {
        Ok(args) => Some(Some(args)),
        Err(error) => {
            hint(&format!("That is no JSON object: {error}. The arguments are as before."));
            Some(None)
        }
    }
}

impl Person for AtTerminal {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        Box::pin(self.answer(question))
    }

    fn go_on<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        Box::pin(async move {
            self.ready.clear();
            hint(&format!("\nThe phase changed to {}.", pause.phase));
            if !pause.summary.trim().is_empty() {
                hint(&format!("The model says: {}", visible(&pause.summary)));
            }
            hint("Press Enter to go on, or type what the model should know first:");
            let feedback = line().await?;
            Some(Word { who: Actor::Human(user_name()), feedback })
        })
    }
}

/// What the person at the terminal types next; nothing when nobody is there.
pub(crate) async fn word() -> Option<String> {
    if attended() { line().await } else { None }
}

/// What the person at the terminal types next, and nobody else sees.
pub(crate) async fn secret(asked: &str) -> Option<Zeroizing<String>> {
    hint(asked);
    let typed = {
        let _quiet = Quiet::begin();
        line().await
    };
    hint("");
    typed.map(|line| Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// While this is there, the terminal does not show what is typed.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Self {
        let before = tcgetattr(stdin()).ok();
        if let Some(mut quiet) = before.clone() {
            quiet.local_modes.remove(LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &quiet).ok();
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            tcsetattr(stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Whether a person sits at a terminal; a pipe is nobody.
pub(crate) fn attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(crate) fn user_name() -> Arc<str> {
    let name = std::env::var("USER").ok().filter(|name| !name.trim().is_empty());
    name.unwrap_or_else(|| "person".to_owned()).as_str().into()
}

/// The next line from the terminal; nothing when it was closed.
async fn line() -> Option<String> {
    static TERMINAL: LazyLock<Lines> =
        LazyLock::new(|| Lines::of(std::io::BufReader::new(std::io::stdin())));
    TERMINAL.next().await
}

/// Lines that are read one by one, each for the question that waits when it is typed.
struct Lines(Mutex<Reader>);

/// What the one reading thread is told and tells.
struct Reader {
    wanted: mpsc::SyncSender<()>,
    read: Receiver<Option<String>>,
    /// Whether the thread still waits for a line that nobody took.
    pending: bool,
}

impl Lines {
    /// Reads from a source in a thread of its own: reading a terminal blocks, and nobody can say
    /// for how long. A second thread would take the line that the first one waits for.
    fn of(mut source: impl BufRead + Send + 'static) -> Self {
        let ((wanted, wants), (lines, read)) = (mpsc::sync_channel(1), channel(1));
        std::thread::spawn(move || {
            while wants.recv().is_ok() {
                let mut line = String::new();
                let read = source.read_line(&mut line);
                let line = read.ok().filter(|bytes| *bytes > 0).map(|_| line);
                if lines.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Self(Mutex::new(Reader { wanted, read, pending: false }))
    }

    /// The next line that is typed from now on; nothing when the source was closed.
    async fn next(&self) -> Option<String> {
        let mut reader = self.0.lock().await;
        // A line that came after its question was given up answers no other question.
        if reader.pending && reader.read.try_recv().is_ok() {
            reader.pending = false;
        }
        if !reader.pending {
            reader.wanted.send(()).ok()?;
            reader.pending = true;
        }
        let line = reader.read.recv().await.flatten();
        reader.pending = false;
        line
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::Duration;

    use super::*;

    /// A terminal that a test types at.
    struct Typed(mpsc::Receiver<&'static str>);

    impl Read for Typed {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Ok(text) = self.0.recv() else { return Ok(0) };
            text.as_bytes().read(buffer)
        }
    }

    #[test]
    fn the_screen_that_is_cleared_is_the_last_one() {
        let (ready, cleared) = (Ready::default(), Arc::new(std::sync::Mutex::new(Vec::new())));
        ready.clear();
        for screen in [1, 2] {
            let cleared = Arc::clone(&cleared);
            ready.clone().becomes(move || cleared.lock().unwrap().push(screen));
            ready.clear();
        }
        assert_eq!(*cleared.lock().unwrap(), [1, 2]);
    }

    #[tokio::test]
    async fn a_question_that_was_given_up_takes_no_answer_from_the_next() {
        let (keys, typed) = mpsc::channel();
        let lines = Lines::of(std::io::BufReader::new(Typed(typed)));
        let soon = Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, lines.next()).await.is_err(), "nobody typed");
        let (line, ()) = tokio::join!(lines.next(), async { keys.send("yes\n").unwrap() });
        assert_eq!(line.as_deref(), Some("yes\n"));
        // What is typed too late is for the question that is gone.
        assert!(tokio::time::timeout(soon, lines.next()).await.is_err(), "nobody typed");
        keys.send("late\n").unwrap();
        tokio::time::sleep(soon).await;
        let answered = tokio::time::timeout(soon, lines.next()).await;
        assert!(answered.is_err(), "{answered:?} was typed before it was asked");
        drop(keys);
        assert_eq!(lines.next().await, None);
    }
}
