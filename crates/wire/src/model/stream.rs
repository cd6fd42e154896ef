//! Reads an answer that comes piece by piece, and shows it meanwhile.

use serde_json::Value;
use toolgate_http::Answer;
use toolgate_http::sse::{EVENT_BYTES_MAX, Reader};
use toolgate_kernel::event::Usage;
use toolgate_runtime::port::{Reply, Streamed, Tap};

use super::{Failure, GRACE_MS, Seat, Turning};
use crate::dialect::{Dialect, Gather};
use crate::redacted_tap::RedactedTap;
use crate::transform::Thinking;

impl Seat {
    /// A reply that is shown as it comes: its thoughts as thoughts, no secret, no printed call.
    pub(super) async fn streamed(
        &self,
        answer: &mut Answer,
        turning: &Turning<'_>,
    ) -> Result<Reply, Failure> {
        let transforms = &self.options.transforms;
        let holds = !turning.plan.tools.is_empty();
        let holding = holds.then(|| transforms.holding(turning.tap)).flatten();
        let hold = |streamed: Streamed<'_>| match &holding {
            Some(holding) => holding.pass(streamed),
            None => (turning.tap)(streamed),
        };
        let gathered = {
            let redacted = RedactedTap::new(&self.endpoint.redactor, &hold);
            let redact = |streamed: Streamed<'_>| redacted.pass(streamed);
            let finds = transforms.finds_thoughts() && self.dialect == Dialect::Chat;
            let thinking = finds.then(|| Thinking::new(&redact));
            let tap = |streamed: Streamed<'_>| match &thinking {
                Some(thinking) => thinking.pass(streamed),
                None => redact(streamed),
            };
            let gathered = self.gathered(answer, &tap).await;
            if let Some(thinking) = &thinking {
                thinking.end();
            }
            redacted.end();
            gathered
        };
        let reply = gathered.and_then(|body| self.decoded(body, turning));
        match (&holding, &reply) {
            (Some(holding), Ok(reply)) => holding.end(&reply.text),
            (Some(holding), Err(_)) => holding.broke_off(),
            (None, _) => {}
        }
        reply
    }

    /// A stream put together to one whole answer.
    async fn gathered(&self, answer: &mut Answer, tap: Tap<'_>) -> Result<Value, Failure> {
        let bytes_max = usize::try_from(self.patience.answer_bytes_max).unwrap_or(usize::MAX);
        let mut reader = Reader::bounded(EVENT_BYTES_MAX, bytes_max);
        let (mut gather, mut counted) = (self.dialect.gather(self.bounds), Usage::default());
        while !gather.done() {
            let read = if gather.whole() {
                answer.chunk_within(GRACE_MS).await
            } else {
                answer.chunk().await
            };
            let chunk = match read {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // What ends a stream after its reply is whole takes nothing away from it.
                Err(_) if gather.whole() => break,
                Err(fault) => {
                    return Err(paid(self.broken(&fault, &gather.words()), &gather));
                }
            };
            if let Err(fault) = reader.read(&chunk, |event| gather.take(event, tap)) {
                return Err(paid(self.wire(fault, &gather.words()), &gather));
            }
            let usage = gather.usage();
            if usage != counted {
                counted = usage;
                tap(Streamed::Counted(usage));
            }
        }
        gather.end(tap);
        if gather.done() {
            answer.drain(GRACE_MS).await;
        }
        self.finished(gather)
    }

    /// A stream that came under another name, put together once all of it is there.
    pub(super) fn whole_stream(&self, bytes: &[u8]) -> Result<Value, Failure> {
        let mut reader = Reader::bounded(EVENT_BYTES_MAX, bytes.len());
        let mut gather = self.dialect.gather(self.bounds);
        if let Err(fault) = reader.read(bytes, |event| gather.take(event, &|_| {})) {
            return Err(paid(self.wire(fault, &gather.words()), &gather));
        }
        self.finished(gather)
    }

    fn finished(&self, gather: Gather) -> Result<Value, Failure> {
        match gather.fault() {
            Some(fault) => Err(paid(self.wire(fault, &gather.words()), &gather)),
            None => Ok(gather.body()),
        }
    }
}

/// A stream that broke off may have said what it cost so far.
fn paid(failure: Failure, gather: &Gather) -> Failure {
    Failure { usage: Some(gather.usage()), ..failure }
}

/// Whether bytes are a stream of events, whatever their server calls them. No JSON begins so.
pub(super) fn is_stream(bytes: &[u8]) -> bool {
    let begin = bytes.trim_ascii_start();
    [b"data:".as_slice(), b"event:", b"id:", b"retry:", b":"].iter().any(|k| begin.starts_with(k))
}
