//! Decides how lines and files end.

use crate::{report, tree};

#[test]
fn lines_and_files_end_cleanly() {
    let mut complaints = Vec::new();
    for file in tree::files() {
        if !["rs", "md", "toml", "yaml", "yml"].iter().any(|extension| file.is(extension)) {
            continue;
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            complaints.push(format!("{}: does not end with a newline", file.path));
        }
        // `lines` would hide the carriage return it drops.
        for (at, line) in file.text.split('\n').enumerate() {
            if line.ends_with(char::is_whitespace) {
                complaints.push(format!("{}:{}: space at the end", file.path, at + 1));
            }
        }
    }
    report("whitespace", complaints);
}
