//! A fork begins with the fold that its record holds, and with nothing that a person said elsewhere.

use serde_json::{Value, json};
use toolgate_kernel::event::{Event, Record};
use toolgate_kernel::fold::Session;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;

/// A record as the first version wrote it. It is never changed: logs that have such a record must
/// stay readable, so a field that is new in the fold needs a default.
const STORED: &str = include_str!("../data/forked.json");

fn stored() -> Value {
    serde_json::from_str(STORED).unwrap()
}

fn begun(forked: &Value) -> Session {
    let id = SessionId::parse("f1").unwrap();
    let mut session = Session::new(id.clone());
    let opened = json!({"seq": 1, "at": 5, "actor": "client:cli", "epoch": 3,
        "event": {"kind": "opened", "session": "f1", "title": "Write and delete.", "chat": true}});
    for record in [&opened, forked] {
        session.apply(&Record::<Event>::decode(record.to_string().as_bytes()).unwrap());
    }
    assert_eq!((&session.id, session.seq, session.opened_at), (&id, 2, Timestamp(5)));
    session
}

#[test]
fn a_fork_that_was_stored_stays_readable() {
    let session = begun(&stored());
    let from = session.origin.as_ref().unwrap();
    assert_eq!((from.session.as_str(), from.seq), ("chat-20261116200533-eafa", 12));
    assert_eq!((session.turn, session.turns.len(), session.next_call), (2, 2, 4));
    assert_eq!(session.phase.as_ref().unwrap().as_str(), "main");
    assert!(session.chat && session.whole());
    let told =
        "c2 (delete_notes) no longer waits for a person; make the call again if it is wanted.";
    assert_eq!(session.feedback.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), [told]);
}

/// Whoever writes a record cannot give a fork what only a person gives.
#[test]
fn a_fork_takes_over_no_word_of_a_person_and_no_end() {
    let mut forged = stored();
    let carried = &mut forged["event"]["carried"];
    let raw = json!({"id": "c2", "name": "delete_notes", "args": "{}"});
    let decision = json!({"stream": "inbox/f1", "seq": 1, "hash": "0".repeat(64)});
    carried["allowances"] = json!([{"tool": "delete_notes", "policy": "careful", "frame": null,
        "terms": {"until": 9_000_000_000_000_i64, "uses_max": 9}, "uses": 0,
        "decision": decision, "who": "human:ada", "since": 1}]);
    carried["waiting"] = json!({"c2": {"raw": raw, "actor": "model:m", "modelled": true,
        "tool": "delete_notes", "policy": "careful", "reason": "", "args": null,
        "args_hash": "0".repeat(64), "frame": null, "since": 1, "expires_at": null,
        "word": {"who": "human:ada", "answer": "approve", "args": null, "note": "",
        "basis": {"answer": decision}}}});
    carried["open"] = json!({"c2": {"raw": raw, "actor": "model:m", "shown_in": null, "turn": 2,
        "progress": {"Answered": {"tool": "delete_notes", "answer": "approve",
            "args_hash": "0".repeat(64), "note": "", "basis": {"answer": decision}}}}});
    (carried["ended"], carried["stop"]) = (json!("completed"), json!("enough"));
    (carried["inbox"], carried["asking"]) = (json!(9), json!(true));
    assert_eq!(begun(&forged), begun(&stored()));
}
