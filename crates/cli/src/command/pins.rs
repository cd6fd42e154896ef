//! `toolgate mcp pins`: which definitions of servers' tools are believed, and a person's word on the
//! others.

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::names::ToolName;
use toolgate_kernel::pin::{Definition, Pin, Pinned, Ruling};

use crate::console::{self, hint, say, visible};
use crate::credential;
use crate::exit::Exit;
use crate::person;
use crate::project::{Opened, Place, block_on};
use crate::reading;
use crate::visible::exact;

#[derive(Subcommand)]
pub(crate) enum What {
    /// Lists every tool that a server ever offered, and whether it is believed.
    #[command(after_help = "Example:\n  toolgate mcp pins list --json")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows what is held, beside what was believed before.
    #[command(after_help = "Example:\n  toolgate mcp pins diff mcp:web:search")]
    Diff {
        /// The tool, as `list` shows it.
        tool: String,
    },
    /// Believes what is held, or was rejected. A person at the terminal is asked.
    #[command(after_help = "Example:\n  toolgate mcp pins accept mcp:web:search")]
    Accept {
        /// The tool, as `list` shows it.
        tool: String,
    },
    /// Does not believe what is held, or no longer what was believed. A person is asked.
    #[command(after_help = "Example:\n  toolgate mcp pins reject mcp:web:search")]
    Reject {
        /// The tool, as `list` shows it.
        tool: String,
    },
}

impl What {
    pub(crate) fn json(&self) -> bool {
        matches!(self, Self::List { json: true })
    }
}

pub(crate) fn run(place: &Place, what: &What) -> Result<Exit> {
    match what {
        What::List { json } => list(place, *json),
        What::Diff { tool } => diff(place, tool),
        What::Accept { tool } => decide(place, tool, Ruling::Accepted),
        What::Reject { tool } => decide(place, tool, Ruling::Rejected),
    }
}

/// A tool in the list.
#[derive(Serialize)]
struct Row<'a> {
    tool: &'a ToolName,
    /// `believed`, `held`, `rejected`, `gone`: not offered any more, or `changed`: believed before, and
    /// held as it is now.
    state: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    why: &'a [String],
    /// Who rejected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a Actor>,
}

fn row<'a>(tool: &'a ToolName, pin: &'a Pin) -> Row<'a> {
    let refused = pin.refused.as_ref().filter(|_| pin.held.is_none());
    let state = match (&pin.live, &pin.held) {
        _ if refused.is_some() => "rejected",
        (Some(_), _) | (_, Some(_)) if pin.gone => "gone",
        (Some(_), Some(_)) => "changed",
        (None, Some(_)) => "held",
        (Some(_), None) => "believed",
        (None, None) => "rejected",
    };
    let (why, by) = (pin.held.as_ref().map_or(&[][..], |(_, why)| why), refused.map(|it| &it.by));
    Row { tool, state, why, by }
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let log = place.log()?;
    let project = block_on(async { reading::project(log.store.as_ref()).await })?;
    if project.pins.iter().next().is_none() && !json {
        hint("No server was asked for its tools yet.");
    }
    for (tool, pin) in project.pins.iter() {
        let row = row(tool, pin);
        if json {
            console::json(&row);
            continue;
        }
        say(&format!("{:<9} {tool}", row.state));
        if let Some(by) = row.by {
            let how = format!("by {by}; to use it: toolgate mcp pins accept {tool}");
            say(&format!("          {}", visible(&how)));
        }
        for why in row.why {
            say(&console::fit(&format!("          {}", visible(why))));
        }
    }
    Ok(Exit::Done)
}

/// A tool with what is known of it.
fn find(place: &Place, tool: &str) -> Result<(ToolName, Pin)> {
    let name = ToolName::parse(tool)?;
    let log = place.log()?;
    let project = block_on(async { reading::project(log.store.as_ref()).await })?;
    let wire = |(other, _): &(&ToolName, &Pin)| other.on_wire() == name;
    let found = project.pins.get(&name).map(|pin| (&name, pin));
    let found = found.or_else(|| project.pins.iter().find(wire));
    let (name, pin) = found.with_context(|| {
        format!("no server ever offered {tool}; `toolgate mcp pins list` shows those that were")
    })?;
    Ok((name.clone(), pin.clone()))
}

