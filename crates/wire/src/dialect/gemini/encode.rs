//! Decides how a plan is written for generateContent.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_kernel::event::{Image, RawCall};
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan, ShapeMode};
use toolgate_kernel::tool::ToolSpec;

use super::NAME;
use crate::dialect::names::{lettered, object};
use crate::dialect::schema::{Surface, sent};
use crate::dialect::shared::{Beside, MADE_UP, kept, results, understood};
use crate::dialect::{Frame, Options, picture};
use crate::transform::SKIP_SIGNATURE;

/// Options that stand beside `generationConfig`, not in it.
const BESIDE: &[&str] = &["safetySettings", "cachedContent", "labels", "serviceTier"];

/// Options under the names that other providers give them.
const RENAMED: &[(&str, &str)] = &[
    ("stop", "stopSequences"),
    ("maxTokens", "maxOutputTokens"),
    ("maxCompletionTokens", "maxOutputTokens"),
];

pub(in crate::dialect) fn frame(plan: &Plan, options: &Options) -> Frame {
    let mut body = Map::new();
    if !plan.system.trim().is_empty() {
        let system = json!({ "parts": [{ "text": plan.system }] });
        body.insert("systemInstruction".to_owned(), system);
    }
    let tools = Tools::of(plan, options);
    if !tools.declared.is_empty() {
        let declared = declarations(tools.declared);
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": declared }]));
        body.insert("toolConfig".to_owned(), tools.config(plan));
    }
    let mut config = Map::new();
    if let Some(most) = options.output_tokens_max {
        config.insert("maxOutputTokens".to_owned(), json!(most));
    }
    if let Some(shape) = plan.shape.as_deref() {
        form(&mut config, shape);
    }
    sample(&mut body, &mut config, options);
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(config));
    }
    Frame { path: path(options), key: "contents", body }
}

fn path(options: &Options) -> String {
    let name = match options.model.split_once('/') {
        Some(_) => escaped(&options.model),
        None => format!("models/{}", escaped(&options.model)),
    };
    let verb = if options.streams() { "streamGenerateContent?alt=sse" } else { "generateContent" };
    format!("/{name}:{verb}")
}

/// A name as it stands in an address.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// What is declared, and which of it may be called.
struct Tools<'a> {
    declared: &'a [Arc<ToolSpec>],
    callable: &'a [Arc<ToolSpec>],
}

impl<'a> Tools<'a> {
    fn of(plan: &'a Plan, options: &Options) -> Self {
        // Models before the third generation take a form or tools, never both.
        if plan.shape.is_some() {
            return Self { declared: &[], callable: &[] };
        }
        let callable: &[Arc<ToolSpec>] = if options.capabilities.tools { &plan.tools } else { &[] };
        let called = || plan.turns.iter().any(|turn| !turn.calls.is_empty());
        // The declarations stay the same, so that the cache holds; names say what may be called.
        let preserved = options.preserve_cache && options.capabilities.tools;
        let every = preserved || (callable.is_empty() && called());
        Self { declared: if every { &plan.every } else { callable }, callable }
    }

    fn config(&self, plan: &Plan) -> Value {
        let mode = |mode: &str| json!({ "functionCallingConfig": { "mode": mode } });
        let only = |mode: &str, names: Vec<String>| {
            let config = json!({ "mode": mode, "allowedFunctionNames": names });
            json!({ "functionCallingConfig": config })
        };
        if self.callable.is_empty() {
            return mode("NONE");
        }
        let narrowed = self.callable.len() < self.declared.len();
        let names =
            || self.callable.iter().map(|tool| lettered(tool.wire.as_str()).into_owned()).collect();
        match &plan.choice {
            Choice::None => mode("NONE"),
            Choice::Form(form) => Value::Object(form.clone()),
            Choice::Tool(name) => only("ANY", vec![lettered(name.as_str()).into_owned()]),
            Choice::Required if narrowed => only("ANY", names()),
            Choice::Required => mode("ANY"),
            // Names are taken in this mode only, when the model may also answer in words.
            Choice::Auto if narrowed => only("VALIDATED", names()),
            Choice::Auto => mode("AUTO"),
        }
    }
}

