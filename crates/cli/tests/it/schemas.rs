//! The published schemas are what the program prints, and what it writes fits them.

use serde_json::Value;

use crate::support::{Desk, repository};

const SCHEMAS: &[&str] = &[
    "config",
    "script",
    "event",
    "project-event",
    "inbox-event",
    "envelope",
    "explanation",
    "session",
    "export",
];

fn published(name: &str) -> Value {
    let path = repository().join(format!("docs/schema/{name}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn check(name: &str, value: &Value) {
    let validator = jsonschema::validator_for(&published(name)).unwrap();
    let wrong: Vec<String> = validator.iter_errors(value).map(|e| e.to_string()).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:?}\n{value}");
}

/// `UPDATE=1` rewrites the published files.
#[test]
fn published_schemas_are_current() {
    let desk = Desk::new();
    for name in SCHEMAS {
        let printed = desk.ok(&["schema", name]);
        let path = repository().join(format!("docs/schema/{name}.schema.json"));
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&path, &printed).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == printed, "{}: run UPDATE=1 cargo test -p toolgate", path.display());
    }
}

#[test]
fn what_the_program_writes_fits_its_schemas() {
    let desk = Desk::new();
    let events = desk.ok(&["run", "x", "--json"]);
    for line in events.lines() {
        check("event", &serde_json::from_str(line).unwrap());
    }
    let told = desk.run(&["explain", "create_section", "{}", "--json"]);
    check("explanation", &serde_json::from_str(&told.out).unwrap());
    let desk = Desk::planner();
    let refused = desk.run(&["call", "planning_setup_plan", "{}", "--json"]);
    check("envelope", &serde_json::from_str(&refused.out).unwrap());
    let shown = desk.ok(&["sessions", "show", "call", "--json"]);
    check("session", &serde_json::from_str(&shown).unwrap());
    let export: Value = serde_json::from_str(&desk.ok(&["sessions", "export", "call"])).unwrap();
    check("export", &export);
    for record in export["records"].as_array().unwrap() {
        check("event", record);
    }
}

/// An export is canonical: the hash in it is the hash of the state in it.
#[test]
fn an_export_carries_the_hash_of_its_state() {
    let desk = Desk::planner();
    desk.ok(&["call", "planning_setup_plan", r#"{"objective":"é"}"#]);
    let export: Value = serde_json::from_str(&desk.ok(&["sessions", "export", "call"])).unwrap();
    let hash = toolgate_kernel::digest::Digest::of_json(&export["state"]);
    assert_eq!(export["state_hash"], hash.to_string());
    let hash = toolgate_kernel::digest::Digest::of_json(&export["project"]);
    assert_eq!(export["project_hash"], hash.to_string());
}

#[test]
fn the_shipped_configuration_fits_its_schema() {
    for (name, file) in [("config", "novel.yaml"), ("script", "story.yaml")] {
        let path = repository().join("crates/cli/demo").join(file);
        let yaml = std::fs::read_to_string(path).unwrap();
        check(name, &serde_saphyr::from_str(&yaml).unwrap());
    }
}
