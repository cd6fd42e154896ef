//! `toolgate approvals`: the calls that wait for a person's yes, and the person's word on them.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Decision, Said};
use toolgate_kernel::fold::{Session, Waiting};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::tool::ToolSpec;
use toolgate_runtime::Driver;
use toolgate_runtime::port::Clock;
use toolgate_store::Rival;

use crate::card::{Card, Row, all_cards, cards, print_rows};
use crate::console::{self, hint, say, tell, visible};
use crate::credential;
use crate::environment::Flags;
use crate::exit::{self, Exit};
use crate::host::SystemClock;
use crate::known::Known;
use crate::person::{self, Nobody, TRIES, typed_args};
use crate::project::{Place, block_on};
use crate::reading;
use crate::servers::Servers;
use crate::visible::{exact, named};

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate approvals list\n  toolgate approvals approve c7\n  \
                        toolgate approvals deny c7 --note \"Not on a Friday.\"\n  \
                        toolgate approvals edit c7")]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists the calls that wait, and what was allowed for whole sessions.
    #[command(after_help = "Example:\n  toolgate approvals list")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows exactly what would run.
    #[command(after_help = "Example:\n  toolgate approvals show c7")]
    Show {
        #[command(flatten)]
        which: Which,
        /// Print it as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Shows exactly what would run, and lets it run when you say so.
    #[command(
        after_help = "Examples:\n  toolgate approvals approve c7\n  toolgate approvals approve c7 --always"
    )]
    Approve {
        #[command(flatten)]
        which: Which,
        /// The same policy need not ask about this tool again in this session.
        #[arg(long)]
        always: bool,
        /// A sentence for the model.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Says no.
    #[command(after_help = "Example:\n  toolgate approvals deny c7 --note \"Not on a Friday.\"")]
    Deny {
        #[command(flatten)]
        which: Which,
        /// A sentence for the model.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Lets it run with other arguments. The model is told.
    #[command(
        after_help = "Examples:\n  toolgate approvals edit c7\n  toolgate approvals edit c7 --args '{\"to\": \"home\"}'"
    )]
    Edit {
        #[command(flatten)]
        which: Which,
        /// The arguments as JSON; without it you are asked for them.
        #[arg(long, value_name = "JSON")]
        args: Option<String>,
        /// A sentence for the model.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Takes back what was allowed for a whole session.
    #[command(after_help = "Example:\n  toolgate approvals withdraw send_letter")]
    Withdraw {
        /// The tool.
        tool: String,
        /// The session; it may be left out when only one allows the tool.
        #[arg(long)]
        session: Option<String>,
    },
}

#[derive(Args)]
struct Which {
    /// The call, as `list` shows it.
    call: String,
    /// The session; it may be left out when only one has a call of that name waiting.
    #[arg(long)]
    session: Option<String>,
}

