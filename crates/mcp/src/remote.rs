//! Decides how a tool of a server is run: one call there, and its answer as ours.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::gate::{is_down, is_held};
use toolgate_kernel::names::ServerName;
use toolgate_kernel::tool::{Effect, ToolSpec};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Promised, Tool, later};

use crate::client::{CallFault, Found, Registry, RemoteCall, ServerFault};
use crate::parts::output;

/// A tool of a server.
pub(crate) struct Remote {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) server: ServerName,
    /// The tool as its server described it when it was looked at.
    pub(crate) found: Found,
    pub(crate) registry: Arc<Registry>,
}

impl Tool for Remote {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        later(async move {
            let args = serde_json::to_string(tx.args())
                .map_err(|error| Fault::failed(format!("The arguments are not JSON: {error}.")))?;
            let left_ms = tx.deadline().0.saturating_sub(tx.now().0);
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or_default());
            let now = tokio::time::Instant::now();
            let deadline = now.checked_add(left).unwrap_or(now);
            let key = tx.idempotency_key();
            let known = Some(&self.found);
            let asked = RemoteCall { tool: &self.found.name, args: &args, known, key: Some(&key) };
            let mut answered = self.registry.call(&self.server, asked, deadline).await;
            let again = match (self.spec.effect, &answered) {
                // Looking twice does no harm.
                (Effect::Read, Err(CallFault::Lost(_))) => true,
                // The server honours the key, and says that only its session is gone.
                (Effect::Idempotent, Err(CallFault::Lost(ServerFault::SessionEnded))) => true,
                (Effect::Read | Effect::Staged | Effect::Idempotent | Effect::External, _) => false,
            };
            if again {
                answered = Box::pin(self.registry.call(&self.server, asked, deadline)).await;
            }
            match answered {
                Ok(answered) => {
                    let declared = self.spec.output != Value::Bool(true);
                    output(&answered, declared, &tx.agent().limits)
                }
                Err(fault) => Err(self.fault(tx, &fault)),
            }
        })
    }
}

/// Bytes of what only the log is told of a fault.
const DETAIL_BYTES_MAX: u64 = 2_000;

impl Remote {
    /// What the caller is told. Addresses and the like are for the log alone.
    fn fault(&self, tx: &mut Transaction, fault: &CallFault) -> Fault {
        if *fault == CallFault::Changed {
            return Fault::of(is_held(&self.spec.name));
        }
        let down = if let CallFault::NotSent(why) = fault { Some(why) } else { None };
        let down = down.filter(|why| !matches!(why, ServerFault::Unsure { .. }));
        let (whole, told) = match down {
            Some(why) => (why.to_string(), why.in_our_words()),
            None => (fault.to_string(), fault.in_our_words()),
        };
        if whole != told {
            let detail = bounded_text(&whole, DETAIL_BYTES_MAX).into_owned();
            // A call that wrote down too much already says no more.
            drop(tx.audit("detail", detail));
        }
        if down.is_some() {
            return Fault::of(is_down(&self.spec.name, &self.server, &told));
        }
        let message = format!("MCP server {}: {told}.", self.server);
        if fault.may_have_happened() { Fault::lost(message) } else { Fault::failed(message) }
    }
}
