//! Decides what is mended on the way to a model and back: small changes, chosen by name, in order.
//!
//! What is for OpenAI chat completions works on that dialect's own JSON. What every dialect has,
//! words and calls and results, is mended there where all of them have it in one form.

mod call;
mod granted;
mod home;
mod incoming;
mod order;
mod outgoing;
mod printed;
mod thought;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolgate_kernel::config::{ToolCallingText, Transform, TransformKind, TransformRefusal};
use toolgate_kernel::digest::Tag;
use toolgate_kernel::event::Finish;
use toolgate_runtime::port::{Reply, ReplyCall, Tap};

use crate::dialect::{Dialect, LATE_WORDS, WireFault};

pub use granted::Granted;
pub(crate) use home::Home;
pub(crate) use order::After;
pub(crate) use printed::Holding;
pub(crate) use thought::Thinking;
use work::{Work, work};

/// What Google documents for calls whose signature is not known.
pub(crate) const SKIP_SIGNATURE: &str = "skip_thought_signature_validator";

/// The transforms of a model, each kind in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transforms {
    message: Vec<Transform>,
    tool: Vec<Transform>,
    response: Vec<Transform>,
    call: Vec<Transform>,
    result: Vec<Transform>,
    /// Whose server it is. Nobody names this; it is known by the address.
    home: Home,
    /// Which model at which address it is: replies that others made in their own form are retold.
    maker: Option<Tag>,
}

impl Transforms {
    /// Makes transforms of their names. A name twice is one transform.
    pub fn parse<'a>(
        names: impl IntoIterator<Item = (TransformKind, &'a str)>,
    ) -> Result<Self, TransformRefusal> {
        let mut transforms = Self::default();
        for (kind, name) in names {
            let transform = Transform::parse(kind, name)?;
            let list = transforms.list_mut(kind);
            if !list.contains(&transform) {
                list.push(transform);
            }
        }
        Ok(transforms)
    }

    /// Makes transforms of what a configuration says, after its presets were laid in.
    pub fn of(text: &ToolCallingText) -> Result<Self, TransformRefusal> {
        let lists = text.transforms();
        Self::parse(lists.iter().flat_map(|(kind, names)| {
            names.iter().flat_map(|names| names.names()).map(|name| (*kind, name))
        }))
    }

    fn list_mut(&mut self, kind: TransformKind) -> &mut Vec<Transform> {
        match kind {
            TransformKind::Message => &mut self.message,
            TransformKind::Tool => &mut self.tool,
            TransformKind::Response => &mut self.response,
            TransformKind::Call => &mut self.call,
            TransformKind::Result => &mut self.result,
        }
    }

    /// The transforms of a kind, in order.
    pub fn list(&self, kind: TransformKind) -> &[Transform] {
        match kind {
            TransformKind::Message => &self.message,
            TransformKind::Tool => &self.tool,
            TransformKind::Response => &self.response,
            TransformKind::Call => &self.call,
            TransformKind::Result => &self.result,
        }
    }

    /// Their names, by the key of a configuration that lists them.
    pub fn names(&self) -> BTreeMap<String, Vec<String>> {
        let named = TransformKind::ALL.into_iter().map(|kind| {
            let names = self.list(kind).iter().map(|transform| transform.name().to_owned());
            (kind.key().to_owned(), names.collect::<Vec<_>>())
        });
        named.filter(|(_, names)| !names.is_empty()).collect()
    }

    /// The same for a server at an address.
    pub(crate) fn at(self, base_url: &str) -> Self {
        Self { home: Home::of(base_url), ..self }
    }

    /// The same for one model at one address.
    pub(crate) fn made_by(self, maker: Tag) -> Self {
        Self { maker: Some(maker), ..self }
    }

    /// Which model at which address it is, where that is known.
    pub(crate) fn maker(&self) -> Option<Tag> {
        self.maker
    }

    /// Whose server it is.
    pub(crate) fn home(&self) -> Home {
        self.home
    }

    /// Whether results are changed at all.
    pub fn changes_results(&self) -> bool {
        !self.result.is_empty()
    }

    /// Mends an outgoing message of OpenAI chat completions: one of the assistant with calls in it.
    pub fn messages(&self, message: &mut Value) {
        let message = message.as_object_mut().filter(|message| outgoing::has_calls(message));
        let Some(message) = message else { return };
        for transform in &self.message {
            if let Work::Message(mend) = work(*transform) {
                mend(message);
            }
        }
    }

    /// Whether user and assistant must take turns.
    pub(crate) fn alternates(&self) -> bool {
        self.message.contains(&Transform::AlternateRoles)
    }

    /// Puts messages in order that come after others, where that is wanted.
    pub(crate) fn order(&self, after: After, messages: &mut Vec<Value>) {
        if self.alternates() {
            order::alternate(after, messages);
        }
    }

    /// The same for the last messages of a request.
    pub(crate) fn close(&self, after: After, messages: &mut Vec<Value>) {
        if self.alternates() {
            order::close(after, messages);
        }
    }

    /// Whether ids of calls must be nine letters and digits.
    pub(crate) fn short_ids(&self) -> bool {
        self.message.contains(&Transform::ShortIds)
    }

