//! `toolgate receipts`: which call a receipt is of, and whether the log bears it out.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::receipt::Receipt;
use toolgate_runtime::log::ReadFault;
use toolgate_runtime::port::Store;
use toolgate_runtime::{IndexedReceipt, ReceiptIndex};

use crate::console::{self, say, visible};
use crate::exit::Exit;
use crate::project::{Place, block_on};
use crate::reading;

#[derive(Args)]
#[command(after_help = "Example:\n  toolgate receipts show rcpt_817d163cf2a0b1c4d5e6f708")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows the call that a receipt is of, and whether its hash and its place in the log hold.
    #[command(after_help = "Example:\n  toolgate receipts show rcpt_817d163cf2a0b1c4d5e6f708")]
    Show(Show),
}

#[derive(Args)]
struct Show {
    /// The receipt, as the model was shown it.
    receipt: String,
    /// Look in this session only.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Print it as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Options {
    pub(crate) fn json(&self) -> bool {
        let Command::Show(show) = &self.command;
        show.json
    }
}

/// A receipt with what the log says of it.
#[derive(Serialize)]
struct Shown<'a> {
    receipt: Receipt,
    session: &'a SessionId,
    /// The place of its record in the session.
    seq: u64,
    at: String,
    actor: String,
    call: String,
    tool: &'a str,
    /// The arguments as they were written.
    args: &'a str,
    outcome: &'a str,
    /// Whether the hash of the call, its result and its place is the receipt.
    hash_recomputes: bool,
    /// Whether the record lies under the signed head of the log.
    head_valid: bool,
    /// The texts that the answer was made from.
    sources: &'a Value,
    envelope: &'a toolgate_kernel::envelope::Envelope,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let Command::Show(show) = &options.command;
    let receipt = Receipt::try_from(show.receipt.trim().to_owned())?;
    let named = show.session.as_deref().map(SessionId::parse).transpose()?;
    let log = place.log()?;
    let store = log.store.as_ref();
    block_on(async {
        let sessions = match named {
            Some(session) => vec![session],
            // Ids tell when they were made, and the newest ones are asked about most.
            None => reading::project(store).await?.sessions.iter().rev().cloned().collect(),
        };
        for session in &sessions {
            let index = indexed(store, session).await?;
            if let Some(found) = index.get(receipt) {
                return Ok(shown(receipt, session, found, show.json));
            }
        }
        let place = match sessions.as_slice() {
            [one] if show.session.is_some() => format!("session {one}"),
            _ => "this project".to_owned(),
        };
        bail!("no call of {place} has the receipt {receipt}; refused calls have none")
    })
}

/// The receipts of a session. What does not lie under a valid head is no receipt.
async fn indexed(store: &dyn Store, session: &SessionId) -> Result<ReceiptIndex> {
    let (mut index, stream) = (ReceiptIndex::default(), StreamId::Session(session.clone()));
    match index.catch_up(store, &stream).await {
        Ok(()) => Ok(index),
        Err(fault @ ReadFault::Unsigned { .. }) if index.is_empty() => Err(fault.into()),
        // What was read is shown as what it is: under no valid head.
        Err(ReadFault::Unsigned { .. }) => Ok(index),
        Err(fault) => Err(fault.into()),
    }
}

fn shown(receipt: Receipt, session: &SessionId, found: &IndexedReceipt, json: bool) -> Exit {
    let shown = Shown {
        receipt,
        session,
        seq: found.seq,
        at: found.at.to_string(),
        actor: found.actor.to_string(),
        call: found.call.id.to_string(),
        tool: found.tool.as_str(),
        args: &found.call.args,
        outcome: found.outcome.as_str(),
        hash_recomputes: found.recomputes,
        head_valid: found.under_head,
        sources: found.envelope.data.get("sources").unwrap_or(&Value::Null),
        envelope: &found.envelope,
    };
    let holds = shown.hash_recomputes && shown.head_valid;
    if json {
        console::json(&shown);
    } else {
        print(&shown);
    }
    if holds { Exit::Done } else { Exit::Failed }
}

fn print(shown: &Shown<'_>) {
    let mark = |holds| console::mark(if holds { '✓' } else { '✗' });
    say(&format!("{} {} of {}", shown.receipt, shown.call, shown.session));
    say(&format!("  tool      {}", visible(shown.tool)));
    say(&format!("  args      {}", console::fit(&visible(shown.args))));
    say(&format!("  outcome   {}", shown.outcome));
    say(&format!("  when      {}, record {}, by {}", shown.at, shown.seq, visible(&shown.actor)));
    let message = visible(&shown.envelope.message);
    if !message.is_empty() {
        say(&format!("  message   {}", console::fit(&message)));
    }
    for source in shown.sources.as_array().into_iter().flatten() {
        let text = |field: &str| source.get(field).and_then(Value::as_str).unwrap_or_default();
        let (name, hash) = (visible(text("source")), visible(text("sha256")));
        say(&format!("  source    {name} sha256={hash}"));
    }
    say(&format!("  {} the hash recomputes", mark(shown.hash_recomputes)));
    say(&format!("  {} the record lies under a valid signed head", mark(shown.head_valid)));
}
