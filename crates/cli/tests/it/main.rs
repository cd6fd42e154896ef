//! The binary as people use it: commands in, output, files and exit codes out.

#![cfg(test)]

mod agents;
mod approvals;
mod audit;
mod beside;
mod binding;
mod calls;
mod catalogue;
mod configs;
mod contention;
mod doctor;
mod down;
mod ending;
mod enrolment;
mod evidence;
mod facts;
mod faults;
mod forgery;
mod fork;
mod gateway;
mod held;
mod isolation;
mod issues;
mod known;
mod leaving;
mod login;
mod machine;
mod matrix;
mod mcp;
mod migrate;
mod models;
mod moved_log;
mod people;
mod persons;
mod printed;
mod promises;
mod readme;
mod request;
mod restore;
mod rollback;
mod runs;
mod schemas;
mod servers;
mod shares;
mod support;
mod terminal;
mod thief;
mod trust;
mod undo;

/// Every file beside this one is part of the suite.
#[test]
fn no_test_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || listed.contains(&format!("mod {module};")), "{name}");
    }
}
