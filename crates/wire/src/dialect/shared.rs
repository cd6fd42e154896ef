//! Decides what all dialects have in common: ids, results as text, arguments as text, sums.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{FaultKind, Image, RawCall};
use toolgate_kernel::fold::{Told, Turn};
use toolgate_kernel::gate::mended;
use toolgate_kernel::json::canonical;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::render::{ResultFormat, render};
use toolgate_runtime::port::ReplyCall;

use super::{Options, WireFault};
use crate::answer::is_deep;
use crate::lent::Lent;

/// The id of a call on the wire: the provider's own, or ours where that one would not be taken.
pub(super) fn wire_id(call: &RawCall, chars_max: usize) -> Cow<'_, str> {
    match call.alias.as_deref().filter(|id| is_wire_id(id, chars_max)) {
        Some(alias) => Cow::Borrowed(alias),
        None => Cow::Owned(call.id.to_string()),
    }
}

/// Whether most servers take an id.
pub(super) fn is_wire_id(id: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A reply in its own form, where the one who is asked now made it. Thoughts are sealed for one
/// model of one account; anybody else refuses them.
pub(super) fn kept<'a>(turn: &'a Turn, dialect: &str, options: &Options) -> Option<&'a Value> {
    let native = turn.native.as_deref();
    let own =
        native.filter(|kept| kept.dialect == dialect && kept.maker == options.transforms.maker());
    own.map(|native| &native.content)
}

/// An object with its keys in this order.
pub(super) fn object<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The results of a turn's calls in their order, each with its call.
pub(super) fn results<'a>(
    turn: &'a Turn,
    plan: &'a Plan,
    options: &'a Options,
) -> impl Iterator<Item = (&'a RawCall, String)> {
    turn.calls.iter().filter_map(move |call| {
        let told = turn.told.get(&call.id)?;
        Some((call.as_ref(), result_text(told, plan.result_format, options)))
    })
}

/// The text of one result.
fn result_text(told: &Told, format: ResultFormat, options: &Options) -> String {
    let text = render(told, format);
    let envelope = format == ResultFormat::Envelope || !told.envelope.ok;
    if !envelope || !options.transforms.changes_results() {
        return text;
    }
    match serde_json::from_str(&text) {
        Ok(mut envelope) => {
            options.transforms.result(&mut envelope);
            envelope.to_string()
        }
        Err(_) => text,
    }
}

/// What is said beside the results: words and pictures of one request.
pub(super) struct Beside<'a> {
    pub(super) words: Vec<&'a str>,
    pub(super) images: Vec<&'a Image>,
}

impl<'a> Beside<'a> {
    /// What the request of a turn said, as the log kept it.
    pub(super) fn of_turn(turn: &'a Turn) -> Self {
        Self {
            words: turn.notes.iter().map(AsRef::as_ref).collect(),
            images: turn.images.iter().map(Arc::as_ref).collect(),
        }
    }

    /// What this request says. A turn keeps the same, in the same order.
    pub(super) fn of_plan(plan: &'a Plan) -> Self {
        let notes = plan.notes.iter().map(|note| note.text.as_ref());
        Self {
            words: plan.feedback.iter().map(AsRef::as_ref).chain(notes).collect(),
            images: plan.feedback_images.iter().map(Arc::as_ref).collect(),
        }
    }

