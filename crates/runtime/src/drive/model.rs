//! Decides how a model drives a session: ask, judge, run, until `next` says stop.

use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Asked as HowAsked, Attempt, Change, Closing, Ending, Event, FaultKind, Finish, RawCall, Usage,
    Worth,
};
use toolgate_kernel::evidence::EvidenceVerdict;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::next::{Opening, Step, close, next, tries_toolless};
use toolgate_kernel::plan::{Choice, Plan, messages};
use toolgate_kernel::section::Home;

use super::ask::LOOK_MS;
use super::{DriveFault, Driver};
use crate::authority::Author;
use crate::execute::within;
use crate::port::{Provider, ProviderFault, Reply, Streamed, Tap};

/// Why a run came to a halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// The session ended.
    Ended(Ending, String),
    /// A person's word is due, and nobody is there. The session can be taken up again.
    Waiting(String),
    /// It is a person's turn to say something; why, when a limit was reached.
    Listening(String),
    /// The model cannot be used now. The session can be taken up again.
    ModelFailed(String),
}

/// Characters that are kept of words whose reply broke off.
const PARTIAL_CHARS_MAX: usize = 4_000;

/// What a request to the model came to.
enum Asked {
    /// A reply.
    Replied,
    /// A reply that is not accepted: the log says what follows.
    Rejected,
    /// No reply to so many requests; trying again may help, after so many milliseconds at least.
    Failed(u64, u64),
    /// No reply, and trying again will not help.
    Useless(String),
}

impl Driver {
    /// Drives the session to its end, or to where a person's word is due or the model cannot be
    /// used. It goes on where the log ends, so a resume is just this.
    pub async fn run(&mut self, tap: Tap<'_>) -> Result<Halt, DriveFault> {
        self.enter()?;
        let (mut failures, mut rest_ms) = (0, 0);
        loop {
            self.tick();
            self.runtime.catch_up().await?;
            self.take_in().await?;
            self.hear().await?;
            self.resupply().await?;
            if self.cancel.is_cancelled()
                && self.session.ended.is_none()
                && self.session.open.is_empty()
            {
                return self.end(Ending::Stopped, "cancelled".to_owned()).await;
            }
            let project = self.runtime.project().0;
            let step = next(&self.crew.agent, &self.world(&project));
            match step {
                Step::OpenIteration(opening) => self.open_iteration(opening)?,
                Step::CloseIteration(closed) => {
                    let (note, failed) = (closed.note.clone(), closed.closing == Closing::Failed);
                    self.note(&Actor::System, Event::IterationClosed(closed))?;
                    if failed && !self.session.chat && !self.retry(failures, rest_ms, tap).await? {
                        let times = if failures == 1 { "time" } else { "times in a row" };
                        let reason = format!("the model failed {failures} {times}: {note}");
                        return Ok(Halt::ModelFailed(reason));
                    }
                }
                Step::AskModel(plan) => match self.ask_model(plan, tap).await? {
                    Asked::Replied | Asked::Rejected => failures = 0,
                    Asked::Failed(requests, ms) => {
                        failures += requests;
                        rest_ms = ms;
                    }
                    Asked::Useless(reason) => {
                        if !self.session.chat {
                            self.close(Closing::Failed, &reason)?;
                        }
                        self.flush().await?;
                        return Ok(Halt::ModelFailed(reason));
                    }
                },
                Step::Listen(why) => {
                    self.flush().await?;
                    return Ok(Halt::Listening(why));
                }
                Step::Judge(raws) => self.judge(&raws).await?,
                Step::AskPerson(id) => self.ask(id).await?,
                Step::TakeUp(id) => self.take_up(id)?,
                Step::AskToGoOn => {
                    if let Some(waiting) = self.ask_to_go_on().await? {
                        return Ok(waiting);
                    }
                }
                Step::Run(ids) => {
                    self.run_calls(&ids).await?;
                    self.flush().await?;
                }
                Step::Stop(ending, note) => return self.end(ending, note).await,
            }
        }
    }

