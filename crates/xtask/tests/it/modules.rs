//! Decides that the architecture page names every module, in the part about its crate.

use crate::pages::spans;
use crate::{report, tree};

const PAGE: &str = "ARCHITECTURE.md";

/// A root and a table of contents say what they are by their place.
const PLAIN: &[&str] = &["lib.rs", "main.rs", "mod.rs"];

/// The part of the page about a crate: from its heading to the next one.
fn part<'a>(page: &'a str, folder: &str) -> &'a str {
    let crate_path = format!("`crates/{folder}`");
    let mut parts = page.split("\n### ");
    parts.find(|part| part.lines().next().is_some_and(|h| h.contains(&crate_path))).unwrap_or("")
}

/// Whether a part names a module: by its path, or by its name in a line about its folder.
fn names(part: &str, module: &str) -> bool {
    let (folder, name) = module.rsplit_once('/').unwrap_or(("", module));
    part.lines().any(|line| {
        let spans = spans(line);
        let has = |span: &str| spans.iter().any(|found| found == span);
        has(module) || has(folder) && has(name)
    })
}

#[test]
fn every_module_is_on_the_architecture_page() {
    let page = tree::read(PAGE);
    let mut complaints = Vec::new();
    let mut seen = 0;
    for file in tree::sources() {
        let Some(folder) = file.crate_folder() else { continue };
        let Some(module) = file.path.strip_prefix(&format!("crates/{folder}/src/")) else {
            continue;
        };
        let name = module.rsplit('/').next().unwrap_or(module);
        // Tests beside what they test are part of it.
        if PLAIN.contains(&name) || file.is_test() {
            continue;
        }
        seen += 1;
        if !names(part(&page, folder), module) {
            complaints.push(format!("`{module}` of crates/{folder}"));
        }
    }
    assert!(seen > 100, "only {seen} modules were looked at");
    report(&format!("{PAGE}: say in a sentence what these decide"), complaints);
}

#[test]
fn a_module_is_named_in_the_part_of_its_crate() {
    let page = "# A\n### `crates/a`\n- `x/y.rs`: why.\n- `x/z`: `one.rs`, `two.rs`.\n\
                ### `crates/b`, `crates/c`\n- `w.rs`: why.\n";
    assert!(names(part(page, "a"), "x/y.rs") && names(part(page, "a"), "x/z/two.rs"));
    assert!(names(part(page, "c"), "w.rs"));
    assert!(!names(part(page, "a"), "w.rs") && !names(part(page, "a"), "x/two.rs"));
    assert!(!names(part(page, "d"), "w.rs"));
}