/// The tools. Their schemas go as JSON Schema: the other form the API knows refuses lists of types,
/// closed records and much else.
fn declarations(tools: &[Arc<ToolSpec>]) -> Vec<Value> {
    tools
        .iter()
        .map(|tool| {
            json!({
                "name": lettered(tool.wire.as_str()),
                "description": tool.about,
                "parametersJsonSchema": sent(&tool.input, Surface::Gemini),
            })
        })
        .collect()
}

fn form(config: &mut Map<String, Value>, shape: &OutputShape) {
    config.insert("responseMimeType".to_owned(), json!("application/json"));
    if shape.mode == ShapeMode::JsonSchema {
        let schema = sent(&shape.schema, Surface::Gemini);
        config.insert("responseJsonSchema".to_owned(), schema);
    }
}

/// Sampling options under the names of this API, which are in camel case.
fn sample(body: &mut Map<String, Value>, config: &mut Map<String, Value>, options: &Options) {
    let mut given = Map::new();
    options.sample(&mut given);
    for (key, value) in given {
        let key = camel(&key);
        let key = RENAMED.iter().find(|(theirs, _)| *theirs == key).map_or(key.as_str(), |r| r.1);
        let value = match (key, value) {
            ("stopSequences", Value::String(one)) => json!([one]),
            (_, value) => value,
        };
        let place = if BESIDE.contains(&key) { &mut *body } else { &mut *config };
        place.insert(key.to_owned(), value);
    }
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let mut out = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

pub(in crate::dialect) fn opening(plan: &Plan, options: &Options) -> Vec<Value> {
    said(&Beside::of_input(plan), plan, options).into_iter().collect()
}

pub(in crate::dialect) fn turn(
    before: Option<&Turn>,
    turn: &Turn,
    plan: &Plan,
    options: &Options,
) -> Vec<Value> {
    let mut contents = asked(before, &Beside::of_turn(turn), plan, options);
    contents.extend(content("model", reply(turn, options)));
    contents
}

pub(in crate::dialect) fn closing(plan: &Plan, options: &Options) -> Vec<Value> {
    let last = plan.turns.last().map(AsRef::as_ref);
    asked(last, &Beside::of_plan(plan), plan, options)
}

/// The results of a turn, all in one content and nothing beside them; then what is said.
fn asked(before: Option<&Turn>, beside: &Beside<'_>, plan: &Plan, options: &Options) -> Vec<Value> {
    let results = before.into_iter().flat_map(|before| {
        results(before, plan, options).map(|(call, text)| {
            let ok = before.told.get(&call.id).is_none_or(|told| told.envelope.ok);
            result(call, &text, if ok { "output" } else { "error" })
        })
    });
    let results = content("user", results.collect());
    results.into_iter().chain(said(beside, plan, options)).collect()
}

/// A result as text under one of the two keys the API knows: numbers in an object would lose digits.
fn result(call: &RawCall, text: &str, key: &str) -> Value {
    let mut response = Map::new();
    put_id(&mut response, call);
    response.insert("name".to_owned(), json!(lettered(&call.name)));
    response.insert("response".to_owned(), json!({ key: text }));
    json!({ "functionResponse": response })
}

/// The provider's own id, where it gave one. Without ids the order counts.
fn put_id(map: &mut Map<String, Value>, call: &RawCall) {
    let given = |alias: &&str| !alias.is_empty() && !alias.starts_with(MADE_UP);
    match call.alias.as_deref().filter(given) {
        Some(alias) => drop(map.insert("id".to_owned(), json!(alias))),
        // What came in its place, such as a blank one, would have no result.
        None => drop(map.shift_remove("id")),
    }
}

fn said(beside: &Beside<'_>, plan: &Plan, options: &Options) -> Option<Value> {
    let mut parts: Vec<Value> =
        beside.images.iter().map(|image| shown(image, plan, options)).collect();
    let words = beside.text();
    if !words.trim().is_empty() {
        parts.push(json!({ "text": words }));
    }
    content("user", parts)
}

fn shown(image: &Image, plan: &Plan, options: &Options) -> Value {
    match picture::shown(image, plan, options) {
        Some(data) => {
            json!({ "inlineData": { "mimeType": image.media_type, "data": data } })
        }
        None => json!({ "text": picture::in_words(image) }),
    }
}

/// A content; none when it has no part, which the API refuses.
fn content(role: &str, parts: Vec<Value>) -> Option<Value> {
    if parts.is_empty() {
        return None;
    }
    Some(json!({ "role": role, "parts": parts }))
}

/// The reply of a turn, in its own form where that was kept and still holds.
fn reply(turn: &Turn, options: &Options) -> Vec<Value> {
    let kept = kept(turn, NAME, options).and_then(Value::as_array);
    let calls = |parts: &[Value]| parts.iter().filter(|part| is_call(part)).count();
    if let Some(kept) = kept.filter(|kept| calls(kept) == turn.calls.len()) {
        return again(kept, turn);
    }
    let mut parts = Vec::new();
    if !turn.text.trim().is_empty() {
        parts.push(json!({ "text": turn.text }));
    }
    for (at, call) in turn.calls.iter().enumerate() {
        let mut part = Map::new();
        let mut called = Map::new();
        put_id(&mut called, call);
        called.insert("name".to_owned(), json!(lettered(&call.name)));
        called.insert("args".to_owned(), Value::Object(object(&understood(call, turn))));
        part.insert("functionCall".to_owned(), Value::Object(called));
        // The first call of a reply must be signed; this one was made elsewhere.
        if at == 0 && wants_signatures(&options.model) {
            part.insert("thoughtSignature".to_owned(), json!(SKIP_SIGNATURE));
        }
        parts.push(Value::Object(part));
    }
    parts
}

fn is_call(part: &Value) -> bool {
    part.get("functionCall").is_some()
}

/// A kept reply with the names of our calls; results are matched by them.
fn again(kept: &[Value], turn: &Turn) -> Vec<Value> {
    let mut calls = turn.calls.iter();
    let mut parts = kept.to_vec();
    for part in parts.iter_mut().filter(|part| is_call(part)) {
        let called = part.get_mut("functionCall").and_then(Value::as_object_mut);
        if let (Some(called), Some(call)) = (called, calls.next()) {
            put_id(called, call);
            called.insert("name".to_owned(), json!(lettered(&call.name)));
            // Arguments that could not be read came as text.
            let readable = called.get("args").is_none_or(Value::is_object);
            if turn.is_cut(call) || !readable {
                called.insert("args".to_owned(), Value::Object(object(&understood(call, turn))));
            }
        }
    }
    parts
}

/// Models from the third generation on refuse calls that are not signed.
fn wants_signatures(model: &str) -> bool {
    let version = model.split("gemini-").nth(1).unwrap_or_default();
    let digits = version.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u32>().is_ok_and(|generation| generation >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_names_the_model_and_nothing_else() {
        for (model, stream, wanted) in [
            ("gemini-3-flash", false, "/models/gemini-3-flash:generateContent"),
            ("gemini-3-flash", true, "/models/gemini-3-flash:streamGenerateContent?alt=sse"),
            ("models/gemini-3-flash", false, "/models/gemini-3-flash:generateContent"),
            ("tunedModels/mine", false, "/tunedModels/mine:generateContent"),
            ("a?key=b#c d", false, "/models/a%3Fkey%3Db%23c%20d:generateContent"),
        ] {
            let options = Options { model: model.into(), stream, ..Options::default() };
            assert_eq!(path(&options), wanted);
        }
    }

    #[test]
    fn generations_are_told_apart() {
        for (model, wanted) in [
            ("gemini-3-pro-preview", true),
            ("models/gemini-3.1-flash", true),
            ("gemini-10-flash", true),
            ("gemini-2.5-pro", false),
            ("gemini-flash-latest", false),
            ("gemma-3", false),
            ("", false),
        ] {
            assert_eq!(wants_signatures(model), wanted, "{model}");
        }
    }

    #[test]
    fn options_have_the_names_of_the_api() {
        let sampling = json!({ "temperature": 0.5, "top_p": 0.9, "stop": "END", "max_tokens": 7,
            "thinking_config": { "thinkingLevel": "low" }, "safety_settings": [] });
        let options =
            Options { sampling: sampling.as_object().cloned().unwrap(), ..Options::default() };
        let (mut body, mut config) = (Map::new(), Map::new());
        sample(&mut body, &mut config, &options);
        assert_eq!(Value::Object(body), json!({ "safetySettings": [] }));
        let wanted = json!({ "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"],
            "maxOutputTokens": 7, "thinkingConfig": { "thinkingLevel": "low" } });
        assert_eq!(Value::Object(config), wanted);
    }
}
