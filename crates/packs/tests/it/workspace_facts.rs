//! A person's word about facts: what changes, what is skipped, and what the log says of it later.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Change, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Counted, World};
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{PolicyName, SectionName};
use toolgate_kernel::policy::{Policy, Rule};
use toolgate_kernel::section::Section;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_packs::workspace::{Act, Document, History, ProposalId, Root, decide};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Nothing, Pack, tool};

use crate::support::client;
use crate::workspace_desk::{Bureau, held};

/// T41: proposed is not committed; a commit counts the etag up and consumes the proposal.
#[tokio::test]
async fn a_person_commits_once() {
    let mut bureau = Bureau::open().await;
    let id = bureau.proposes("/facts/people/anna/age", json!(34)).await;
    let done = bureau.commits(&[id]).await.unwrap();
    assert_eq!((done.facts_etag, done.changed.len(), done.skipped.len()), (1, 1, 0));
    assert_eq!((done.changed[0].old.clone(), done.changed[0].new.clone()), (None, Some(json!(34))));
    assert_eq!(done.changed[0].made.by, "client:test");
    let facts = json!({"people": {"anna": {"age": 34}}});
    assert_eq!(bureau.document(Root::Facts), (1, facts.clone()));
    let again = bureau.commits(&[id]).await.unwrap_err().to_string();
    assert_eq!(again, "p1 was decided or undone already; nothing was changed");
    let never = bureau.commits(&[ProposalId(9)]).await.unwrap_err().to_string();
    assert!(never.starts_with("there is no proposal p9"), "{never}");
    assert!(bureau.commits(&[]).await.is_err());
    assert_eq!(bureau.document(Root::Facts), (1, facts));
    // Null forgets.
    let id = bureau.proposes("/facts/people/anna", json!(null)).await;
    let done = bureau.commits(&[id]).await.unwrap();
    assert_eq!(done.changed[0].old, Some(json!({"age": 34})));
    assert_eq!(bureau.document(Root::Facts), (2, json!({"people": {}})));
}

/// Nobody but a person, whatever they are called.
#[tokio::test]
async fn nobody_else_decides() {
    let mut bureau = Bureau::open().await;
    let id = bureau.proposes("/facts/city", json!("Lisbon")).await;
    for who in ["agent:editor", "model:script", "client:mcp", "system"] {
        let who = Actor::try_from(who.to_owned()).unwrap();
        for act in [
            Act::Commit(vec![id]),
            Act::Reject(vec![id], String::new()),
            Act::Lock(held("/facts/city"), String::new()),
        ] {
            let refused = bureau.decides_as((&who).into(), act).await.unwrap_err().to_string();
            assert!(refused.contains("only a person may say this"), "{refused}");
        }
    }
    assert_eq!(bureau.document(Root::Facts), (0, json!({})));
    assert!(bureau.commits(&[id]).await.is_ok(), "it still waits");
}

#[tokio::test]
async fn what_is_locked_or_conflicting_is_skipped_and_reported() {
    let mut bureau = Bureau::open().await;
    let seed = bureau.proposes("/facts/list", json!(["a", "b"])).await;
    bureau.commits(&[seed]).await.unwrap();
    let mut ids = Vec::new();
    for (path, value) in [
        ("/facts/city", json!("Lisbon")),
        ("/facts/king/name", json!("Otto")),
        ("/facts/city", json!("Porto")),
        ("/facts/list", json!(["x"])),
        ("/facts/list/0/deep", json!(1)),
        ("/facts/year", json!(1900)),
    ] {
        ids.push(bureau.proposes(path, value).await);
    }
    bureau.locks("/facts/king").await.unwrap();
    bureau.locks("/facts/list/1").await.unwrap();
    let done = bureau.commits(&ids).await.unwrap();
    let changed: Vec<&str> = done.changed.iter().map(|one| one.made.path.as_str()).collect();
    assert_eq!(changed, ["/facts/city", "/facts/year"]);
    let skipped: Vec<(&str, &str)> =
        done.skipped.iter().map(|one| (one.path.as_str(), one.why)).collect();
    assert_eq!(
        skipped,
        [
            ("/facts/king/name", "locked"),
            ("/facts/city", "conflicting"),
            ("/facts/list", "locked"),
            ("/facts/list/0/deep", "conflicting"),
        ]
    );
    let facts = json!({"city": "Lisbon", "list": ["a", "b"], "year": 1900});
    assert_eq!(bureau.document(Root::Facts), (2, facts), "one commit, one etag");
    // What was skipped waits on. The fact is another one since, so it conflicts now.
    let done = bureau.commits(&[ids[2]]).await.unwrap();
    assert!(done.changed.is_empty() && done.event().is_none());
    assert!(done.skipped[0].message.contains("another one since"), "{:?}", done.skipped);
    bureau.decides(Act::Unlock(held("/facts/king"), String::new())).await.unwrap();
    assert_eq!(bureau.commits(&[ids[1]]).await.unwrap().changed.len(), 1);
}

