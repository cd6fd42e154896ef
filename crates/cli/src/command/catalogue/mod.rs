//! `toolgate catalogue`: the prompt tools that models are given, proposals for new ones, and a person's
//! word on them.

mod decide;
mod propose;
mod show;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use toolgate_kernel::config::{AgentText, PackName};
use toolgate_kernel::event::ProposalRuling;
use toolgate_kernel::fold::Project;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::catalogue::{
    CatalogueError, NO_CHIEF, PromptFinding, UserPrompts, Workflow, tool_names,
};
use toolgate_runtime::port::Clock;

use crate::console::{self, say};
use crate::environment::Flags;
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::project::{Place, block_on};
use crate::prompts;
use crate::visible::exact;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate catalogue list\n  toolgate catalogue propose tone.json\n  toolgate \
                  catalogue assess 1\n  toolgate catalogue show 1\n  toolgate catalogue approve 1"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

/// How a command answers.
#[derive(Args)]
struct Form {
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Lists the prompt tools, the proposals, and what is off with your own prompt file.
    #[command(after_help = "Example:\n  toolgate catalogue list")]
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Shows a prompt tool, or a proposal with its assessment and the difference.
    #[command(
        after_help = "Examples:\n  toolgate catalogue show canon_checker\n  toolgate catalogue show 1"
    )]
    Show {
        /// The id of a tool, or the number of a proposal.
        what: String,
        #[command(flatten)]
        form: Form,
    },
    /// Proposes a prompt tool, or another revision of a proposal of yours. Nothing goes live.
    #[command(
        after_help = "Examples:\n  toolgate catalogue propose tone.json\n  toolgate catalogue propose \
                      --copy-of canon_checker changes.json\n  toolgate catalogue propose --revise 1 \
                      tone.json"
    )]
    Propose(propose::Options),
    /// Checks a proposal and lets the chief assess it. It recommends; you decide.
    #[command(
        after_help = "Examples:\n  toolgate catalogue assess\n  toolgate catalogue assess 1 --model \
                      script:chief.yaml"
    )]
    Assess(propose::AssessOptions),
    /// Makes a proposal part of the catalogue. An owner at the terminal is asked and signs.
    #[command(after_help = "Example:\n  toolgate catalogue approve 1")]
    Approve(decide::Options),
    /// Sends a proposal back to its author. An owner is asked and signs.
    #[command(
        after_help = "Example:\n  toolgate catalogue needs-changes 1 --note \"Name the report format.\""
    )]
    NeedsChanges(decide::Options),
    /// Turns a proposal down for good. An owner is asked and signs.
    #[command(
        after_help = "Example:\n  toolgate catalogue reject 1 --note \"prose_analyzer does this.\""
    )]
    Reject(decide::Options),
    /// Takes a proposal of yours back.
    #[command(after_help = "Example:\n  toolgate catalogue withdraw 1")]
    Withdraw(propose::WithdrawOptions),
    /// Lists the versions of a tool.
    #[command(after_help = "Example:\n  toolgate catalogue history tone_check")]
    History {
        /// The tool.
        id: String,
        #[command(flatten)]
        form: Form,
    },
    /// Shows how two versions of a tool differ, field by field.
    #[command(
        after_help = "Examples:\n  toolgate catalogue diff tone_check\n  toolgate catalogue diff \
                      tone_check 1 3"
    )]
    Diff {
        /// The tool.
        id: String,
        /// The earlier version; the one before the newest when left out.
        from: Option<u64>,
        /// The later version; the newest when left out.
        to: Option<u64>,
        #[command(flatten)]
        form: Form,
    },
    /// Makes an earlier version of a tool its newest one. An owner is asked and signs.
    #[command(after_help = "Example:\n  toolgate catalogue rollback tone_check 1")]
    Rollback(decide::RollbackOptions),
    /// Runs the test cases of a proposal: on the replies they bring, a script, or a model.
    #[command(
        after_help = "Examples:\n  toolgate catalogue test 1\n  toolgate catalogue test 1 --script \
                      replies.yaml\n  toolgate catalogue test 1 --model ollama:qwen3"
    )]
    Test(propose::TestOptions),
    /// Uses an entry of your own prompt file in this project. An owner is asked and signs.
    #[command(after_help = "Example:\n  toolgate catalogue accept tone_check")]
    Accept(decide::AcceptOptions),
    /// Writes the approved tools to .toolgate/prompts/, for people to read.
    #[command(after_help = "Example:\n  toolgate catalogue export")]
    Export {
        #[command(flatten)]
        form: Form,
    },
}

