//! Decides how a log is written for reading and comparing: one line per event.

use anyhow::Result;
use serde_json::{Map, Value};
use toolgate_kernel::event::StreamId;
use toolgate_runtime::port::Store;

/// The log of a session and its project as text, without what differs from run to run.
pub async fn trace(store: &dyn Store, streams: &[StreamId]) -> Result<String> {
    let mut records = Vec::new();
    for stream in streams {
        let rows = store.read(stream, 1, 100_000).await?;
        let of_stream = rows.iter().map(|row| serde_json::from_slice(&row.bytes));
        records.push((stream, of_stream.collect::<Result<Vec<Value>, _>>()?));
    }
    // A decision names the log, so the hashes after it differ from log to log.
    let decided = records.iter().flat_map(|(_, all)| all).any(|one| one.get("decision").is_some());
    let mut out = String::new();
    for (stream, records) in records.iter().filter(|(_, records)| !records.is_empty()) {
        out.push_str(&format!("# {stream}\n"));
        records.iter().for_each(|record| out.push_str(&line(record, decided)));
    }
    Ok(out)
}

/// One event: place, actor, kind, and the rest of it.
fn line(record: &Value, decided: bool) -> String {
    let mut event = record.get("event").and_then(Value::as_object).cloned().unwrap_or_default();
    let kind = event.shift_remove("kind").unwrap_or_default();
    shorten(&mut event, decided);
    let text = |name: &str| match record.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let kind = kind.as_str().unwrap_or_default();
    format!("{:>3} {:<14} {:<16} {}\n", text("seq"), text("actor"), kind, Value::Object(event))
}

/// Receipts in words, as a model is told of them.
fn without_receipts(text: &mut String) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("rcpt_")) {
        from += at + "rcpt_".len();
        let hex = text.get(from..).unwrap_or_default();
        let len = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        text.replace_range(from..from + len, "…");
    }
}

/// Digests and receipts are right when they are checked; here they only tell things apart.
fn shorten(map: &mut Map<String, Value>, decided: bool) {
    for (name, value) in map.iter_mut() {
        match value {
            Value::String(text) => {
                if decided {
                    without_receipts(text);
                }
                let digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
                let differs = matches!(name.as_str(), "program" | "config" | "version" | "frame")
                    || decided
                        && matches!(name.as_str(), "hash" | "statement" | "receipt" | "plan");
                if differs {
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
            Value::Object(inner) => shorten(inner, decided),
            Value::Array(items) => {
                let inner = items.iter_mut().filter_map(Value::as_object_mut);
                inner.for_each(|inner| shorten(inner, decided));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
