//! Decides how a stream is played to a dialect.

use toolgate_http::sse::Reader;
use toolgate_runtime::port::{Reply, Streamed};
use toolgate_wire::answer;
use toolgate_wire::dialect::{Dialect, WireFault};

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
    let (mut reader, mut gather) = (Reader::default(), dialect.gather());
    reader.read(bytes, |event| gather.take(event, tap))?;
    dialect.decode(&gather.finish()?)
}

/// What comes of a plain answer.
pub(crate) fn plain(dialect: Dialect, body: &str) -> Result<Reply, WireFault> {
    dialect.decode(&answer::read(body.as_bytes()).unwrap())
}
