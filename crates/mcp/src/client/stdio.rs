//! Decides how a server is spoken to over the pipes of its program: a line is a message.

use std::sync::Arc;

use bytes::Bytes;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, ChildStdout};
use toolgate_http::after;

use super::child::Words;
use super::fault::ServerFault;
use super::lines::{LineRead, Lines};
use super::outbox::Outbox;
use super::plan::Bounds;
use super::switch::{Heard, Switch};

/// Milliseconds for which the protocol library's own messages wait for room.
const ROOM_MS_MAX: u64 = 10_000;

/// An outbox that writes lines to a program.
pub(super) fn outbox(stdin: ChildStdin) -> Outbox {
    let stdin = Arc::new(tokio::sync::Mutex::new(stdin));
    Outbox::start(move |message: Bytes| {
        let stdin = Arc::clone(&stdin);
        async move {
            let line = [&message[..], b"\n"].concat();
            let mut stdin = stdin.lock().await;
            stdin.write_all(&line).await.is_ok() && stdin.flush().await.is_ok()
        }
    })
}

/// The pipes, as the protocol library wants them. Answers to our own requests are given out on the
/// way.
pub(super) struct Pipes {
    pub(super) lines: Lines<ChildStdout>,
    pub(super) outbox: Outbox,
    pub(super) switch: Arc<Switch>,
    pub(super) words: Words,
    pub(super) bounds: Bounds,
    pub(super) noise: u64,
}

/// The message was not written.
#[derive(Debug, thiserror::Error)]
#[error("the message was not written")]
pub(super) struct NotWritten;

impl Transport<RoleClient> for Pipes {
    type Error = NotWritten;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), NotWritten>> + Send + 'static {
        self.switch.said(&item);
        let outbox = self.outbox.clone();
        async move {
            let line = serde_json::to_vec(&item).map_err(|_| NotWritten)?;
            let deadline = after(tokio::time::Instant::now(), ROOM_MS_MAX);
            if outbox.put(line.into(), deadline).await { Ok(()) } else { Err(NotWritten) }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let heard = match self.lines.next().await {
                Ok(Some(LineRead::Text(text))) => self.switch.hear(text),
                Ok(Some(LineRead::NotText(bytes))) => self.switch.unreadable(bytes),
                Ok(Some(LineRead::TooLong { begin, end })) => self.switch.too_long(&begin, &end),
                Ok(None) | Err(_) => {
                    self.words.settle().await;
                    self.switch.end(ServerFault::Ended(self.words.last()));
                    return None;
                }
            };
            match heard {
                Heard::Theirs(message) => return Some(*message),
                Heard::Done => {}
                Heard::Noise => {
                    self.noise += 1;
                    if self.noise > self.bounds.noise_max {
                        let (max, words) = (self.bounds.noise_max, self.words.last());
                        self.switch.end(ServerFault::Noisy { max, words });
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), NotWritten> {
        Ok(())
    }
}
