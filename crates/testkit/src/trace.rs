//! Decides how a log is written for reading and comparing: one line per event.

use anyhow::Result;
use serde_json::{Map, Value};
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::Store;

/// The log of a session and its project as text, without what differs from run to run.
pub async fn trace(store: &dyn Store, streams: &[StreamId]) -> Result<String> {
    let mut out = String::new();
    for stream in streams {
        let rows = store.read(stream, 1, 100_000).await?;
        if rows.is_empty() {
            continue;
        }
        out.push_str(&format!("# {stream}\n"));
        for row in rows {
            let record: Value = serde_json::from_slice(&row.bytes)?;
            out.push_str(&line(&record));
        }
    }
    Ok(out)
}

/// One event: place, actor, kind, and the rest of it.
fn line(record: &Value) -> String {
    let mut event = record.get("event").and_then(Value::as_object).cloned().unwrap_or_default();
    let kind = event.shift_remove("kind").unwrap_or_default();
    shorten(&mut event);
    let text = |name: &str| match record.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let kind = kind.as_str().unwrap_or_default();
    format!("{:>3} {:<14} {:<16} {}\n", text("seq"), text("actor"), kind, Value::Object(event))
}

/// Digests and receipts are right when they are checked; here they only tell things apart.
fn shorten(map: &mut Map<String, Value>) {
    for (name, value) in map.iter_mut() {
        match value {
            Value::String(text) => {
                let digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
                if name == "program" || name == "config" || name == "version" || name == "frame" {
                    "…".clone_into(text);
                } else if digest {
                    text.truncate(8);
                } else if text.starts_with("rcpt_") {
                    text.truncate(13);
                } else if text.len() > 300 {
                    let cut = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
                    let bytes = text.len();
                    text.truncate(cut);
                    text.push_str(&format!("… ({bytes} bytes)"));
                }
            }
            Value::Object(inner) => shorten(inner),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(shorten);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
