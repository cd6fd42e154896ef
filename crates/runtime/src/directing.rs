//! Decides how directives are asked of a model: through its own replies where it calls tools, and
//! by the ladder of forms where it does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::directive::{
    Directed, Directive, Directives, Envelope, Failed, Ladder, Means, Mode, Next, Outcome,
    PATCH_TOOL, Warning, parse, patch_ops, words_so_far,
};
use toolgate_kernel::event::{Attempt, FaultKind, Finish, Note, NoteKind, Usage};
use toolgate_kernel::plan::{Plan, Repair};

use crate::port::{Clock, Desk, Provider, ProviderFault, Reply, ReplyCall, Streamed, Tap};

/// Bytes of an answer that its model reads again.
const ANSWER_BYTES_MAX: usize = 16_000;

/// A model whose replies carry directives.
pub struct Directing {
    /// Answers where tools may be called.
    inner: Arc<dyn Provider>,
    /// Answers in a form.
    formed: Arc<dyn Provider>,
    directives: Arc<Directives>,
    clock: Arc<dyn Clock>,
}

impl Directing {
    /// Directives on top of a model; `formed` is the same model with what is put into requests
    /// for a form.
    pub fn new(
        inner: Arc<dyn Provider>,
        formed: Arc<dyn Provider>,
        directives: Directives,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { inner, formed, directives: Arc::new(directives), clock }
    }

    async fn turn(
        &self,
        plan: &Plan,
        desk: &mut Desk,
        tap: Tap<'_>,
    ) -> Result<Reply, ProviderFault> {
        let mut repair = None;
        if !plan.tools.is_empty() {
            let mut asked = plan.clone();
            // The options tell of these words: they are the same in every request.
            let instructions = self.directives.instructions(Mode::PromptOnly);
            asked.system = format!("{}\n\n{instructions}", asked.system).into();
            let reply = self.inner.reply(&asked, desk, &quiet(tap)).await.map_err(worded)?;
            if !reply.calls.is_empty() || !matches!(reply.finish, Finish::Stop) {
                return Ok(reply);
            }
            match self.read(&reply.text) {
                Some(envelope) => {
                    let mode = Mode::PromptOnly;
                    return Ok(self.directed(plan, reply, envelope, mode, tap));
                }
                None => repair = Some(reply),
            }
        }
        self.climb(plan, repair, tap).await
    }

    fn read(&self, text: &str) -> Option<Envelope> {
        self.directives.read(&parse(text).ok()?).ok()
    }

    /// Asks in one form after another until the directives can be read.
    async fn climb(
        &self,
        plan: &Plan,
        before: Option<Reply>,
        tap: Tap<'_>,
    ) -> Result<Reply, ProviderFault> {
        let means = self.formed.means(&self.directives.schema());
        let mut ladder = Ladder::new(Arc::clone(&self.directives), means);
        let mut way = Way::default();
        if let Some(reply) = before {
            let reply = Ok(reply);
            tell_cost(&reply, tap);
            way.took(reply);
        }
        let mut repairs = Vec::new();
        let mut next = ladder.start();
        loop {
            let ask = match next {
                Next::Ask(ask) => ask,
                Next::Done(done) => {
                    let reply = way.reply()?;
                    let mut reply = self.directed(plan, reply, done.envelope, done.mode, tap);
                    if let Some(directed) = &mut reply.directed {
                        directed.tried = done.tried;
                    }
                    return Ok(reply);
                }
                Next::Failed(failed) => return Ok(words(way.reply()?, failed, tap)),
            };
            // Each answer stays beside what was wrong with it, so that the model knows its own words.
            repairs.extend(ask.repair.map(|text| Repair {
                answer: way.words().into(),
                note: Note { about: NoteKind::Finish, text },
            }));
            let asked = plan.in_form(&ask.instructions, ask.shape, &repairs);
            ladder.sent(asked.fingerprint);
            let began = self.clock.now();
            tap(Streamed::Again);
            let reply = self.formed.reply(&asked, &mut Desk::default(), &quiet(tap)).await;
            let reply = reply.map_err(worded);
            let elapsed_ms = self.clock.now().ms_since(began);
            tell_cost(&reply, tap);
            next = match &reply {
                // Nothing that was declined is asked for again in another form.
                Ok(reply) if reply.finish == Finish::Refused => {
                    Next::Failed(ladder.stop("REFUSED", None, elapsed_ms))
                }
                Ok(reply) => {
                    let (text, calls) = (reply.text.clone(), reply.calls.len());
                    ladder.next(Outcome::Replied { text, calls, elapsed_ms }, |_| Vec::new())
                }
                Err(fault) if !fault.kind.may_be_form() => {
                    Next::Failed(ladder.stop("HTTP_ERROR", fault.status, elapsed_ms))
                }
                Err(fault) => {
                    let turned_down = matches!(fault.kind, FaultKind::BadRequest);
                    let status = fault.status.or(turned_down.then_some(400));
                    let reason = fault.reason.clone();
                    ladder.next(Outcome::Fault { status, reason, elapsed_ms }, |_| Vec::new())
                }
            };
            way.took(reply);
        }
    }

