//! Decides how messages travel between this server and the process that started it: one per line.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::line::{LINE_MESSAGES_MAX, Line};
use super::message::{self, Message, RequestId, parts};
use super::protocol::{self, Wanted};
use super::refusal::{Refused, RpcCode};
use super::revision::Common;
use super::served::{Answer, Caller, Principal, Request, Served};
use super::stop::{GRACE, ends};
use super::visit::{OpenRequests, Visit};

/// How long the other side may take to read what is written.
const WRITE_WAIT: Duration = Duration::from_secs(60);

/// Bytes after which no further message is gathered to be written with others.
const GATHERED_BYTES: usize = 64 << 10;

/// Work on one message; what it says at its end is written.
type Work = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// One client at the other end of two pipes.
struct Pipe {
    served: Arc<dyn Served>,
    principal: Arc<Principal>,
    card: Arc<str>,
    /// The handshake of the older revisions, once it was made.
    visit: Option<Arc<Visit>>,
    open: Arc<OpenRequests>,
    out: mpsc::Sender<String>,
    ended: watch::Receiver<bool>,
}

/// Serves one client until it closes its end, or the server is told to stop.
pub async fn serve(
    input: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    served: Arc<dyn Served>,
    principal: Arc<Principal>,
    server: &serde_json::Value,
    mut stop: watch::Receiver<bool>,
) {
    let (out, mut said) = mpsc::channel(LINE_MESSAGES_MAX);
    let (end, ended) = watch::channel(false);
    let card = server.to_string().into();
    let open = Arc::default();
    let bytes_max = usize::try_from(served.limits().mcp_body_bytes_max).unwrap_or(usize::MAX);
    let mut pipe = Pipe { served, principal, card, visit: None, open, out, ended };
    let mut lines = Lines { input, bytes_max, held: Vec::new(), skipping: false };
    let mut works: FuturesUnordered<Work> = FuturesUnordered::new();
    let served = Arc::clone(&pipe.served);
    let mut stopped = std::pin::pin!(stop.wait_for(|stopped| *stopped).map(drop));
    loop {
        let written = tokio::select! {
            biased;
            () = &mut stopped => break,
            Some(message) = said.recv() => Some(message),
            Some(message) = works.next() => message,
            line = lines.next() => match line {
                None => break,
                Some(Err(refusal)) => Some(message::refusal(None, &refusal)),
                Some(Ok(line)) => match pipe.take(&line) {
                    Taken::Said(message) => Some(message),
                    Taken::Working(work) => {
                        works.push(work);
                        None
                    }
                    Taken::Heard => None,
                },
            },
        };
        let Some(message) = written else { continue };
        let lines = gathered(message, &mut said, &mut works);
        match write_unless(stopped.as_mut(), &mut output, lines).await {
            Wrote::All => {}
            Wrote::AllAndStops => break,
            Wrote::Not => return,
            Wrote::NotAndStops => {
                // The other side does not read; what was begun still comes to its end.
                end.send_replace(true);
                let rest = async { while works.next().await.is_some() {} };
                return ends(served.as_ref(), rest).await;
            }
        }
    }
    // Nobody listens to news any more; what was asked for is still answered.
    end.send_replace(true);
    let rest = async {
        loop {
            let message = tokio::select! {
                biased;
                Some(message) = said.recv() => Some(message),
                next = works.next() => match next {
                    None => break,
                    Some(message) => message,
                },
            };
            if let Some(message) = message
                && !write(&mut output, gathered(message, &mut said, &mut works)).await
            {
                break;
            }
        }
    };
    ends(served.as_ref(), rest).await;
}

/// A message and those that are ready with it, a line each, so that they are written in one go.
/// Nothing is waited for.
fn gathered(
    first: String,
    said: &mut mpsc::Receiver<String>,
    works: &mut FuturesUnordered<Work>,
) -> String {
    let mut lines = first;
    lines.push('\n');
    while lines.len() < GATHERED_BYTES {
        let next = match said.try_recv() {
            Ok(message) => Some(message),
            Err(_) => match works.next().now_or_never() {
                Some(Some(message)) => message,
                Some(None) | None => break,
            },
        };
        if let Some(message) = next {
            lines.push_str(&message);
            lines.push('\n');
        }
    }
    lines
}

