//! Decides how the person at the terminal is asked: shown exactly what would run, then what is to
//! be done about it.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use std::sync::{Arc, LazyLock, PoisonError, mpsc};

use futures_util::future::BoxFuture;
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcsetattr};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{Receiver, channel};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::ConfigDigests;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Answer;
use toolgate_kernel::gate::fitting;
use toolgate_kernel::tool::ToolSpec;
use toolgate_runtime::port::{Clock, Pause, Person, Question, Response, Word};
use zeroize::Zeroizing;

use crate::approval_needs::ApprovalNeeds;
use crate::card_code::{CardCode, CardWord};
use crate::console::{hint, on_screen, tell, visible, visible_lines};
use crate::credential;
use crate::environment::Flags;
use crate::host::SystemClock;
use crate::project::Place;
use crate::reading;
use crate::typing::AsBefore;
use crate::visible::exact;

/// Whoever sits at the terminal.
pub(crate) struct AtTerminal {
    place: Place,
    /// The configuration that calls are judged by here.
    digests: Option<ConfigDigests>,
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
    pub(crate) fn here(place: &Place, agent: &Agent, ready: Ready) -> Option<Arc<dyn Person>> {
        let place = place.clone();
        let digests = agent.source.as_deref().map(|source| source.digests);
        attended().then(|| Arc::new(Self { place, digests, ready }) as Arc<dyn Person>)
    }

    async fn answer(&self, question: &Question) -> Option<Response> {
        self.ready.clear();
        forget_typed();
        let needs = ApprovalNeeds::from(question);
        let choice = match choose(question, &needs).await {
            Ok(Some(choice)) => choice,
            Ok(None) => {
                hint("Nothing was decided. The call waits: toolgate approvals list");
                return None;
            }
            Err(error) => {
                tell(&format!("{error:#}"));
                return None;
            }
        };
        if choice.answer == Answer::Approve
            && let Some(refusal) = self.refusal(&needs, choice.args.is_some()).await
        {
            tell(&refusal);
            hint("The call waits: toolgate approvals list");
            return None;
        }
        if choice.answer == Answer::Approve && !self.is_file_unchanged() {
            tell(
                "The configuration changed while the question was on the screen, so your yes is for \
                 something else. Nothing ran.",
            );
            hint("Start again, and you are asked anew. The call waits: toolgate approvals list");
            return None;
        }
        // The key is the person: without it there is no answer.
        let person = match credential::unlock(&self.place).await {
            Ok(person) => person?,
            Err(error) => {
                tell(&format!("{error:#}"));
                return None;
            }
        };
        Some(Response {
            who: Actor::human(&person.name),
            signer: Some(person),
            answer: choice.answer,
            note: choice.note,
            args: choice.args,
            confirmed: choice.confirmed,
            allow: choice.always.then(|| AllowanceTerms::default_from(SystemClock.now())),
            card: choice.card,
        })
    }
}

impl AtTerminal {
    /// Whether the file still says what calls are judged by here.
    fn is_file_unchanged(&self) -> bool {
        let Some(before) = self.digests else { return true };
        let loaded = self.place.load(&Flags::default(), |_| {});
        loaded.is_ok_and(|loaded| {
            let ConfigDigests { reach, gate, rest: _ } = loaded.digests();
            (reach, gate) == (before.reach, before.gate)
        })
    }

    /// Why the approval of the person at the terminal would not count.
    async fn refusal(&self, needs: &ApprovalNeeds, is_edited: bool) -> Option<String> {
        if needs.requires.is_default() {
            return None;
        }
        let known = async {
            let log = self.place.log()?;
            reading::project(log.store.as_ref()).await
        };
        let checked = known.await.and_then(|known| needs.check(&self.place, &known, is_edited));
        checked.err().map(|error| format!("{error:#}"))
    }
}

/// What a person chose to do about a call.
struct Choice {
    answer: Answer,
    note: String,
    args: Option<Map<String, Value>>,
    always: bool,
    /// Arguments whose values were typed.
    confirmed: BTreeSet<String>,
    /// Digest of the lines that were shown.
    card: Digest,
}

/// How often a word may be mistyped.
pub(crate) const TRIES: usize = 3;

