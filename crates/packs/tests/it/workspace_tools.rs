//! The four workspace tools: what they read, what they change, and what they leave as it is.

use serde_json::{Value, json};
use toolgate_kernel::decision::SIGNED_FAMILIES;
use toolgate_kernel::section::Guard;
use toolgate_kernel::tool::Effect::{Read, Staged};
use toolgate_packs::workspace::{OPS_MAX, PROPOSALS_MAX, Root, workspace};

use crate::support::client;
use crate::workspace_desk::Bureau;

fn set(path: &str, value: Value) -> Value {
    json!({"op": "set", "path": path, "value": value})
}

#[test]
fn four_tools_in_one_group_and_none_that_commits() {
    let pack = workspace().unwrap();
    let specs = pack.section.tools.iter();
    let names: Vec<_> = specs.map(|spec| (spec.name.as_str(), spec.effect)).collect();
    let expected = [
        ("state_get", Read),
        ("state_patch", Staged),
        ("facts_propose", Staged),
        ("ui_render", Staged),
    ];
    assert_eq!(names, expected);
    for spec in &pack.section.tools {
        assert_eq!(spec.group.as_str(), "workspace");
        assert!(pack.section.text.contains(&format!("`{}`", spec.name)), "{}", spec.name);
        assert!(spec.aliases.is_empty() && spec.touches_anything(), "{}", spec.name);
    }
    for family in &pack.section.families {
        let guarded = ["facts", "locks"].contains(&family.name.as_str());
        assert_eq!(family.guard == Guard::HumanOnly, guarded, "{}", family.name);
        let signed = SIGNED_FAMILIES.contains(&family.name.as_str());
        assert_eq!(signed, guarded, "{}: what a person decides is signed", family.name);
    }
}

/// In an order in which they make sense, the examples give what they show.
#[tokio::test]
async fn every_example_does_what_it_shows() {
    let mut bureau = Bureau::open().await;
    let specs = workspace().unwrap().section.tools;
    for name in ["state_patch", "state_get", "facts_propose", "ui_render"] {
        let spec = specs.iter().find(|spec| spec.name.as_str() == name).unwrap();
        for example in &spec.examples {
            let data = bureau.works(name, example.input.clone()).await;
            assert_eq!(data, example.output, "{name}");
        }
    }
}

#[tokio::test]
async fn reading_is_tolerant_and_says_what_is_missing() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/title", json!("The keeper")).await;
    let select =
        json!({"select": ["draft/title", "#/draft/title/", "'/draft/none'", "/nowhere/x"]});
    let told = bureau.call("state_get", select).await;
    let values = json!({"/draft/title": "The keeper", "/draft/none": null, "'/draft/none'": null});
    assert_eq!(told.data["values"]["/draft/title"], values["/draft/title"]);
    assert_eq!(told.data["values"]["/draft/none"], Value::Null);
    assert_eq!(told.data["values"]["/nowhere/x"], Value::Null);
    assert_eq!(told.data["values"].as_object().unwrap().len(), 3);
    assert_eq!(told.warnings.len(), 2, "{:?}", told.warnings);
    assert_eq!(told.warnings[0], "There is nothing at /draft/none.");
    let all = bureau.works("state_get", json!({})).await;
    let whole = json!({
        "/facts": {}, "/draft": {"title": "The keeper"}, "/locks": {}, "/ui_state": {},
        "/proposals": {},
    });
    assert_eq!(all["values"], whole);
    assert_eq!(all["etags"], json!({"facts": 0, "draft": 1, "ui_state": 0}));
}

/// T9: the own workspace may be named or not; another one is not here.
#[tokio::test]
async fn one_workspace_per_project() {
    let mut bureau = Bureau::open().await;
    for id in [json!(null), json!("project"), json!("workspace_id"), json!("")] {
        bureau.works("state_get", json!({"workspace_id": id})).await;
    }
    for (tool, rest) in [
        ("state_get", json!({})),
        ("state_patch", json!({"ops": [set("/draft/a", json!(1))]})),
        ("facts_propose", json!({"path": "/facts/a", "value": 1, "reason": "r"})),
    ] {
        let mut args = rest;
        args["workspace_id"] = json!("another");
        let (code, message, path) = bureau.fails(tool, args).await;
        assert_eq!((code.as_str(), path.as_str()), ("WORKSPACE_NOT_FOUND", "workspace_id"));
        assert!(message.contains("\"another\""), "{message}");
    }
}

