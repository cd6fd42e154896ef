//! `toolgate approvals history`: every decision of a person in the log, with its key and its card.

use anyhow::Result;
use serde::Serialize;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::{DecisionKind, Role, SignedDecision};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Event, InboxEvent, ProjectEvent, Record, Said, StreamId};
use toolgate_kernel::pin::Ruling;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;

use crate::console::{self, hint, say};
use crate::exit::Exit;
use crate::project::{Place, block_on};
use crate::visible::named;

/// A decision in the list.
#[derive(Serialize)]
struct DecisionRow {
    stream: String,
    seq: u64,
    at: Timestamp,
    actor: Actor,
    /// Absent for the answer of a client's user, which rests on a delegation.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PersonKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<Role>,
    /// Digest of the lines that the person was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    shown: Option<Digest>,
    what: String,
}

impl DecisionRow {
    fn of<E>(stream: &StreamId, record: &Record<E>, what: String) -> Self {
        let statement = record.decision.as_deref().map(|signed| &signed.statement);
        Self {
            stream: stream.to_string(),
            seq: record.seq,
            at: record.at,
            actor: record.actor.clone(),
            key: statement.map(|statement| statement.by),
            role: statement.map(|statement| statement.role),
            shown: statement.map(|statement| statement.shown),
            what,
        }
    }

    fn lines(&self) -> [String; 2] {
        let role = self.role.map_or("by delegation".to_owned(), |role| role.to_string());
        let key = self.key.map_or(String::new(), |key| {
            let short: String = key.to_string().chars().take(16).collect();
            format!(", key {short}")
        });
        let second =
            format!("  {} ({role}{key}), {} {}", named(&self.actor), self.stream, self.seq);
        [format!("{}  {}", self.at, self.what), second]
    }
}

pub(crate) fn list(place: &Place, json: bool) -> Result<Exit> {
    let mut rows = block_on(async {
        let log = place.log()?;
        decisions(log.store.as_ref()).await
    })?;
    rows.sort_by_key(|row| row.at);
    for row in &rows {
        if json {
            console::json(row);
        } else {
            row.lines().iter().for_each(|line| say(line));
        }
    }
    if rows.is_empty() && !json {
        hint("No person has decided anything here yet.");
    }
    Ok(Exit::Done)
}

async fn decisions(store: &dyn Store) -> Result<Vec<DecisionRow>> {
    let mut rows = Vec::new();
    for head in store.heads().await? {
        let stream = head.stream;
        match &stream {
            StreamId::Project => {
                read_from(store, &stream, Tip::START, |record: Record<ProjectEvent>, _: &_| {
                    rows.extend(signed_row(&stream, &record));
                })
                .await?;
            }
            StreamId::Session(_) => {
                read_from(store, &stream, Tip::START, |record: Record<Event>, _: &_| {
                    rows.extend(signed_row(&stream, &record));
                })
                .await?;
            }
            StreamId::Inbox(_) => {
                read_from(store, &stream, Tip::START, |record: Record<InboxEvent>, _: &_| {
                    let InboxEvent::Spoken { said } = &record.event;
                    match (said, &record.decision) {
                        (Said::Answer(given), None) => {
                            let what = format!("{} {}", word(given.answer), given.call);
                            let what = format!("{what} ({}) by the user of a client", given.tool);
                            rows.push(DecisionRow::of(&stream, &record, what));
                        }
                        _ => rows.extend(signed_row(&stream, &record)),
                    }
                })
                .await?;
            }
        }
    }
    Ok(rows)
}

fn signed_row<E>(stream: &StreamId, record: &Record<E>) -> Option<DecisionRow> {
    let SignedDecision { statement, .. } = record.decision.as_deref()?;
    Some(DecisionRow::of(stream, record, described(&statement.what)))
}

fn word(answer: Answer) -> &'static str {
    match answer {
        Answer::Approve => "approved",
        Answer::Deny => "denied",
    }
}

fn ruled(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Rejected => "rejected",
        Ruling::Accepted
        | Ruling::FirstSeen
        | Ruling::Quarantined
        | Ruling::Returned
        | Ruling::Gone => "accepted",
    }
}

/// A decision in a sentence.
pub(super) fn described(what: &DecisionKind) -> String {
    match what {
        DecisionKind::Bootstrap { name, .. } => format!("{name} enrolled as the first owner"),
        DecisionKind::Enrol { name, role, .. } => format!("enrolled {name} as {role}"),
        DecisionKind::Revoke { key, .. } => format!("revoked the key {key}"),
        DecisionKind::Trust { .. } => "trusted the configuration".to_owned(),
        DecisionKind::Delegate { client, answers_max, until, .. } => {
            format!("delegated {answers_max} answers to the user of {client}, until {until}")
        }
        DecisionKind::Restore { seen, now } => {
            format!("accepted a restored log: {} commits in place of {}", now.size, seen.size)
        }
        DecisionKind::EndDelegation { delegation } => format!("ended delegation {delegation}"),
        DecisionKind::Answer { call, tool, answer, edited, allow, .. } => {
            let edited = if *edited { " with other arguments" } else { "" };
            let allow = if allow.is_some() { ", and later calls of the kind" } else { "" };
            format!("{} {call} ({tool}){edited}{allow}", word(*answer))
        }
        DecisionKind::Withdraw { tool, policy, .. } => format!("{policy} asks about {tool} again"),
        DecisionKind::Clear { .. } => "cleared what the session had read".to_owned(),
        DecisionKind::ClearFamilies { families, .. } => {
            let names: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
            format!("cleared the mark of {}", names.join(", "))
        }
        DecisionKind::Pin { tool, ruling, .. } => {
            format!("{} the definition of {tool}", ruled(*ruling))
        }
        DecisionKind::State { families, .. } => {
            let names: Vec<&str> = families.iter().map(|family| family.as_str()).collect();
            format!("changed {}", names.join(", "))
        }
        DecisionKind::Undo { calls, .. } => {
            let calls: Vec<String> = calls.iter().map(ToString::to_string).collect();
            format!("undid {}", calls.join(", "))
        }
        DecisionKind::Decide { proposal, revision, ruling, .. } => {
            format!("{} proposal {proposal}, revision {revision}", ruling.as_str())
        }
        DecisionKind::AcceptPrompt { id, .. } => {
            format!("accepted the prompt {id} of their own file")
        }
        DecisionKind::RollBackPrompt { id, version, .. } => {
            format!("rolled the prompt tool {id} back to version {version}")
        }
    }
}
