//! Decides what a trace tells of a session: each request with figures and codes, and no bodies
//! unless they are asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::envelope::{Code, Envelope};
use crate::event::{Asked, Attempt, Event, FaultKind, Finish, NoteKind, RawCall, Record, Usage};
use crate::names::CallId;
use crate::time::Timestamp;

/// Characters of a reply's words that a trace shows when its calls are what counts.
const SAMPLE_CHARS: usize = 200;

/// What is left out of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bodies {
    /// Arguments and results.
    Left,
    /// Nothing.
    Shown,
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// The turn.
    pub turn: u64,
    /// What was asked.
    pub request: Request,
    /// What came back; absent when nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_summary: Option<Response>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// Tries that failed before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The calls of the reply.
    pub tool_calls: Vec<Call>,
    /// What became of them.
    pub tool_results: Vec<Told>,
    /// Milliseconds from the request to the reply.
    pub elapsed_ms: u64,
    #[serde(skip)]
    sent_at: Timestamp,
}

/// A request in figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Request {
    /// The model.
    pub model: String,
    /// Messages in it, the system prompt too.
    pub messages_count: u64,
    /// Tools in it.
    pub tools_count: usize,
    /// Which tool it asks for; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<Value>,
    /// How often it may still be tried again without tools.
    pub request_attempts_left: u64,
    /// Whether tools must be used: relaxed, enforced or disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_mode: Option<String>,
    /// What a failed tool means then: fatal or tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_failure_policy: Option<String>,
    /// The transforms in force, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub transforms: BTreeMap<String, Vec<String>>,
}

/// A reply in figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Response {
    /// Whether it wants calls made.
    pub has_tool_calls: bool,
    /// How many.
    pub tool_calls_count: usize,
    /// How many were answered and not run, because there were too many.
    pub ignored_tool_calls_count: usize,
    /// Why it stopped.
    pub finish_reason: Finish,
    /// What it cost.
    pub usage: Usage,
    /// Bytes of its words.
    pub assistant_content_bytes: usize,
    /// The beginning of its words, when it also made calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_content_sample: Option<String>,
    /// What was mended in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<String>,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// The kind.
    pub fault: FaultKind,
    /// In words.
    pub message: String,
    /// The server's status, where it answered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What it cost, where the provider said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// A call in figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Call {
    /// Its id.
    pub id: CallId,
    /// The tool, as it was named.
    pub name: String,
    /// Bytes of its arguments.
    pub arguments_bytes: usize,
    /// The arguments, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
}

/// A result in figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Told {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Whether it worked.
    pub ok: bool,
    /// What went wrong.
    pub error_codes: Vec<Code>,
    /// Bytes the model was told.
    pub output_bytes: usize,
    /// The result, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Arc<Envelope>>,
}

/// The trace of a session's records.
pub fn trace(records: &[Record<Event>], bodies: Bodies) -> Vec<Entry> {
    let (entries, owners) = (Vec::new(), BTreeMap::new());
    let mut tracing = Tracing { entries, asked: None, toolless: 0, owners, bodies };
    records.iter().for_each(|record| tracing.take(record));
    tracing.entries
}

struct Tracing {
    entries: Vec<Entry>,
    asked: Option<Arc<Asked>>,
    /// Tries without tools in a row, after a request that was turned down.
    toolless: u64,
    /// The entry of each call of a model.
    owners: BTreeMap<CallId, usize>,
    bodies: Bodies,
}

impl Tracing {
    fn take(&mut self, record: &Record<Event>) {
        if let Event::PlanSent { turn, model, tools, messages, asked, .. } = &record.event {
            if asked.is_some() {
                self.asked.clone_from(asked);
            }
            let request = self.request(model, *messages, tools.len());
            self.entries.push(Entry {
                turn: *turn,
                request,
                response_summary: None,
                error: None,
                attempts: Vec::new(),
                tool_calls: Vec::new(),
                tool_results: Vec::new(),
                elapsed_ms: 0,
                sent_at: record.at,
            });
        } else if let Event::CallRefused(refused) = &record.event {
            self.told(refused.call, &refused.envelope);
        } else if let Event::CallSettled(settled) = &record.event {
            self.told(settled.call, &settled.envelope);
        } else if let Event::Forked(forked) = &record.event {
            // How tools are asked for is said again only when it changes.
            self.asked.clone_from(&forked.carried.asked);
        } else {
            self.replied(record);
        }
    }

