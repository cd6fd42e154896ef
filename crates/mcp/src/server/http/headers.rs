//! Decides whether the headers of a request of the newest revision say what its body says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use serde_json::Value;

use super::super::refusal::Refused;
use super::super::revision::Common;

pub(crate) const VERSION: &str = "mcp-protocol-version";
pub(crate) const SESSION: &str = "mcp-session-id";

/// A header that is there once and is plain text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refused> {
    let mut found = headers.get_all(name).iter();
    let Some(value) = found.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| found.next().is_none());
    text.map(Some).ok_or_else(|| Refused::header(format!("{name} is malformed")))
}

/// Compares what the headers mirror with the body. Whoever routes by the header and whoever runs
/// by the body must have seen the same.
pub(crate) fn check(headers: &HeaderMap, method: &str, common: &Common) -> Result<(), Refused> {
    let shown = only(headers, "mcp-method")?;
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
    let Some(shown) = only(headers, "mcp-name")? else {
        return Err(Refused::header("Mcp-Name is missing"));
    };
    let decoded = decoded(shown).ok_or_else(|| Refused::header("Mcp-Name is malformed"))?;
    if source.as_ref().and_then(Value::as_str) != Some(decoded.as_str()) {
        return Err(Refused::header("Mcp-Name does not match the body"));
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
    use super::*;

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
