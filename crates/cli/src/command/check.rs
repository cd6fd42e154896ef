//! `toolgate check`: what is wrong with a configuration, then what it grants and where it leads.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use toolgate_kernel::config::{Finding, Severity};

use crate::chart;
use crate::console;
use crate::diagnose::{self, File};
use crate::exit::Exit;
use crate::known::Known;
use crate::project::{Place, named};

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate check\n  toolgate check other.yaml --json\n\n\
                  Exit codes: 0 it can be used, 2 it cannot.")]
pub(crate) struct Options {
    /// The file, in place of the project's configuration.
    file: Option<PathBuf>,
    /// Print each finding as one line of JSON, then one line with what is granted.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let (name, bytes) = match &options.file {
        Some(path) => named(path)?,
        None => place.config_bytes()?,
    };
    // A log that cannot be read says nothing of servers; what is wrong with it is not told here.
    let pins = place.pins().unwrap_or_default();
    let checked = place.checked(&bytes, &pins)?;
    let known = checked.agent().map(|agent| Known::of(agent, &checked.text, &pins)).transpose()?;
    let file = File { name: &name, source: checked.source() };
    let count = |severity| checked.findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let exit = if errors == 0 { Exit::Done } else { Exit::Usage };
    if options.json {
        for finding in &checked.findings {
            console::json(&file.line(finding));
        }
        let mut summary = known.as_ref().map(chart::as_json).unwrap_or_default();
        if !summary.is_object() {
            summary = serde_json::json!({});
        }
        if let Some(map) = summary.as_object_mut() {
            let head = [
                ("kind", "summary".into()),
                ("file", name.as_str().into()),
                ("errors", errors.into()),
                ("warnings", warnings.into()),
            ];
            map.extend(head.map(|(key, value)| (key.to_owned(), value)));
        }
        console::json(&summary);
        return Ok(exit);
    }
    let colour = diagnose::colour(&std::io::stdout());
    for finding in &checked.findings {
        console::say(&format!("{}\n", file.text(finding, colour)));
    }
    if let Some(known) = &known {
        let agent = &known.agent;
        for part in [chart::legend(agent), chart::matrix(known), chart::graph(agent)] {
            part.iter().for_each(|line| console::say(&console::fit(line)));
            console::say("");
        }
    }
    console::say(&verdict(&name, errors, warnings, &checked.findings));
    Ok(exit)
}

fn verdict(name: &str, errors: usize, warnings: usize, findings: &[Finding]) -> String {
    let notes = findings.len() - errors - warnings;
    let many = |count: usize, what: &str| {
        (count > 0).then(|| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
    };
    let said: Vec<String> = [many(errors, "error"), many(warnings, "warning"), many(notes, "note")]
        .into_iter()
        .flatten()
        .collect();
    match (errors, said.is_empty()) {
        (0, true) => format!("✓ {name} can be used."),
        (0, false) => format!("✓ {name} can be used: {}.", said.join(", ")),
        _ => format!("✗ {name} cannot be used: {}.", said.join(", ")),
    }
}
