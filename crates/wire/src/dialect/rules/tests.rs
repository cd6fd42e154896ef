//! What each rule refuses, in each dialect it holds for.

use serde_json::{Value, json};

use super::*;
use crate::dialect::chat::CALL_EXTRAS;
use crate::transform::SKIP_SIGNATURE;

/// A request in few words: `u` user, `s` system, `a` words, `t` and `T` a thought, plain and
/// sealed, `c1` a call with its id, `r1` its result, `-` the next message.
fn body(dialect: Dialect, words: &str) -> Map<String, Value> {
    let messages: Vec<Value> = words
        .split(" - ")
        .flat_map(|message| {
            let words: Vec<&str> = message.split_whitespace().collect();
            match dialect {
                Dialect::Chat => chat(&words),
                Dialect::Responses => words.iter().map(|word| item(word)).collect(),
                Dialect::Anthropic | Dialect::Gemini => vec![blocks(dialect, &words)],
            }
        })
        .collect();
    let mut body = Map::new();
    body.insert(key(dialect).to_owned(), Value::Array(messages));
    body.insert("tools".to_owned(), json!([{}]));
    body
}

fn call_id(word: &str) -> &str {
    word.get(1..).unwrap_or_default()
}

fn chat(words: &[&str]) -> Vec<Value> {
    let calls: Vec<Value> = words
        .iter()
        .filter(|word| word.starts_with('c'))
        .map(|word| {
            json!({ "id": call_id(word), "type": "function",
                "function": { "name": "t", "arguments": "{}" } })
        })
        .collect();
    if !calls.is_empty() {
        return vec![json!({ "role": "assistant", "content": "", "tool_calls": calls })];
    }
    let message = |word: &&str| match word.chars().next() {
        Some('s') => json!({ "role": "system", "content": "x" }),
        Some('u') => json!({ "role": "user", "content": "x" }),
        Some('a') => json!({ "role": "assistant", "content": "x" }),
        _ => json!({ "role": "tool", "tool_call_id": call_id(word), "content": "x" }),
    };
    words.iter().map(message).collect()
}

fn item(word: &str) -> Value {
    let message = |role: &str| json!({ "type": "message", "role": role, "content": "x" });
    match word.chars().next() {
        Some('s') => message("system"),
        Some('u') => message("user"),
        Some('a') => message("assistant"),
        Some('t') => json!({ "type": "reasoning", "summary": [] }),
        Some('T') => json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" }),
        Some('c') => {
            json!({ "type": "function_call", "call_id": call_id(word), "name": "t", "arguments": "{}" })
        }
        _ => json!({ "type": "function_call_output", "call_id": call_id(word), "output": "x" }),
    }
}

fn blocks(dialect: Dialect, words: &[&str]) -> Value {
    let mine = words.iter().all(|word| word.starts_with(['a', 't', 'T', 'c']));
    let block = |word: &&str| match (dialect, word.chars().next()) {
        (Dialect::Gemini, Some('c')) => {
            json!({ "functionCall": { "name": format!("t{}", call_id(word)), "args": {} } })
        }
        (Dialect::Gemini, Some('r')) => {
            json!({ "functionResponse": { "name": format!("t{}", call_id(word)), "response": {} } })
        }
        (Dialect::Gemini, _) => json!({ "text": "x" }),
        (_, Some('c')) => {
            json!({ "type": "tool_use", "id": call_id(word), "name": "t", "input": {} })
        }
        (_, Some('r')) => {
            json!({ "type": "tool_result", "tool_use_id": call_id(word), "content": "x" })
        }
        (_, Some('t')) => json!({ "type": "thinking", "thinking": "x" }),
        (_, Some('T')) => json!({ "type": "thinking", "thinking": "x", "signature": "s" }),
        _ => json!({ "type": "text", "text": "x" }),
    };
    let parts: Vec<Value> = words.iter().map(block).collect();
    if dialect == Dialect::Gemini {
        return json!({ "role": if mine { "model" } else { "user" }, "parts": parts });
    }
    json!({ "role": if mine { "assistant" } else { "user" }, "content": parts })
}

fn name(dialect: Dialect, body: &Map<String, Value>) -> &'static str {
    broken(dialect, body).map_or("", |rule| rule.name)
}