    /// A reply with its directives; changes of the draft become calls, and pass the gate. Where the
    /// tool for them is not shown, they are told as what they are: without effect.
    fn directed(
        &self,
        plan: &Plan,
        reply: Reply,
        mut envelope: Envelope,
        mode: Mode,
        tap: Tap<'_>,
    ) -> Reply {
        tap(Streamed::Freed(&envelope.assistant_text));
        let is_patch = |directive: &Directive| {
            self.directives.types().iter().any(|kind| kind.patch && kind.name == directive.kind)
        };
        let reachable = plan.tools.iter().any(|tool| tool.name.as_str() == PATCH_TOOL);
        let directives = envelope.directives.iter().enumerate();
        for (index, _) in directives.filter(|(_, one)| !reachable && is_patch(one)) {
            let code = "PATCH_NOT_AVAILABLE".to_owned();
            let message = format!("{PATCH_TOOL} is not granted here, so nothing was changed");
            envelope.warnings.push(Warning { code, message, index });
        }
        let patches = envelope.directives.iter().filter(|one| reachable && is_patch(one));
        let ops = patches
            .filter_map(|directive| patch_ops(&Value::Object(directive.payload.clone())).ok());
        let call = |(at, ops)| ReplyCall {
            alias: Some(format!("directive_{}", at + 1)),
            name: PATCH_TOOL.to_owned(),
            args: json!({ "ops": ops }).to_string(),
        };
        let calls: Vec<ReplyCall> = ops.enumerate().map(call).collect();
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        let Envelope { assistant_text, directives, warnings } = envelope;
        let directed = Directed { ok: true, mode: Some(mode), directives, warnings, tried: vec![] };
        Reply {
            text: assistant_text,
            calls,
            finish,
            native: None,
            directed: Some(directed),
            ..reply
        }
    }
}

/// What the requests of one turn came to, and what all of them cost.
#[derive(Default)]
struct Way {
    usage: Usage,
    attempts: Vec<Attempt>,
    repairs: Vec<String>,
    last: Option<Result<Reply, ProviderFault>>,
}

impl Way {
    /// Takes in what came of a request. A fault does not take away what an earlier reply said.
    fn took(&mut self, came: Result<Reply, ProviderFault>) {
        match (came, self.last.take()) {
            (Ok(mut reply), before) => {
                if let Some(Err(fault)) = before {
                    self.attempts.push(fault.attempt());
                }
                self.usage = self.usage.plus(&reply.usage);
                self.attempts.append(&mut reply.attempts);
                self.repairs.append(&mut reply.repairs);
                self.last = Some(Ok(reply));
            }
            (Err(mut fault), before) => {
                self.attempts.append(&mut fault.attempts);
                self.last = Some(match before {
                    Some(Ok(reply)) => {
                        self.attempts.push(fault.attempt());
                        Ok(reply)
                    }
                    Some(Err(earlier)) => {
                        self.attempts.push(earlier.attempt());
                        Err(fault)
                    }
                    None => Err(fault),
                });
            }
        }
    }

    /// The words of the last reply, cut where they are very long.
    fn words(&self) -> &str {
        let Some(Ok(reply)) = &self.last else { return "" };
        let end = reply.text.floor_char_boundary(ANSWER_BYTES_MAX);
        reply.text.get(..end).unwrap_or_default()
    }

