//! Arbitrary replies to the JSON tool protocol: every one is parsed or refused, a call has the nonce of
//! its request, and words neither are nor seem to be a call.

#![no_main]

use libfuzzer_sys::fuzz_target;
use toolgate_kernel::limits::Limits;
use toolgate_wire::json_protocol::{ExpectedReply, ProtocolReply, parse_reply};

const NONCE: &str = "00000000000000000000000000000001";

fuzz_target!(|data: &[u8]| {
    let Ok(reply) = std::str::from_utf8(data) else { return };
    let limits = Limits::default();
    for expected in [
        ExpectedReply::CallOrWords,
        ExpectedReply::Call,
        ExpectedReply::Decision,
        ExpectedReply::Answer,
    ] {
        match parse_reply(reply, expected, NONCE, &["file_reader"], &limits) {
            Ok(ProtocolReply::Call(_) | ProtocolReply::Final) => {
                assert_ne!(expected, ExpectedReply::Answer);
                // Escapes may spell its digits.
                assert!(reply.contains(NONCE) || reply.contains("\\u"));
            }
            Ok(ProtocolReply::Words(words)) => {
                assert!(matches!(expected, ExpectedReply::CallOrWords | ExpectedReply::Answer));
                assert!(!words.starts_with('{') && !words.contains(" file_reader("));
            }
            Err(error) => assert!(!error.detail.is_empty()),
        }
    }
});