#[test]
fn transcripts_are_judged_alike_in_every_dialect() {
    const C: Dialect = Dialect::Chat;
    const R: Dialect = Dialect::Responses;
    const A: Dialect = Dialect::Anthropic;
    const G: Dialect = Dialect::Gemini;
    let table: &[(&str, &[Dialect], &str)] = &[
        ("u", &[C, R, A, G], ""),
        ("s - u", &[C, R], ""),
        ("u - c1 - r1", &[C, R, A, G], ""),
        ("u - c1 c2 - r1 r2", &[C, R, A, G], ""),
        ("u - c1 c2 - r1 r2 - u", &[C, R, A], ""),
        ("u - c1 c2 - r1 r2 u - c3 - r3 - a - u", &[C, R, A, G], ""),
        ("u - a - u", &[C, R, A, G], ""),
        ("u - T c1 - r1", &[R, A], ""),
        ("u - T a - u", &[R, A], ""),
        ("u - c1 a - r1", &[R], ""),
        ("u - s", &[C], "system_first"),
        ("s - a - u", &[C, R], "user_begins"),
        ("a - u", &[C, R, A, G], "user_begins"),
        ("c1 - r1", &[C, R, A, G], "user_begins"),
        ("u - c1", &[C, R, A, G], "no_open_call"),
        ("u - c1 - u", &[C, R, A, G], "no_open_call"),
        ("u - c1 c2 - r1", &[C, R, A, G], "no_open_call"),
        ("u - c1 c2 - r1 - u", &[C, R, A, G], "no_open_call"),
        ("u - c1 c2 - r1 - c3 - r3", &[C, R, A, G], "no_open_call"),
        ("u - c1 - u r1", &[A, G], "no_open_call"),
        ("u - r1", &[C, R, A, G], "result_of_a_call"),
        ("u - c1 - r2", &[C, R, A, G], "result_of_a_call"),
        ("u - c1 - r1 - r1", &[C, R, A, G], "result_of_a_call"),
        ("u - c1 - r1 - u - r1", &[C, R, A, G], "result_of_a_call"),
        ("u - c1 c2 - r2 r1", &[C, R, A, G], "results_in_order"),
        ("u - c - r", &[C, R, A], "id_is_legal"),
        ("u - c1 c1 - r1 r1", &[C, R, A], "id_is_unique"),
        ("u - c1 - r1 - c1 - r1", &[C, R], ""),
        ("u - c1 - r1 - c1 - r1", &[A], "id_is_unique"),
        ("u - t a - u", &[R, A], "thought_is_sealed"),
        ("u - T - u", &[R], "thought_leads_on"),
        ("u - a - a - u", &[G], "call_after_user"),
        ("u - a", &[C, R, G], "user_ends"),
        ("u - a", &[A], ""),
    ];
    for (words, dialects, rule) in table {
        for dialect in *dialects {
            assert_eq!(name(*dialect, &body(*dialect, words)), *rule, "{dialect:?}: {words}");
        }
    }
}

#[test]
fn what_a_message_holds_is_judged() {
    let call = |change: (&str, Value)| {
        let mut body = body(Dialect::Chat, "u - c1 - r1");
        *body["messages"][1].pointer_mut(change.0).unwrap() = change.1;
        name(Dialect::Chat, &body)
    };
    assert_eq!(call(("/role", json!("narrator"))), "known_form");
    assert_eq!(call(("/tool_calls/0/id", json!("x".repeat(41)))), "id_is_legal");
    assert_eq!(call(("/tool_calls/0/id", json!("a b"))), "id_is_legal");
    assert_eq!(call(("/tool_calls/0/id", json!(null))), "id_is_legal");
    for bad in ["", "a b", "żółć", &"x".repeat(65)] {
        assert_eq!(call(("/tool_calls/0/function/name", json!(bad))), "name_is_legal");
    }
    for bad in ["", "[]", "{", "3", "null"] {
        let found = call(("/tool_calls/0/function/arguments", json!(bad)));
        assert_eq!(found, "arguments_are_an_object");
    }
    let mut gemini = body(Dialect::Gemini, "u - c1 c2 - r1 r2");
    gemini["contents"][1]["parts"][1]["thoughtSignature"] = json!(SKIP_SIGNATURE);
    assert_eq!(name(Dialect::Gemini, &gemini), "signature_on_the_first");
    // What a provider signed itself comes back as it was, also where it signed the second alone.
    gemini["contents"][1]["parts"][1]["thoughtSignature"] = json!("s");
    assert_eq!(name(Dialect::Gemini, &gemini), "");
    gemini["contents"][1]["parts"][0]["thoughtSignature"] = json!("s");
    assert_eq!(name(Dialect::Gemini, &gemini), "");
    gemini["contents"][1]["parts"][0]["functionCall"]["name"] = json!("3d");
    assert_eq!(name(Dialect::Gemini, &gemini), "name_is_legal");
    let mut anthropic = body(Dialect::Anthropic, "u - a - u");
    anthropic["messages"][1]["content"][0]["text"] = json!(" ");
    assert_eq!(name(Dialect::Anthropic, &anthropic), "nothing_blank");
}

