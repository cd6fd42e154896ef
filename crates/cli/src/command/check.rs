//! `toolgate check`: what is wrong with a configuration, then what it grants and where it leads.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::config::{AgentText, ConfigDigests, Finding, Severity, TrustReason, read};
use toolgate_kernel::digest::Digest;

use super::trust::TrustReport;
use crate::chart;
use crate::console::{self, visible};
use crate::diagnose::{self, File};
use crate::environment::Flags;
use crate::exit::Exit;
use crate::known::Known;
use crate::project::{Place, block_on, named};

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate check\n  toolgate check other.yaml --json\n  \
                  toolgate check --digests\n\n\
                  Exit codes: 0 it can be used, 2 it cannot.")]
pub(crate) struct Options {
    /// The file, in place of the project's configuration.
    file: Option<PathBuf>,
    /// Print each finding as one line of JSON, then one line with what is granted.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the digests of the file in place of what is granted, and what of it needs a person's
    /// trust.
    #[arg(long)]
    digests: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let (name, bytes) = match &options.file {
        Some(path) => named(path)?,
        None => place.config_bytes()?,
    };
    // A log that cannot be read says nothing of servers; what is wrong with it is not told here.
    let pins = place.pins().unwrap_or_default();
    let checked = place.checked(&bytes, &pins)?;
    let known = checked
        .agent()
        .map(|agent| Known::of(&place.folder, agent, &checked.text, &pins))
        .transpose()?;
    let file = File { name: &name, source: checked.source() };
    let count = |severity| checked.findings.iter().filter(|f| f.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let exit = if errors == 0 { Exit::Done } else { Exit::Usage };
    // Of the file alone: the environment decides nothing that a person trusts.
    let digests = checked.agent().filter(|_| options.digests);
    let digests = digests.map(|agent| FileDigests::of(&read(&bytes).text, agent));
    let trust = checked.agent().map(|_| CheckedTrust::of(place, options, &bytes));
    if options.json {
        for finding in &checked.findings {
            console::json(&file.line(finding));
        }
        if let Some(digests) = &digests {
            console::json(&digests.as_json());
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
            map.extend(trust.map(|trust| ("trust".to_owned(), trust.as_json())));
        }
        console::json(&summary);
        return Ok(exit);
    }
    let colour = diagnose::colour(&std::io::stdout());
    for finding in &checked.findings {
        console::say(&format!("{}\n", file.text(finding, colour)));
    }
    if let Some(digests) = &digests {
        digests.print();
    } else if let Some(known) = &known {
        let agent = &known.agent;
        let flows = chart::flows(known, checked.text.egress.rule_of_two);
        for part in [chart::legend(agent), chart::matrix(known), flows, chart::graph(agent)] {
            part.iter().for_each(|line| console::say(&console::fit(line)));
            console::say("");
        }
    }
    console::say(&verdict(&name, errors, warnings, &checked.findings));
    if let Some(trust) = trust.filter(|_| !options.digests) {
        trust.print();
    }
    Ok(exit)
}

/// What of a configuration needs a person's trust, and whether it has it.
struct CheckedTrust {
    reasons: Vec<TrustReason>,
    /// Of the configuration of the project; absent for another file, and where the log cannot be read.
    report: Option<TrustReport>,
}

impl CheckedTrust {
    fn of(place: &Place, options: &Options, bytes: &[u8]) -> Self {
        let reasons = read(bytes).text.trust_reasons();
        let own = options.file.is_none();
        let loaded = own.then(|| place.load(&Flags::default(), |_| {}).ok()).flatten();
        let state = loaded.and_then(|loaded| block_on(place.trust_state(&loaded)).ok());
        Self { reasons, report: state.as_ref().map(TrustReport::of) }
    }

    fn as_json(&self) -> serde_json::Value {
        match &self.report {
            Some(report) => serde_json::to_value(report).unwrap_or_default(),
            None => serde_json::json!({"reasons": self.reasons}),
        }
    }

    fn print(&self) {
        match &self.report {
            Some(report) if report.is_notable() => report.print(),
            None if !self.reasons.is_empty() => {
                console::say("It needs a person's trust before anything in it is used:");
                print_reasons(&self.reasons);
            }
            Some(_) | None => {}
        }
    }
}

/// The digests of a configuration file, and why it needs a person's trust.
struct FileDigests {
    digests: ConfigDigests,
    reasons: Vec<TrustReason>,
}

impl FileDigests {
    fn of(text: &AgentText, agent: &Agent) -> Self {
        Self { digests: ConfigDigests::of(text, agent), reasons: text.trust_reasons() }
    }

    /// Each digest by its name; the first one stands for everything that needs trust.
    fn named(&self) -> [(&'static str, String); 4] {
        let ConfigDigests { reach, gate, rest } = self.digests;
        let written = |digest: Digest| format!("sha256:{digest}");
        [
            ("trust", written(self.digests.trust_digest())),
            ("reach", written(reach)),
            ("gate", written(gate)),
            ("rest", written(rest)),
        ]
    }

    fn as_json(&self) -> serde_json::Value {
        let mut out = serde_json::json!({"kind": "digests", "reasons": self.reasons});
        if let Some(map) = out.as_object_mut() {
            map.extend(self.named().map(|(name, digest)| (name.to_owned(), digest.into())));
        }
        out
    }

    fn print(&self) {
        for (name, digest) in self.named() {
            console::say(&format!("{name:<5}  {digest}"));
        }
        console::say("");
        if self.reasons.is_empty() {
            console::say("Nothing in it needs a person's trust.");
        } else {
            console::say("It needs a person's trust:");
        }
        print_reasons(&self.reasons);
        console::say("");
    }
}

fn print_reasons(reasons: &[TrustReason]) {
    for TrustReason { key, reason } in reasons {
        console::whole(&format!("  {}: {}", visible(key), visible(reason)), 4);
    }
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
