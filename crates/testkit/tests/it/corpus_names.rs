//! `tool.name`: a name is exact. Each case is called from outside and by a model, and registered.

use toolgate_kernel::envelope::Code;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_testkit::corpus::{Case, Outcome};

use crate::corpus_bench::{Bench, client, crew, outcome, taking_text, with_model};
use crate::scenarios::block_on;

/// Tools that the bad names are spelled after; each reaches the world.
const TOOLS: &[&str] =
    &["read", "readfile", "read_file", "delete", "reverse_image_search", "get_weather_2"];

pub(crate) fn play(case: &Case, bench: &Bench) -> Outcome {
    let name = case.text().unwrap();
    let known = TOOLS.contains(&name.as_str());
    let draft = |name: &str| taking_text(name, "path", Effect::External);
    let tools = TOOLS.iter().map(|name| bench.reaching(draft(name))).collect();
    let args = r#"{"path":"x"}"#.to_owned();
    let crew = crew(serde_json::json!({}), tools, Vec::new()).unwrap();
    let crew = with_model(crew, &[vec![(&name, args.clone(), "id")]]);
    block_on(async {
        let mut driver = bench.open(crew).await;
        driver.call(&client(), &name, &args, None).await.unwrap();
        driver.run(&|_| {}).await.unwrap();
    });
    let told = bench.told();
    assert_eq!(told.len(), 2, "one answer from outside, one for the model");
    if !known {
        for envelope in &told {
            assert_eq!(envelope.code(), Some(&Code::TOOL_UNKNOWN));
            // The answer lists what there is, and nothing of what those tools take.
            let allowed = envelope.errors[0].allowed.as_ref().unwrap();
            assert_eq!(*allowed, TOOLS, "in declaration order");
            assert!(!envelope.to_json().contains("path"), "no schema leaks");
        }
        registering(case, &name);
    }
    let outcomes: Vec<_> = told.iter().map(|told| outcome(told, bench.effects().len())).collect();
    assert_eq!(outcomes[0], outcomes[1], "whoever calls");
    assert_eq!(bench.effects().len(), if known { 2 } else { 0 });
    outcomes[0]
}

/// What is no name cannot be registered either. The rest are legal names that nobody has.
fn registering(case: &Case, name: &str) {
    let legal = ["NAM-014", "NAM-019", "NAM-020"].contains(&case.id.as_str());
    assert_eq!(SpecDraft::new(name, "A tool.").build().is_ok(), legal, "{}", case.id);
}
