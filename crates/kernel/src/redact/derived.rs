//! Finds what is secret within a secret: a token in an address, a password in a connection string,
//! the values of credentials in JSON, the lines of a key. Servers repeat these alone.

use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use super::forms::is_long;

/// Most parts that are looked for of one secret.
const PARTS_MAX: usize = 512;
/// How deep a part is looked through for parts of its own: a key in JSON has lines.
const DEPTH_MAX: usize = 3;
/// A part that nothing but its look tells to be a secret has at least so many bytes.
const RANDOM_BYTES_MIN: usize = 16;
/// A line of a key that is shorter could be any word.
const LINE_BYTES_MIN: usize = 16;
/// Words in a name that say that its value is secret.
const SECRET_NAMES: &[&str] =
    &["auth", "credential", "key", "pass", "pwd", "secret", "sig", "token"];

/// Reads base64 of both alphabets' common letters, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The parts of a secret that are secret by themselves, each as long as counts.
pub(super) fn derived(secret: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut level = vec![secret.to_owned()];
    for _ in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for part in level.iter().flat_map(|text| parts_of(text)) {
            if found.len() < PARTS_MAX && is_long(&part) && part != secret && !found.contains(&part)
            {
                found.push(part.clone());
                next.push(part);
            }
        }
        level = next;
    }
    found
}

fn parts_of(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    parts.push(unquoted(text).to_owned());
    in_header(text, &mut parts);
    in_address(text, &mut parts);
    in_pairs(text, &mut parts);
    in_lines(text, &mut parts);
    // Several tokens in one value.
    let tokens = text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace());
    parts.extend(tokens.filter(|token| looks_random(token)).map(str::to_owned));
    if text.starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        in_json(&value, false, &mut parts);
    }
    parts
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// `Bearer x`, and `Basic x`, whose half is a password.
fn in_header(text: &str, parts: &mut Vec<String>) {
    let Some((scheme, rest)) = text.split_once(char::is_whitespace) else { return };
    let rest = rest.trim();
    if scheme.is_empty() || scheme.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        return;
    }
    if !rest.contains(char::is_whitespace) {
        parts.push(rest.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic")
        && let Ok(bytes) = BASE64.decode(rest)
        && let Ok(pair) = String::from_utf8(bytes)
    {
        parts.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
    }
}

/// Password and token before the host of an address. Either may have an `@` or a `/` in it, so each
/// place where it could end counts.
fn in_address(text: &str, parts: &mut Vec<String>) {
    let Some((_, rest)) = text.split_once("://") else { return };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let before = [authority.rsplit_once('@'), rest.split_once('@'), rest.rsplit_once('@')];
    for (user, _) in before.into_iter().flatten() {
        match user.split_once(':') {
            Some((user, password)) => {
                parts.push(password.to_owned());
                parts.extend(Some(user).filter(|user| looks_random(user)).map(str::to_owned));
            }
            // Without a password, what is there is a token, unless it is a plain word.
            None if user.contains(|c: char| !c.is_ascii_lowercase()) && !user.contains('/') => {
                parts.push(user.to_owned());
            }
            None => {}
        }
    }
}

/// `name=value` in the query of an address, a connection string or a header.
fn in_pairs(text: &str, parts: &mut Vec<String>) {
    let ends = |c: char| matches!(c, ';' | '&' | ',' | '?' | '#') || c.is_whitespace();
    for pair in text.split(ends) {
        if let Some((name, value)) = pair.split_once('=')
            && is_secret_name(name)
        {
            parts.push(unquoted(value).to_owned());
        }
    }
}

/// The lines of a key between `-----BEGIN …-----` and its end, also where they are written as `\n`.
fn in_lines(text: &str, parts: &mut Vec<String>) {
    if !text.contains("-----BEGIN ") {
        return;
    }
    let lines = text.lines().flat_map(|line| line.split("\\n")).map(str::trim);
    let is_key = |line: &&str| {
        line.len() >= LINE_BYTES_MIN && !line.starts_with("-----") && !line.contains(':')
    };
    parts.extend(lines.filter(is_key).map(str::to_owned));
}

/// The texts of credentials: those whose name says so, and those that look like nothing else.
fn in_json(value: &Value, named: bool, parts: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            // Such files name the addresses that tokens are got from.
            let is_address = text.contains("://") && !text.contains('@');
            if !is_address && (named || looks_random(text)) {
                parts.push(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| in_json(item, named, parts)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| in_json(value, is_secret_name(name), parts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// Letters of both cases and digits, and no word or address.
fn looks_random(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let one_word = !text.contains(|c: char| c.is_whitespace() || matches!(c, '@' | '/' | '.'));
    text.len() >= RANDOM_BYTES_MIN
        && one_word
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}
