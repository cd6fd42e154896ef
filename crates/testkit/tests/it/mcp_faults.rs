//! The MCP rows of the fault matrix over a program's pipes, each against a server that misbehaves so.

use std::time::Duration;

use tokio::time::Instant;
use toolgate_mcp::client::{Bounds, CallFault, Health, HttpKind, ServerFault};

use crate::mcp_stage::{CALL_MS, Stage, name, said, until};

/// MWR-001, MWR-004, MWR-005: what nobody wanted is counted, and the call goes on.
#[tokio::test]
async fn what_nobody_wanted_is_skipped_and_counted() {
    for (mode, counted) in
        [("noise", 0), ("bad-utf8", 0), ("unknown-ids", 1), ("duplicate-ids", 1), ("long-line", 0)]
    {
        let stage = Stage::piped(&["--mode", mode]);
        for text in ["one", "two"] {
            let answered = stage.call("echo", text).await;
            let answered = answered.unwrap_or_else(|fault| panic!("{mode}: {fault}"));
            assert_eq!(said(&answered), format!("{text:?}"), "{mode}");
        }
        let counts = stage.counts().await;
        assert!(counts[counted] >= 2, "{mode}: {counts:?}");
        assert_eq!(stage.ledger("call").len(), 2, "{mode}");
        assert_eq!(stage.ledger("started").len(), 1, "{mode}: it was not ended");
    }
}

#[tokio::test]
async fn a_server_that_only_makes_noise_is_left() {
    let stage = Stage::piped(&["--mode", "noise-flood"]);
    let fault = stage.tools().await.unwrap_err();
    assert!(matches!(fault, ServerFault::Noisy { max: 100, .. }), "{fault}");
    let quiet = Bounds { noise_max: 200, ..Bounds::default() };
    assert!(Stage::piped_with(&["--mode", "noise-flood"], quiet).tools().await.is_ok());
}

/// MWR-003, MWR-006, MWR-012: the deadline holds whatever is said meanwhile, and the server is told.
#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_deadline() {
    for mode in ["half", "hang", "drip", "progress-flood"] {
        let stage = Stage::piped(&["--mode", mode]);
        stage.tools().await.ok();
        let began = Instant::now();
        let fault = stage.call("write", "x").await.unwrap_err();
        assert!(matches!(fault, CallFault::TimedOut { .. }), "{mode}: {fault}");
        assert!(fault.may_have_happened(), "{mode}");
        let took = began.elapsed();
        let most = Duration::from_millis(CALL_MS + 1_000);
        assert!(took >= Duration::from_millis(CALL_MS) && took < most, "{mode}: {took:?}");
        assert_eq!(stage.ledger("call").len(), 1, "{mode}: it is sent once");
        let told = || !stage.ledger("notifications/cancelled").is_empty();
        assert!(until(1_000, told).await, "{mode}: the server is told");
    }
}

/// Answers that name the call and cannot be read as its answer.
const MALFORMED: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":"$ID","result":"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":null}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":7}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":[]}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":{"content":{}}}"#,
    r#"{"jsonrpc":"2.0","id":"$ID"}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":{"content":[]},"error":{"code":1,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","error":"no"}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","error":null}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","error":{"message":"no"}}"#,
    r#"{"id":"$ID","result":{"content":[]}}"#,
    r#"{"jsonrpc":"1.0","id":"$ID","result":{"content":[]}}"#,
    r#"{"jsonrpc":"2.0","id":$NUMBER,"result":{"content":[]}}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","id":"$ID","result":{"content":[]}}"#,
    r#"{"jsonrpc":"2.0","id":"$ID","result":{"content":[],"content":[]}}"#,
    r#"[{"jsonrpc":"2.0","id":"$ID","result":{"content":[]}}]"#,
];

/// Nothing is gained by waiting for another answer, and none of these is a success.
#[tokio::test]
async fn a_malformed_answer_fails_the_call_at_once() {
    let stages = [
        ("pipes", Stage::piped(&["--mode", "raw"])),
        ("http", Stage::web(&["--mode", "raw"], "/mcp", HttpKind::Streamable)),
        ("streams", Stage::web(&["--mode", "raw", "--streams"], "/mcp", HttpKind::Streamable)),
        ("sse", Stage::web(&["--mode", "raw"], "/sse", HttpKind::Sse)),
    ];
    for (way, stage) in stages {
        stage.tools().await.unwrap();
        for text in MALFORMED {
            let began = Instant::now();
            let fault = stage.call("write", text).await.unwrap_err();
            assert!(matches!(fault, CallFault::Misfit(_)), "{way}: {text}: {fault}");
            assert!(fault.may_have_happened(), "{way}: {text}");
            assert!(began.elapsed() < Duration::from_millis(CALL_MS / 2), "{way}: {text}");
        }
    }
}

