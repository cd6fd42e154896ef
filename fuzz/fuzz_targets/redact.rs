//! Arbitrary text around a secret: it is removed, at once and piece by piece, and nothing panics.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::redact::{Redactor, StreamRedactor};

const KEY: &str = "sk-CANARY-0123456789";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if text.len() > 4_000 {
        return;
    }
    let redactor = Redactor::new(&[Hidden::new(KEY)]);
    let redacted = redactor.redact(text).into_owned();
    assert!(!redacted.contains(KEY));
    let around = redactor.redact(&format!("{text}{KEY}{text}")).into_owned();
    assert!(!around.contains(KEY));
    let mut stream = StreamRedactor::default();
    let mut shown = String::new();
    let chars: Vec<char> = text.chars().collect();
    for piece in chars.chunks(3) {
        let piece: String = piece.iter().collect();
        shown.push_str(&stream.push(&redactor, &piece));
    }
    shown.push_str(&stream.finish(&redactor));
    assert!(!shown.contains(KEY));
    if let Ok(mut value) = serde_json::from_str::<serde_json::Value>(text) {
        redactor.redact_value(&mut value);
        assert!(!value.to_string().contains(KEY));
    }
});
