//! Decides how a source file begins: with one sentence saying what it decides.

use crate::{report, tree};

#[test]
fn every_source_opens_with_its_purpose() {
    let purpose =
        |text: &str| text.strip_prefix("//! ").is_some_and(|rest| !rest.trim().is_empty());
    let silent = tree::sources().into_iter().filter(|file| !purpose(&file.text));
    let complaints = silent.map(|file| format!("{}: open it with `//! …`", file.path)).collect();
    report("files without a purpose", complaints);
}
