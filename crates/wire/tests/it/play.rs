//! Decides how a stream is played to a dialect.

use toolgate_http::sse::Reader;
use toolgate_kernel::event::Usage;
use toolgate_runtime::port::{Reply, Streamed};
use toolgate_wire::answer;
use toolgate_wire::dialect::{Dialect, ReplyBounds, WireFault};

/// Bounds that no test here reaches by accident.
const ROOMY: ReplyBounds = ReplyBounds { bytes_max: 64 << 20, calls_max: 1 << 20 };

/// What comes of the bytes of a stream.
pub(crate) fn streamed(dialect: Dialect, bytes: &[u8]) -> Result<Reply, WireFault> {
    tapped(dialect, bytes, &|_| {})
}

/// The same, with the words shown as they come.
pub(crate) fn tapped(
    dialect: Dialect,
    bytes: &[u8],
    tap: &(dyn Fn(Streamed<'_>) + Send + Sync),
) -> Result<Reply, WireFault> {
    paid(dialect, bytes, tap).0
}

/// The same, with what it cost, whether it can be used or not.
pub(crate) fn paid(
    dialect: Dialect,
    bytes: &[u8],
    tap: &(dyn Fn(Streamed<'_>) + Send + Sync),
) -> (Result<Reply, WireFault>, Usage) {
    let (mut reader, mut gather) = (Reader::default(), dialect.gather(ROOMY));
    let read = reader.read(bytes, |event| gather.take(event, tap));
    gather.end(tap);
    let usage = gather.usage();
    match read.err().or(gather.fault()) {
        Some(fault) => (Err(fault), usage),
        None => (dialect.decode(&gather.body()), usage),
    }
}

/// What comes of a plain answer.
pub(crate) fn plain(dialect: Dialect, body: &str) -> Result<Reply, WireFault> {
    dialect.decode(&answer::read(body.as_bytes()).unwrap())
}
