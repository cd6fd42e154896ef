//! Decides how a model answers a plan: one request, tried again where that helps, and perhaps
//! another model in its place.

mod endpoint;
mod exchange;
mod listing;
mod stream;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::time::Instant;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::directive::Means;
use toolgate_kernel::event::{Attempt, FaultKind, Finish, Usage};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::redact::Redactor;
use toolgate_runtime::port::{Clock, Desk, Provider, ProviderFault, Reply, Streamed, Tap};

use crate::answer::{self, Unread};
use crate::assemble::{Page, Prepared};
use crate::breaker::{Breaker, Open};
use crate::dialect::rules::Rule;
use crate::dialect::{Dialect, Options, ReplyBounds, WireFault};
use crate::retry::{Dice, Next, Retries, Tries};
use crate::words::{self, Refused};
use endpoint::Endpoint;
pub use endpoint::ModelRefusal;
pub use exchange::Exchange;
use toolgate_http::{Answer, Asking, HttpFault, Patience, Plain, after};

/// A model as data: who it is, where it is, how it is asked.
#[derive(Debug, Clone)]
pub struct ModelSpec {
    /// Its name in the log, such as `openai:gpt-5`.
    pub name: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is, as it was written down.
    pub base_url: String,
    /// What stands between the address and the endpoint, unless the address ends with it.
    pub api_prefix: Option<String>,
    /// The key.
    pub key: Option<Hidden>,
    /// Headers sent besides; they replace ours of the same name.
    pub headers: Vec<(String, Hidden)>,
    /// What is added to every request.
    pub options: Options,
    /// How long it is waited for.
    pub patience: Patience,
    /// How often it is asked again.
    pub retries: Retries,
    /// Where `http://` may be used.
    pub plain: Plain,
    /// Milliseconds for a turn with all its tries. Those that stand in have their own.
    pub turn_ms_max: u64,
    /// How large a reply may grow while it streams.
    pub bounds: ReplyBounds,
    /// Removes secrets from replies and errors. The key and the headers are added to it.
    pub redactor: Redactor,
    /// How many calls of a reply may run when it stands in for another; as the limits say when
    /// absent.
    pub calls_max: Option<u64>,
    /// Models that are asked in its place when it cannot be used, in order.
    pub fallback: Vec<ModelSpec>,
}

/// Milliseconds to wait for the end of a stream whose reply is whole.
const GRACE_MS: u64 = 500;
/// Bytes of an error answer that are looked at.
const ERROR_BYTES_MAX: usize = 16 << 10;

impl ModelSpec {
    /// A model with nothing but defaults.
    pub fn new(name: &str, dialect: Dialect, base_url: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            dialect,
            base_url: base_url.to_owned(),
            api_prefix: None,
            key: None,
            headers: Vec::new(),
            options: Options { model: model.to_owned(), ..Options::default() },
            patience: Patience::default(),
            retries: Retries::default(),
            plain: Plain::default(),
            turn_ms_max: Limits::default().turn_ms_max,
            bounds: ReplyBounds::default(),
            redactor: Redactor::default(),
            calls_max: None,
            fallback: Vec::new(),
        }
    }
}

/// A model that is reached over HTTP, and those that stand in for it.
pub struct Model {
    seats: Vec<Seat>,
    digest: Digest,
}

/// One model, with what it needs to answer.
struct Seat {
    name: String,
    dialect: Dialect,
    endpoint: Endpoint,
    options: Options,
    patience: Patience,
    retries: Retries,
    turn_ms_max: u64,
    bounds: ReplyBounds,
    calls_max: Option<u64>,
    breaker: Arc<Breaker>,
    clock: Arc<dyn Clock>,
    dice: Arc<Dice>,
}

/// A try that failed.
#[derive(Debug)]
struct Failure {
    kind: FaultKind,
    reason: String,
    status: Option<u16>,
    /// Milliseconds the server asks to wait.
    asked_ms: Option<u64>,
    /// Words that came before it broke.
    partial: String,
    /// What the reply cost that cannot be used.
    usage: Option<Usage>,
    /// Whether the server asked to be left alone for longer than is waited.
    parks: bool,
}

/// What the tries of one turn share.
struct Turning<'a> {
    plan: &'a Plan,
    tap: Tap<'a>,
    /// When the model whose turn it is must be done.
    deadline: Instant,
    attempts: Vec<Attempt>,
}

impl Provider for Model {
    fn name(&self) -> &str {
        self.seats.first().map_or("", |seat| seat.name.as_str())
    }

    fn options(&self) -> Digest {
        self.digest
    }