/// Shows exactly what would run and asks what is to be done about it. Nothing when nobody answers,
/// or nothing of it is an answer.
async fn choose(question: &Question, needs: &ApprovalNeeds) -> anyhow::Result<Option<Choice>> {
    let about = format!("{} ({})", question.policy, exact(&question.reason));
    let (mut changed, mut shown) = (None, question.args.clone());
    let mut heading = vec![String::new(), format!("{about} asks for your approval.")];
    for _ in 0..EDITS_MAX {
        let code = CardCode::new()?;
        let mut card = std::mem::take(&mut heading);
        card.extend(needs.line().map(|line| format!("  needs {line}")));
        card.extend(would_run(question.tool.as_str(), &shown, Some(&code)));
        let lasting = !question.requires.asks_each_time();
        let always = lasting.then(|| {
            let always = code.with("always");
            format!("`{always}` approves later calls of this kind too, for 8 hours; ")
        });
        let always = always.unwrap_or_default();
        card.push(format!("({always}`edit` changes the arguments; `n WHY` tells the model why)"));
        let Some((word, note)) = card_word(&card, &code, lasting).await else {
            return Ok(None);
        };
        let (answer, always) = match word {
            CardAnswer::Approve => (Answer::Approve, false),
            CardAnswer::Always => (Answer::Approve, true),
            CardAnswer::Deny => (Answer::Deny, false),
            CardAnswer::Edit => {
                let Some(typed) = edited(&question.spec).await else { return Ok(None) };
                if let Some(args) = typed {
                    shown.clone_from(&args);
                    changed = Some(args);
                }
                continue;
            }
        };
        let confirmed = match answer {
            Answer::Approve => needs.confirm(&shown).await,
            Answer::Deny => Some(BTreeSet::new()),
        };
        let Some(confirmed) = confirmed else { return Ok(None) };
        let args = changed.filter(|_| answer == Answer::Approve);
        let card = credential::digest_of(&card);
        return Ok(Some(Choice { answer, note, args, always, confirmed, card }));
    }
    Ok(None)
}

/// How often the arguments of one call may be changed.
const EDITS_MAX: usize = 100;

/// What a person answers to a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CardAnswer {
    Approve,
    /// Approve, and later calls of the kind too.
    Always,
    Deny,
    Edit,
}

/// Shows a card and takes a word for it, with a sentence for the model where it is a no. Nothing when
/// none was typed that counts.
pub(crate) async fn card_word(
    card: &[String],
    code: &CardCode,
    lasting: bool,
) -> Option<(CardAnswer, String)> {
    paged(card).await?;
    for left in (0..TRIES).rev() {
        hint(&code.prompt());
        let typed = line().await?;
        let answer = match code.read(&typed) {
            CardWord::Yes => CardAnswer::Approve,
            CardWord::Always if lasting => CardAnswer::Always,
            CardWord::Edit => CardAnswer::Edit,
            CardWord::No(why) => return Some((CardAnswer::Deny, why.to_owned())),
            CardWord::Blank => return None,
            // A slip of the hand is no answer.
            CardWord::NoCode if left > 0 => {
                hint("A yes takes the code that stands among the arguments.");
                continue;
            }
            CardWord::Always
            | CardWord::Trust
            | CardWord::Restore
            | CardWord::Unknown
            | CardWord::NoCode => {
                hint("That is not one of the answers.");
                continue;
            }
        };
        return Some((answer, String::new()));
    }
    None
}

/// Asks for one word before something is done. A slip of the hand is asked about again.
pub(crate) async fn confirm(word: &str, what: &str) -> Result<bool, Nobody> {
    if !attended() {
        return Err(Nobody);
    }
    forget_typed();
    hint(&format!("\nType {word} to {what}, or leave to change nothing:"));
    for left in (0..TRIES).rev() {
        let Some(said) = line().await else { return Ok(false) };
        match said.trim() {
            said if said == word => return Ok(true),
            "leave" => return Ok(false),
            _ if left > 0 => hint(&format!("That is neither word. Type {word} or leave:")),
            _ => hint("That is neither word again, so it is left."),
        }
    }
    Ok(false)
}

/// Exactly what would run, invisible characters too, with the code of the card among the arguments.
pub(crate) fn would_run(
    tool: &str,
    args: &Map<String, Value>,
    code: Option<&CardCode>,
) -> Vec<String> {
    let head = ["This would run, and nothing else:".to_owned(), format!("  {tool}")];
    let args = serde_json::to_string_pretty(args).unwrap_or_default();
    let rows: Vec<String> = args.lines().map(|line| format!("  {}", exact(line))).collect();
    let rows = match code {
        Some(code) => code.among(rows),
        None => rows,
    };
    head.into_iter().chain(rows).collect()
}

