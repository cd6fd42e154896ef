//! Decides how messages travel between this server and the process that started it: one per line.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use super::line::{LINE_MESSAGES_MAX, Line};
use super::lines::{Lines, Untaken};
use super::message::{self, Message, RequestId, parts};
use super::protocol::{self, Wanted};
use super::refusal::{Refused, RpcCode};
use super::revision::Common;
use super::served::{Answer, Caller, Principal, Request, Served};
use super::stop::ends;
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
    /// Whether the server is told to stop, so that nothing new is begun.
    stops: bool,
}

/// Why a client cannot be served any more, though it did not leave and nobody said stop.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// What it says cannot be read.
    #[error("the client's messages cannot be read: {0}")]
    Input(#[source] io::Error),
    /// It cannot be answered.
    #[error("the client cannot be answered: {0}")]
    Output(#[source] io::Error),
    /// It does not read its answers.
    #[error("the client did not read an answer for {} seconds", WRITE_WAIT.as_secs())]
    Unread,
    /// At the end it did not read its last answers in time.
    #[error(
        "the client did not read its last answers in time; what it has not read is lost, and the \
         last line may be cut off"
    )]
    Left,
}

/// Serves one client until it closes its end, or the server is told to stop.
pub async fn serve(
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin,
    served: Arc<dyn Served>,
    principal: Arc<Principal>,
    server: &serde_json::Value,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Broken> {
    let (out, mut said) = mpsc::channel(LINE_MESSAGES_MAX);
    let (end, ended) = watch::channel(false);
    let card = server.to_string().into();
    let open = Arc::default();
    let bytes_max = usize::try_from(served.limits().mcp_body_bytes_max).unwrap_or(usize::MAX);
    let (visit, stops) = (None, false);
    let mut pipe = Pipe { served, principal, card, visit, open, out, ended, stops };
    let (mut lines, mut unread) = (Lines::new(input, bytes_max), Unread::new(output));
    let mut works: FuturesUnordered<Work> = FuturesUnordered::new();
    let served = Arc::clone(&pipe.served);
    let mut stopped = std::pin::pin!(stop.wait_for(|stopped| *stopped).map(drop));
    let stops = loop {
        let written = tokio::select! {
            biased;
            () = &mut stopped => break true,
            Some(message) = said.recv() => Some(message),
            Some(message) = works.next() => message,
            line = lines.next() => match line {
                None => break false,
                Some(line) => pipe.heard(line, &works),
            },
        };
        let Some(message) = written else { continue };
        unread.add(&message);
        gather(&mut unread, &mut said, &mut works);
        let wrote = tokio::select! {
            biased;
            wrote = unread.write() => wrote,
            // The rest is written at the end, which is not waited for so long.
            () = &mut stopped => break true,
            () = lines.end() => break false,
        };
        if let Err(broken) = wrote {
            // Nobody reads any more; what was begun still comes to its end.
            end.send_replace(true);
            ends(served.as_ref(), async { while works.next().await.is_some() {} }).await;
            return first_of(lines.broken(), broken);
        }
    };
    if stops {
        served.turn_away();
        pipe.stops = true;
    }
    // Nobody listens to news any more; what was asked for is still answered.
    end.send_replace(true);
    let mut broken = None;
    let rest = async {
        loop {
            // What was said before the word to stop came is not left unanswered. Whoever reads
            // nothing meanwhile is not heard without end.
            let may_hear = !stops || unread.len() < GATHERED_BYTES;
            let late = if may_hear { lines.next().now_or_never().flatten() } else { None };
            let message = match late {
                Some(line) => pipe.heard(line, &works),
                None if said.is_empty() && works.is_empty() && unread.is_empty() => break,
                None => tokio::select! {
                    biased;
                    Some(message) = said.recv() => Some(message),
                    Some(message) = works.next() => message,
                    wrote = unread.write(), if !unread.is_empty() => match wrote {
                        Ok(()) => None,
                        Err(fault) => {
                            broken = fault;
                            break;
                        }
                    },
                },
            };
            message.iter().for_each(|message| unread.add(message));
        }
    };
    if !ends(served.as_ref(), rest).await {
        broken = Some(Broken::Left);
    }
    first_of(lines.broken(), broken)
}

/// What went wrong first: after what cannot be read, only writing is left to do.
fn first_of(input: Option<io::Error>, output: Option<Broken>) -> Result<(), Broken> {
    input.map(Broken::Input).or(output).map_or(Ok(()), Err)
}

/// Adds the messages that are ready, so that they are written in one go. Nothing is waited for.
fn gather<W: AsyncWrite + Unpin>(
    unread: &mut Unread<W>,
    said: &mut mpsc::Receiver<String>,
    works: &mut FuturesUnordered<Work>,
) {
    while unread.len() < GATHERED_BYTES {
        let next = match said.try_recv() {
            Ok(message) => Some(message),
            Err(_) => match works.next().now_or_never() {
                Some(Some(message)) => message,
                Some(None) | None => return,
            },
        };
        next.iter().for_each(|message| unread.add(message));
    }
}

/// What the client has not taken yet, a line for each message.
struct Unread<W> {
    output: W,
    lines: String,
    /// Bytes of them that it has taken.
    taken: usize,
}

impl<W: AsyncWrite + Unpin> Unread<W> {
    fn new(output: W) -> Self {
        Self { output, lines: String::new(), taken: 0 }
    }

    fn add(&mut self, message: &str) {
        self.lines.push_str(message);
        self.lines.push('\n');
    }

    fn len(&self) -> usize {
        self.lines.len() - self.taken
    }

    /// Whether nothing is left to be written, or to be flushed.
    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes all of it; what goes wrong is nothing where the client has left. It can be broken off
    /// and taken up again.
    async fn write(&mut self) -> Result<(), Option<Broken>> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match tokio::time::timeout(WRITE_WAIT, self.write_all()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) if matches!(fault.kind(), BrokenPipe | ConnectionReset) => Err(None),
            Ok(Err(fault)) => Err(Some(Broken::Output(fault))),
            Err(_) => Err(Some(Broken::Unread)),
        }
    }

    async fn write_all(&mut self) -> io::Result<()> {
        while let Some(left @ [_, ..]) = self.lines.as_bytes().get(self.taken..) {
            match self.output.write(left).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                taken => self.taken += taken,
            }
        }
        self.output.flush().await?;
        (self.lines, self.taken) = (String::new(), 0);
        Ok(())
    }
}