    fn turn_ms_max(&self) -> Option<u64> {
        // It keeps its own time; whoever waits gives it a moment to say so.
        let all = self.seats.iter().map(|seat| seat.turn_ms_max);
        Some(all.fold(GRACE_MS, u64::saturating_add))
    }

    fn rest_ms(&self) -> Option<u64> {
        let rests = self.seats.iter().filter_map(|seat| match seat.breaker.open() {
            // Nobody waits for money.
            Some(open) if open.because == FaultKind::Billing => None,
            Some(open) => Some(open.left_ms.max(1)),
            None => Some(0),
        });
        rests.min().filter(|ms| *ms > 0)
    }

    fn means(&self, schema: &Value) -> Means {
        let Some(seat) = self.seats.first() else { return Means::default() };
        let (can, holds) = (seat.options.capabilities, seat.dialect.holds(schema));
        Means {
            json_schema: can.json_schema && holds.json_schema,
            json_object: can.json_object && holds.json_object,
        }
    }

    fn transforms(&self) -> BTreeMap<String, Vec<String>> {
        self.seats.first().map(|seat| seat.options.transforms.names()).unwrap_or_default()
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        desk: &'a mut Desk,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(self.turn(plan, desk, tap))
    }
}

impl Model {
    async fn turn(
        &self,
        plan: &Plan,
        desk: &mut Desk,
        tap: Tap<'_>,
    ) -> Result<Reply, ProviderFault> {
        let deadline = tokio::time::Instant::now();
        let mut turning = Turning { plan, tap, deadline, attempts: Vec::new() };
        let pages = self.pages(desk);
        let mut last = None;
        for (at, (seat, page)) in self.seats.iter().zip(pages).enumerate() {
            // One that hangs must not take the time of those who stand in for it.
            turning.deadline = after(tokio::time::Instant::now(), seat.turn_ms_max);
            match seat.reply(page, &mut turning).await {
                Ok(mut reply) => {
                    reply.model = (at > 0).then(|| seat.name.clone());
                    if at > 0 {
                        reply.calls_max = seat.calls_max;
                        let stood = format!("{} answered in place of {}", seat.name, self.name());
                        reply.repairs.push(stood);
                    }
                    reply.attempts = turning.attempts;
                    return Ok(reply);
                }
                Err(failure) if at + 1 < self.seats.len() && failure.kind.stands_in() => {
                    turning.attempts.push(failure.attempt(0));
                    failure.tell_cost(tap);
                    tap(Streamed::Again);
                    last = Some(failure);
                }
                Err(failure) => return Err(failure.fault(turning.attempts)),
            }
        }
        // There is always a model, so the last one answered or failed above.
        let gone = || Failure::new(FaultKind::Unusable, "there is no model".to_owned());
        Err(last.unwrap_or_else(gone).fault(turning.attempts))
    }

    /// What is kept of the session, one page per model; nothing of another model's is used.
    fn pages<'a>(&self, desk: &'a mut Desk) -> &'a mut [Page] {
        let own = |kept: &Pages| kept.digest == self.digest && kept.pages.len() == self.seats.len();
        let kept = desk.0.as_ref().and_then(|kept| kept.downcast_ref()).is_some_and(own);
        if !kept {
            let pages = self.seats.iter().map(|_| Page::default()).collect();
            desk.0 = Some(Box::new(Pages { digest: self.digest, pages }));
        }
        let kept = desk.0.as_mut().and_then(|kept| kept.downcast_mut::<Pages>());
        kept.map(|kept| kept.pages.as_mut_slice()).unwrap_or_default()
    }
}

/// What a desk holds for a model.
struct Pages {
    digest: Digest,
    pages: Vec<Page>,
}

impl Seat {
    /// A reply, after as many tries as it takes and the rules allow.
    async fn reply(&self, page: &mut Page, turning: &mut Turning<'_>) -> Result<Reply, Failure> {
        let leave = self.breaker.ask().map_err(|open| self.left_alone(open))?;
        let answered = self.tries(page, turning).await;
        let rest_ms = leave.tell(answered.as_ref().err().map(|failure| failure.kind));
        answered.map_err(|failure| match rest_ms {
            // Where there is no money, nobody waits for any.
            Some(rest_ms) if failure.kind != FaultKind::Billing => {
                let again = self.clock.now().plus_ms(rest_ms);
                let reason = format!(
                    "it is left alone until {again}, because it failed too often: {}",
                    failure.reason
                );
                Failure { reason, ..failure }
            }
            Some(_) | None => failure,
        })
    }