/// Rows below what a person decides on: what it means, the question, and what is typed.
const BELOW: usize = 6;

/// Shows what a person is about to decide on, a screen at a time: nothing of it can pass by unseen.
/// Nothing when the person leaves before its end.
pub(crate) async fn paged(lines: &[String]) -> Option<()> {
    let (broken, rows) = on_screen(lines);
    let page = rows.saturating_sub(BELOW).max(1);
    if broken.len() <= page || !attended() {
        lines.iter().for_each(|line| hint(line));
        return Some(());
    }
    let mut left = broken.len();
    for rows in broken.chunks(page) {
        rows.iter().for_each(|row| hint(row));
        left -= rows.len();
        if left > 0 {
            forget_typed();
            hint(&format!("{left} more lines. Press Enter to see them, or type leave:"));
            if line().await?.trim() == "leave" {
                return None;
            }
        }
    }
    // What was typed while there was more to see is no answer to it.
    forget_typed();
    Some(())
}

/// Arguments that a person types; nothing when they are none that the tool would take.
async fn edited(spec: &ToolSpec) -> Option<Option<Map<String, Value>>> {
    hint("Type the arguments as one line of JSON, or press Enter to leave them:");
    let typed = line().await?;
    if typed.trim().is_empty() {
        return Some(None);
    }
    let args = typed_args(&typed, Some(spec));
    if let Err(error) = &args {
        tell(&format!("{error:#}"));
        hint("The arguments are as before.");
    }
    Some(args.ok())
}

/// Arguments in a person's writing, as the tool would get them.
pub(crate) fn typed_args(
    text: &str,
    spec: Option<&ToolSpec>,
) -> anyhow::Result<Map<String, Value>> {
    let args = serde_json::from_str::<Map<String, Value>>(text)
        .map_err(|error| anyhow::anyhow!("that is no JSON object: {error}"))?;
    let Some(spec) = spec else { return Ok(args) };
    fitting(spec, &args).map_err(|refusal| {
        let troubles = refusal.errors.iter().map(|trouble| {
            // Most messages begin with the path.
            let path = trouble.path.as_deref().filter(|path| !trouble.message.starts_with(path));
            let path = path.map_or(String::new(), |path| format!("{path}: "));
            let allowed = trouble
                .allowed
                .as_ref()
                .map_or(String::new(), |allowed| format!("\n    allowed: {}", allowed.join(", ")));
            visible_lines(&format!("\n  {path}{}{allowed}", trouble.message))
        });
        let troubles: String = troubles.collect();
        anyhow::anyhow!("{} would not take these arguments:{troubles}", spec.name)
    })
}

impl Person for AtTerminal {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        Box::pin(self.answer(question))
    }

    fn go_on<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        Box::pin(async move {
            self.ready.clear();
            forget_typed();
            hint(&format!("\nThe phase changed to {}.", pause.phase));
            if !pause.summary.trim().is_empty() {
                tell(&format!("The model says: {}", visible(&pause.summary)));
            }
            hint("Press Enter to go on, or type what the model should know first:");
            let feedback = line().await?;
            Some(Word { who: Actor::human(&user_name()), feedback })
        })
    }
}

/// What the person at the terminal types next; nothing when nobody is there.
pub(crate) async fn word() -> Option<String> {
    if attended() { line().await } else { None }
}

/// Forgets what was typed before a question is shown: a model could have asked for a yes that is
/// then taken for the answer to something nobody saw.
pub(crate) fn forget_typed() {
    tcflush(stdin(), QueueSelector::IFlush).ok();
}

/// What the person at the terminal types next, and nobody else sees.
pub(crate) async fn secret(asked: &str) -> Option<Zeroizing<String>> {
    let typed = {
        // Before the question: some type as soon as they see it.
        let _quiet = Quiet::begin();
        hint(asked);
        line().await
    };
    hint("");
    typed.map(|line| Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// While this is there, the terminal does not show what is typed.
struct Quiet(#[expect(dead_code, reason = "dropping it shows again")] AsBefore);

impl Quiet {
    fn begin() -> Self {
        let before = AsBefore::now();
        if let Some(mut quiet) = before.0.clone() {
            quiet.local_modes.remove(LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &quiet).ok();
        }
        Self(before)
    }
}

/// Something that only a person decides, where nobody is.
#[derive(Debug)]
pub(crate) struct Nobody;

impl std::error::Error for Nobody {}

impl std::fmt::Display for Nobody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "only a person decides this, and nobody is at a terminal here; nothing was changed",
        )
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
