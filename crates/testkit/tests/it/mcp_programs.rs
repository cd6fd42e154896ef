//! P21: how a server's program runs and ends. MWR-026, MWR-027, MWR-028.

use std::time::Duration;

use tokio::time::Instant;
use toolgate_mcp::client::Bounds;

use crate::mcp_stage::{FAKE, Stage, lives, name, said, until};

/// The ids of the server and of what it started.
fn ids(stage: &Stage) -> Vec<String> {
    let lines = stage.ledger("grandchild");
    lines.iter().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_program_has_the_environment_it_is_given_and_no_other() {
    let stage = Stage::piped(&[]);
    let answered = stage.call("env", "").await.unwrap();
    let said = said(&answered);
    let lines: Vec<&str> = said.lines().collect();
    // And a mark, by which what it starts is found.
    let rest = lines.strip_prefix(&["API_KEY=***", "CONFIGURED=yes"]);
    assert!(matches!(rest, Some([mark]) if mark.starts_with("TOOLGATE_PROGRAM=")), "{lines:?}");
}

#[tokio::test]
async fn a_server_that_repeats_its_key_is_not_repeated() {
    for era in ["legacy", "modern"] {
        let stage = Stage::piped(&["--mode", "tattle", "--era", era]);
        let listed = format!("{:?}", stage.tools().await.unwrap());
        let refused = stage.call("write", "x").await.unwrap_err().to_string();
        let stage = Stage::piped(&["--mode", "tattle-list", "--era", era]);
        let unlisted = stage.tools().await.unwrap_err().to_string();
        for told in [listed, refused, unlisted] {
            assert!(told.contains("Invalid API key: ***"), "{era}: {told}");
            assert!(!told.contains("hunter2"), "{era}: {told}");
        }
    }
}

#[tokio::test]
async fn no_shell_reads_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger");
    let trap = dir.path().join("trap");
    let odd = format!("{}; touch trap", ledger.display());
    let args = vec!["--ledger".to_owned(), odd];
    let stage = Stage::program(dir, FAKE.into(), args, Bounds::default());
    stage.tools().await.unwrap();
    assert!(!trap.exists());
}

/// Nothing a program started is left five seconds after the end, however it was started.
#[tokio::test]
async fn a_program_goes_with_everything_it_started() {
    for mode in ["grandchild", "orphan", "daemon"] {
        let stage = Stage::piped(&["--mode", mode]);
        let _ = stage.call("echo", "x").await;
        assert!(until(5_000, || ids(&stage).len() == 1).await, "{mode}");
        let ids = ids(&stage);
        if mode != "orphan" {
            assert!(lives(&ids[0]));
        }
        let began = Instant::now();
        stage.registry.close().await;
        assert!(began.elapsed() < Duration::from_secs(20), "{mode}: {:?}", began.elapsed());
        assert!(until(5_000, || !lives(&ids[0])).await, "{mode}");
        assert!(began.elapsed() < Duration::from_secs(20), "{mode}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_program_that_will_not_leave_is_made_to() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger").display().to_string();
    // Signals that are ignored stay so in a program that takes the place of another.
    let script = "trap '' TERM; echo \"grandchild $$\" >> \"$LEDGER\"; exec \"$@\"";
    let script = script.replace("$LEDGER", &ledger);
    let args =
        ["-c", &script, "sh", FAKE, "--mode", "ignore-eof", "--ledger", &ledger].map(str::to_owned);
    let stage = Stage::program(dir, "/bin/sh".into(), args.to_vec(), Bounds::default());
    stage.tools().await.unwrap();
    let ids = ids(&stage);
    assert!(lives(&ids[0]));
    let began = Instant::now();
    stage.registry.close().await;
    assert!(until(1_000, || !lives(&ids[0])).await);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_registry_that_is_dropped_takes_its_programs_with_it() {
    for mode in ["grandchild", "daemon"] {
        let stage = Stage::piped(&["--mode", mode]);
        stage.call("echo", "x").await.unwrap();
        assert!(until(5_000, || ids(&stage).len() == 1).await, "{mode}");
        let ids = ids(&stage);
        assert!(lives(&ids[0]));
        let Stage { registry, dir, .. } = stage;
        drop(registry);
        assert!(until(2_000, || !lives(&ids[0])).await, "{mode}");
        drop(dir);
    }
}

#[tokio::test]
async fn error_output_is_bounded_and_never_stops_the_program() {
    let stage = Stage::piped(&["--mode", "stderr-flood"]);
    for _ in 0..5 {
        assert!(stage.call("echo", "x").await.is_ok());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let words = stage.registry.words(&name()).await.unwrap();
    assert_eq!(words.len(), 64 << 10);
}
