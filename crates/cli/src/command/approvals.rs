//! `toolgate approvals`: the calls that wait for a person's yes, and the person's word on them.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Decision, Said};
use toolgate_kernel::fold::{Progress, Session, Waiting, shown};
use toolgate_kernel::names::{CallId, PhaseName, PolicyName, SessionId, ToolName};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::Driver;
use toolgate_runtime::port::Clock;
use toolgate_store::Rival;

use super::call::own_caller;
use crate::console::{self, hint, say, visible};
use crate::credential;
use crate::environment::Flags;
use crate::exit::{self, Exit};
use crate::person;
use crate::project::{Place, SystemClock, block_on};
use crate::reading;
use crate::servers::Servers;

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
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows exactly what would run.
    Show {
        #[command(flatten)]
        which: Which,
        /// Print it as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Shows exactly what would run, and lets it run when you say so.
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
    Deny {
        #[command(flatten)]
        which: Which,
        /// A sentence for the model.
        #[arg(long, value_name = "TEXT", default_value = "")]
        note: String,
    },
    /// Lets it run with other arguments. The model is told.
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
            let word = |_: &Card| Ok((Answer::Approve, None));
            decide(place, which, word, *always, note)
        }
        What::Deny { which, note } => {
            decide(place, which, |_: &Card| Ok((Answer::Deny, None)), false, note)
        }
        What::Edit { which, args, note } => edit(place, which, args.as_deref(), note),
        What::Withdraw { tool, session } => withdraw(place, tool, session.as_deref()),
    }
}

/// Reminds of what a session waits for.
pub(crate) fn remind(session: &Session) {
    match session.waiting.len() {
        0 => {}
        1 => hint("1 call waits for your word: toolgate approvals list"),
        n => hint(&format!("{n} calls wait for your word: toolgate approvals list")),
    }
}

/// A call that waits for a person's word.
#[derive(Debug, Serialize)]
struct Card {
    session: SessionId,
    call: CallId,
    tool: ToolName,
    /// Exactly what would run.
    args: Value,
    /// Who wants it.
    actor: Actor,
    policy: PolicyName,
    reason: String,
    phase: Option<PhaseName>,
    since: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    /// What a yes is bound to.
    shown: Digest,
    /// Whether a yes was given that nothing was made of yet.
    approved: bool,
}

impl Card {
    fn args(&self) -> Map<String, Value> {
        self.args.as_object().cloned().unwrap_or_default()
    }

    fn print(&self) {
        say(&format!("{} in {}", self.call, self.session));
        let phase = self.phase.as_ref().map_or_else(String::new, |p| format!(", in phase {p}"));
        say(&format!("  asked by   {}{phase}", visible(&self.actor.to_string())));
        say(&format!("  because    {} ({})", visible(&self.reason), self.policy));
        if let Some(until) = self.expires_at {
            say(&format!("  until      {until}"));
        }
        say(&format!("  bound to   {}", self.shown.short()));
        say("  would run, and nothing else:");
        say(&format!("    {}", self.tool));
        let args = serde_json::to_string_pretty(&self.args).unwrap_or_default();
        args.lines().for_each(|line| say(&format!("    {}", visible(line))));
    }
}

/// Everything that waits in a session: put off, or asked about at this moment.
fn cards(session: &Session, now: Timestamp) -> Vec<Card> {
    // Nothing is made any more in a session that is over.
    if session.ended.is_some() {
        return Vec::new();
    }
    let text = |args: &str| serde_json::from_str(args).unwrap_or_else(|_| Value::from(args));
    let phase = session.phase.clone();
    let denied = |waiting: &Waiting| waiting.word.is_some() && !waiting.approved();
    let waiting = session.waiting.iter().filter(|(_, waiting)| !denied(waiting));
    let put_off = waiting.map(|(call, waiting)| Card {
        session: session.id.clone(),
        call: *call,
        tool: waiting.tool.clone(),
        args: text(&waiting.args_text()),
        actor: waiting.actor.clone(),
        policy: waiting.policy.clone(),
        reason: waiting.reason.to_string(),
        phase: phase.clone(),
        since: Some(waiting.since),
        expires_at: waiting.expires_at,
        shown: waiting.shown(),
        approved: waiting.approved(),
    });
    let asked = session.open.iter().filter_map(|open| {
        let Progress::Asked { tool, policy, reason, args, args_hash, frame, expires_at } =
            &open.progress
        else {
            return None;
        };
        Some(Card {
            session: session.id.clone(),
            call: open.raw.id,
            tool: tool.clone(),
            args: args.as_deref().cloned().unwrap_or_else(|| text(&open.raw.args)),
            actor: open.actor.clone(),
            policy: policy.clone(),
            reason: reason.to_string(),
            phase: phase.clone(),
            since: None,
            expires_at: *expires_at,
            shown: shown(*frame, *args_hash),
            approved: false,
        })
    });
    let over = |card: &Card| card.expires_at.is_some_and(|at| at < now);
    put_off.chain(asked).filter(|card| !over(card)).collect()
}

