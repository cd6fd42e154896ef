//! Tests of the store, in one binary.
// Clippy knows test functions, but not the helpers of an integration test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod conformance;
mod contention;
mod crash;
mod drive;
mod folder;
mod jail;
mod opening;
mod sharing;
mod support;

/// A file that nobody lists is a test that nobody runs.
#[test]
fn no_test_file_is_forgotten() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let listed = include_str!("main.rs").contains(&format!("mod {module};"));
        assert!(listed || module == "main", "{name} is not in the list of modules");
    }
}
