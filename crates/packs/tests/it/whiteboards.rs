//! Whiteboards: names, revisions, the active board, deleting and restoring, and every mistake.

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;
use toolgate_packs::whiteboard::whiteboard;

use crate::den::{Den, call};

const ACTIONS: [&str; 9] = [
    "create",
    "update",
    "get",
    "list",
    "delete",
    "restore",
    "list_deleted",
    "set_active",
    "revisions",
];

async fn den(names: &[&str]) -> Den {
    let mut den = Den::open(&[whiteboard().unwrap()]).await;
    for name in names {
        den.works("whiteboard", create(name)).await;
    }
    den
}

fn create(name: &str) -> Value {
    json!({ "action": "create", "name": name, "summary": "s", "content": "first" })
}

fn act(action: &str, board: &str) -> Value {
    json!({ "action": action, "board": board })
}

/// Type, name and content of an answer.
fn told(data: &Value) -> (&str, &str, Option<&str>) {
    (data["type"].as_str().unwrap(), data["name"].as_str().unwrap(), data["content"].as_str())
}

#[tokio::test]
async fn an_empty_content_clears_and_none_keeps() {
    let mut den = den(&["Plan"]).await;
    let kept = den
        .works("whiteboard", json!({ "action": "update", "board": "Plan", "summary": "new" }))
        .await;
    assert_eq!(told(&kept), ("board_updated", "Plan", Some("first")));
    assert_eq!((&kept["revision"], &kept["summary"]), (&json!(1), &json!("new")));
    let same = den
        .works("whiteboard", json!({ "action": "update", "board": "Plan", "content": "first" }))
        .await;
    assert_eq!(same["revision"], 1);
    let cleared = den
        .works("whiteboard", json!({ "action": "update", "board": "Plan", "content": "" }))
        .await;
    assert_eq!((&cleared["content"], &cleared["revision"]), (&Value::Null, &json!(2)));
    let listed = den.works("whiteboard", act("revisions", "Plan")).await;
    assert_eq!(listed["type"], "board_revisions");
    assert_eq!(listed["revisions"][0]["revision"], 1);
    let first = den
        .works("whiteboard", json!({ "action": "revisions", "board": "Plan", "revision": 1 }))
        .await;
    assert_eq!(told(&first), ("board_revision", "Plan", Some("first")));
    let now = den
        .works("whiteboard", json!({ "action": "revisions", "board": "Plan", "revision": 2 }))
        .await;
    assert_eq!(now["content"], Value::Null);
    for n in 0..12 {
        let args = json!({ "action": "update", "board": "Plan", "content": format!("c{n}") });
        den.works("whiteboard", args).await;
    }
    let listed = den.works("whiteboard", act("revisions", "Plan")).await;
    let kept: Vec<u64> = listed["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["revision"].as_u64().unwrap())
        .collect();
    assert_eq!(kept, (4..14).rev().collect::<Vec<_>>());
    let stored =
        den.runtime.project().0.export().0.to_string().matches("board_revision:b1/").count();
    assert_eq!(stored, 10);
}

#[tokio::test]
async fn a_deleted_board_waits_to_be_restored() {
    let mut den = den(&["Plan"]).await;
    assert_eq!(told(&den.works("whiteboard", act("delete", "Plan")).await).0, "board_deleted");
    // It was the active one, and is no more.
    let none = den.works("whiteboard", act("set_active", "")).await;
    assert_eq!(none, json!({ "type": "active_board_cleared", "previous": null }));
    let gone = den.works("whiteboard", json!({ "action": "list" })).await;
    assert_eq!((&gone["boards"], &gone["total"]), (&json!([]), &json!(0)));
    for (args, error) in [
        (
            json!({ "action": "update", "board": "b1", "content": "x" }),
            "Board 'Plan' is deleted. Restore it first",
        ),
        (act("get", "plan"), "Board 'Plan' is deleted. Restore it first"),
        (act("set_active", "Plan"), "Board 'Plan' is deleted. Restore it first"),
    ] {
        assert_eq!(den.fails("whiteboard", args).await.1["error"], error);
    }
    let deleted = den.works("whiteboard", json!({ "action": "list_deleted" })).await;
    assert_eq!(
        (&deleted["type"], &deleted["boards"][0]["id"]),
        (&json!("deleted_board_list"), &json!("b1"))
    );
    den.works("whiteboard", create("PLAN")).await;
    let (code, clash) = den.fails("whiteboard", act("restore", "b1")).await;
    assert_eq!(
        (code, &clash["error"]),
        (Code::TOOL_FAILED, &json!("Name 'Plan' has already been taken"))
    );
    den.works("whiteboard", json!({ "action": "update", "board": "b2", "name": "Other" })).await;
    let back = den.works("whiteboard", act("restore", "Plan")).await;
    assert_eq!((told(&back).0, &back["deleted_at"]), ("board_restored", &Value::Null));
    assert_eq!(told(&den.works("whiteboard", act("get", "Plan")).await).2, Some("first"));
}

#[tokio::test]
async fn the_first_board_is_linked_and_later_ones_are_not() {
    let mut den = den(&["One", "Two"]).await;
    let active = |listed: &Value| {
        let boards = listed["boards"].as_array().unwrap();
        boards.iter().find(|board| board["active"] == true).map(|board| board["name"].clone())
    };
    let list = || json!({ "action": "list" });
    assert_eq!(active(&den.works("whiteboard", list()).await), Some(json!("One")));
    den.works("whiteboard", act("get", "Two")).await;
    assert_eq!(active(&den.works("whiteboard", list()).await), Some(json!("One")));
    let set = den.works("whiteboard", act("set_active", "Two")).await;
    assert_eq!((told(&set).0, told(&set).1), ("active_board_set", "Two"));
    // Without a name the active one is meant.
    assert_eq!(told(&den.works("whiteboard", json!({ "action": "get" })).await).1, "Two");
    let cleared = den.works("whiteboard", act("set_active", "None")).await;
    assert_eq!(cleared, json!({ "type": "active_board_cleared", "previous": "Two" }));
    assert_eq!(active(&den.works("whiteboard", list()).await), None);
    den.works("whiteboard", json!({ "action": "update", "board": "One", "content": "x" })).await;
    assert_eq!(active(&den.works("whiteboard", list()).await), Some(json!("One")));
    // Every session has an active board of its own, and loses it when another deletes it.
    let mut other = den.another("s2").await;
    assert_eq!(active(&call(&mut other, "whiteboard", list()).await.data), None);
    call(&mut other, "whiteboard", act("set_active", "Two")).await;
    den.works("whiteboard", act("delete", "Two")).await;
    assert_eq!(active(&call(&mut other, "whiteboard", list()).await.data), None);
    assert_eq!(active(&den.works("whiteboard", list()).await), Some(json!("One")));
}

#[tokio::test]
async fn a_board_is_found_by_id_name_any_case_and_part() {
    let mut den = den(&["Project Roadmap", "roadmap", "Budget 2026", "b1"]).await;
    for (word, found) in [
        ("b1", "Project Roadmap"),
        ("roadmap", "roadmap"),
        ("ROADMAP", "roadmap"),
        ("project", "Project Roadmap"),
        ("bud-26", "Budget 2026"),
    ] {
        assert_eq!(told(&den.works("whiteboard", act("get", word)).await).1, found, "{word}");
    }
    let (_, several) = den.fails("whiteboard", act("get", "road")).await;
    assert_eq!(several["error"], "'road' can mean Project Roadmap, roadmap. Say which");
    // A deleted board that is named exactly is meant, and no other one by a part of its name.
    den.works("whiteboard", act("delete", "b2")).await;
    let (_, deleted) = den.fails("whiteboard", act("get", "roadmap")).await;
    assert_eq!(deleted["error"], "Board 'roadmap' is deleted. Restore it first");
}

#[tokio::test]
async fn every_mistake_says_what_to_do() {
    let mut den = den(&["Plan"]).await;
    den.works("whiteboard", act("set_active", "none")).await;
    let long = "x".repeat(100_001);
    let wrong = |error: &str, action: &str, more: (&str, &str)| {
        let mut told = json!({ "type": "error", "error": error, "action": action });
        told[more.0] = json!(more.1);
        told["allowed_actions"] = json!(ACTIONS);
        (Code::ARGUMENTS_INVALID, told)
    };
    let failed = |error: &str, action: &str, more: (&str, Value)| {
        let mut told = json!({ "type": "error", "error": error, "action": action });
        told[more.0] = more.1;
        (Code::TOOL_FAILED, told)
    };
    let required = |what: &str, action: &str| {
        wrong(&format!("{what} is required for {action} action"), action, ("required_param", what))
    };
    let no_active = |action: &str| {
        let message = format!("board is required for {action} action: no board is active");
        wrong(&message, action, ("required_param", "board"))
    };
    for (args, expected) in [
        (json!({ "action": "create", "summary": "s" }), required("name", "create")),
        (json!({ "action": "create", "name": "n", "summary": " " }), required("summary", "create")),
        (
            json!({ "action": "create", "name": &long[..101], "summary": "s" }),
            wrong("name has 101 characters; use at most 100", "create", ("field", "name")),
        ),
        (
            json!({ "action": "create", "name": "n", "summary": &long[..251] }),
            wrong("summary has 251 characters; use at most 250", "create", ("field", "summary")),
        ),
        (
            json!({ "action": "create", "name": "n", "summary": "s", "content": long }),
            wrong(
                "content has 100001 characters; use at most 100000",
                "create",
                ("field", "content"),
            ),
        ),
        (
            create("plan"),
            failed("Name 'plan' has already been taken", "create", ("field", json!("name"))),
        ),
        (
            json!({ "action": "update", "board": "Plan" }),
            wrong(
                "name, summary or content is required for update action",
                "update",
                ("required_param", "content"),
            ),
        ),
        (json!({ "action": "update", "content": "x" }), no_active("update")),
        (json!({ "action": "get" }), no_active("get")),
        (json!({ "action": "revisions" }), no_active("revisions")),
        (json!({ "action": "delete" }), required("board", "delete")),
        (json!({ "action": "restore" }), required("board", "restore")),
        (act("get", "Nope"), failed("Board 'Nope' not found", "get", ("board", json!("Nope")))),
        (
            act("restore", "Plan"),
            failed("Board 'Plan' is not deleted", "restore", ("board", json!("Plan"))),
        ),
        (
            json!({ "action": "revisions", "board": "Plan", "revision": 7 }),
            failed("Revision 7 of 'Plan' is not kept", "revisions", ("revision", json!(7))),
        ),
    ] {
        assert_eq!(den.fails("whiteboard", args).await, expected);
    }
    let invisible = json!({ "action": "create", "name": "Pl\u{200b}an", "summary": "s" });
    assert_eq!(den.fails("whiteboard", invisible).await.0, Code::ARGUMENTS_INVALID);
    let args = json!({ "action": "update", "board": "Plan", "content": &long[..10_001] });
    let warned = den.works("whiteboard", args).await;
    assert!(warned["warning"].as_str().unwrap().contains("10001 characters"));
}

#[tokio::test]
async fn there_are_so_many_boards_and_no_more() {
    let mut den = den(&[]).await;
    for n in 0..100 {
        den.works("whiteboard", create(&format!("n{n}"))).await;
    }
    den.works("whiteboard", act("delete", "n7")).await;
    let (_, full) = den.fails("whiteboard", create("one more")).await;
    assert_eq!(full["error"], "There are 100 boards, deleted ones among them. Use one of them.");
}
