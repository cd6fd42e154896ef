//! `toolgate approvals delegate`: what the user of an MCP client may answer, for how long and how often.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use toolgate_kernel::decision::USES_MAX;
use toolgate_kernel::event::{Delegation, ProjectEvent};
use toolgate_kernel::fold::ClientDelegation;
use toolgate_kernel::names::ToolPattern;
use toolgate_kernel::time::{Timestamp, read_duration_ms};
use toolgate_runtime::port::Clock;

use crate::credential::sign_card;
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::project::Place;
use crate::visible::exact;

/// Characters of a client's name.
const CLIENT_CHARS_MAX: usize = 64;

#[derive(Args)]
pub(crate) struct DelegateArgs {
    /// The client: `stdio`, or the name of its token.
    #[arg(required_unless_present = "end")]
    client: Option<String>,
    /// Questions about these tools, such as `mcp:mail:*`. May be repeated.
    #[arg(long = "tools", value_name = "PATTERN", required_unless_present = "end")]
    tools: Vec<String>,
    /// How long it lasts, such as 30m, 8h or 7d; at most 30d.
    #[arg(long = "for", value_name = "TIME", value_parser = read_duration_ms, default_value = "8h")]
    for_ms: u64,
    /// How many answers it is for.
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(1..=USES_MAX))]
    answers: u64,
    /// Takes a delegation back, by the number that `toolgate approvals list` shows.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["client", "tools"])]
    end: Option<u64>,
}

pub(crate) fn run(place: &Place, args: &DelegateArgs) -> Result<Exit> {
    if let Some(delegation) = args.end {
        return end(place, delegation);
    }
    let client = args.client.as_deref().context("name a client")?;
    let legal = (1..=CLIENT_CHARS_MAX).contains(&client.chars().count())
        && !client.chars().any(char::is_control);
    ensure!(legal, "{:?} is no name of a client", exact(client));
    let tools = args.tools.iter().map(|text| ToolPattern::parse(text));
    let tools = tools.collect::<Result<Vec<_>, _>>()?;
    let until = SystemClock.now().plus_ms(args.for_ms);
    let names: Vec<&str> = tools.iter().map(ToolPattern::as_str).collect();
    let card = vec![
        format!("The user of the client {} may answer questions here", exact(client)),
        format!("  about       {}", names.join(", ")),
        format!("  until       {until}"),
        format!("  answers     {} at most", args.answers),
        "  Programs that control the client can answer too. Rules that ask each time are not covered."
            .to_owned(),
    ];
    let answers_max = args.answers;
    let terms = Delegation { client: client.to_owned(), tools, until, answers_max };
    let event = ProjectEvent::ClientDelegated(Box::new(terms));
    sign_card(place, &card, "delegate", "It is delegated.", |_| Ok(event.clone()))
}

fn end(place: &Place, delegation: u64) -> Result<Exit> {
    let card = vec![format!("Delegation {delegation} covers no answer from now on.")];
    sign_card(place, &card, "end", "It is ended.", |project| {
        match project.delegations.get(&delegation) {
            Some(found) if !found.ended => Ok(ProjectEvent::DelegationEnded { delegation }),
            Some(_) => bail!("delegation {delegation} is ended already"),
            None => bail!("there is no delegation {delegation}; see `toolgate approvals list`"),
        }
    })
}

/// A delegation in the list of approvals.
pub(crate) fn line(number: u64, found: &ClientDelegation, now: Timestamp) -> Option<String> {
    if !found.is_open(now) {
        return None;
    }
    let names: Vec<&str> = found.terms.tools.iter().map(ToolPattern::as_str).collect();
    Some(format!(
        "delegation {number}: the user of {} may answer about {}; {} of {} answers used, until {}",
        exact(&found.terms.client),
        names.join(", "),
        found.answered.len(),
        found.terms.answers_max,
        found.terms.until
    ))
}
