//! `toolgate explain`: what the gate would decide on a call, stage by stage. Nothing runs.

use anyhow::{Result, bail};
use clap::Args;
use toolgate_kernel::fold::Session;
use toolgate_kernel::gate::{Explanation, Word};
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_runtime::log::{Tip, read_from};

use crate::console;
use crate::exit::Exit;
use crate::project::{Place, block_on};

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
    /// Print the whole explanation as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let crew = place.crew()?;
    let phase = options.phase.as_deref().map(PhaseName::parse).transpose()?;
    if let Some(phase) = &phase
        && crew.agent.phase(phase).is_none()
    {
        let known: Vec<&str> = crew.agent.phases().map(|phase| phase.name.as_str()).collect();
        bail!("there is no phase {phase}; the phases are {}", known.join(", "));
    }
    let looked = place.look()?;
    let explanation = block_on(async {
        let mut session = match &options.session {
            None => Session::new(SessionId::parse("explain")?),
            Some(id) => {
                let mut session = Session::new(SessionId::parse(id)?);
                let stream = toolgate_kernel::event::StreamId::Session(session.id.clone());
                let apply = |record, _: &_| session.apply(&record);
                read_from(looked.store.as_ref(), &stream, Tip::START, apply).await?;
                if session.seq == 0 {
                    bail!(
                        "there is no session {id}; `toolgate sessions list` shows those there are"
                    );
                }
                session
            }
        };
        let first = crew.agent.first_phase().map(|phase| phase.name.clone());
        session.phase = phase.or(session.phase).or(first);
        let (tool, args) = (&options.tool, &options.args);
        Ok(looked.runtime.explain(&crew.agent, &session, tool, args).await?)
    })?;
    if options.json {
        console::json(&explanation);
    } else {
        print(&explanation);
    }
    Ok(if explanation.verdict == Word::Refuse { Exit::Failed } else { Exit::Done })
}

fn print(told: &Explanation) {
    console::say(&console::fit(&format!("{} in {}", console::visible(&told.tool), told.phase)));
    let longest = told.stages.iter().map(|stage| stage.stage.len()).max().unwrap_or(0).min(30);
    for stage in &told.stages {
        let mark = console::mark(match stage.word {
            Word::Pass => '✓',
            Word::Ask => '?',
            Word::Refuse => '⊘',
            Word::Skip => '·',
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
        Word::Pass | Word::Skip => "It would run.",
        Word::Ask => "A person would be asked first.",
        Word::Refuse => "It would be refused.",
    });
}
