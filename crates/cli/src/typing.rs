//! Decides how a person types: lines with a history, several of them when one is not enough.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

/// Lines that the history keeps.
const HISTORY_LINES: usize = 1_000;

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 100_000;

fn too_long() -> String {
    format!(
        "a message has at most {MESSAGE_BYTES_MAX} bytes, and this one has more; send it in parts"
    )
}

/// What came of asking for words.
pub(crate) enum Typed {
    /// Words.
    Said(String),
    /// Ctrl-C on the line: it is thrown away.
    Nothing,
    /// The input is closed.
    Closed,
}

/// Where words come from.
pub(crate) enum Typing {
    /// A person at a terminal.
    Terminal(Arc<Mutex<Editor<Several, FileHistory>>>, Option<PathBuf>),
    /// A program, line by line.
    Pipe,
}

impl Typing {
    /// Asks whoever is there. The history is kept in the file, for this user alone.
    pub(crate) fn begin(history: Option<PathBuf>) -> Result<Self> {
        if !std::io::stdin().is_terminal() {
            return Ok(Self::Pipe);
        }
        let config = Config::builder().max_history_size(HISTORY_LINES)?.auto_add_history(true);
        let mut editor = Editor::with_config(config.build())?;
        editor.set_helper(Some(Several));
        // A history that cannot be read is no reason not to talk.
        if let Some(path) = &history {
            drop(editor.load_history(path));
        }
        Ok(Self::Terminal(Arc::new(Mutex::new(editor)), history))
    }

    /// Whether a person is there.
    pub(crate) fn attended(&self) -> bool {
        matches!(self, Self::Terminal(..))
    }

