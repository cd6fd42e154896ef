//! Decides that a decision that is cited can be read, and that none went missing.

use std::collections::BTreeMap;

use crate::{report, tree};

const FOLDER: &str = "docs/decisions/";

/// The numbers a line cites: `ADR 0003`, `ADR-0003`.
fn cited(line: &str) -> Vec<u32> {
    let after = |(at, _): (usize, &str)| {
        let rest = line[at + "ADR".len()..].strip_prefix([' ', '-'])?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        (digits.len() == 4).then(|| digits.parse().ok())?
    };
    line.match_indices("ADR").filter_map(after).collect()
}

/// The decisions there are, by their numbers.
fn decisions() -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for file in tree::files() {
        let Some(name) = file.path.strip_prefix(FOLDER).filter(|_| file.is("md")) else { continue };
        let number = name.split_once('-').and_then(|(digits, _)| digits.parse().ok());
        // A page without a number, such as an index, is filed under zero.
        found.entry(number.unwrap_or(0)).or_default().push(file.path.clone());
    }
    found
}

#[test]
fn every_cited_decision_exists() {
    let known = decisions();
    let mut complaints = Vec::new();
    for file in tree::files().iter().filter(|file| !file.path.ends_with("it/decisions.rs")) {
        for (at, line) in file.text.lines().enumerate() {
            for number in cited(line).iter().filter(|number| !known.contains_key(number)) {
                let place = format!("{}:{}", file.path, at + 1);
                complaints.push(format!("{place}: there is no {FOLDER}{number:04}-….md"));
            }
        }
    }
    report("decisions that nobody can read", complaints);
}

#[test]
fn decisions_are_numbered_without_gaps() {
    let mut complaints = Vec::new();
    let mut expected = 1;
    for (number, files) in decisions().iter().filter(|(number, _)| **number > 0) {
        if *number != expected {
            complaints.push(format!("{}: number {expected:04} is missing before it", files[0]));
        }
        if files.len() > 1 {
            complaints.push(format!("one number for {}", files.join(" and ")));
        }
        expected = number + 1;
    }
    report("numbering of the decisions", complaints);
}

#[test]
fn citations_are_read() {
    assert_eq!(cited("see ADR 0003, ADR-0012 (and ADR x)"), [3, 12]);
}
