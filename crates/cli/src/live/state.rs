//! Decides how what is shown comes onto the screen: lines, words that flow, and what is waited for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::time::Instant;
use toolgate_kernel::directive::{Directed, Directive};
use toolgate_kernel::event::{Attempt, Closing, IterationClosed, RawCall};
use toolgate_kernel::names::CallId;

use crate::console::{
    bold, columns, dim, fit, grouped, put, say, visible, visible_lines, width, words, wrapped,
};
use crate::visible::{is_joining, visible_after};

/// Bytes of words that wait for what follows them. No sign has more that belongs to it, and whoever
/// sends nothing else must not be looked through again and again.
const REST_BYTES_MAX: usize = 256;

/// Bytes of a word that waits for its end, so that it is not torn where the line ends. What is longer
/// is no word: there are scripts without blanks.
const WORD_BYTES_MAX: usize = 48;

/// What stands on the screen, and what must be known to go on there.
#[derive(Default)]
pub(super) struct State {
    pub(super) phase: String,
    pub(super) iteration: u64,
    pub(super) calls: u64,
    pub(super) tokens: u64,
    /// The calls that are open, for showing what they are about.
    pub(super) written: BTreeMap<CallId, RawCall>,
    /// Those of them that are of the last reply: they are shown in its order.
    pub(super) reply: BTreeSet<CallId>,
    /// Calls that came to their end before one that was written before them.
    pub(super) ended: BTreeMap<CallId, Ended>,
    /// Whether the words of the next reply were shown as they came.
    pub(super) streamed: bool,
    /// The column the words have come to; zero at the start of a line.
    pub(super) column: usize,
    /// Whether words of this reply were shown, and whether a blank line follows them if more come.
    pub(super) said: bool,
    pub(super) gap: bool,
    /// Whether a status line stands at the bottom.
    pub(super) status: bool,
    /// How long nothing came.
    pub(super) quiet: Quiet,
    /// The end of a piece of words that is understood with the next one.
    pub(super) rest: String,
    /// The last character that was shown of the words.
    pub(super) last: Option<char>,
    pub(super) banner: String,
    /// Whether words are shown as brightly as everything else.
    pub(super) plain: bool,
}

/// A time in which nothing comes.
#[derive(Default)]
pub(super) struct Quiet {
    /// Since when; never while a person is asked.
    pub(super) since: Option<Instant>,
    /// The seconds that are shown.
    pub(super) seconds: u64,
    /// Whether the model thinks.
    pub(super) thinking: bool,
    /// Whether it says something that is not shown yet.
    pub(super) answering: bool,
    /// The call that the model writes, and how many bytes of its arguments have come.
    pub(super) writing: Option<(String, usize)>,
    /// Why the model is asked again, and in how many seconds.
    pub(super) again: Option<(String, u64)>,
}

impl Quiet {
    pub(super) fn broken() -> Self {
        Self { since: Some(Instant::now()), ..Self::default() }
    }

    /// Whether there is something new to show.
    pub(super) fn tick(&mut self) -> bool {
        let seconds = self.since.map_or(0, |since| since.elapsed().as_secs());
        std::mem::replace(&mut self.seconds, seconds) != seconds && seconds > 0
    }
}

/// What is shown of a call that came to its end.
pub(super) struct Ended {
    pub(super) line: String,
    pub(super) ok: bool,
    pub(super) args: String,
    pub(super) data: String,
}

impl State {
    /// A person wrote other arguments for a call; they are what it is about.
    pub(super) fn changed(&mut self, call: CallId, args: &Value) {
        if let Some(raw) = self.written.get_mut(&call) {
            raw.args = args.to_string();
        }
    }

    /// Takes the status line away before something else is printed.
    pub(super) fn wipe(&mut self) {
        if std::mem::take(&mut self.status) {
            put("\r\u{1b}[2K");
        }
    }

