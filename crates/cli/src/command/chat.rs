//! `toolgate chat`: a conversation with the agent, through the same gate.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::ToolAudience;
use toolgate_kernel::config::AgentText;
use toolgate_kernel::event::{Attempt, CallRefused, Event, FaultKind};
use toolgate_kernel::names::{PhaseName, SessionId, nearest};
use toolgate_runtime::{Crew, Driver, Halt, Picture, Start};
use toolgate_store::{Hold, Rival};

use super::chat_commands::{COMMANDS, stage_word};
use super::run::{self, Cast, Watched};
use crate::console::{self, hint, say, tell, visible};
use crate::environment::Flags;
use crate::exit::Exit;
use crate::live::{Detail, Live};
use crate::model::{self, Played};
use crate::picture::{picture, pictures};
use crate::project::{Opened, Place, block_on};
use crate::prompts;
use crate::reading;
use crate::request::RequestFlags;
use crate::screen::{Screen, Shows, Written};
use crate::servers::Servers;
use crate::speaker::{Begun, Speaker, Speaks};
use crate::stop::Stop;
use crate::typing::{Typed, Typing};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate chat --model ollama:qwen3\n  toolgate chat --last\n  \
                  toolgate chat --image cover.png \"What is on it?\"\n\nOn a line: /help says what \
                  can be typed. A backslash at its end, or \"\"\" around several, goes on to the next."
)]
pub(crate) struct Options {
    /// What to say first; asked for when left out.
    message: Option<String>,
    #[command(flatten)]
    settings: Flags,
    #[command(flatten)]
    speaks: Speaks,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    leaves_out: run::LeavesOut,
    /// Go on with this conversation.
    #[arg(long, value_name = "SESSION", conflicts_with = "last")]
    session: Option<String>,
    /// Go on with the newest conversation.
    #[arg(long)]
    last: bool,
    /// A picture shown with the first words; may be given several times.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Show arguments and results of every call.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// Print one committed event per line as JSON; what commands answer is told beside it.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    have: run::Have,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    if options.json {
        console::json_only();
    }
    let named = options.session.as_deref().map(SessionId::parse).transpose()?;
    let begun = match &named {
        Some(id) => Begun::Session(id),
        None if options.last => Begun::Newest("chat-"),
        None => Begun::No,
    };
    let cast = run::cast(place, &options.settings, &options.speaks, &begun)?;
    let Cast { mut crew, ready, text, access, played, speaker } = cast;
    crew.skips = options.leaves_out.skips();
    if !options.image.is_empty() {
        model::shows_pictures(&text)?;
    }
    let opened = place.open_trusted(&access, &crew.agent.limits)?;
    // A reserved folder, which no tool reaches.
    let history = place.home()?.join("chat.history");
    let servers = Servers::join(&mut crew, place, &access, &text, &opened)?;
    block_on(servers.around(async {
        let typing = Typing::begin(Some(history))?;
        prompts::roll_forward(place, opened.runtime.catch_up().await?.as_ref());
        let session = session(&opened, played, options, &speaker).await?;
        let pictures = pictures(&options.image, &crew.agent.limits)?;
        let hold = match &session {
            Some(id) => Some(taken(&opened, id, options.have.rival()).await?),
            None => None,
        };
        let written = match &session {
            Some(id) => Some(Written::so_far(opened.store.as_ref(), id).await?),
            None => None,
        };
        let mut talk = Talk {
            opened: &opened,
            crew,
            text,
            hold,
            session,
            written,
            driver: None,
            speaker,
            request: options.request.clone(),
            pictures,
            detail: if options.verbose { Detail::Full } else { Detail::Lines },
            shows: if options.json { Shows::Json } else { Shows::Lines },
            ready,
            attended: typing.attended(),
            leaves: false,
        };
        let done = talk.on(&typing, options.message.as_deref()).await;
        talk.rest().await;
        done
    }))
}

/// Has a conversation; nobody else is about to have it and to claim it meanwhile.
async fn taken(opened: &Opened, id: &SessionId, rival: Rival) -> Result<Hold> {
    let _handover = opened.handover(id).await?;
    opened.hold(id, rival)
}

