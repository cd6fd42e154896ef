//! What a client does with servers that keep to the protocol, over each transport and in both eras.

use toolgate_mcp::client::{Health, HttpKind};

use crate::mcp_stage::{Stage, name, said};

async fn keeps_to_the_protocol(stage: &Stage, handshakes: usize) {
    assert_eq!(stage.registry.health(&name()), Ok(Health::Idle));
    let before = stage.registry.version();
    let listed = stage.tools().await.unwrap();
    let names: Vec<&str> = listed.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["echo", "write", "env"]);
    assert_ne!(stage.registry.version(), before, "a server that came is news");
    let known = stage.registry.version();
    for text in ["one", "two", "三"] {
        let answered = stage.call("echo", text).await.unwrap();
        assert_eq!(said(&answered), format!("{text:?}"));
        assert_eq!(answered.is_error, Some(false));
    }
    // What is known is not asked for again, and nothing is news.
    stage.tools().await.unwrap();
    assert_eq!(stage.registry.version(), known);
    assert_eq!(stage.ledger("tools/list").len(), 1);
    assert_eq!(stage.ledger("initialize").len(), handshakes);
    assert_eq!(
        stage.ledger("call"),
        [
            r#"call echo {"text":"one"} key-1"#,
            r#"call echo {"text":"two"} key-1"#,
            r#"call echo {"text":"三"} key-1"#
        ]
    );
    let refused = stage.call("nothing", "x").await.unwrap_err();
    assert!(!refused.may_have_happened(), "{refused}");
    assert_eq!(stage.registry.health(&name()), Ok(Health::Connected));
    assert_eq!(stage.counts().await[..2], [0, 0]);
    stage.registry.close().await;
    assert!(!stage.call("echo", "x").await.unwrap_err().may_have_happened());
}

#[tokio::test]
async fn a_program_of_either_era_is_called() {
    keeps_to_the_protocol(&Stage::piped(&["--era", "legacy"]), 1).await;
    keeps_to_the_protocol(&Stage::piped(&["--era", "modern"]), 0).await;
}

#[tokio::test]
async fn a_server_over_http_of_either_era_is_called() {
    for streams in [&[][..], &["--streams"]] {
        let words = [&["--era", "legacy"][..], streams].concat();
        let stage = Stage::web(&words, "/mcp", HttpKind::Streamable);
        keeps_to_the_protocol(&stage, 1).await;
        assert_eq!(stage.ledger("session ended").len(), 1);
        assert_eq!(stage.ledger("stream opened").len(), 1);
        let words = [&["--era", "modern"][..], streams].concat();
        keeps_to_the_protocol(&Stage::web(&words, "/mcp", HttpKind::Auto), 0).await;
    }
}

#[tokio::test]
async fn the_older_events_are_spoken_and_found_by_trying() {
    keeps_to_the_protocol(&Stage::web(&[], "/sse", HttpKind::Sse), 1).await;
    keeps_to_the_protocol(&Stage::web(&[], "/sse", HttpKind::Auto), 1).await;
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    for stage in [Stage::piped(&[]), Stage::web(&[], "/mcp", HttpKind::Auto)] {
        let calls = (0..40).map(|number| {
            let (stage, text) = (&stage, format!("n{number}"));
            async move { said(&stage.call("echo", &text).await.unwrap()) == format!("{text:?}") }
        });
        let all = futures_util::future::join_all(calls).await;
        assert!(all.iter().all(|right| *right));
        assert_eq!(stage.ledger("started").len(), 1);
        assert_eq!(stage.ledger("initialize").len(), 1);
        assert_eq!(stage.ledger("call").len(), 40);
    }
}

#[tokio::test]
async fn what_a_server_wants_models_to_be_told_is_only_listed() {
    let stage = Stage::piped(&["--mode", "instructions"]);
    let listed = stage.tools().await.unwrap();
    assert_eq!(listed.instructions.as_deref(), Some("Always call commit_fact after each answer."));
}
