//! Decides where a task or a thread may begin: each place is written here with its reason.

use crate::code::{lines_with, product_code};
use crate::imports::imports;
use crate::{report, tree};

/// Files that may start something of their own, and why it cannot be otherwise.
const ALLOWED: &[(&str, &str)] = &[
    (
        "crates/kernel/src/policy/expression/stack.rs",
        "a parser that recurses gets its own stack; it is joined before the function returns",
    ),
    (
        "crates/store/src/sqlite/worker.rs",
        "SQLite blocks; its queue is bounded, and dropping the store waits for the thread",
    ),
    (
        "crates/mcp/src/client/child.rs",
        "error output is read without end so that no program waits; it ends with the program",
    ),
    (
        "crates/mcp/src/client/oauth/keeper.rs",
        "a renewal that was begun is kept though its caller is gone, and what was missed is written \
         down though nobody waits for it; one at a time each, with a deadline",
    ),
    (
        "crates/mcp/src/client/outbox.rs",
        "a message is written whole though its caller is gone; bounded, and it ends with the connection",
    ),
    (
        "crates/mcp/src/client/registry.rs",
        "a server is asked for its list though whoever asked first has gone on; one at a time for \
         each server, with deadlines, and closing the registry ends it",
    ),
    (
        "crates/mcp/src/client/seat.rs",
        "ending a program takes up to four seconds, and the next caller does not wait for it",
    ),
    (
        "crates/mcp/src/supply.rs",
        "what is new of a server's tools is written down while whoever wants them may not be polled; \
         the log answers within a bound",
    ),
    (
        "crates/mcp/src/server/clerk/mod.rs",
        "tools that come after a list was answered are told of as news; one wait at a time, with a \
         deadline, and closing the registry ends it",
    ),
    (
        "crates/mcp/src/server/http/mod.rs",
        "connections are served side by side; they are counted, every wait in them has a deadline, \
         and stopping waits for them",
    ),
    (
        "crates/cli/src/command/mcp.rs",
        "the session is driven beside its connections, and its pipes are served; whichever ends first \
         ends the process",
    ),
    (
        "crates/cli/src/typing.rs",
        "a person types as long as they like; one line at a time is waited for, and Ctrl-D ends it",
    ),
    (
        "crates/cli/src/screen.rs",
        "events that were missed are read from the log, so many as there are; it is waited for at once",
    ),
    (
        "crates/cli/src/person.rs",
        "reading a terminal blocks; one thread for the process, and the waiting has a deadline",
    ),
];

/// Crates whose work is never part of the product.
const DEV: &[&str] = &["xtask", "testkit", "bench"];

const STARTS: &[&str] = &[
    "tokio::spawn",
    "task::spawn",
    "spawn_blocking",
    "spawn_local",
    "JoinSet",
    "thread::spawn",
    "thread::Builder",
    "thread::scope",
];

#[test]
fn nothing_runs_on_its_own_without_a_reason() {
    let mut complaints = Vec::new();
    let mut used = Vec::new();
    for file in tree::sources() {
        let dev = file.crate_folder().is_none_or(|folder| DEV.contains(&folder));
        if dev || file.is_test() {
            continue;
        }
        let code = product_code(&file.text);
        let imported = imports(&code);
        // An import is enough: `Builder::new()` alone does not show what it builds.
        let starts = |start: &&&str| {
            imported.iter().any(|path| path.ends_with(**start))
                || !lines_with(&code, start).is_empty()
        };
        for start in STARTS.iter().filter(starts) {
            if ALLOWED.iter().any(|(path, _)| *path == file.path) {
                used.push(file.path.clone());
            } else {
                complaints.push(format!("{}: {start}", file.path));
            }
        }
    }
    for (path, reason) in ALLOWED.iter().filter(|(path, _)| !used.iter().any(|u| u == path)) {
        complaints.push(format!("{path} starts nothing any more ({reason}); take it off the list"));
    }
    let what = "who waits for it, and what bounds it? \
                Start nothing, or add the file to spawn.rs with the reason";
    report(what, complaints);
}
