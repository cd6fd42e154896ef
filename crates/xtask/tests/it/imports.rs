//! Decides which paths a file uses: what it imports, written out in full, and what it spells out.

use crate::code::has_word;

/// Every path that is imported, in full: `use std::{fs, time::Instant};` gives two.
pub(crate) fn imports(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let statement = at == 0 || rest[..at].ends_with(|c: char| c.is_whitespace() || c == ')');
        rest = &rest[at + "use ".len()..];
        let Some(end) = rest.find(';').filter(|_| statement) else { continue };
        let tree: String = rest[..end].replace(" as ", " as#").split_whitespace().collect();
        expand("", &tree, &mut paths);
        rest = &rest[end..];
    }
    paths
}

fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim_start_matches("::");
    let Some((head, group)) = tree.split_once('{') else {
        let path = tree.split("as#").next().unwrap_or(tree);
        paths.push(format!("{prefix}{path}").trim_end_matches("::self").to_owned());
        return;
    };
    let prefix = format!("{prefix}{head}");
    let group = group.strip_suffix('}').unwrap_or(group);
    let (mut depth, mut start) = (0_i32, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &group[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < group.len() {
        expand(&prefix, &group[start..], paths);
    }
}

/// Whether the code reaches `path`, by an import or by spelling it out.
pub(crate) fn reaches(code: &str, path: &str) -> bool {
    let under = |found: &String| found == path || found.starts_with(&format!("{path}::"));
    imports(code).iter().any(under) || code.lines().any(|line| has_word(line, path))
}

#[test]
fn grouped_imports_are_written_out() {
    let code = "use std::{collections::BTreeMap, fs, time::{self, Instant as Now}};\npub(crate) use a::b;\nlet reuse = 1;";
    let expected =
        ["std::collections::BTreeMap", "std::fs", "std::time", "std::time::Instant", "a::b"];
    assert_eq!(imports(code), expected);
    assert!(reaches(code, "std::fs") && reaches(code, "std::time"));
    assert!(!reaches(code, "std::net") && reaches("std::net::TcpStream::connect(x)", "std::net"));
}
