//! Decides what a case of the conformance kit may say. Its folder holds `case.yaml`, and for each
//! dialect `<dialect>.reply.json`, `<dialect>.stream`, and the goldens `<dialect>.request.json` and
//! `<dialect>.next.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{FaultKind, Finish, Image, Note, NoteKind, RawCall, Usage};
use toolgate_kernel::fold::{Told, Turn};
use toolgate_kernel::names::{CallId, ToolName};
use toolgate_kernel::plan::{Choice, OutputShape, Plan, ShapeMode};
use toolgate_kernel::render::ResultFormat;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};
use toolgate_runtime::port::Reply;
use toolgate_wire::dialect::{Capabilities, Dialect, Options};

/// A case as it is written down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What it shows.
    pub(crate) about: String,
    /// What is asked.
    #[serde(default)]
    ask: Ask,
    /// What the answer says.
    #[serde(default)]
    pub(crate) reply: Option<Said>,
    /// Or what is wrong with it.
    #[serde(default)]
    pub(crate) fault: Option<FaultKind>,
    /// Dialects that have no such thing, with the reason.
    #[serde(default)]
    pub(crate) without: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Ask {
    system: Option<String>,
    input: Option<String>,
    /// Pictures beside the input, by their bytes as text.
    pictures: Vec<String>,
    tools: Option<Vec<String>>,
    choice: Option<String>,
    /// Turns that came before.
    turns: Vec<Before>,
    feedback: Vec<String>,
    notes: Vec<String>,
    shape: Option<String>,
    parallel: Option<bool>,
    preserve_cache: bool,
    sampling: Map<String, Value>,
    output_tokens_max: Option<u64>,
    overrides: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Before {
    notes: Vec<String>,
    text: String,
    calls: Vec<Call>,
}

/// What a reply says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) finish: Option<Finish>,
    pub(crate) usage: Usage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Call {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) args: Value,
}

/// The folder of the kit.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Every case with its name, in order.
pub(crate) fn cases() -> Vec<(String, Case)> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() > 15, "the kit was not found");
    let read = |name: String| {
        let text = std::fs::read_to_string(folder().join(&name).join("case.yaml")).unwrap();
        let case: Case =
            serde_saphyr::from_str(&text).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        assert!(case.reply.is_some() != case.fault.is_some(), "{name}: a reply or a fault");
        (name, case)
    };
    names.into_iter().map(read).collect()
}

/// A file of a case, if it is there.
pub(crate) fn file(case: &str, dialect: Dialect, ending: &str) -> Option<String> {
    let name = format!("{}.{ending}", dialect.as_str());
    std::fs::read_to_string(folder().join(case).join(name)).ok()
}

/// The dialects that have come to the kit. One that has a file has them all.
pub(crate) fn dialects() -> Vec<Dialect> {
    let any = |dialect: &Dialect| file("text", *dialect, "reply.json").is_some();
    Dialect::ALL.into_iter().filter(any).collect()
}

/// A tool of the kit.
fn tool(name: &str) -> Arc<ToolSpec> {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let (about, properties, required) = match name {
        "read_note" => ("Reads a note.", json!({ "key": text("Which one.") }), json!(["key"])),
        "write_note" => (
            "Writes a note.",
            json!({ "key": text("Which one."), "text": text("What it says.") }),
            json!(["key", "text"]),
        ),
        "list_notes" => ("Lists all notes.", json!({}), json!([])),
        other => panic!("the kit has no tool {other:?}"),
    };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    Arc::new(SpecDraft::new(name, about).params_schema(schema).build().unwrap())
}

const EVERY: [&str; 3] = ["list_notes", "read_note", "write_note"];

fn told(call: &RawCall) -> Arc<Told> {
    let data = json!({ "of": call.id.to_string() });
    let envelope = Envelope::answer(&call.name, "Done.".to_owned(), data, Vec::new());
    Arc::new(Told { envelope: Arc::new(envelope), message_only: false })
}

/// A turn, its calls numbered from `first` and answered.
fn turn(number: u64, first: u64, notes: &[String], reply: &Reply) -> Turn {
    let calls: Arc<[Arc<RawCall>]> = (first..)
        .zip(&reply.calls)
        .map(|(id, call)| {
            let (name, args) = (call.name.clone(), call.args.clone());
            Arc::new(RawCall { id: CallId(id), name, args, alias: call.alias.clone() })
        })
        .collect();
    Turn {
        number,
        notes: notes.iter().map(|note| Arc::from(note.as_str())).collect(),
        images: Default::default(),
        text: reply.text.as_str().into(),
        told: calls.iter().map(|call| (call.id, told(call))).collect(),
        calls,
        finish: reply.finish,
        native: reply.native.clone().map(Arc::new),
    }
}