impl Options {
    pub(crate) fn json(&self) -> bool {
        matches!(self.what, What::List { json: true } | What::Show { json: true, .. })
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    match &options.what {
        What::List { json } => list(place, *json),
        What::Show { which, json } => show(place, which, *json),
        What::Approve { which, always, note } => {
            decide(place, which, &Verb::Approve { always: *always }, note)
        }
        What::Deny { which, note } => decide(place, which, &Verb::Deny, note),
        What::Edit { which, args, note } => {
            decide(place, which, &Verb::Edit(args.as_deref()), note)
        }
        What::Withdraw { tool, session } => withdraw(place, tool, session.as_deref()),
    }
}

/// Reminds of what a session waits for.
pub(crate) fn remind(session: &Session) {
    let (waiting, over) = (session.waiting.len(), session.ended.is_some());
    match waiting {
        0 => {}
        // Nothing is made any more in a session that is over.
        1 if over => hint("1 call waited for your word. The session is over, so it is not made."),
        n if over => hint(&format!(
            "{n} calls waited for your word. The session is over, so they are not made."
        )),
        1 => hint("1 call waits for your word: toolgate approvals list"),
        n => hint(&format!("{n} calls wait for your word: toolgate approvals list")),
    }
}

/// The sessions that are not over.
async fn sessions(place: &Place) -> Result<Vec<Session>> {
    let log = place.log()?;
    let project = reading::project(log.store.as_ref()).await?;
    let mut open = Vec::new();
    for id in &project.sessions {
        let session = match reading::caught_up(&log, id).await {
            Ok(session) => session,
            // What nobody signed says nothing about this session, and nothing about the others.
            Err(error) => {
                console::tell(&format!("{id}: {error:#}"));
                reading::session(log.store.as_ref(), id).await?
            }
        };
        if session.ended.is_none() || !session.waiting.is_empty() {
            open.push(session);
        }
    }
    Ok(open)
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let sessions = block_on(sessions(place))?;
    let now = SystemClock.now();
    let cards = all_cards(&sessions, now);
    let allowed: Vec<_> =
        sessions.iter().flat_map(|s| s.allowances.iter().map(move |one| (s, one))).collect();
    if json {
        cards.iter().for_each(console::json);
        for (session, allowance) in &allowed {
            console::json(&serde_json::json!({ "session": session.id, "allowance": allowance }));
        }
        return Ok(Exit::Done);
    }
    let mut rows: Vec<Row> = cards.iter().map(Card::row).collect();
    rows.extend(allowed.iter().map(|(session, one)| Row {
        what: "always".to_owned(),
        tool: one.tool.to_string(),
        why: format!("{} need not ask, says {}", one.policy, named(&one.who)),
        session: session.id.clone(),
    }));
    print_rows(&rows);
    match (cards.first(), allowed.first()) {
        (Some(first), _) => {
            hint(&format!("\nLook at one, then decide: {}", first.command("show")));
        }
        (None, Some((_, one))) => {
            hint("Nothing waits for your word.");
            hint(&format!("Take one back: toolgate approvals withdraw {}", one.tool));
        }
        (None, None) => hint("Nothing waits for your word."),
    }
    Ok(Exit::Done)
}

/// The one call that is meant.
fn find(place: &Place, which: &Which) -> Result<Card> {
    let (session, call) = match which.call.split_once('/') {
        Some((session, call)) => (Some(session), call),
        None => (which.session.as_deref(), which.call.as_str()),
    };
    let now = SystemClock.now();
    let all = all_cards(&block_on(sessions(place))?, now);
    let there = |card: &&Card| session.is_none_or(|id| card.session.as_str() == id);
    let waiting: Vec<String> = all.iter().filter(there).map(Card::name).collect();
    let fits = |card: &Card| card.call.to_string() == call && there(&card);
    let mut found = all.into_iter().filter(fits);
    let card = found.next().with_context(|| match waiting.as_slice() {
        [] => format!("{call} does not wait for your word; nothing does"),
        waiting => format!("{call} does not wait for your word; these do: {}", waiting.join(", ")),
    })?;
    ensure!(
        found.next().is_none(),
        "several sessions have a {call} that waits; name one with --session"
    );
    Ok(card)
}

fn show(place: &Place, which: &Which, json: bool) -> Result<Exit> {
    let card = find(place, which)?;
    if json {
        console::json(&card);
    } else {
        card.lines().iter().for_each(|line| say(line));
        hint("");
        for (what, verb) in
            [("Let it run", "approve"), ("Refuse it", "deny"), ("Change it", "edit")]
        {
            hint(&format!("{what:<11} {}", card.command(verb)));
        }
    }
    Ok(Exit::Done)
}

/// What a person would do about a call.
enum Verb<'a> {
    Approve {
        always: bool,
    },
    Deny,
    /// Lets it run with these arguments, or with some that are typed.
    Edit(Option<&'a str>),
}

impl Verb<'_> {
    /// The word that is typed for it, what it does, and what is said afterwards.
    fn words(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Approve { .. } => ("approve", "let it run", "approved"),
            Self::Deny => ("deny", "refuse it", "denied"),
            Self::Edit(_) => ("edit", "let it run so", "approved with your arguments"),
        }
    }
}

/// What is known of the tool of a card; nothing of a server's tool that was never seen.
fn known(place: &Place, card: &Card) -> Result<(Option<Arc<ToolSpec>>, bool)> {
    let (crew, text) = place.crew_with(&Flags::default())?;
    let agent = Known::of(&crew.agent, &text, &place.pins()?)?.agent;
    let at = agent.toolset.find(card.tool.as_str());
    let spec = at.and_then(|at| agent.toolset.entries().get(at)).map(|entry| entry.spec.clone());
    Ok((spec, agent.asks_each_time(&card.tool, &card.policy)))
}

