//! Arbitrary argument text through the gate: no panic, and fitting twice equals fitting once.
//!
//! The first byte chooses the tool, the rest is what a model wrote.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{CallAdmitted, Conversation, Event, RawCall, Record};
use toolgate_kernel::fold::{Counted, OpenCall, Project, Session, World};
use toolgate_kernel::gate::{Call, Judgement, Refusal, admit, prepare};
use toolgate_kernel::json::parse_strict;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{CallId, PhaseName, SectionName, SessionId};
use toolgate_kernel::pin::Pins;
use toolgate_kernel::section::Section;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};

fuzz_target!(|data: &[u8]| {
    let Some((choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    strict_twice(text);
    let names: Vec<&str> = AGENT.toolset.entries().iter().map(|e| e.spec.name.as_str()).collect();
    let tool = names[usize::from(*choice) % names.len()];
    let Some(first) = gate(tool, text) else { return };
    let written = Value::Object(first.0.args_tree().clone()).to_string();
    // What came out of the gate goes through it again, and nothing is left to change.
    let second = gate(tool, &written).unwrap_or_else(|| panic!("refused its own form: {written}"));
    assert_eq!(first.0.args_tree(), second.0.args_tree(), "{written}");
    assert_eq!(first.0.args_hash(), second.0.args_hash(), "{written}");
    assert_eq!(first.0.keys(), second.0.keys(), "{written}");
    assert!(second.0.warnings().is_empty(), "{written}: {:?}", second.0.warnings());
    assert_eq!(second.1.args, None, "said to be rewritten: {written}");
});

/// What is accepted as JSON reads the same after it was written again.
fn strict_twice(text: &str) {
    let Ok(value) = parse_strict(text, &AGENT.limits) else { return };
    let written = value.to_string();
    let again = parse_strict(&written, &AGENT.limits);
    assert_eq!(again.as_ref().ok(), Some(&value), "{written}");
}

/// Takes a call through the whole gate; a refusal must be tellable and is no result.
fn gate(tool: &str, args: &str) -> Option<(Box<Call>, CallAdmitted)> {
    let mut session = SESSION.clone();
    let call = RawCall {
        id: CallId(session.next_call),
        name: tool.to_owned(),
        args: args.to_owned(),
        alias: None,
    };
    session.apply(&record(
        session.seq + 1,
        Event::CallReceived { call: call.clone().into(), of: None },
    ));
    let open: &OpenCall = session.open.get(&call.id).expect("the fold keeps what it received");
    let prepared = match prepare(&AGENT, &session, &Pins::default(), open) {
        Ok(prepared) => prepared,
        Err(refusal) => return tell(&refusal, &call),
    };
    let world = World {
        session: &session,
        project: &Project::default(),
        toolset: &AGENT.toolset,
        now: Timestamp(1),
        counted: Counted::NotYet,
    };
    match admit(&AGENT, &world, prepared, Vec::new()) {
        Judgement::Admitted(admitted) => {
            let event = admitted.event();
            Some((admitted.into_parts().0, event))
        }
        Judgement::Refused(refusal) => tell(&refusal, &call),
        Judgement::Asked { .. } => panic!("nobody asks here"),
    }
}

fn tell<T>(refusal: &Refusal, call: &RawCall) -> Option<T> {
    let told = refusal.envelope(call).to_json();
    assert!(serde_json::from_str::<Value>(&told).is_ok_and(|told| told["ok"] == json!(false)));
    assert!(!refusal.errors.is_empty() && refusal.errors.len() <= 10);
    None
}

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let mut section = Section::new(SectionName::parse("fuzz").unwrap());
    let drafts = [nothing(), nested(), unions(), paths(), open()];
    section.tools = drafts.into_iter().map(|draft| draft.build().unwrap().into()).collect();
    Agent::build(AgentDraft::new("fuzz", vec![section])).unwrap()
});

