//! Tests of the sandbox from inside: this binary starts itself as a hostile program.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(target_os = "linux")]
mod attempts;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod starters;
#[cfg(target_os = "linux")]
mod table;

#[cfg(target_os = "linux")]
use std::process::ExitCode;

/// The tests, by name.
#[cfg(target_os = "linux")]
const TESTS: &[(&str, fn())] = &[
    ("a_hostile_program_reaches_nothing_it_was_not_given", table::hostile),
    ("a_detached_child_reaches_no_more", table::detached),
    ("another_user_than_root_is_held_as_well", table::as_another_user),
    ("every_layer_holds_what_no_other_does", table::layers),
    ("what_is_granted_works", table::granted),
    ("network_is_limited_as_declared", table::network),
    ("unix_sockets_work_where_they_are_allowed", table::unix_sockets),
    ("a_broken_policy_starts_nothing", starters::broken),
    ("inherited_files_are_closed", starters::inherited),
    ("requests_that_cannot_be_kept_are_refused", starters::refused),
    ("a_link_put_there_later_grants_nothing", starters::swapped),
    ("a_link_that_a_program_planted_grants_nothing", starters::planted),
    ("the_start_costs_little", starters::cost),
    // Last: it changes this process.
    ("a_hidden_process_cannot_be_read", starters::hidden),
];

/// Nothing is enforced elsewhere yet.
#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped: programs can be isolated on Linux only");
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(code) = toolgate_sandbox::init(std::env::args_os()) {
        return code;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == attempts::ATTEMPT) {
        return attempts::run(&args[1..]);
    }
    // `cargo test` passes filters, and flags that need no answer here.
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |test: &&(&str, fn())| {
        names.is_empty() || names.iter().any(|name| test.0.contains(name.as_str()))
    };
    for (name, test) in TESTS.iter().filter(wanted) {
        if args.iter().any(|arg| arg == "--list") {
            println!("{name}: test");
            continue;
        }
        test();
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}
