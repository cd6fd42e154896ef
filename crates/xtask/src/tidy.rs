//! Runs only the tests about the tree itself; `cargo test` runs them as well.

use crate::step::Step;

pub(crate) fn run() -> anyhow::Result<()> {
    Step::cargo("tidy", &["test", "--package", "xtask"]).run()
}
