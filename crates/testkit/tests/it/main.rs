//! The scenarios, the failure table and the corpus, played through the whole gate.

#![cfg(test)]

mod checkpoints;
mod corpus;
mod corpus_args;
mod corpus_bench;
mod corpus_config;
mod corpus_facts;
mod corpus_fetch;
mod corpus_found;
mod corpus_names;
mod corpus_own;
mod corpus_patch;
mod corpus_phases;
mod corpus_rules;
mod corpus_stream;
mod desk;
mod directing;
mod docs;
mod driver;
mod failures;
mod fork;
mod mcp_calls;
mod mcp_corpus;
mod mcp_faults;
mod mcp_forms;
mod mcp_http;
mod mcp_oauth;
mod mcp_programs;
mod mcp_real;
mod mcp_stage;
mod provider;
mod provider_cut;
mod provider_endings;
mod provider_faults;
mod provider_secrets;
mod provider_strict;
mod rule_of_two;
mod scenarios;
mod signatures;
mod standing;
mod tampering;
mod undo;
mod web_calls;
mod web_stage;

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