/// Other arguments for a call: given, or typed until the tool would take them.
fn edited(place: &Place, card: &Card, given: Option<&str>) -> Result<Map<String, Value>> {
    let spec = known(place, card)?.0;
    if let Some(given) = given {
        return typed_args(given, spec.as_deref()).map_err(undecided);
    }
    hint("Type the arguments as one line of JSON:");
    for left in (0..TRIES).rev() {
        let typed = block_on(async { Ok(person::word().await) })?;
        let typed = typed.context("no arguments were given; nothing was decided")?;
        match typed_args(&typed, spec.as_deref()) {
            Err(error) if left > 0 => {
                tell(&format!("{error:#}"));
                hint("Type them once more:");
            }
            other => return other.map_err(undecided),
        }
    }
    bail!("nothing was decided")
}

fn undecided(error: anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}\nNothing was decided.")
}

fn nothing_decided() -> Exit {
    say("Nothing was decided.");
    Exit::Failed
}

/// Takes a person's word on a call, and makes the call where nobody else does.
fn decide(place: &Place, which: &Which, verb: &Verb<'_>, note: &str) -> Result<Exit> {
    let card = find(place, which)?;
    person::attended().then_some(()).ok_or(Nobody)?;
    if !block_on(async { Ok(person::paged(&card.lines()).await.is_some()) })? {
        return Ok(nothing_decided());
    }
    let (word, what, done) = verb.words();
    let (mut args, mut always) = (None, false);
    match verb {
        Verb::Approve { always: false } | Verb::Deny => {}
        Verb::Approve { always: true } => {
            let (policy, tool) = (&card.policy, &card.tool);
            let each = known(place, &card)?.1;
            ensure!(!each, "{policy} asks about each call of {tool}; leave --always out");
            hint(&format!("From then on {policy} does not ask about {tool} in this session."));
            always = true;
        }
        Verb::Edit(given) => {
            let changed = edited(place, &card, *given)?;
            ensure!(changed != card.args(), "these are the arguments it has; use `approve`");
            let shown = person::would_run(card.tool.as_str(), &changed);
            if !block_on(async { Ok(person::paged(&shown).await.is_some()) })? {
                return Ok(nothing_decided());
            }
            args = Some(Value::Object(changed));
        }
    }
    let (answer, note) = match verb {
        Verb::Deny => (Answer::Deny, note.trim()),
        Verb::Approve { .. } | Verb::Edit(_) => (Answer::Approve, note.trim()),
    };
    if !note.is_empty() {
        hint(&format!("  your note: {}", exact(note)));
    }
    block_on(async {
        if !person::confirm(word, what).await? {
            return Ok(nothing_decided());
        }
        let (call, shown, note) = (card.call, card.shown, note.to_owned());
        let decision = Decision { call, shown, answer, note, args, always };
        let person = credential::decider(&place.folder).await?;
        // What was shown must still be what waits.
        let log = place.log()?;
        let session = reading::caught_up(&log, &card.session).await?;
        let same = |other: &Card| other.call == card.call && other.shown == card.shown;
        if !cards(&session, SystemClock.now()).iter().any(same) {
            bail!(
                "{} changed, or was decided, while you were looking at it; look again",
                card.call
            );
        }
        let opened = place.open()?;
        let said = Said::Answer(Box::new(decision));
        opened.runtime.say(&card.session, person.author(), said).await?;
        say(&format!("{} is {done}.", card.call));
        drop(opened);
        if answer == Answer::Deny {
            return Ok(Exit::Done);
        }
        // A client elsewhere would never learn what came of a call that is made here.
        if matches!(card.actor, Actor::Client(_)) && !card.actor.is_command_line() {
            say(&format!("It is made when {} makes the call again.", card.who()));
            return Ok(Exit::Done);
        }
        carry_out(place, &card, session.config).await
    })
}

