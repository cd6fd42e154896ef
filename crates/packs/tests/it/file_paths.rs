//! Tricks with paths: no file tool reaches the law, or anything outside of the folder.
#![cfg(unix)]

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::room::Room;

/// Every way to name a path, with the arguments that go with it.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({ "path": path })),
        ("list_files", json!({ "under": path })),
        ("search_files", json!({ "query": "treasure", "under": path })),
        ("write_file", json!({ "path": path, "content": "evil" })),
        ("edit_file", json!({ "path": path, "old_text": "treasure", "new_text": "evil" })),
    ]
}

#[tokio::test]
async fn names_that_lead_elsewhere_are_refused() {
    let mut room = Room::open().await;
    room.write("toolgate.yaml", "treasure law");
    room.write(".toolgate/log", "treasure log");
    let long = "x/".repeat(300);
    let table = [
        "..",
        "../x",
        "a/../../b",
        "..\\..\\x",
        "C:/x",
        "C:\\x",
        "toolgate.yaml",
        "ToolGate.YAML",
        "/toolgate.yaml",
        "./toolgate.yaml",
        "x/../toolgate.yml",
        "toolgate.yaml.",
        "toolgate.yaml ",
        "toolgate.yaml::$DATA",
        ".toolgate",
        ".toolgate/log",
        ".TOOLGATE/log",
        ".toolgate. /log",
        "a\0b",
        "a\nb",
        "a\u{202e}b",
        "toolgate\u{200b}.yaml",
        "",
        "/",
        ".",
        &long,
    ];
    for path in table {
        for (tool, args) in calls(path) {
            let (_, message, ..) = room.fails(tool, args).await;
            assert!(!message.contains("treasure"), "{tool} {path:?}: {message}");
        }
    }
}

/// An absolute path means the project folder, so the world's files are not there.
#[tokio::test]
async fn absolute_paths_stay_inside() {
    let mut room = Room::open().await;
    room.fails("read_file", json!({ "path": "/etc/passwd" })).await;
    room.works("write_file", json!({ "path": "/etc/passwd", "content": "mine" })).await;
    assert_eq!(room.file("etc/passwd").as_deref(), Some("mine"));
}

#[tokio::test]
async fn links_lead_nowhere() {
    let mut room = Room::open().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret.md"), "treasure").unwrap();
    room.write("toolgate.yaml", "treasure law");
    room.write(".toolgate/log", "treasure log");
    room.write("plain.md", "plain");
    let link = |to: &std::path::Path, name: &str| symlink(to, room.path(name)).unwrap();
    link(outside.path(), "out");
    link(&outside.path().join("secret.md"), "out.md");
    link("toolgate.yaml".as_ref(), "law.md");
    link(".toolgate".as_ref(), "state");
    link(".".as_ref(), "self");
    link("self/self/.toolgate/log".as_ref(), "deep");
    std::fs::hard_link(room.path("toolgate.yaml"), room.path("hard.md")).unwrap();
    let table = [
        "out",
        "out/secret.md",
        "out.md",
        "law.md",
        "state",
        "state/log",
        "self/.toolgate/log",
        "self/toolgate.yaml",
        "self/self/TOOLGATE.yaml",
        "deep",
        "hard.md",
    ];
    for path in table {
        for (tool, args) in calls(path) {
            let (_, message, ..) = room.fails(tool, args).await;
            assert!(!message.contains("treasure"), "{tool} {path}: {message}");
        }
    }
    let (_, files) = room.works("list_files", json!({})).await;
    assert_eq!(files, json!([{ "path": "plain.md", "bytes": 5 }]));
    assert_eq!(
        room.works("search_files", json!({ "query": "treasure" })).await.0,
        "No line matches."
    );
    assert_eq!(std::fs::read(outside.path().join("secret.md")).unwrap(), b"treasure");
}
