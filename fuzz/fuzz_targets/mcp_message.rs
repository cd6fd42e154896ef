//! Arbitrary bytes as a message of an MCP server: nothing panics, and no success is made up.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_mcp::client::fuzzing::check_message;

fuzz_target!(|data: &[u8]| check_message(data));
