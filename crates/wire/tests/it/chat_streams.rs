//! Streams as data: which calls come of them, and which streams are a fault.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::event::{FaultKind, Finish};
use toolgate_wire::dialect::Dialect;

use crate::play::streamed;

type Piece = (Option<u64>, Option<String>, Option<String>, Option<Value>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stream {
    about: String,
    /// Pieces of calls, each in an event of its own: index, id, name, arguments.
    #[serde(default)]
    pieces: Vec<Piece>,
    /// Whole events, after the pieces.
    #[serde(default)]
    events: Vec<Value>,
    /// Why it stops; by itself, for its calls.
    #[serde(default = "calls")]
    finish: Option<String>,
    /// Each call as `id name arguments`.
    #[serde(default)]
    calls: Vec<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    ends: Option<Finish>,
    #[serde(default)]
    fault: Option<FaultKind>,
}

fn calls() -> Option<String> {
    Some("tool_calls".to_owned())
}

impl Stream {
    fn bytes(&self) -> String {
        let mut events = Vec::new();
        for (index, id, name, args) in &self.pieces {
            let mut call = json!({ "function": {} });
            let put = |map: &mut Value, key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    map[key] = value;
                }
            };
            put(&mut call, "index", index.map(Value::from));
            put(&mut call, "id", id.clone().map(Value::from));
            put(&mut call["function"], "name", name.clone().map(Value::from));
            put(&mut call["function"], "arguments", args.clone());
            events.push(json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [call] } }] }));
        }
        events.extend(self.events.iter().cloned());
        if let Some(reason) = &self.finish {
            let end = json!({ "index": 0, "delta": {}, "finish_reason": reason });
            events.push(json!({ "choices": [end] }));
        }
        let mut bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        bytes.push_str("data: [DONE]\n\n");
        bytes
    }
}

#[test]
fn calls_are_told_apart() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams/chat.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let streams: Vec<Stream> = serde_saphyr::from_str(&text).unwrap();
    assert!(streams.len() > 20);
    for stream in streams {
        let about = &stream.about;
        let told = streamed(Dialect::Chat, stream.bytes().as_bytes());
        match (stream.fault, told) {
            (Some(kind), told) => assert_eq!(told.unwrap_err().kind, kind, "{about}"),
            (None, told) => {
                let reply = told.unwrap_or_else(|fault| panic!("{about}: {fault}"));
                let calls: Vec<String> = reply
                    .calls
                    .iter()
                    .map(|call| {
                        let id = call.alias.as_deref().unwrap_or("-");
                        format!("{id} {} {}", call.name, call.args).trim().to_owned()
                    })
                    .collect();
                assert_eq!(calls, stream.calls, "{about}");
                assert_eq!(reply.text, stream.text, "{about}");
                let natural = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
                assert_eq!(reply.finish, stream.ends.unwrap_or(natural), "{about}");
            }
        }
    }
}

/// Of two keys of one name, readers take either: what runs must not depend on it.
#[test]
fn a_key_that_decides_is_not_there_twice() {
    let call = r#""tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}]"#;
    for twice in [
        format!(r#"{{"choices":[{{"delta":{{{call}}},"finish_reason":"length","finish_reason":"tool_calls"}}]}}"#),
        format!(r#"{{"error":{{"code":500}},"error":null,"choices":[{{"delta":{{{call}}},"finish_reason":"tool_calls"}}]}}"#),
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read","name":"pay","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#.to_owned(),
    ] {
        let bytes = format!("data: {twice}\n\ndata: [DONE]\n\n");
        assert!(streamed(Dialect::Chat, bytes.as_bytes()).is_err(), "{twice}");
        let whole = twice.replace("\"delta\"", "\"message\"");
        assert!(toolgate_wire::answer::read(whole.as_bytes()).is_err(), "{whole}");
    }
}

/// The same in every dialect: the first of two values forbids the call, or is another one.
#[test]
fn a_key_that_decides_is_not_there_twice_in_any_dialect() {
    let table = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/streams/keys_twice.yaml"
    ));
    let table: Vec<TwiceKey> = serde_saphyr::from_str(&table.unwrap()).unwrap();
    let mut wrong = Vec::new();
    for TwiceKey { dialect, key, first, events } in &table {
        let named = Dialect::ALL.into_iter().find(|one| one.as_str() == dialect).unwrap();
        let plain: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        assert!(streamed(named, plain.as_bytes()).is_ok(), "{dialect} {key}: {plain}");
        let place = plain.find(&format!("\"{key}\":")).unwrap();
        let twice = format!("{}\"{key}\":{first},{}", &plain[..place], &plain[place..]);
        if streamed(named, twice.as_bytes()).is_ok() {
            wrong.push(format!("{dialect} {key}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TwiceKey {
    dialect: String,
    key: String,
    first: Value,
    events: Vec<Value>,
}

/// A stream of any dialect, event by event.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventStream {
    about: String,
    dialect: String,
    events: Vec<Value>,
    /// Whether `[DONE]` follows the events.
    #[serde(default)]
    done: bool,
    /// Each call as `name arguments`.
    #[serde(default)]
    calls: Vec<String>,
    #[serde(default)]
    fault: Option<FaultKind>,
}

#[test]
fn ambiguous_unfinished_and_doubled_replies_are_faults() {
    let mut streams: Vec<EventStream> = Vec::new();
    for file in ["ambiguous", "unreadable", "odd_parts"] {
        let path = format!("{}/tests/streams/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        streams.extend(serde_saphyr::from_str::<Vec<EventStream>>(&text).unwrap());
    }
    let mut wrong = Vec::new();
    for stream in &streams {
        let dialect = Dialect::ALL.into_iter().find(|one| one.as_str() == stream.dialect).unwrap();
        let mut bytes: String =
            stream.events.iter().map(|event| format!("data: {event}\n\n")).collect();
        if stream.done {
            bytes.push_str("data: [DONE]\n\n");
        }
        let told = streamed(dialect, bytes.as_bytes());
        let ok = match (&told, stream.fault) {
            (Err(fault), Some(kind)) => fault.kind == kind,
            (Ok(reply), None) => {
                let calls = reply.calls.iter().map(|call| format!("{} {}", call.name, call.args));
                calls.collect::<Vec<_>>() == stream.calls
            }
            (Err(_), None) | (Ok(_), Some(_)) => false,
        };
        if !ok {
            wrong.push(format!("{} ({}): {told:?}", stream.about, stream.dialect));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
