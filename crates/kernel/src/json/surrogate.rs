//! Finds lone surrogates in JSON text. `\ud83d` without its other half is legal JSON and names no
//! character, so a strict parser refuses the whole document because of it.

use std::borrow::Cow;

/// Stands for what cannot be read.
const REPLACEMENT: &str = "\u{fffd}";

/// The first surrogate, and how many there are.
const SURROGATES: (u16, u16) = (0xd800, 0x800);

/// JSON with each lone surrogate as U+FFFD, so that one broken character costs no whole answer.
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let replaced = replace_lone_surrogates(json.as_bytes(), |_| REPLACEMENT.to_owned());
    let replaced = replaced.and_then(|bytes| String::from_utf8(bytes).ok());
    replaced.map_or(Cow::Borrowed(json), Cow::Owned)
}

/// JSON with something else in place of each lone surrogate; nothing where there is none.
pub fn replace_lone_surrogates(
    json: &[u8],
    replacement: impl Fn(u16) -> String,
) -> Option<Vec<u8>> {
    let (mut out, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = json.get(at..)?.iter().position(|byte| *byte == b'\\') {
        at += next;
        at += match (escaped_surrogate(json, at), escaped_surrogate(json, at + 6)) {
            (None, _) => 2,
            (Some(high), Some(low)) if joined_surrogates(high, low).is_some() => 12,
            (Some(lone), _) => {
                out.extend_from_slice(json.get(from..at)?);
                out.extend_from_slice(replacement(lone).as_bytes());
                from = at + 6;
                6
            }
        };
        if at >= json.len() {
            break;
        }
    }
    out.extend_from_slice(json.get(from..)?);
    (from > 0).then_some(out)
}

/// The surrogate that an escape at this place names.
fn escaped_surrogate(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    (number.checked_sub(SURROGATES.0)? < SURROGATES.1).then_some(number)
}

/// The character that two surrogates are together.
pub fn joined_surrogates(high: u16, low: u16) -> Option<char> {
    char::decode_utf16([high, low]).next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (json, wanted) in [
            (r#"{"a":"\ud83d\ude00 \u0041 \\ud83d \"\ud83"}"#, None),
            (r#"["\ud83d"]"#, Some("[\"\u{fffd}\"]")),
            (r#"["a\uDE00b\uD83D\ud83d\ude00"]"#, Some("[\"a\u{fffd}b\u{fffd}\\ud83d\\ude00\"]")),
            (r#"["\\\ud83d\n"]"#, Some("[\"\\\\\u{fffd}\\n\"]")),
            ("\\", None),
            ("", None),
        ] {
            let told = without_lone_surrogates(json);
            assert_eq!(told, wanted.unwrap_or(json), "{json}");
            assert_eq!(matches!(told, Cow::Owned(_)), wanted.is_some(), "{json}");
        }
    }
}