/// What a person was shown is what is written down, or nothing is.
#[tokio::test]
async fn a_decision_about_another_project_is_another_decision() {
    let mut bureau = Bureau::open().await;
    let first = bureau.proposes("/facts/city", json!("Lisbon")).await;
    let second = bureau.proposes("/facts/city", json!("Porto")).await;
    let shown = decide(&bureau.project(), &Act::Commit(vec![first])).unwrap();
    bureau.commits(&[second]).await.unwrap();
    let now = decide(&bureau.project(), &Act::Commit(vec![first])).unwrap();
    assert_ne!(shown, now);
    assert!(now.changed.is_empty());
}

#[tokio::test]
async fn a_rejection_takes_the_proposal_away() {
    let mut bureau = Bureau::open().await;
    let id = bureau.proposes("/facts/city", json!("Lisbon")).await;
    bureau.decides(Act::Reject(vec![id], "No.".to_owned())).await.unwrap();
    assert_eq!(bureau.document(Root::Facts), (0, json!({})));
    assert!(bureau.commits(&[id]).await.is_err());
    assert_eq!(bureau.proposes("/facts/city", json!("Lisbon")).await.to_string(), "p2");
}

#[tokio::test]
async fn locks_are_put_and_taken_once() {
    let mut bureau = Bureau::open().await;
    bureau.locks("/facts/city").await.unwrap();
    assert!(bureau.locks("/facts/city").await.is_err());
    let other = Act::Unlock(held("/facts/king"), String::new());
    let refused = bureau.decides(other).await.unwrap_err().to_string();
    assert_eq!(refused, "/facts/king is not locked; locked are /facts/city");
    let told = bureau
        .call("facts_propose", json!({"path": "/facts/city/x", "value": 1, "reason": "r"}))
        .await;
    assert!(told.ok && told.warnings[0].contains("/facts/city is locked"), "{told:?}");
    let read = bureau.works("state_get", json!({"select": ["/locks"]})).await;
    assert_eq!(read["values"]["/locks"], json!({"/facts/city": {"reason": "It is decided."}}));
}

async fn records(bureau: &Bureau) -> Vec<Record<ProjectEvent>> {
    let mut records = Vec::new();
    let each = |record: Record<ProjectEvent>, _: &_| records.push(record);
    read_from(bureau.store.as_ref(), &StreamId::Project, Tip::START, each).await.unwrap();
    records
}

#[tokio::test]
async fn the_log_tells_who_changed_a_fact_and_why() {
    let mut bureau = Bureau::open().await;
    for value in [json!({"name": "Lisbon"}), json!({"name": "Porto"})] {
        let id = bureau.proposes("/facts/city", value).await;
        let other = bureau.proposes("/facts/other", json!(id)).await;
        bureau.commits(&[id, other]).await.unwrap();
    }
    bureau.locks("/facts/city").await.unwrap();
    let mut history = History::of(held("/facts/city/name"));
    records(&bureau).await.iter().for_each(|record| history.take(record));
    let (entries, left_out) = history.entries();
    let told: Vec<_> = entries
        .map(|entry| (entry.what, entry.by.as_str(), entry.old.clone(), entry.new.clone()))
        .collect();
    let name = |name: &str| Some(json!(name));
    assert_eq!(
        told,
        [
            ("changed", "human:ada", None, name("Lisbon")),
            ("changed", "human:ada", name("Lisbon"), name("Porto")),
            ("locked", "human:ada", name("Porto"), name("Porto")),
        ]
    );
    assert_eq!(left_out, 0);
    let (entries, _) = history.entries();
    let last: Vec<_> = entries.collect();
    let behind = &last[1].proposals;
    assert_eq!((behind.len(), behind[0].proposal), (1, ProposalId(3)));
    assert_eq!(behind[0].made.reason, "It says so.");
    assert_eq!(last[1].reason, "facts commit p3 p4");
    assert_eq!(last[2].reason, "facts lock /facts/city: It is decided.");
    assert!(history.locked() && history.value() == name("Porto"));
}

/// Every change of the facts in a log is a person's, by the record's own author.
#[tokio::test]
async fn only_a_persons_records_change_facts() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/a", json!(1)).await;
    let id = bureau.proposes("/facts/city", json!("Lisbon")).await;
    bureau.commits(&[id]).await.unwrap();
    bureau.locks("/draft/a").await.unwrap();
    let mut seen = 0;
    for record in records(&bureau).await {
        let ProjectEvent::ProjectChanged { changes, call, .. } = &record.event else { continue };
        let guarded = |change: &Change| {
            change.key().is_some_and(|key| ["facts", "locks"].contains(&key.family().as_str()))
        };
        if changes.iter().any(guarded) {
            assert!(record.actor.is_human() && call.is_none(), "{record:?}");
            seen += 1;
        }
    }
    assert_eq!(seen, 2);
}

