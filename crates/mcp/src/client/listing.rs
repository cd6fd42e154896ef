//! Decides which tools a server says it has: its list, page by page, bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::connection::Connection;
use super::cover::Cover;
use super::fault::{CallFault, ServerFault, shown};
use super::headers::{Repeated, repeated};
use super::message::Reply;

/// Characters of a server's instructions that are kept.
const INSTRUCTIONS_CHARS_MAX: usize = 4_096;

/// What a server says it has. None of it is believed: it is scanned, and pinned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listed {
    /// The revision that is spoken.
    pub version: String,
    /// Its tools, in its order.
    pub tools: Vec<Found>,
    /// Entries of its list that are no tool, and why.
    pub unreadable: Vec<String>,
    /// What it wants models to be told. Nobody is told unless a person decided so.
    pub instructions: Option<String>,
}

/// One tool, as its server describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Its name there.
    pub name: String,
    /// Its name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, rename = "description")]
    pub about: Option<String>,
    /// What it takes; `null` where the server says nothing.
    #[serde(default, rename = "inputSchema")]
    pub input: Value,
    /// What it gives.
    #[serde(default, rename = "outputSchema")]
    pub output: Option<Value>,
    /// What the server says about its effects.
    #[serde(default)]
    pub annotations: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Value>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Reads the whole list.
pub(super) async fn list(
    connection: &Connection,
    cover: &Cover,
    deadline: Instant,
) -> Result<Listed, ServerFault> {
    let instructions = connection.era.instructions.as_deref();
    let mut listed = Listed {
        version: connection.era.version.clone(),
        instructions: instructions.map(|text| cover.draw(shown(text, INSTRUCTIONS_CHARS_MAX))),
        ..Listed::default()
    };
    if !connection.era.has_tools {
        return Ok(listed);
    }
    let bounds = connection.bounds;
    let (mut cursor, mut seen) = (None::<String>, BTreeSet::new());
    for _ in 0..bounds.pages_max {
        let page = page(connection, cover, cursor.as_deref(), deadline).await?;
        if listed.tools.len() + listed.unreadable.len() + page.tools.len() > bounds.tools_max {
            return Err(ServerFault::TooMany { what: "tools", max: bounds.tools_max });
        }
        for tool in page.tools {
            match serde_json::from_value::<Found>(tool) {
                Ok(found) => listed.tools.push(found),
                Err(error) => listed.unreadable.push(shown(&error.to_string(), 200)),
            }
        }
        match page.next_cursor {
            None => {
                connection.repeat(all_repeated(&listed.tools));
                return Ok(listed);
            }
            Some(next) if !seen.insert(next.clone()) => return Err(ServerFault::Loop),
            Some(next) => cursor = Some(next),
        }
    }
    Err(ServerFault::TooMany { what: "pages", max: bounds.pages_max })
}

fn all_repeated(tools: &[Found]) -> BTreeMap<String, Arc<[Repeated]>> {
    let of = |tool: &Found| {
        let repeated = repeated(&tool.input);
        (!repeated.is_empty()).then(|| (tool.name.clone(), repeated.into()))
    };
    tools.iter().filter_map(of).collect()
}

async fn page(
    connection: &Connection,
    cover: &Cover,
    cursor: Option<&str>,
    deadline: Instant,
) -> Result<Page, ServerFault> {
    let cursor = cursor.map(|cursor| format!(r#""cursor":{}"#, Value::from(cursor)));
    let members = [cursor.unwrap_or_default(), connection.meta("")];
    let members: Vec<String> = members.into_iter().filter(|text| !text.is_empty()).collect();
    let params = format!("{{{}}}", members.join(","));
    let broken = |text: &str| ServerFault::Protocol(cover.draw(format!("tools/list: {text}")));
    match connection.ask("tools/list", &params, None, deadline).await {
        Ok(Reply::Result(text)) => {
            serde_json::from_str(&cover.draw(text)).map_err(|_| broken("it is no list of tools"))
        }
        Ok(Reply::Error { code, message }) => Err(broken(&format!("{message} ({code})"))),
        Ok(Reply::Cut(_)) | Err(CallFault::TooLarge { .. }) => {
            Err(ServerFault::TooMany { what: "bytes", max: connection.bounds.message_bytes_max })
        }
        Err(CallFault::NotSent(fault) | CallFault::Lost(fault)) => Err(fault),
        Err(CallFault::TimedOut { ms }) => {
            let words = String::new();
            Err(ServerFault::TimedOut { what: "its list of tools", ms, words })
        }
        Err(
            fault @ (CallFault::Refused { .. }
            | CallFault::Changed
            | CallFault::WantsInput(_)
            | CallFault::Misfit(_)),
        ) => Err(broken(&fault.to_string())),
    }
}