/// Makes the approved call here, unless another process has the session and does it.
async fn carry_out(place: &Place, card: &Card, config: Option<Digest>) -> Result<Exit> {
    let (mut crew, text) = place.crew_with(&Flags::default())?;
    let opened = place.open()?;
    let servers = Servers::join(&mut crew, place, &text, &opened)?;
    servers
        .around_until_told(async {
            let held = opened.hold(&card.session, Rival::Respected);
            let _hold = match held {
                Err(error) if exit::of(&error) == Exit::Busy => {
                    hint("Another process has the session; it makes the call at its next step.");
                    return Ok(Exit::Done);
                }
                held => held?,
            };
            let runtime = opened.runtime.clone();
            let mut driver = Driver::resume(runtime, crew, card.session.clone()).await?;
            driver.settle_open().await?;
            let made = driver.take_up_approved().await?;
            let session = driver.session();
            if made.is_empty() {
                console::paragraph(nothing_made(card, config, &session));
                return Ok(Exit::Failed);
            }
            for (call, answered) in &made {
                let envelope = &answered.envelope;
                let mark = console::mark(if envelope.ok { '✓' } else { '✗' });
                match session.waiting.get(call) {
                    // It is another question by now, so the yes is not for it.
                    Some(anew) => {
                        console::hanging(&format!("{mark} {call} {}", asked_anew(card, anew)), 2);
                        hint(&format!("Look at it again: toolgate approvals show {call}"));
                    }
                    None => {
                        say(&console::fit(&format!("{mark} {call} {}", visible(&envelope.message))))
                    }
                }
            }
            let fine = made.iter().all(|(_, answered)| answered.envelope.ok);
            Ok(if fine { Exit::Done } else { Exit::Failed })
        })
        .await
}

/// Why no call was made of a yes.
fn nothing_made(card: &Card, config: Option<Digest>, session: &Session) -> &'static str {
    if session.waiting.contains_key(&card.call) {
        "Nothing ran: the session did not take your yes for this call. Look at it again with \
         `toolgate approvals list`."
    } else if session.config != config {
        "The configuration is another one than when it was put off, so your yes is for something \
         else. Nothing ran. Whoever wants it calls it again, and you are asked anew."
    } else {
        "Nothing ran here: another process took your yes first, or the call had waited too long. \
         `toolgate sessions show` tells what became of it."
    }
}

/// Why a yes was not enough for a call that was made of it.
fn asked_anew(card: &Card, anew: &Waiting) -> String {
    match (&card.phase, &anew.phase) {
        (Some(then), Some(now)) if then != now => format!(
            "did not run: your yes was for phase {then}, and the session is in phase {now}. It waits \
             for your word again."
        ),
        _ => "did not run: the tool, or the rule that asks, is another one than when you were asked. \
              It waits for your word again."
            .to_owned(),
    }
}

fn withdraw(place: &Place, tool: &str, session: Option<&str>) -> Result<Exit> {
    let sessions = block_on(sessions(place))?;
    let wanted = |id: &SessionId| session.is_none_or(|session| id.as_str() == session);
    let allowed = sessions.iter().filter(|s| wanted(&s.id)).flat_map(|s| {
        let of_tool = s.allowances.iter().filter(|allowance| allowance.tool.as_str() == tool);
        of_tool.map(move |allowance| (s.id.clone(), allowance.as_ref().clone()))
    });
    let allowed: Vec<_> = allowed.collect();
    let Some((session, _)) = allowed.first() else {
        bail!("{tool} is not allowed for a whole session; `toolgate approvals list` shows what is");
    };
    ensure!(
        allowed.iter().all(|(id, _)| id == session),
        "several sessions allow {tool}; name one with --session"
    );
    person::attended().then_some(()).ok_or(Nobody)?;
    for (session, allowance) in &allowed {
        let (policy, tool) = (&allowance.policy, &allowance.tool);
        say(&format!("In session {session}, {policy} would ask about {tool} again."));
    }
    block_on(async {
        if !person::confirm("withdraw", "do this").await? {
            say("Nothing was withdrawn.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(&place.folder).await?;
        let opened = place.open()?;
        for (session, allowance) in &allowed {
            let (tool, policy) = (allowance.tool.clone(), allowance.policy.clone());
            let said = Said::Withdraw { tool, policy };
            opened.runtime.say(session, person.author(), said).await?;
            say(&format!("{} asks about {} again.", allowance.policy, allowance.tool));
        }
        Ok(Exit::Done)
    })
}
