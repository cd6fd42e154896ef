//! Decides that nothing comes of a stream that was cut off, wherever that was.

use toolgate_wire::dialect::Dialect;

use crate::case::{cases, file};
use crate::play::streamed;

/// What ends a reply, as it stands in the bytes of a stream.
fn markers(dialect: Dialect) -> &'static [&'static str] {
    match dialect {
        Dialect::Chat => &["\"finish_reason\":\"", "[DONE]"],
        Dialect::Responses => {
            &["\"type\":\"response.completed\"", "\"type\":\"response.incomplete\""]
        }
        Dialect::Anthropic => &["\"type\":\"message_stop\""],
        Dialect::Gemini => &["\"finishReason\":"],
    }
}

/// Where the event ends that ends the reply; the end of the stream when there is none.
fn whole_at(dialect: Dialect, stream: &str) -> usize {
    let found = markers(dialect).iter().filter_map(|marker| stream.find(marker)).min();
    let end = found.and_then(|at| Some(at + stream[at..].find("\n\n")? + 2));
    end.unwrap_or(stream.len() + 1)
}

#[test]
fn nothing_comes_of_a_stream_that_is_cut_at_any_byte() {
    let mut cuts = 0;
    for (name, case) in cases() {
        for dialect in Dialect::ALL {
            let Some(stream) = file(&name, dialect, "stream") else { continue };
            let whole = whole_at(dialect, &stream);
            for cut in 0..stream.len() {
                let told = streamed(dialect, &stream.as_bytes()[..cut]);
                let at = format!("{name}/{} at {cut} of {whole}", dialect.as_str());
                if cut < whole || case.fault.is_some() {
                    assert!(told.is_err(), "{at}: {told:?}");
                } else {
                    assert!(told.is_ok(), "{at}: {told:?}");
                }
                cuts += 1;
            }
        }
    }
    assert!(cuts > 10_000, "only {cuts} cuts were made");
}

/// A byte that is lost or changed inside the stream must never panic.
#[test]
fn a_stream_with_a_wrong_byte_is_answered_or_refused() {
    for (name, _) in cases() {
        for dialect in Dialect::ALL {
            let Some(stream) = file(&name, dialect, "stream") else { continue };
            for at in (0..stream.len()).step_by(29) {
                for byte in [b'"', b'}', b'0', b'\n', 0xff] {
                    let mut bytes = stream.clone().into_bytes();
                    bytes[at] = byte;
                    let _ = streamed(dialect, &bytes);
                }
                let mut bytes = stream.clone().into_bytes();
                bytes.remove(at);
                let _ = streamed(dialect, &bytes);
            }
        }
    }
}
