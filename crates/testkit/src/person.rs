//! Decides what a person in a scenario answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::event::Answer;
use toolgate_kernel::names::{PhaseName, ToolName};
use toolgate_runtime::port::{Clock, Pause, Person, Question, Response, Word};

use crate::clock::FakeClock;
use crate::signer::TestSigner;

/// A person's answer as it is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerText {
    /// Who answers.
    #[serde(default = "ada")]
    pub who: Actor,
    /// The answer.
    pub answer: Answer,
    /// A sentence for the model.
    #[serde(default)]
    pub note: String,
    /// Other arguments, where the person changes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Map<String, Value>>,
    /// Whether later calls that raise the same question need no answer.
    #[serde(default)]
    pub always: bool,
}

fn ada() -> Actor {
    Actor::Human("ada".into())
}

/// A person who answers by tool and by phase, and is not there for the rest.
pub struct ScriptedPerson {
    /// Their key.
    pub signer: Arc<TestSigner>,
    /// The clock of the scenario.
    pub clock: Arc<FakeClock>,
    /// What is answered about a tool.
    pub answers: BTreeMap<ToolName, AnswerText>,
    /// What is said when a phase was entered.
    pub words: BTreeMap<PhaseName, String>,
}

impl Person for ScriptedPerson {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        let response = self.answers.get(&question.tool).map(|text| Response {
            signer: text.who.is_human().then(|| Arc::clone(&self.signer) as _),
            note: text.note.clone(),
            args: text.args.clone(),
            allow: text.always.then(|| AllowanceTerms::default_from(self.clock.now())),
            ..Response::of(text.who.clone(), text.answer)
        });
        Box::pin(ready(response))
    }

    fn go_on<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        let word = self.words.get(&pause.phase);
        let word = word.map(|feedback| Word { who: ada(), feedback: feedback.clone() });
        Box::pin(ready(word))
    }
}
