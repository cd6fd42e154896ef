//! Decides what must not leak into the tree: paths of one machine, and where packages come from.

use crate::tree::File;
use crate::{report, tree};

/// The needles are written apart, so that this file does not find itself.
const MACHINE: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// A package's origin is the business of the lock file and of whoever builds.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("arti", "factory"),
    concat!("static.rust", "-lang.org"),
];

fn scanned() -> Vec<File> {
    tree::files().into_iter().filter(|file| !file.path.ends_with(".lock")).collect()
}

fn complaints(needles: &[&str], alone: impl Fn(&str, usize) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in scanned() {
        for (at, line) in file.text.lines().enumerate() {
            let lower = line.to_lowercase();
            for needle in needles {
                if lower.match_indices(needle).any(|(place, _)| alone(&lower, place)) {
                    complaints.push(format!("{}:{}: {needle}", file.path, at + 1));
                }
            }
        }
    }
    complaints
}

#[test]
fn no_file_knows_a_machine() {
    // Inside a longer path or address the same letters mean something else.
    let start = |line: &str, at: usize| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}'))
    };
    report("paths of one machine", complaints(MACHINE, start));
}

#[test]
fn no_file_but_the_lock_knows_a_registry() {
    report("names of registries", complaints(REGISTRIES, |_, _| true));
}