#[tokio::test]
async fn half_a_character_does_not_empty_an_answer() {
    let text =
        r#"{"jsonrpc":"2.0","id":"$ID","result":{"content":[{"type":"text","text":"a\ud800b"}]}}"#;
    let web = Stage::web(&["--mode", "raw", "--streams"], "/mcp", HttpKind::Streamable);
    for stage in [Stage::piped(&["--mode", "raw"]), web] {
        let answered = stage.call("echo", text).await.unwrap();
        assert_eq!(said(&answered), "a\u{fffd}b");
    }
}

#[tokio::test]
async fn whoever_stops_waiting_cancels_the_call() {
    let stage = Stage::piped(&["--mode", "progress-flood"]);
    stage.tools().await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), stage.call("write", "x")).await;
    assert!(waiting.is_err());
    let told = || stage.ledger("notifications/cancelled").iter().any(|line| line.contains("tg-"));
    assert!(until(1_000, told).await);
}

#[tokio::test]
async fn a_server_that_falls_silent_is_stopped_and_started_anew() {
    let stage = Stage::piped(&["--mode", "half"]);
    stage.tools().await.unwrap();
    for _ in 0..2 {
        assert!(matches!(stage.call("write", "x").await, Err(CallFault::TimedOut { .. })));
    }
    assert!(matches!(stage.registry.health(&name()), Ok(Health::Resting(ServerFault::Hung))));
    stage.tools().await.unwrap();
    assert_eq!(stage.ledger("started").len(), 2);
}

#[tokio::test]
async fn a_server_that_does_not_start_is_left_alone_after_five_times() {
    let stage = Stage::piped(&["--mode", "exit-at-once"]);
    for _ in 0..5 {
        let fault = stage.tools().await.unwrap_err();
        let ServerFault::Ended(words) = &fault else { panic!("{fault}") };
        assert!(words.contains("no such configuration"), "{words}");
    }
    let started = stage.ledger("started").len();
    let fault = stage.tools().await.unwrap_err();
    assert!(matches!(fault, ServerFault::Failed { failures: 5, .. }), "{fault}");
    assert!(matches!(stage.call("echo", "x").await, Err(CallFault::NotSent(_))));
    assert_eq!(stage.ledger("started").len(), started, "it is not started any more");
    assert!(matches!(stage.registry.health(&name()), Ok(Health::Failed(_))));
    stage.registry.revive(&name()).await.unwrap();
    assert!(matches!(stage.tools().await, Err(ServerFault::Ended(_))));
    assert!(stage.ledger("started").len() > started);
}

#[tokio::test]
async fn a_server_that_is_left_alone_is_tried_again_later() {
    let bounds = Bounds { backoff_ms: 1, left_ms: 1_000, failures_max: 2, ..Bounds::default() };
    let stage = Stage::piped_with(&["--mode", "exit-at-once"], bounds);
    for _ in 0..2 {
        assert!(matches!(stage.tools().await, Err(ServerFault::Ended(_))));
    }
    assert!(matches!(stage.tools().await, Err(ServerFault::Failed { .. })));
    let version = stage.registry.version();
    assert!(until(3_000, || stage.registry.version() != version).await, "its time is news");
    assert!(matches!(stage.tools().await, Err(ServerFault::Ended(_))));
    assert!(matches!(stage.tools().await, Err(ServerFault::Failed { .. })));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_told_without_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("no-such-program");
    let stage = Stage::program(dir, program, vec![], Bounds::default());
    let fault = stage.tools().await.unwrap_err();
    assert!(matches!(fault, ServerFault::NotStarted(_)), "{fault}");
    assert!(fault.to_string().contains("no-such-program"));
}

