//! Decides what a person sees of a run: a banner per phase, a line per call, one status line.

mod state;

use std::sync::{Mutex, MutexGuard, PoisonError};

use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{
    Answer, CallRefused, Event, Finish, Origin, Outcome, ProjectEvent, RawCall, Record, Said,
};
use toolgate_kernel::evidence::EvidenceVerdict;
use toolgate_kernel::fold::{Progress, Session};
use toolgate_kernel::names::CallId;
use toolgate_kernel::settings::Settings;

use crate::card::about;
use crate::console::{
    columns, dim, fit, grouped, hanging, mark, put, say, visible, visible_lines, width,
};
use state::{Ended, Quiet, State};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One line per call.
    Lines,
    /// Arguments and results too, as far as the settings let them be shown.
    Full,
}

/// Says how many words the manuscript has.
pub(crate) type Words = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// What somebody at a terminal sees. It is told of events and of words as they come.
pub(crate) struct Live {
    detail: Detail,
    settings: Settings,
    /// How many words the manuscript has, where there is one; no status line without this.
    words: Option<Words>,
    /// Whether it is a conversation: no banners, and nobody is shown their own words.
    talk: bool,
    state: Mutex<State>,
}

impl Live {
    /// A run as it happens, of a session as it stands.
    pub(crate) fn new(detail: Detail, settings: Settings, words: Words, session: &Session) -> Self {
        let state = State {
            phase: session.phase.as_ref().map(ToString::to_string).unwrap_or_default(),
            iteration: session.iteration,
            calls: session.next_call.saturating_sub(1),
            tokens: session.usage.input_tokens.saturating_add(session.usage.output_tokens),
            quiet: Quiet::broken(),
            ..State::default()
        };
        Self { detail, settings, words: Some(words), talk: false, state: Mutex::new(state) }
    }

    /// A conversation as it happens.
    pub(crate) fn talk(detail: Detail, settings: Settings, session: &Session) -> Self {
        let phase = session.phase.as_ref().map(ToString::to_string).unwrap_or_default();
        let state = State { phase, plain: true, quiet: Quiet::broken(), ..State::default() };
        Self { detail, settings, words: None, talk: true, state: Mutex::new(state) }
    }