    /// Whether words may begin with a thought.
    pub(crate) fn finds_thoughts(&self) -> bool {
        self.response.contains(&Transform::LeadingThought)
    }

    /// A tap that is shown no call which is printed as text; none where nobody looks for one.
    pub(crate) fn holding<'a>(&self, tap: Tap<'a>) -> Option<Holding<'a>> {
        let form = |transform: &Transform| match work(*transform) {
            Work::Printed(form) => Some(form),
            Work::Response(_)
            | Work::Message(_)
            | Work::Transcript
            | Work::Tools(_)
            | Work::Call(_)
            | Work::Result(_) => None,
        };
        let mut forms = self.response.iter().filter_map(form).peekable();
        forms.peek().is_some().then(|| Holding::new(tap, forms))
    }

    /// Mends the tools that are sent to OpenAI chat completions.
    pub fn tools(&self, tools: &mut [Value]) {
        for transform in &self.tool {
            if let Work::Tools(mend) = work(*transform) {
                mend(tools);
            }
        }
    }

    /// What a whole answer says, mended before it is read and after.
    pub fn read<'a>(
        &self,
        dialect: Dialect,
        body: &mut Value,
        granted: impl Into<Granted<'a>>,
    ) -> Result<Reply, WireFault> {
        let granted = granted.into();
        let mut repairs = Vec::new();
        let chat = dialect == Dialect::Chat;
        if let Some(choice) = body.pointer_mut("/choices/0").filter(|_| chat) {
            // What was cut off may be a call that is not whole, and what was filtered may not be made:
            // the words stay words.
            let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
            let cut = matches!(reason, "length" | "max_tokens" | "model_length" | "content_filter");
            let late = choice.get(LATE_WORDS) == Some(&Value::Bool(true));
            let message = choice.get_mut("message").and_then(Value::as_object_mut);
            match message {
                Some(message) if (cut || late) && self.finds_thoughts() => {
                    repairs.extend(incoming::leading_thought(message).map(str::to_owned));
                }
                Some(message) if !cut && !late => repairs = self.response(message, granted.clone()),
                Some(_) | None => {}
            }
        }
        let mut reply = dialect.decode(body)?;
        reply.repairs.extend(repairs);
        if !chat {
            self.reply(&mut reply, granted.clone());
        }
        let repairs = self.calls(&mut reply.calls, granted);
        reply.repairs.extend(repairs);
        Ok(reply)
    }

    /// Mends a message of OpenAI chat completions (`choices[0].message`) before it is read, and
    /// says in words what was mended.
    pub fn response<'a>(
        &self,
        message: &mut Map<String, Value>,
        granted: impl Into<Granted<'a>>,
    ) -> Vec<String> {
        if self.response.is_empty() {
            return Vec::new();
        }
        let granted = granted.into();
        let mut repairs = Vec::new();
        for transform in &self.response {
            match work(*transform) {
                Work::Response(mend) => repairs.extend(mend(message).map(str::to_owned)),
                Work::Printed(form) => {
                    repairs.extend(incoming::take_printed(&form, message, &granted));
                }
                Work::Message(_)
                | Work::Transcript
                | Work::Tools(_)
                | Work::Call(_)
                | Work::Result(_) => {}
            }
        }
        repairs
    }

    /// Takes calls that were printed as text out of a reply of any other dialect. A reply with
    /// calls of its own, or one that was cut off, stays as it is; so does one where no tool is
    /// granted.
    pub fn reply<'a>(&self, reply: &mut Reply, granted: impl Into<Granted<'a>>) {
        let whole = matches!(reply.finish, Finish::Stop | Finish::Calls);
        if self.response.is_empty() || !whole || !reply.calls.is_empty() {
            return;
        }
        let granted = granted.into();
        if granted.is_empty() {
            return;
        }
        for transform in &self.response {
            let Work::Printed(form) = work(*transform) else { continue };
            let Some(salvaged) = form.salvage(&reply.text, &granted) else { continue };
            reply.text = salvaged.text;
            reply.repairs.extend(salvaged.repairs);
            if salvaged.calls.is_empty() {
                continue;
            }
            let call = |(id, name, args)| ReplyCall { alias: Some(id), name, args };
            reply.calls = salvaged.calls.into_iter().map(call).collect();
            reply.finish = Finish::Calls;
            // In its own form the reply has no calls, and results would answer nothing.
            reply.native = None;
            return;
        }
    }

    /// Mends calls before they are judged, and says in words what was mended.
    pub fn calls<'a>(
        &self,
        calls: &mut [ReplyCall],
        granted: impl Into<Granted<'a>>,
    ) -> Vec<String> {
        if self.call.is_empty() || calls.is_empty() {
            return Vec::new();
        }
        let granted = granted.into();
        let mut repairs = Vec::new();
        for transform in &self.call {
            if let Work::Call(mend) = work(*transform) {
                repairs.extend(calls.iter_mut().filter_map(|call| mend(call, &granted)));
            }
        }
        repairs
    }

    /// Mends the envelope of a result before it is sent.
    pub fn result(&self, envelope: &mut Value) {
        let Some(envelope) = envelope.as_object_mut() else { return };
        for transform in &self.result {
            if let Work::Result(mend) = work(*transform) {
                mend(envelope);
            }
        }
    }
}
