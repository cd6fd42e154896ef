//! Decides how a person is asked about a call, what is heard from elsewhere, and what happens when
//! nobody answers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use serde_json::Value;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Decision, Event, RawCall, Said};
use toolgate_kernel::fold::{OpenCall, OpenQuestion, Progress, shown};
use toolgate_kernel::gate::{Refusal, prepare};
use toolgate_kernel::names::CallId;

use super::{DriveFault, Driver, Halt, OnAsk};
use crate::authority::Author;
use crate::crash_point;
use crate::execute::within;
use crate::port::{Pause, Person, Question, Response, Word};

/// Milliseconds between two looks whether somebody else has answered a question.
pub(super) const LOOK_MS: u64 = 250;

impl Driver {
    /// Asks about one call, and waits for the answer.
    pub(super) async fn ask(&mut self, id: CallId) -> Result<(), DriveFault> {
        let Some(asked) = self.question(id).await? else { return Ok(()) };
        match self.answer(id, &asked).await? {
            Answer::Here(response) => {
                self.take_answer(&asked.open, response.map(|response| *response)).await
            }
            // It is in the log.
            Answer::Elsewhere => Ok(()),
        }
    }

    /// What there is to be asked about a call, and whom. Nothing where nobody need be asked any more:
    /// it is refused or put off then. The question is durable before anybody sees it.
    pub(super) async fn question(&mut self, id: CallId) -> Result<Option<Asked>, DriveFault> {
        self.flush().await?;
        let Some(open) = self.session.open.get(&id).cloned() else { return Ok(None) };
        let Progress::Asked(asked) = &open.progress else { return Ok(None) };
        let OpenQuestion { tool, policy, reason, args_hash, frame, requires, given, .. } =
            asked.as_ref();
        let (project, _) = self.runtime.project();
        let call = match prepare(&self.crew.agent, &self.session, &project.pins, &open) {
            Ok(call) => call,
            Err(refusal) => return self.refuse(&open.raw, &refusal).map(|()| None),
        };
        // Nobody is shown one call and asked about another.
        if call.spec().name != *tool || call.args_hash() != *args_hash {
            return self.refuse(&open.raw, &Refusal::asked_about_another()).map(|()| None);
        }
        let question = Question {
            call: id,
            tool: call.spec().name.clone(),
            spec: Arc::clone(call.spec()),
            args: call.args_tree().clone(),
            policy: policy.clone(),
            reason: reason.to_string(),
            shown: shown(*frame, *args_hash),
            requires: requires.clone(),
            given: given.clone(),
            starter: self.session.starter,
        };
        let person = self.crew.person.clone().filter(|_| self.crew.on_ask == OnAsk::Prompt);
        match person {
            Some(person) => Ok(Some(Asked { open, person, question })),
            None => self.put_aside(&open, reason).map(|()| None),
        }
    }

    /// Goes on without a person: the call waits, or nobody is asked at all.
    pub(super) fn put_aside(&mut self, open: &OpenCall, reason: &str) -> Result<(), DriveFault> {
        match self.crew.on_ask {
            OnAsk::Deny => self.refuse(&open.raw, &Refusal::nobody_asked(reason)),
            OnAsk::Park | OnAsk::Prompt => self.put_off(open, reason),
        }
    }