    fn request(&mut self, model: &str, messages_count: u64, tools_count: usize) -> Request {
        let asked = self.asked.as_deref();
        let again = self.entries.last().is_some_and(|entry| entry.error.is_some());
        self.toolless = if again && tools_count == 0 { self.toolless + 1 } else { 0 };
        let choice = asked.filter(|_| tools_count > 0).map(|asked| {
            let choice = &asked.tool_choice;
            if choice.is_null() { json!("auto") } else { choice.clone() }
        });
        let left = asked.map_or(0, |asked| asked.toolless_retries);
        Request {
            model: model.to_owned(),
            messages_count,
            tools_count,
            tool_choice: choice,
            request_attempts_left: left.saturating_sub(self.toolless),
            tool_use_mode: asked.map(|asked| asked.tool_use_mode.clone()),
            tool_failure_policy: asked.map(|asked| asked.tool_failure_policy.clone()),
            transforms: asked.map(|asked| asked.transforms.clone()).unwrap_or_default(),
        }
    }

    fn replied(&mut self, record: &Record<Event>) {
        let at = self.entries.len().saturating_sub(1);
        let Some(entry) = self.entries.last_mut() else { return };
        if let Event::ModelFailed { reason, fault, attempts, status, usage, .. } = &record.event {
            entry.elapsed_ms = record.at.ms_since(entry.sent_at);
            entry.error = Some(Failure {
                fault: *fault,
                message: reason.clone(),
                status: *status,
                usage: *usage,
            });
            entry.attempts.clone_from(attempts);
        } else if let Event::ModelReplied {
            text, calls, finish, usage, repairs, attempts, ..
        } = &record.event
        {
            entry.elapsed_ms = record.at.ms_since(entry.sent_at);
            entry.attempts.clone_from(attempts);
            let beside = !calls.is_empty() && !text.trim().is_empty();
            entry.response_summary = Some(Response {
                has_tool_calls: !calls.is_empty(),
                tool_calls_count: calls.len(),
                ignored_tool_calls_count: 0,
                finish_reason: *finish,
                usage: *usage,
                assistant_content_bytes: text.len(),
                assistant_content_sample: beside
                    .then(|| text.trim().chars().take(SAMPLE_CHARS).collect()),
                repairs: repairs.clone(),
            });
            let bodies = self.bodies;
            entry.tool_calls = calls.iter().map(|call| Call::of(call, bodies)).collect();
            self.owners.extend(calls.iter().map(|call| (call.id, at)));
        }
    }

    fn told(&mut self, call: CallId, envelope: &Arc<Envelope>) {
        let owner = self.owners.get(&call).and_then(|at| self.entries.get_mut(*at));
        let Some(entry) = owner else { return };
        if envelope.code() == Some(&Code::CALLS_OVER_LIMIT)
            && let Some(response) = &mut entry.response_summary
        {
            response.ignored_tool_calls_count += 1;
        }
        // In the order of the calls, whichever of them was done first.
        let place = entry.tool_results.partition_point(|told| told.id < call);
        entry.tool_results.insert(
            place,
            Told {
                id: call,
                name: envelope.tool.clone(),
                ok: envelope.ok,
                error_codes: envelope.errors.iter().map(|trouble| trouble.code.clone()).collect(),
                output_bytes: envelope.to_json().len(),
                result: (self.bodies == Bodies::Shown).then(|| Arc::clone(envelope)),
            },
        );
    }
}

impl Call {
    fn of(call: &RawCall, bodies: Bodies) -> Self {
        Self {
            id: call.id,
            name: call.name.chars().take(80).collect(),
            arguments_bytes: call.args.len(),
            arguments: (bodies == Bodies::Shown).then(|| call.args.clone()),
        }
    }
}

/// The same as a list of events in the order in which they happened: `llm_request_start`,
/// `llm_request_retry`, `llm_request_error`, `llm_request_end`, `tool_call_start`, `tool_call_end`,
/// `fix_empty_final` and `final`.
pub fn events(records: &[Record<Event>]) -> Vec<Value> {
    let entries = trace(records, Bodies::Left);
    let mut telling = Telling {
        entries: entries.iter().map(|entry| (entry.turn, entry)).collect(),
        open: BTreeMap::new(),
        told: Vec::new(),
        called: false,
        succeeded: false,
    };
    records.iter().for_each(|record| telling.take(record));
    telling.told
}