    /// The last reply, with what all of them cost; without any reply the last fault stands.
    fn reply(self) -> Result<Reply, ProviderFault> {
        let Self { usage, attempts, repairs, last } = self;
        match last.unwrap_or_else(|| Err(nothing())) {
            Ok(reply) => {
                Ok(Reply { last_usage: Some(reply.usage), usage, attempts, repairs, ..reply })
            }
            Err(fault) => Err(ProviderFault { attempts, ..fault }),
        }
    }
}

/// Says what a request cost, for whoever does not wait for the next one.
fn tell_cost(came: &Result<Reply, ProviderFault>, tap: Tap<'_>) {
    let usage = came.as_ref().map_or_else(|fault| fault.usage, |reply| Some(reply.usage));
    usage.into_iter().for_each(|usage| tap(Streamed::Counted(usage)));
}

/// Words are all that is left. No tool was shown in these requests, so none may be called.
fn words(reply: Reply, failed: Failed, tap: Tap<'_>) -> Reply {
    tap(Streamed::Freed(&reply.text));
    let directed = Directed { tried: failed.tried, ..Directed::default() };
    let finish = if reply.finish == Finish::Calls { Finish::Stop } else { reply.finish };
    let (calls, native) = (Vec::new(), None);
    Reply { calls, native, finish, directed: Some(directed), ..reply }
}

fn nothing() -> ProviderFault {
    ProviderFault::new(FaultKind::Unusable, "no form of directives can be asked of this model")
}

/// What is kept of a reply that broke off are its words for a person.
fn worded(fault: ProviderFault) -> ProviderFault {
    ProviderFault { partial: words_so_far(&fault.partial), ..fault }
}

/// What has come of a reply whose words are not shown yet.
#[derive(Default)]
struct Coming {
    reply: String,
    /// Bytes of its words for a person that were told.
    told: usize,
}

impl Coming {
    /// The words for a person that a piece adds.
    fn takes(&mut self, piece: &str) -> String {
        // More than this is never kept of a reply that breaks off.
        let room = ANSWER_BYTES_MAX.saturating_sub(self.reply.len());
        if room == 0 {
            return String::new();
        }
        self.reply.push_str(piece.get(..piece.floor_char_boundary(room)).unwrap_or_default());
        let words = words_so_far(&self.reply);
        let new = words.get(self.told..).unwrap_or_default().to_owned();
        self.told = words.len();
        new
    }
}

fn lock(coming: &Mutex<Coming>) -> MutexGuard<'_, Coming> {
    coming.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Words that are not for a person yet are kept and not shown, thoughts and waits are shown.
fn quiet<'a>(tap: Tap<'a>) -> impl Fn(Streamed<'_>) + Send + Sync + 'a {
    let coming = Mutex::new(Coming::default());
    move |streamed| match streamed {
        Streamed::Text(text) | Streamed::Held(text) => {
            let words = lock(&coming).takes(text);
            tap(Streamed::Held(&words));
        }
        Streamed::Again => {
            *lock(&coming) = Coming::default();
            tap(streamed);
        }
        Streamed::Thought(_) | Streamed::Counted(_) | Streamed::Waits { .. } => tap(streamed),
        Streamed::Freed(_) | Streamed::Call { .. } => {}
    }
}

impl Provider for Directing {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn options(&self) -> Digest {
        let instructions = self.directives.instructions(Mode::PromptOnly);
        Digest::link(self.inner.options(), instructions.as_bytes())
    }

    fn turn_ms_max(&self) -> Option<u64> {
        // Each request may take as long as a reply: the one with tools, and those of the ladder.
        let requests = self.directives.requests_max().saturating_add(1);
        self.inner.turn_ms_max().map(|ms| ms.saturating_mul(requests))
    }

    fn rest_ms(&self) -> Option<u64> {
        self.inner.rest_ms()
    }

    fn transforms(&self) -> BTreeMap<String, Vec<String>> {
        self.inner.transforms()
    }

    fn means(&self, schema: &Value) -> Means {
        self.formed.means(schema)
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
