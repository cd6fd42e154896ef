//! `toolgate approvals`: the calls that wait for a person's yes, and the person's word on them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::{AllowanceTerms, USES_MAX};
use toolgate_kernel::event::{Answer, Decision, Said};
use toolgate_kernel::fold::{Allowance, Session};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::read_duration_ms;
use toolgate_kernel::tool::ToolSpec;
use toolgate_runtime::port::Clock;

use super::approved_call::make_call;
use super::{clear_taint, delegations, history};
use crate::card::{Card, Row, all_cards, cards, print_rows, unfit_questions};
use crate::card_code::CardCode;
use crate::console::{self, hint, say, tell};
use crate::credential;
use crate::environment::Flags;
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::known::Known;
use crate::person::{self, CardAnswer, Nobody, TRIES, typed_args};
use crate::project::{Place, block_on};
use crate::reading;
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
        /// Later calls that raise the same question need no answer in this session either.
        #[arg(long)]
        always: bool,
        /// How long `--always` lasts, such as 30m, 8h or 7d; at most 30d.
        #[arg(long = "for", value_name = "TIME", requires = "always", value_parser = read_duration_ms,
              default_value = "8h")]
        for_ms: u64,
        /// How many calls `--always` is for.
        #[arg(long, value_name = "N", requires = "always", default_value_t = 100,
              value_parser = clap::value_parser!(u64).range(1..=USES_MAX))]
        uses: u64,
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
    /// Says that what a session read, or what a family of state holds, is no danger: the rule of two
    /// begins anew.
    #[command(
        after_help = "Examples:\n  toolgate approvals clear-taint s1 --reason \"read it myself\"\n  toolgate approvals clear-taint --family note"
    )]
    ClearTaint(clear_taint::ClearTaintArgs),
    /// Lists who decided what, when and with which key. It needs no key.
    #[command(after_help = "Example:\n  toolgate approvals history --json")]
    History {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Lets the user of an MCP client answer questions for a while. An owner signs it.
    #[command(
        after_help = "Examples:\n  toolgate approvals delegate stdio --tools 'mcp:mail:*' --for 7d\n  \
                      toolgate approvals delegate --end 12"
    )]
    Delegate(delegations::DelegateArgs),
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
        matches!(
            self.what,
            What::List { json: true }
                | What::Show { json: true, .. }
                | What::History { json: true }
        )
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    match &options.what {
        What::List { json } => list(place, *json),
        What::Show { which, json } => show(place, which, *json),
        What::Approve { which, always, for_ms, uses, note } => {
            let until = SystemClock.now().plus_ms(*for_ms);
            let terms = AllowanceTerms { until, uses_max: *uses };
            decide(place, which, &Verb::Approve(always.then_some(terms)), note)
        }
        What::Deny { which, note } => decide(place, which, &Verb::Deny, note),
        What::Edit { which, args, note } => {
            decide(place, which, &Verb::Edit(args.as_deref()), note)
        }
        What::History { json } => history::list(place, *json),
        What::Delegate(args) => delegations::run(place, args),
        What::Withdraw { tool, session } => withdraw(place, tool, session.as_deref()),
        What::ClearTaint(what) => clear_taint::run(place, what),
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
        let session = match reading::caught_up_in(&log, &project, id).await {
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

/// Reports questions that cannot be answered, because they show other arguments than they are for.
fn tell_unfit(sessions: &[Session]) {
    for session in sessions {
        for call in unfit_questions(session) {
            tell(&format!(
                "{call} in session {}: the log shows other arguments than an answer would be for, so it \
                 cannot be answered; run `toolgate verify`",
                session.id
            ));
        }
    }
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let sessions = block_on(sessions(place))?;
    let now = SystemClock.now();
    tell_unfit(&sessions);
    let cards = all_cards(&sessions, now);
    let allowed: Vec<_> =
        sessions.iter().flat_map(|s| s.allowances.iter().map(move |one| (s, one))).collect();
    if json {
        cards.iter().for_each(console::json);
        let project = block_on(async { reading::project(place.log()?.store.as_ref()).await })?;
        for (number, delegation) in &project.delegations {
            console::json(&serde_json::json!({ "delegation": number, "terms": delegation.terms,
                "used": delegation.answered.len(), "ended": delegation.ended }));
        }
        for (session, allowance) in &allowed {
            console::json(&serde_json::json!({ "session": session.id, "allowance": allowance }));
        }
        return Ok(Exit::Done);
    }
    let mut rows: Vec<Row> = cards.iter().map(Card::row).collect();
    rows.extend(allowed.iter().map(|(session, one)| Row {
        what: "always".to_owned(),
        tool: one.tool.to_string(),
        why: format!(
            "{} need not ask, says {}; {} of {} calls used, until {}",
            one.policy,
            named(&one.who),
            one.uses,
            one.terms.uses_max,
            one.terms.until
        ),
        session: session.id.clone(),
    }));
    print_rows(&rows);
    let project = block_on(async { reading::project(place.log()?.store.as_ref()).await })?;
    for (number, found) in &project.delegations {
        if let Some(line) = delegations::line(*number, found, now) {
            say(&line);
        }
    }
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
    let sessions = block_on(sessions(place))?;
    tell_unfit(&sessions);
    let all = all_cards(&sessions, now);
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
        card.lines(None).iter().for_each(|line| say(line));
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
    Approve(Option<AllowanceTerms>),
    Deny,
    /// Lets it run with these arguments, or with some that are typed.
    Edit(Option<&'a str>),
}

impl Verb<'_> {
    /// What is said afterwards.
    fn done(&self) -> &'static str {
        match self {
            Self::Approve(_) => "approved",
            Self::Deny => "denied",
            Self::Edit(_) => "approved with your arguments",
        }
    }
}

/// What is known of the tool of a card; nothing of a server's tool that was never seen.
fn known(place: &Place, card: &Card) -> Result<Option<Arc<ToolSpec>>> {
    let (crew, text) = place.crew_with(&Flags::default())?;
    let agent = Known::of(&place.folder, &crew.agent, &text, &place.pins()?)?.agent;
    let at = agent.toolset.find(card.tool.as_str());
    Ok(at.and_then(|at| agent.toolset.entries().get(at)).map(|entry| entry.spec.clone()))
}

/// Other arguments for a call: given, or typed until the tool would take them.
fn edited(place: &Place, card: &Card, given: Option<&str>) -> Result<Map<String, Value>> {
    let spec = known(place, card)?;
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
    if !matches!(verb, Verb::Deny) {
        let project = block_on(async { reading::project(place.log()?.store.as_ref()).await })?;
        card.needs.check(place, &project, matches!(verb, Verb::Edit(_)))?;
    }
    let code = CardCode::new()?;
    let is_deny = matches!(verb, Verb::Deny);
    let mut shown = card.lines(Some(&code).filter(|_| matches!(verb, Verb::Approve(_))));
    let (mut args, mut allow) = (None, None);
    match verb {
        Verb::Approve(None) | Verb::Deny => {}
        Verb::Approve(Some(terms)) => {
            let (policy, tool) = (&card.policy, &card.tool);
            let each_time = card.needs.requires.asks_each_time();
            ensure!(!each_time, "{policy} asks about each call of {tool}; leave --always out");
            shown.push(format!(
                "  later calls of {tool} that {policy} asks about need no answer, until {} or {} calls",
                terms.until, terms.uses_max
            ));
            allow = Some(*terms);
        }
        Verb::Edit(given) => {
            if !block_on(async { Ok(person::paged(&shown).await.is_some()) })? {
                return Ok(nothing_decided());
            }
            let changed = edited(place, &card, *given)?;
            ensure!(changed != card.args(), "these are the arguments it has; use `approve`");
            shown = person::would_run(card.tool.as_str(), &changed, Some(&code));
            args = Some(Value::Object(changed));
        }
    }
    let note = note.trim();
    if !note.is_empty() {
        shown.push(format!("  your note: {}", exact(note)));
    }
    block_on(async {
        let said = if is_deny {
            let seen = person::paged(&shown).await.is_some();
            let denied = seen && person::confirm("deny", "refuse it").await?;
            denied.then_some((CardAnswer::Deny, String::new()))
        } else {
            person::card_word(&shown, &code, false).await
        };
        let (answer, why) = match said {
            Some((CardAnswer::Approve, _)) => (Answer::Approve, String::new()),
            Some((CardAnswer::Deny, why)) => (Answer::Deny, why),
            Some((CardAnswer::Always | CardAnswer::Edit, _)) | None => return Ok(nothing_decided()),
        };
        let would_run = match &args {
            Some(Value::Object(changed)) => changed.clone(),
            _ => card.args(),
        };
        let confirmed = match answer {
            Answer::Approve => card.needs.confirm(&would_run).await,
            Answer::Deny => Some(BTreeSet::new()),
        };
        let Some(confirmed) = confirmed else { return Ok(Exit::Failed) };
        let done = if answer == Answer::Deny { Verb::Deny.done() } else { verb.done() };
        if answer == Answer::Deny {
            (args, allow) = (None, None);
        }
        let note = if why.is_empty() { note.to_owned() } else { why };
        let decision = card.decision(answer);
        let decision = match args {
            Some(args) => decision.with_args(args),
            None => decision,
        };
        let decision = Decision { note, allow, confirmed, ..decision };
        let person = credential::decider(place).await?;
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
        opened.runtime.say(&card.session, person.author(&shown), said).await?;
        drop(opened);
        let missing = card.needs.missing_after_one();
        if answer == Answer::Approve && missing > 0 {
            let (given, count) = (card.needs.given.len() + 1, card.needs.requires.count);
            say(&format!("{} has {given} of {count} approvals.", card.call));
            hint(&format!("Another person goes on with: {}", card.command("approve")));
            return Ok(Exit::Done);
        }
        say(&format!("{} is {done}.", card.call));
        if answer == Answer::Deny {
            return Ok(Exit::Done);
        }
        // A client elsewhere would never learn what came of a call that is made here.
        if matches!(card.actor, Actor::Client(_)) && !card.actor.is_command_line() {
            say(&format!("It is made when {} makes the call again.", card.who()));
            return Ok(Exit::Done);
        }
        make_call(place, &card, session.config).await
    })
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
    let line = |(session, allowance): &(SessionId, Allowance)| {
        let (policy, tool) = (&allowance.policy, &allowance.tool);
        format!("In session {session}, {policy} would ask about {tool} again.")
    };
    let shown: Vec<String> = allowed.iter().map(line).collect();
    shown.iter().for_each(|line| say(line));
    block_on(async {
        if !person::confirm("withdraw", "do this").await? {
            say("Nothing was withdrawn.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        let opened = place.open()?;
        for (session, allowance) in &allowed {
            let (tool, policy) = (allowance.tool.clone(), allowance.policy.clone());
            let said = Said::Withdraw { tool, policy };
            opened.runtime.say(session, person.author(&shown), said).await?;
            say(&format!("{} asks about {} again.", allowance.policy, allowance.tool));
        }
        Ok(Exit::Done)
    })
}
