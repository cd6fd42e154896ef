//! Decides which files belong to the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the repository.
pub(crate) struct File {
    /// Its path from the root, with forward slashes.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl File {
    /// Whether the name ends so.
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// The crate it belongs to, by its folder: `kernel` for `crates/kernel/src/lib.rs`.
    pub(crate) fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the whole file is test code, an example or a bench.
    pub(crate) fn is_test(&self) -> bool {
        let folders = ["tests", "examples", "benches"];
        self.path.split('/').any(|part| folders.contains(&part) || part == "tests.rs")
    }
}

/// The root of the repository: of the one cargo was called in, also when two share a target folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).ancestors().nth(2).unwrap().to_owned()
}

/// Every text file that is tracked or about to be, in order.
pub(crate) fn files() -> Vec<File> {
    let mut paths = listed().unwrap_or_else(walked);
    paths.sort();
    paths.dedup();
    // What was deleted and not committed is still listed; what is no text is nobody's style.
    let read =
        |path: String| Some(File { text: fs::read_to_string(root().join(&path)).ok()?, path });
    paths.into_iter().filter_map(read).collect()
}

/// The Rust sources under `crates/` and `fuzz/`.
pub(crate) fn sources() -> Vec<File> {
    let ours = |file: &File| file.path.starts_with("crates/") || file.path.starts_with("fuzz/");
    let sources: Vec<File> = files().into_iter().filter(|f| f.is("rs") && ours(f)).collect();
    assert!(sources.len() > 50, "the sources were not found: a scan of nothing proves nothing");
    sources
}

/// One file that must be there.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|fault| panic!("{path}: {fault}"))
}

/// Files git knows, and new ones it does not ignore.
fn listed() -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (!paths.is_empty()).then_some(paths)
}

/// The same without git, as in an unpacked archive.
fn walked() -> Vec<String> {
    const SKIPPED: &[&str] = &[
        ".git",
        ".toolgate",
        ".venv",
        "__pycache__",
        "artifacts",
        "corpus",
        "node_modules",
        "target",
    ];
    let (root, mut paths, mut folders) = (root(), Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            if kind.is_dir() && !SKIPPED.contains(&entry.file_name().to_str().unwrap_or("")) {
                folders.push(path);
            } else if kind.is_file() {
                let relative = path.strip_prefix(&root).unwrap().to_str().unwrap_or("");
                paths.push(relative.replace('\\', "/"));
            }
        }
    }
    paths
}

#[test]
fn both_ways_find_this_file() {
    let here = "crates/xtask/tests/it/tree.rs".to_owned();
    assert!(walked().contains(&here));
    assert!(listed().is_none_or(|paths| paths.contains(&here)));
}
