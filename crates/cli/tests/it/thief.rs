//! Somebody who holds the host key forges what would let a call of a server's tool run: answers,
//! admissions, checkpoints and definitions. The ledger of the server says that nothing ran.

use std::sync::Arc;

use rusqlite::Connection;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::{AllowanceTerms, DecisionRef};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Event, InboxEvent, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Allowance, Project, Session};
use toolgate_kernel::names::{PolicyName, SessionId, ToolName};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::checkpoint_body;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Checkpoint, Store};
use toolgate_store::SqliteStore;
use toolgate_testkit::mcp::Mode;

use crate::forgery::{Under, When, forge, forge_as, known, session_records, thief};
use crate::servers::Web;
use crate::support::{Beside, Desk};
use crate::terminal::{APPROVE, Seen, typing};

const FIRST: (&str, &str) = ("press Enter for none:", "");

/// A project whose server writes to the world when a person says so, and who knows that person: `c1` was
/// denied, and `c3` waits.
fn desk() -> (Desk, Web) {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    desk.write("toolgate.yaml", &config(&web));
    waits(&desk, "No");
    let seen = at_terminal(&desk, &["approvals", "deny", "c1"], &[("Type deny", "deny"), FIRST]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    desk.ok(&["call", "list_notes"]);
    waits(&desk, "Dear all");
    desk.ok(&["verify"]);
    assert_eq!(web.calls(), [""; 0]);
    (desk, web)
}

fn config(web: &Web) -> String {
    format!(
        "packs: [notes]\nmcp_servers:\n  x: {{url: '{}'}}\nphases:\n  main: {{tools: {{mcp: [x], \
         groups: [notes]}}}}\npolicies:\n  - name: careful\n    rule: {{tools: ['mcp:x:write'], \
         ask: 'true', message: It leaves the house.}}\n",
        web.url
    )
}

fn waits(desk: &Desk, text: &str) {
    let ran = desk.run(&["call", "mcp:x:write", &json!({ "text": text }).to_string(), "--json"]);
    assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
}

fn at_terminal(desk: &Desk, args: &[&str], answers: &[(&str, &str)]) -> Seen {
    let mut command = desk.command();
    command.args(args);
    typing(command, answers, || {})
}

/// Approves the call that waits. It runs, once.
fn approve(desk: &Desk, web: &Web, call: &str) {
    let seen = at_terminal(desk, &["approvals", "approve", call], &[APPROVE]);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(web.calls().len(), 1, "{}", seen.screen);
    desk.ok(&["verify"]);
}

fn call_stream() -> StreamId {
    stream_of("call")
}

fn stream_of(session: &str) -> StreamId {
    StreamId::Session(SessionId::parse(session).unwrap())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// What would be signed or said to approve a call that waits in a session.
fn yes(desk: &Desk, session: &str, always: bool) -> Value {
    let listed = desk.ok(&["approvals", "list", "--json"]);
    let cards = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let card = cards.into_iter().find(|card| card["session"] == session).expect(&listed);
    let mut said = json!({"what": "answer", "call": card["call"], "tool": card["tool"],
        "shown": card["shown"], "answer": "approve", "note": "",
        "args_hash": Digest::of_json(&card["args"])});
    if always {
        said["allow"] = json!({"until": 4_000_000_100_000_i64, "uses_max": 100});
    }
    said
}

/// `verify` names it, and nothing that would use it goes on.
fn is_red_and_stopped(desk: &Desk, web: &Web, what: &str) {
    let verified = desk.run(&["verify"]);
    assert_eq!(verified.code, 1, "{what}: {}{}", verified.out, verified.err);
    for args in [
        &["call", "list_notes"] as &[&str],
        &["call", "mcp:x:write", r#"{"text":"Dear all"}"#],
        &["approvals", "approve", "c3"],
    ] {
        let ran = desk.run(args);
        assert!([2, 3, 74].contains(&ran.code), "{what}: {args:?}: {}{}", ran.out, ran.err);
    }
    assert_eq!(desk.run(&["call", "list_notes"]).code, 74, "{what}");
    assert_eq!(web.calls(), [""; 0], "{what}");
}

/// Row 1: an answer as the person and as the user of a client, for once and for always, in the inbox and
/// as if the session had heard it.
#[test]
fn no_forged_answer_runs_a_call() {
    for always in [false, true] {
        for user in [false, true] {
            let what = format!("always: {always}, user of a client: {user}");
            let inbox = StreamId::Inbox(SessionId::parse("call").unwrap());
            let actor = || Actor::ClientUser("stdio".into());
            let (desk, web) = desk();
            let mut said = yes(&desk, "call", always);
            if user {
                said["delegation"] = json!(1);
            }
            let event = InboxEvent::Spoken { said: serde_json::from_value(said.clone()).unwrap() };
            match user {
                true => forge_as(&desk, inbox, event, actor()),
                false => forge(&desk, inbox, event, Under::Scribble(known(&desk)), When::Now),
            }
            is_red_and_stopped(&desk, &web, &format!("said, {what}"));
            let (desk, web) = self::desk();
            said["shown"] = yes(&desk, "call", false)["shown"].clone();
            let heard = json!({"kind": "heard", "inbox": 2, "hash": Digest::ZERO, "said": said});
            let event: Event = serde_json::from_value(heard).unwrap();
            match user {
                true => forge_as(&desk, call_stream(), event, actor()),
                false => forge(&desk, call_stream(), event, Under::Nothing, When::Long),
            }
            is_red_and_stopped(&desk, &web, &format!("heard, {what}"));
        }
    }
}

/// The same for a run of a model that waits, and is resumed.
#[test]
fn no_forged_answer_resumes_a_run() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    let script = "replies:\n  - calls: [{tool: mcp__x__write, args: {text: Dear all}}]\n  - calls: \
                  [{tool: change_phase, args: {new_phase: end, reason: x}}]\n";
    let beside = Beside::playing(script);
    let models = format!("settings: {{model: m, auto_pilot: false}}\n{}", beside.config("openai"));
    let config = config(&web).replace("[notes]", "[notes, phase]");
    // After the first phase a person says whether to go on.
    let goes_on = "phase]}, transitions: [end]}\n  end: {}\npolicies:";
    let config = config.replace("phase]}}\npolicies:", goes_on);
    desk.write_trusted(&format!("{config}{models}"));
    let run = || {
        let mut command = desk.command();
        let ran = command.env("FAKE_KEY", "sk-CANARY-01").args(["run", "x"]).output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    assert_eq!(run().0, Some(3), "{}", run().1);
    let listed = desk.ok(&["approvals", "list", "--json"]);
    let card: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let session = card["session"].as_str().unwrap().to_owned();
    let said = yes(&desk, &session, true);
    let inbox = StreamId::Inbox(SessionId::parse(&session).unwrap());
    let event = InboxEvent::Spoken { said: serde_json::from_value(said).unwrap() };
    forge(&desk, inbox, event, Under::Scribble(known(&desk)), When::Now);
    let (code, told) = run();
    assert_eq!(code, Some(74), "{told}");
    assert!(told.contains("does not count"), "{told}");
    assert_eq!(desk.run(&["verify"]).code, 1);
    assert_eq!(web.calls(), [""; 0]);
}

/// A delegation that nobody signed, and the use of one.
#[test]
fn no_forged_delegation_lets_a_client_answer() {
    let delegated = json!({"kind": "client_delegated", "client": "stdio", "tools": ["*"],
        "until": 4_000_000_100_000_i64, "answers_max": 9});
    let used = json!({"kind": "delegation_used", "delegation": 1, "session": "call", "call": "c3",
        "tool": "mcp:x:write", "question": Digest::ZERO});
    for event in [delegated, used] {
        let (desk, web) = desk();
        let forged: ProjectEvent = serde_json::from_value(event.clone()).unwrap();
        forge_as(&desk, StreamId::Project, forged, Actor::Human("ada".into()));
        is_red_and_stopped(&desk, &web, &event.to_string());
    }
}

/// The records of a call that a person approved, as templates for a forgery: received and admitted.
fn approved_call(desk: &Desk) -> (Value, Value) {
    let records = session_records(desk, "call");
    let admitted = records.iter().find(|record| record["event"]["basis"]["answer"].is_object());
    let admitted = admitted.expect("an approval")["event"].clone();
    let received = records.iter().find(|record| {
        record["event"]["kind"] == "call_received"
            && record["event"]["call"]["id"] == admitted["call"]
    });
    (received.expect("the call")["event"].clone(), admitted)
}

/// Row 2: admissions that name each kind of basis, copied from a real one, used once more, or dangling.
#[test]
fn no_forged_admission_runs_a_call() {
    // A person approved one call: their answer is there to be copied.
    let dangling = |desk: &Desk| {
        let _ = desk;
        json!({"stream": "inbox/call", "seq": 9, "hash": Digest::ZERO})
    };
    let copied = |desk: &Desk| approved_call(desk).1["basis"]["answer"].clone();
    type Reference<'a> = (&'a str, &'a dyn Fn(&Desk) -> Value);
    let references: [Reference<'_>; 2] = [("copied", &copied), ("dangling", &dangling)];
    for kind in ["answer", "answers", "allowance", "delegation"] {
        for (about, reference) in &references {
            let what = format!("{kind}, {about}");
            let (desk, web) = desk();
            approve(&desk, &web, "c3");
            let (mut received, mut admitted) = approved_call(&desk);
            received["call"]["id"] = "c50".into();
            admitted["call"] = "c50".into();
            received.as_object_mut().unwrap().remove("of");
            let reference = reference(&desk);
            admitted["basis"] = match kind {
                "answers" => json!({"answers": [reference, reference]}),
                "delegation" => json!({"delegation": {"delegation": 1, "answer": reference}}),
                kind => json!({kind: reference}),
            };
            forged_call(&desk, [received, admitted]);
            let told = "no such decision covers it";
            let verified = desk.run(&["verify"]);
            assert!(verified.code == 1 && verified.out.contains(told), "{what}: {}", verified.out);
            goes_on_and_runs_nothing(&desk, &web, &what);
            assert_eq!(desk.run(&["verify"]).code, 1, "{what}: it stays found");
        }
    }
}

/// The admission of the very call that ran is written a second time, so that its answer counts twice.
#[test]
fn an_answer_lets_a_call_run_once() {
    let (desk, web) = desk();
    approve(&desk, &web, "c3");
    let (received, admitted) = approved_call(&desk);
    forged_call(&desk, [received, admitted]);
    let verified = desk.run(&["verify"]);
    assert_eq!(verified.code, 1, "{}", verified.out);
    goes_on_and_runs_nothing(&desk, &web, "reused");
}

/// An admission that says the rules let the call through: the rules are asked again, and before that
/// `verify` sees that the question was never answered.
#[test]
fn an_admission_by_the_rules_is_judged_again() {
    for asked in [false, true] {
        let (desk, web) = desk();
        approve(&desk, &web, "c3");
        let (mut received, mut admitted) = approved_call(&desk);
        received["call"]["id"] = "c50".into();
        admitted["call"] = "c50".into();
        received.as_object_mut().unwrap().remove("of");
        admitted.as_object_mut().unwrap().remove("basis");
        let question = json!({"kind": "call_asked", "call": "c50", "tool": "mcp:x:write",
            "frame": admitted["frame"], "args_hash": admitted["args_hash"], "policy": "careful",
            "reason": "It leaves the house."});
        match asked {
            true => forged_call(&desk, [received, question, admitted]),
            false => forged_call(&desk, [received, admitted]),
        }
        let verified = desk.run(&["verify"]);
        assert_eq!(verified.code, i32::from(asked), "{}", verified.out);
        goes_on_and_runs_nothing(&desk, &web, &format!("asked: {asked}"));
        // Without the question it is a call that waits for its answer, as it should be.
        assert_eq!(desk.run(&["verify"]).code, i32::from(asked));
    }
}

fn forged_call<const N: usize>(desk: &Desk, events: [Value; N]) {
    for event in events {
        let kind = event["kind"].clone();
        let actor = match kind == "call_received" {
            true => Actor::Client("cli".into()),
            false => Actor::System,
        };
        let event: Event = serde_json::from_value(event).unwrap();
        forge_as(desk, call_stream(), event, actor);
    }
}

/// The session goes on, or is refused, and the one call that a person approved stays the only one.
fn goes_on_and_runs_nothing(desk: &Desk, web: &Web, what: &str) {
    for args in [&["call", "list_notes"] as &[&str], &["call", "mcp:x:echo", r#"{"text":"a"}"#]] {
        let ran = desk.run(args);
        assert!([0, 74].contains(&ran.code), "{what}: {}{}", ran.out, ran.err);
    }
    let writes: Vec<String> =
        web.calls().into_iter().filter(|call| call.contains("call write")).collect();
    assert_eq!(writes.len(), 1, "{what}: {writes:?}");
}

/// The fold of a session, as a program keeps it.
fn session_fold(store: &SqliteStore, session: &str) -> (Session, Tip) {
    let mut fold = Session::new(SessionId::parse(session).unwrap());
    let apply = |record: Record<Event>, _: &_| fold.apply(&record);
    let tip = block_on(read_from(store, &stream_of(session), Tip::START, apply)).unwrap();
    (fold, tip)
}

fn keep(store: &SqliteStore, stream: StreamId, tip: Tip, body: Vec<u8>) {
    let kept = Checkpoint { stream, seq: tip.seq, hash: tip.hash, body };
    block_on(store.save_checkpoint(kept)).unwrap();
}

/// Row 2: a kept fold that allows calls, signed with the host key, and then deleted.
#[test]
fn no_forged_checkpoint_allows_a_call() {
    let (desk, web) = desk();
    let store = thief(&desk);
    let (mut fold, tip) = session_fold(&store, "call");
    let waiting = fold.waiting.values().next().expect("a call that waits").clone();
    let decision = DecisionRef { stream: call_stream(), seq: 1, hash: Digest::ZERO };
    fold.allowances.push_back(Arc::new(Allowance {
        tool: ToolName::parse("mcp:x:write").unwrap(),
        policy: PolicyName::parse("careful").unwrap(),
        frame: waiting.frame,
        terms: AllowanceTerms { until: Timestamp(i64::MAX), uses_max: 9 },
        uses: 0,
        decision,
        who: Actor::Human("ada".into()),
        since: Timestamp(0),
    }));
    keep(&store, call_stream(), tip, checkpoint_body(&fold).unwrap());
    drop(store);
    checkpoint_is_found_and_not_believed(&desk, &web);
}

fn checkpoint_is_found_and_not_believed(desk: &Desk, web: &Web) {
    let verified = desk.run(&["verify"]);
    let told = "the checkpoint is of another history";
    assert!(verified.code == 1 && verified.out.contains(told), "{}", verified.out);
    waits(desk, "Dear all, once more");
    assert_eq!(web.calls(), [""; 0]);
    let log = Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    assert_eq!(log.execute("DELETE FROM checkpoints", ()).unwrap(), 1);
    drop(log);
    let verified = desk.run(&["verify"]);
    assert_eq!(verified.code, 1, "{}", verified.out);
    desk.run(&["call", "mcp:x:write", r#"{"text":"Dear all"}"#]);
    assert_eq!(web.calls(), [""; 0]);
}

/// The same for the project: without what a person locked.
#[test]
fn no_forged_checkpoint_of_the_project_takes_a_lock_away() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [workspace]\n");
    let propose = json!({"path": "/facts/b", "value": 1, "reason": "It says so."}).to_string();
    desk.ok(&["call", "facts_propose", &propose]);
    let lock = ["facts", "lock", "/facts/b", "--reason", "It is so."];
    let word = [("or leave to change nothing:", "lock"), FIRST];
    let seen = at_terminal(&desk, &lock, &word);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let locked = desk.ok(&["facts", "list", "--json"]);
    assert!(locked.contains("\"lock\""), "{locked}");
    let store = thief(&desk);
    let (mut fold, mut without) = (Project::default(), None);
    let apply = |record: Record<ProjectEvent>, _: &_| {
        let is_lock = matches!(&record.event, ProjectEvent::ProjectChanged { changes, .. }
            if serde_json::to_string(changes).unwrap().contains("lock"));
        if is_lock {
            without = Some(fold.clone());
        }
        fold.apply(&record);
    };
    let tip = block_on(read_from(&store, &StreamId::Project, Tip::START, apply)).unwrap();
    let mut without = without.expect("a record of the lock");
    without.seq = fold.seq;
    keep(&store, StreamId::Project, tip, checkpoint_body(&without).unwrap());
    drop(store);
    for deleted in [false, true] {
        if deleted {
            let log = Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
            assert_eq!(log.execute("DELETE FROM checkpoints", ()).unwrap(), 1);
        }
        let verified = desk.run(&["verify"]);
        assert_eq!(verified.code, 1, "deleted: {deleted}: {}", verified.out);
        assert_eq!(desk.ok(&["facts", "list", "--json"]), locked, "the lock stands");
    }
}

/// Row 4: a definition that changed is held; two records that say it is the first one, and the one that
/// came back, accept it in no person's name.
#[test]
fn no_forged_pin_accepts_a_changed_tool() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Change);
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: []\nmcp_servers: {{x: {{url: '{}'}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
            web.url
        ),
    );
    let call = || desk.run(&["call", "mcp:x:echo", r#"{"text": "a"}"#, "--json"]);
    let codes: Vec<i32> = (0..3).map(|_| call().code).collect();
    assert_eq!(codes, [0, 0, 1]);
    let ran = web.calls().len();
    let log = Connection::open(desk.project().join(".toolgate/log.db")).unwrap();
    let sql = "SELECT CAST(bytes AS TEXT) FROM records WHERE instr(CAST(bytes AS TEXT), \
               'PASS PRIVATE') > 0 AND stream = (SELECT id FROM streams WHERE stream = 'project')";
    let held: String = log.query_row(sql, (), |row| row.get(0)).unwrap();
    drop(log);
    let held: Value = serde_json::from_str::<Value>(&held).unwrap()["event"].take();
    assert_eq!(held["ruling"], "quarantined", "{held}");
    for ruling in ["first_seen", "returned"] {
        let mut forged = held.clone();
        forged["ruling"] = ruling.into();
        let forged: ProjectEvent = serde_json::from_value(forged).unwrap();
        forge_as(&desk, StreamId::Project, forged, Actor::System);
    }
    for _ in 0..2 {
        let held = call();
        assert_eq!(held.code, 1, "{}{}", held.out, held.err);
        assert!(held.out.contains("TOOL_HELD"), "{}", held.out);
        let verified = desk.run(&["verify"]);
        let told = "no person accepted it";
        assert!(verified.code == 1 && verified.out.contains(told), "{}", verified.out);
    }
    assert_eq!(web.calls().len(), ran);
}
