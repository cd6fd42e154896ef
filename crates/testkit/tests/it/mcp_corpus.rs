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

/// Cases that are about more than one definition, or about our own server, with the tests they have
/// elsewhere.
const ELSEWHERE: &[(&str, &str)] = &[
    ("MDS-005", "every_part_of_a_definition_counts"),
    ("MDS-020", "what_a_server_wants_models_to_be_told_is_only_listed"),
    ("MSC-018", "an_answer_that_is_not_what_was_declared_is_no_success"),
    ("MSC-019", "two_tools_of_one_name_are_none"),
    ("MWR-014", "words_in_a_result_move_nothing"),
    ("MWR-015", "parts_of_an_answer_are_passed_on"),
    ("MWR-018", "headers_that_say_another_thing_than_the_body_run_nothing"),
    ("MWR-019", "a_revision_that_is_not_spoken_is_refused_with_those_that_are"),
    ("MWR-022", "exactly_the_granted_cells_reach_the_world"),
    ("MWR-023", "another_clients_handle_is_no_handle"),
];

/// Where those tests are.
const FILES: &[&str] = &[
    include_str!("mcp_calls.rs"),
    include_str!("../../../kernel/src/pin.rs"),
    include_str!("../../../cli/tests/it/faults.rs"),
    include_str!("../../../cli/tests/it/matrix.rs"),
    include_str!("../../../cli/tests/it/servers.rs"),
    include_str!("../../../mcp/tests/server/door.rs"),
    include_str!("../../../mcp/tests/server/era.rs"),
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
    let elsewhere = ELSEWHERE.iter().filter(|(id, _)| !id.starts_with("MWR"));
    assert_eq!(played + elsewhere.count(), 15 + 14);
}

#[test]
fn what_is_shown_elsewhere_is_there() {
    for (id, test) in ELSEWHERE {
        let test = format!("fn {test}()");
        assert!(FILES.iter().any(|file| file.contains(&test)), "{id}: {test}");
    }
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
    for case in Corpus::read().unwrap().of("mcp.wire") {
        let elsewhere = ELSEWHERE.iter().any(|(id, _)| *id == case.id);
        let place = here.contains(&case.id) || elsewhere;
        assert!(place, "{} ({})", case.id, case.category);
    }
}
