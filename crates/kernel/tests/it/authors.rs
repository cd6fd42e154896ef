//! Who may write what: every kind of event by every kind of actor, written and forged.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{DecodeRefusal, Event, InboxEvent, ProjectEvent, Record, Written};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;

const ACTORS: &[&str] = &[
    "human:ada",
    "file:manuscript.md",
    "client_user:editor",
    "agent:writer",
    "model:script",
    "client:mcp",
    "system",
];

const DIGEST: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// One of each kind a session can hold, as it stands in the log.
fn session_events() -> Vec<Value> {
    let envelope = json!({"ok": true, "tool": "t"});
    let call = json!({"id": "c1", "name": "t", "args": "{}"});
    let usage = json!({"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0});
    vec![
        json!({"kind": "opened", "session": "s1", "title": ""}),
        json!({"kind": "forked", "from": {"session": "s0", "seq": 7, "hash": DIGEST},
               "program": "1", "carried": Session::new(SessionId::parse("s0").unwrap()),
               "left": ["c1 waits there."], "note": "Look again."}),
        json!({"kind": "config_bound", "config": DIGEST, "program": "1", "phase": "main"}),
        json!({"kind": "iteration_opened", "iteration": 1, "prompt": DIGEST, "input": ""}),
        json!({"kind": "iteration_closed", "iteration": 1, "closing": "done", "note": "",
            "summary": "", "start_phase": "A", "end_phase": "A", "entered": [], "turns": 0,
            "calls": 0, "input_tokens": 0, "output_tokens": 0, "took_ms": 0}),
        json!({"kind": "request_opened", "allowed_tools": ["t"], "required_tool": {"tool": "t"}}),
        json!({"kind": "plan_sent", "turn": 1, "model": "m", "plan": DIGEST, "tools": ["t"]}),
        json!({"kind": "model_replied", "turn": 1, "text": "", "calls": [call], "finish": "calls",
               "usage": usage}),
        json!({"kind": "model_failed", "turn": 1, "reason": "gone"}),
        json!({"kind": "call_received", "call": call}),
        json!({"kind": "call_admitted", "call": "c1", "tool": "t", "version": "0123456789abcdef",
               "effect": "read", "args_hash": DIGEST}),
        json!({"kind": "call_asked", "call": "c1", "tool": "t", "args_hash": DIGEST,
               "policy": "p", "reason": "because"}),
        json!({"kind": "call_refused", "call": "c1", "stage": "judge", "envelope": envelope}),
        json!({"kind": "call_started", "call": "c1", "key": "s1/c1"}),
        json!({"kind": "call_settled", "call": "c1", "outcome": "done", "envelope": envelope}),
        json!({"kind": "file_conflicted", "call": "c1", "path": "a.md", "note": "Look."}),
        json!({"kind": "state_changed", "changes": [{"op": "clear"}], "reason": "anew"}),
        json!({"kind": "undone", "id": "c2", "calls": [{"call": "c1", "tool": "t"}],
               "changes": [{"op": "remove", "key": "note:a"}],
               "files": [{"path": "a.md", "old": DIGEST}], "left": ["b.md stays."],
               "note": "c1 is undone."}),
        json!({"kind": "phase_entered", "phase": "b", "from": "a", "reason": "done", "call": "c1"}),
        json!({"kind": "phase_entered", "phase": "b", "from": "a", "reason": "asked"}),
        json!({"kind": "tools_supplied", "phase": "a", "tools": ["mcp:web:search"]}),
        json!({"kind": "heard", "inbox": 1, "hash": DIGEST,
               "said": {"what": "stop", "reason": ""}}),
        json!({"kind": "heard", "inbox": 2, "hash": DIGEST, "said": {"what": "go_on"}}),
        json!({"kind": "heard", "inbox": 3, "hash": DIGEST, "said": answer()}),
        json!({"kind": "heard", "inbox": 4, "hash": DIGEST, "said": withdraw()}),
        json!({"kind": "heard", "inbox": 5, "hash": DIGEST,
               "said": {"what": "clear_taint", "reason": "read", "seen": 9}}),
        json!({"kind": "log_restored", "restore": {"seq": 9, "statement": DIGEST}}),
        json!({"kind": "ended", "ending": "completed", "note": ""}),
    ]
}

fn pinned(ruling: &str) -> Value {
    let definition = json!({"about": "Searches.", "input": {"type": "object"}});
    json!({"kind": "tool_pinned", "tool": "mcp:web:search", "ruling": ruling,
           "definition": definition})
}

fn project_events() -> Vec<Value> {
    vec![
        json!({"kind": "project_opened"}),
        json!({"kind": "session_opened", "session": "s1"}),
        json!({"kind": "project_configured", "config": DIGEST, "session": "s1"}),
        json!({"kind": "project_changed", "changes": [], "session": "s1", "call": "c1",
               "reason": "t"}),
        // Without a call nobody's tool did it, so a person must have.
        json!({"kind": "project_changed", "changes": [], "reason": "by hand"}),
        json!({"kind": "project_changed", "changes": [], "session": "s1", "reason": "by hand"}),
        pinned("first_seen"),
        pinned("quarantined"),
        pinned("accepted"),
        pinned("rejected"),
        json!({"kind": "person_enrolled", "key": DIGEST, "name": "ada", "role": "owner"}),
        json!({"kind": "person_revoked", "key": DIGEST, "reason": "lost"}),
        json!({"kind": "config_trusted", "reach": DIGEST, "gate": DIGEST, "text": DIGEST}),
        json!({"kind": "client_delegated", "client": "editor", "tools": ["mcp:bank:*"],
               "until": 1, "answers_max": 1}),
        json!({"kind": "delegation_ended", "delegation": 1}),
        json!({"kind": "catalogue_decided", "changes": [], "note": "", "ruling":
               {"about": "proposal", "proposal": 1, "revision": 1, "digest": DIGEST,
                "ruling": "approve"}}),
        json!({"kind": "log_restored", "seen": {"size": 9, "root": DIGEST},
               "now": {"size": 5, "root": DIGEST}}),
        json!({"kind": "families_marked", "families": ["note"], "session": "s1", "call": "c1"}),
        json!({"kind": "families_cleared", "families": ["note"], "reason": "read"}),
        json!({"kind": "delegation_used", "delegation": 1, "session": "s1", "call": "c1",
               "tool": "t", "question": DIGEST}),
    ]
}

fn answer() -> Value {
    json!({"what": "answer", "call": "c1", "tool": "t", "shown": DIGEST,
        "args_hash": DIGEST, "answer": "approve"})
}

fn withdraw() -> Value {
    json!({"what": "withdraw", "tool": "t", "policy": "p"})
}

fn inbox_events() -> Vec<Value> {
    vec![
        json!({"kind": "spoken", "said": {"what": "feedback", "text": "shorter"}}),
        json!({"kind": "spoken", "said": {"what": "go_on"}}),
        json!({"kind": "spoken", "said": {"what": "stop", "reason": "enough"}}),
        json!({"kind": "spoken", "said": answer()}),
        json!({"kind": "spoken", "said": withdraw()}),
        json!({"kind": "spoken", "said": {"what": "clear_taint", "reason": "read", "seen": 9}}),
    ]
}

/// Whether only a person may write this: the list itself, apart from the code that keeps it.
fn needs_a_person(event: &Value) -> bool {
    match event["kind"].as_str().unwrap() {
        "state_changed" | "undone" => true,
        "person_enrolled" | "person_revoked" | "config_trusted" | "client_delegated" => true,
        "delegation_ended" | "families_cleared" | "catalogue_decided" => true,
        "project_changed" => event.get("call").is_none(),
        "log_restored" => event.get("seen").is_some(),
        "tool_pinned" => ["accepted", "rejected"].contains(&event["ruling"].as_str().unwrap()),
        "spoken" | "heard" => ["go_on", "answer", "withdraw", "clear_taint"]
            .contains(&event["said"]["what"].as_str().unwrap()),
        _ => false,
    }
}

/// An edited file changes the state that it shows, and the user of a client answers within a
/// delegation.
fn is_open_to(event: &Value, actor: &str) -> bool {
    match actor.split_once(':').map(|(kind, _)| kind) {
        Some("file") => event["kind"] == "project_changed",
        Some("client_user") => event["said"]["what"] == "answer",
        _ => false,
    }
}

/// Writes the event as each actor, then forges its bytes in each actor's name.
fn check<E: Written + DeserializeOwned>(events: &[Value]) {
    for event in events {
        for name in ACTORS {
            let actor = Actor::try_from((*name).to_owned()).unwrap();
            let legal = actor.is_human() || !needs_a_person(event) || is_open_to(event, name);
            let typed: E = serde_json::from_value(event.clone()).unwrap();
            let record = Record {
                seq: 1,
                at: Timestamp(0),
                actor,
                epoch: 1,
                saw: None,
                event: typed,
                decision: None,
            };
            assert_eq!(record.check_author().is_ok(), legal, "{name}: {event}");
            assert_eq!(record.encode().is_ok(), legal, "{name} writes {event}");
            let forged = json!({"seq": 1, "at": 0, "actor": name, "epoch": 1, "event": event});
            let read = Record::<E>::decode(forged.to_string().as_bytes());
            match read {
                Ok(_) => assert!(legal, "{name} forges {event}"),
                Err(DecodeRefusal::Author(refusal)) => {
                    assert!(!legal, "{name}: {event}");
                    assert!(refusal.to_string().contains(name), "{refusal}");
                }
                Err(DecodeRefusal::Unreadable(error)) => panic!("{event}: {error}"),
            }
        }
    }
}

#[test]
fn what_only_a_person_may_write_nobody_else_writes_or_forges() {
    check::<Event>(&session_events());
    check::<ProjectEvent>(&project_events());
    check::<InboxEvent>(&inbox_events());
}

/// The kinds a type has, read from its schema, so that a new one cannot be left out here.
fn kinds<E: schemars::JsonSchema>() -> BTreeSet<String> {
    let schema = schemars::schema_for!(E).to_value();
    let variants = schema["oneOf"].as_array().unwrap();
    variants
        .iter()
        .map(|variant| variant["properties"]["kind"]["const"].as_str().unwrap().to_owned())
        .collect()
}

fn named(events: &[Value]) -> BTreeSet<String> {
    events.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_kind_of_event_is_in_the_table() {
    assert_eq!(named(&session_events()), kinds::<Event>());
    assert_eq!(named(&project_events()), kinds::<ProjectEvent>());
    assert_eq!(named(&inbox_events()), kinds::<InboxEvent>());
}

/// The name an event has in code is the name it has in the log.
#[test]
fn an_event_knows_its_own_kind() {
    for event in session_events() {
        let typed: Event = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(typed.kind(), event["kind"].as_str().unwrap());
    }
}

/// Somebody who is nobody, or calls himself something else, has no record at all.
#[test]
fn a_record_without_a_known_actor_is_unreadable() {
    for actor in
        [json!(null), json!(""), json!("human"), json!("human:"), json!("root:x"), json!(7)]
    {
        let event = json!({"kind": "model_failed", "turn": 1, "reason": ""});
        let bytes = json!({"seq": 1, "at": 0, "actor": actor, "epoch": 1, "event": event});
        let read = Record::<Event>::decode(bytes.to_string().as_bytes());
        assert!(matches!(read, Err(DecodeRefusal::Unreadable(_))), "{actor}");
    }
    let nobody = json!({"seq": 1, "at": 0, "epoch": 1, "event": {"kind": "project_opened"}});
    assert!(Record::<ProjectEvent>::decode(nobody.to_string().as_bytes()).is_err());
}
