//! Decides that what the docs point to exists.

use crate::pages::{pages, spans};
use crate::{report, tree};

/// How a path of this repository begins.
const STARTS: &[&str] = &["crates/", "docs/", "scenarios/", "tests/", "bench/", "fuzz/", ".ci/"];

/// The path a code span names, when it names one of this repository and leaves nothing open.
fn named(span: &str) -> Option<&str> {
    let word = span.split_whitespace().next()?;
    let path = word.split(['#', ':']).next()?.trim_end_matches([',', '.']);
    let open = path.contains(['<', '*', '{', '…', '$']) || path.contains("NNNN");
    (STARTS.iter().any(|start| path.starts_with(start)) && !open).then_some(path)
}

#[test]
fn paths_in_the_docs_exist() {
    let mut complaints = Vec::new();
    // A decision is history: it may name what is gone.
    for page in pages().iter().filter(|page| !page.path.starts_with("docs/decisions/")) {
        for span in spans(&page.text) {
            if let Some(path) = named(&span).filter(|path| !tree::root().join(path).exists()) {
                complaints.push(format!("{}: `{path}` does not exist", page.path));
            }
        }
    }
    report("the docs point nowhere", complaints);
}

#[test]
fn a_path_is_told_from_a_pattern() {
    assert_eq!(named("crates/kernel/src/limits.rs:12"), Some("crates/kernel/src/limits.rs"));
    assert_eq!(named(".ci/run --quick"), Some(".ci/run"));
    assert_eq!(named("scenarios/<area>/<name>.yaml"), None);
    assert_eq!(named("docs/decisions/NNNN-title.md"), None);
    assert_eq!(named("kernel/gate"), None);
}