    /// The next words. Waiting for them keeps nothing else from going on.
    pub(crate) async fn next(&self, prompt: &str) -> Result<Typed> {
        let prompt = prompt.to_owned();
        let typed = match self {
            Self::Pipe => {
                tokio::task::spawn_blocking(|| piped(&mut std::io::stdin().lock())).await??
            }
            Self::Terminal(editor, history) => {
                let (editor, history) = (Arc::clone(editor), history.clone());
                let read = move || {
                    let mut editor = editor.lock().unwrap_or_else(PoisonError::into_inner);
                    let line = editor.readline(&prompt);
                    // Whoever is killed later has lost nothing that was typed.
                    if let Some(path) = history.filter(|_| line.is_ok()) {
                        keep(&mut editor, &path);
                    }
                    line
                };
                // Whoever waits no longer leaves the terminal as it was found.
                let _mode = AsBefore::now();
                match tokio::task::spawn_blocking(read).await? {
                    Ok(line) => Typed::Said(joined(&line)),
                    Err(ReadlineError::Interrupted) => Typed::Nothing,
                    // A terminal that is gone says nothing any more, however often it is asked.
                    Err(ReadlineError::Eof | ReadlineError::Io(_) | ReadlineError::Errno(_)) => {
                        Typed::Closed
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        if let Typed::Said(text) = &typed {
            ensure!(text.len() <= MESSAGE_BYTES_MAX, too_long());
        }
        Ok(typed)
    }
}

/// How the terminal was; it is so again when this is dropped.
pub(crate) struct AsBefore(pub(crate) Option<Termios>);

impl AsBefore {
    pub(crate) fn now() -> Self {
        Self(tcgetattr(stdin()).ok())
    }
}

impl Drop for AsBefore {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            tcsetattr(stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Keeps what was typed since the last time, for this user alone. A history that cannot be written
/// is no reason not to talk.
fn keep<H: Helper>(editor: &mut Editor<H, FileHistory>, path: &Path) {
    drop(editor.append_history(path));
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        drop(std::fs::set_permissions(path, mode));
    }
}

/// The next message of a program: a line, or several that belong together.
fn piped(source: &mut impl BufRead) -> Result<Typed> {
    let mut bytes = Vec::new();
    loop {
        let room = u64::try_from(MESSAGE_BYTES_MAX + 1 - bytes.len())?;
        let read = std::io::Read::take(&mut *source, room).read_until(b'\n', &mut bytes);
        let over = read.context("the input could not be read")? == 0;
        ensure!(bytes.len() <= MESSAGE_BYTES_MAX, too_long());
        let text = std::str::from_utf8(&bytes)
            .context("a line of the input is not UTF-8; nothing of it was sent")?;
        if bytes.is_empty() {
            return Ok(Typed::Closed);
        }
        if over || !is_open(text.trim_end_matches(['\r', '\n'])) {
            return Ok(Typed::Said(joined(text)));
        }
    }
}

/// Lines that belong together: each but the last ends with a backslash, or three quotes stand
/// around them.
pub(crate) struct Several;

fn is_open(text: &str) -> bool {
    text.ends_with('\\') || text.matches("\"\"\"").count() % 2 == 1
}

/// The words without the marks that held them together.
fn joined(text: &str) -> String {
    let text = text.trim();
    let quoted = text.strip_prefix("\"\"\"").and_then(|text| text.strip_suffix("\"\"\""));
    match quoted {
        Some(inside) => inside.trim().to_owned(),
        None => text.replace("\\\n", "\n"),
    }
}

impl Validator for Several {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = is_open(context.input());
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

/// The commands, completed with the tab key.
impl Completer for Several {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let start = line.get(..at).unwrap_or_default();
        let fits = |word: &&&str| start.starts_with('/') && word.starts_with(start);
        let words = super::command::chat_commands::COMMANDS.iter().map(|(word, _)| word);
        Ok((0, words.filter(fits).map(|word| (*word).to_owned()).collect()))
    }
}

impl Hinter for Several {
    type Hint = String;
}

impl Highlighter for Several {}

impl Helper for Several {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_lines_are_one_message() {
        for (text, open) in [
            ("one", false),
            ("one \\", true),
            ("\"\"\"one\ntwo", true),
            ("\"\"\"one\ntwo\"\"\"", false),
        ] {
            assert_eq!(is_open(text), open, "{text}");
        }
        assert_eq!(joined("one \\\ntwo"), "one \ntwo");
        assert_eq!(joined("\"\"\"\none\ntwo\n\"\"\""), "one\ntwo");
    }

    #[test]
    fn a_program_sends_messages_as_a_person_does() {
        let all = |bytes: &[u8]| -> Vec<String> {
            let (mut source, mut said) = (bytes, Vec::new());
            loop {
                match piped(&mut source) {
                    Ok(Typed::Said(text)) => said.push(text),
                    Ok(Typed::Nothing | Typed::Closed) => return said,
                    Err(error) => {
                        said.push(format!("error: {error}"));
                        return said;
                    }
                }
            }
        };
        let utf = "error: a line of the input is not UTF-8; nothing of it was sent".to_owned();
        let long = "x".repeat(MESSAGE_BYTES_MAX + 1);
        for (bytes, said) in [
            ("one\ntwo".as_bytes(), vec!["one".to_owned(), "two".to_owned()]),
            (b"\"\"\"\na\nb\n\"\"\"\nc\n", vec!["a\nb".to_owned(), "c".to_owned()]),
            (b"a \\\nb\n", vec!["a \nb".to_owned()]),
            (b"good\nbad \xff\xfe\nmore\n", vec!["good".to_owned(), utf]),
            (b"\"\"\"\nleft open", vec!["\"\"\"\nleft open".to_owned()]),
            (long.as_bytes(), vec![format!("error: {}", too_long())]),
        ] {
            assert_eq!(all(bytes), said);
        }
    }

    #[test]
    fn what_was_typed_is_kept_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.history");
        let mut editor = Editor::<Several, FileHistory>::new().unwrap();
        for line in ["one", "two\nlines", "three"] {
            editor.add_history_entry(line).unwrap();
            keep(&mut editor, &path);
        }
        // Nothing says goodbye here; the next one finds everything.
        let mut later = Editor::<Several, FileHistory>::new().unwrap();
        later.load_history(&path).unwrap();
        let lines: Vec<&String> = later.history().iter().collect();
        assert_eq!(lines, ["one", "two\nlines", "three"]);
        #[cfg(unix)]
        {
            let mode = std::fs::metadata(&path).unwrap().permissions();
            assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        }
    }
}
