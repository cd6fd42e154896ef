//! Forwards the crash loop and the seeded bugs to testkit, built with the features they need.

use anyhow::bail;

use crate::step::{Step, root};

/// What is built to misbehave must not replace the usual build.
const TARGET: &str = "target/crash";

pub(crate) fn run(chore: &str, args: &[String]) -> anyhow::Result<()> {
    if !root().join("crates/testkit/Cargo.toml").exists() {
        bail!("{chore} needs crates/testkit, which is not there");
    }
    if chore == "crash" && args.iter().all(|arg| arg.starts_with("--")) {
        let args = ["test", "--package", "toolgate-store", "--features", "crash-points"];
        Step::cargo("writers of one log", &args)
            .args(["--target-dir", TARGET, "--test", "it", "--", "crash::"].map(str::to_owned))
            .run()?;
    }
    let build = ["run", "--package", "toolgate-testkit", "--features", "crash-points"];
    let about = if chore == "crash" { "crash loop" } else { "seeded bugs" };
    Step::cargo(about, &build)
        .args(["--target-dir", TARGET, "--bin", "toolgate-crash", "--", chore].map(str::to_owned))
        .args(args.iter().cloned())
        .run()
}
