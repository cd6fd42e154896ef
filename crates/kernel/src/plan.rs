//! Decides what one request to a model shows, and how it is fingerprinted.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::{Map, Value, json};

use crate::digest::Digest;
use crate::event::{Finish, Image, Note};
use crate::fold::{Session, Turn};
use crate::names::ToolName;
use crate::render::ResultFormat;
use crate::tool::ToolSpec;

/// One request to a model: everything it will see.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The turn it opens.
    pub turn: u64,
    /// The iteration it belongs to.
    pub iteration: u64,
    /// What the session is about, in the words of whoever began it.
    pub title: Arc<str>,
    /// The system prompt, fixed for the iteration.
    pub system: Arc<str>,
    /// What was said at the start of the iteration.
    pub input: Arc<str>,
    /// The pictures shown beside it.
    pub images: Vector<Arc<Image>>,
    /// The turns so far.
    pub turns: Vector<Arc<Turn>>,
    /// Words from outside, shown once.
    pub feedback: Vec<Arc<str>>,
    /// The pictures shown beside them.
    pub feedback_images: Vec<Arc<Image>>,
    /// What toolgate itself has to say, shown once.
    pub notes: Vec<Note>,
    /// The tools that are shown, which are those that may be called.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Every tool that any phase grants, always in the same order.
    pub every: Arc<[Arc<ToolSpec>]>,
    /// Which tool is asked for.
    pub choice: Choice,
    /// How results are written.
    pub result_format: ResultFormat,
    /// The form the words must have, where they must have one.
    pub shape: Option<Arc<OutputShape>>,
    /// The bytes of every picture named here; whoever performs the plan puts them in.
    pub pictures: BTreeMap<Digest, Arc<[u8]>>,
    /// Tokens it is thought to have.
    pub tokens_estimated: u64,
    /// Fingerprint of what is sent: the same on every machine, so receipts are not in it.
    pub fingerprint: Digest,
}

impl Plan {
    /// The same request with what it says of the form of its reply. It is sent otherwise, so it has
    /// a fingerprint of its own.
    pub fn in_form(
        &self,
        instructions: &str,
        shape: Option<OutputShape>,
        repairs: &[Repair],
    ) -> Self {
        let mut plan = self.clone();
        let mut parts = Parts::default();
        parts.text(instructions);
        if let Some(shape) = &shape {
            parts.text(&shape.name);
            parts.text(shape.mode.as_str());
            parts.add(&Digest::of_json(&shape.schema).0);
        }
        for Repair { answer, note } in repairs {
            parts.text(answer);
            parts.text(&note.text);
            plan.answered(answer);
            plan.notes.push(note.clone());
        }
        plan.fingerprint = Digest::link(self.fingerprint, &parts.0);
        plan.system = format!("{}\n\n{instructions}", self.system).into();
        plan.tools = Vec::new();
        plan.shape = shape.map(Arc::new);
        plan
    }

    /// The same with what it says as said, and an answer to it. Nobody refers to a blank one.
    fn answered(&mut self, answer: &Arc<str>) {
        if answer.trim().is_empty() {
            return;
        }
        let notes = self.notes.drain(..).map(|note| Arc::from(note.text));
        self.turns.push_back(Arc::new(Turn {
            number: self.turn,
            notes: self.feedback.drain(..).chain(notes).collect(),
            images: self.feedback_images.drain(..).collect(),
            text: Arc::clone(answer),
            calls: Arc::new([]),
            told: OrdMap::new(),
            finish: Finish::Stop,
            native: None,
        }));
    }

    /// A request of its own, outside every session.
    pub fn alone(system: &str, input: &str, tools: Vec<Arc<ToolSpec>>) -> Self {
        Self {
            turn: 1,
            iteration: 1,
            title: input.into(),
            system: system.into(),
            input: input.into(),
            images: Vector::new(),
            turns: Vector::new(),
            feedback: Vec::new(),
            feedback_images: Vec::new(),
            notes: Vec::new(),
            every: tools.as_slice().into(),
            tools,
            choice: Choice::Auto,
            result_format: ResultFormat::default(),
            shape: None,
            pictures: BTreeMap::new(),
            tokens_estimated: 0,
            fingerprint: Digest::of(input.as_bytes()),
        }
    }
}

/// An answer that could not be used, and what the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Its words, as the model reads them again.
    pub answer: Arc<str>,
    /// What is wrong with them.
    pub note: Note,
}

/// Which tool a request asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Choice {
    /// The model decides.
    #[default]
    Auto,
    /// None may be called.
    None,
    /// At least one must be called.
    Required,
    /// This one must be called.
    Tool(ToolName),
    /// The provider's own form, sent as it is.
    Form(Map<String, Value>),
}

impl Choice {
    /// What a fingerprint is made of, and what the log says; nothing where the model decides.
    pub fn face(&self) -> Value {
        match self {
            Self::Auto => Value::Null,
            Self::None => json!("none"),
            Self::Required => json!("required"),
            Self::Tool(tool) => json!({ "tool": tool }),
            Self::Form(form) => json!({ "form": form }),
        }
    }
}

/// A form that a model's words must have.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputShape {
    /// Its name for the provider.
    pub name: String,
    /// How the provider is asked to see to it.
    pub mode: ShapeMode,
    /// The JSON Schema.
    pub schema: Value,
}

/// How a provider is asked to see to a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeMode {
    /// By the schema.
    JsonSchema,
    /// As one JSON object of any kind.
    JsonObject,
}

impl ShapeMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
        }
    }
}

