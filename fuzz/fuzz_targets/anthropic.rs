//! Arbitrary bytes as an answer of the Messages API, plain and streamed: nothing panics, ids differ.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_wire::dialect::Dialect;

mod answer;

fuzz_target!(|data: &[u8]| answer::check(Dialect::Anthropic, data));
