//! Decides how a server of 2024-11-05 is spoken to: messages go to a path that it names, and all
//! answers come over one stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;
use toolgate_http::sse::{Reader, SseFault};
use toolgate_http::{Answer, Verb, after};

use super::fault::{CallFault, ServerFault, shown};
use super::place::Place;
use super::plan::Bounds;
use super::switch::{Heard, Switch};

/// Milliseconds for a message of the protocol library to be taken.
const TAKE_MS_MAX: u64 = 10_000;

/// Where messages go.
pub(super) struct Mailbox {
    place: Place,
}

/// The stream, as the protocol library wants it.
pub(super) struct Older {
    mailbox: Arc<Mailbox>,
    answer: Answer,
    reader: Reader,
    /// Messages that came together with one that was given out.
    waiting: VecDeque<String>,
    switch: Arc<Switch>,
    bounds: Bounds,
}

/// The message was not taken.
#[derive(Debug, thiserror::Error)]
#[error("the message was not taken")]
pub(super) struct NotTaken;

impl Older {
    /// Opens the stream and waits until it names the path for messages, which must be on the same
    /// server.
    pub(super) async fn open(
        place: &Place,
        switch: Arc<Switch>,
        bounds: Bounds,
    ) -> Result<Self, ServerFault> {
        let mut headers = HeaderMap::clone(&place.headers);
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        let patience = place.stream_patience();
        let deadline = after(tokio::time::Instant::now(), patience.request_ms(false));
        let sending = place.send(Verb::Get, &headers, Bytes::new(), deadline, &patience);
        let mut answer = sending.await?;
        match answer.status {
            200 if answer.is("text/event-stream") => {}
            401 | 403 => return Err(place.unauthorized(&answer)),
            status => return Err(ServerFault::Status(status)),
        }
        let mut reader = Reader::bounded(bounds.message_bytes_max, usize::MAX);
        let (mut named, mut waiting) = (None, VecDeque::new());
        while named.is_none() {
            let Some(bytes) = answer.chunk().await? else {
                return Err(ServerFault::Protocol("its stream names no endpoint".to_owned()));
            };
            let read = reader.read(&bytes, |event| {
                match event.name {
                    "endpoint" if named.is_none() => named = Some(event.data.to_owned()),
                    _ => keep(&mut waiting, event.data),
                }
                Ok::<(), SseFault>(())
            });
            read.map_err(|fault| ServerFault::Protocol(fault.to_string()))?;
        }
        let place = place.elsewhere(&named.unwrap_or_default())?;
        let mailbox = Arc::new(Mailbox { place });
        Ok(Self { mailbox, answer, reader, waiting, switch, bounds })
    }

    pub(super) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }
}

/// Messages that came at once are bounded by what one reading gives; an endless number is not kept.
fn keep(waiting: &mut VecDeque<String>, data: &str) {
    const WAITING_MAX: usize = 1_024;
    if waiting.len() < WAITING_MAX {
        waiting.push_back(data.to_owned());
    }
}

impl Mailbox {
    /// Sends a message; its answer comes over the stream.
    pub(super) async fn put(
        &self,
        verb: Verb,
        body: Bytes,
        deadline: Instant,
    ) -> Result<(), CallFault> {
        let place = &self.place;
        let sent = place.send(verb, &place.headers, body, deadline, &place.patience).await;
        let mut answer = sent.map_err(|fault| {
            if fault.may_have_arrived() {
                CallFault::Lost(fault.into())
            } else {
                CallFault::NotSent(fault.into())
            }
        })?;
        match answer.status {
            200..300 => {
                answer.drain(100).await;
                Ok(())
            }
            401 | 403 => Err(CallFault::NotSent(place.unauthorized(&answer))),
            status @ 500.. => Err(CallFault::Lost(ServerFault::Status(status))),
            status => {
                let text = answer.beginning(1_024).await;
                let message = shown(&String::from_utf8_lossy(&text), 200);
                Err(CallFault::Refused { code: i64::from(status), message })
            }
        }
    }
}

impl Transport<RoleClient> for Older {
    type Error = NotTaken;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), NotTaken>> + Send + 'static {
        self.switch.said(&item);
        let mailbox = Arc::clone(&self.mailbox);
        async move {
            let body = serde_json::to_vec(&item).map_err(|_| NotTaken)?;
            let deadline = after(tokio::time::Instant::now(), TAKE_MS_MAX);
            mailbox.put(Verb::Post, body.into(), deadline).await.map_err(|_| NotTaken)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            while let Some(text) = self.waiting.pop_front() {
                match self.switch.hear(&text) {
                    Heard::Theirs(message) => return Some(*message),
                    Heard::Done => {}
                    Heard::Noise => {
                        let max = self.bounds.noise_max;
                        if self.switch.counts.noise.load(Ordering::Relaxed) > max {
                            self.switch.end(ServerFault::Noisy { max, words: String::new() });
                            return None;
                        }
                    }
                }
            }
            let chunk = tokio::select! {
                chunk = self.answer.chunk() => chunk,
                () = self.switch.end_told() => return None,
            };
            let waiting = &mut self.waiting;
            let read = match &chunk {
                Ok(Some(bytes)) => self.reader.read(bytes, |event| {
                    keep(waiting, event.data);
                    Ok::<(), SseFault>(())
                }),
                Ok(None) | Err(_) => {
                    self.switch.end(toolgate_http::HttpFault::CutOff.into());
                    return None;
                }
            };
            if let Err(fault) = read {
                // What waits before it is heard first. Where the stream goes on after an event that
                // is too long is not known.
                for text in self.waiting.drain(..) {
                    self.switch.hear(&text);
                }
                if let SseFault::EventTooLong(_) = fault {
                    self.switch.too_long(&self.reader.open(), &[]);
                }
                self.switch.end(ServerFault::Protocol(fault.to_string()));
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), NotTaken> {
        Ok(())
    }
}
