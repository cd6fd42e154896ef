//! Decides when a source file is long enough to be looked at again.

use crate::{report, tree};

const LINES_MAX: usize = 600;

/// Longer files that a reader would rather have in one piece, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/packs/src/core_tools/sources.rs", "every kind of source and how a reference finds it"),
    ("crates/packs/src/core_tools/text.rs", "one type with all that is read off a text"),
    ("crates/runtime/src/drive/settle.rs", "one settlement, from the answer to the commit"),
    ("crates/testkit/src/stage.rs", "one runner plays every step of a scenario"),
];

#[test]
fn no_source_is_longer_than_a_reader_bears() {
    let mut complaints = Vec::new();
    let mut long = Vec::new();
    for file in tree::sources() {
        let lines = file.text.lines().count();
        if lines <= LINES_MAX || !file.path.contains("/src/") {
            continue;
        }
        if !ALLOWED.iter().any(|(path, _)| *path == file.path) {
            complaints.push(format!("{}: {lines} lines, probably two ideas", file.path));
        }
        long.push(file.path);
    }
    for (path, reason) in ALLOWED.iter().filter(|(path, _)| !long.iter().any(|l| l == path)) {
        complaints.push(format!("{path} is short again ({reason}); take it off the list"));
    }
    report("files over 600 lines: split by idea, or give the reason in size.rs", complaints);
}