fn diff(place: &Place, tool: &str) -> Result<Exit> {
    let (name, pin) = find(place, tool)?;
    lines(&name, &pin).iter().for_each(|line| say(line));
    Ok(Exit::Done)
}

/// What is held or was rejected, and how it differs from what was believed.
fn lines(name: &ToolName, pin: &Pin) -> Vec<String> {
    if let (None, Some(refused)) = (&pin.held, &pin.refused) {
        let head = visible(&format!("{name} was rejected by {}:", refused.by));
        return [vec![head, String::new()], differences(pin.live.as_ref(), &refused.definition)]
            .concat();
    }
    let Some((held, why)) = &pin.held else {
        let live = pin.live.as_ref().map(text).unwrap_or_default();
        let live = live.lines().map(|line| format!("  {}", exact(line)));
        return [format!("{name}: nothing is held.")].into_iter().chain(live).collect();
    };
    let why = why.iter().map(|why| format!("  {}", visible(why)));
    let head = [format!("{name} is held:")].into_iter().chain(why).chain([String::new()]);
    head.chain(differences(pin.live.as_ref(), held)).collect()
}

/// What is different between what was believed and what is offered.
fn differences(live: Option<&Definition>, now: &Definition) -> Vec<String> {
    let (before, now) = (live.map(text).unwrap_or_default(), text(now));
    let diff = TextDiff::from_lines(&before, &now);
    let changes = diff.iter_all_changes().map(|change| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        format!("{sign} {}", exact(change.value().trim_end_matches('\n')))
    });
    changes.collect()
}

/// A definition as lines that can be compared.
fn text(definition: &Definition) -> String {
    let mut lines = Vec::new();
    if let Some(title) = &definition.title {
        lines.push(format!("title: {title}"));
    }
    lines.push("description:".to_owned());
    lines.extend(definition.about.lines().map(|line| format!("  {line}")));
    let parts = [
        ("arguments", Some(&definition.input)),
        ("answer", definition.output.as_ref()),
        ("annotations", Some(&definition.annotations).filter(|hints| !hints.is_null())),
    ];
    for (name, value) in parts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        lines.push(format!("{name}:"));
        let pretty = serde_json::to_string_pretty(value as &Value).unwrap_or_default();
        lines.extend(pretty.lines().map(|line| format!("  {line}")));
    }
    lines.join("\n") + "\n"
}

fn decide(place: &Place, tool: &str, ruling: Ruling) -> Result<Exit> {
    let (name, pin) = find(place, tool)?;
    let held = pin.held.as_ref().map(|(definition, _)| definition);
    let refused = pin.refused.as_ref().map(|refused| &refused.definition);
    let definition = match ruling {
        Ruling::Rejected if held.is_none() && refused.is_some() => {
            bail!("{name} is rejected already");
        }
        Ruling::Rejected => held.or(pin.live.as_ref()),
        Ruling::Accepted
        | Ruling::FirstSeen
        | Ruling::Quarantined
        | Ruling::Returned
        | Ruling::Gone => held.or(refused),
    };
    let Some(definition) = definition.cloned() else {
        bail!("nothing of {name} waits for a decision");
    };
    let (word, what) = match ruling {
        Ruling::Rejected => ("reject", "It is shown to no model, as long as it stays so."),
        Ruling::Accepted
        | Ruling::FirstSeen
        | Ruling::Quarantined
        | Ruling::Returned
        | Ruling::Gone => ("accept", "Models are shown these very words from then on."),
    };
    block_on(async {
        let card = lines(&name, &pin);
        let seen = person::paged(&card).await;
        hint(&format!("\n{what}"));
        if seen.is_none() || !person::confirm(word, "do this").await? {
            say("Nothing was decided.");
            return Ok(Exit::Failed);
        }
        let person = credential::decider(place).await?;
        let Opened { runtime, .. } = place.open()?;
        let known = runtime.catch_up().await?.pins.get(&name).cloned().unwrap_or_default();
        if known != pin {
            bail!("{name} changed while you were looking at it; look again");
        }
        runtime
            .pin(
                person.author(&card),
                vec![Pinned { tool: name.clone(), ruling, definition, why: vec![] }],
            )
            .await?;
        say(&format!("{name}: {word}ed."));
        Ok(Exit::Done)
    })
}
