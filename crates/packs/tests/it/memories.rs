//! Memory: saving, recalling, searching, forgetting, and every way in which a call can be wrong.

use serde_json::{Value, json};
use toolgate_kernel::config::MemoryText;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::fold::{Counted, World};
use toolgate_kernel::time::Timestamp;
use toolgate_packs::memory::memory;

use crate::den::{Den, call};

const ACTIONS: [&str; 4] = ["save", "recall", "search", "forget"];

async fn den() -> Den {
    Den::open(&[memory(MemoryText::default()).unwrap()]).await
}

async fn save(den: &mut Den, kind: &str, content: &str) -> String {
    let saved =
        den.works("memory", json!({ "action": "save", "kind": kind, "content": content })).await;
    saved["memory"]["id"].as_str().unwrap().to_owned()
}

fn contents(data: &Value, list: &str) -> Vec<String> {
    let list = data[list].as_array().unwrap().iter();
    list.map(|memory| memory["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn what_is_saved_is_recalled_found_and_forgotten() {
    let mut den = den().await;
    let saved = den
        .works("memory", json!({ "action": "save", "content": " Anna fears open water. " }))
        .await;
    let anna = json!({ "id": "mbfd13b4f0c75", "kind": "journal", "content": "Anna fears open water.",
                       "protected": false, "saved_at": "2023-11-14T22:13:20.000Z" });
    let id = saved["memory"]["id"].as_str().unwrap().to_owned();
    let mut expected = anna.clone();
    expected["id"] = json!(id);
    assert_eq!(saved, json!({ "type": "memory_saved", "memory": expected, "new": true }));
    let one = den.works("memory", json!({ "action": "recall", "id": id })).await;
    assert_eq!(one, json!({ "type": "memory", "memory": expected }));
    save(&mut den, "core", "Bert keeps bees by the water.").await;
    // Another session of the project finds it too.
    let mut other = den.another("s2").await;
    let found = call(&mut other, "memory", json!({ "action": "search", "query": "WATER fears" }))
        .await
        .data;
    assert_eq!(
        (&found["type"], &found["query"], &found["found"]),
        (&json!("memory_results"), &json!("WATER fears"), &json!(2))
    );
    assert_eq!(
        contents(&found, "results"),
        ["Anna fears open water.", "Bert keeps bees by the water."]
    );
    assert!(found["results"][0]["score"].as_f64() > found["results"][1]["score"].as_f64());
    let core =
        den.works("memory", json!({ "action": "search", "query": "water", "kind": "core" })).await;
    assert_eq!(contents(&core, "results"), ["Bert keeps bees by the water."]);
    let one =
        den.works("memory", json!({ "action": "search", "query": "water", "limit": 1 })).await;
    assert_eq!((one["results"].as_array().unwrap().len(), &one["found"]), (1, &json!(2)));
    let gone = den.works("memory", json!({ "action": "forget", "id": id })).await;
    assert_eq!(gone, json!({ "type": "memory_forgotten", "memory": expected }));
    let none = den.works("memory", json!({ "action": "search", "query": "anna" })).await;
    assert_eq!(
        none,
        json!({ "type": "memory_results", "query": "anna", "results": [], "found": 0 })
    );
}

#[tokio::test]
async fn the_same_text_is_one_memory_and_core_stays_core() {
    let mut den = den().await;
    let id = save(&mut den, "journal", "x").await;
    let again =
        den.works("memory", json!({ "action": "save", "content": "x\n", "kind": "core" })).await;
    assert_eq!((&again["new"], &again["memory"]["id"]), (&json!(false), &json!(id)));
    assert_eq!(again["memory"]["kind"], "core");
    let again = den.works("memory", json!({ "action": "save", "content": "x" })).await;
    assert_eq!(again["memory"]["kind"], "core");
    assert_eq!(den.works("memory", json!({ "action": "recall" })).await["total"], 1);
}

#[tokio::test]
async fn a_journal_fades_after_a_week_and_is_still_found() {
    let mut den = den().await;
    save(&mut den, "core", "the oldest").await;
    save(&mut den, "journal", "a week ago").await;
    den.clock.days_pass(3);
    save(&mut den, "journal", "newer").await;
    save(&mut den, "core", "the newest core").await;
    let recall = || json!({ "action": "recall" });
    let all = den.works("memory", recall()).await;
    assert_eq!(
        contents(&all, "memories"),
        ["the newest core", "the oldest", "newer", "a week ago"]
    );
    den.clock.days_pass(4);
    let all = den.works("memory", recall()).await;
    assert_eq!(contents(&all, "memories"), ["the newest core", "the oldest", "newer"]);
    let journal =
        den.works("memory", json!({ "action": "recall", "kind": "journal", "limit": 1 })).await;
    assert_eq!(
        (contents(&journal, "memories"), &journal["total"]),
        (vec!["newer".to_owned()], &json!(1))
    );
    let found = den.works("memory", json!({ "action": "search", "query": "week" })).await;
    assert_eq!(contents(&found, "results"), ["a week ago"]);
}

#[tokio::test]
async fn every_mistake_says_what_to_do() {
    let mut den = den().await;
    let id = save(&mut den, "core", "kept").await;
    den.works("refinement", json!({ "action": "protect", "id": id })).await;
    let required = |what: &str, action: &str| {
        let error = format!("{what} is required for {action} action");
        let told = json!({ "type": "error", "error": error, "action": action,
                           "required_param": what, "allowed_actions": ACTIONS });
        (Code::ARGUMENTS_INVALID, told)
    };
    let failed = |error: String, action: &str, id: &str| {
        (Code::TOOL_FAILED, json!({ "type": "error", "error": error, "action": action, "id": id }))
    };
    let long = json!({ "type": "error", "error": "content has 2001 characters; use at most 2000",
                       "action": "save", "field": "content", "allowed_actions": ACTIONS });
    let strange = "a:b\nc";
    for (args, expected) in [
        (json!({ "action": "save" }), required("content", "save")),
        (json!({ "action": "save", "content": " " }), required("content", "save")),
        (
            json!({ "action": "save", "content": "x".repeat(2_001) }),
            (Code::ARGUMENTS_INVALID, long),
        ),
        (json!({ "action": "search", "query": "" }), required("query", "search")),
        (json!({ "action": "forget" }), required("id", "forget")),
        (
            json!({ "action": "forget", "id": "m0" }),
            failed("There is no memory 'm0'. Search for it".to_owned(), "forget", "m0"),
        ),
        (
            json!({ "action": "recall", "id": strange }),
            failed(format!("There is no memory '{strange}'. Search for it"), "recall", strange),
        ),
        (
            json!({ "action": "forget", "id": id }),
            failed(format!("Memory '{id}' is protected"), "forget", &id),
        ),
    ] {
        assert_eq!(den.fails("memory", args).await, expected);
    }
}

#[tokio::test]
async fn the_core_is_there_for_prompts() {
    let mut den = den().await;
    let shown = |den: &Den| {
        let (session, project) = (den.driver.session(), den.runtime.project().0);
        let toolset = &den.driver.agent().toolset;
        let (now, counted) = (Timestamp(0), Counted::NotYet);
        let world = World { session: &session, project: &project, toolset, now, counted };
        let variable = toolset.variables().iter().find(|v| v.name == "core_memories").unwrap();
        (variable.show)(&world)
    };
    assert_eq!(shown(&den), "none");
    save(&mut den, "journal", "of the week").await;
    save(&mut den, "core", "first\nof all").await;
    den.clock.days_pass(1);
    save(&mut den, "core", "second").await;
    assert_eq!(shown(&den), "- second\n- first of all");
    for n in 0..49 {
        save(&mut den, "core", &format!("core {n}")).await;
    }
    assert!(shown(&den).ends_with("\n- and 1 more"));
}

/// Two sessions that save at the same moment are not in each other's way.
#[tokio::test]
async fn sessions_save_side_by_side() {
    let mut den = den().await;
    let mut other = den.another("s2").await;
    let (a, b) =
        (json!({ "action": "save", "content": "a" }), json!({ "action": "save", "content": "b" }));
    let (one, two) =
        tokio::join!(call(&mut den.driver, "memory", a), call(&mut other, "memory", b));
    assert!(one.ok && two.ok);
    assert_eq!(den.works("memory", json!({ "action": "recall" })).await["total"], 2);
}
