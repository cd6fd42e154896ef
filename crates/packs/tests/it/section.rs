//! What the model is told: one text, and one paragraph more for two of the strategies.

use serde_json::json;
use toolgate_packs::planning::Strategy;
use toolgate_packs::planning::Strategy::{GoalDecomposeRouteSynthesise, PlanActReflect, React};
use toolgate_packs::planning::planning;

fn text(strategy: Strategy) -> String {
    planning(strategy).unwrap().section.text
}

#[test]
fn header_and_body_are_shared_and_only_the_mindset_differs() {
    let plain = text(React);
    let mut mindsets = Vec::new();
    for strategy in [PlanActReflect, GoalDecomposeRouteSynthesise] {
        let text = text(strategy);
        // Take out one paragraph and the plain text is left.
        let paragraphs: Vec<&str> = text.split("\n\n").collect();
        let (header, rest) = paragraphs.split_at(2);
        let (mindset, body) = rest.split_first().unwrap();
        assert_eq!([header, body].concat().join("\n\n"), plain);
        assert!(!plain.contains(mindset));
        mindsets.push((*mindset).to_owned());
    }
    assert!(mindsets[0] != mindsets[1] && mindsets.iter().all(|text| text.len() > 100));
    assert!(plain.starts_with("## Planning\n\n"));
}

#[test]
fn every_tool_is_explained() {
    let pack = planning(React).unwrap();
    for spec in &pack.section.tools {
        assert!(pack.section.text.contains(&format!("`{}`", spec.name)), "{}", spec.name);
    }
}

#[test]
fn strategies_have_the_names_of_the_configuration() {
    for (strategy, name) in [
        (React, "react"),
        (PlanActReflect, "plan_act_reflect"),
        (GoalDecomposeRouteSynthesise, "goal_decompose_route_synthesise"),
    ] {
        assert_eq!(serde_json::to_value(strategy).unwrap(), json!(name));
        assert_eq!(serde_json::from_value::<Strategy>(json!(name)).unwrap(), strategy);
    }
    assert!(serde_json::from_value::<Strategy>(json!("React")).is_err());
}
