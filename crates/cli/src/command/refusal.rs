//! Answers an MCP client whose session cannot be offered, so that the person sees why in the client.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use toolgate_mcp::server::pipes;

/// Bytes of one message. A longer one is not read.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// The code of the error: one of those that a server may define itself.
const NOT_TRUSTED: i64 = -32_002;

/// Answers every request with an error that says why, until the client leaves.
pub(super) async fn answer(why: &anyhow::Error) -> Result<()> {
    let (mut input, mut output) = (pipes::input(), pipes::output());
    let text = format!("{why:#}");
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut input).take(MESSAGE_BYTES_MAX);
        let read = bounded.read_until(b'\n', &mut line).await.context("the client is gone")?;
        // One that was cut off cannot be told from what follows it.
        if read == 0 || !line.ends_with(b"\n") {
            return Ok(());
        }
        let Some(id) = id_of_request(&line) else { continue };
        let error = json!({"code": NOT_TRUSTED, "message": text});
        let said = json!({"jsonrpc": "2.0", "id": id, "error": error});
        // A client that does not listen any more has left.
        if output.write_all(format!("{said}\n").as_bytes()).await.is_err() {
            return Ok(());
        }
        output.flush().await.ok();
    }
}

/// The id of a request; none of a notification, or of what is no message.
fn id_of_request(line: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(line).ok()?;
    message.get("method")?;
    message.get("id").filter(|id| id.is_string() || id.is_number()).cloned()
}
