//! Decides what a page of the docs looks like, and reads what it names as code.

use crate::tree::File;
use crate::{report, tree};

/// Pages at the root that must be there.
pub(crate) const ROOT_PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The pages people read: those at the root, and everything under `docs/`.
pub(crate) fn pages() -> Vec<File> {
    let page = |file: &File| {
        file.is("md")
            && (file.path.starts_with("docs/") || ROOT_PAGES.contains(&file.path.as_str()))
    };
    tree::files().into_iter().filter(page).collect()
}

/// The lines of a page that are not in a fenced block, with their numbers.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// Everything that stands in single backticks.
pub(crate) fn spans(text: &str) -> Vec<String> {
    prose(text)
        .flat_map(|(_, line)| line.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_pages_a_newcomer_looks_for_are_there() {
    let missing = ROOT_PAGES.iter().filter(|page| !tree::root().join(page).exists());
    report("missing pages", missing.map(|page| (*page).to_owned()).collect());
}

#[test]
fn every_page_has_one_title() {
    let mut complaints = Vec::new();
    for page in pages() {
        let titles = prose(&page.text).filter(|(_, line)| line.starts_with("# ")).count();
        if titles != 1 {
            complaints.push(format!("{}: {titles} titles (`# …`), it needs one", page.path));
        }
    }
    report("titles", complaints);
}

#[test]
fn spans_are_found_outside_fences_only() {
    let text = "# `a` and `b c`\n```\n`d`\n```\n`e`\n";
    assert_eq!(spans(text), ["a", "b c", "e"]);
}

#[test]
fn every_crate_is_on_the_architecture_page() {
    let page = tree::read("ARCHITECTURE.md");
    let folders: std::collections::BTreeSet<String> =
        tree::sources().iter().filter_map(|file| Some(file.crate_folder()?.to_owned())).collect();
    assert!(folders.len() > 8, "only {} crates were found", folders.len());
    let missing = folders.iter().filter(|folder| !page.contains(&format!("crates/{folder}")));
    let complaints = missing.filter(|one| *one != "bench").cloned().collect();
    report("ARCHITECTURE.md does not name these crates", complaints);
}
