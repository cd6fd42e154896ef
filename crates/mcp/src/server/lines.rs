//! Decides what a line of a client is: bounded, also when it is the last one and does not end.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

use super::message::RequestId;
use super::refusal::{Refused, RpcCode};
use super::skim::Skim;

/// Lines of bearable length. Waiting for one can be broken off and taken up again.
pub(super) struct Lines<R> {
    input: R,
    bytes_max: usize,
    held: Vec<u8>,
    /// What is seen of a line that is too long.
    skipped: Option<Skim>,
    /// What was read to learn whether the end has come, and how much of it was looked at since.
    ahead: Vec<u8>,
    looked: usize,
    /// Nothing more comes.
    ended: bool,
    /// Why not, where the other side did not close its end.
    broken: Option<io::Error>,
}

/// A line that is not taken, and the request that waits for an answer to it, where that can be known.
pub(super) type Untaken = (Option<RequestId>, Refused);

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, bytes_max: usize) -> Self {
        let (held, ahead) = (Vec::new(), Vec::new());
        let (skipped, broken) = (None, None);
        Self { input, bytes_max, held, skipped, ahead, looked: 0, ended: false, broken }
    }

    /// The next line. After the last one there is none.
    pub(super) async fn next(&mut self) -> Option<Result<String, Untaken>> {
        loop {
            let whole = if self.looked < self.ahead.len() {
                let ahead = std::mem::take(&mut self.ahead);
                let (taken, whole) = self.take(ahead.get(self.looked..).unwrap_or_default());
                self.looked += taken;
                if self.looked < ahead.len() {
                    self.ahead = ahead;
                } else {
                    self.looked = 0;
                }
                whole
            } else if self.ended {
                // The last line need not end; what was begun counts.
                if self.held.is_empty() && self.skipped.is_none() {
                    return None;
                }
                true
            } else {
                match self.input.fill_buf().await {
                    Ok([]) => {
                        self.ended = true;
                        continue;
                    }
                    Ok(buffer) => {
                        let (held, skipped) = (&mut self.held, &mut self.skipped);
                        let (taken, whole) = take(buffer, self.bytes_max, held, skipped);
                        self.input.consume(taken);
                        whole
                    }
                    Err(fault) => {
                        self.breaks(fault);
                        continue;
                    }
                }
            };
            if !whole {
                continue;
            }
            if let Some(skim) = self.skipped.take() {
                let words = format!("A message has at most {} bytes.", self.bytes_max);
                return Some(Err((skim.id(), Refused::new(RpcCode::InvalidRequest, words))));
            }
            return match String::from_utf8(std::mem::take(&mut self.held)) {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => Some(Ok(line)),
                Err(_) => Some(Err((None, Refused::new(RpcCode::Parse, "This is not UTF-8.")))),
            };
        }
    }

    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        take(bytes, self.bytes_max, &mut self.held, &mut self.skipped)
    }

    /// Waits until it is known that nothing more comes. What is read meanwhile is kept for later, as
    /// much as one message may have; then nothing more is read, and nothing is known.
    pub(super) async fn end(&mut self) {
        while !self.ended {
            if self.ahead.len() - self.looked >= self.bytes_max {
                return std::future::pending().await;
            }
            match self.input.fill_buf().await {
                Ok([]) => self.ended = true,
                Ok(buffer) => {
                    // What was looked at is done with; it would only grow.
                    self.ahead.drain(..self.looked);
                    self.looked = 0;
                    self.ahead.extend_from_slice(buffer);
                    let read = buffer.len();
                    self.input.consume(read);
                }
                Err(fault) => self.breaks(fault),
            }
        }
    }

    fn breaks(&mut self, fault: io::Error) {
        self.ended = true;
        // Somebody who vanished has closed its end too.
        let gone = matches!(fault.kind(), io::ErrorKind::ConnectionReset);
        self.broken = (!gone).then_some(fault);
    }

    /// Why nothing more could be read, where the other side did not close its end.
    pub(super) fn broken(&mut self) -> Option<io::Error> {
        self.broken.take()
    }
}

/// Takes bytes up to the end of a line, and says how many, and whether the line has ended.
fn take(
    bytes: &[u8],
    bytes_max: usize,
    held: &mut Vec<u8>,
    skipped: &mut Option<Skim>,
) -> (usize, bool) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let taken = end.map_or(bytes.len(), |end| end + 1);
    let line = bytes.get(..taken).unwrap_or_default();
    if skipped.is_none() && taken > bytes_max.saturating_sub(held.len()) {
        let mut skim = Skim::default();
        skim.take(held);
        held.clear();
        *skipped = Some(skim);
    }
    match skipped {
        Some(skim) => skim.take(line),
        None => held.extend_from_slice(line),
    }
    (taken, end.is_some())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    async fn all(text: &str, bytes_max: usize) -> Vec<Result<String, Option<String>>> {
        let mut lines = Lines::new(text.as_bytes(), bytes_max);
        let mut heard = Vec::new();
        while let Some(line) = lines.next().await {
            let id = |id: Option<RequestId>| id.map(|id| id.as_json().to_owned());
            heard.push(line.map(|line| line.trim_end().to_owned()).map_err(|(it, _)| id(it)));
        }
        heard
    }

    #[tokio::test]
    async fn the_last_line_need_not_end() {
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(all("a\n\n b\nc", 10).await, [ok("a"), ok(" b"), ok("c")]);
        assert_eq!(all("a\n  ", 10).await, [ok("a")]);
        assert_eq!(all("", 10).await, []);
        assert_eq!(all("a\n01234567890", 10).await, [ok("a"), Err(None)]);
        assert_eq!(all("0123456789\n012345678\n", 10).await, [Err(None), ok("012345678")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_says_who_waits_for_it() {
        let long = r#"{"jsonrpc":"2.0","method":"x","params":{"id":1},"id":"seven"}"#;
        let short = r#"{"id":2}"#;
        let heard = all(&format!("{long}\n{short}"), 20).await;
        assert_eq!(heard, [Err(Some("\"seven\"".to_owned())), Ok(short.to_owned())]);
    }

    #[tokio::test]
    async fn what_is_read_ahead_is_kept() {
        let mut lines = Lines::new(&b"one\ntwo"[..], 100);
        lines.end().await;
        assert_eq!(lines.next().await, Some(Ok("one\n".to_owned())));
        assert_eq!(lines.next().await, Some(Ok("two".to_owned())));
        assert_eq!(lines.next().await, None);
        let mut lines = Lines::new(&b"one\ntwo\n"[..], 5);
        let late = tokio::time::timeout(std::time::Duration::from_millis(20), lines.end()).await;
        assert!(late.is_err(), "more than one message is not read ahead");
        assert_eq!(lines.next().await, Some(Ok("one\n".to_owned())));
        assert_eq!(lines.next().await, Some(Ok("two\n".to_owned())));
        assert_eq!(lines.next().await, None);
    }
    /// A client that always has more to say than is read of it does not fill the memory.
    #[tokio::test]
    async fn what_was_read_ahead_and_looked_at_is_not_kept() {
        let text = "0123456\n".repeat(1_000);
        let mut lines = Lines::new(tokio::io::BufReader::with_capacity(8, text.as_bytes()), 16);
        for _ in 0..900 {
            assert!(lines.end().now_or_never().is_none());
            assert!(lines.ahead.capacity() <= 64, "{}", lines.ahead.capacity());
            assert!(matches!(lines.next().await, Some(Ok(_))));
        }
    }
}
