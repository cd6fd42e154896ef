//! The list of scenarios in the docs and the schema of their files are what they are.

use std::path::{Path, PathBuf};

use toolgate_testkit::scenario::Scenario;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_scenario_is_listed_with_its_sentence() {
    let page = root().join("docs/scenarios.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for path in Scenario::find(&root().join("scenarios")).unwrap() {
        let about = Scenario::read(&path).unwrap().about;
        let name = path.display().to_string();
        let name = name.rsplit_once("scenarios/").unwrap().1.to_owned();
        lines.push(format!("- `scenarios/{name}`: {about}"));
    }
    let listed: Vec<&str> = text.lines().filter(|line| line.starts_with("- `scenarios/")).collect();
    if std::env::var("UPDATE").is_ok() && listed != lines {
        let mut rest = text.lines().filter(|line| !line.starts_with("- `scenarios/"));
        let mut out = String::new();
        let place = text.lines().position(|line| line.starts_with("- `scenarios/")).unwrap();
        rest.by_ref().take(place).for_each(|line| out.push_str(&format!("{line}\n")));
        lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        rest.for_each(|line| out.push_str(&format!("{line}\n")));
        std::fs::write(&page, out).unwrap();
        return;
    }
    assert_eq!(listed, lines, "UPDATE=1 rewrites the list");
}

#[test]
fn the_schema_of_scenario_files_is_published() {
    let schema = schemars::schema_for!(Scenario).to_value();
    let printed = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    let path = root().join("docs/schema/scenario.schema.json");
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, &printed).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == printed, "UPDATE=1 rewrites it");
}