    /// A run as the log has it.
    pub(crate) fn of_log(detail: Detail) -> Self {
        let settings = Settings::default();
        Self { detail, settings, words: None, talk: false, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows words of the model as they come, wrapped and in the background.
    pub(crate) fn words(&self, text: &str) {
        if !self.settings.stream_console_updates || text.is_empty() {
            return;
        }
        let mut state = self.state();
        state.wipe();
        state.quiet = Quiet::broken();
        state.stream(text);
        state.streamed = true;
    }

    /// The model thinks, and says nothing yet.
    pub(crate) fn thinking(&self) {
        let mut state = self.state();
        state.whole();
        (state.quiet.thinking, state.quiet.writing) = (true, None);
        state.quiet.answering = false;
    }

    /// Words come that are not shown yet.
    pub(crate) fn answering(&self) {
        self.state().quiet.answering = true;
    }

    /// The model writes a call, which may be long and is not shown before it is made.
    pub(crate) fn writing(&self, name: &str, bytes: usize) {
        let mut state = self.state();
        state.whole();
        match &mut state.quiet.writing {
            Some((known, so_far)) if known == name => *so_far = bytes,
            writing => *writing = Some((name.to_owned(), bytes)),
        }
    }

    /// A request failed and is tried again after a while.
    pub(crate) fn waits(&self, reason: &str, ms: u64) {
        let mut state = self.state();
        let seconds = ms.div_ceil(1_000);
        state.quiet = Quiet { again: Some((reason.to_owned(), seconds)), ..Quiet::broken() };
    }

    /// Says what is waited for when nothing came for a while, where a terminal can take it away.
    pub(crate) fn tick(&self) {
        let mut state = self.state();
        // After words, a call begins a line of its own; further words would go on in theirs.
        let free = state.column == 0 || state.quiet.writing.is_some();
        if free && console::user_attended() && state.quiet.tick() {
            state.wipe();
            state.newline();
            self.status(&mut state);
        }
    }

    /// Says that the words so far do not count.
    pub(crate) fn again(&self) {
        let mut state = self.state();
        (state.quiet.writing, state.quiet.answering) = (None, false);
        if std::mem::take(&mut state.streamed) {
            state.wipe();
            state.whole();
            state.line("  (the reply broke off and is asked for again)");
        }
    }

    /// Shows one event of the session.
    pub(crate) fn event(&self, record: &Record<Event>) {
        let mut state = self.state();
        state.wipe();
        state.quiet = Quiet::broken();
        self.show(&mut state, &record.event);
        self.status(&mut state);
    }

    /// Shows what changed in the project without a call: a person's work.
    pub(crate) fn project(&self, record: &Record<ProjectEvent>) {
        let ProjectEvent::ProjectChanged { call: None, reason, .. } = &record.event else { return };
        let mut state = self.state();
        state.wipe();
        state.line(&format!("  » {} ({})", visible(reason), visible(&record.actor.to_string())));
        self.status(&mut state);
    }

    /// Takes the status line away; somebody else has the screen until something comes.
    pub(crate) fn done(&self) {
        let mut state = self.state();
        state.wipe();
        state.quiet = Quiet::default();
        state.whole();
        state.end_words();
    }

    fn show(&self, state: &mut State, event: &Event) {
        match event {
            Event::ConfigBound { phase, .. } => state.phase = phase.to_string(),
            Event::PhaseEntered { phase, from, reason, .. } => {
                state.phase = phase.to_string();
                state.line(&fit(&dim(&format!("  → {from} to {phase}: {}", visible(reason)))));
            }
            Event::ToolsSupplied { notes, .. } => {
                for note in notes {
                    state.line(&fit(&dim(&format!("  ! {}", visible(note)))));
                }
            }
            Event::IterationOpened { iteration, .. } => {
                state.iteration = *iteration;
                if !self.talk {
                    state.banner();
                }
            }
            Event::IterationClosed(closed) => state.closed(closed),
            Event::ModelReplied {
                text,
                calls,
                usage,
                directed,
                repairs,
                finish,
                attempts,
                evidence,
                ..
            } => {
                state.tokens = state.tokens.saturating_add(usage.input_tokens);
                state.tokens = state.tokens.saturating_add(usage.output_tokens);
                state.whole();
                let verdict = evidence.as_deref();
                let is_answer = !matches!(
                    verdict,
                    Some(EvidenceVerdict::NoAnswer {} | EvidenceVerdict::Abstained {})
                );
                if !state.streamed && !text.is_empty() && is_answer {
                    state.flow(&visible_lines(text));
                }
                state.streamed = false;
                state.written.clear();
                state.end_words();
                let remark = match finish {
                    Finish::Refused => Some("a filter stopped it, or it declined"),
                    Finish::Length => Some("it was cut off at its limit"),
                    Finish::Stop if text.trim().is_empty() && calls.is_empty() => {
                        Some("it said nothing")
                    }
                    Finish::Stop | Finish::Calls | Finish::Paused => None,
                };
                remark.iter().for_each(|remark| state.mended(remark));
                if verdict == Some(&EvidenceVerdict::Abstained {}) {
                    state.mended("it abstains: it has nothing to say");
                }
                attempts.iter().for_each(|attempt| state.tried(attempt));
                repairs.iter().for_each(|mended| state.mended(mended));
                directed.iter().for_each(|directed| state.directed(directed));
                state.written.extend(calls.iter().map(|call| (call.id, call.as_ref().clone())));
                state.reply = calls.iter().map(|call| call.id).collect();
            }
            Event::ModelFailed { reason, attempts, .. } => {
                state.whole();
                attempts.iter().for_each(|attempt| state.tried(attempt));
                state.line(&fit(&format!("  ✗ model — {}", visible(reason))));
            }
            Event::CallReceived { call, of } => {
                if let Some(of) = of {
                    state.line(&fit(&format!("  … {of} is made as {}, now approved", call.id)));
                }
                state.written.insert(call.id, call.as_ref().clone());
            }
            Event::CallSettled(settled) => {
                let sign = match settled.outcome {
                    Outcome::Done if settled.envelope.ok => '✓',
                    Outcome::Done | Outcome::Failed => '✗',
                    Outcome::Unknown => '?',
                };
                self.call(state, sign, settled.call, &settled.envelope);
            }
            Event::CallRefused(CallRefused { call, envelope, .. }) => {
                self.call(state, '⊘', *call, envelope);
            }
            Event::CallAsked { call, tool, reason, .. } => {
                let about = written_about(state.written.get(call));
                let reason = visible(reason);
                state.line(&fit(&format!("  … {tool}{about} waits for a person: {reason}")));
            }
            Event::FileConflicted { note, .. } => {
                state.line(&fit(&format!("  ! {}", visible(note))));
            }
            Event::Forked(forked) => {
                let Origin { session, seq, .. } = &forked.from;
                state.line(&fit(&format!("  « forked from {session} at record {seq}")));
                if !forked.note.is_empty() {
                    state.line(&fit(&format!("  « {}", visible(&forked.note))));
                }
            }
            Event::Undone(undone) => {
                state.line(&fit(&format!("  « {}", visible(&undone.note))));
            }
            Event::Heard { said, .. } => {
                let text = match said {
                    Said::Feedback { text, .. } | Said::Stop { reason: text } => text.clone(),
                    Said::Answer(decision) => {
                        let word = if decision.answer == Answer::Approve { "yes" } else { "no" };
                        let sentence = match decision.note.as_str() {
                            "" => String::new(),
                            note => format!(": {note}"),
                        };
                        let changed = match &decision.args {
                            Some(args) => {
                                state.changed(decision.call, args);
                                ", with other arguments"
                            }
                            None => "",
                        };
                        let always =
                            if decision.allow.is_some() { ", for later calls too" } else { "" };
                        format!("{word} to {}{changed}{always}{sentence}", decision.call)
                    }
                    Said::Withdraw { tool, policy } => format!("{policy} asks about {tool} again"),
                    Said::ClearTaint { reason, seen: _ } => {
                        format!("what was read so far is no danger: {reason}")
                    }
                    Said::GoOn {} => return,
                };
                // What is said in a conversation stands on the screen already.
                if !self.talk || said.is_a_decision() {
                    state.said(&text);
                }
            }
            Event::LogRestored { .. } => {
                state.said("the log was restored from a backup; what was decided before lapses");
            }
            // Of a run its title is shown above; a conversation begins with it.
            Event::Opened { title, chat: true, .. } if !self.talk => {
                state.said(title);
            }
            Event::Opened { .. }
            | Event::RequestOpened(_)
            | Event::PlanSent { .. }
            | Event::CallAdmitted(_)
            | Event::CallStarted { .. }
            | Event::StateChanged { .. }
            | Event::Ended { .. } => {}
        }
    }

    /// Shows the calls that are open at the end of a log, and how far they have come.
    pub(crate) fn open_calls(&self, session: &Session) {
        let mut state = self.state();
        while let Some((_, ended)) = state.ended.pop_first() {
            self.ended(&mut state, &ended);
        }
        for open in session.open.iter() {
            let words = how_far(&open.progress);
            let (name, about) = (visible(&open.raw.name), written_about(Some(&open.raw)));
            state.line(&fit(&format!("  {} {name}{about} — {words}", mark('…'))));
        }
    }

    /// Shows what became of a call; one of a reply, after the calls before it in the same reply.
    fn call(&self, state: &mut State, sign: char, id: CallId, envelope: &Envelope) {
        state.calls += 1;
        let raw = state.written.remove(&id);
        let line = call_line(sign, raw.as_ref(), envelope);
        let args = raw.map(|raw| raw.args).unwrap_or_default();
        let data = if envelope.data.is_null() { String::new() } else { envelope.data.to_string() };
        let ended = Ended { line, ok: envelope.ok, args, data };
        if !state.reply.remove(&id) {
            // Calls of others settle as they end, and one of them may never do.
            return self.ended(state, &ended);
        }
        state.ended.insert(id, ended);
        while let Some((first, _)) = state.ended.first_key_value()
            && state.reply.first().is_none_or(|open| first < open)
            && let Some((_, ended)) = state.ended.pop_first()
        {
            self.ended(state, &ended);
        }
    }

    fn ended(&self, state: &mut State, ended: &Ended) {
        state.newline();
        match ended.ok {
            true => say(&fit(&ended.line)),
            // Why a call did not work is worth more than one line.
            false => hanging(&ended.line, 4),
        }
        if self.detail == Detail::Full {
            state.detail("args", &ended.args, self.settings.tool_args_max_chars);
            if !ended.data.is_empty() {
                state.detail("data", &ended.data, self.settings.tool_result_max_chars);
            }
        }
    }

    /// Draws the status line, where a terminal can take it away again.
    fn status(&self, state: &mut State) {
        if state.column > 0 || !console::user_attended() {
            return;
        }
        let waiting = state.waiting();
        let line = match (&self.words, waiting) {
            (None, Some(waiting)) => format!("  {waiting}"),
            (Some(words), waiting) if state.iteration > 0 => {
                let words = words().map(|words| format!(" · {words} words")).unwrap_or_default();
                let place = format!("{} · iteration {}", state.phase, state.iteration);
                let waiting = waiting.map(|text| format!(" · {text}")).unwrap_or_default();
                let figures =
                    format!("{words} · {} calls · {} tokens", state.calls, grouped(state.tokens));
                // What goes on now is worth more than what was.
                let whole = width(&place) + width(&figures) + width(&waiting) < columns();
                let figures = if whole || waiting.is_empty() { &figures } else { "" };
                format!("{place}{figures}{waiting}")
            }
            (None | Some(_), None | Some(_)) => return,
        };
        put(&dim(&console::truncate_str(&line, columns().saturating_sub(1), "…")));
        state.status = true;
    }
}

/// How far an open call has come, in words for people.
fn how_far(progress: &Progress) -> &'static str {
    match progress {
        Progress::Received => "received, and not judged",
        Progress::Asked(_) => "waits for a person",
        Progress::Answered(_) => "a person has answered; not judged again yet",
        Progress::Admitted(_) => "admitted, and not settled",
        Progress::Started(_) => "begun, and not settled: whether it took effect is not known",
    }
}

/// What a call is about, as it was written.
fn written_about(raw: Option<&RawCall>) -> String {
    let about = raw.and_then(|raw| about(&serde_json::from_str(&raw.args).ok()?));
    about.map(|about| format!(" {about}")).unwrap_or_default()
}

/// One line per call: done, failed or refused, what it was about, and why.
fn call_line(sign: char, raw: Option<&RawCall>, envelope: &Envelope) -> String {
    let about = written_about(raw);
    let code = envelope.code().map(|code| format!("{code}: ")).unwrap_or_default();
    let message = if envelope.message.is_empty() { "done" } else { &envelope.message };
    let tool = visible(&envelope.tool);
    format!("  {} {tool}{about} — {code}{}", mark(sign), visible(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_waits_is_shown_before_what_comes_in_its_place() {
        let begun = || {
            let live = Live::of_log(Detail::Lines);
            live.words("Hel");
            assert_eq!(live.state().rest, "Hel");
            live
        };
        for next in [Live::again, Live::thinking, Live::done, |live: &Live| live.writing("x", 1)] {
            let live = begun();
            next(&live);
            assert_eq!(live.state().rest, "");
        }
    }
}
