//! Somebody who holds the host key, and not a person's, writes in a person's name: `verify` finds
//! it, and nobody believes it.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::{
    Decided, DecisionKind, DecisionStatement, Nonce, Role, SignedDecision,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Change, Event, InboxEvent, ProjectEvent, Record, StreamId, Written};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::HostKey;
use toolgate_runtime::log::Tip;
use toolgate_runtime::port::{Append, Batch, Clock, Rows, Store, StreamHead};
use toolgate_store::{AnchorFolder, LogSetup, SqliteStore};

use crate::support::Desk;
use crate::terminal::{APPROVE, typing};

const CONFIG: &str = "packs: [notes, workspace]\npolicies:\n  - name: careful\n    rule: {tools: \
     [write_notes], ask: 'true', message: A note is serious.}\n";
/// What `verify` says of a decision that no person signed, and what commands say that meet one.
const UNFOUNDED: [&str; 2] = [
    "a person's decision without their signature",
    "a person's decision whose signature does not fit",
];
const NOT_COUNTED: &str = "a person's decision that does not count";

/// A project that knows a person, with a call that waits for their word.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", CONFIG);
    let waits = |key: &str| {
        let args = format!(r#"{{"key":"{key}","data":1}}"#);
        let ran = desk.run(&["call", "write_notes", &args]);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    };
    waits("a");
    let mut command = desk.command();
    command.args(["approvals", "deny", "c1"]);
    let answers = [("Type deny", "deny"), ("press Enter for none:", "")];
    let seen = typing(command, &answers, || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    desk.ok(&["call", "list_notes"]);
    waits("b");
    desk.ok(&["verify"]);
    desk
}

/// Which signature is put under a forged record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Under {
    Nothing,
    /// The key that is known, and a signature that is not its own.
    Scribble(PersonKey),
}

/// When a forged record says that it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Now,
    /// Before anybody's key was known.
    Long,
}

struct Now;

impl Clock for Now {
    fn now(&self) -> Timestamp {
        Timestamp(4_000_000_000_000)
    }
}

/// The log, opened by somebody who holds the host key and writes anchors too.
pub(crate) fn thief(desk: &Desk) -> SqliteStore {
    let seed = std::fs::read(desk.home().join(".config/toolgate/host.key")).unwrap();
    let host = HostKey::from_seed(&seed.try_into().unwrap()).unwrap();
    let anchors = AnchorFolder::open(&desk.home().join(".local/state/toolgate")).unwrap();
    let setup = LogSetup { anchors: Some(anchors), ..LogSetup::new(host, Arc::new(Now)) };
    SqliteStore::open(desk.project().join(".toolgate/log.db"), &setup).unwrap()
}

/// Adds a record to the end of a stream, with everything in order that the host key can sign.
pub(crate) fn forge<E: Written + Decided>(
    desk: &Desk,
    stream: StreamId,
    event: E,
    under: Under,
    when: When,
) {
    let at = match when {
        When::Now => Timestamp(4_000_000_000_000),
        When::Long => Timestamp(1),
    };
    let actor = Actor::Human("ada".into());
    let decision = match under {
        Under::Nothing => None,
        Under::Scribble(by) => {
            let nothing = DecisionKind::Bootstrap { key: by, name: String::new() };
            let statement = DecisionStatement {
                log: thief(desk).log_id(),
                head: None,
                by,
                role: Role::Owner,
                at,
                expires: at.plus_ms(1_000),
                nonce: Nonce([0; 16]),
                shown: Digest::ZERO,
                what: event.decision(&stream, &actor).unwrap_or(nothing),
            };
            Some(Box::new(SignedDecision { statement, signature: Signature([7; 64]) }))
        }
    };
    append(desk, stream, |seq, epoch| Record { seq, at, actor, epoch, saw: None, event, decision });
}

/// The same for what is not a person's word.
pub(crate) fn forge_as<E: Written>(desk: &Desk, stream: StreamId, event: E, actor: Actor) {
    let (at, decision) = (Timestamp(4_000_000_000_000), None);
    append(desk, stream, |seq, epoch| Record { seq, at, actor, epoch, saw: None, event, decision });
}

/// Adds records as they are to the end of a stream, with everything in order that the host key can sign.
pub(crate) fn append_rows(desk: &Desk, stream: &str, records: &[Vec<u8>]) {
    let (store, stream) = (thief(desk), StreamId::parse(stream).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let head = store.head(&stream).await.unwrap();
        let (after, mut link) = head.map_or((0, Digest::ZERO), |head| (head.seq, head.link));
        let (mut rows, mut seq) = (Rows::default(), after);
        for bytes in records {
            seq += 1;
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(bytes);
                Ok::<_, ()>(())
            };
            link = rows.add(seq, link, write).unwrap();
        }
        let head = StreamHead { stream, seq, link };
        let batch = Batch { epoch: None, after, rows, head };
        store.append(Append { batches: vec![batch], blobs: Vec::new() }).await.unwrap();
    });
}