    /// What is said at the start of the iteration.
    pub(super) fn of_input(plan: &'a Plan) -> Self {
        Self {
            words: vec![plan.input.as_ref()],
            images: plan.images.iter().map(Arc::as_ref).collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.images.is_empty()
    }

    /// The words, a blank line between them.
    pub(super) fn text(&self) -> String {
        self.words.join("\n\n")
    }
}

/// How an id begins that stands for one that is missing.
pub(super) const MADE_UP: &str = "tc_";

/// Makes the ids of a reply usable: trimmed, `tc_<index>` for a blank one, `<id>__2` for a second.
///
/// A call that is there twice under one id, or once more without any, was sent twice or is meant to
/// run twice: a fault.
pub(super) fn name_calls(calls: &mut [ReplyCall]) -> Result<(), WireFault> {
    check_doubled(calls)?;
    let mut seen = BTreeSet::new();
    // How far the numbers of an id were tried: a reply may have one id for all its calls.
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (at, call) in calls.iter_mut().enumerate() {
        let id = match call.alias.as_deref().map(str::trim) {
            None | Some("") => format!("{MADE_UP}{at}"),
            Some(id) => id.to_owned(),
        };
        let mut unique = id.clone();
        if !seen.insert(unique.clone()) {
            let count = counts.entry(id.clone()).or_insert(1);
            loop {
                *count += 1;
                unique = format!("{id}__{count}");
                if seen.insert(unique.clone()) {
                    break;
                }
            }
        }
        call.alias = Some(unique);
    }
    Ok(())
}

fn check_doubled(calls: &[ReplyCall]) -> Result<(), WireFault> {
    let mut sent = BTreeSet::new();
    // Whether one of the calls that are alike has no id.
    let mut alike: BTreeMap<(&str, Vec<u8>), bool> = BTreeMap::new();
    for call in calls {
        let id = call.alias.as_deref().map(str::trim).filter(|id| !id.is_empty());
        let same = (call.name.as_str(), comparable(&call.args));
        let doubled = alike.get(&same).is_some_and(|nameless| *nameless || id.is_none());
        if doubled || id.is_some_and(|id| !sent.insert((id, same.clone()))) {
            let reason = "the reply has the same call twice under one id or without any";
            return Err(WireFault::new(FaultKind::MalformedCall, reason));
        }
        *alike.entry(same).or_default() |= id.is_none();
    }
    Ok(())
}

/// Arguments as they are compared: the same value may be written in several ways.
pub(super) fn comparable(args: &str) -> Vec<u8> {
    match serde_json::from_str::<Value>(args) {
        Ok(mut value) => {
            write_whole_numbers_alike(&mut value);
            canonical(&value)
        }
        Err(_) => args.as_bytes().to_vec(),
    }
}

/// `1.0` and `1` are one number.
fn write_whole_numbers_alike(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(count) = number.as_f64().and_then(whole) {
                *value = count.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers_alike),
        Value::Object(fields) => fields.values_mut().for_each(write_whole_numbers_alike),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether arguments are those of another call and more: one call that is sent as it grows looks so.
pub(super) fn grows(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return false };
    before.len() < after.len() && before.iter().all(|(name, value)| after.get(name) == Some(value))
}

/// Arguments as text: local servers send them as an object, and some send none.
pub(super) fn arguments(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The same of arguments in an event of a stream.
pub(super) fn lent_arguments<'a>(value: Option<&'a Lent<'_>>) -> Cow<'a, str> {
    match value {
        None | Some(Lent::Null) => Cow::Borrowed(""),
        Some(Lent::Text(text)) => Cow::Borrowed(text),
        Some(other) => Cow::Owned(other.value().to_string()),
    }
}

/// Arguments as the text of an object, as servers take them back. What is none is shown as it was
/// written.
pub(super) fn object_text(args: &str) -> Cow<'_, str> {
    let trimmed = args.trim();
    if matches!(trimmed, "" | "null") {
        return Cow::Borrowed("{}");
    }
    // Half a character and a number without end are JSON in form, and read by nobody.
    let object = trimmed.starts_with('{') && serde_json::from_str::<Value>(trimmed).is_ok();
    match object && !is_deep(trimmed) {
        true => Cow::Borrowed(args),
        false => Cow::Owned(json!({ "unreadable": args }).to_string()),
    }
}

/// The arguments of a call as they were understood: what the gate mended is shown mended, because
/// that is what was called. What it refused is shown as it was written, or cut.
pub(super) fn understood<'a>(call: &'a RawCall, turn: &Turn) -> Cow<'a, str> {
    if turn.is_cut(call) {
        return turn.args_again(call);
    }
    let text = call.args.trim();
    if text.starts_with('{') || matches!(text, "" | "null") {
        return Cow::Borrowed(&call.args);
    }
    let code = turn.told.get(&call.id).and_then(|told| told.envelope.code());
    let refused = code == Some(&Code::ARGUMENTS_JSON_PARSE_ERROR);
    match mended(&call.args, &Limits::default()).filter(|_| !refused) {
        Some(args) => Cow::Owned(Value::Object(args).to_string()),
        None => Cow::Borrowed(&call.args),
    }
}