#[tokio::test]
async fn a_call_whose_server_ends_is_lost_and_never_sent_again() {
    let stage = Stage::piped(&["--mode", "exit-mid-call"]);
    stage.tools().await.unwrap();
    let version = stage.registry.version();
    let fault = stage.call("write", "x").await.unwrap_err();
    assert!(matches!(fault, CallFault::Lost(ServerFault::Ended(_))), "{fault}");
    assert!(fault.may_have_happened());
    assert_eq!(stage.ledger("call"), [r#"call write {"text":"x"} key-1"#]);
    assert_ne!(stage.registry.version(), version, "a server that vanished is news");
    // It comes back for the next one, and that is news too.
    let version = stage.registry.version();
    stage.tools().await.unwrap();
    assert_ne!(stage.registry.version(), version);
}

/// A server that connects and then ends at every call is left alone as well.
#[tokio::test]
async fn a_server_that_ends_at_every_call_is_left_alone_after_five_times() {
    let stage = Stage::piped(&["--mode", "exit-mid-call"]);
    for _ in 0..5 {
        assert!(matches!(stage.call("write", "x").await, Err(CallFault::Lost(_))));
    }
    let fault = stage.call("write", "x").await.unwrap_err();
    assert!(matches!(fault, CallFault::NotSent(ServerFault::Failed { .. })), "{fault}");
    assert_eq!(stage.ledger("call").len(), 5);
}

/// MWR-009: ten thousand words that the list changed are one reading of it, at once; the next one
/// has its time. Nothing is called on the strength of a list that is said to be old.
#[tokio::test]
async fn a_flood_of_changes_is_one_reading() {
    let bounds = Bounds { refresh_ms_min: 4_000, ..Bounds::default() };
    let stage = Stage::piped_with(&["--mode", "list-flood"], bounds);
    let known = stage.tools().await.unwrap().tools[0].clone();
    let version = stage.registry.version();
    stage.call_known(&known, "x").await.unwrap();
    assert_eq!(stage.ledger("tools/list").len(), 1);
    assert_ne!(stage.registry.version(), version, "the first change is news at once");
    stage.tools().await.unwrap();
    let began = Instant::now();
    // What it says meanwhile is no reason to read again so soon.
    for _ in 0..3 {
        stage.call("echo", "x").await.unwrap();
        stage.tools().await.unwrap();
    }
    let version = stage.registry.version();
    assert_eq!(stage.ledger("tools/list").len(), 2);
    // A call that cannot wait so long is not sent, and one that can is.
    let sent = stage.ledger("call").len();
    let fault = stage.call_known(&known, "x").await.unwrap_err();
    assert_eq!(fault, CallFault::NotSent(ServerFault::Unsure { ms: 4_000 }));
    assert!(!fault.may_have_happened());
    assert_eq!(stage.ledger("call").len(), sent);
    // The news are not forgotten: they are told when their time has come.
    assert!(until(20_000, || stage.registry.version() != version).await);
    assert!(began.elapsed() >= Duration::from_millis(3_500), "{:?}", began.elapsed());
    stage.call_known(&known, "x").await.unwrap();
    assert_eq!(stage.ledger("tools/list").len(), 3);
    assert_eq!(Bounds::default().refresh_ms_min, 5_000);
}

/// Whoever can wait for the next reading is called then.
#[tokio::test]
async fn a_call_waits_for_the_next_reading_of_a_chatty_server() {
    let bounds = Bounds { refresh_ms_min: 700, ..Bounds::default() };
    let stage = Stage::piped_with(&["--mode", "list-flood"], bounds);
    let known = stage.tools().await.unwrap().tools[0].clone();
    let began = Instant::now();
    for _ in 0..4 {
        stage.call_known(&known, "x").await.unwrap();
    }
    // One reading at once, and two that had to wait.
    assert_eq!(stage.ledger("tools/list").len(), 4);
    assert!(began.elapsed() >= Duration::from_millis(1_400), "{:?}", began.elapsed());
}

/// A rug pull: the call after the word that the list changed does not reach the changed tool, however
/// often the list may be read.
#[tokio::test]
async fn a_changed_tool_is_not_called_again() {
    for refresh_ms_min in [50, 60_000] {
        let bounds = Bounds { refresh_ms_min, ..Bounds::default() };
        let stage = Stage::piped_with(&["--mode", "change"], bounds);
        let listed = stage.tools().await.unwrap();
        let (echo, write) = (&listed.tools[0], &listed.tools[1]);
        stage.call_known(echo, "x").await.unwrap();
        stage.call_known(echo, "x").await.unwrap();
        assert_eq!(stage.call_known(echo, "x").await, Err(CallFault::Changed));
        assert_eq!(stage.ledger("call").len(), 2, "it was not sent");
        stage.call_known(write, "x").await.unwrap();
        assert_eq!(stage.ledger("tools/list").len(), 2);
    }
}

/// MWR-011: lists without end are refused.
#[tokio::test]
async fn endless_lists_are_refused() {
    for (mode, told) in [
        ("tool-flood", ServerFault::TooMany { what: "bytes", max: 4 << 20 }),
        ("many-tools", ServerFault::TooMany { what: "tools", max: 512 }),
        ("endless-pages", ServerFault::TooMany { what: "pages", max: 100 }),
        ("cursor-loop", ServerFault::Loop),
    ] {
        let stage = Stage::patient(&["--mode", mode], Bounds::default());
        assert_eq!(stage.tools().await.unwrap_err(), told, "{mode}");
        assert!(stage.call("echo", "x").await.is_ok(), "{mode}: the server goes on");
    }
    let bounds = Bounds { tools_max: 513, ..Bounds::default() };
    let stage = Stage::piped_with(&["--mode", "many-tools"], bounds);
    assert_eq!(stage.tools().await.unwrap().tools.len(), 513);
}

/// MDS-003: what a server says about a tool after a change is read again.
#[tokio::test]
async fn a_changed_definition_is_seen() {
    let bounds = Bounds { refresh_ms_min: 50, ..Bounds::default() };
    let stage = Stage::piped_with(&["--mode", "change"], bounds);
    let first = stage.tools().await.unwrap();
    let version = stage.registry.version();
    stage.call("echo", "x").await.unwrap();
    stage.call("echo", "x").await.unwrap();
    assert!(until(2_000, || stage.registry.version() != version).await);
    let second = stage.tools().await.unwrap();
    assert_ne!(first.tools[0], second.tools[0]);
    assert_eq!(first.tools[1..], second.tools[1..]);
}

/// MWR-013: a result beyond all measure is cut off as it comes, and the rest is thrown away.
#[tokio::test]
async fn a_result_beyond_all_measure_is_cut_off() {
    let stage = Stage::patient(&["--mode", "result-bomb"], Bounds::default());
    let answered = stage.call("echo", "x").await.unwrap();
    assert_eq!(answered.cut_at, Some(4 << 20));
    assert!(answered.text.len() <= 4 << 20 && answered.text.contains("AAAA"));
    // The server goes on.
    assert_eq!(stage.call("echo", "y").await.unwrap().cut_at, Some(4 << 20));
}

/// MWR-008: a server that asks for a model, for files or for a person's key gets none of them.
#[tokio::test]
async fn a_server_that_asks_back_is_refused() {
    let stage = Stage::piped(&["--mode", "asks-back"]);
    assert!(stage.call("echo", "x").await.is_ok());
    for asked in ["sampling/createMessage", "roots/list", "elicitation/create"] {
        assert_eq!(stage.ledger(asked), [format!("{asked} refused")]);
    }
    let stage = Stage::piped(&["--mode", "input-required", "--era", "modern"]);
    let fault = stage.call("echo", "x").await.unwrap_err();
    assert!(matches!(fault, CallFault::WantsInput(_)), "{fault}");
}

/// A refusal in the words of the new revision is no old server; an old one may end at the question.
#[tokio::test]
async fn the_era_is_found_out_by_the_rules() {
    let stage = Stage::piped(&["--mode", "modern-refusal"]);
    let fault = stage.tools().await.unwrap_err();
    assert!(matches!(fault, ServerFault::Protocol(_)), "{fault}");
    assert_eq!(stage.ledger("initialize"), [""; 0]);
    for mode in ["exit-at-unknown", "empty-at-unknown"] {
        let stage = Stage::piped(&["--mode", mode]);
        assert!(stage.tools().await.is_ok(), "{mode}");
        let counted = (stage.ledger("started").len(), stage.ledger("initialize").len());
        assert_eq!(counted, (2, 1), "{mode}");
    }
}

/// One server that is down does not concern another.
#[tokio::test]
async fn other_servers_are_not_concerned() {
    let (bad, good) = (Stage::piped(&["--mode", "hang"]), Stage::piped(&[]));
    good.tools().await.unwrap();
    bad.tools().await.unwrap();
    let (lost, kept) = tokio::join!(bad.call("write", "x"), good.call("echo", "x"));
    assert!(lost.is_err() && kept.is_ok());
}
