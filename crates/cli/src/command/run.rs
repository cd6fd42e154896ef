//! `toolgate run`: the agent on a model, from the start or from where it stopped.

use std::io::Read;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::broadcast::error::TryRecvError;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Ending, Event, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::SessionId;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Provider;
use toolgate_runtime::{Committed, Crew, Driver, Halt, Runtime};
use toolgate_wire::script::Script;

use crate::console;
use crate::exit::Exit;
use crate::person::AtTerminal;
use crate::project::{Opened, Place, SystemClock, block_on};
use crate::stop::Stop;

/// The script that plays the model when none is configured.
const OWN_SCRIPT: &str = include_str!("../../demo/script.yaml");

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate run \"a picnic for eight\"")]
pub(crate) struct Options {
    /// What you want. Leave it out to go on with the newest unfinished session.
    premise: Option<String>,
    /// The model: `script:FILE` plays a file.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Begin a new session even when the same one is unfinished.
    #[arg(long)]
    new: bool,
    /// Print one committed event per line as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the ending.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let mut crew = place.crew()?;
    crew.provider = Some(model(options)?);
    crew.person = AtTerminal::here();
    let opened = place.open()?;
    block_on(async {
        let mut stop = Stop::listen()?;
        let (mut driver, premise) = driver(&opened, crew, options).await?;
        console::replaced_config(&driver);
        if !options.json && !options.quiet {
            let session = driver.session();
            console::say(&console::fit(&format!(
                "session {}: {}",
                session.id,
                console::visible(&premise)
            )));
        }
        let watched = watch(&opened.runtime, &mut driver, &premise, options, &mut stop).await?;
        let (ending, note) = match watched {
            Watched::Ended(ending, note) => (ending, note),
            Watched::Parked(exit) => {
                console::hint("Parked. Everything so far is in the log; go on with: toolgate run");
                return Ok(exit);
            }
        };
        let completed = ending == Ending::Completed;
        if !options.json {
            let mark = if completed { "✓" } else { "✗" };
            let note = console::visible(&note);
            console::say(&console::fit(&format!("{mark} {}. {note}", console::ending(ending))));
            let id = driver.session().id.clone();
            console::hint(&format!("The whole story: toolgate sessions show {id}"));
        }
        Ok(if completed { Exit::Done } else { Exit::Failed })
    })
}

fn model(options: &Options) -> Result<Arc<dyn Provider>> {
    let Some(model) = &options.model else {
        if !options.json && !options.quiet {
            console::hint("No model is configured, so a script plays one (--model script:FILE).");
        }
        return Ok(Arc::new(Script::parse("demo", OWN_SCRIPT)?));
    };
    let Some(file) = model.strip_prefix("script:") else {
        bail!("the model {model:?} is not known; write script:FILE");
    };
    let yaml = std::fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    Ok(Arc::new(Script::parse(file, &yaml)?))
}

/// The session to drive: the newest unfinished one that fits, or a new one.
async fn driver(opened: &Opened, crew: Crew, options: &Options) -> Result<(Driver, String)> {
    let unfinished = if options.new { None } else { unfinished(opened).await? };
    match (unfinished, &options.premise) {
        (Some(session), premise)
            if premise.as_ref().is_none_or(|premise| *premise == *session.title) =>
        {
            let runtime = Arc::clone(&opened.runtime);
            let driver = Driver::resume(runtime, crew, session.id.clone()).await?;
            Ok((driver, session.title.to_string()))
        }
        (Some(session), Some(_)) => bail!(
            "session {} is not finished: {:?}. Run without a premise to go on with it, or add --new",
            session.id,
            session.title
        ),
        (None, Some(premise)) if premise.trim().is_empty() => {
            bail!("the premise is blank; say what you want")
        }
        (_, None) => bail!("say what you want: toolgate run \"a picnic for eight\""),
        (None, Some(premise)) => {
            let runtime = Arc::clone(&opened.runtime);
            let actor = Actor::Client("cli".into());
            let driver = Driver::open(runtime, crew, new_id()?, &actor, premise).await?;
            Ok((driver, premise.clone()))
        }
    }
}

async fn unfinished(opened: &Opened) -> Result<Option<Session>> {
    let store = opened.store.as_ref();
    let mut project = Project::default();
    let apply = |record: Record<ProjectEvent>, _: &_| project.apply(&record);
    read_from(store, &StreamId::Project, Tip::START, apply).await?;
    let mut newest: Option<Session> = None;
    for id in project.sessions.iter().filter(|id| id.as_str().starts_with("run-")) {
        let mut session = Session::new(id.clone());
        let stream = StreamId::Session(id.clone());
        read_from(store, &stream, Tip::START, |record, _| session.apply(&record)).await?;
        let newer = newest.as_ref().is_none_or(|newest| newest.opened_at <= session.opened_at);
        if session.ended.is_none() && session.seq > 0 && newer {
            newest = Some(session);
        }
    }
    Ok(newest)
}

/// An id that sorts by time and that two processes do not make at once.
fn new_id() -> Result<SessionId> {
    use toolgate_runtime::port::Clock;
    let mut random = [0; 2];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let moment = SystemClock.now().to_string();
    let digits: String = moment.chars().filter(char::is_ascii_digit).take(14).collect();
    let [a, b] = random;
    Ok(SessionId::parse(&format!("run-{digits}-{a:02x}{b:02x}"))?)
}

/// How driving came to its end.
enum Watched {
    /// The session did.
    Ended(Ending, String),
    /// Somebody told the program to stop. The session can be taken up again.
    Parked(Exit),
}

/// Drives to the end, and shows each committed event as soon as it can be shown.
async fn watch(
    runtime: &Runtime,
    driver: &mut Driver,
    premise: &str,
    options: &Options,
    stop: &mut Stop,
) -> Result<Watched> {
    let mut events = runtime.observe();
    let show = |events: &mut tokio::sync::broadcast::Receiver<Committed>| -> Result<()> {
        loop {
            match events.try_recv() {
                Ok(Committed::Session(_, record)) => print(&record, options)?,
                Ok(Committed::Project(_)) => {}
                Err(TryRecvError::Lagged(lost)) => {
                    console::hint(&format!(
                        "{lost} events went by too fast to show; they are in the log."
                    ));
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Ok(()),
            }
        }
    };
    let tap = |_: &str| {};
    let driving = driver.run(premise, &tap);
    let stop = stop.heard();
    tokio::pin!(driving, stop);
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut driving => break ended,
            // What is under way is dropped, as in a crash, and a resume settles it.
            exit = &mut stop => {
                show(&mut events)?;
                return Ok(Watched::Parked(exit));
            }
            () = tokio::time::sleep(std::time::Duration::from_millis(50)) => show(&mut events)?,
        }
    };
    show(&mut events)?;
    Ok(match ended? {
        Halt::Ended(ending, note) => Watched::Ended(ending, note),
        Halt::Waiting(note) => {
            console::hint(&note);
            Watched::Parked(Exit::Busy)
        }
    })
}

fn print(record: &Record<Event>, options: &Options) -> Result<()> {
    if options.json {
        return console::json(record);
    }
    if options.quiet {
        return Ok(());
    }
    if let Event::ModelReplied { text, .. } = &record.event
        && !text.is_empty()
    {
        console::say(&console::fit(&console::visible(text)));
    }
    if let Some(line) = console::call_line(&record.event) {
        console::say(&line);
    }
    Ok(())
}
