//! `toolgate token`: makes, lists and revokes the tokens that open a session over HTTP.

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use toolgate_kernel::names::{PhaseName, SessionId};
use toolgate_kernel::time::Timestamp;
use toolgate_mcp::server::token::Claims;
use toolgate_runtime::port::Clock;

use super::phase;
use crate::console;
use crate::environment;
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::project::Place;
use crate::roster::{Listed, TokenFile};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate token create --session mcp --expires 30d\n  toolgate \
                        token create --phase REVISION\n  toolgate token revoke 3f2a9c017b44d1e0"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Makes a token. It is shown this once.
    #[command(after_help = "Example:\n  toolgate token create --session mcp --expires 30d")]
    Create {
        /// The session it opens.
        #[arg(long, default_value = "mcp")]
        session: String,
        /// The only phase in which it holds; without it, every phase.
        #[arg(long)]
        phase: Option<String>,
        /// How long it holds: a number and s, m, h or d; at most 365d.
        #[arg(long, default_value = "30d", value_name = "TIME")]
        expires: String,
        /// Print it as one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Lists the tokens that were made, and whether they hold.
    #[command(after_help = "Example:\n  toolgate token list --json")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token for good, also for servers that are running.
    #[command(after_help = "Example:\n  toolgate token revoke 3f2a9c017b44d1e0")]
    Revoke {
        /// The id, as `list` shows it.
        id: String,
        /// Print it as one JSON object.
        #[arg(long)]
        json: bool,
    },
}

impl Options {
    /// Whether whoever reads the output is a program.
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            What::Create { json, .. } | What::List { json } | What::Revoke { json, .. } => *json,
        }
    }
}

/// A token as it is listed.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    session: &'a SessionId,
    phase: Option<&'a PhaseName>,
    created: Timestamp,
    expires: Timestamp,
    state: &'static str,
    /// The token itself, when it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn of(listed: &'a Listed, now: Timestamp) -> Self {
        let state = match listed {
            Listed { revoked: Some(_), .. } => "revoked",
            Listed { expires, .. } if *expires <= now => "over",
            Listed { .. } => "holds",
        };
        let Listed { id, session, phase, created, expires, revoked: _ } = listed;
        let (phase, created, expires) = (phase.as_ref(), *created, *expires);
        Self { id, session, phase, created, expires, state, token: None }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let now = SystemClock.now();
    match &options.what {
        What::Create { session, phase, expires, json } => {
            create(place, session, phase.as_deref(), expires, *json, now)
        }
        What::List { json } => {
            let all = TokenFile::beside(&place.home()?).all()?;
            if all.is_empty() && !json {
                console::say("No tokens. Make one with: toolgate token create");
            }
            all.iter().for_each(|listed| show(&Shown::of(listed, now), *json));
            Ok(Exit::Done)
        }
        What::Revoke { id, json } => {
            let listed = TokenFile::beside(&place.home()?).revoke(id, now)?;
            show(&Shown::of(&listed, now), *json);
            Ok(Exit::Done)
        }
    }
}

fn create(
    place: &Place,
    session: &str,
    wanted: Option<&str>,
    expires: &str,
    json: bool,
    now: Timestamp,
) -> Result<Exit> {
    let session = SessionId::parse(session)?;
    let phase = phase(&place.crew()?.agent, wanted)?;
    let expires = now.plus_ms(milliseconds(expires)?);
    // The log and its key are made where there are none yet.
    drop(place.open()?);
    let key = place.token_key()?;
    let claims = Claims { id: fresh_id()?, session, phase, expires };
    let token = claims.sign(&key);
    let Claims { id, session, phase, expires } = claims;
    let listed = Listed { id, session, phase, created: now, expires, revoked: None };
    TokenFile::beside(&place.home()?).add(listed.clone(), now)?;
    let mut shown = Shown::of(&listed, now);
    if json {
        shown.token = Some(token.reveal());
        show(&shown, true);
    } else {
        console::say(token.reveal());
        console::hint(&format!(
            "Token {} for session {} until {}. It is shown this once; keep it secret.",
            listed.id, listed.session, listed.expires
        ));
    }
    Ok(Exit::Done)
}

fn show(shown: &Shown<'_>, json: bool) {
    if json {
        console::json(shown);
        return;
    }
    let phase = shown.phase.map_or("every phase", |phase| phase.as_str());
    let line = format!(
        "{}  {:<7}  session {}, {phase}, until {}",
        shown.id, shown.state, shown.session, shown.expires
    );
    console::whole(&line, 27);
}

/// Longest time a token holds.
const DAYS_MAX: u64 = 365;

fn milliseconds(text: &str) -> Result<u64> {
    let wrong = || format!("{text:?} is no time; write a number and s, m, h or d, such as 30d");
    let unit = text.chars().last().with_context(wrong)?;
    let number = text.strip_suffix(unit).unwrap_or_default();
    let number: u64 = number.parse().ok().filter(|number| *number > 0).with_context(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => bail!(wrong()),
    };
    let milliseconds = number.checked_mul(seconds * 1_000);
    let bearable = milliseconds.filter(|all| *all <= DAYS_MAX * 86_400_000);
    bearable.with_context(|| format!("a token holds at most {DAYS_MAX} days"))
}

fn fresh_id() -> Result<String> {
    let bytes: [u8; 8] = environment::random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