/// What became of lines that were to be written.
enum Wrote {
    All,
    AllAndStops,
    Not,
    NotAndStops,
}

/// Writes, also to a client that takes its time; once the word to stop has come, not for long.
async fn write_unless(
    stopped: Pin<&mut impl Future<Output = ()>>,
    output: &mut (impl AsyncWrite + Unpin),
    lines: String,
) -> Wrote {
    let mut writing = std::pin::pin!(write(output, lines));
    tokio::select! {
        biased;
        all = &mut writing => if all { Wrote::All } else { Wrote::Not },
        () = stopped => match tokio::time::timeout(GRACE, writing).await {
            Ok(true) => Wrote::AllAndStops,
            Ok(false) | Err(_) => Wrote::NotAndStops,
        },
    }
}

async fn write(output: &mut (impl AsyncWrite + Unpin), lines: String) -> bool {
    let writing = async {
        output.write_all(lines.as_bytes()).await?;
        output.flush().await
    };
    matches!(tokio::time::timeout(WRITE_WAIT, writing).await, Ok(Ok(())))
}

/// Lines of bearable length. Waiting for one can be broken off and taken up again.
struct Lines<R> {
    input: R,
    bytes_max: usize,
    held: Vec<u8>,
    skipping: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    async fn next(&mut self) -> Option<Result<String, Refused>> {
        loop {
            let buffer = self.input.fill_buf().await.ok().filter(|bytes| !bytes.is_empty())?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            let room = self.bytes_max.saturating_sub(self.held.len());
            if taken > room {
                self.skipping = true;
                self.held.clear();
            }
            if !self.skipping {
                self.held.extend_from_slice(buffer.get(..taken).unwrap_or_default());
            }
            self.input.consume(taken);
            if end.is_none() {
                continue;
            }
            if std::mem::take(&mut self.skipping) {
                let words = format!("A message has at most {} bytes.", self.bytes_max);
                return Some(Err(Refused::new(RpcCode::InvalidRequest, words)));
            }
            return match String::from_utf8(std::mem::take(&mut self.held)) {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => Some(Ok(line)),
                Err(_) => Some(Err(Refused::new(RpcCode::Parse, "This is not UTF-8."))),
            };
        }
    }
}

/// What becomes of a line.
enum Taken {
    Said(String),
    Working(Work),
    Heard,
}

