//! Decides that nothing half done is committed: no ignored tests, no notes to oneself.

use crate::code::{code, has_word, lines_with};
use crate::{report, tree};

#[test]
fn nothing_is_ignored_or_left_open() {
    let mut complaints = Vec::new();
    for file in tree::sources() {
        let code = code(&file.text);
        for word in ["#[ignore", "todo!", "unimplemented!"] {
            for line in lines_with(&code, word) {
                complaints.push(format!("{}:{line}: {word}", file.path));
            }
        }
    }
    report("assert what happens today and say that it is wrong, or finish it", complaints);
}

#[test]
fn no_file_holds_a_note_to_oneself() {
    // Written apart, so that this file does not find itself.
    let words = [concat!("FIX", "ME"), concat!("XX", "X")];
    let mut complaints = Vec::new();
    for file in tree::files() {
        if !["rs", "md", "toml", "yaml", "yml"].iter().any(|extension| file.is(extension)) {
            continue;
        }
        for (at, line) in file.text.lines().enumerate() {
            for word in words.iter().filter(|word| has_word(line, word)) {
                complaints.push(format!("{}:{}: {word}", file.path, at + 1));
            }
        }
    }
    report("do it, or write an issue", complaints);
}