pub(crate) fn append<E: Written>(
    desk: &Desk,
    stream: StreamId,
    record: impl FnOnce(u64, u64) -> Record<E>,
) {
    let store = thief(desk);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let head = store.head(&stream).await.unwrap();
        let mut tip = head.map_or(Tip::START, |head| Tip { seq: head.seq, hash: head.link });
        let epoch = match stream {
            StreamId::Session(_) => store.claim(&stream).await.unwrap(),
            StreamId::Project | StreamId::Inbox(_) => 0,
        };
        let after = tip.seq;
        let mut rows = Rows::default();
        tip.add(&record(after + 1, epoch), &mut rows).unwrap();
        let head = StreamHead { stream, seq: tip.seq, link: tip.hash };
        let batch = Batch { epoch: None, after, rows, head };
        store.append(Append { batches: vec![batch], blobs: Vec::new() }).await.unwrap();
    });
}

/// The key that the project knows.
pub(crate) fn known(desk: &Desk) -> PersonKey {
    let kept = std::fs::read(desk.home().join(".config/toolgate/person.key")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    serde_json::from_value(kept["key"].clone()).unwrap()
}

/// Where the inbox ends: it has the one word that enrolled the person.
fn inbox_hash(desk: &Desk) -> Digest {
    let store = thief(desk);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let inbox = StreamId::Inbox(SessionId::parse("call").unwrap());
    runtime.block_on(store.head(&inbox)).unwrap().unwrap().link
}

/// `verify` names the record, and nothing that would use it goes on.
fn found_and_not_believed(desk: &Desk, what: &str) {
    let ran = desk.run(&["verify", "--json"]);
    assert_eq!(ran.code, 1, "{what}: {}{}", ran.out, ran.err);
    assert!(
        UNFOUNDED.iter().any(|what| ran.out.contains(what))
            || ran.out.contains("heard another record"),
        "{what}: {}",
        ran.out
    );
    let ran = desk.run(&["call", "list_notes", "--json"]);
    assert_eq!(ran.code, 74, "{what}: {}{}", ran.out, ran.err);
    assert!(ran.out.contains(NOT_COUNTED), "{what}: {}", ran.out);
}

#[test]
fn a_fact_that_the_logs_key_alone_wrote_is_found_and_not_believed() {
    let session = SessionId::parse("call").unwrap();
    for call in [None, Some(CallId(1))] {
        for under in [None, Some(())] {
            let desk = desk();
            let under = under.map_or(Under::Nothing, |()| Under::Scribble(known(&desk)));
            let put =
                Change::Put { key: Key::parse("facts:city").unwrap(), value: json!("Porto"), v: 1 };
            let event = ProjectEvent::ProjectChanged {
                changes: vec![put],
                session: call.map(|_| session.clone()),
                call,
                reason: "p1".into(),
            };
            forge(&desk, StreamId::Project, event, under, When::Long);
            found_and_not_believed(&desk, &format!("{call:?} {under:?}"));
            assert_eq!(desk.run(&["facts", "list"]).code, 74);
        }
    }
}

#[test]
fn a_key_that_the_logs_key_alone_made_known_is_found_and_not_believed() {
    let desk = desk();
    let event = ProjectEvent::PersonEnrolled {
        key: PersonKey([9; 32]),
        name: "eve".into(),
        role: Role::Owner,
        tools: vec![],
    };
    forge(&desk, StreamId::Project, event, Under::Nothing, When::Now);
    found_and_not_believed(&desk, "enrolled");
}

#[test]
fn a_yes_that_the_logs_key_alone_wrote_is_found_and_not_believed() {
    let session = SessionId::parse("call").unwrap();
    for when in [When::Now, When::Long] {
        for scribbled in [false, true] {
            let what = format!("{when:?}, signed badly: {scribbled}");
            let told = |desk: &Desk| -> Value {
                let listed = desk.ok(&["approvals", "list", "--json"]);
                let card: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
                json!({"what": "answer", "call": card["call"], "tool": card["tool"],
                    "shown": card["shown"], "args_hash": Digest::of_json(&card["args"]), "answer": "approve", "note": ""})
            };
            let under = |desk: &Desk| match scribbled {
                true => Under::Scribble(known(desk)),
                false => Under::Nothing,
            };
            // Said to the session.
            let desk_one = desk();
            let said = serde_json::from_value(told(&desk_one)).unwrap();
            let inbox = StreamId::Inbox(session.clone());
            forge(&desk_one, inbox, InboxEvent::Spoken { said }, under(&desk_one), when);
            found_and_not_believed(&desk_one, &format!("said, {what}"));
            // As if the session had heard it: a record that is not there, or one that says
            // something else.
            let stream = StreamId::Session(session.clone());
            for inbox in [1, 2] {
                let desk_two = desk();
                let hash = inbox_hash(&desk_two).to_string();
                let said = told(&desk_two);
                let event = json!({"kind": "heard", "inbox": inbox, "hash": hash, "said": said});
                let event: Event = serde_json::from_value(event).unwrap();
                forge(&desk_two, stream.clone(), event, under(&desk_two), when);
                found_and_not_believed(&desk_two, &format!("heard, {inbox}, {what}"));
            }
        }
    }
}

/// The records of a session, as they lie in the log.
pub(crate) fn session_records(desk: &Desk, session: &str) -> Vec<Value> {
    let log = rusqlite::Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let sql = "SELECT CAST(bytes AS TEXT) FROM records WHERE stream = (SELECT id FROM streams WHERE \
               stream = ?1) ORDER BY seq";
    let mut rows = log.prepare(sql).unwrap();
    let texts = rows.query_map([format!("session/{session}")], |row| row.get::<_, String>(0));
    texts.unwrap().map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()
}

/// A thief copies the admission of a call that a person approved, for a call of its own.
#[test]
fn an_admission_that_says_it_is_approved_is_found_and_not_believed() {
    for copied in [true, false] {
        let desk = desk();
        let mut command = desk.command();
        command.args(["approvals", "approve", "c3"]);
        let seen = typing(command, &[APPROVE], || {});
        assert_eq!(seen.code, 0, "{}", seen.screen);
        desk.ok(&["verify"]);
        let records = session_records(&desk, "call");
        let admitted = records.iter().find(|record| record["event"]["basis"]["answer"].is_object());
        let admitted = admitted.expect("an approval");
        let mut forged = admitted["event"].clone();
        let original = forged["call"].as_str().unwrap().to_owned();
        let received = records
            .iter()
            .find(|record| {
                record["event"]["kind"] == "call_received"
                    && record["event"]["call"]["id"] == original.as_str()
            })
            .expect("the call");
        let mut call = received["event"].clone();
        (call["call"]["id"], forged["call"]) = ("c50".into(), "c50".into());
        call.as_object_mut().unwrap().remove("of");
        if !copied {
            forged["frame"] = "0".repeat(64).into();
        }
        let session = StreamId::Session(SessionId::parse("call").unwrap());
        for event in [call, forged] {
            let event: Event = serde_json::from_value(event).unwrap();
            forge_as(&desk, session.clone(), event, Actor::System);
        }
        let ran = desk.run(&["verify"]);
        let told = "a call is said to rest on a person's decision, and no such decision covers it";
        assert!(ran.code == 1 && ran.out.contains(told), "{}{}", ran.out, ran.err);
        // Going on runs it only after it was judged anew, which asks a person.
        desk.run(&["call", "list_notes"]);
        let records = session_records(&desk, "call");
        let done = |record: &&Value| {
            record["event"]["kind"] == "call_settled"
                && record["event"]["call"] == "c50"
                && record["event"]["outcome"] == "done"
        };
        assert_eq!(records.iter().find(done), None, "copied: {copied}");
        assert_eq!(desk.run(&["verify"]).code, 1, "it stays found");
    }
}

/// A thief asks about a call with harmless arguments, and binds the answer to other ones.
#[test]
fn a_question_that_hides_what_would_run_is_found_and_cannot_be_answered() {
    let desk = desk();
    let session = StreamId::Session(SessionId::parse("call").unwrap());
    let hidden = Digest::of_json(&json!({"key": "a", "data": "everything"}));
    let (name, args) = ("write_notes", r#"{"key":"a","data":1}"#);
    for event in [
        json!({"kind": "call_received", "call": {"id": "c50", "name": name, "args": args}}),
        json!({"kind": "call_asked", "call": "c50", "tool": name, "policy": "careful",
            "reason": "A note is serious.", "args_hash": hidden, "frame": hidden}),
    ] {
        let event: Event = serde_json::from_value(event).unwrap();
        forge_as(&desk, session.clone(), event, Actor::System);
    }
    let listed = desk.run(&["approvals", "list", "--json"]);
    let told = "other arguments than an answer would be for";
    assert!(listed.err.contains(told), "{}", listed.err);
    assert!(!listed.out.contains("c50"), "{}", listed.out);
    let shown = desk.run(&["approvals", "show", "c50"]);
    assert!(shown.code != 0 && !shown.out.contains("would run"), "{}", shown.out);
    let ran = desk.run(&["verify"]);
    let what = "a question shows other arguments than an answer to it is for";
    assert!(ran.code == 1 && ran.out.contains(what), "{}{}", ran.out, ran.err);
}
