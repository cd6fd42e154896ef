//! Forwards the crash loop and the seeded schedules to testkit, built with crash points.

use anyhow::bail;

use crate::step::{Step, root};

/// Crash points change the runtime, so what is built with them must not replace the usual build.
const TARGET: &str = "target/crash";

pub(crate) fn run(chore: &str, args: &[String]) -> anyhow::Result<()> {
    if !root().join("crates/testkit/Cargo.toml").exists() {
        bail!("{chore} needs crates/testkit, which is not there");
    }
    let build = ["run", "--package", "toolgate-testkit", "--features", "crash-points"];
    let about = if chore == "crash" { "crash loop" } else { "seeded schedules" };
    Step::cargo(about, &build)
        .args(["--target-dir", TARGET, "--bin", "toolgate-crash", "--", chore].map(str::to_owned))
        .args(args.iter().cloned())
        .run()
}