/// T10: one bad path, and nothing of the patch is done.
#[tokio::test]
async fn a_patch_is_made_whole_or_not_at_all() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/list", json!([1, 2])).await;
    let good = || set("/draft/a", json!(1));
    let table = [
        (set("/facts/a", json!(1)), "ops[1].path"),
        (set("/locks/a", json!(1)), "ops[1].path"),
        (set("/proposals/p1", json!(1)), "ops[1].path"),
        (set("/phase", json!(1)), "ops[1].path"),
        (set("draft/a", json!(1)), "ops[1].path"),
        (set("/draft", json!({})), "ops[1].path"),
        (set("", json!({})), "ops[1].path"),
        (set("/draft/../facts/a", json!(1)), ""),
        (set("/draft/list/02", json!(1)), "ops[1].path"),
        (set("/draft/list/7", json!(1)), "ops[1].path"),
        (json!({"op": "delete", "path": "/draft/nope"}), "ops[1].path"),
        (json!({"op": "set", "path": "/draft/b"}), "ops[1].path"),
        (json!({"op": "append", "path": "/draft/a", "value": 1}), "ops[1].path"),
        (json!({"op": "insert", "path": "/draft/list", "value": 1}), "ops[1].path"),
        (json!({"op": "merge", "path": "/draft/b", "value": 1}), "ops[1].op"),
        (json!({"op": "set", "path": "/draft/b", "value": 1, "status": "x"}), "ops[1].status"),
    ];
    for (bad, field) in table {
        if field.is_empty() {
            // Dots are a name like any other; they lead nowhere else.
            bureau.works("state_patch", json!({"ops": [bad]})).await;
            assert_eq!(bureau.document(Root::Facts), (0, json!({})));
            let gone = json!({"op": "delete", "path": "/draft/.."});
            bureau.works("state_patch", json!({"ops": [gone]})).await;
            continue;
        }
        let (code, message, path) =
            bureau.fails("state_patch", json!({"ops": [good(), bad]})).await;
        assert_eq!((code.as_str(), path.as_str()), ("ARGUMENTS_INVALID", field), "{message}");
    }
    assert_eq!(bureau.document(Root::Draft), (3, json!({"list": [1, 2]})));
    let null = bureau.works("state_patch", json!({"ops": [set("/draft/n", json!(null))]})).await;
    assert_eq!(null, json!({"applied": 1, "etags": {"draft": 4}}), "null is a value");
    let (code, ..) = bureau.fails("state_patch", json!({"ops": []})).await;
    assert_eq!(code, "ARGUMENTS_INVALID");
}

/// T42: a stale etag does nothing; an insert makes the list that is missing.
#[tokio::test]
async fn an_etag_counts_changes_and_guards_them() {
    let mut bureau = Bureau::open().await;
    let op = json!({"op": "insert", "path": "/draft/list", "value": "x", "index": 0});
    let done = bureau.works("state_patch", json!({"ops": [op.clone()], "etag": 0})).await;
    assert_eq!(done, json!({"applied": 1, "etags": {"draft": 1}}));
    assert_eq!(bureau.document(Root::Draft), (1, json!({"list": ["x"]})));
    for stale in [0, 2, 99] {
        let args = json!({"ops": [op.clone()], "etag": stale});
        let (code, message, path) = bureau.fails("state_patch", args).await;
        assert_eq!((code.as_str(), path.as_str()), ("ETAG_MISMATCH", "etag"), "{message}");
        assert!(message.contains("etag 1"), "{message}");
    }
    // What changes nothing is no change.
    let same = json!({"ops": [set("/draft/list/0", json!("x"))], "etag": 1});
    assert_eq!(bureau.works("state_patch", same).await["etags"], json!({"draft": 1}));
    let both = [set("/draft/a", json!(1)), set("/ui_state/b", json!(2))];
    let (code, ..) = bureau.fails("state_patch", json!({"ops": both.clone(), "etag": 1})).await;
    assert_eq!(code, "ARGUMENTS_INVALID");
    let done = bureau.works("state_patch", json!({ "ops": both })).await;
    assert_eq!(done["etags"], json!({"draft": 2, "ui_state": 1}));
}

