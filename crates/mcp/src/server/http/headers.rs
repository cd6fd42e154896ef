//! Decides whether the headers of a request of the newest revision say what its body says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::Value;

use super::super::refusal::Refused;
use super::super::revision::Common;
use crate::client::headers::{METHOD, NAME, repeated};

pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// A header that is there once and is plain text.
pub(crate) fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Refused> {
    let mut found = headers.get_all(name).iter();
    let Some(value) = found.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| found.next().is_none());
    text.map(Some).ok_or_else(|| Refused::header(format!("{name} is malformed")))
}

/// Compares what the headers mirror with the body. Whoever routes by the header and whoever runs
/// by the body must have seen the same.
pub(crate) fn check(headers: &HeaderMap, method: &str, common: &Common) -> Result<(), Refused> {
    let shown = only(headers, &METHOD)?;
    match shown {
        None => return Err(Refused::header("Mcp-Method is missing")),
        Some(shown) if shown != method => {
            return Err(Refused::header("Mcp-Method does not match the method of the body"));
        }
        Some(_) => {}
    }
    let source = match method {
        "tools/call" | "prompts/get" => &common.name,
        "resources/read" => &common.uri,
        _ => return Ok(()),
    };
    let Some(shown) = only(headers, &NAME)? else {
        return Err(Refused::header("Mcp-Name is missing"));
    };
    let decoded = decoded(shown).ok_or_else(|| Refused::header("Mcp-Name is malformed"))?;
    if source.as_ref().and_then(Value::as_str) != Some(decoded.as_str()) {
        return Err(Refused::header("Mcp-Name does not match the body"));
    }
    Ok(())
}

/// Compares the arguments of a call with the headers that must repeat them: the same, or in neither.
pub(crate) fn check_arguments(
    headers: &HeaderMap,
    schema: &Value,
    params: &str,
) -> Result<(), Refused> {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let args = params.get("arguments").unwrap_or(&Value::Null);
    for one in repeated(schema) {
        let name = one.header.as_str();
        let malformed = || Refused::header(format!("{name} is malformed"));
        let shown = only(headers, &one.header)?;
        let shown = shown.map(|shown| decoded(shown).ok_or_else(malformed)).transpose()?;
        if shown != one.told(args) {
            return Err(Refused::header(format!("{name} does not match the body")));
        }
    }
    Ok(())
}

/// A header value that may be wrapped as `=?base64?…?=`.
fn decoded(shown: &str) -> Option<String> {
    let wrapped = shown.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match wrapped {
        None => Some(shown.to_owned()),
        Some(wrapped) => String::from_utf8(STANDARD.decode(wrapped).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_and_their_headers_say_the_same() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "plain": { "type": "string" },
        } });
        let agrees = |shown: &[(&'static str, &'static str)], args: Value| {
            let mut headers = HeaderMap::new();
            for (name, value) in shown {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let params = json!({ "name": "x", "arguments": args }).to_string();
            check_arguments(&headers, &schema, &params).is_ok()
        };
        let (region, count) = ("mcp-param-region", "mcp-param-count");
        for (shown, args, wanted) in [
            (&[][..], json!({ "plain": "p" }), true),
            (&[], json!(null), true),
            (&[(region, "eu")], json!({ "region": "eu", "plain": "p" }), true),
            (&[(region, "=?base64?ZXU=?=")], json!({ "region": "eu" }), true),
            (&[(region, "=?base64?ZXU")], json!({ "region": "=?base64?ZXU" }), true),
            (&[(count, "7")], json!({ "count": 7 }), true),
            (&[(count, "7"), (region, "")], json!({ "count": 7, "region": "" }), true),
            (&[], json!({ "region": "eu" }), false),
            (&[(region, "eu")], json!({}), false),
            (&[(region, "eu")], json!({ "region": null }), false),
            (&[(region, "us")], json!({ "region": "eu" }), false),
            (&[(region, "eu"), (region, "us")], json!({ "region": "eu" }), false),
            (&[(region, "=?base64?ZXU?=")], json!({ "region": "eu" }), false),
            (&[(region, "=?base64?Z!U=?=")], json!({ "region": "eu" }), false),
            (&[(count, "8")], json!({ "count": 7 }), false),
        ] {
            assert_eq!(agrees(shown, args.clone()), wanted, "{shown:?} {args}");
        }
    }

    #[test]
    fn wrapped_values_are_read() {
        assert_eq!(decoded("plain").as_deref(), Some("plain"));
        assert_eq!(decoded("=?base64?SGVsbG8sIOS4lueVjA==?=").as_deref(), Some("Hello, 世界"));
        assert_eq!(
            decoded("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=").as_deref(),
            Some("=?base64?literal?=")
        );
        for bad in ["=?base64?a?=", "=?base64?====?=", "=?base64?YR==?=", "=?base64?Y!==?="] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