/// The sessions that are not over.
async fn sessions(place: &Place) -> Result<Vec<Session>> {
    let log = place.log()?;
    let project = reading::project(log.store.as_ref()).await?;
    let mut open = Vec::new();
    for id in &project.sessions {
        let session = reading::session(log.store.as_ref(), id).await?;
        if session.ended.is_none() || !session.waiting.is_empty() {
            open.push(session);
        }
    }
    Ok(open)
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let sessions = block_on(sessions(place))?;
    let now = SystemClock.now();
    let cards: Vec<Card> = sessions.iter().flat_map(|session| cards(session, now)).collect();
    for card in &cards {
        if json {
            console::json(card);
            continue;
        }
        let approved = if card.approved { "  approved, not made yet" } else { "" };
        say(&console::fit(&format!(
            "{:<5} {:<24} {}{approved}",
            card.call,
            card.tool,
            visible(&card.reason)
        )));
        say(&console::fit(&format!("      {}", card.session)));
    }
    for (session, allowance) in
        sessions.iter().flat_map(|s| s.allowances.iter().map(move |g| (s, g)))
    {
        if json {
            console::json(&serde_json::json!({ "session": session.id, "allowance": allowance }));
            continue;
        }
        say(&console::fit(&format!(
            "always {:<24} {} need not ask, says {}",
            allowance.tool, allowance.policy, allowance.who
        )));
        say(&console::fit(&format!("      {}", session.id)));
    }
    if cards.is_empty() && !json {
        hint("Nothing waits for your word.");
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
    let all: Vec<Card> =
        block_on(sessions(place))?.iter().flat_map(|session| cards(session, now)).collect();
    let fits = |card: &Card| {
        card.call.to_string() == call && session.is_none_or(|id| card.session.as_str() == id)
    };
    let waiting: Vec<String> = all.iter().map(|card| card.call.to_string()).collect();
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
        card.print();
    }
    Ok(Exit::Done)
}

fn edit(place: &Place, which: &Which, args: Option<&str>, note: &str) -> Result<Exit> {
    let typed = |text: &str| -> Result<Map<String, Value>> {
        serde_json::from_str(text).context("the arguments are no JSON object; nothing was decided")
    };
    let given = args.map(typed).transpose()?;
    let word = |card: &Card| {
        let args = match given.clone() {
            Some(args) => args,
            None => {
                hint("Type the arguments as one line of JSON:");
                let line = block_on(async { Ok(person::word().await) })?;
                typed(&line.context("nobody is at a terminal here; use --args")?)?
            }
        };
        ensure!(args != card.args(), "these are the arguments it has; use `approve`");
        Ok((Answer::Approve, Some(args)))
    };
    decide(place, which, word, false, note)
}

/// Takes a person's word on a call, and makes the call where nobody else does.
fn decide(
    place: &Place,
    which: &Which,
    word: impl FnOnce(&Card) -> Result<(Answer, Option<Map<String, Value>>)>,
    always: bool,
    note: &str,
) -> Result<Exit> {
    let card = find(place, which)?;
    ensure!(person::attended(), "only a person decides this, and nobody is at a terminal here");
    card.print();
    let (answer, args) = word(&card)?;
    let (verb, done) = match answer {
        Answer::Approve => ("approve", "approved"),
        Answer::Deny => ("deny", "denied"),
    };
    if let Some(args) = &args {
        person::show(card.tool.as_str(), args);
    }
    if always {
        let (policy, tool) = (&card.policy, &card.tool);
        hint(&format!("From then on {policy} does not ask about {tool} in this session."));
    }
    hint(&format!("\nType {verb}, or anything else to leave it:"));
    block_on(async {
        let said = person::word().await.unwrap_or_default();
        if said.trim() != verb {
            say("Nothing was decided.");
            return Ok(Exit::Failed);
        }
        let decision = Decision {
            call: card.call,
            shown: card.shown,
            answer,
            note: note.trim().to_owned(),
            args: args.map(Value::Object),
            always,
        };
        let person = credential::decider(&place.folder).await?;
        // What was shown must still be what waits.
        let log = place.log()?;
        let session = reading::session(log.store.as_ref(), &card.session).await?;
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
        if matches!(card.actor, Actor::Client(_)) && card.actor != own_caller() {
            say(&format!("It is made when {} makes the call again.", card.actor));
            return Ok(Exit::Done);
        }
        carry_out(place, &card).await
    })
}

/// Makes the approved call here, unless another process has the session and does it.
async fn carry_out(place: &Place, card: &Card) -> Result<Exit> {
    let (mut crew, text) = place.crew_with(&Flags::default())?;
    let opened = place.open()?;
    let servers = Servers::join(&mut crew, &place.folder, &text, &opened)?;
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
            if made.is_empty() && !driver.session().waiting.contains_key(&card.call) {
                let why = "The configuration is another one than when it was put off, so your yes \
                           is for something else. Nothing ran. Whoever wants it calls it again, \
                           and you are asked anew.";
                console::paragraph(why);
                return Ok(Exit::Failed);
            }
            for (call, answered) in &made {
                let envelope = &answered.envelope;
                let mark = console::mark(if envelope.ok { '✓' } else { '✗' });
                say(&console::fit(&format!("{mark} {call} {}", visible(&envelope.message))));
            }
            let fine = made.iter().all(|(_, answered)| answered.envelope.ok);
            Ok(if fine { Exit::Done } else { Exit::Failed })
        })
        .await
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
    ensure!(person::attended(), "only a person decides this, and nobody is at a terminal here");
    block_on(async {
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
