//! Decides how a person is asked about a call, and what happens when nobody answers.

use std::pin::pin;

use toolgate_kernel::event::{Event, Said};
use toolgate_kernel::fold::Progress;
use toolgate_kernel::gate::{Refusal, prepare};
use toolgate_kernel::names::CallId;

use super::{DriveFault, Driver, Halt};
use crate::execute::within;
use crate::port::{Pause, Question, Word};

impl Driver {
    /// Asks about one call. The question is durable before anybody sees it.
    pub(super) async fn ask(&mut self, id: CallId) -> Result<(), DriveFault> {
        self.flush().await?;
        let Some(open) = self.session.open.get(&id).cloned() else { return Ok(()) };
        let Progress::Asked { policy, reason, args_hash } = &open.progress else { return Ok(()) };
        let pending = Refusal::pending(reason);
        let Some(person) = self.crew.person.clone() else {
            return self.refuse(&open.raw, &pending);
        };
        let (project, _) = self.runtime.project();
        let call = match prepare(&self.crew.agent, &self.session, &project.pins, &open) {
            Ok(call) => call,
            Err(refusal) => return self.refuse(&open.raw, &refusal),
        };
        let question = Question {
            call: id,
            tool: call.spec().name.clone(),
            args: call.args_tree().clone(),
            policy: policy.clone(),
            reason: reason.to_string(),
        };
        let answer = pin!(person.ask(&question));
        let answer = within(self.crew.agent.limits.answer_ms_max, answer).await;
        self.tick();
        let Some(Some(response)) = answer else { return self.refuse(&open.raw, &pending) };
        let (args_hash, answer) = (*args_hash, response.answer);
        let answered = Event::Answered { call: id, args_hash, answer, note: response.note };
        // Whoever answers and is no person is refused by the kernel: nobody has answered.
        match self.note(&response.who, answered) {
            Err(DriveFault::Author(_)) => self.refuse(&open.raw, &pending),
            noted => noted,
        }
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