impl Before {
    fn reply(&self) -> Reply {
        use toolgate_runtime::port::ReplyCall;
        let calls = self.calls.iter().map(|call| ReplyCall {
            alias: call.id.clone(),
            name: call.name.clone(),
            args: match call.args.as_str() {
                Some(text) => text.to_owned(),
                None if call.args.is_null() => String::new(),
                None => call.args.to_string(),
            },
        });
        let calls: Vec<ReplyCall> = calls.collect();
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        Reply::new(self.text.clone(), calls, finish, Usage::default())
    }
}

impl Case {
    /// The request as a plan.
    pub(crate) fn plan(&self) -> Plan {
        let ask = &self.ask;
        let text = |given: &Option<String>, or: &str| Arc::from(given.as_deref().unwrap_or(or));
        let arcs = |texts: &[String]| texts.iter().map(|text| Arc::from(text.as_str())).collect();
        let picture = |bytes: &String| Image {
            media_type: "image/png".to_owned(),
            hash: Digest::of(bytes.as_bytes()),
        };
        let tools = ask.tools.clone().unwrap_or_else(|| EVERY.map(str::to_owned).to_vec());
        let note = |text: &String| Note { about: NoteKind::Phase, text: text.clone() };
        let mut first = 1;
        let mut turns = imbl::Vector::new();
        for (number, before) in (1..).zip(&ask.turns) {
            turns.push_back(Arc::new(turn(number, first, &before.notes, &before.reply())));
            first += u64::try_from(before.calls.len()).unwrap();
        }
        Plan {
            turn: u64::try_from(turns.len()).unwrap() + 1,
            iteration: 1,
            title: "The kit".into(),
            system: text(&ask.system, "You keep notes."),
            input: text(&ask.input, "What do the notes say?"),
            images: ask.pictures.iter().map(|bytes| Arc::new(picture(bytes))).collect(),
            turns,
            feedback: arcs(&ask.feedback),
            feedback_images: Vec::new(),
            notes: ask.notes.iter().map(note).collect(),
            tools: tools.iter().map(|name| tool(name)).collect(),
            every: EVERY.iter().map(|name| tool(name)).collect(),
            choice: choice(ask.choice.as_deref()),
            result_format: ResultFormat::Envelope,
            shape: ask.shape.as_deref().map(shape),
            pictures: ask
                .pictures
                .iter()
                .map(|bytes| (picture(bytes).hash, Arc::from(bytes.as_bytes())))
                .collect(),
            tokens_estimated: 0,
            fingerprint: Digest::ZERO,
        }
    }

    /// The request after a reply to it: its calls are answered, and the user goes on.
    pub(crate) fn next_plan(&self, reply: &Reply) -> Plan {
        self.next_after(self.plan(), reply)
    }

    /// The same after a plan that is at hand.
    pub(crate) fn next_after(&self, mut plan: Plan, reply: &Reply) -> Plan {
        let first = plan.turns.iter().map(|turn| turn.calls.len()).sum::<usize>();
        let first = u64::try_from(first).unwrap() + 1;
        let mut notes = self.ask.feedback.clone();
        notes.extend(self.ask.notes.iter().cloned());
        plan.turns.push_back(Arc::new(turn(plan.turn, first, &notes, reply)));
        plan.turn += 1;
        (plan.notes, plan.shape, plan.choice) = (Vec::new(), None, Choice::Auto);
        plan.feedback = vec!["Go on.".into()];
        plan
    }

    /// What the model adds.
    pub(crate) fn options(&self) -> Options {
        Options {
            model: "model-1".to_owned(),
            sampling: self.ask.sampling.clone(),
            request_overrides: self.ask.overrides.clone(),
            output_tokens_max: self.ask.output_tokens_max,
            preserve_cache: self.ask.preserve_cache,
            parallel_tool_calls: self.ask.parallel,
            capabilities: Capabilities {
                json_schema: true,
                parallel_tool_calls: true,
                ..Capabilities::default()
            },
            ..Options::default()
        }
    }
}

fn choice(word: Option<&str>) -> Choice {
    match word {
        None | Some("auto") => Choice::Auto,
        Some("none") => Choice::None,
        Some("required") => Choice::Required,
        Some(tool) => Choice::Tool(ToolName::parse(tool).unwrap()),
    }
}

fn shape(mode: &str) -> Arc<OutputShape> {
    let mode = match mode {
        "json_schema" => ShapeMode::JsonSchema,
        "json_object" => ShapeMode::JsonObject,
        other => panic!("no mode {other:?}"),
    };
    let schema = json!({
        "type": "object", "properties": { "title": { "type": "string" } },
        "required": ["title"], "additionalProperties": false,
    });
    Arc::new(OutputShape { name: "summary".to_owned(), mode, schema })
}