    /// Moves the session to another phase from outside. The configuration's transitions bind the
    /// model, not whoever operates the session; the phase must exist.
    pub async fn move_to(
        &mut self,
        actor: &Actor,
        phase: &PhaseName,
        reason: &str,
    ) -> Result<(), DriveFault> {
        if self.crew.agent.phase(phase).is_none() {
            return Err(DriveFault::NoPhase(phase.clone()));
        }
        self.enter_open()?;
        self.tick();
        let Some(from) = self.session.phase.clone() else { return Err(DriveFault::Stopped) };
        if from == *phase {
            return Ok(());
        }
        let (phase, reason) = (phase.clone(), reason.to_owned());
        self.note(actor, Event::PhaseEntered { phase, from, reason, call: None })?;
        self.flush().await
    }

    /// Changes the session's state on a person's word; the kernel refuses everybody else.
    pub async fn change<'a>(
        &mut self,
        author: impl Into<Author<'a>>,
        changes: Vec<Change>,
        reason: &str,
    ) -> Result<(), DriveFault> {
        let toolset = &self.crew.agent.toolset;
        let here = |key: &&Key| {
            toolset.family(key.family()).is_some_and(|family| family.home == Home::Session)
        };
        if let Some(key) = changes.iter().filter_map(Change::key).find(|key| !here(key)) {
            return Err(DriveFault::NotHere(key.clone()));
        }
        self.enter_open()?;
        // What cannot be made must not be written down: folding takes the log at its word.
        let mut state = self.session.state.clone();
        changes.iter().try_for_each(|change| state.apply(change))?;
        let event = Event::StateChanged { changes, reason: reason.to_owned() };
        let author = self.runtime.vouch(author.into(), &self.stream, &event).await?;
        self.tick();
        self.note(author, event)?;
        self.flush().await
    }

    async fn end(&mut self, ending: Ending, note: String) -> Result<Halt, DriveFault> {
        if self.session.ended.is_none() {
            self.close(Closing::Stopped, &note)?;
            self.note(&Actor::System, Event::Ended { ending, note: note.clone() })?;
        }
        self.flush().await?;
        Ok(Halt::Ended(ending, note))
    }

    /// Writes the row of the open iteration, when there is one.
    fn close(&mut self, closing: Closing, note: &str) -> Result<(), DriveFault> {
        let project = self.runtime.project().0;
        match close(&self.crew.agent, &self.world(&project), closing, note) {
            Some(row) => self.note(&Actor::System, Event::IterationClosed(Box::new(row))),
            None => Ok(()),
        }
    }

    /// Waits before the model is asked again, so long at least; `false` when it failed too often.
    async fn retry(
        &mut self,
        failures: u64,
        rest_ms: u64,
        tap: Tap<'_>,
    ) -> Result<bool, DriveFault> {
        self.flush().await?;
        let limits = &self.crew.agent.limits;
        if failures >= limits.model_failures_max {
            return Ok(false);
        }
        let left_ms = limits.run_ms_max.saturating_sub(self.session.driven_ms);
        let ms = limits.retry_ms_max.max(rest_ms).min(left_ms);
        // Whoever watches cannot disturb what is watched.
        let waits = || tap(Streamed::Waits { reason: "the model failed", ms });
        let _ = catch_unwind(AssertUnwindSafe(waits));
        self.wait(ms).await?;
        Ok(true)
    }

    /// Waits so long, and hears meanwhile what others say. Whoever is told to stop waits no more.
    async fn wait(&mut self, ms: u64) -> Result<(), DriveFault> {
        let (began, whole) = (tokio::time::Instant::now(), Duration::from_millis(ms));
        while self.session.stop.is_none() && !self.cancel.is_cancelled() {
            let left = whole.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(Duration::from_millis(LOOK_MS))).await;
            self.tick();
            self.hear().await?;
        }
        Ok(())
    }

    fn open_iteration(&mut self, opening: Opening) -> Result<(), DriveFault> {
        let Opening { iteration, system, input, profile } = opening;
        let prompt = Digest::of(system.as_bytes());
        let event = Event::IterationOpened { iteration, prompt, system, input, profile };
        self.note(&Actor::System, event)
    }

    async fn ask_model(&mut self, mut plan: Box<Plan>, tap: Tap<'_>) -> Result<Asked, DriveFault> {
        let Some(provider) = self.crew.provider.clone() else {
            return Ok(Asked::Useless("no model is configured".to_owned()));
        };
        // What was said before is durable, and shown, before more is said and paid for.
        self.flush().await?;
        self.look_up_pictures(&mut plan).await?;
        let model = provider.name().to_owned();
        let actor = Actor::Model(model.as_str().into());
        // Where no tool may be called, those that are sent are only there to be known.
        let callable = plan.tools.iter().filter(|_| plan.choice != Choice::None);
        let tools = callable.map(|tool| tool.name.clone()).collect();
        let (turn, notes, tokens_estimated) =
            (plan.turn, plan.notes.clone(), plan.tokens_estimated);
        let plan_hash = Digest::link(plan.fingerprint, &provider.options().0);
        let asked = if self.asked { None } else { self.how_asked(provider.as_ref()) };
        self.asked = true;
        let messages = messages(&self.session, &plan);
        let sent = Event::PlanSent {
            turn,
            model,
            plan: plan_hash,
            tools,
            notes,
            tokens_estimated,
            messages,
            asked,
        };
        self.note(&Actor::System, sent)?;
        let holds = self.holds_words();
        let reply = self.reply(provider.as_ref(), &plan, tap).await;
        self.tick();
        let (reply, evidence, why) = match reply {
            Err(fault) => (Err(fault), None, None),
            Ok(reply) => match self.check_reply(&plan, &reply).await? {
                Ok(verdict) => (Ok(reply), verdict, None),
                Err(rejected) => (Err(rejected.fault), None, rejected.evidence),
            },
        };
        match reply {
            Ok(reply) => {
                // Words that were kept back are shown once they are accepted.
                let shown = !matches!(
                    evidence,
                    Some(EvidenceVerdict::NoAnswer {} | EvidenceVerdict::Abstained {})
                );
                if holds && shown {
                    let _ = catch_unwind(AssertUnwindSafe(|| tap(Streamed::Freed(&reply.text))));
                }
                let name_max = self.crew.agent.limits.call_name_bytes_max;
                let named = |name: &str| Actor::Model((&*bounded_text(name, name_max)).into());
                let answered = reply.model.as_deref().map(named);
                let event = self.replied(turn, reply, evidence);
                self.note(answered.as_ref().unwrap_or(&actor), event)?;
                Ok(Asked::Replied)
            }
            Err(ProviderFault { kind, reason, attempts, partial, parks, status, usage }) => {
                let rest_ms = provider.rest_ms();
                let reason_max = self.crew.agent.limits.fault_bytes_max;
                let reason = bounded_text(&reason, reason_max).into_owned();
                let attempts = self.bounded_attempts(attempts);
                let told = reason.clone();
                let before = u64::try_from(attempts.len()).unwrap_or(u64::MAX);
                // Of a whole reply all the words are kept that its check left.
                let chars_max = if kind.rejects_reply() { usize::MAX } else { PARTIAL_CHARS_MAX };
                let partial = partial.chars().take(chars_max).collect();
                let fault = kind;
                let failed = Event::ModelFailed {
                    turn,
                    reason,
                    fault,
                    attempts,
                    partial,
                    status,
                    usage,
                    evidence: why,
                };
                self.note(&Actor::System, failed)?;
                self.flush().await?;
                if fault.rejects_reply() {
                    return Ok(Asked::Rejected);
                }
                let again = tries_toolless(&self.crew.agent, &self.session);
                // A fresh context may help; the very same words do not. In a conversation the
                // person decides whether to ask again.
                let same = kind.about_the_request() && self.session.turns.is_empty();
                // What the model wrote wrongly twice it writes wrongly again.
                let repeated = kind.worth() == Worth::Once && before > 0;
                // A provider that is left alone for a while can be waited for.
                let rests = kind == FaultKind::CircuitOpen && rest_ms.is_some();
                let passing = kind.passing() || rests;
                let useless = !passing || parks || same || repeated || self.session.chat;
                let requests = before.saturating_add(1);
                Ok(if useless && !again {
                    Asked::Useless(told)
                } else {
                    Asked::Failed(requests, rest_ms.unwrap_or(0))
                })
            }
        }
    }

    /// Writes down that the driving was given up while the model was answering, with the words that
    /// came so far. Whatever else was under way a resume settles, as after a crash.
    pub async fn park(&mut self) -> Result<(), DriveFault> {
        if !self.session.asking {
            return Ok(());
        }
        self.tick();
        let Partial { words: partial, before, now } = take(&mut *lock(&self.partial));
        let failed = Event::ModelFailed {
            turn: self.session.turn,
            reason: "stopped while the model was answering".to_owned(),
            fault: FaultKind::Stopped,
            attempts: Vec::new(),
            partial,
            status: None,
            usage: counted(before.plus(&now)),
            evidence: None,
        };
        self.note(&Actor::System, failed)?;
        self.flush().await
    }

    /// How tools are asked for, when it is not as the last time.
    fn how_asked(&self, provider: &dyn Provider) -> Option<Arc<HowAsked>> {
        let calling = &self.crew.agent.tool_calling;
        let asked = HowAsked {
            tool_use_mode: calling.mode().to_owned(),
            tool_failure_policy: calling.failure_policy().to_owned(),
            tool_choice: calling.choice.face(),
            toolless_retries: calling.toolless_retries,
            transforms: provider.transforms(),
        };
        (self.session.asked.as_deref() != Some(&asked)).then(|| Arc::new(asked))
    }

    /// Puts the bytes of every picture into a plan, as many as there is room for.
    async fn look_up_pictures(&mut self, plan: &mut Plan) -> Result<(), DriveFault> {
        // Pictures of earlier turns were looked up when they were new, unless by another driver.
        let anew = self.pictures.begin(plan.iteration);
        let turns = plan.turns.iter().filter(|_| anew);
        let beside = turns.flat_map(|turn| &turn.images);
        let all = plan.images.iter().chain(beside).chain(&plan.feedback_images);
        let bytes_max = self.crew.agent.limits.pictures_bytes_max;
        for hash in all.map(|image| image.hash) {
            if !self.pictures.holds(hash)
                && let Some(bytes) = self.runtime.store.blob(hash).await?
            {
                self.pictures.keep(hash, bytes, bytes_max);
            }
        }
        plan.pictures.clone_from(self.pictures.shown());
        Ok(())
    }

    async fn reply(
        &mut self,
        provider: &dyn Provider,
        plan: &Plan,
        tap: Tap<'_>,
    ) -> Result<Reply, ProviderFault> {
        let limits = &self.crew.agent.limits;
        // No reply is waited for longer than the run may take.
        let left_ms = limits.run_ms_max.saturating_sub(self.session.driven_ms).saturating_add(1);
        let ms = provider.turn_ms_max().unwrap_or(limits.reply_ms_max).min(left_ms);
        let partial = Arc::clone(&self.partial);
        *lock(&partial) = Partial::default();
        let holds = self.holds_words();
        let tap = |streamed: Streamed<'_>| {
            lock(&partial).keep(&streamed);
            let streamed = match streamed {
                Streamed::Text(text) if holds => Streamed::Held(text),
                Streamed::Freed(_) if holds => return,
                Streamed::Text(_)
                | Streamed::Held(_)
                | Streamed::Freed(_)
                | Streamed::Thought(_)
                | Streamed::Call { .. }
                | Streamed::Counted(_)
                | Streamed::Waits { .. }
                | Streamed::Again => streamed,
            };
            // Whoever watches cannot disturb what is watched.
            let _ = catch_unwind(AssertUnwindSafe(|| tap(streamed)));
        };
        let reply = within(ms, pin!(provider.reply(plan, &mut self.desk, &tap))).await;
        let late = || {
            let Partial { words: partial, before, now } = take(&mut *lock(&self.partial));
            let usage = counted(before.plus(&now));
            let reason = format!("no reply within {ms} ms");
            ProviderFault { partial, usage, ..ProviderFault::new(FaultKind::TimedOut, reason) }
        };
        let reply = reply.ok_or_else(late).flatten()?;
        let calls = reply.calls.iter().map(|call| call.name.len() + call.args.len());
        let native = reply.native.as_ref().map_or(0, |native| native.content.to_string().len());
        let bytes = reply.text.len() + calls.sum::<usize>() + native;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let bytes_max = self.crew.agent.limits.reply_bytes_max;
        if bytes > bytes_max {
            let reason = format!("the reply has {bytes} bytes; at most {bytes_max} are taken");
            return Err(ProviderFault::of_reply(FaultKind::Unreadable, reason, reply));
        }
        let calls = u64::try_from(reply.calls.len()).unwrap_or(u64::MAX);
        let calls_max = self.crew.agent.limits.reply_calls_max;
        if calls > calls_max {
            let reason = format!("the reply has {calls} calls; at most {calls_max} are taken");
            return Err(ProviderFault::of_reply(FaultKind::Unreadable, reason, reply));
        }
        // A reply that was cut off may hold half a call; nothing of it runs.
        match reply.finish {
            Finish::Length if !reply.calls.is_empty() => {
                let reason = "the reply was cut off inside its calls";
                Err(ProviderFault::of_reply(FaultKind::Truncated, reason, reply))
            }
            Finish::Stop | Finish::Calls | Finish::Length | Finish::Refused | Finish::Paused => {
                Ok(reply)
            }
        }
    }

    /// Tries that failed, with the provider's words about each cut where they are too long.
    fn bounded_attempts(&self, mut attempts: Vec<Attempt>) -> Vec<Attempt> {
        let max = self.crew.agent.limits.fault_bytes_max;
        for attempt in &mut attempts {
            attempt.reason = bounded_text(&attempt.reason, max).into_owned();
        }
        attempts
    }

    /// The reply with our own call ids; the provider's are kept beside them.
    fn replied(&self, turn: u64, reply: Reply, evidence: Option<EvidenceVerdict>) -> Event {
        let first = self.session.next_call;
        let limits = &self.crew.agent.limits;
        let is_long = |text: &str, max: u64| u64::try_from(text.len()).is_ok_and(|len| len > max);
        let is_cut = reply.calls.iter().any(|call| {
            is_long(&call.name, limits.call_name_bytes_max)
                || is_long(call.alias.as_deref().unwrap_or_default(), limits.call_id_bytes_max)
        });
        let calls = reply.calls.into_iter().zip(first..).map(|(call, id)| {
            let (name, alias) = self.bounded_call(call.name, call.alias);
            Arc::new(RawCall { id: CallId(id), name, args: call.args, alias })
        });
        let bounded = |text: String| bounded_text(&text, limits.fault_bytes_max).into_owned();
        Event::ModelReplied {
            turn,
            text: reply.text,
            calls: calls.collect(),
            finish: reply.finish,
            usage: reply.usage,
            last_usage: reply.last_usage,
            // The provider's own form has the long name or id too, and would be sent back with it.
            native: reply.native.filter(|_| !is_cut).map(Arc::new),
            repairs: reply.repairs.into_iter().map(bounded).collect(),
            directed: reply.directed.map(Arc::new),
            attempts: self.bounded_attempts(reply.attempts),
            calls_max: reply.calls_max,
            evidence: evidence.map(Box::new),
        }
    }
}

