//! Decides that the kernel stays pure: no IO, clock, randomness, environment or waiting.

use crate::code::{lines_with, product_code};
use crate::imports::reaches;
use crate::layers::packages;
use crate::{report, tree};

/// What the kernel is built on. Another crate needs an ADR and a line here.
const DEPENDENCIES: &[&str] = &[
    "aho-corasick",
    "base64",
    "cel",
    "granit-parser",
    "hmac",
    "imbl",
    "indexmap",
    "itoa",
    "jiff",
    "regex",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "thiserror",
    "unicode-normalization",
    "unicode-security",
];

/// Paths it may not reach, by import or spelled out.
const PATHS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::io",
    "std::os",
    "tokio",
    "rand",
    "getrandom",
];

/// Words that have no place in it, with what to do instead.
const WORDS: &[(&str, &str)] = &[
    ("SystemTime", "the moment comes with the event"),
    ("Instant", "the moment comes with the event"),
    ("async", "the runtime waits, the kernel decides"),
    (".await", "the runtime waits, the kernel decides"),
    ("HashMap", "use BTreeMap or imbl::OrdMap: one order on every machine"),
    ("HashSet", "use BTreeSet or imbl::OrdSet: one order on every machine"),
    ("RandomState", "nothing here is random"),
    ("print!", "the kernel answers with values"),
    ("println!", "the kernel answers with values"),
    ("eprint!", "the kernel answers with values"),
    ("eprintln!", "the kernel answers with values"),
    ("unsafe", "it is forbidden in this project"),
];

/// Where a thread is part of a pure answer.
const THREADS: &[(&str, &str)] = &[
    ("crates/kernel/src/policy/expression/stack.rs", "a parser that recurses gets its own stack"),
    ("crates/kernel/src/policy/expression/quiet.rs", "asks whether this thread is unwinding"),
];

#[test]
fn it_depends_on_the_allowed_crates_only() {
    let kernel = packages().into_iter().find(|package| package.layer == "kernel").unwrap();
    let mut found = kernel.outside.clone();
    found.sort();
    assert_eq!(found, DEPENDENCIES, "the kernel's dependencies changed: that needs an ADR");
}

#[test]
fn its_source_has_no_forbidden_word() {
    let mut complaints = Vec::new();
    let (mut scanned, mut threads) = (0, Vec::new());
    for file in tree::sources() {
        if file.crate_folder() != Some("kernel") || file.is_test() {
            continue;
        }
        scanned += 1;
        let code = product_code(&file.text);
        for path in PATHS.iter().filter(|path| reaches(&code, path)) {
            complaints.push(format!("{}: reaches {path}; hand the value in", file.path));
        }
        for (word, instead) in WORDS {
            for line in lines_with(&code, word) {
                complaints.push(format!("{}:{line}: {word}; {instead}", file.path));
            }
        }
        if reaches(&code, "std::thread") {
            threads.push(file.path);
        }
    }
    assert!(scanned > 30, "only {scanned} files of the kernel were found");
    let allowed: Vec<&str> = THREADS.iter().map(|(path, _)| *path).collect();
    for path in threads.iter().filter(|path| !allowed.contains(&path.as_str())) {
        complaints.push(format!("{path}: uses std::thread; only {} may", allowed.join(" and ")));
    }
    for path in allowed.iter().filter(|path| !threads.iter().any(|found| found == *path)) {
        complaints.push(format!("{path}: needs no thread any more; take it off the list"));
    }
    report("the kernel decides and does nothing else", complaints);
}
