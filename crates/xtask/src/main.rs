//! Decides which chore is run: `cargo xtask <chore>`; each chore is one small file.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a chore talks to the person who started it, and tells how long each step took"
)]

mod bench;
mod check;
mod crash;
mod fuzz;
mod names_report;
mod picture;
mod step;
mod tidy;

use std::process::ExitCode;

use anyhow::bail;

const USAGE: &str = "\
usage: cargo xtask <chore>

  check                            format, lints, tests, docs, licences; what has to hold before a commit
  tidy                             only the tests about the tree itself
  fuzz [--seconds N] [target]      every fuzz target, a minute each, or one of them
  crash [args]                     kill the process at every crash point and resume
  seeded [args]                    put known bugs in, one by one; each must be caught
  names [--list KIND]              figures about type names and comments
  bench [args]                     the measurements of toolgate itself
  picture                          the pictures of the docs, drawn from real runs
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            println!("xtask: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> anyhow::Result<()> {
    let Some((chore, rest)) = args.split_first() else { bail!("name a chore\n\n{USAGE}") };
    match chore.as_str() {
        "check" => no_arguments(rest).and_then(|()| check::run()),
        "tidy" => no_arguments(rest).and_then(|()| tidy::run()),
        "fuzz" => fuzz::run(rest),
        "crash" | "seeded" => crash::run(chore, rest),
        "names" => names_report::run(rest),
        "bench" => bench::run(rest),
        "picture" => no_arguments(rest).and_then(|()| picture::run()),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("there is no chore {other:?}\n\n{USAGE}"),
    }
}

fn no_arguments(rest: &[String]) -> anyhow::Result<()> {
    match rest {
        [] => Ok(()),
        [first, ..] => bail!("this chore takes no arguments, {first:?} was given\n\n{USAGE}"),
    }
}
