//! Decides how a tool of a server is run: one call there, and its answer as ours.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolgate_kernel::names::ServerName;
use toolgate_kernel::tool::{Effect, ToolSpec};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use crate::client::{Answered, Asked, CallFault, Registry};

/// A tool of a server.
pub(crate) struct Remote {
    pub(crate) spec: Arc<ToolSpec>,
    pub(crate) server: ServerName,
    /// What the server calls it.
    pub(crate) tool: String,
    pub(crate) registry: Arc<Registry>,
}

impl Tool for Remote {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> BoxFuture<'a, Result<Output, Fault>> {
        Box::pin(async move {
            let args = serde_json::to_string(tx.args())
                .map_err(|error| Fault::failed(format!("The arguments are not JSON: {error}.")))?;
            let left_ms = tx.deadline().0.saturating_sub(tx.now().0);
            let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or_default());
            let now = tokio::time::Instant::now();
            let deadline = now.checked_add(left).unwrap_or(now);
            let key = tx.idempotency_key();
            let asked = Asked { tool: &self.tool, args: &args, key: Some(&key) };
            let mut answered = self.registry.call(&self.server, asked, deadline).await;
            if self.spec.effect == Effect::Read && matches!(answered, Err(CallFault::Lost(_))) {
                // Looking twice does no harm.
                answered = self.registry.call(&self.server, asked, deadline).await;
            }
            match answered {
                Ok(answered) => output(&answered),
                Err(fault) => Err(self.fault(&fault)),
            }
        })
    }
}

impl Remote {
    fn fault(&self, fault: &CallFault) -> Fault {
        let message = format!("MCP server {}: {fault}.", self.server);
        if fault.may_have_happened() { Fault::lost(message) } else { Fault::failed(message) }
    }
}

/// What a server's answer says: data where it has any, else its words.
fn output(answered: &Answered) -> Result<Output, Fault> {
    let mut result: Map<String, Value> = serde_json::from_str(&answered.text)
        .map_err(|_| Fault::lost("The server's answer is no result of a tool."))?;
    let blocks = result.get("content").and_then(Value::as_array);
    let blocks = blocks.into_iter().flatten().filter_map(Value::as_object);
    let words: Vec<String> = blocks.map(block).collect();
    let words = words.join("\n");
    if answered.is_error {
        let said = if words.trim().is_empty() { "The tool failed." } else { &words };
        return Err(Fault::failed(said));
    }
    let data = result.shift_remove("structuredContent").filter(|data| !data.is_null());
    let data = data.unwrap_or_else(|| json!({ "result": words }));
    Ok(Output { message: String::new(), data, message_only: false, warnings: Vec::new() })
}

/// One block of an answer as text. Nothing in it is followed.
fn block(block: &Map<String, Value>) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let field = |name: &str| text(block.get(name)).unwrap_or_default();
    match field("type").as_str() {
        "text" => field("text"),
        "resource_link" => format!("[link: {}]", field("uri")),
        "resource" => {
            let resource = block.get("resource");
            let inner = |name: &str| text(resource.and_then(|resource| resource.get(name)));
            let binary = || format!("[binary: {}]", inner("mimeType").unwrap_or_default());
            inner("text").unwrap_or_else(binary)
        }
        _ => format!("[binary: {}]", field("mimeType")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, is_error: bool) -> Result<Value, Fault> {
        output(&Answered { text: text.to_owned(), is_error }).map(|output| output.data)
    }

    #[test]
    fn data_goes_before_words_and_nothing_is_followed() {
        for (text, data) in [
            (
                r#"{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}"#,
                json!({"n":1}),
            ),
            (
                r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                json!({ "result": "a\nb" }),
            ),
            (
                r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}"#,
                json!({ "result": "[binary: image/png]" }),
            ),
            (
                r#"{"content":[{"type":"resource_link","uri":"file:///etc/passwd","name":"x"}]}"#,
                json!({ "result": "[link: file:///etc/passwd]" }),
            ),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"x://y","text":"inside"}}]}"#,
                json!({ "result": "inside" }),
            ),
            (r#"{"content":[]}"#, json!({ "result": "" })),
        ] {
            assert_eq!(said(text, false), Ok(data), "{text}");
        }
        let failed = said(r#"{"content":[{"type":"text","text":"no such city"}]}"#, true);
        let failed = failed.unwrap_err();
        assert_eq!((failed.errors[0].message.as_str(), failed.lost), ("no such city", false));
        assert!(said("[]", false).unwrap_err().lost);
    }
}