impl Options {
    /// Whether a program reads the output.
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            What::List { form }
            | What::Show { form, .. }
            | What::History { form, .. }
            | What::Diff { form, .. }
            | What::Export { form } => form.json,
            What::Propose(options) => options.form.json,
            What::Assess(options) => options.form.json,
            What::Withdraw(options) => options.form.json,
            What::Test(options) => options.form.json,
            What::Approve(options) | What::NeedsChanges(options) | What::Reject(options) => {
                options.form.json
            }
            What::Rollback(options) => options.form.json,
            What::Accept(options) => options.form.json,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let json = options.json();
    let desk = CatalogueDesk::of(place)?;
    match &options.what {
        What::List { .. } => show::list(place, &desk, json),
        What::Show { what, .. } => show::show(place, &desk, what, json),
        What::History { id, .. } => show::history(place, &desk, id, json),
        What::Diff { id, from, to, .. } => show::diff(place, &desk, id, (*from, *to), json),
        What::Propose(options) => propose::propose(place, &desk, options),
        What::Assess(options) => propose::assess(place, &desk, options),
        What::Withdraw(options) => propose::withdraw(place, &desk, options),
        What::Test(options) => propose::test(place, &desk, options),
        What::Approve(options) => decide::decide(place, &desk, options, ProposalRuling::Approve),
        What::NeedsChanges(options) => {
            decide::decide(place, &desk, options, ProposalRuling::NeedsChanges)
        }
        What::Reject(options) => decide::decide(place, &desk, options, ProposalRuling::Reject),
        What::Rollback(options) => decide::rollback(place, &desk, options),
        What::Accept(options) => decide::accept(place, &desk, options),
        What::Export { .. } => export(place, json),
    }
}

/// What every command works with.
struct CatalogueDesk {
    text: AgentText,
    user: UserPrompts,
    tools: BTreeSet<String>,
    chief: String,
}

impl CatalogueDesk {
    fn of(place: &Place) -> Result<Self> {
        let (crew, text) = place.crew_with(&Flags::default())?;
        let packs = text.packs.as_deref().unwrap_or(PackName::DEFAULT);
        ensure!(
            packs.contains(&PackName::Catalogue),
            "there is no catalogue here: add `catalogue` to `packs` in toolgate.yaml"
        );
        let user = prompts::user_prompts(&text);
        let tools = tool_names(&crew.agent);
        let chief = text.catalogue.as_ref().and_then(|own| own.chief.as_ref());
        let chief = chief.map_or_else(|| NO_CHIEF.to_owned(), ToString::to_string);
        Ok(Self { text, user, tools, chief })
    }

    fn workflow(&self) -> Workflow<'_> {
        let now: Timestamp = SystemClock.now();
        Workflow { user: &self.user.tools, tools: &self.tools, chief: &self.chief, now }
    }
}

/// The project as it is.
async fn project(place: &Place) -> Result<std::sync::Arc<Project>> {
    Ok(place.look()?.runtime.catch_up().await?)
}

/// The number of a proposal, with or without a `p` before it.
fn number(text: &str) -> Result<u64> {
    let plain = text.strip_prefix(['p', '#']).unwrap_or(text);
    plain.parse().with_context(|| format!("{:?} is not the number of a proposal", exact(text)))
}

/// Tells why something was refused.
fn refused(error: CatalogueError, json: bool) -> Exit {
    if json {
        console::json(&serde_json::json!({ "ok": false, "error": error }));
        return Exit::Failed;
    }
    let allowed = match error.allowed.as_slice() {
        [] => String::new(),
        some => format!("\n  there is: {}", exact(&some.join(", "))),
    };
    console::complain(&anyhow::anyhow!("{error}{allowed}"), false);
    Exit::Failed
}

/// Tells what is off with prompt files.
fn tell_findings(findings: &[PromptFinding], json: bool) {
    for finding in findings {
        if json {
            console::json(&serde_json::json!({ "what": "finding", "finding": finding }));
        } else {
            let PromptFinding { code, place, message } = finding;
            say(&console::visible(&format!("{code}  {place}: {message}")));
        }
    }
}

fn export(place: &Place, json: bool) -> Result<Exit> {
    block_on(async {
        let project = project(place).await?;
        let written = prompts::export(place, &project, prompts::Edits::Overwritten)?;
        let shown: Vec<String> =
            written.iter().map(|path: &PathBuf| path.display().to_string()).collect();
        if json {
            console::json(&serde_json::json!({ "written": shown }));
        } else if shown.is_empty() {
            say("Everything is written already.");
        } else {
            shown.iter().for_each(|path| say(&console::visible(&format!("✓ {path}"))));
        }
        Ok(Exit::Done)
    })
}