    /// What is waited for, and for how long, once that is a second.
    pub(super) fn waiting(&self) -> Option<String> {
        let Quiet { seconds, thinking, answering, again, writing, .. } = &self.quiet;
        let (seconds, thinking, answering) = (*seconds, *thinking, *answering);
        if let Some((reason, all)) = again.as_ref().filter(|(_, all)| seconds > 0 && seconds < *all)
        {
            return Some(format!("{}; trying again in {} s", visible(reason), all - seconds));
        }
        let what = match (self.written.values().next(), writing) {
            (Some(call), _) => format!("running {}…", visible(&call.name)),
            (None, Some((name, bytes))) => {
                let name = if name.is_empty() { "a call".to_owned() } else { visible(name) };
                let bytes = u64::try_from(*bytes).unwrap_or(u64::MAX);
                format!("writing {name}… {} bytes,", grouped(bytes))
            }
            (None, None) if answering => "the model is answering…".to_owned(),
            (None, None) if thinking => "thinking…".to_owned(),
            (None, None) => "waiting for the model…".to_owned(),
        };
        (seconds > 0).then(|| format!("{what} {seconds} s"))
    }

    pub(super) fn newline(&mut self) {
        if self.column > 0 {
            say("");
            self.column = 0;
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        self.end_words();
        say(line);
    }

    /// The words are over: what comes next begins a line, and no blank one is owed.
    pub(super) fn end_words(&mut self) {
        self.newline();
        (self.said, self.gap) = (false, false);
    }

    /// A banner per phase, and a quiet line per further iteration in it.
    pub(super) fn banner(&mut self) {
        self.newline();
        let iteration = format!("iteration {}", self.iteration);
        if self.banner == self.phase {
            return say(&dim(&format!("  · {iteration}")));
        }
        self.banner.clone_from(&self.phase);
        let title = format!("━━ {} ", self.phase);
        let rest = columns().saturating_sub(width(&title) + width(&iteration) + 4);
        say("");
        say(&fit(&format!("{}{} {iteration} ━━", bold(&title), "━".repeat(rest))));
    }

    /// What somebody said, line by line.
    pub(super) fn said(&mut self, text: &str) {
        for (at, line) in visible_lines(text.trim_end()).lines().enumerate() {
            let sign = if at == 0 { '»' } else { ' ' };
            self.line(&fit(&format!("  {sign} {line}")));
        }
    }

    /// A try that failed before a reply, or before the last failure.
    pub(super) fn tried(&mut self, attempt: &Attempt) {
        self.mended(&format!("model — a try failed: {}", attempt.reason));
    }

    /// What was mended in a reply.
    pub(super) fn mended(&mut self, mended: &str) {
        self.line(&fit(&dim(&format!("  ~ {}", visible(mended)))));
    }

    /// The directives of a reply, and what was dropped.
    pub(super) fn directed(&mut self, directed: &Directed) {
        for Directive { kind, payload } in &directed.directives {
            let payload = Value::Object(payload.clone()).to_string();
            self.line(&fit(&format!("  ◆ {} {}", visible(kind), visible(&payload))));
        }
        for warning in &directed.warnings {
            self.line(&fit(&dim(&format!("  ~ {}: {}", warning.code, visible(&warning.message)))));
        }
        if !directed.ok {
            let code = directed.tried.last().and_then(|tried| tried.code.as_deref());
            let code = code.unwrap_or("no form was possible");
            self.line(&fit(&dim(&format!("  ~ no directives could be read ({code})"))));
        }
    }

    pub(super) fn closed(&mut self, closed: &IterationClosed) {
        match closed.closing {
            // Why the model failed was just said.
            Closing::Done | Closing::PhaseChanged | Closing::Stopped | Closing::Failed => {}
            Closing::CallLimit
            | Closing::ContextLimit
            | Closing::TurnLimit
            | Closing::Refused
            | Closing::Rejected
            | Closing::Truncated => {
                let note = visible(&closed.note);
                self.line(&fit(&dim(&format!("  · iteration {} ended: {note}", closed.iteration))));
            }
        }
    }

    /// Lets a piece of words flow. What can only be told with the next piece waits for it, and so does
    /// a word that may go on there.
    pub(super) fn stream(&mut self, piece: &str) {
        self.rest.push_str(piece);
        let waits = self.rest.len() <= REST_BYTES_MAX;
        let told = self.rest.trim_end_matches(|c| waits && is_joining(c));
        let word = told.rfind([' ', '\n']).map_or(0, |blank| blank + 1);
        let end = if told.len() - word <= WORD_BYTES_MAX { word } else { told.len() };
        let rest = self.rest.split_off(end);
        let ready = std::mem::replace(&mut self.rest, rest);
        let text = visible_after(&mut self.last, &ready);
        self.flow(&text);
    }

    /// No piece comes any more, or something else comes first.
    pub(super) fn whole(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.wipe();
            let text = visible_after(&mut self.last, &rest);
            self.flow(&text);
        }
        self.last = None;
    }