/// Parts with their lengths, so that no two different lists give the same bytes.
#[derive(Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn add(&mut self, part: &[u8]) {
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        self.0.extend_from_slice(&length.to_be_bytes());
        self.0.extend_from_slice(part);
    }

    fn text(&mut self, text: &str) {
        self.add(text.as_bytes());
    }

    fn images<'a>(&mut self, images: impl IntoIterator<Item = &'a Arc<Image>>) {
        images.into_iter().for_each(|image| self.add(&image.hash.0));
        self.add(b"images");
    }
}

/// The digest of what an iteration begins with.
pub(crate) fn opening(system: &str, input: &str, images: &Vector<Arc<Image>>) -> Digest {
    let mut parts = Parts::default();
    parts.text(system);
    parts.text(input);
    parts.images(images);
    Digest::of(&parts.0)
}

/// The digest of a transcript with one more turn, so that a request costs what is new. Receipts
/// are not in it: they depend on the project's key.
pub(crate) fn roll(before: Digest, turn: &Turn) -> Digest {
    let mut parts = Parts::default();
    turn.notes.iter().for_each(|note| parts.text(note));
    parts.images(&turn.images);
    parts.text(&turn.text);
    for call in turn.calls.iter() {
        parts.text(&call.name);
        parts.text(&turn.args_again(call));
    }
    for told in turn.told.values() {
        parts.text(&told.envelope.without_receipt());
        if told.message_only {
            parts.add(b"message only");
        }
    }
    if let Some(native) = &turn.native {
        parts.text(&native.content.to_string());
    }
    Digest::link(before, &parts.0)
}

/// Messages a request has, the system prompt too.
pub fn messages(session: &Session, plan: &Plan) -> u64 {
    let Some(lap) = &session.lap else { return 0 };
    let fresh = session.turns.back().filter(|turn| turn.number > lap.rolled_turn);
    let said = !(plan.feedback.is_empty() && plan.notes.is_empty());
    lap.rolled_messages + fresh.map_or(0, |turn| turn.messages()) + u64::from(said)
}

/// The fingerprint of a request.
pub(crate) fn fingerprint(session: &Session, plan: &Plan) -> Digest {
    let transcript = session.lap.as_ref().map_or(Digest::ZERO, |lap| {
        let fresh = session.turns.back().filter(|turn| turn.number > lap.rolled_turn);
        fresh.map_or(lap.rolled, |turn| roll(lap.rolled, turn))
    });
    let mut parts = Parts::default();
    plan.feedback.iter().for_each(|text| parts.text(text));
    parts.images(&plan.feedback_images);
    plan.notes.iter().for_each(|note| parts.text(&note.text));
    parts.add(b"tools");
    plan.tools.iter().for_each(|tool| parts.add(&tool.version.0));
    if plan.choice != Choice::Auto {
        parts.add(&Digest::of_json(&plan.choice.face()).0);
    }
    parts.add(b"every");
    plan.every.iter().for_each(|tool| parts.add(&tool.version.0));
    if plan.result_format != ResultFormat::default() {
        parts.text(plan.result_format.as_str());
    }
    Digest::link(transcript, &parts.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;
    use crate::event::{Finish, RawCall};
    use crate::fold::Told;
    use crate::names::{CallId, SessionId};
    use crate::tool::SpecDraft;

    fn print(change: impl FnOnce(&mut Plan)) -> Digest {
        let tool = Arc::new(SpecDraft::new("look", "Looks.").build().unwrap());
        let mut plan = Plan::alone("s", "i", vec![tool]);
        change(&mut plan);
        fingerprint(&Session::new(SessionId::parse("s").unwrap()), &plan)
    }

    fn shaped(mode: Option<ShapeMode>, instructions: &str) -> Digest {
        let shape = mode.map(|mode| OutputShape { name: "n".to_owned(), mode, schema: json!({}) });
        Plan::alone("s", "i", vec![]).in_form(instructions, shape, &[]).fingerprint
    }

    /// Two requests that are sent otherwise have two fingerprints.
    #[test]
    fn everything_that_changes_a_request_changes_its_fingerprint() {
        let prints = [
            print(|_| {}),
            print(|plan| plan.result_format = ResultFormat::Text),
            print(|plan| plan.every = Vec::new().into()),
            print(|plan| plan.choice = Choice::Required),
            shaped(None, "x"),
            shaped(None, "y"),
            shaped(Some(ShapeMode::JsonSchema), "x"),
            shaped(Some(ShapeMode::JsonObject), "x"),
            print(|plan| plan.feedback = vec!["x".into()]),
        ];
        for (at, one) in prints.iter().enumerate() {
            assert!(!prints[..at].contains(one), "the one at {at} is another's");
        }
    }

    #[test]
    fn a_result_without_its_data_is_another_transcript() {
        let call = Arc::new(RawCall {
            id: CallId(1),
            name: "look".to_owned(),
            args: "{}".to_owned(),
            alias: None,
        });
        let turn = |message_only| {
            let envelope =
                Arc::new(Envelope::answer("look", "seen".to_owned(), Value::Null, vec![]));
            Turn {
                number: 1,
                notes: Vector::new(),
                images: Vector::new(),
                text: "".into(),
                calls: vec![Arc::clone(&call)].into(),
                told: [(CallId(1), Arc::new(Told { envelope, message_only }))]
                    .into_iter()
                    .collect(),
                finish: Finish::Calls,
                native: None,
            }
        };
        assert_ne!(roll(Digest::ZERO, &turn(true)), roll(Digest::ZERO, &turn(false)));
    }
}