/// What an event is: its data or its name must say it, and they must not say different things. A
/// type that is not known is for the caller to pass over; one that is not said could be any.
pub(super) fn event_type<'a>(name: &'a str, data: &'a Lent<'_>) -> Result<&'a str, WireFault> {
    let unreadable = |reason| Err(WireFault::new(FaultKind::Unreadable, reason));
    let kind = data.text("type");
    let odd = data.get("type").is_some_and(|kind| kind.as_str().is_none() && !kind.is_null());
    if odd || kind.is_none() && matches!(name.trim(), "" | "message") && !data.is_null() {
        return unreadable("an event of the stream does not say what it is");
    }
    match kind.filter(|kind| !name.trim().is_empty() && name.trim() != *kind) {
        // The default name of an event says nothing.
        Some(kind) if name.trim() == "message" => Ok(kind),
        Some(_) => {
            unreadable("an event of the stream has one type by name and another in its data")
        }
        None => Ok(kind.unwrap_or(name)),
    }
}

/// The index of a choice or candidate: zero when it is absent or null.
pub(super) fn whole_index(index: Option<&Lent<'_>>) -> Result<u64, WireFault> {
    match index {
        None | Some(Lent::Null) => Ok(0),
        Some(index) => index.as_u64().ok_or_else(|| {
            let reason = "an index in the stream is not a whole number";
            WireFault::new(FaultKind::Unreadable, reason)
        }),
    }
}

/// What stands under a key; nothing when it is absent or null.
pub(super) fn field<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|value| !value.is_null())
}

/// A text under a key; nothing when it is absent, null, empty or no text.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Whether a model of OpenAI thinks before it answers, by its name: `o3`, `gpt-5` and those after
/// it, not `gpt-4o`.
pub(super) fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number = |rest: &str| -> Option<u32> {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    };
    name.strip_prefix('o').and_then(number).is_some()
        || name
            .strip_prefix("gpt-")
            .and_then(number)
            .is_some_and(|number| (5..35).contains(&number))
            && !name.contains("-chat")
        || name.starts_with("codex-")
}

/// A count under a path of keys; zero when there is none.
pub(super) fn count(value: &Value, path: &[&str]) -> u64 {
    let found = path.iter().try_fold(value, |value, key| value.get(key));
    found.and_then(|count| count.as_u64().or_else(|| whole(count.as_f64()?))).unwrap_or(0)
}

