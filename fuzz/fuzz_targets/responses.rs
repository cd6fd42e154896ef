//! Arbitrary bytes as an answer of the Responses API, plain and streamed: nothing panics, ids differ.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_wire::dialect::Dialect;

mod answer;

fuzz_target!(|data: &[u8]| answer::check(Dialect::Responses, data));
