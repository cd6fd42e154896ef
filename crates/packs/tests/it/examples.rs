//! Specs and examples: what is registered, and that the examples are true.

use serde_json::json;
use toolgate_kernel::event::Event;
use toolgate_kernel::key::Access;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_packs::planning::{Strategy, planning};
use toolgate_runtime::{Committed, Nothing, tool};

use crate::support::Desk;

#[test]
fn four_locked_tools_in_one_group() {
    let pack = planning(Strategy::React).unwrap();
    let specs = pack.section.tools.iter();
    let names: Vec<_> = specs.map(|spec| (spec.name.as_str(), spec.effect)).collect();
    assert_eq!(
        names,
        [
            ("planning_setup_plan", Effect::Staged),
            ("planning_add_step", Effect::Staged),
            ("planning_update_step", Effect::Staged),
            ("planning_read_plan", Effect::Read),
        ]
    );
    for spec in &pack.section.tools {
        assert_eq!(spec.group.as_str(), "planning");
        assert!(!spec.overridable && spec.touches_anything());
        assert!((1..=2).contains(&spec.examples.len()), "{}", spec.name);
    }
}

/// The examples tell one story: run in order, each gives exactly what it shows.
#[tokio::test]
async fn every_example_does_what_it_shows() {
    let mut desk = Desk::open().await;
    for spec in planning(Strategy::React).unwrap().section.tools {
        let name = spec.name.as_str().strip_prefix("planning_").unwrap();
        for example in &spec.examples {
            let envelope = desk.call(name, example.input.clone()).await;
            assert!(envelope.ok, "{name}: {}", envelope.message);
            assert_eq!(envelope.data, example.output, "{name}: {}", example.about);
        }
    }
}

/// Whose answer shows what stood there before reads it; whoever changes it writes it.
#[tokio::test]
async fn every_call_touches_the_plan_with_its_count_and_nothing_else() {
    let mut desk = Desk::open().await;
    let mut events = desk.runtime.observe();
    desk.call("setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })).await;
    desk.call("add_step", json!({ "steps": ["b"] })).await;
    desk.call("update_step", json!({ "step_id": 1, "status": "done" })).await;
    desk.call("read_plan", json!({})).await;
    let mut touched = Vec::new();
    while let Ok(committed) = events.try_recv() {
        if let Committed::Session(_, record) = committed
            && let Event::CallAdmitted(admitted) = &record.event
        {
            let touches = admitted.touches.iter().map(|t| (t.access, t.key.to_string()));
            touched.push(touches.collect::<Vec<_>>());
        }
    }
    let both = |access: Access| [(access, "plan".to_owned()), (access, "plan_steps".to_owned())];
    let (read, write) = (both(Access::Read).to_vec(), both(Access::Write).to_vec());
    let changed = [read.clone(), write.clone()].concat();
    assert_eq!(touched, [write, changed.clone(), changed, read]);
}

/// The check that guards our examples guards everybody's.
#[test]
fn an_example_of_another_type_is_refused() {
    let pack = planning(Strategy::React).unwrap();
    let read_plan = &pack.section.tools[3];
    let mut output = read_plan.examples[0].output.clone();
    output["steps"][0]["status"] = json!("finished");
    let draft = SpecDraft::new("wrong", "Shows a step that is finished.")
        .returns_schema(read_plan.output.clone())
        .example("A wrong one.", json!({}), output);
    let refused = tool(draft, |_, _: Nothing| unreachable!()).map(drop);
    assert!(matches!(refused, Err(SpecRefusal::Example { at: 1, side: "result", .. })));
}