    /// Goes on with what the person here said of a call, or with nothing.
    pub(super) async fn take_answer(
        &mut self,
        open: &OpenCall,
        response: Option<Response>,
    ) -> Result<(), DriveFault> {
        self.tick();
        let Progress::Asked(asked) = &open.progress else { return Ok(()) };
        let OpenQuestion { reason, args_hash, frame, tool, .. } = asked.as_ref();
        let Some(response) = response else { return self.put_off(open, reason) };
        let Response { who, signer, answer, note, args, allow, confirmed, card } = response;
        let decision = Decision::new(open.raw.id, tool.clone(), *frame, *args_hash, answer);
        let decision = match args {
            Some(args) => decision.with_args(Value::Object(args)),
            None => decision,
        };
        let decision = Decision { note, allow, confirmed, ..decision };
        let signer = signer.as_deref();
        let author = Author { actor: &who, signer, shown: card, head: None };
        match self.runtime.say(&self.session.id, author, Said::Answer(Box::new(decision))).await {
            Ok(_) => {
                self.hear().await?;
                // Others must approve too, or this answer did not count: the call waits for them.
                if self.is_asked(open.raw.id) { self.put_off(open, reason) } else { Ok(()) }
            }
            // Whoever answers and is no person, or one whom the project does not know, decides nothing.
            Err(fault) if fault.is_about_the_author() => self.put_off(open, reason),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Whether a call still waits for a person's word.
    pub(super) fn is_asked(&self, id: CallId) -> bool {
        let open = self.session.open.get(&id).map(|open| &open.progress);
        matches!(open, Some(Progress::Asked(_)))
    }

    /// What the person here says, or somebody else says first.
    async fn answer(&mut self, id: CallId, asked: &Asked) -> Result<Answer, DriveFault> {
        let mut here = pin!(asked.heard(self.crew.agent.limits.answer_ms_max));
        loop {
            let look = pin!(tokio::time::sleep(Duration::from_millis(LOOK_MS)));
            match select(here.as_mut(), look).await {
                Either::Left((response, _)) => return Ok(Answer::Here(response.map(Box::new))),
                Either::Right(_) => {}
            }
            self.tick();
            self.hear().await?;
            if !self.is_asked(id) {
                return Ok(Answer::Elsewhere);
            }
        }
    }

    /// Puts a call off until a person says yes, unless too many wait already.
    fn put_off(&mut self, open: &OpenCall, reason: &str) -> Result<(), DriveFault> {
        let limits = &self.crew.agent.limits;
        let waiting = self.session.waiting.len();
        let of_client = self.session.waiting.values().filter(|one| one.actor == open.actor).count();
        let is_client = matches!(open.actor, Actor::Client(_)) && !open.actor.is_command_line();
        let is_over = |count: usize, max: u64| u64::try_from(count).is_ok_and(|count| count >= max);
        let refusal = if is_over(waiting, limits.approvals_max) {
            Refusal::too_many_wait(waiting, reason)
        } else if is_client && is_over(of_client, limits.approvals_client_max) {
            Refusal::too_many_wait(of_client, reason)
        } else {
            Refusal::pending(open, reason)
        };
        self.refuse(&open.raw, &refusal)
    }

    /// Makes a new call of one that waited, now that a person said yes. It is judged from the
    /// beginning.
    pub(super) fn take_up(&mut self, id: CallId) -> Result<(), DriveFault> {
        let Some(waiting) = self.session.waiting.get(&id).cloned() else { return Ok(()) };
        let (name, args) = (waiting.tool.to_string(), waiting.args_text());
        let call =
            Arc::new(RawCall { id: CallId(self.session.next_call), name, args, alias: None });
        self.note(&waiting.actor, Event::CallReceived { call, of: Some(id) })
    }

    /// Takes in what others said since the last step.
    pub(super) async fn hear(&mut self) -> Result<(), DriveFault> {
        let unheard = self.runtime.unheard(&self.session).await?;
        if unheard.is_empty() {
            return Ok(());
        }
        crash_point!("before_hear");
        for word in unheard {
            let actor = word.record.actor.clone();
            self.note(&actor, word.heard())?;
        }
        self.flush().await?;
        crash_point!("after_hear");
        Ok(())
    }

    /// Asks whether the run goes on after a phase change. Without a word it waits.
    pub(super) async fn ask_to_go_on(&mut self) -> Result<Option<Halt>, DriveFault> {
        self.flush().await?;
        let Some(phase) = self.session.phase.clone() else { return Ok(None) };
        let waiting = Halt::Waiting(format!("The phase changed to {phase}; say whether to go on."));
        let Some(person) = self.crew.person.clone() else { return Ok(Some(waiting)) };
        let pause = Pause { phase, summary: self.session.summary.to_string() };
        let word = pin!(person.go_on(&pause));
        let word = within(self.crew.agent.limits.answer_ms_max, word).await;
        let Some(Some(Word { who, feedback })) = word else { return Ok(Some(waiting)) };
        if !who.is_human() {
            return Ok(Some(waiting));
        }
        let text = feedback.trim().to_owned();
        let said = if text.is_empty() {
            Said::GoOn {}
        } else {
            Said::Feedback { text, images: Vec::new() }
        };
        self.runtime.say(&self.session.id, &who, said).await?;
        Ok(None)
    }
}

/// A question about a call, with whoever is asked.
pub(super) struct Asked {
    pub(super) open: Arc<OpenCall>,
    pub(super) person: Arc<dyn Person>,
    pub(super) question: Question,
}

impl Asked {
    /// What the person says, in time. A lasting yes is one only where it would lift the question.
    pub(super) async fn heard(&self, answer_ms_max: u64) -> Option<Response> {
        let heard = within(answer_ms_max, pin!(self.person.ask(&self.question))).await.flatten();
        heard.map(|heard| {
            let allow = heard.allow.filter(|_| !self.question.requires.asks_each_time());
            Response { allow, ..heard }
        })
    }
}

/// What came of a question.
enum Answer {
    /// What the person here said, if anything.
    Here(Option<Box<Response>>),
    /// Somebody else was quicker.
    Elsewhere,
}
