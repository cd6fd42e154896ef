//! Prints the figures about names, and on request the names behind one of them.

use std::path::Path;

use anyhow::{Result, bail};
use xtask::names::{NameReport, TypeDefinition, percent, shared_names};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let report = NameReport::measure(&root)?;
    match args {
        [] => summary(&report),
        [flag, kind] if flag == "--list" => return list(&report, kind),
        _ => bail!("usage: cargo xtask names [--list one-word|participles|twice|banned|comments]"),
    }
    Ok(())
}

fn summary(report: &NameReport) {
    let all = report.types.len();
    let share = |part: usize| format!("{part:5}  {:>7}", percent(part, all));
    println!("type names                {all:5}");
    println!("  of one word             {}", share(report.one_word().len()));
    println!("  bare participles        {}", share(report.participles().len()));
    println!("  defined more than once  {}", share(report.defined_twice().len()));
    println!("  with a banned word      {}", share(report.banned_names().len()));
    println!("comment lines with a banned word {:5}", report.banned_comments.len());
    println!("files that open with \"Decides\"    {:5}", report.decides.len());
    if let Some((crate_name, name, count)) = report.most_methods() {
        println!("most methods: {name} in {crate_name}, {count}");
    }
    if let Some(one) = report.most_fields() {
        println!("most fields: {} ({}), {}", one.name, one.place, one.fields);
    }
}

fn list(report: &NameReport, kind: &str) -> Result<()> {
    let print = |types: Vec<&TypeDefinition>| {
        for one in types {
            println!("{:30} {}", one.name, one.place);
        }
    };
    match kind {
        "one-word" => print(report.one_word()),
        "participles" => print(report.participles()),
        "banned" => print(report.banned_names()),
        "comments" => report.banned_comments.iter().for_each(|line| println!("{line}")),
        "twice" => {
            for (name, places) in shared_names(report) {
                println!("{name:30} {}", places.join(" "));
            }
        }
        other => bail!("there is no list {other:?}"),
    }
    Ok(())
}