#[tokio::test]
async fn patches_and_documents_are_bounded() {
    let mut bureau = Bureau::open().await;
    let ops = |count: usize| -> Vec<Value> {
        (0..count).map(|at| set(&format!("/draft/k{at}"), json!(at))).collect()
    };
    let (code, ..) = bureau.fails("state_patch", json!({"ops": ops(OPS_MAX + 1)})).await;
    assert_eq!(code, "ARGUMENTS_INVALID");
    for count in [OPS_MAX - 1, OPS_MAX] {
        let done = bureau.works("state_patch", json!({"ops": ops(count)})).await;
        assert_eq!(done["applied"], json!(count));
    }
    let none: Vec<Value> =
        (0..OPS_MAX).map(|at| json!({"op": "delete", "path": format!("/draft/k{at}")})).collect();
    bureau.works("state_patch", json!({ "ops": none })).await;
    assert_eq!(bureau.document(Root::Draft), (3, json!({})));
    // Four mebibytes fit, with the names and the quotes around them; one byte more does not.
    let half = "x".repeat(2 << 20);
    bureau.sets("/draft/k", json!(half)).await;
    let around = r#"{"k":"","l":""}"#.len();
    let rest = "y".repeat((2 << 20) - around);
    bureau.sets("/draft/l", json!(rest)).await;
    let op = json!({"ops": [set("/draft/l", json!(format!("{rest}y")))]});
    let (code, message, _) = bureau.fails("state_patch", op).await;
    assert_eq!(code, "TOOL_FAILED");
    assert!(message.contains("4194305 bytes; at most 4194304 fit"), "{message}");
}

/// Locks hold a path and what is below it, whichever way it would change.
#[tokio::test]
async fn a_lock_holds_in_the_draft() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/title", json!("The keeper")).await;
    bureau.sets("/draft/list", json!(["a", "b", "c"])).await;
    bureau.locks("/draft/title").await.unwrap();
    bureau.locks("/draft/list/2").await.unwrap();
    let table = [
        set("/draft/title", json!("Other")),
        set("/draft/title", json!("The keeper")),
        json!({"op": "delete", "path": "/draft/title"}),
        set("/draft/title/sub", json!(1)),
        set("/draft/list", json!([])),
        set("/draft/list/2", json!("d")),
        json!({"op": "delete", "path": "/draft/list/0"}),
        json!({"op": "insert", "path": "/draft/list", "index": 0, "value": "z"}),
    ];
    for op in table {
        let (code, message, path) =
            bureau.fails("state_patch", json!({"ops": [set("/draft/x", json!(1)), op]})).await;
        assert_eq!((code.as_str(), path.as_str()), ("PATH_LOCKED", "ops[1].path"), "{message}");
    }
    // What only looks alike, and what leaves the held item where it is, may change.
    bureau.sets("/draft/titles", json!(1)).await;
    bureau.sets("/draft/list/0", json!("A")).await;
    let op = json!({"op": "append", "path": "/draft/list", "value": "d"});
    bureau.works("state_patch", json!({"ops": [op]})).await;
    let (_, draft) = bureau.document(Root::Draft);
    assert_eq!(draft["list"], json!(["A", "b", "c", "d"]));
    assert_eq!(draft["title"], "The keeper");
}

#[tokio::test]
async fn a_proposal_waits_and_facts_stay() {
    let mut bureau = Bureau::open().await;
    let first = bureau.proposes("/facts/city", json!("Lisbon")).await;
    let second = bureau.proposes("/facts/city", json!("Porto")).await;
    assert_eq!((first.to_string(), second.to_string()), ("p1".into(), "p2".into()));
    assert_eq!(bureau.document(Root::Facts), (0, json!({})));
    let read = bureau.works("state_get", json!({"select": ["/proposals/p1"]})).await;
    let shown = json!({"path": "/facts/city", "value": "Lisbon", "reason": "It says so."});
    assert_eq!(read["values"]["/proposals/p1"], shown);
    let propose = |path: &str, value: Value, reason: &str| json!({"path": path, "value": value, "reason": reason});
    let table = [
        (propose("/draft/a", json!(1), "r"), "path"),
        (propose("/facts", json!(1), "r"), "path"),
        (propose("/facts/", json!(1), "r"), "path"),
        (propose("/facts/__proto__/x", json!(1), "r"), "path"),
        (propose("/facts/a", json!(1), "  "), "reason"),
        (propose("/facts/a", json!(1), &"r".repeat(2_001)), "reason"),
        (propose("/facts/a", json!("x".repeat(33_000)), "r"), "value"),
        (json!({"path": "/facts/a", "reason": "r"}), "value"),
        (json!({"path": "/facts/a", "value": 1, "reason": "r", "status": "committed"}), "status"),
        (
            json!({"path": "/facts/a", "value": 1, "reason": "r", "committed_by": "a"}),
            "committed_by",
        ),
    ];
    for (args, field) in table {
        let (code, message, path) = bureau.fails("facts_propose", args).await;
        assert_eq!((code.as_str(), path.as_str()), ("ARGUMENTS_INVALID", field), "{message}");
    }
    for at in 2..PROPOSALS_MAX {
        bureau.proposes(&format!("/facts/f{at}"), json!(at)).await;
    }
    let (code, ..) = bureau.fails("facts_propose", propose("/facts/z", json!(1), "r")).await;
    assert_eq!(code, "PROPOSALS_FULL");
}

