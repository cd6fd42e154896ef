//! Decides the one way a JSON value is written when it is hashed or exported.

use serde_json::Value;

use super::write::write_text;

/// The value with the keys of every object sorted by their bytes, and no spaces.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write_canonical(value, &mut out);
    out
}

/// Appends the canonical form to `out`.
pub fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            let mut first = true;
            let mut entry = |key: &String, value: &Value| {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write_canonical(value, out);
            };
            if map.keys().is_sorted() {
                map.iter().for_each(|(key, value)| entry(key, value));
            } else {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                entries.into_iter().for_each(|(key, value)| entry(key, value));
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::String(text) => write_text(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            // Writing a number into memory has no way to fail.
            let written = serde_json::to_writer(out, value);
            debug_assert!(written.is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_depth() {
        let value: Value = serde_json::from_str(r#"{"b":[{"z":1,"a":null}],"a":"é\n"}"#).unwrap();
        assert_eq!(canonical(&value), "{\"a\":\"é\\n\",\"b\":[{\"a\":null,\"z\":1}]}".as_bytes());
    }
}
