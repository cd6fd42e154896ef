//! `toolgate explain`: what the gate would decide on a call, stage by stage. Nothing runs.

use anyhow::Result;
use clap::{Args, ValueEnum};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::fold::Session;
use toolgate_kernel::gate::{Explanation, Ruling};
use toolgate_kernel::names::SessionId;

use super::phase;
use crate::console;
use crate::environment::Flags;
use crate::exit::Exit;
use crate::known::Known;
use crate::project::{Place, block_on};
use crate::reading;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate explain create_section \
                        '{\"name\": \"ch1\", \"content\": \"…\"}' --phase REVISION")]
pub(crate) struct Options {
    /// The tool, as a model would name it.
    tool: String,
    /// The arguments as JSON.
    #[arg(default_value = "{}")]
    args: String,
    /// The phase; the session's own, or the first one, when left out.
    #[arg(long)]
    phase: Option<String>,
    /// The session whose history counts; none when left out.
    #[arg(long)]
    session: Option<String>,
    /// Who would make it: some rules look at that, and only a model's calls count as repeated.
    #[arg(long = "as", value_enum, value_name = "WHO", default_value_t = Caller::Model)]
    caller: Caller,
    /// Print the whole explanation as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who would make the call.
#[derive(Clone, Copy, ValueEnum)]
enum Caller {
    /// A model, in a run.
    Model,
    /// A program, as with `toolgate call`.
    Client,
}

impl Caller {
    fn actor(self) -> Actor {
        match self {
            Self::Model => Actor::Model("explain".into()),
            Self::Client => Actor::Client("explain".into()),
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let (crew, text) = place.crew_with(&Flags::default())?;
    // What servers offer is told as far as the log has seen it; nobody is asked.
    let known = Known::of(&place.folder, &crew.agent, &text, &place.pins()?)?;
    let phase = phase(&crew.agent, options.phase.as_deref())?;
    let looked = place.look()?;
    let explanation = block_on(async {
        let mut session = match &options.session {
            None => Session::new(SessionId::parse("explain")?),
            Some(id) => reading::session(looked.store.as_ref(), &SessionId::parse(id)?).await?,
        };
        let first = crew.agent.first_phase().map(|phase| phase.name.clone());
        session.phase = phase.or(session.phase).or(first);
        let (actor, tool, args) = (options.caller.actor(), &options.tool, &options.args);
        Ok(looked.runtime.explain(&known.ready, &session, actor, tool, args).await?)
    })?;
    if options.json {
        console::json(&explanation);
    } else {
        print(&explanation);
    }
    let named = known.agent.toolset.find(&options.tool);
    let named = named.and_then(|at| known.agent.toolset.entries().get(at));
    if let Some(entry) = named.filter(|entry| !known.is_ready(&entry.spec.name)) {
        let told = known.told(&entry.spec.name).unwrap_or_default();
        console::hint(&console::visible(&format!("{}: {told}", entry.spec.name)));
    }
    Ok(if explanation.verdict == Ruling::Refuse { Exit::Failed } else { Exit::Done })
}

fn print(told: &Explanation) {
    console::say(&console::fit(&format!("{} in {}", console::visible(&told.tool), told.phase)));
    let longest = told.stages.iter().map(|stage| stage.stage.len()).max().unwrap_or(0).min(30);
    for stage in &told.stages {
        let mark = console::mark(match stage.ruling {
            Ruling::Pass => '✓',
            Ruling::Ask => '?',
            Ruling::Refuse => '⊘',
            Ruling::Skip => '·',
        });
        let line = format!("  {mark} {:<longest$}  {}", stage.stage, console::visible(&stage.why));
        console::hanging(&line, longest + 6);
        let allowed = stage.errors.iter().filter_map(|trouble| trouble.allowed.as_ref());
        for allowed in allowed {
            let allowed = console::visible(&allowed.join(", "));
            console::hanging(&format!("    allowed: {allowed}"), 13);
        }
    }
    console::say(match told.verdict {
        Ruling::Pass | Ruling::Skip => "It would run.",
        Ruling::Ask => "A person would be asked first.",
        Ruling::Refuse => "It would be refused.",
    });
}
