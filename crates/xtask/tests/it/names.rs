//! Keeps the figures about names from growing: `crates/xtask/data/names.txt` has the present ones.

use std::fmt::Write as _;

use xtask::names::NameReport;

use crate::{report, tree};

const BASELINE: &str = "crates/xtask/data/names.txt";

#[test]
fn names_do_not_get_worse() {
    let measured = NameReport::measure(&tree::root()).unwrap();
    assert!(measured.types.len() > 500, "a scan of nothing proves nothing");
    let figures = measured.figures();
    if std::env::var_os("UPDATE").is_some() {
        let mut text = String::new();
        for (name, value) in &figures {
            writeln!(text, "{name} {value}").unwrap();
        }
        std::fs::write(tree::root().join(BASELINE), text).unwrap();
    }
    let baseline = tree::read(BASELINE);
    let mut complaints = Vec::new();
    for (name, value) in &figures {
        let known = baseline.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        let known: usize = known.unwrap_or_else(|| panic!("{BASELINE} has no {name}"));
        if *value > known {
            complaints.push(format!("{name}: {value}, it was {known}"));
        }
    }
    report("worse names than before; `cargo xtask names --list …` shows which", complaints);
}