    async fn tries(&self, page: &mut Page, turning: &mut Turning<'_>) -> Result<Reply, Failure> {
        let prepared = page.request(self.dialect, turning.plan, &self.options);
        let mut prepared = prepared.map_err(unsendable)?;
        let mut seen: BTreeMap<FaultKind, u32> = BTreeMap::new();
        let mut failed = 0;
        loop {
            let mut failure = match self.attempt(&prepared, turning).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            self.out_of_time(&mut failure, turning);
            failed += 1;
            let alike = seen.entry(failure.kind).or_default();
            *alike += 1;
            let left = turning.deadline.saturating_duration_since(tokio::time::Instant::now());
            let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let tries = Tries { failed, alike: *alike, left_ms };
            let (kind, asked_ms) = (failure.kind, failure.asked_ms);
            match self.retries.next(kind, asked_ms, tries, self.clock.now(), &self.dice) {
                Next::Again { wait_ms } => {
                    failure.tell_cost(turning.tap);
                    (turning.tap)(Streamed::Waits { reason: &failure.reason, ms: wait_ms });
                    turning.attempts.push(failure.attempt(wait_ms));
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                    (turning.tap)(Streamed::Again);
                    if kind == FaultKind::Truncated {
                        prepared = self.larger(turning.plan, failure.usage)?;
                    }
                }
                Next::GiveUp => return Err(failure),
                Next::Until(moment) => {
                    failure.reason.push_str(&format!("; it asks to be left alone until {moment}"));
                    failure.parks = true;
                    return Err(failure);
                }
            }
        }
    }

    /// Names the bound of the whole turn where that is what was reached.
    fn out_of_time(&self, failure: &mut Failure, turning: &Turning<'_>) {
        let is_over = tokio::time::Instant::now() >= turning.deadline;
        if failure.kind == FaultKind::TimedOut && is_over {
            let ms = self.turn_ms_max;
            // A turn has as long as its one request, where somebody gave that longer.
            let one = self.patience.request_ms_max == Some(ms);
            let bound = if one { "reply_ms_max" } else { "limits.turn_ms_max" };
            failure.reason = format!("the turn took more than {ms} ms ({bound})");
        }
    }

    /// The same request with room for twice as many tokens.
    fn larger(&self, plan: &Plan, usage: Option<Usage>) -> Result<Prepared, Failure> {
        let written = usage.map(|usage| usage.output_tokens).filter(|tokens| *tokens > 0);
        let by_itself = written.max(self.dialect.output_tokens());
        let before = self.options.output_tokens_max.or(by_itself);
        let output_tokens_max = before.map(|tokens| tokens.saturating_mul(2));
        let mut options = Options { output_tokens_max, ..self.options.clone() };
        options.double_overrides();
        Page::default().request(self.dialect, plan, &options).map_err(unsendable)
    }

    fn left_alone(&self, open: Open) -> Failure {
        let again = self.clock.now().plus_ms(open.left_ms);
        let because = if open.because == FaultKind::Billing {
            "there is no money left, or a spending limit is reached"
        } else {
            "it failed too often"
        };
        let reason = format!("{} is left alone until {again}, because {because}", self.name);
        Failure::new(FaultKind::CircuitOpen, reason)
    }

    /// One request and its answer.
    async fn attempt(&self, prepared: &Prepared, turning: &Turning<'_>) -> Result<Reply, Failure> {
        let asking = Asking {
            uri: &self.endpoint.uri(&prepared.path),
            headers: &self.endpoint.headers,
            body: prepared.body.clone(),
            deadline: turning.deadline,
        };
        let sent = self.endpoint.server.send(&asking, &self.patience).await;
        let mut answer = sent.map_err(|fault| self.broken(&fault, ""))?;
        if answer.status >= 400 {
            return Err(self.refused(&mut answer).await);
        }
        if self.options.streams() && !answer.is("json") && !answer.is("html") {
            return self.streamed(&mut answer, turning).await;
        }
        let bytes = answer.whole().await.map_err(|fault| self.broken(&fault, ""))?;
        if stream::is_stream(&bytes) {
            return self.decoded(self.whole_stream(&bytes)?, turning);
        }
        let unreadable = |unread| match (unread, words::no_json(&bytes)) {
            (Unread::TooDeep, _) => self.wire(WireFault::too_deep(), ""),
            (Unread::NoJson, Some(fault)) => self.wire(fault, ""),
            (Unread::NoJson, None) => {
                let begun = bytes.trim_ascii_start().first() == Some(&b'{');
                let reason = match begun {
                    true => "the answer is no whole JSON: it broke off, or is written wrongly",
                    false => "the answer is no JSON; does base_url lead to a model server?",
                };
                Failure::new(FaultKind::Unreadable, reason.to_owned())
            }
        };
        let body = answer::read(&bytes).map_err(unreadable)?;
        self.decoded(body, turning)
    }