/// The conversation to go on with.
async fn session(
    opened: &Opened,
    played: Played,
    options: &Options,
    speaker: &Speaker,
) -> Result<Option<SessionId>> {
    let store = opened.store.as_ref();
    let id = match &options.session {
        Some(id) => SessionId::parse(id)?,
        None if options.last => {
            let project = reading::project(store).await?;
            let chats = project.sessions.iter().filter(|id| id.as_str().starts_with("chat-"));
            chats.max().cloned().context("there is no conversation yet")?
        }
        None => return Ok(None),
    };
    let session = reading::session(store, &id).await?;
    if !session.chat {
        bail!("{id} is a run; go on with: toolgate sessions resume {id}");
    }
    run::same_player(played, &session)?;
    options.speaks.goes_on(speaker, &session)?;
    Ok(Some(id))
}

/// A conversation that goes on.
struct Talk<'a> {
    opened: &'a Opened,
    crew: Crew,
    /// The configuration that holds.
    text: AgentText,
    session: Option<SessionId>,
    /// Up to where its records are printed, where they are.
    written: Option<Written>,
    /// The session is this process's for as long as the conversation goes on.
    hold: Option<Hold>,
    driver: Option<Driver>,
    /// As whom a new conversation speaks.
    speaker: Speaker,
    /// What every message of it narrows.
    request: RequestFlags,
    pictures: Vec<Picture>,
    detail: Detail,
    shows: Shows,
    ready: crate::person::Ready,
    /// Whether a person types.
    attended: bool,
    /// Whether the program was told to go.
    leaves: bool,
}

/// The next words, or the end when the program is told to stop while it waits for them.
async fn until_told(typing: &Typing) -> Result<Typed> {
    // What was heard before, such as Ctrl-C in the middle of an answer, does not count.
    let mut stop = Stop::listen()?;
    tokio::select! {
        biased;
        _ = stop.heard() => Ok(Typed::Closed),
        typed = typing.next("> ") => typed,
    }
}

/// Whether the last reply was not accepted.
fn rejected(driver: &Driver) -> bool {
    let session = driver.session();
    session.failure.as_ref().is_some_and(|(fault, _)| fault.rejects_reply())
}

/// Which words the model is to answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Those that were just said.
    New,
    /// Those of before, once more.
    Old,
}

/// What a line asks for.
enum Asked {
    /// The next line.
    Next,
    /// The model, with words or once more with the last ones.
    Model(Option<String>),
    /// The end.
    Quit,
}

