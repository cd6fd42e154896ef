//! The kernel's decisions as tables and properties, from outside the crate.

#![cfg(test)]

mod agents;
mod agreement;
mod approvals;
mod authors;
mod configs;
mod differences;
mod digests;
mod folds;
mod forks;
mod harmless;
mod json;
mod keywords;
mod masks;
mod names;
mod patterns;
mod prompt_texts;
mod redact;
mod registration;
mod schemas;
mod shapes;
mod support;
mod trust;
mod waiting;

/// Every file beside this one is part of the suite.
#[test]
fn no_test_file_is_forgotten() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for entry in std::fs::read_dir(here).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        let listed = include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(module == "main" || listed, "{name} is not listed in tests/it/main.rs");
    }
}