#[tokio::test]
async fn what_the_interface_shows_is_kept_and_bounded() {
    let mut bureau = Bureau::open().await;
    let form = json!({"kind": "form", "title": "Character", "data": {"fields": ["name"]}});
    bureau.works("ui_render", form.clone()).await;
    assert_eq!(bureau.document(Root::UiState), (1, json!({ "notice": form })));
    for (args, field) in [
        (json!({"kind": "A b", "title": "t"}), "kind"),
        (json!({"kind": "", "title": "t"}), "kind"),
        (json!({"kind": "notice", "title": " "}), "title"),
        (json!({"kind": "notice", "title": "t", "data": "x".repeat(40_000)}), ""),
    ] {
        let (code, _, path) = bureau.fails("ui_render", args).await;
        assert_eq!((code.as_str(), path.as_str()), ("ARGUMENTS_INVALID", field));
    }
}

/// Nothing that is called like a commit exists, and the answer says what does.
#[tokio::test]
async fn no_call_writes_a_fact_or_a_lock() {
    let mut bureau = Bureau::open().await;
    let id = bureau.proposes("/facts/city", json!("Lisbon")).await;
    for tool in ["facts_commit", "commit_fact", "facts_reject", "facts_lock", "facts_unlock"] {
        let args = json!({"proposal_id": id, "user_confirmed": true});
        let told = bureau.driver.call(&client(), tool, &args.to_string(), None).await.unwrap();
        assert_eq!(told.code().unwrap().as_str(), "TOOL_UNKNOWN", "{tool}");
        let there = ["state_get", "state_patch", "facts_propose", "ui_render"];
        assert_eq!(told.errors[0].allowed.as_deref().unwrap(), there);
    }
    assert_eq!(bureau.document(Root::Facts), (0, json!({})));
}

/// Two sessions of one project share the workspace.
#[tokio::test]
async fn the_workspace_is_the_projects() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/title", json!("One")).await;
    let mut other = bureau.another("s2").await;
    let args = json!({"ops": [set("/draft/title", json!("Two"))], "etag": 1});
    let told = other.call(&client(), "state_patch", &args.to_string(), None).await.unwrap();
    assert!(told.ok, "{:?}", told.errors);
    let (code, ..) = bureau.fails("state_patch", args).await;
    assert_eq!(code, "ETAG_MISMATCH");
    assert_eq!(bureau.document(Root::Draft), (2, json!({"title": "Two"})));
}

/// The page says of every tool what the tool says of itself.
#[test]
fn the_page_lists_every_tool() {
    let page = include_str!("../../../../docs/packs.md");
    let pack = workspace().unwrap();
    for spec in &pack.section.tools {
        let fields = spec.input["properties"].as_object().unwrap().keys();
        let fields: Vec<String> = fields.map(|field| format!("`{field}`")).collect();
        let row = format!(
            "| `{}` | `{}` | {} | {} |",
            spec.name,
            spec.group,
            fields.join(", "),
            spec.about
        );
        assert!(page.contains(&row), "docs/packs.md lacks:\n{row}");
    }
    assert!(page.contains("`{facts}`"));
    for family in &pack.section.families {
        assert!(page.contains(&format!("`{}", family.name)), "{}", family.name);
    }
}
