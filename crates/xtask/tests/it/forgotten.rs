//! Decides that a test file is compiled: one integration binary per crate, which lists them all.

use std::collections::BTreeMap;

use crate::code::{code, has_word};
use crate::{report, tree};

/// Where a module must be listed: `tests/it/a.rs` in `tests/it/main.rs`, `tests/it/a/b.rs` in
/// `tests/it/a/mod.rs` or `tests/it/a.rs`.
fn parents(path: &str) -> Option<(String, [String; 2])> {
    let (folder, file) = path.rsplit_once('/')?;
    let name = file.strip_suffix(".rs")?;
    let (folder, name) = if name == "mod" { folder.rsplit_once('/')? } else { (folder, name) };
    let parents = if folder.ends_with("/tests/it") {
        [format!("{folder}/main.rs"), format!("{folder}/main.rs")]
    } else {
        [format!("{folder}/mod.rs"), format!("{folder}.rs")]
    };
    Some((name.to_owned(), parents))
}

#[test]
fn no_test_file_is_forgotten() {
    let sources = tree::sources();
    let texts: BTreeMap<&str, &str> =
        sources.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut complaints = Vec::new();
    for path in
        texts.keys().filter(|path| path.contains("/tests/it/") && !path.ends_with("it/main.rs"))
    {
        let Some((name, parents)) = parents(path) else { continue };
        let listed = parents
            .iter()
            .filter_map(|parent| texts.get(parent.as_str()))
            .any(|text| code(text).lines().any(|line| has_word(line, &format!("mod {name};"))));
        if !listed {
            complaints.push(format!("{path}: write `mod {name};` in {}", parents[0]));
        }
    }
    report("test files that never run", complaints);
}

#[test]
fn every_crate_has_one_integration_binary() {
    let mut complaints = Vec::new();
    for file in tree::sources() {
        let mut parts = file.path.split('/').skip(2);
        let (folder, name, deeper) = (parts.next(), parts.next(), parts.next());
        if folder == Some("tests") && deeper.is_none() && name.is_some_and(|n| n.ends_with(".rs")) {
            complaints.push(format!("{}: move it into tests/it and list it in main.rs", file.path));
        }
    }
    report("every binary is linked anew, so there is one per crate", complaints);
}