/// A count that was written with a point, as some servers do; nothing where it is none.
fn whole(count: f64) -> Option<u64> {
    /// Beyond this, not every whole number can be written so.
    const MOST: f64 = 9_007_199_254_740_992.0;
    let is_count = count.fract() == 0.0 && (0.0..=MOST).contains(&count);
    if is_count { format!("{count:.0}").parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_kernel::digest::{Digest, Tag};
    use toolgate_kernel::envelope::{Envelope, Trouble};
    use toolgate_kernel::event::{Finish, Usage};
    use toolgate_runtime::port::Reply;

    use crate::dialect::{Dialect, sample};

    #[test]
    fn arguments_too_deep_for_a_server_are_sent_back_as_a_text() {
        let deep = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        assert_eq!(object_text(&deep(120)), deep(120));
        for levels in [121, 200_000] {
            assert!(object_text(&deep(levels)).starts_with("{\"unreadable\":"), "{levels}");
        }
        for args in ["{\"a\":\"\\ud800\"}", "{\"a\":1e999}", "{\"a\":1"] {
            assert!(object_text(args).starts_with("{\"unreadable\":"), "{args}");
        }
    }

    #[test]
    fn what_was_mended_is_shown_as_it_was_called_and_what_was_refused_as_it_was_written() {
        let fenced = "```json\n{\"path\": \"a\"}\n```";
        let call = ReplyCall { alias: None, name: "read_file".into(), args: fenced.into() };
        let reply = Reply::new(String::new(), vec![call], Finish::Calls, Usage::default());
        let mut plan = sample::plan();
        sample::answered(&mut plan, reply, &[]);
        let mut turn = plan.turns.back().unwrap().as_ref().clone();
        let call = Arc::clone(&turn.calls[0]);
        assert_eq!(understood(&call, &turn), "{\"path\":\"a\"}");
        let trouble = Trouble::new(Code::ARGUMENTS_JSON_PARSE_ERROR, "send plain JSON");
        let envelope = Envelope::trouble("read_file", vec![trouble]);
        let told = Told { envelope: envelope.into(), message_only: false };
        turn.told.insert(call.id, Arc::new(told));
        assert_eq!(understood(&call, &turn), fenced);
    }

    /// A call that comes with something signed, in each dialect.
    fn signed(args: &Value) -> [(Dialect, Value); 4] {
        let input = args.to_string();
        [
            (
                Dialect::Anthropic,
                json!({ "stop_reason": "tool_use", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "signed" },
                    { "type": "tool_use", "id": "a", "name": "read_file", "input": args }] }),
            ),
            (
                Dialect::Gemini,
                json!({ "candidates": [{ "finishReason": "STOP", "content": { "parts": [
                    { "functionCall": { "name": "read_file", "args": args },
                        "thoughtSignature": "signed" }] } }] }),
            ),
            (
                Dialect::Responses,
                json!({ "status": "completed", "output": [
                    { "type": "reasoning", "id": "r", "summary": [], "encrypted_content": "signed" },
                    { "type": "function_call", "call_id": "a", "name": "read_file",
                        "arguments": input }] }),
            ),
            (
                Dialect::Chat,
                json!({ "choices": [{ "finish_reason": "tool_calls", "message": {
                    "reasoning_content": "signed", "tool_calls": [{ "id": "a", "type": "function",
                        "function": { "name": "read_file", "arguments": input } }] } }] }),
            ),
        ]
    }

    /// Another model, or the same one of another account, cannot open what is sealed.
    #[test]
    fn a_kept_reply_goes_back_to_its_maker_alone() {
        let maker = |name: &str| Some(Tag::from(Digest::of(name.as_bytes())));
        for (dialect, body) in signed(&json!({ "path": "a.md" })) {
            let mut reply = dialect.decode(&body).unwrap();
            reply.native.as_mut().unwrap().maker = maker("one");
            let mut plan = sample::plan();
            sample::answered(&mut plan, reply, &[]);
            let sent = |maker| {
                let mut options = sample::options("gemini-3-pro");
                if let Some(maker) = maker {
                    options.transforms = options.transforms.made_by(maker);
                }
                Value::Object(sample::encoded(dialect, &plan, &options).body).to_string()
            };
            assert!(sent(maker("one")).contains("signed"), "{dialect:?}");
            for other in [maker("two"), None] {
                let text = sent(other);
                assert!(!text.contains("signed"), "{dialect:?}: {text}");
                assert!(text.contains("a.md"), "{dialect:?}: the call stays: {text}");
                let skips = text.contains(crate::transform::SKIP_SIGNATURE);
                assert_eq!(skips, dialect == Dialect::Gemini, "{text}");
            }
        }
    }

    #[test]
    fn a_kept_reply_does_not_bring_back_arguments_that_were_too_large() {
        let long = "é".repeat(150_000);
        for (dialect, body) in signed(&json!({ "path": long })) {
            let reply = dialect.decode(&body).unwrap();
            assert!(reply.native.is_some(), "{dialect:?} keeps what it says beside its words");
            let mut plan = sample::plan();
            sample::answered(&mut plan, reply, &[]);
            let sent = |plan: &Plan| {
                let request = sample::encoded(dialect, plan, &sample::options("m"));
                Value::Object(request.body).to_string()
            };
            assert!(sent(&plan).contains(&long), "{dialect:?}: what ran is shown whole");
            let turn = Arc::make_mut(plan.turns.back_mut().unwrap());
            let trouble = Trouble::new(Code::ARGUMENTS_TOO_LARGE, "Send less.");
            let envelope = Envelope::trouble("read_file", vec![trouble]).into();
            let told = Arc::new(Told { envelope, message_only: false });
            turn.told.insert(turn.calls[0].id, told);
            let text = sent(&plan);
            assert!(text.len() < 20_000 && text.contains("signed"), "{dialect:?}: {}", text.len());
            assert!(text.contains("300011") && text.contains("Send less."), "{dialect:?}: {text}");
        }
    }

    #[test]
    fn models_that_think_are_known_by_name_also_those_to_come() {
        for name in ["o1", "o3-mini", "o10", "gpt-5", "gpt-5.2-pro", "gpt-6", "gpt-12-mini"] {
            assert!(reasons(name) && reasons(&format!("openai/{name}")), "{name}");
        }
        assert!(reasons("codex-mini-latest"));
        // Azure writes `gpt-35-turbo` for the oldest of them.
        for name in ["gpt-4o", "gpt-4.1", "gpt-35-turbo", "gpt-3.5-turbo", "gpt-5-chat-latest"] {
            assert!(!reasons(name), "{name}");
        }
        for name in ["gpt-oss-20b", "ollama", "olmo-2", "chatgpt-4o-latest", ""] {
            assert!(!reasons(name), "{name}");
        }
    }

    /// Comparing each id with all others would take minutes here.
    #[test]
    fn many_calls_with_one_id_get_ids_of_their_own() {
        let call = |id: &str, at: usize| ReplyCall {
            alias: Some(id.to_owned()),
            name: String::new(),
            args: at.to_string(),
        };
        let mut calls: Vec<_> = (0..100_000).map(|at| call("a", at)).collect();
        calls.extend((2..50_000).map(|at| call(&format!("a__{at}"), at)));
        name_calls(&mut calls).unwrap();
        let ids: BTreeSet<_> = calls.iter().filter_map(|call| call.alias.as_deref()).collect();
        assert_eq!(ids.len(), calls.len());
    }

    #[test]
    fn ids_are_trimmed_filled_and_made_unique() {
        let given = [" a ", "a", "", "a", "a__2", "  ", "tc_2"];
        let call = |(at, id): (usize, &&str)| ReplyCall {
            alias: Some((*id).to_owned()),
            name: "t".into(),
            args: at.to_string(),
        };
        let mut calls: Vec<ReplyCall> = given.iter().enumerate().map(call).collect();
        let mut twice = vec![calls[0].clone(), calls[0].clone()];
        assert!(name_calls(&mut twice).is_err(), "one call, sent twice");
        let blank = ReplyCall { alias: None, ..calls[0].clone() };
        for mut twice in [[calls[0].clone(), blank.clone()], [blank.clone(), calls[0].clone()]] {
            assert!(name_calls(&mut twice).is_err(), "one call, sent again without its id");
        }
        calls.push(ReplyCall { args: "7".into(), ..blank });
        name_calls(&mut calls).unwrap();
        let ids: Vec<&str> = calls.iter().filter_map(|call| call.alias.as_deref()).collect();
        assert_eq!(ids, ["a", "a__2", "tc_2", "a__3", "a__2__2", "tc_5", "tc_2__2", "tc_7"]);
    }
}