/// A tool of anybody's that declares the keys of the facts is still no person.
#[tokio::test]
async fn no_tool_of_anybody_writes_facts_or_locks() {
    let bureau = Bureau::open().await;
    let sneaking = |name: &str, key: &'static str, remove: bool| {
        let touches = move |_: &_| Ok(vec![(Access::Write, Key::parse(key)?)]);
        let draft = SpecDraft::new(name, "Sneaks.").effect(Effect::Staged).touches(touches);
        tool(draft, move |tx, _: Nothing| {
            let key = Key::parse(key).map_err(|refusal| Fault::failed(refusal.to_string()))?;
            match remove {
                true => tx.remove(&key)?,
                false => tx.put(&key, &json!("mine"))?,
            }
            Ok(Output::message("Done."))
        })
        .unwrap()
    };
    let tools = vec![
        sneaking("put_fact", "facts:city", false),
        sneaking("remove_fact", "facts:city", true),
        sneaking("put_etag", "facts", false),
        sneaking("put_locks", "locks", false),
        sneaking("remove_locks", "locks", true),
    ];
    let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.to_string()).collect();
    let section = Section::new(SectionName::parse("sneaky").unwrap());
    let mut driver = bureau.beside("s2", Pack::new(section, tools)).await;
    for name in names {
        let told = driver.call(&client(), &name, "{}", None).await.unwrap();
        assert!(told.message.starts_with("Only a person may change "), "{name}: {}", told.message);
    }
    assert_eq!(bureau.document(Root::Facts), (0, json!({})));
}

fn rule(deny: &str) -> Arc<dyn Policy> {
    let text = json!({"tools": ["state_patch"], "deny": deny, "message": "Not now."});
    let text = serde_json::from_value(text).unwrap();
    Arc::new(Rule::new(PolicyName::parse("facts-rule").unwrap(), text).unwrap())
}

/// Facts decide: `facts` is what a person confirmed, and what is missing denies.
#[tokio::test]
async fn rules_see_facts() {
    let patch = || json!({"ops": [{"op": "set", "path": "/draft/a", "value": 1}]});
    let mut bureau = Bureau::under(vec![rule("facts.book.finished == true")]).await;
    let told = bureau.call("state_patch", patch()).await;
    assert_eq!(told.code().unwrap().as_str(), "POLICY_ERROR", "a missing fact is no permission");
    let id = bureau.proposes("/facts/book/finished", json!(false)).await;
    assert!(!bureau.call("state_patch", patch()).await.ok, "a proposal is no fact");
    bureau.commits(&[id]).await.unwrap();
    bureau.works("state_patch", patch()).await;
    let id = bureau.proposes("/facts/book/finished", json!(true)).await;
    bureau.commits(&[id]).await.unwrap();
    let told = bureau.call("state_patch", patch()).await;
    assert_eq!(told.code().unwrap().as_str(), "POLICY_DENIED");
    // With `has` a missing fact is an answer; the etag is no fact.
    let mut bureau = Bureau::under(vec![rule("has(facts.book) || size(facts) > 0")]).await;
    bureau.works("state_patch", patch()).await;
    let id = bureau.proposes("/facts/year", json!(1900)).await;
    bureau.commits(&[id]).await.unwrap();
    assert!(!bureau.call("state_patch", patch()).await.ok);
}

#[tokio::test]
async fn prompts_see_facts() {
    let mut bureau = Bureau::open().await;
    let shown = |bureau: &Bureau| {
        let (session, project) = (bureau.driver.session(), bureau.project());
        let toolset = &bureau.driver.agent().toolset;
        let (now, counted) = (Timestamp(0), Counted::NotYet);
        let world = World { session: &session, project: &project, toolset, now, counted };
        let variable = toolset.variables().iter().find(|one| one.name == "facts").unwrap();
        (variable.show)(&world)
    };
    assert_eq!(shown(&bureau), "none");
    for (path, value) in [("/facts/city", json!("Lisbon")), ("/facts/anna/age", json!(34))] {
        let id = bureau.proposes(path, value).await;
        bureau.commits(&[id]).await.unwrap();
    }
    assert_eq!(shown(&bureau), "- anna: {\"age\":34}\n- city: \"Lisbon\"");
    for name in ["b", "c"] {
        let id = bureau.proposes(&format!("/facts/{name}"), json!("x".repeat(9_000))).await;
        bureau.commits(&[id]).await.unwrap();
    }
    assert!(shown(&bureau).ends_with("\n- 2 more; state_get shows them"));
}

/// Whatever order changes come in, the document is what applying them says.
#[tokio::test]
async fn a_document_is_kept_member_by_member() {
    let mut bureau = Bureau::open().await;
    bureau.sets("/draft/a", json!({"x": [1, 2]})).await;
    bureau.sets("/draft/b", json!("kept")).await;
    bureau.sets("/draft/a/x/0", json!(9)).await;
    let records = records(&bureau).await;
    let Some(ProjectEvent::ProjectChanged { changes, .. }) = records.last().map(|r| &r.event)
    else {
        panic!("the last record changes the project")
    };
    let keys: Vec<String> =
        changes.iter().filter_map(|change| change.key().map(ToString::to_string)).collect();
    assert_eq!(keys, ["draft:a", "draft"], "what did not change is not written again");
    let Document { etag, value } = Document::of(&bureau.project().state, Root::Draft);
    assert_eq!((etag, value), (3, json!({"a": {"x": [9, 2]}, "b": "kept"}) as Value));
}
