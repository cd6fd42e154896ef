//! Starts each configured program once, and says whether it answers and how isolated it is.

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_kernel::config::{AgentText, Transport};
use toolgate_sandbox::closed_at_top;

use crate::console::{self, paragraph, say, visible};
use crate::isolation::Isolation;
use crate::project::Place;
use crate::servers;
use crate::trust::TrustedAccess;

/// What was found of the program of an MCP server.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProgramReport {
    /// The server.
    server: String,
    /// Whether its program started and listed its tools.
    pub(crate) ok: bool,
    /// How isolated the program is: `full`, `partial: …` or `none: …`; absent when it did not start.
    isolation: Option<String>,
    /// What was seen, in a sentence.
    says: String,
    /// Paths under `write` at whose top no new names can be made.
    closed_at_top: Vec<String>,
}

impl ProgramReport {
    /// Starts every program of a configuration, one after the other.
    pub(crate) async fn all(
        place: &Place,
        access: &TrustedAccess,
        text: &AgentText,
    ) -> Result<Vec<Self>> {
        let is_program = |transport| transport == Transport::Stdio;
        if !text.mcp_servers.values().any(|server| is_program(server.transport())) {
            return Ok(Vec::new());
        }
        let registry = servers::registry(place, access, text)?;
        let isolation = Isolation::of(place, text)?;
        let mut found = Vec::new();
        for (name, server) in &text.mcp_servers {
            if !is_program(server.transport()) {
                continue;
            }
            let request = isolation.request(name, server);
            let closed = closed_at_top(&request, &request.write);
            let closed_at_top = closed.iter().map(|path| path.display().to_string()).collect();
            let report = match registry.tools(name).await {
                Ok(listed) => {
                    let tools = match listed.tools.len() {
                        1 => "1 tool".to_owned(),
                        count => format!("{count} tools"),
                    };
                    let says = format!("starts, and has {tools}");
                    let isolation = listed.isolation.as_ref().map(ToString::to_string);
                    Self { server: name.to_string(), ok: true, isolation, says, closed_at_top }
                }
                Err(fault) => {
                    let (server, says) = (name.to_string(), fault.to_string());
                    Self { server, ok: false, isolation: None, says, closed_at_top }
                }
            };
            found.push(report);
        }
        registry.close().await;
        Ok(found)
    }

    /// Prints what was found of all of them.
    pub(crate) fn print(reports: &[Self]) {
        if reports.is_empty() {
            return;
        }
        say("");
        say("MCP servers that are programs:");
        for report in reports {
            let mark = console::mark(if report.ok { '✓' } else { '✗' });
            say(&console::fit(&format!("  {mark} {}", visible(&report.server))));
            paragraph(&visible(&report.says));
            match report.isolation.as_deref().map(|level| (level, level.strip_prefix("none: "))) {
                Some((_, Some(why))) => paragraph(&format!(
                    "NOT isolated: {}. It can read your keys and this log.",
                    visible(why)
                )),
                Some((level, None)) => paragraph(&format!("Isolation: {}.", visible(level))),
                None => {}
            }
            for path in &report.closed_at_top {
                paragraph(&format!(
                    "New names at the top of {} are refused, because toolgate's own files lie in it. Of \
                     the project they can be made after: toolgate log move --outside",
                    visible(path)
                ));
            }
        }
    }
}