struct Telling<'a> {
    entries: BTreeMap<u64, &'a Entry>,
    /// Calls that have begun, with when.
    open: BTreeMap<CallId, Timestamp>,
    told: Vec<Value>,
    called: bool,
    succeeded: bool,
}

impl Telling<'_> {
    fn take(&mut self, record: &Record<Event>) {
        match &record.event {
            Event::PlanSent { turn, notes, tools, .. } => {
                if notes.iter().any(|note| note.about == NoteKind::Finish) {
                    self.told.push(json!({ "event": "fix_empty_final", "turn": turn }));
                }
                let request = self.entries.get(turn).map(|entry| &entry.request);
                self.told.push(json!({
                    "event": "llm_request_start", "turn": turn, "tools_enabled": !tools.is_empty(),
                    "request": request,
                }));
            }
            Event::ModelFailed { turn, reason, fault, attempts, status, .. } => {
                retries(*turn, attempts, &mut self.told);
                let elapsed = self.entries.get(turn).map(|entry| entry.elapsed_ms);
                self.told.push(json!({
                    "event": "llm_request_error", "turn": turn, "error_class": fault,
                    "status": status, "message": reason, "elapsed_ms": elapsed,
                }));
            }
            Event::ModelReplied { turn, calls, attempts, .. } => {
                retries(*turn, attempts, &mut self.told);
                let entry = self.entries.get(turn);
                self.told.push(json!({
                    "event": "llm_request_end", "turn": turn,
                    "elapsed_ms": entry.map(|entry| entry.elapsed_ms),
                    "response": entry.and_then(|entry| entry.response_summary.as_ref()),
                    "tool_calls": entry.map(|entry| &entry.tool_calls),
                }));
                calls.iter().for_each(|call| self.began(call, record.at));
            }
            Event::CallRefused(refused) => self.ended(refused.call, record.at, &refused.envelope),
            Event::CallSettled(settled) => self.ended(settled.call, record.at, &settled.envelope),
            Event::Ended { ending, .. } => self.told.push(json!({
                "event": "final", "ending": ending, "any_tool_calls_seen": self.called,
                "any_tool_success_seen": self.succeeded,
            })),
            Event::Opened { .. }
            | Event::ConfigBound { .. }
            | Event::IterationOpened { .. }
            | Event::IterationClosed(_)
            | Event::RequestOpened(_)
            | Event::CallReceived { .. }
            | Event::CallAdmitted(_)
            | Event::CallAsked { .. }
            | Event::CallStarted { .. }
            | Event::FileConflicted { .. }
            | Event::StateChanged { .. }
            | Event::Undone(_)
            | Event::Forked(_)
            | Event::PhaseEntered { .. }
            | Event::ToolsSupplied { .. }
            | Event::LogRestored { .. }
            | Event::Heard { .. } => {}
        }
    }

    fn began(&mut self, call: &RawCall, at: Timestamp) {
        self.called = true;
        self.open.insert(call.id, at);
        self.told.push(json!({
            "event": "tool_call_start", "tool_call_id": call.id,
            "name": call.name.chars().take(80).collect::<String>(),
            "arguments_bytes": call.args.len(), "parse_status": parse_status(&call.args),
        }));
    }

    fn ended(&mut self, call: CallId, at: Timestamp, envelope: &Envelope) {
        // A call of somebody else is no part of the loop.
        let Some(began) = self.open.remove(&call) else { return };
        self.succeeded |= envelope.ok;
        let codes: Vec<&Code> = envelope.errors.iter().map(|trouble| &trouble.code).collect();
        self.told.push(json!({
            "event": "tool_call_end", "tool_call_id": call, "name": envelope.tool,
            "ok": envelope.ok, "elapsed_ms": at.ms_since(began),
            "output_bytes": envelope.to_json().len(),
            "output_replaced": envelope.code() == Some(&Code::TOOL_OUTPUT_TOO_LARGE),
            "error_codes": codes,
        }));
    }
}

fn retries(turn: u64, attempts: &[Attempt], told: &mut Vec<Value>) {
    for attempt in attempts {
        told.push(json!({
            "event": "llm_request_retry", "turn": turn, "error_class": attempt.fault,
            "status": attempt.status, "message": attempt.reason, "waited_ms": attempt.waited_ms,
        }));
    }
}

