//! Decides which headers a request of the 2026 revision has, so that what stands between can route
//! it without reading it.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// An argument that a header repeats: where it is, and the name of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repeated {
    path: Vec<String>,
    pub(crate) header: HeaderName,
}

impl Repeated {
    /// The argument as a text, where there is one that a header can repeat.
    pub(crate) fn told(&self, args: &Value) -> Option<String> {
        match self.path.iter().try_fold(args, |value, key| value.get(key))? {
            Value::String(text) => Some(text.clone()),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// The arguments of a tool that headers repeat. A schema whose marks are not legal was excluded
/// before.
pub(crate) fn repeated(input: &Value) -> Vec<Repeated> {
    fn walk(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Repeated>) {
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            path.push(name.clone());
            let mark = schema.get("x-mcp-header").and_then(Value::as_str);
            let header = mark.map(|mark| format!("mcp-param-{}", mark.to_ascii_lowercase()));
            if let Some(Ok(header)) = header.map(|name| HeaderName::from_bytes(name.as_bytes())) {
                found.push(Repeated { path: path.clone(), header });
            }
            walk(schema, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    walk(input, &mut Vec::new(), &mut found);
    found
}

/// The headers that say what a request is.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Adds what a request of this method has.
pub(super) fn standard(headers: &mut HeaderMap, method: &str, name: Option<&str>) {
    if let Ok(value) = HeaderValue::from_str(method) {
        headers.insert(METHOD, value);
    }
    if let Some(value) = name.and_then(|name| HeaderValue::from_str(&encoded(name)).ok()) {
        headers.insert(NAME, value);
    }
}

/// Adds the arguments that headers repeat.
pub(super) fn arguments(headers: &mut HeaderMap, repeated: &[Repeated], args: &str) {
    if repeated.is_empty() {
        return;
    }
    let Ok(args) = serde_json::from_str::<Value>(args) else { return };
    for one in repeated {
        let value = one.told(&args).map(|text| HeaderValue::from_str(&encoded(&text)));
        if let Some(Ok(value)) = value {
            headers.insert(&one.header, value);
        }
    }
}

/// A value that can travel in a header: as it is, or in base64 where it could be read wrongly.
fn encoded(value: &str) -> Cow<'_, str> {
    let edge = |end: Option<char>| matches!(end, Some(' ' | '\t'));
    let odd = value.chars().any(|c| !('\u{20}'..='\u{7e}').contains(&c))
        || edge(value.chars().next())
        || edge(value.chars().next_back());
    // What looks encoded already would be decoded at the other end.
    let encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if odd || encoded {
        format!("=?base64?{}?=", BASE64_STANDARD.encode(value)).into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headers_repeat_marked_arguments_and_no_line_break_leaves() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "plain": {"type": "string"},
        }});
        let mut headers = HeaderMap::new();
        standard(&mut headers, "tools/call", Some("weather"));
        let args = r#"{"region":"a\r\nauthorization: x","deep":{"n":7},"plain":"p"}"#;
        arguments(&mut headers, &repeated(&schema), args);
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "weather");
        assert_eq!(headers["mcp-param-n"], "7");
        assert_eq!(headers["mcp-param-region"], "=?base64?YQ0KYXV0aG9yaXphdGlvbjogeA==?=");
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn what_could_be_read_wrongly_is_encoded() {
        for (value, sent) in [
            ("plain text", "plain text"),
            ("", ""),
            (" edge", "=?base64?IGVkZ2U=?="),
            ("天気", "=?base64?5aSp5rCX?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encoded(value), sent);
        }
    }
}
