//! Decides that the packs keep what they promise, through the whole gate.

#![cfg(test)]

mod batch;
mod beats;
mod catalogue;
mod completion;
mod core_tools;
mod den;
mod domains;
mod examples;
mod file_paths;
mod file_tools;
mod issue_acts;
mod limits;
mod listed;
mod manuscript_reading;
mod manuscript_writing;
mod meddle;
mod memories;
mod note_tools;
mod person;
mod phases;
mod refinements;
mod refusals;
mod room;
mod section;
mod self_authoring;
mod support;
mod task_tools;
mod whiteboards;
mod workspace_desk;
mod workspace_facts;
mod workspace_tools;

#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") else {
            continue;
        };
        let listed = include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(listed, "{name} is not listed in tests/it/main.rs");
    }
}
