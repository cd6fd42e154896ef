//! Whether the numbers of a JSON text can be passed on exactly as they are written.

use std::cmp::Ordering;

use serde_json::Number;

/// Tokens of so few characters without an exponent have at most 15 digits: always exact.
const PLAIN_CHARS_MAX: usize = 15;

/// The first number of a JSON text that would not keep its value. Other readers of the same text
/// could see another number, and the tool that is called would get the rounded one.
pub fn inexact_number(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = text_end(bytes, at),
            b'-' | b'0'..=b'9' => {
                let rest = bytes.get(at..).unwrap_or_default();
                let is_part =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let length = rest.iter().take_while(is_part).count();
                let number = json.get(at..at + length)?;
                if !is_exact(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Where a text ends that begins at a quote: after its closing quote, or with the bytes.
pub fn text_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether a number that is written so has the same value once it was read.
pub fn is_exact(number: &str) -> bool {
    let has_exponent = number.contains(['e', 'E']);
    if number.len() <= PLAIN_CHARS_MAX && !has_exponent {
        return true;
    }
    let Ok(read) = serde_json::from_str::<Number>(number) else {
        // What is no number, or out of range, is refused by the reader.
        return true;
    };
    match (Decimal::parse(number), Decimal::parse(&read.to_string())) {
        (Some(written), Some(read)) => written == read,
        (None, _) | (_, None) => false,
    }
}

/// A decimal number: its digits without zeros around them, and the place of its point.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()),
            None => (text, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let mut exponent = exponent?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        while digits.last().map(|digit| digit.cmp(&b'0')) == Some(Ordering::Equal) {
            digits.pop();
            exponent = exponent.checked_add(1)?;
        }
        Some(Self { negative, digits, exponent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value_or_are_found() {
        for exact in [
            "0",
            "-0",
            "-0.0",
            "1.0",
            "1E2",
            "1e-7",
            "0.1",
            "-12.50",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "1e300",
            "0.30000000000000004",
            "100000000000000000000",
            "1.7976931348623157e308",
            "5e-324",
            "0e999999999999999999999",
            "9007199254740992.0",
        ] {
            assert!(is_exact(exact), "{exact}");
        }
        for inexact in [
            "9007199254740993.0",
            "123456789012345678901234567890",
            "1E-400",
            "18446744073709551617",
            "0.1234567890123456789",
            "-9223372036854775809",
            "3.14159265358979323846",
            "1e-325",
        ] {
            assert!(!is_exact(inexact), "{inexact}");
            let json = format!(r#"{{"a\"1E-400":["1E-400",1,{{"b":{inexact}}}]}}"#);
            assert_eq!(inexact_number(&json), Some(inexact));
        }
        assert_eq!(inexact_number(r#"{"a":"123456789012345678901234567890","b":[1,2.5]}"#), None);
    }
}