/// Every spelling of a signature counts, and a provider's own is never judged.
#[test]
fn signatures_on_calls_are_known_in_every_spelling() {
    for key in CALL_EXTRAS {
        let mut chat = body(Dialect::Chat, "u - c1 c2 - r1 r2");
        chat["messages"][1]["tool_calls"][1][*key] = json!("s");
        assert_eq!(name(Dialect::Chat, &chat), "", "{key}");
        chat["messages"][1]["tool_calls"][1][*key] = json!(SKIP_SIGNATURE);
        assert_eq!(name(Dialect::Chat, &chat), "signature_on_the_first", "{key}");
        chat["messages"][1]["tool_calls"][0][*key] = json!({ "google": "s" });
        assert_eq!(name(Dialect::Chat, &chat), "", "{key}");
    }
}

/// Items of the provider's own are kept as they came, so the rules must take them back.
#[test]
fn items_of_the_responses_api_that_nobody_knows_are_words() {
    let kinds =
        ["web_search_call", "compaction", "mcp_list_tools", "shell_call_output", "new_thing"];
    for kind in kinds {
        let mut responses = body(Dialect::Responses, "u - a - u");
        responses["input"][1] = json!({ "type": kind, "id": "x" });
        assert_eq!(name(Dialect::Responses, &responses), "", "{kind}");
        // They do not stand for a result, and lead on from a thought.
        let mut open = body(Dialect::Responses, "u - T - c1 - r1");
        open["input"][1] = json!({ "type": kind });
        assert_eq!(name(Dialect::Responses, &open), "", "{kind}");
        let mut called = body(Dialect::Responses, "u - c1 - a");
        called["input"][2] = json!({ "type": kind });
        assert_eq!(name(Dialect::Responses, &called), "no_open_call", "{kind}");
    }
    let mut strange = body(Dialect::Responses, "u");
    strange["input"][0]["role"] = json!("narrator");
    assert_eq!(name(Dialect::Responses, &strange), "known_form");
}

#[test]
fn the_rest_of_a_request_is_judged() {
    let mut chat = body(Dialect::Chat, "u");
    chat.insert("response_format".to_owned(), json!({ "type": "json_object" }));
    assert_eq!(name(Dialect::Chat, &chat), "tools_or_form");
    let mut responses = body(Dialect::Responses, "u");
    responses.insert("text".to_owned(), json!({ "format": { "type": "json_object" } }));
    assert_eq!(name(Dialect::Responses, &responses), "tools_or_form");
    let mut anthropic = body(Dialect::Anthropic, "u - c1 - r1");
    anthropic.remove("tools");
    assert_eq!(name(Dialect::Anthropic, &anthropic), "calls_have_tools");
}

#[test]
fn a_transcript_that_grows_is_judged_like_a_whole_one() {
    for dialect in Dialect::ALL {
        let whole = body(dialect, "u - c1 c2 - r1 r2 - c3 - r3 u");
        let messages = whole[key(dialect)].as_array().unwrap();
        for split in 0..messages.len() {
            let mut transcript = Transcript::new(dialect);
            assert_eq!(transcript.add(&messages[..split]), None);
            assert_eq!(transcript.end(&messages[split..], &whole), None);
            // What is only looked at is not kept.
            assert_eq!(transcript.end(&messages[split..], &whole), None);
        }
    }
}

#[test]
fn every_rule_has_a_name_of_its_own_and_a_sentence() {
    let mut names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), RULES.len());
    assert!(RULES.iter().all(|rule| rule.sentence.ends_with('.') && !rule.dialects.is_empty()));
}
