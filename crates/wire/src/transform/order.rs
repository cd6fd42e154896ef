//! Decides how messages stand where user and assistant must take turns: nothing is changed that was
//! sent before, so that a transcript only grows.

use serde_json::{Map, Value, json};

use super::outgoing::{has_calls, is_blank};

/// Stands between a result and words of the user.
const HEARD: &str = "Understood.";
/// Stands for a reply that said nothing.
const SILENT: &str = "(no words)";
/// Stands between two replies.
const GO_ON: &str = "Go on.";

/// What was said right before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing but the system's words.
    System,
    /// A reply.
    Reply,
}

/// Puts messages in order that come after others.
pub(super) fn alternate(after: After, messages: &mut Vec<Value>) {
    let mut ordered: Vec<Value> = Vec::with_capacity(messages.len() + 1);
    for mut message in messages.drain(..) {
        let role = role(&message).to_owned();
        let last = match (ordered.last(), after) {
            (Some(last), _) => self::role(last),
            (None, After::System) => "system",
            (None, After::Reply) => "assistant",
        };
        match (last, role.as_str()) {
            ("user", "user") => {
                if let Some(last) = ordered.last_mut() {
                    join(last, message);
                }
                continue;
            }
            ("tool", "user") => ordered.push(said("assistant", HEARD)),
            ("assistant", "assistant") => ordered.push(said("user", GO_ON)),
            _ => {}
        }
        if let Some(message) = message.as_object_mut().filter(|_| role == "assistant") {
            fill(message);
        }
        ordered.push(message);
    }
    *messages = ordered;
}

/// The same for the last messages of a request, which must not end with a reply.
pub(super) fn close(after: After, messages: &mut Vec<Value>) {
    alternate(after, messages);
    if messages.is_empty() && after == After::Reply {
        messages.push(said("user", GO_ON));
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn said(role: &str, words: &str) -> Value {
    json!({ "role": role, "content": words })
}

/// A reply that says nothing and calls nothing says so.
fn fill(message: &mut Map<String, Value>) {
    let blank = message.get("content").is_none_or(|words| words.is_null() || is_blank(words));
    if blank && !has_calls(message) {
        message.insert("content".to_owned(), SILENT.into());
    }
}

/// Two messages of the user as one: words with a blank line between them, or all parts.
fn join(first: &mut Value, mut second: Value) {
    let (Some(before), Some(more)) = (first.get_mut("content"), second.get_mut("content")) else {
        return;
    };
    if let (Value::String(before), Value::String(more)) = (&mut *before, &*more) {
        before.push_str("\n\n");
        before.push_str(more);
        return;
    }
    let mut parts = parts(before.take());
    parts.extend(self::parts(more.take()));
    *before = Value::Array(parts);
}

fn parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        Value::String(text) if !text.trim().is_empty() => {
            vec![json!({ "type": "text", "text": text })]
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `u` user, `a` words, `e` a silent reply, `c` a call, `t` its result, `p` a picture.
    fn messages(words: &str) -> Vec<Value> {
        let message = |word: &str| match word {
            "u" => said("user", "u"),
            "p" => json!({ "role": "user", "content": [{ "type": "image_url" }] }),
            "a" => said("assistant", "a"),
            "e" => said("assistant", " "),
            "c" => json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": "1" }] }),
            "t" => json!({ "role": "tool", "tool_call_id": "1", "content": "t" }),
            "s" => said("system", "s"),
            other => panic!("{other}"),
        };
        words.split_whitespace().map(message).collect()
    }

    fn told(messages: &[Value]) -> String {
        let word = |message: &Value| match (role(message), message.get("content")) {
            ("tool", _) => "t".to_owned(),
            (_, _) if message.get("tool_calls").is_some() => "c".to_owned(),
            (_, Some(Value::String(words))) => words.replace("\n\n", "+"),
            (_, Some(Value::Array(parts))) => format!("[{}]", parts.len()),
            (role, _) => role.to_owned(),
        };
        messages.iter().map(word).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn user_and_assistant_take_turns() {
        let table = [
            ("s u", After::System, "s|u"),
            ("u u a", After::System, "u+u|a"),
            ("u p a", After::System, "[2]|a"),
            ("p u a", After::System, "[2]|a"),
            ("u c", After::System, "u|c"),
            ("t t c", After::Reply, "t|t|c"),
            ("t u c", After::Reply, "t|Understood.|u|c"),
            ("t u u a", After::Reply, "t|Understood.|u+u|a"),
            ("u e", After::System, "u|(no words)"),
            ("a", After::Reply, "Go on.|a"),
            ("u a", After::Reply, "u|a"),
            ("", After::Reply, ""),
        ];
        for (words, after, wanted) in table {
            let mut messages = messages(words);
            alternate(after, &mut messages);
            assert_eq!(told(&messages), wanted, "{words}");
        }
    }

    #[test]
    fn a_request_does_not_end_with_a_reply() {
        for (words, after, wanted) in
            [("", After::Reply, "Go on."), ("", After::System, ""), ("t", After::Reply, "t")]
        {
            let mut messages = messages(words);
            close(after, &mut messages);
            assert_eq!(told(&messages), wanted);
        }
    }
}
