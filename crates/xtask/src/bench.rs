//! Forwards to the measurements of toolgate itself, optimised as a release is.

use anyhow::bail;

use crate::step::{Step, root};

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !root().join("crates/bench/Cargo.toml").exists() {
        bail!("bench needs crates/bench, which is not there");
    }
    Step::cargo("bench", &["run", "--release", "--package", "toolgate-bench", "--"])
        .args(args.iter().cloned())
        .run()
}