    /// Lets words flow, wrapped at the terminal's edge, two columns in.
    pub(super) fn flow(&mut self, text: &str) {
        let edge = columns().saturating_sub(2);
        for (at, line) in text.split('\n').enumerate() {
            // A blank line among the words is kept; before and after them it says nothing.
            if at > 0 && self.column == 0 {
                self.gap = self.said;
            } else if at > 0 {
                self.newline();
            }
            for word in words(line, edge.saturating_sub(2)) {
                let wide = width(word.trim_end());
                if self.column > 2 && self.column + wide > edge {
                    self.newline();
                }
                if self.column == 0 {
                    put(if std::mem::take(&mut self.gap) { "\n  " } else { "  " });
                    self.column = 2;
                    self.said = true;
                }
                put(&if self.plain { word.clone() } else { dim(&word) });
                self.column += width(&word);
            }
        }
    }

    pub(super) fn detail(&mut self, what: &str, text: &str, chars_max: u64) {
        let max = usize::try_from(chars_max).unwrap_or(usize::MAX);
        let mut shown: String = text.chars().take(max).collect();
        if text.chars().count() > max {
            shown.push('…');
        }
        let edge = columns().saturating_sub(2);
        for line in visible_lines(&format!("    {what}: {shown}")).lines() {
            for part in wrapped(line, 6, edge) {
                put(&format!("{}\n", if self.plain { part } else { dim(&part) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_join_nothing_do_not_wait_without_end() {
        let mut state = State::default();
        for _ in 0..10_000 {
            state.stream("\u{301}");
            assert!(state.rest.len() <= REST_BYTES_MAX);
        }
    }

    #[test]
    fn a_word_waits_for_its_end_and_not_without_end() {
        let mut state = State::default();
        for (piece, waits) in [
            ("of oil a", "a"),
            ("nd", "and"),
            (" rain", "rain"),
            (".\n", ""),
            ("\u{301}b", "\u{301}b"),
            (" ", ""),
        ] {
            state.stream(piece);
            assert_eq!(state.rest, waits, "{piece:?}");
        }
        for _ in 0..1_000 {
            state.stream("字");
            assert!(state.rest.len() <= WORD_BYTES_MAX);
        }
        state.whole();
        assert_eq!(state.rest, "");
    }

    #[test]
    fn what_is_waited_for_is_told_after_a_second() {
        let mut state = State::default();
        assert_eq!(state.waiting(), None, "nobody asked");
        assert!(!state.quiet.tick(), "a person is asked");
        state.quiet = Quiet::broken();
        assert!(!state.quiet.tick() && state.waiting().is_none(), "it just began");
        state.quiet.since = Instant::now().checked_sub(std::time::Duration::from_millis(2_500));
        assert!(state.quiet.tick());
        assert!(!state.quiet.tick(), "it is shown once a second");
        assert_eq!(state.waiting().as_deref(), Some("waiting for the model… 2 s"));
        state.quiet.again = Some(("the server answered 429".to_owned(), 8));
        let told = "the server answered 429; trying again in 6 s";
        assert_eq!(state.waiting().as_deref(), Some(told));
        state.quiet.again = None;
        state.quiet.thinking = true;
        assert_eq!(state.waiting().as_deref(), Some("thinking… 2 s"));
        state.quiet.answering = true;
        assert_eq!(state.waiting().as_deref(), Some("the model is answering… 2 s"));
        state.quiet.writing = Some(("append\u{1b}".to_owned(), 12_345));
        let told = "writing append<U+001B>… 12,345 bytes, 2 s";
        assert_eq!(state.waiting().as_deref(), Some(told));
        state.quiet.writing = Some((String::new(), 0));
        assert_eq!(state.waiting().as_deref(), Some("writing a call… 0 bytes, 2 s"));
    }
}
