//! `toolgate run`: the agent on a model, from the start or from where it stopped.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::{Ending, Said};
use toolgate_kernel::fold::{Counted, Session, World};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::prompt_skips::PromptSkips;
use toolgate_runtime::port::{Clock, Streamed};
use toolgate_runtime::{Crew, Driver, Halt, OnAsk, Start};
use toolgate_store::{Hold, Rival};

use super::approvals;
use crate::console;
use crate::environment::{self, Flags};
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::live::{Detail, Live};
use crate::model::{self, Played};
use crate::person::{AtTerminal, Ready};
use crate::picture::picture;
use crate::project::{Opened, Place, block_on};
use crate::prompts;
use crate::reading;
use crate::request::RequestFlags;
use crate::screen::{Screen, Shows, Written};
use crate::servers::Servers;
use crate::speaker::{self, Speaker, Speaks};
use crate::stop::Stop;
use crate::summary::Summary;
use crate::trust::{TrustedAccess, TrustedCrew};

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate run \"a lighthouse keeper who collects storms\"\n  \
                  toolgate run                          go on where it stopped\n  \
                  toolgate run --feedback \"Less rain.\"  say something, then go on")]
pub(crate) struct Options {
    /// What you want written. Leave it out to go on with the newest session.
    premise: Option<String>,
    #[command(flatten)]
    pub(crate) how: How,
    #[command(flatten)]
    speaks: Speaks,
    /// A picture shown at the start of each iteration; may be given several times.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Begin a new session even though there is one already.
    #[arg(long)]
    new: bool,
}

/// How a session is driven and shown.
#[derive(Args)]
pub(crate) struct How {
    #[command(flatten)]
    settings: Flags,
    #[command(flatten)]
    request: RequestFlags,
    /// Words for the model, shown once, in the next iteration.
    #[arg(long, value_name = "TEXT")]
    feedback: Option<String>,
    /// What is done about a call that a person must approve. No value approves anything.
    #[arg(long, value_enum, default_value_t = OnAskFlag::Prompt, value_name = "HOW")]
    on_ask: OnAskFlag,
    /// Show arguments and results of every call.
    #[arg(long, short, conflicts_with_all = ["json", "quiet"])]
    verbose: bool,
    /// Print one committed event per line as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the ending.
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    have: Have,
    #[command(flatten)]
    leaves_out: LeavesOut,
}

/// What the requests to the model leave out.
#[derive(Args)]
pub(crate) struct LeavesOut {
    /// Show the model no catalogue of prompt tools.
    #[arg(long)]
    skip_tool_catalog: bool,
    /// Show the model neither facts nor issues before it begins.
    #[arg(long)]
    skip_grounding: bool,
    /// Show the model neither of both and no tools: it answers once, in words.
    #[arg(long)]
    skip_tools: bool,
}

impl LeavesOut {
    pub(crate) fn skips(&self) -> PromptSkips {
        let Self { skip_tool_catalog, skip_grounding, skip_tools } = *self;
        PromptSkips { skip_tool_catalog, skip_grounding, skip_tools }
    }
}

/// What is done about a call that a person must approve.
#[derive(Clone, Copy, ValueEnum)]
enum OnAskFlag {
    /// You are asked, when you are at the terminal; else it is put off.
    Prompt,
    /// It is put off: `toolgate approvals` shows it.
    Park,
    /// It is refused.
    Deny,
}

/// What is done about another process that has the session.
#[derive(Args)]
pub(crate) struct Have {
    /// Go on with the session here, though another process has it. That one can write nothing more.
    #[arg(long)]
    take_over: bool,
}

impl Have {
    pub(crate) fn rival(&self) -> Rival {
        if self.take_over { Rival::Displaced } else { Rival::Respected }
    }
}

impl How {
    fn shows(&self) -> Shows {
        match (self.json, self.quiet) {
            (true, _) => Shows::Json,
            (false, true) => Shows::Nothing,
            (false, false) => Shows::Lines,
        }
    }

    fn on_ask(&self) -> OnAsk {
        match self.on_ask {
            OnAskFlag::Prompt => OnAsk::Prompt,
            OnAskFlag::Park => OnAsk::Park,
            OnAskFlag::Deny => OnAsk::Deny,
        }
    }

