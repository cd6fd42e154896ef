//! Arbitrary bytes as an answer of chat completions, plain and streamed: nothing panics, ids differ.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_wire::dialect::Dialect;

mod answer;

fuzz_target!(|data: &[u8]| answer::check(Dialect::Chat, data));
