//! Decides what does the work of each transform: the one place that knows them all.

use serde_json::{Map, Value};
use toolgate_kernel::config::Transform;
use toolgate_runtime::port::ReplyCall;

use super::granted::Granted;
use super::printed::{self, Form};
use super::{call, incoming, outgoing};

/// What a transform does.
pub(super) enum Work {
    /// Mends a message of the assistant with calls in it.
    Message(fn(&mut Map<String, Value>)),
    /// Is about a whole transcript, and done where it is written.
    Transcript,
    /// Mends the tools of a request.
    Tools(fn(&mut [Value])),
    /// Mends a message before it is read, and says in words what was mended.
    Response(fn(&mut Map<String, Value>) -> Option<&'static str>),
    /// Takes calls out of the words.
    Printed(Form),
    /// Mends a call, and says in words what was mended.
    Call(fn(&mut ReplyCall, &Granted<'_>) -> Option<String>),
    /// Mends the envelope of a result.
    Result(fn(&mut Map<String, Value>)),
}

pub(super) fn work(transform: Transform) -> Work {
    match transform {
        Transform::ContentNullIfBlank => Work::Message(outgoing::content_null_if_blank),
        Transform::ReasoningEmptyIfMissing => Work::Message(outgoing::reasoning_if_missing),
        Transform::SignatureSkipIfMissing => Work::Message(outgoing::signature_if_missing),
        Transform::AlternateRoles | Transform::ShortIds => Work::Transcript,
        Transform::StripDescriptions => Work::Tools(outgoing::strip_descriptions),
        Transform::FunctionCall => Work::Response(incoming::function_call),
        Transform::CallsToArray => Work::Response(incoming::calls_to_array),
        Transform::ArgumentsToText => Work::Response(incoming::arguments_to_text),
        Transform::LeadingThought => Work::Response(incoming::leading_thought),
        Transform::PrintedTags => Work::Printed(printed::TAGS),
        Transform::PrintedHermes => Work::Printed(printed::HERMES),
        Transform::PrintedLlama => Work::Printed(printed::LLAMA),
        Transform::PrintedMistral => Work::Printed(printed::MISTRAL),
        Transform::PrintedDeepSeek => Work::Printed(printed::DEEPSEEK),
        Transform::PrintedDomain => Work::Printed(printed::DOMAIN),
        Transform::BlankArguments => Work::Call(call::blank_arguments),
        Transform::NormalizeNames => Work::Call(call::name),
        Transform::CompactEnvelope => Work::Result(outgoing::compact_envelope),
    }
}
