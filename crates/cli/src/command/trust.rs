//! `toolgate trust`: a person looks at what a configuration reaches and allows, and trusts it.

use anyhow::Result;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_kernel::config::{TrustBasis, TrustGap, TrustReason};

use crate::console::{self, hint, paragraph, say, visible};
use crate::environment::Flags;
use crate::exit::Exit;
use crate::person::{self, Nobody};
use crate::project::{Place, block_on, to_be_measured};
use crate::trust::{self, TrustState};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate trust\n  toolgate trust --show\n  toolgate trust --print\n  \
                  toolgate run --trust $(toolgate trust --print) \"a premise\"\n\n\
                  Exit codes: 0 it is trusted (or printed, or revoked), 1 you did not trust it, 2 it is \
                  no configuration, 3 no person is at a terminal, 78 it is not trusted (with --show)."
)]
pub(crate) struct Options {
    /// Print the digest for `--trust` and for /etc/toolgate/policy.yaml, and nothing else.
    #[arg(long, conflicts_with_all = ["show", "revoke", "json"])]
    print: bool,
    /// Say whether it is trusted, by whom, and what in it needs trust. Nothing is asked.
    #[arg(long, conflicts_with = "revoke")]
    show: bool,
    /// Trust no configuration of this folder any more.
    #[arg(long, conflicts_with = "json")]
    revoke: bool,
    /// The same as --show, as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The trust in a configuration, for programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TrustReport {
    /// Whether it may be used.
    trusted: bool,
    /// Why it may.
    basis: Option<TrustBasis>,
    /// Why it may not.
    gap: Option<TrustGap>,
    /// What `toolgate trust --print` prints.
    digest: String,
    /// The people whose trust counts, each with the beginning of their key.
    trusted_by: Vec<String>,
    /// What in it needs trust.
    reasons: Vec<TrustReason>,
    /// What is wrong with the file of the trust.
    fault: Option<String>,
}

impl TrustReport {
    pub(crate) fn of(state: &TrustState) -> Self {
        Self {
            trusted: state.verdict.is_ok(),
            basis: state.verdict.ok(),
            gap: state.verdict.err(),
            digest: format!("sha256:{}", state.digests.trust_digest()),
            trusted_by: state.trusted_by.clone(),
            reasons: state.reasons.clone(),
            fault: state.fault.clone(),
        }
    }

    /// Whether the configuration may be used.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Whether there is something to say about it.
    pub(crate) fn is_notable(&self) -> bool {
        self.fault.is_some() || self.basis != Some(TrustBasis::Harmless)
    }

    /// Prints it in sentences, with the command that a person types.
    pub(crate) fn print(&self) {
        let mark = console::mark(if self.trusted { '✓' } else { '✗' });
        let what = match (self.basis, self.gap) {
            (Some(TrustBasis::Harmless), _) => "nothing in it needs a person's trust".to_owned(),
            (Some(TrustBasis::Statement), _) => {
                format!("it is trusted by {}", visible(&self.trusted_by.join(", ")))
            }
            (Some(TrustBasis::CommandLine), _) => {
                "it is trusted by its digest on the command line".to_owned()
            }
            (Some(TrustBasis::MachinePolicy), _) => {
                "it is trusted by the policy of this machine".to_owned()
            }
            (None, gap) => gap.map(|gap| gap.to_string()).unwrap_or_default(),
        };
        console::hanging(&format!("{mark} trust: {what}."), 2);
        if !self.trusted {
            self.print_reasons();
        }
        if let Some(fault) = &self.fault {
            paragraph(&visible(fault));
        }
        if !self.trusted {
            paragraph("Look at it and trust it at a terminal: toolgate trust");
        }
    }
}

impl TrustReport {
    fn print_reasons(&self) {
        for TrustReason { key, reason } in &self.reasons {
            console::whole(&format!("    {}: {}", visible(key), visible(reason)), 6);
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    if options.revoke {
        let was = place.revoke_trust()?;
        say(match was {
            true => "No configuration of this folder is trusted any more.",
            false => "No configuration of this folder was trusted.",
        });
        return Ok(Exit::Done);
    }
    let loaded = place.load(&Flags::default(), to_be_measured)?;
    if options.print {
        say(&format!("sha256:{}", loaded.digests().trust_digest()));
        return Ok(Exit::Done);
    }
    block_on(async {
        let state = place.trust_state(&loaded).await?;
        if options.show || options.json {
            let report = TrustReport::of(&state);
            match options.json {
                true => console::json(&report),
                false => {
                    report.print();
                    if report.trusted {
                        report.print_reasons();
                    }
                }
            }
            return Ok(if report.trusted { Exit::Done } else { Exit::NotTrusted });
        }
        if state.verdict == Ok(TrustBasis::Statement) {
            TrustReport::of(&state).print();
            return Ok(Exit::Done);
        }
        person::attended().then_some(()).ok_or(Nobody)?;
        if !trust::ask(place, &loaded, &state).await? {
            return Ok(Exit::Failed);
        }
        let state = place.trust_state(&loaded).await?;
        if let Err(gap @ TrustGap::TooFewOwners { .. }) = state.verdict {
            hint(&format!("{}: {gap}.", visible(&place.real_folder().display().to_string())));
        }
        Ok(Exit::Done)
    })
}
