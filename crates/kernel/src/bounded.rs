//! Cuts text from outside that is longer than its limit, and says that it did.

use std::borrow::Cow;

use crate::digest::Digest;

/// Hex digits of the hash of a text that was cut.
const HASH_DIGITS: usize = 16;

/// The text itself, or its beginning with its length and a part of its hash behind it, so that two
/// long texts are told apart and nothing is taken for the whole. The result has at most `bytes_max`
/// bytes, unless that is too little for the length and the hash. No name or id has a space or a
/// bracket, so one that was cut is never taken for another one.
pub fn bounded_text(text: &str, bytes_max: u64) -> Cow<'_, str> {
    let max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let hash = Digest::of(text.as_bytes()).to_string();
    let hash = hash.get(..HASH_DIGITS).unwrap_or(&hash);
    let mark = format!("… [{} bytes, sha256 {hash}…]", grouped(text.len()));
    let mut end = max.saturating_sub(mark.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Cow::Owned(format!("{}{mark}", text.get(..end).unwrap_or_default()))
}

/// A number with a comma before every three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beyond_its_limit_says_its_length_and_hash() {
        assert!(matches!(bounded_text("read_file", 9), Cow::Borrowed("read_file")));
        let long = "x".repeat(12_345);
        let told = bounded_text(&long, 100);
        assert!(told.starts_with("xxx") && told.contains("… [12,345 bytes, sha256 "), "{told}");
        assert_eq!(told.len(), 100);
        let other = format!("{}y", "x".repeat(12_344));
        assert_ne!(told, bounded_text(&other, 100), "the hash tells them apart");
        let wide = "ä".repeat(1_000);
        assert!(bounded_text(&wide, 101).len() <= 101);
        assert!(bounded_text(&wide, 1).starts_with("… [2,000 bytes"));
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, told) in [(7, "7"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), told);
        }
    }
}
