//! Decides what has to hold before a commit; every step is run, so that one look shows all trouble.

use anyhow::bail;

use crate::step::{Step, installed};

pub(crate) fn run() -> anyhow::Result<()> {
    let mut steps = vec![
        Step::cargo("format", &["fmt", "--all", "--", "--check"]),
        Step::cargo("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::cargo("tests", &["test", "--workspace"]),
        Step::cargo("docs", &["doc", "--no-deps", "--workspace"])
            .variable("RUSTDOCFLAGS", "-D warnings"),
        // They are a workspace of their own, so nothing above compiles them. Nothing is linked, so
        // the C++ part of the fuzzer need not be built.
        Step::cargo("fuzz targets", &["check", "--manifest-path", "fuzz/Cargo.toml"])
            .variable("CUSTOM_LIBFUZZER_PATH", "none/libfuzzer.a"),
    ];
    let mut skipped = Vec::new();
    if installed("deny") {
        steps.push(Step::cargo("licences", &["deny", "check", "bans", "licenses", "sources"]));
    } else {
        skipped.push("licences (cargo install --locked cargo-deny)");
    }
    let mut failed = Vec::new();
    for step in &steps {
        if let Err(fault) = step.run() {
            println!("== {}: {fault:#}", step.about());
            failed.push(format!("  {}: {}", step.about(), step.command_line()));
        }
    }
    for step in skipped {
        println!("== skipped: {step}");
    }
    if !failed.is_empty() {
        bail!("{} of {} steps failed:\n{}", failed.len(), steps.len(), failed.join("\n"));
    }
    println!("== all {} steps are fine", steps.len());
    Ok(())
}
