//! Builds and runs the fuzz targets, each for a while, starting from the seeds in the tree.

use std::fs;

use anyhow::{Context, bail};

use crate::step::{Step, installed, root};

/// Seconds per target when nothing is said.
const SECONDS: u64 = 60;

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (seconds, wanted) = parse(args)?;
    let targets = targets()?;
    let chosen: Vec<&String> =
        targets.iter().filter(|name| wanted.as_ref().is_none_or(|one| one == *name)).collect();
    if chosen.is_empty() {
        bail!("there is no such fuzz target; there are: {}", targets.join(", "));
    }
    if !installed("fuzz") {
        println!("== cargo-fuzz is missing; it is installed now, which takes a minute or two");
        Step::cargo("install cargo-fuzz", &["install", "--locked", "cargo-fuzz"]).run()?;
    }
    let mut failed = Vec::new();
    for target in chosen {
        if let Err(fault) = fuzz(target, seconds) {
            println!("== {fault:#}");
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("found something in: {}; the inputs are in fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

fn fuzz(target: &str, seconds: u64) -> anyhow::Result<()> {
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(root().join(&corpus)).context("no folder for the corpus")?;
    // The code under test has no `unsafe`, so panics are looked for and no sanitizer slows it down.
    Step::cargo("fuzz", &["fuzz", "run", "--sanitizer", "none", target, &corpus])
        .args([format!("fuzz/seeds/{target}"), "--".to_owned()])
        .args([format!("-max_total_time={seconds}"), "-timeout=10".to_owned()])
        .args(["-rss_limit_mb=2048".to_owned(), "-print_final_stats=1".to_owned()])
        // Coverage flags are unstable; this lets the pinned stable compiler take them.
        .variable("RUSTC_BOOTSTRAP", "1")
        .run()
}

fn parse(args: &[String]) -> anyhow::Result<(u64, Option<String>)> {
    let (mut seconds, mut target) = (SECONDS, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let given = args.next().context("--seconds needs a number")?;
                seconds = given.parse().with_context(|| format!("{given:?} is no number"))?;
                // Zero would mean "for ever" to the fuzzer.
                anyhow::ensure!(seconds > 0, "--seconds must be at least 1");
            }
            flag if flag.starts_with('-') => bail!("there is no option {flag:?}"),
            name => target = Some(name.to_owned()),
        }
    }
    Ok((seconds, target))
}

/// The targets by the names of their files.
fn targets() -> anyhow::Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        let source = path.extension().is_some_and(|extension| extension == "rs");
        if let Some(stem) = path.file_stem().filter(|_| source).and_then(|stem| stem.to_str()) {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