impl Pipe {
    fn take(&mut self, line: &str) -> Taken {
        if line.trim_start().starts_with('[') {
            return self.batch(line);
        }
        match Message::read(line) {
            Err(refusal) => Taken::Said(message::refusal(message::id_of(line).as_ref(), &refusal)),
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.open.cancel(params);
                }
                Taken::Heard
            }
            Ok(Message::Response { id, outcome }) => {
                if let Some(visit) = &self.visit {
                    visit.asks.answered(&id, outcome);
                }
                Taken::Heard
            }
            Ok(Message::Request { id, method, params }) => match self.asked(&id, &method, params) {
                Ok(taken) => taken,
                Err(refusal) => Taken::Said(message::refusal(Some(&id), &refusal)),
            },
        }
    }

    /// Begins to answer a request, whichever era it is of.
    fn asked(&mut self, id: &RequestId, method: &str, params: &str) -> Result<Taken, Refused> {
        let common = Common::read(params)?;
        let visit = match (common.version(), method) {
            (Some(_), _) => None,
            (None, "initialize") => return self.initialize(id, params),
            // Whoever has not shaken hands must say all of itself.
            (None, _) => self.visit.clone(),
        };
        let (caller, level) = match &visit {
            Some(visit) => (visit.caller.clone(), visit.level()),
            None => {
                let (revision, capabilities) = common.complete()?;
                let principal = Arc::clone(&self.principal);
                let phase = principal.phase.clone();
                let level = common.meta.as_ref().and_then(|meta| meta.log_level.clone());
                (Caller { principal, revision, capabilities, phase }, level)
            }
        };
        if caller.revision.modern() && method == "subscriptions/listen" {
            return self.subscribe(id, params, caller);
        }
        if let Some(visit) = visit.as_ref().filter(|_| method == "logging/setLevel") {
            visit.set_level(params)?;
            return Ok(Taken::Said(message::response(id, "{}")));
        }
        let asks = visit.map(|visit| Arc::clone(&visit.asks));
        let line = Line::new(self.out.clone(), asks, common.progress(), level.as_deref());
        let running = self.open.run(id)?;
        let (served, card) = (Arc::clone(&self.served), Arc::clone(&self.card));
        let (id, method, params) = (id.clone(), method.to_owned(), params.to_owned());
        Ok(Taken::Working(Box::pin(async move {
            let request = Request { id: &id, method: &method, params: &params, caller: &caller };
            let answered = tokio::select! {
                biased;
                answered = protocol::answer(served.as_ref(), request, &line) => answered,
                () = running.cancelled() => return None,
            };
            Some(written(&id, &caller, &card, answered))
        })))
    }

    fn initialize(&mut self, id: &RequestId, params: &str) -> Result<Taken, Refused> {
        if self.visit.is_some() {
            let words = "initialize was made already, and holds for the whole connection.";
            return Err(Refused::new(RpcCode::InvalidRequest, words));
        }
        let phase = self.principal.phase.clone();
        let visit = Arc::new(Visit::begin(params, Arc::clone(&self.principal), phase)?);
        let answer = self.served.card(&visit.caller).initialized(visit.caller.revision);
        self.visit = Some(Arc::clone(&visit));
        // News come by themselves, as the older revisions have it.
        let (served, out, mut ended) =
            (Arc::clone(&self.served), self.out.clone(), self.ended.clone());
        let said = message::response(id, &answer.json);
        if out.try_send(said).is_err() {
            return Err(Refused::new(RpcCode::Internal, "Too much is waiting to be read."));
        }
        Ok(Taken::Working(Box::pin(async move {
            tokio::select! {
                () = protocol::listen(served.as_ref(), &visit.caller, Wanted::ALL, None, &out) => {}
                _ = ended.wait_for(|ended| *ended) => {}
            }
            None
        })))
    }

    fn subscribe(&self, id: &RequestId, params: &str, caller: Caller) -> Result<Taken, Refused> {
        let wanted = Wanted::read(params, &self.served.lists(&caller))?;
        let running = self.open.run(id)?;
        let (served, out, mut ended) =
            (Arc::clone(&self.served), self.out.clone(), self.ended.clone());
        let (id, card) = (id.clone(), Arc::clone(&self.card));
        Ok(Taken::Working(Box::pin(async move {
            tokio::select! {
                () = protocol::listen(served.as_ref(), &caller, wanted, Some(&id), &out) => None,
                () = running.cancelled() => None,
                _ = ended.wait_for(|ended| *ended) => Some(protocol::listened(&id, &card)),
            }
        })))
    }

    /// Several messages at once, which two revisions have and the others do not.
    fn batch(&mut self, line: &str) -> Taken {
        let invalid = |refusal: Refused| Taken::Said(message::refusal(None, &refusal));
        let revision = self.visit.as_ref().map(|visit| visit.caller.revision);
        if !revision.is_some_and(|revision| revision.has_batches()) {
            let words = "Batches are not taken in this revision; send one message at a time.";
            return invalid(Refused::new(RpcCode::InvalidRequest, words));
        }
        let parts = match parts(line, self.served.limits().mcp_batch_max) {
            Ok(parts) => parts,
            Err(refusal) => return invalid(refusal),
        };
        let (mut answers, mut works) = (Vec::new(), Vec::new());
        for part in parts {
            // Whoever can send one has made initialize already, so that it is refused in here.
            let taken = match part.trim_start().starts_with('[') {
                true => invalid(Refused::new(RpcCode::InvalidRequest, "A batch has no batches.")),
                false => self.take(part),
            };
            match taken {
                Taken::Said(answer) => answers.push(answer),
                Taken::Working(work) => works.push(work),
                Taken::Heard => {}
            }
        }
        Taken::Working(Box::pin(async move {
            answers.extend(join_all(works).await.into_iter().flatten());
            (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
        }))
    }
}

fn written(
    id: &RequestId,
    caller: &Caller,
    card: &str,
    answered: Result<Answer, Refused>,
) -> String {
    match answered {
        Ok(answer) => message::response_with(id, |out| answer.write(out, caller.revision, card)),
        Err(refusal) => message::refusal(Some(id), &refusal),
    }
}