/// What becomes of a line.
enum Taken {
    Said(String),
    Working(Work),
    Heard,
}

impl Pipe {
    /// What is said to a line at once; what takes longer joins the works.
    fn heard(
        &mut self,
        line: Result<String, Untaken>,
        works: &FuturesUnordered<Work>,
    ) -> Option<String> {
        let taken = match line {
            Ok(line) => self.take(&line),
            Err((id, refusal)) => Taken::Said(message::refusal(id.as_ref(), &refusal)),
        };
        match taken {
            Taken::Said(message) => return Some(message),
            Taken::Working(work) => works.push(work),
            Taken::Heard => {}
        }
        None
    }

    fn take(&mut self, line: &str) -> Taken {
        if line.trim_start().starts_with('[') {
            return self.batch(line);
        }
        match Message::read(line) {
            Err(refusal) => Taken::Said(message::refusal(message::id_of(line).as_ref(), &refusal)),
            Ok(message @ (Message::Notification { .. } | Message::Response { .. })) => {
                self.hear(message);
                Taken::Heard
            }
            Ok(Message::Request { id, method, params }) => match self.asked(&id, &method, params) {
                Ok(taken) => taken,
                Err(refusal) => Taken::Said(message::refusal(Some(&id), &refusal)),
            },
        }
    }

    /// Takes what wants no answer.
    fn hear(&self, message: Message<'_>) {
        match message {
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                self.open.cancel(params);
            }
            Message::Response { id, outcome } => {
                if let Some(visit) = &self.visit {
                    visit.asks.answered(&id, outcome);
                }
            }
            Message::Notification { .. } | Message::Request { .. } => {}
        }
    }

    /// Begins to answer a request, whichever era it is of.
    fn asked(&mut self, id: &RequestId, method: &str, params: &str) -> Result<Taken, Refused> {
        // Whoever calls a tool is told in the way of all results, so that a model can make use of it.
        if self.stops && method != "tools/call" {
            return Err(Refused::stopping());
        }
        let common = Common::read(params)?;
        let visit = match (common.version(), method) {
            (Some(_), _) => None,
            (None, "initialize") => return self.initialize(id, params),
            // Whoever has not shaken hands may ask whether anybody is there, and nothing else.
            (None, "ping") if self.visit.is_none() => {
                return Ok(Taken::Said(message::response(id, "{}")));
            }
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
                // There is nobody any more who would tell of news.
                () = protocol::listen(served.as_ref(), &caller, wanted, Some(&id), &out) => {}
                () = running.cancelled() => return None,
                _ = ended.wait_for(|ended| *ended) => {}
            }
            Some(protocol::listened(&id, &card))
        })))
    }

    /// The parts of several messages at once, which two revisions have and the others do not.
    fn parts<'a>(&self, line: &'a str) -> Result<Vec<&'a str>, Refused> {
        let revision = self.visit.as_ref().map(|visit| visit.caller.revision);
        if !revision.is_some_and(|revision| revision.has_batches()) {
            let words = "Batches are not taken in this revision; send one message at a time.";
            return Err(Refused::new(RpcCode::InvalidRequest, words));
        }
        parts(line, self.served.limits().mcp_batch_max)
    }

    /// Begins to answer several messages at once.
    fn batch(&mut self, line: &str) -> Taken {
        let invalid = |refusal: Refused| Taken::Said(message::refusal(None, &refusal));
        let parts = match self.parts(line) {
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