/// What has come of a reply that is not whole yet.
#[derive(Default)]
pub(super) struct Partial {
    words: String,
    /// What the tries before this one cost.
    before: Usage,
    /// What this one has cost so far.
    now: Usage,
}

impl Partial {
    /// Keeps the words that come, as many as a failure would keep, and what is counted.
    fn keep(&mut self, streamed: &Streamed<'_>) {
        match streamed {
            Streamed::Text(text) | Streamed::Held(text) => {
                let room = PARTIAL_CHARS_MAX.saturating_sub(self.words.chars().count());
                self.words.extend(text.chars().take(room));
            }
            Streamed::Counted(usage) => self.now = *usage,
            // What came before is said again, and was paid for.
            Streamed::Again => {
                self.words.clear();
                self.before = self.before.plus(&take(&mut self.now));
            }
            // What is shown late was kept when it came.
            Streamed::Freed(_)
            | Streamed::Thought(_)
            | Streamed::Call { .. }
            | Streamed::Waits { .. } => {}
        }
    }
}

fn lock(partial: &Mutex<Partial>) -> MutexGuard<'_, Partial> {
    partial.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was counted, where anything was.
fn counted(usage: Usage) -> Option<Usage> {
    Some(usage).filter(|usage| *usage != Usage::default())
}