static SESSION: LazyLock<Session> = LazyLock::new(|| {
    let id = SessionId::parse("fuzz").unwrap();
    let mut session = Session::new(id.clone());
    let bound = Event::ConfigBound {
        config: Digest::ZERO,
        program: "fuzz".to_owned(),
        phase: PhaseName::parse("main").unwrap(),
        file: None,
    };
    let opened = Event::Opened {
        session: id,
        title: String::new(),
        images: Vec::new(),
        chat: false,
        agent: None,
        conversation: Conversation::Direct,
        starter: None,
    };
    session.apply(&record(1, opened));
    session.apply(&record(2, bound));
    session
});

fn record(seq: u64, event: Event) -> Record<Event> {
    Record {
        seq,
        at: Timestamp(0),
        actor: Actor::System,
        epoch: 1,
        saw: None,
        event,
        decision: None,
    }
}

fn nothing() -> SpecDraft {
    SpecDraft::new("nothing", "Takes no arguments.")
}

/// Records in lists in records, with aliases, bounds, a pattern and optional fields.
fn nested() -> SpecDraft {
    SpecDraft::new("plan", "Nested records.")
        .params_schema(json!({
            "type": "object",
            "properties": {
                "title": { "type": "string", "minLength": 1, "maxLength": 20 },
                "depth": { "type": ["integer", "null"], "minimum": -3, "maximum": 300 },
                "share": { "type": "number", "minimum": 0.0, "maximum": 1.5 },
                "mood": { "enum": ["calm", "tense", null, 3] },
                "final": { "type": "boolean" },
                "slug": { "type": "string", "pattern": "^[a-zä]+$" },
                "steps": { "type": "array", "maxItems": 4, "items": { "$ref": "#/$defs/step" } },
            },
            "required": ["title"],
            "$defs": { "step": {
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "weight": { "type": ["number", "null"] },
                    "inner": { "anyOf": [{ "$ref": "#/$defs/step" }, { "type": "null" }] },
                },
                "required": ["name"],
            } },
        }))
        .argument_alias("title", "name")
        .argument_alias("title", "heading")
        .argument_alias("steps[].name", "title")
        .effect(Effect::Staged)
}

/// Values that may be of several types, so that a failed attempt must leave nothing behind.
fn unions() -> SpecDraft {
    SpecDraft::new("either", "Unions.").params_schema(json!({
        "type": "object",
        "properties": {
            "plain": { "type": ["integer", "string", "boolean", "null"] },
            "list": { "anyOf": [
                { "type": "array", "items": { "type": "integer" } },
                { "type": "array", "items": { "type": ["number", "boolean"] } },
                { "type": "string" },
            ] },
            "shape": { "oneOf": [
                { "type": "object", "properties": {
                    "kind": { "const": "circle" }, "radius": { "type": "integer" } },
                    "required": ["kind", "radius"] },
                { "type": "object", "properties": {
                    "kind": { "const": "box" }, "radius": { "type": "string" },
                    "sides": { "type": "array", "items": { "type": "number" } } },
                    "required": ["kind"] },
            ] },
        },
    }))
}

/// Paths are brought into one form, and the footprint follows from them.
fn paths() -> SpecDraft {
    SpecDraft::new("copy", "Two paths.")
        .params_schema(json!({
            "type": "object",
            "properties": { "from": { "type": "string" }, "to": { "type": ["string", "null"] } },
            "required": ["from"],
        }))
        .path_argument("from", None)
        .path_argument("to", Some("/workspace/book"))
        .argument_alias("from", "path")
        .touches(|args| {
            let key = |name: &str| {
                let path = args.text(name);
                path.map(|path| Key::parse(&format!("file:{path}"))).transpose()
            };
            let from = key("from")?.map(|key| (Access::Read, key));
            let to = key("to")?.map(|key| (Access::Write, key));
            Ok(to.into_iter().chain(from).collect())
        })
        .effect(Effect::External)
}

/// Any fields at all, each of one type.
fn open() -> SpecDraft {
    SpecDraft::new("label", "Free fields.").params_schema(json!({
        "type": "object",
        "properties": { "any": true, "exact": { "type": "integer", "exclusiveMinimum": 0 } },
        "additionalProperties": { "type": ["number", "null"] },
    }))
}