    /// Opens a request under the options that were given. Without any, a run goes on under those it
    /// has.
    async fn narrow(&self, driver: &mut Driver) -> Result<()> {
        if self.request.is_given() && driver.session().ended.is_none() {
            let options = self.request.options(driver.agent())?;
            driver.open_request(&Actor::command_line(), &options).await?;
        }
        Ok(())
    }

    /// Refuses words that say nothing.
    fn check(&self) -> Result<()> {
        if self.feedback.as_ref().is_some_and(|text| text.trim().is_empty()) {
            bail!("the feedback is blank; say what the model should know, or leave --feedback out");
        }
        Ok(())
    }

    /// Refuses words for a session in which nobody will hear them.
    fn heard(&self, session: &Session) -> Result<()> {
        if self.feedback.is_some() && session.ended.is_some() {
            bail!("session {} is over, so the feedback would reach nobody", session.id);
        }
        Ok(())
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    options.how.check()?;
    let begun = if options.new { speaker::Begun::No } else { speaker::Begun::Newest("run-") };
    let cast = cast(place, &options.how.settings, &options.speaks, &begun)?;
    let Cast { mut crew, played, ready, text, access, speaker } = cast;
    crew.on_ask = options.how.on_ask();
    crew.skips = options.how.leaves_out.skips();
    if !options.image.is_empty() {
        model::shows_pictures(&text)?;
    }
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    let mut written = None;
    block_on(servers.around(async {
        let done = async {
            let mut stop = Stop::listen()?;
            prompts::roll_forward(place, opened.runtime.catch_up().await?.as_ref());
            let begun = tokio::select! {
                biased;
                begun = begin(&opened, crew, played, options, speaker, &mut written) => begun?,
                exit = stop.heard() => return Ok(exit),
            };
            match begun {
                Begun::Driver(driver, _hold) => {
                    tell(played, &options.how);
                    drive(&opened, *driver, &mut written, &options.how, &ready, stop).await
                }
                Begun::Completed(session) => completed(&opened, &session, &options.how).await,
            }
        };
        let done = done.await;
        rest(&opened, written, &options.how).await;
        done
    }))
}

/// Drives one session that is named, as `sessions resume` does.
pub(crate) fn resume(place: &Place, session: &SessionId, how: &How) -> Result<Exit> {
    how.check()?;
    let begun = speaker::Begun::Session(session);
    let cast = cast(place, &how.settings, &Speaks::default(), &begun)?;
    let Cast { mut crew, played, ready, text, access, .. } = cast;
    crew.on_ask = how.on_ask();
    crew.skips = how.leaves_out.skips();
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    block_on(servers.around(async {
        let mut written = None;
        let done = async {
            let mut stop = Stop::listen()?;
            let claim = claim(&opened, crew, session, &mut written);
            let (mut driver, _hold) = tokio::select! {
                biased;
                taken = opened.take(session, how.have.rival(), claim) => taken?,
                exit = stop.heard() => return Ok(exit),
            };
            same_player(played, &driver.session())?;
            tell(played, how);
            how.heard(&driver.session())?;
            how.narrow(&mut driver).await?;
            drive(&opened, driver, &mut written, how, &ready, stop).await
        };
        let done = done.await;
        rest(&opened, written, how).await;
        done
    }))
}

/// Goes on with a session that this process has by now: what others wrote until then is not its own.
async fn claim(
    opened: &Opened,
    crew: Crew,
    session: &SessionId,
    written: &mut Option<Written>,
) -> Result<Driver> {
    *written = Some(Written::so_far(opened.store.as_ref(), session).await?);
    Ok(Driver::resume(Arc::clone(&opened.runtime), crew, session.clone()).await?)
}

/// Prints what the log has of a run and nobody printed, where its events are printed: whatever ended
/// it may have been written down too.
async fn rest(opened: &Opened, written: Option<Written>, how: &How) {
    if let Some(mut written) = written {
        written.rest(opened.store.as_ref(), how.shows()).await;
    }
}

/// Refuses to let the shipped script go on with what a model began.
pub(crate) fn same_player(played: Played, session: &Session) -> Result<()> {
    let model = session.model.as_deref().filter(|model| *model != model::DEMO);
    if let Some(model) = model.filter(|_| played == Played::ByTheDemo) {
        bail!(
            "{} was begun with {model}, and no model is configured now. Name it again: --model, \
             with --base-url where you gave one, or `settings.model` in toolgate.yaml",
            session.id
        );
    }
    Ok(())
}

/// Says who plays the model, when nobody asked for it.
fn tell(played: Played, how: &How) {
    if played == Played::ByTheDemo && how.shows() == Shows::Lines {
        console::hint("No model is configured: a script plays one. Your own: --model ollama:qwen3");
    }
}

/// Everybody a run takes.
pub(crate) struct Cast {
    pub(crate) crew: Crew,
    pub(crate) played: Played,
    pub(crate) ready: Ready,
    /// The configuration that holds.
    pub(crate) text: AgentText,
    /// Leave to use what it names.
    pub(crate) access: TrustedAccess,
    /// As whom a new session speaks.
    pub(crate) speaker: Speaker,
}

pub(crate) fn cast(
    place: &Place,
    settings: &Flags,
    speaks: &Speaks,
    begun: &speaker::Begun<'_>,
) -> Result<Cast> {
    let trusted = block_on(place.trusted_crew(settings))?;
    let TrustedCrew { mut crew, mut text, mut access } = trusted;
    let (speaker, model) = speaks.speaker(place, &crew.agent, &text, begun)?;
    if let Some(own) = speaker::with_model(settings, model) {
        TrustedCrew { crew, text, access } = block_on(place.trusted_crew(&own))?;
    }
    let (provider, played) = model::provider(&access, &text, &crew.agent)?;
    crew.provider = Some(provider);
    let ready = Ready::default();
    crew.person = AtTerminal::here(place, &crew.agent, ready.clone());
    Ok(Cast { crew, played, ready, text, access, speaker })
}

/// What `run` found to do.
enum Begun {
    /// A session to drive, which this process has.
    Driver(Box<Driver>, Hold),
    /// Nothing: the session is complete.
    Completed(Box<Session>),
}

/// The session to drive: the newest one that fits, or a new one.
async fn begin(
    opened: &Opened,
    crew: Crew,
    played: Played,
    options: &Options,
    speaker: Speaker,
    written: &mut Option<Written>,
) -> Result<Begun> {
    let newest = if options.new { None } else { newest(opened).await? };
    let premise = options.premise.as_deref();
    if premise.is_some_and(|premise| premise.trim().is_empty()) {
        bail!("the premise is blank; say what you want written");
    }
    match (newest, premise) {
        (Some(session), premise) if premise.is_none_or(|premise| same(premise, &session)) => {
            options.how.heard(&session)?;
            options.speaks.goes_on(&speaker, &session)?;
            if !options.image.is_empty() {
                bail!(
                    "session {} has begun, and pictures are shown from the beginning; add --new, \
                     or leave --image out",
                    session.id
                );
            }
            if session.ended.is_some() {
                return Ok(Begun::Completed(Box::new(session)));
            }
            same_player(played, &session)?;
            let claim = claim(opened, crew, &session.id, written);
            let rival = options.how.have.rival();
            let (mut driver, hold) = opened.take(&session.id, rival, claim).await?;
            options.how.narrow(&mut driver).await?;
            Ok(Begun::Driver(Box::new(driver), hold))
        }
        (Some(session), Some(_)) => bail!(
            "session {} is about something else: {:?}. Run without a premise to go on with it, \
             or add --new",
            session.id,
            session.title
        ),
        (_, None) => bail!(
            "say what you want written: toolgate run \"a lighthouse keeper who collects storms\""
        ),
        (None, Some(premise)) => {
            let runtime = Arc::clone(&opened.runtime);
            let actor = Actor::command_line();
            let limits = &crew.agent.limits;
            let pictures = options.image.iter().map(|file| picture(file, limits));
            let pictures = pictures.collect::<Result<_>>()?;
            let Speaker { agent, conversation } = speaker;
            let title = premise.to_owned();
            let request = options.how.request.options(&crew.agent)?;
            let start = Start { title, pictures, chat: false, agent, conversation, request };
            let id = new_id("run")?;
            let hold = opened.hold(&id, Rival::Respected)?;
            *written = Some(Written::nothing(id.clone()));
            let driver = Driver::open_with(runtime, crew, id, &actor, start).await?;
            if played == Played::ByTheDemo && opened.runtime.project().0.state.shelves().count() > 0
            {
                console::tell(
                    "The script knows nothing of what is in this folder, so much of it will be \
                     refused. In an empty folder you see more: --project DIR",
                );
            }
            Ok(Begun::Driver(Box::new(driver), hold))
        }
    }
}

/// Whether a session is about a premise.
fn same(premise: &str, session: &Session) -> bool {
    premise.trim() == session.title.trim()
}

/// The newest run. Ids tell the second in which they were made, so only those that can be the newest
/// are read.
async fn newest(opened: &Opened) -> Result<Option<Session>> {
    let store = opened.store.as_ref();
    let mut newest: Option<Session> = None;
    let project = reading::project(store).await?;
    let runs = || project.sessions.iter().filter(|id| id.as_str().starts_with("run-"));
    let last = runs().filter_map(second).max();
    for id in runs().filter(|id| second(id).is_none_or(|second| Some(second) == last)) {
        let session = reading::session(store, id).await?;
        if newest.as_ref().is_none_or(|newest| newest.opened_at <= session.opened_at) {
            newest = Some(session);
        }
    }
    Ok(newest)
}

/// The second in which an id was made, where `new_id` made it.
fn second(id: &SessionId) -> Option<&str> {
    let (_, rest) = id.as_str().split_once('-')?;
    let (second, _) = rest.split_once('-')?;
    (second.len() == 14 && second.bytes().all(|b| b.is_ascii_digit())).then_some(second)
}

/// An id that sorts by time and that two processes do not make at once.
pub(crate) fn new_id(kind: &str) -> Result<SessionId> {
    let [a, b] = environment::random()?;
    let moment = SystemClock.now().to_string();
    let digits: String = moment.chars().filter(char::is_ascii_digit).take(14).collect();
    Ok(SessionId::parse(&format!("{kind}-{digits}-{a:02x}{b:02x}"))?)
}

/// Drives a session and shows it.
async fn drive(
    opened: &Opened,
    mut driver: Driver,
    written: &mut Option<Written>,
    how: &How,
    ready: &Ready,
    mut stop: Stop,
) -> Result<Exit> {
    console::replaced_config(&driver);
    let id = driver.session().id.clone();
    if let Some(text) = &how.feedback {
        let text = text.trim().to_owned();
        let who = Actor::command_line();
        opened.runtime.say(&id, &who, Said::Feedback { text, images: Vec::new() }).await?;
    }
    let plain = how.shows() == Shows::Lines;
    if plain {
        let title = console::visible(&driver.session().title);
        console::say(&console::fit(&format!("session {id}: {title}")));
    }
    let detail = if how.verbose { Detail::Full } else { Detail::Lines };
    let words = words(opened, &driver);
    let settings = driver.agent().settings.clone();
    let live = Live::new(detail, settings, Box::new(words.clone()), &driver.session());
    let so_far = written.take().unwrap_or_else(|| Written::nothing(id.clone()));
    let screen = Arc::new(Screen::new(opened, so_far, live, how.shows()));
    let before = Arc::clone(&screen);
    ready.becomes(move || before.clear());
    let watched = watch(&mut driver, &screen, &mut stop).await;
    *written = Some(screen.end().await);
    let watched = watched?;
    // Of all sessions `run` goes on with the newest run.
    let forked = driver.session().origin.is_some();
    let command = if forked { format!("sessions resume {id}") } else { "run".to_owned() };
    let again = format!("toolgate {command}{}", how.settings.model_again());
    let (ending, note) = match watched {
        Watched::Halted(Halt::Ended(ending, note)) => (ending, note),
        Watched::Halted(Halt::Waiting(note)) => {
            console::hint(&note);
            console::hint(&format!("Go on with: {again}, at a terminal, where you are asked."));
            return Ok(Exit::Waiting);
        }
        Watched::Halted(Halt::Listening(_)) => {
            console::hint(&format!(
                "This is a conversation; go on with: toolgate chat --session {id}"
            ));
            return Ok(Exit::Waiting);
        }
        Watched::Halted(Halt::ModelFailed(reason)) => {
            if !how.json {
                console::say(&format!("{} The model failed.", console::mark('✗')));
                console::paragraph(&console::visible(&reason));
            }
            if !driver.session().model.as_deref().is_some_and(|name| name.starts_with("script:")) {
                console::hint("What to do about it: toolgate doctor");
            }
            console::hint(&format!("Everything so far is in the log; go on with: {again}"));
            return Ok(Exit::Failed);
        }
        Watched::Parked(exit) => {
            console::hint(&format!("Parked. Everything so far is in the log; go on with: {again}"));
            return Ok(exit);
        }
    };
    if plain {
        let read = reading::records(opened.store.as_ref(), &id).await?;
        Summary::of(&read.records).print(words().as_deref());
    }
    if !how.json {
        // The words of a completed run were just shown.
        let shown = plain && ending == Ending::Completed;
        ended(ending, if shown { "" } else { &note });
        approvals::remind(&driver.session());
        console::hint(&format!("The whole story: toolgate sessions show {id}"));
    }
    Ok(if ending == Ending::Completed { Exit::Done } else { Exit::Failed })
}

fn ended(ending: Ending, note: &str) {
    let mark = if ending == Ending::Completed { '✓' } else { '✗' };
    console::say("");
    console::say(&format!("{mark} {}.", console::ending(ending)));
    console::paragraph(note);
}

/// Says of a session that it is over, with its figures.
async fn completed(opened: &Opened, session: &Session, how: &How) -> Result<Exit> {
    let ending = session.ended.unwrap_or(Ending::Completed);
    let word = console::ending(ending).to_lowercase();
    let title = console::visible(&session.title);
    let over = console::fit(&format!("session {} is over ({word}): {title}", session.id));
    if how.json {
        // Only events are printed, and there is none.
        console::hint(&over);
    } else {
        console::say(&over);
        if !how.quiet {
            let read = reading::records(opened.store.as_ref(), &session.id).await?;
            Summary::of(&read.records).print(None);
        }
        console::hint("Another story, in another folder: toolgate run --project DIR \"…\"");
        console::hint("With these notes and this manuscript: toolgate run --new \"…\"");
    }
    Ok(if ending == Ending::Completed { Exit::Done } else { Exit::Failed })
}

/// How many words the manuscript has, where a section can tell.
fn words(
    opened: &Opened,
    driver: &Driver,
) -> impl Fn() -> Option<String> + Clone + Send + Sync + 'static {
    let (runtime, agent) = (Arc::clone(&opened.runtime), Arc::clone(driver.agent()));
    let session = Arc::new(Session::new(driver.session().id.clone()));
    move || {
        let toolset = &agent.toolset;
        let variable = toolset.variables().iter().find(|word| word.name == "total_words")?;
        let (project, _) = runtime.project();
        let now = SystemClock.now();
        let world =
            World { session: &session, project: &project, toolset, now, counted: Counted::NotYet };
        let words = (variable.show)(&world);
        Some(words.parse().map(console::grouped).unwrap_or(words))
    }
}

/// How driving came to its end.
pub(crate) enum Watched {
    /// By itself.
    Halted(Halt),
    /// Somebody told the program to stop. The session can be taken up again.
    Parked(Exit),
}

/// Drives to the end, and shows each committed event as soon as it can be shown.
pub(crate) async fn watch(
    driver: &mut Driver,
    screen: &Screen,
    stop: &mut Stop,
) -> Result<Watched> {
    let watched = {
        let tap = |streamed: Streamed<'_>| screen.streamed(streamed);
        let driving = driver.run(&tap);
        let stop = stop.heard();
        tokio::pin!(driving, stop);
        loop {
            tokio::select! {
                biased;
                halted = &mut driving => break halted.map(Watched::Halted),
                // What is under way is dropped, as in a crash, and a resume settles it.
                exit = &mut stop => break Ok(Watched::Parked(exit)),
                () = tokio::time::sleep(std::time::Duration::from_millis(50)) => screen.tick(),
            }
        }
    };
    screen.clear();
    if matches!(watched, Ok(Watched::Parked(_))) {
        driver.park().await?;
    }
    Ok(watched?)
}