    /// What an answer says, mended, if it can be used.
    fn decoded(&self, mut body: Value, turning: &Turning<'_>) -> Result<Reply, Failure> {
        let redacted = self.endpoint.redactor.redact_value(&mut body);
        let usage = self.dialect.usage(&body);
        let reply = self.options.transforms.read(self.dialect, &mut body, turning.plan);
        let paid = |failure| Failure { usage: Some(usage), ..failure };
        let mut reply = reply.map_err(|fault| paid(self.wire(fault, "")))?;
        if redacted {
            reply.repairs.push("a secret was removed from the reply".to_owned());
        }
        self.redact_joined(&mut reply);
        if let Some(native) = &mut reply.native {
            native.maker = Some(self.endpoint.maker);
        }
        let unusable = match reply.finish {
            Finish::Length if !reply.calls.is_empty() => {
                let reason = "the reply ran out of room inside its calls";
                Some((FaultKind::Truncated, reason))
            }
            Finish::Calls if reply.calls.is_empty() => {
                Some((FaultKind::NoCalls, "the reply says that it has calls, and has none"))
            }
            Finish::Stop | Finish::Calls | Finish::Length | Finish::Refused | Finish::Paused => {
                None
            }
        };
        match unusable {
            None => Ok(reply),
            Some((kind, reason)) => {
                Err(paid(Failure { partial: reply.text, ..Failure::new(kind, reason.to_owned()) }))
            }
        }
    }

    /// Removes a secret that came in several parts of an answer and is whole now that they are joined.
    fn redact_joined(&self, reply: &mut Reply) {
        let redactor = &self.endpoint.redactor;
        let mut found = false;
        let mut redact = |text: &mut String| {
            if let Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
                found = true;
            }
        };
        redact(&mut reply.text);
        if reply.finish == Finish::Length {
            reply.text = redactor.redact_cut(&reply.text);
        }
        for call in &mut reply.calls {
            redact(&mut call.name);
            redact(&mut call.args);
            call.alias.as_mut().map(&mut redact);
        }
        if found {
            // Its own form has the parts.
            reply.native = None;
            reply.repairs.push("a secret was removed from the reply".to_owned());
        }
    }

    /// An error answer, read as far as it takes to tell what is wrong.
    async fn refused(&self, answer: &mut Answer) -> Failure {
        let body = answer.beginning(ERROR_BYTES_MAX).await;
        let refused = Refused::read(answer.status, &body);
        Failure {
            status: Some(answer.status),
            asked_ms: words::wait_ms(answer.status, &answer.headers, &body, self.clock.now()),
            ..Failure::new(refused.kind, self.endpoint.error_text(&refused.reason))
        }
    }

    fn broken(&self, fault: &HttpFault, words: &str) -> Failure {
        let status =
            if let HttpFault::Redirected { status, .. } = fault { Some(*status) } else { None };
        let reason = self.endpoint.error_text(&words::unanswered(fault));
        let partial = self.endpoint.redactor.redact_cut(words);
        Failure { status, partial, ..Failure::new(fault.kind(), reason) }
    }

    fn wire(&self, fault: WireFault, words: &str) -> Failure {
        let reason = self.endpoint.error_text(&fault.reason);
        let partial = self.endpoint.redactor.redact_cut(words);
        Failure { partial, ..Failure::new(fault.kind, reason) }
    }
}

/// A request that its provider would refuse is not sent.
fn unsendable(rule: &Rule) -> Failure {
    let reason = format!(
        "the request breaks the rule {}: {} It was not sent. This is a fault of toolgate",
        rule.name, rule.sentence
    );
    Failure::new(FaultKind::Unusable, reason)
}

impl Failure {
    fn new(kind: FaultKind, reason: String) -> Self {
        Self {
            kind,
            reason,
            status: None,
            asked_ms: None,
            partial: String::new(),
            usage: None,
            parks: false,
        }
    }

    fn attempt(&self, waited_ms: u64) -> Attempt {
        let (reason, status) = (self.reason.clone(), self.status);
        Attempt { fault: self.kind, reason, status, waited_ms, usage: self.counted() }
    }

    fn fault(self, attempts: Vec<Attempt>) -> ProviderFault {
        let usage = self.counted();
        let Self { kind, reason, partial, parks, status, .. } = self;
        ProviderFault { kind, reason, attempts, partial, parks, status, usage }
    }

    /// Says what it cost, for whoever does not wait for the end.
    fn tell_cost(&self, tap: Tap<'_>) {
        if let Some(usage) = self.counted() {
            tap(Streamed::Counted(usage));
        }
    }

    /// What it cost, where the provider counted anything.
    fn counted(&self) -> Option<Usage> {
        self.usage.filter(|usage| *usage != Usage::default())
    }
}
