//! Decides that every event, limit and error code has its place in the docs.

use crate::code::code;
use crate::pages::spans;
use crate::{report, tree};

const EVENTS: &str = "crates/kernel/src/event/mod.rs";
const LIMITS: &str = "crates/kernel/src/limits.rs";
const CODES: &str = "crates/kernel/src/envelope.rs";

/// The names that stand directly in the braces after `opening`, each before one of `ends`.
fn names(source: &str, opening: &str, ends: &[char]) -> Vec<String> {
    let code = code(&tree::read(source));
    let start = code.find(opening).unwrap_or_else(|| panic!("{source} has no `{opening}`"));
    let body = &code[start + opening.len()..];
    let (mut names, mut word, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in body.chars() {
        if depth == 0 && c == '}' {
            keep(&mut names, &word);
            break;
        }
        if depth == 0 && ends.contains(&c) {
            keep(&mut names, &word);
            word.clear();
        }
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => {
                depth = depth.saturating_sub(1);
                word.clear();
            }
            c if depth == 0 => word.push(c),
            _ => {}
        }
        if depth == 0 && c == ',' {
            word.clear();
        }
    }
    assert!(!names.is_empty(), "{source}: nothing was found in `{opening}`");
    names
}

fn keep(names: &mut Vec<String>, words: &str) {
    let last = words.split(|c: char| !(c.is_alphanumeric() || c == '_')).rfind(|w| !w.is_empty());
    names.extend(last.map(str::to_owned));
}

/// `CallSettled` as the log writes it: `call_settled`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}

fn check(page: &str, what: &str, names: &[String], spelled: impl Fn(&str) -> Vec<String>) {
    let mentioned = spans(&tree::read(page));
    let word = |span: &String| {
        span.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("").to_owned()
    };
    let mentioned: Vec<String> = mentioned.iter().map(word).collect();
    let missing = names.iter().filter(|name| !spelled(name).iter().any(|s| mentioned.contains(s)));
    let complaints = missing.map(|name| format!("{page}: says nothing of {what} `{name}`"));
    report("the docs lag behind", complaints.collect());
}

#[test]
fn every_event_is_in_the_docs() {
    let mut all = Vec::new();
    for opening in ["pub enum Event {", "pub enum ProjectEvent {", "pub enum InboxEvent {"] {
        all.extend(names(EVENTS, opening, &['{', '(', ',']));
    }
    for known in ["Opened", "CallAdmitted", "Ended", "SessionOpened", "Spoken"] {
        assert!(all.iter().any(|name| name == known), "{known} was not found in {all:?}");
    }
    check("docs/log.md", "event", &all, |name| vec![snake(name), name.to_owned()]);
}

#[test]
fn every_limit_is_in_the_docs() {
    let all = names(LIMITS, "pub struct Limits {", &[':']);
    assert!(all.iter().all(|name| name.ends_with("_max")), "units last, then max: {all:?}");
    check("docs/limits.md", "limit", &all, |name| vec![name.to_owned()]);
}

#[test]
fn every_error_code_is_in_the_docs() {
    let all = names(CODES, "codes! {", &[';']);
    assert!(all.iter().any(|name| name == "TOOL_UNKNOWN"), "{all:?}");
    check("docs/errors.md", "code", &all, |name| vec![name.to_owned()]);
}

#[test]
fn no_variant_is_overlooked() {
    let events = names(EVENTS, "pub enum Event {", &['{', '(', ',']);
    let kinds = tree::read(EVENTS).lines().filter(|line| line.contains("=> \"")).count();
    assert_eq!(events.len(), kinds, "as many variants as `kind` has arms: {events:?}");
}

/// Every key that the published schema of the configuration has.
fn keys(schema: &serde_json::Value, found: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(|p| p.as_object()) {
        found.extend(properties.keys().cloned());
    }
    let inner = schema.as_object().into_iter().flat_map(|map| map.values());
    let items = schema.as_array().into_iter().flatten();
    inner.chain(items).for_each(|inner| keys(inner, found));
}

#[test]
fn every_key_of_the_configuration_is_in_the_docs() {
    let schema = serde_json::from_str(&tree::read("docs/schema/config.schema.json")).unwrap();
    let mut all = Vec::new();
    keys(&schema, &mut all);
    all.sort();
    all.dedup();
    assert!(all.iter().any(|key| key == "tool_use_mode"), "{all:?}");
    let pages = ["docs/configuration.md", "docs/limits.md", "docs/policies.md"];
    let mentioned: Vec<String> = pages
        .iter()
        .flat_map(|page| spans(&tree::read(page)))
        .flat_map(|span| {
            let words = span.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let missing = all.iter().filter(|key| !mentioned.contains(key));
    let complaints = missing.map(|key| format!("{}: says nothing of the key `{key}`", pages[0]));
    report("the docs lag behind", complaints.collect());
}
