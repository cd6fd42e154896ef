//! `mcp.description` and `mcp.schema`: each case is a definition that is scanned. `mcp.wire`: each
//! case has its test.

use serde_json::{Value, json};
use toolgate_kernel::pin::Definition;
use toolgate_mcp::scan::{Scanned, scan};
use toolgate_testkit::corpus::{Case, Corpus, Outcome};

fn definition(about: &str, input: Value) -> Definition {
    Definition {
        title: None,
        about: about.to_owned(),
        input,
        output: None,
        annotations: Value::Null,
    }
}

fn closed() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn outcome(definition: &Definition) -> Outcome {
    let others = ["send_email", "commit_fact"].map(str::to_owned).into();
    match scan("weather", definition, &others) {
        Scanned::Excluded(_) => Outcome::Reject,
        Scanned::Flagged(why) => {
            assert!(!why.is_empty());
            assert!(!why.iter().any(|why| why.chars().any(toolgate_kernel::letters::is_hidden)));
            Outcome::Quarantine
        }
        Scanned::Clean => Outcome::Accept,
    }
}

/// Cases that are about more than one definition, and where they are shown.
const ELSEWHERE: &[(&str, &str)] = &[
    ("MDS-005", "annotations are in the fingerprint: the pins of the kernel"),
    ("MDS-020", "what_a_server_wants_models_to_be_told_is_only_listed"),
    ("MSC-018", "the spec's own check of an output"),
    ("MSC-019", "an offer takes neither of two tools of one name"),
];

fn play(case: &Case) -> Outcome {
    let text = case.text().unwrap();
    match case.surface.as_str() {
        "mcp.description" => outcome(&definition(&text, closed())),
        _ => outcome(&definition("A tool.", serde_json::from_str(&text).unwrap())),
    }
}

#[test]
fn every_definition_comes_out_as_it_must() {
    let corpus = Corpus::read().unwrap();
    let mut played = 0;
    for case in corpus.of("mcp.description").chain(corpus.of("mcp.schema")) {
        if ELSEWHERE.iter().any(|(id, _)| *id == case.id) {
            continue;
        }
        assert_eq!(play(case), case.expect.outcome, "{} ({})", case.id, case.category);
        played += 1;
    }
    assert_eq!(played + ELSEWHERE.len(), 15 + 14);
}

/// Every case about the wire is somewhere: in these tests, or with our own server.
#[test]
fn every_case_of_the_wire_has_its_place() {
    let here = [
        include_str!("mcp_faults.rs"),
        include_str!("mcp_http.rs"),
        include_str!("mcp_programs.rs"),
    ]
    .concat();
    // Results are data; that nothing of them is obeyed or followed is the gate's and the driver's.
    let others = ["MWR-014", "MWR-015", "MWR-018", "MWR-019", "MWR-022", "MWR-023"];
    for case in Corpus::read().unwrap().of("mcp.wire") {
        let place = here.contains(&case.id) || others.contains(&case.id.as_str());
        assert!(place, "{} ({})", case.id, case.category);
    }
}
