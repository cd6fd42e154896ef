//! The forms in which a secret is looked for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde_json::Value;

use super::PART_CHARS_MIN;
use super::derived::derived;
use super::escapes::{ESCAPES, decoded_text};
use crate::hidden::Hidden;

/// Shorter secrets are ordinary words too often.
pub(super) const SECRET_BYTES_MIN: usize = 8;
/// Secrets shorter than that are removed from error messages, where they stand alone.
const SHORT_BYTES_MIN: usize = 4;
/// Shorter forms, once blanks are gone, are looked for nowhere.
pub(super) const FORM_BYTES_MIN: usize = 6;
/// Longer secrets are not looked for as other programs print bytes: these forms are long.
const PRINTED_BYTES_MAX: usize = 128;
/// A secret of nothing but small letters is a word; it must be longer to count.
const WORD_BYTES_MIN: usize = 12;
/// Keys that people write for servers which want none. They are ordinary words.
const PLACEHOLDERS: &[&str] =
    &["lm-studio", "not-needed", "no-key-needed", "llama-cpp", "placeholder", "anything"];

/// A secret, and what is secret in it: a header such as `Bearer abc` may be repeated as `abc`, and an
/// address has a password.
pub(super) fn spellings(secret: &Hidden) -> Vec<Hidden> {
    if secret.is_open() {
        return Vec::new();
    }
    let secret = secret.reveal().trim();
    let last = secret.split_once(char::is_whitespace).map(|(_, rest)| rest.trim());
    let user = secret.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    let password = user.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let is_secret = |text: &&str| text.len() >= SHORT_BYTES_MIN && !PLACEHOLDERS.contains(text);
    let parts = derived(secret);
    let parts = parts.iter().map(String::as_str);
    let all = [Some(secret), last, password].into_iter().flatten().chain(parts).filter(is_secret);
    all.map(Hidden::new).collect()
}

/// Whether a secret is looked for inside of other text.
pub(super) fn is_long(secret: &str) -> bool {
    let is_word = secret.bytes().all(|byte| byte.is_ascii_lowercase());
    secret.len() >= if is_word { WORD_BYTES_MIN } else { SECRET_BYTES_MIN }
}

/// All parts of a text that are as long as counts, in small letters.
pub(super) fn parts(text: &str) -> impl Iterator<Item = [char; PART_CHARS_MIN]> {
    let chars: Vec<char> = text.chars().map(|c| c.to_ascii_lowercase()).collect();
    let count = (chars.len() + 1).saturating_sub(PART_CHARS_MIN);
    (0..count).filter_map(move |at| chars.get(at..)?.first_chunk().copied())
}

/// A secret in every form that does not come of escapes.
pub(super) fn forms(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    // A secret may have escapes of its own, which go when those of the text are taken away.
    let mut plain = vec![secret.to_owned()];
    for escapes in ESCAPES {
        let decoded = plain.iter().filter_map(|text| decoded_text(text, *escapes));
        plain.extend(decoded.collect::<Vec<_>>());
    }
    // Of what is compared, only ASCII is the same in both cases.
    if !secret.is_ascii() {
        plain.extend([secret.to_lowercase(), secret.to_uppercase()]);
    }
    // Forms write a blank as `+`.
    plain.extend(secret.contains(' ').then(|| secret.replace(' ', "+")));
    for text in plain.iter().filter(|text| text.len() >= FORM_BYTES_MIN) {
        forms.extend([text.clone(), text.chars().rev().collect()]);
        forms.extend(without_first(text));
    }
    let hex = |bytes: &mut dyn Iterator<Item = u8>| bytes.map(|b| format!("{b:02x}")).collect();
    forms.extend([hex(&mut secret.bytes()), hex(&mut secret.bytes().rev())]);
    if !secret.is_ascii() {
        let reversed: String = secret.chars().rev().collect();
        forms.push(hex(&mut reversed.bytes()));
    }
    // Within base64 it may be written as JSON writes it.
    let quoted = Value::from(secret).to_string();
    let quoted = quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned();
    let slashes = quoted.replace('/', "\\/");
    let ascii = |c: char| {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
        if c.is_ascii() { c.to_string() } else { units.collect() }
    };
    let escaped: String = quoted.chars().map(ascii).collect();
    let mut inner = vec![secret.to_owned(), quoted, slashes, escaped];
    inner.dedup();
    for text in inner {
        forms.extend((0..3).map(|offset| base64(text.as_bytes(), offset)));
    }
    forms
}

/// The forms of a secret without their first letters.
pub(super) fn begun_forms(secret: &str) -> Vec<String> {
    forms(secret).iter().flat_map(|form| without_first(form)).collect()
}

/// A form without its first letters: a backslash or percent sign right before it may take them for an
/// escape.
fn without_first(form: &str) -> impl Iterator<Item = String> {
    let rest = |skipped| form.chars().skip(skipped).collect::<String>();
    // Behind `\u` there are four, which must be digits of hex.
    let has_four = form.chars().take(4).all(|c| c.is_ascii_hexdigit());
    let skipped: &[usize] = if has_four { &[1, 2, 4] } else { &[1, 2] };
    skipped.iter().copied().map(rest).filter(|rest| rest.len() >= SECRET_BYTES_MIN)
}

/// The bytes of a short secret as other programs print them: in hex with dashes, in lists of numbers,
/// and in base64 of UTF-16, which is how Windows has texts.
pub(super) fn printed(secret: &str) -> Vec<String> {
    if secret.len() > PRINTED_BYTES_MAX {
        return Vec::new();
    }
    let hex: Vec<String> = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = (0..3).map(|offset| base64(&wide, offset));
    [hex.join("-"), hex.join(",0x"), numbers.join(",")].into_iter().chain(wide).collect()
}

/// The bytes in base64 when `offset` other bytes stand before them, without the digits that depend
/// on neighbours.
fn base64(bytes: &[u8], offset: usize) -> String {
    let inner = bytes.get((3 - offset) % 3..).unwrap_or_default();
    let groups = inner.len() - inner.len() % 3;
    STANDARD_NO_PAD.encode(inner.get(..groups).unwrap_or_default())
}

/// One form for what is compared: no blanks and colons, small letters, one alphabet of base64. Text in
/// UTF-16 that is read as bytes has a NUL beside each letter.
pub(super) fn fold(byte: u8) -> Option<u8> {
    match byte {
        b' ' | b'\t' | b'\n' | b'\r' | b':' | 0 => None,
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        _ => Some(byte.to_ascii_lowercase()),
    }
}

pub(super) fn folded(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter_map(fold).collect()
}
