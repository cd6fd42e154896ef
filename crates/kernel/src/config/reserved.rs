//! Decides which keys of a request nobody may overrule.

use serde_json::{Map, Value};

/// They come from the plan, or the answer could not be read. The keys of all dialects are in one list; none of them means something else elsewhere.
const RESERVED_KEYS: &[&str] = &[
    "model",
    "messages",
    "input",
    "contents",
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
    "tools",
    "tool_choice",
    "toolConfig",
    "tool_config",
    "functions",
    "function_call",
    "response_format",
    "output_format",
    "responseMimeType",
    "response_mime_type",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "response_json_schema",
    "stream",
];

/// Keys beside which others stand that may be overruled: where, and which are reserved there.
const RESERVED_INSIDE: &[(&str, &[&str])] = &[
    ("text", &["format"]),
    ("output_config", &["format"]),
    ("generationConfig", RESERVED_KEYS),
    ("generation_config", RESERVED_KEYS),
];

/// Where keys stand that nobody may overrule, among those that somebody gives for a request.
pub fn reserved(given: &Map<String, Value>) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for (key, value) in given {
        if RESERVED_KEYS.contains(&key.as_str()) {
            found.push(vec![key.as_str()]);
            continue;
        }
        let (Some((_, inside)), Value::Object(inner)) =
            (RESERVED_INSIDE.iter().find(|(outer, _)| outer == key), value)
        else {
            continue;
        };
        let own = inner.keys().filter(|key| inside.contains(&key.as_str()));
        found.extend(own.map(|own| vec![key.as_str(), own.as_str()]));
    }
    found
}

/// What somebody gives for a request, without those keys.
pub fn unreserved(given: &Map<String, Value>) -> Map<String, Value> {
    let mut left = given.clone();
    for path in reserved(given) {
        match path.as_slice() {
            [key] => drop(left.shift_remove(*key)),
            [outer, key] => {
                let inner = left.get_mut(*outer).and_then(Value::as_object_mut);
                let is_empty = inner.is_some_and(|inner| {
                    inner.shift_remove(*key);
                    inner.is_empty()
                });
                if is_empty {
                    left.shift_remove(*outer);
                }
            }
            _ => {}
        }
    }
    left
}