/// Whether the arguments are one JSON object as they stand.
fn parse_status(args: &str) -> &'static str {
    match serde_json::from_str::<Value>(args) {
        _ if matches!(args.trim(), "" | "null") => "blank",
        Ok(Value::Object(_)) => "ok",
        Ok(_) => "not_object",
        Err(_) => "invalid_json",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Actor;
    use crate::digest::Digest;

    fn record(seq: u64, event: Value) -> Record<Event> {
        let event = serde_json::from_value(event).unwrap();
        let (at, actor) = (Timestamp(0), Actor::System);
        Record { seq, at, actor, epoch: 1, saw: None, event, decision: None }
    }

    #[test]
    fn a_request_that_was_turned_down_says_what_was_asked_and_what_is_left() {
        let asked = json!({"tool_use_mode": "relaxed", "tool_failure_policy": "fatal",
            "tool_choice": "required", "toolless_retries": 2});
        let sent = |turn: u64, tools: &[&str], asked: &Value| {
            json!({"kind": "plan_sent", "turn": turn, "model": "m", "plan": Digest::ZERO,
                "tools": tools, "asked": asked})
        };
        let failed = |turn: u64| {
            json!({"kind": "model_failed", "turn": turn, "reason": "no tools", "fault": "bad_request",
                "status": 400, "usage": {"input_tokens": 7}})
        };
        let records = [
            record(1, sent(1, &["look"], &asked)),
            record(2, failed(1)),
            record(3, sent(2, &[], &Value::Null)),
            record(4, failed(2)),
            record(5, sent(3, &[], &Value::Null)),
        ];
        let entries = trace(&records, Bodies::Left);
        let left: Vec<u64> = entries.iter().map(|e| e.request.request_attempts_left).collect();
        assert_eq!(left, [2, 1, 0]);
        assert_eq!(entries[0].request.tool_choice, Some(json!("required")));
        assert_eq!(entries[1].request.tool_choice, None, "there is nothing to choose from");
        let error = entries[0].error.as_ref().unwrap();
        assert_eq!((error.status, error.usage.unwrap().input_tokens), (Some(400), 7));
        let told = events(&records);
        assert_eq!(told[0]["request"]["tool_choice"], "required");
        assert_eq!(
            (&told[1]["event"], &told[1]["status"]),
            (&json!("llm_request_error"), &json!(400))
        );
    }

    /// T1, T2, T30: what came of the calls is told, in figures, and those beyond a limit are counted.
    #[test]
    fn results_are_told_in_figures_and_ignored_calls_are_counted() {
        let call = |id: &str| json!({"id": id, "name": "look", "args": "{}"});
        let envelope = |ok: bool, code: &str| {
            let trouble = json!([{"code": code, "message": "m"}]);
            json!({"ok": ok, "tool": "look", "message": "m", "data": null,
                "errors": if ok { json!([]) } else { trouble }})
        };
        let refused = |id: &str| {
            json!({"kind": "call_refused", "call": id, "stage": "judge",
                "envelope": envelope(false, "CALLS_OVER_LIMIT")})
        };
        let records = [
            record(
                1,
                json!({"kind": "plan_sent", "turn": 1, "model": "m", "plan": Digest::ZERO,
                "tools": ["look"]}),
            ),
            record(
                2,
                json!({"kind": "model_replied", "turn": 1, "text": "", "finish": "calls",
                "usage": {}, "calls": [call("c1"), call("c2"), call("c3")]}),
            ),
            record(
                3,
                json!({"kind": "call_settled", "call": "c1", "tool": "look",
                "outcome": "done", "args_hash": Digest::ZERO, "envelope": envelope(true, "")}),
            ),
            record(4, refused("c2")),
            record(5, refused("c3")),
        ];
        let entries = trace(&records, Bodies::Left);
        let response = entries[0].response_summary.as_ref().unwrap();
        assert_eq!((response.tool_calls_count, response.ignored_tool_calls_count), (3, 2));
        let results = &entries[0].tool_results;
        let told: Vec<bool> = results.iter().map(|result| result.ok).collect();
        assert_eq!(told, [true, false, false]);
        assert!(results.iter().all(|result| result.output_bytes > 0 && result.result.is_none()));
        let events = events(&records);
        let ended = events.iter().filter(|event| event["event"] == "tool_call_end");
        let ended: Vec<_> =
            ended.map(|event| (&event["ok"], event["output_bytes"].is_u64())).collect();
        assert_eq!(ended[0], (&json!(true), true));
    }
}
