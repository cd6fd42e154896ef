//! Decides where the clock, the environment and the arguments may be read: at the edge only.

use crate::code::{lines_with, product_code};
use crate::imports::imports;
use crate::{report, tree};

/// Crates at the edge; everybody else is handed what they need.
const EDGE: &[&str] = &["cli", "xtask", "testkit", "bench"];

const CALLS: &[(&str, &str)] = &[
    ("SystemTime::now", "ask the Clock port"),
    ("Instant::now", "ask the Clock port"),
    ("env::var", "let the cli read it and hand it in"),
    ("env::vars", "let the cli read it and hand it in"),
    ("env::var_os", "let the cli read it and hand it in"),
    ("env::vars_os", "let the cli read it and hand it in"),
    ("env::args", "let the cli read it and hand it in"),
    ("env::args_os", "let the cli read it and hand it in"),
    ("env::set_var", "nobody changes the environment"),
    ("env::remove_var", "nobody changes the environment"),
    ("env::current_dir", "let the cli read it and hand it in"),
    ("env::home_dir", "let the cli read it and hand it in"),
    ("env::temp_dir", "let the cli read it and hand it in"),
];

/// Waits are measured by the runtime's own steady clock, which tests can stop. It tells no time of
/// day, and it must be spelled out.
const STEADY: &str = "tokio::time::Instant::now";

#[test]
fn only_the_edge_reads_clock_and_environment() {
    let mut complaints = Vec::new();
    for file in tree::sources() {
        let edge = file.crate_folder().is_none_or(|folder| EDGE.contains(&folder));
        if edge || file.is_test() {
            continue;
        }
        let code = product_code(&file.text).replace(STEADY, "");
        let imported = imports(&code);
        for (call, instead) in CALLS {
            for line in lines_with(&code, call) {
                complaints.push(format!("{}:{line}: {call}; {instead}", file.path));
            }
            if imported.iter().any(|path| path == &format!("std::{call}")) {
                complaints.push(format!("{}: imports {call}; {instead}", file.path));
            }
        }
    }
    report("clock and environment", complaints);
}
