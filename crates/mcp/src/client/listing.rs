//! Decides which tools a server says it has: its list, page by page, bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use toolgate_kernel::json::parse_strict;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::redact::Redactor;
use toolgate_sandbox::IsolationLevel;

use super::connection::Connection;
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
    /// How isolated its program is; nothing for a server with an address.
    pub isolation: Option<IsolationLevel>,
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
    /// Read one by one: what is wrong with one of them costs no other one.
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Reads the whole list.
pub(super) async fn list(
    connection: &Connection,
    redactor: &Redactor,
    deadline: Instant,
) -> Result<Listed, ServerFault> {
    let instructions = connection.era.instructions.as_deref();
    let mut listed = Listed {
        version: connection.era.version.clone(),
        instructions: instructions
            .map(|text| shown(&redactor.redact(text), INSTRUCTIONS_CHARS_MAX)),
        isolation: connection.isolation.clone(),
        ..Listed::default()
    };
    if !connection.era.has_tools {
        return Ok(listed);
    }
    let bounds = connection.bounds;
    let (mut cursor, mut seen) = (None::<String>, BTreeSet::new());
    for _ in 0..bounds.pages_max {
        let page = page(connection, redactor, cursor.as_deref(), deadline).await?;
        if listed.tools.len() + listed.unreadable.len() + page.tools.len() > bounds.tools_max {
            return Err(ServerFault::TooMany { what: "tools", max: bounds.tools_max });
        }
        for tool in page.tools {
            match found(tool.get()) {
                Ok(found) => listed.tools.push(found),
                Err(why) => listed.unreadable.push(why),
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

/// One entry of a list, or why it is no tool.
fn found(entry: &str) -> Result<Found, String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    // A list would be read as the fields of a tool, one after the other.
    if !entry.starts_with('{') {
        return Err("it is no object".to_owned());
    }
    let limits = Limits { args_items_max: u64::MAX, args_depth_max: 120, ..Limits::default() };
    // Of a name that is there twice, readers take either.
    let strict = parse_strict(entry, &limits);
    if let Err(refusal) = strict.map_err(|refusal| refusal.to_string())
        && refusal.contains("twice")
    {
        return Err(shown(&refusal, 200));
    }
    serde_json::from_str(entry).map_err(|error| {
        let named = serde_json::from_str(entry).map(|Named { name }| format!("{name}: "));
        shown(&format!("{}{error}", named.unwrap_or_default()), 200)
    })
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
    redactor: &Redactor,
    cursor: Option<&str>,
    deadline: Instant,
) -> Result<Page, ServerFault> {
    let cursor = cursor.map(|cursor| format!(r#""cursor":{}"#, Value::from(cursor)));
    let members = [cursor.unwrap_or_default(), connection.meta("")];
    let members: Vec<String> = members.into_iter().filter(|text| !text.is_empty()).collect();
    let params = format!("{{{}}}", members.join(","));
    let broken =
        |text: &str| ServerFault::Protocol(redactor.redact_error(&format!("tools/list: {text}")));
    match connection.ask("tools/list", &params, None, deadline).await {
        Ok(Reply::Result(text)) => serde_json::from_str(&redactor.redact_json(text))
            .map_err(|_| broken("it is no list of tools")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_one_tool_costs_no_other_one() {
        let deep =
            format!("{}{}", r#"{"properties":{"a":"#.repeat(70), "1".to_owned() + &"}}".repeat(70));
        let entries = format!(
            r#"{{"tools":[{{"name":"good"}},{{"name":"deep","inputSchema":{deep}}},["x"],{{"name":1}},7]}}"#
        );
        let page: Page = serde_json::from_str(&entries).unwrap();
        let read: Vec<_> = page.tools.iter().map(|tool| found(tool.get())).collect();
        assert!(matches!(&read[0], Ok(good) if good.name == "good"));
        assert!(
            matches!(&read[1], Err(why) if why.starts_with("deep: recursion limit")),
            "{read:?}"
        );
        assert!(read[2..].iter().all(Result::is_err), "{read:?}");
    }
}