impl Talk<'_> {
    async fn on(&mut self, typing: &Typing, first: Option<&str>) -> Result<Exit> {
        if self.shows == Shows::Lines && typing.attended() {
            self.greet();
        }
        let mut first = first.map(str::to_owned);
        // One message, asked for and answered, is a command like any other.
        let once = first.is_some() && !typing.attended();
        loop {
            let text = match first.take() {
                Some(text) => text,
                None => match until_told(typing).await {
                    // What cannot be taken does not end the conversation.
                    Err(error) if typing.attended() => {
                        tell(&format!("{error:#}"));
                        continue;
                    }
                    Err(error) => return Err(error),
                    Ok(Typed::Said(text)) => text,
                    Ok(Typed::Nothing) => {
                        hint("Ctrl-D ends the conversation; /help says what can be typed.");
                        continue;
                    }
                    Ok(Typed::Closed) => return Ok(Exit::Done),
                },
            };
            let exit = match self.take(&text).await? {
                Asked::Next => continue,
                Asked::Quit => return Ok(Exit::Done),
                Asked::Model(words) => match self.ask(words).await {
                    Ok(exit) => exit,
                    // What was turned down before it was sent does not end the conversation.
                    Err(error) if typing.attended() => {
                        tell(&format!("{error:#}"));
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            if once || self.leaves || (exit != Exit::Done && !typing.attended()) {
                return Ok(exit);
            }
        }
    }

    fn greet(&self) {
        let model = self.crew.provider.as_ref().map_or("no model", |provider| provider.name());
        say(&console::dim(&console::fit(&format!(
            "Talking to {model}. /help for help, Ctrl-D to leave."
        ))));
        if let Some(id) = &self.session {
            say(&console::dim(&format!("Going on with {id}.")));
        }
    }

    /// What a line means.
    async fn take(&mut self, line: &str) -> Result<Asked> {
        let line = line.trim();
        if !line.starts_with('/') {
            let words = Some(line.to_owned()).filter(|line| !line.is_empty());
            return Ok(words.map_or(Asked::Next, |words| Asked::Model(Some(words))));
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let done = match word {
            "/help" => {
                for (word, about) in COMMANDS {
                    say(&format!("  {word:<9} {about}"));
                }
                say("  Several lines: a backslash at the end of a line, or \"\"\" around them.");
                Ok(())
            }
            "/phase" => self.phase(rest.trim()).await,
            "/tools" => self.tools().await,
            "/why" => self.why().await,
            "/history" => self.history().await,
            "/image" => self.image(std::path::Path::new(rest.trim())),
            "/new" => {
                let begun = self.driver().await?.map(|driver| driver.session());
                if let Some(session) = begun {
                    // The next conversation speaks as this one did.
                    let (agent, conversation) = (session.agent.clone(), session.conversation);
                    self.speaker = Speaker { agent, conversation };
                }
                self.rest().await;
                (self.session, self.driver, self.hold) = (None, None, None);
                say("  The next words begin another conversation.");
                Ok(())
            }
            "/retry" => return Ok(Asked::Model(None)),
            "/quit" | "/exit" => return Ok(Asked::Quit),
            other => {
                let words = COMMANDS.iter().map(|(word, _)| *word);
                let near = toolgate_kernel::names::nearest(other, words);
                let near = near.map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
                say(&format!("  There is no {}.{near} /help lists what there is.", visible(other)));
                Ok(())
            }
        };
        // What was typed wrongly does not end the conversation.
        if let Err(error) = done {
            tell(&format!("{error:#}"));
        }
        Ok(Asked::Next)
    }

    fn image(&mut self, file: &std::path::Path) -> Result<()> {
        model::shows_pictures(&self.text)?;
        let most = self.crew.agent.limits.pictures_max;
        if u64::try_from(self.pictures.len()).is_ok_and(|have| have >= most) {
            bail!("at most {most} pictures go with one message (limits.pictures_max)");
        }
        self.pictures.push(picture(file, &self.crew.agent.limits)?);
        say("  It goes with your next words.");
        Ok(())
    }

    /// The driver of the conversation, when it has begun.
    async fn driver(&mut self) -> Result<Option<&mut Driver>> {
        if self.driver.is_none()
            && let Some(id) = &self.session
        {
            // Whoever took the conversation over while nobody spoke is not fenced now, and nobody
            // does so in between.
            let handover = self.opened.handover(id).await?;
            if let Some(lost) = self.hold.as_ref().and_then(|hold| hold.lost(id)) {
                return Err(lost.into());
            }
            let runtime = Arc::clone(&self.opened.runtime);
            self.driver = Some(Driver::resume(runtime, self.crew.clone(), id.clone()).await?);
            drop(handover);
        }
        Ok(self.driver.as_mut())
    }

    /// Prints what the log has of the conversation and nobody printed, where its events are printed.
    async fn rest(&mut self) {
        if let Some(mut written) = self.written.take() {
            written.rest(self.opened.store.as_ref(), self.shows).await;
        }
    }

    async fn ask(&mut self, words: Option<String>) -> Result<Exit> {
        let begun = self.driver().await?.is_some();
        let pictures = match &words {
            Some(_) => std::mem::take(&mut self.pictures),
            None => Vec::new(),
        };
        match (words, begun) {
            (Some(title), false) => {
                let (id, actor) = (run::new_id("chat")?, Actor::command_line());
                let Speaker { agent, conversation } = self.speaker.clone();
                let request = self.request.options(&self.crew.agent)?;
                let start = Start { title, pictures, chat: true, agent, conversation, request };
                let runtime = Arc::clone(&self.opened.runtime);
                let crew = self.crew.clone();
                self.hold = Some(self.opened.hold(&id, Rival::Respected)?);
                self.written = Some(Written::nothing(id.clone()));
                let driver = Driver::open_with(runtime, crew, id.clone(), &actor, start).await?;
                (self.session, self.driver) = (Some(id), Some(driver));
            }
            (Some(text), true) => {
                let actor = Actor::command_line();
                let options = self.request.options(&self.crew.agent)?;
                if let Some(driver) = self.driver().await? {
                    driver.open_request(&actor, &options).await?;
                }
                let Some(id) = &self.session else { bail!("there is no conversation yet") };
                let limits = &self.crew.agent.limits;
                self.opened.runtime.show(id, &actor, text, pictures, limits).await?;
            }
            (None, true) => return self.listen(Words::Old).await,
            (None, false) => {
                say("  Nothing was said yet.");
                return Ok(Exit::Done);
            }
        }
        self.listen(Words::New).await
    }

    /// Lets the model answer, and shows it.
    async fn listen(&mut self, words: Words) -> Result<Exit> {
        let Some(mut driver) = self.driver.take() else { return Ok(Exit::Done) };
        let turn = driver.session().turn;
        let settings = driver.agent().settings.clone();
        let live = Live::talk(self.detail, settings, &driver.session());
        let mut stop = Stop::listen()?;
        let so_far = self.written.take();
        let so_far = so_far.unwrap_or_else(|| Written::nothing(driver.session().id.clone()));
        let screen = Arc::new(Screen::new(self.opened, so_far, live, self.shows));
        let before = Arc::clone(&screen);
        self.ready.becomes(move || before.clear());
        let watched = run::watch(&mut driver, &screen, &mut stop).await;
        self.written = Some(screen.end().await);
        match watched? {
            Watched::Halted(Halt::Listening(why)) if rejected(&driver) => {
                why.lines().for_each(|line| tell(&visible(line)));
                hint("The words are in the log: toolgate sessions show. Say it in other words.");
                self.driver = Some(driver);
                Ok(Exit::Failed)
            }
            Watched::Halted(Halt::Listening(why)) => {
                if !why.is_empty() {
                    tell(&format!("It stopped here: {why}. Say something and it goes on."));
                } else if words == Words::Old && driver.session().turn == turn {
                    hint("There is nothing to ask again: the model has answered.");
                }
                let nothing = driver.session().said_nothing_since(turn);
                if nothing {
                    tell("The model's reply was empty: no words and no calls.");
                    hint("Say it in other words, or look at `toolgate doctor`.");
                }
                self.driver = Some(driver);
                Ok(if nothing { Exit::Failed } else { Exit::Done })
            }
            Watched::Halted(Halt::ModelFailed(reason)) => {
                tell(&format!("The model failed: {}", visible(&reason)));
                let failure = driver.session().failure.as_ref().map(|(fault, _)| *fault);
                let rest_ms = self.crew.provider.as_ref().and_then(|model| model.rest_ms());
                let rests = rest_ms.map(|ms| {
                    let seconds = console::grouped(ms.div_ceil(1_000));
                    format!("Your words are kept: in {seconds} s /retry asks again, not before.")
                });
                hint(if !self.attended {
                    "Your words are kept: toolgate chat --last goes on; `toolgate doctor` says what \
                     to do."
                } else if let Some(rests) = &rests {
                    rests
                } else if failure.is_some_and(FaultKind::may_be_last_words) {
                    "/retry asks again; other words take the place of those."
                } else {
                    "Your words are kept: /retry asks again; `toolgate doctor` says what to do."
                });
                self.driver = Some(driver);
                Ok(Exit::Failed)
            }
            Watched::Halted(Halt::Waiting(note)) => {
                hint(&note);
                Ok(Exit::Waiting)
            }
            Watched::Halted(Halt::Ended(ending, note)) => {
                tell(&format!("The conversation is over: {}. {note}", console::ending(ending)));
                (self.session, self.hold) = (None, None);
                Ok(Exit::Failed)
            }
            // What was under way is settled when the conversation goes on.
            Watched::Parked(exit) => {
                hint("Stopped.");
                // Ctrl-C stops an answer; whoever is told to go goes.
                self.leaves = exit == Exit::Done;
                Ok(exit)
            }
        }
    }

    async fn phase(&mut self, name: &str) -> Result<()> {
        let agent = Arc::clone(&self.crew.agent);
        let names: Vec<&str> = agent.phases().map(|phase| phase.name.as_str()).collect();
        if !name.is_empty() && !names.contains(&name) {
            let same = names.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
            let near = same.or_else(|| nearest(name, names.iter().copied()));
            let told = match near {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", names.join(", ")),
            };
            bail!("there is no phase {}; {told}", visible(name));
        }
        let first = agent.first_phase().map(|phase| phase.name.clone());
        let Some(driver) = self.driver().await? else {
            let now = first.map(|name| name.to_string()).unwrap_or_default();
            if name.is_empty() {
                say(&format!("  {now}"));
            } else {
                say("  Say something first; the conversation begins in its first phase.");
            }
            return Ok(());
        };
        if !name.is_empty() {
            let phase = PhaseName::parse(name)?;
            let actor = Actor::command_line();
            driver.move_to(&actor, &phase, "asked for in the conversation").await?;
        }
        let now = driver.session().phase.clone();
        for phase in agent.phases() {
            let here = Some(&phase.name) == now.as_ref();
            say(&format!("  {} {}", if here { '●' } else { '○' }, phase.name));
        }
        Ok(())
    }

    async fn tools(&mut self) -> Result<()> {
        let agent = Arc::clone(&self.crew.agent);
        let first = agent.first_phase().map(|phase| phase.name.clone());
        let (now, who) = match self.driver().await? {
            Some(driver) => (driver.session().phase.clone(), driver.session().agent.clone()),
            None => (first, self.speaker.agent.clone()),
        };
        let Some(phase) = now else { return Ok(()) };
        let mut none = true;
        let request = self.request.options(&agent)?;
        let audience = ToolAudience { agent: who.as_ref(), request: Some(&request) };
        for entry in agent.visible(&phase, audience) {
            none = false;
            say(&console::fit(&format!("  {:<24} {}", entry.spec.name.as_str(), entry.spec.about)));
        }
        if none {
            say(&format!("  {phase} grants no tools."));
        }
        Ok(())
    }

    /// Why the last refused call was refused, or the last reply failed after it, from the log.
    async fn why(&mut self) -> Result<()> {
        let Some(id) = self.session.clone() else {
            say("  Nothing was called yet.");
            return Ok(());
        };
        let records = reading::history(self.opened.store.as_ref(), &id).await?;
        let events = || records.iter().rev().map(|record| &record.event);
        let failed = |event: &&Event| matches!(event, Event::ModelFailed { .. });
        let refused = |event: &&Event| matches!(event, Event::CallRefused(_));
        // A failure is over once the model has answered.
        let since = events().take_while(|event| !matches!(event, Event::ModelReplied { .. }));
        let last = since.clone().find(|event| failed(event) || refused(event));
        let last = last.or_else(|| events().find(refused));
        match last {
            Some(Event::CallRefused(refused)) => refusal(refused),
            Some(Event::ModelFailed { reason, fault, attempts, .. }) => {
                say(&format!("  The model failed ({}).", fault.as_str()));
                console::paragraph(reason);
                for Attempt { reason, .. } in attempts {
                    console::paragraph(&format!("before that: {reason}"));
                }
            }
            Some(_) | None if events().any(|event| failed(&event)) => {
                say(
                    "  No call was refused, and the last reply is whole: what failed before is over.",
                );
            }
            Some(_) | None => say("  No call was refused, and no reply failed."),
        }
        Ok(())
    }

    async fn history(&mut self) -> Result<()> {
        let Some(id) = self.session.clone() else {
            say("  Nothing was said yet.");
            return Ok(());
        };
        let records = reading::history(self.opened.store.as_ref(), &id).await?;
        let live = Live::of_log(self.detail);
        records.iter().for_each(|record| live.event(record));
        live.done();
        Ok(())
    }
}

/// Why a call was refused.
fn refusal(CallRefused { call, stage, denial, envelope }: &CallRefused) {
    let policy = denial.as_ref().map(|denial| format!(" by {}", denial.policy));
    say(&format!(
        "  {call} {} was refused{}, when it was {}.",
        visible(&envelope.tool),
        policy.unwrap_or_default(),
        stage_word(*stage)
    ));
    for trouble in &envelope.errors {
        console::paragraph(&format!("{}: {}", trouble.code, trouble.message));
        if let Some(allowed) = trouble.allowed.as_ref().filter(|allowed| !allowed.is_empty()) {
            console::paragraph(&format!("allowed: {}", allowed.join(", ")));
        }
    }
}
