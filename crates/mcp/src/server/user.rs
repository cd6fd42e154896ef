//! Decides how the user of a client is asked about a call, where the operator trusts that user: what
//! is shown, what counts as a yes, and that a word holds for one call and for nothing else.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::Answer;
use toolgate_kernel::letters::{is_blank, is_hidden};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::{CallId, PolicyName, ToolName};
use toolgate_runtime::port::{Person, Question, Response};

use super::revision::Revision;
use super::served::{Caller, Principal};

/// Bytes of what is shown. Whatever is longer is not asked about: nobody can approve unseen.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// The one question of a request, and the one field of its form.
const KEY: &str = "approval";
const FIELD: &str = "run";

/// What exactly was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Matter {
    tool: ToolName,
    args: Digest,
    policy: PolicyName,
    /// The reasons of all policies that asked. With another one it is another question.
    reason: String,
}

impl Matter {
    fn of(question: &Question) -> Self {
        let args = Digest::of_json(&Value::Object(question.args.clone()));
        let (tool, policy) = (question.tool.clone(), question.policy.clone());
        Self { tool, args, policy, reason: question.reason.clone() }
    }
}

/// A question that a user must answer before the call can be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserQuestion {
    about: Matter,
    words: String,
}

impl UserQuestion {
    fn of(question: &Question) -> Option<Self> {
        let args = serde_json::to_string_pretty(&question.args).ok()?;
        let words = format!(
            "toolgate wants your word ({}: {}). This would run, and nothing else:\n{}\n{}",
            question.policy,
            plain(&question.reason),
            question.tool,
            plain(&args),
        );
        let about = Matter::of(question);
        (words.len() <= SHOWN_BYTES_MAX).then_some(Self { about, words })
    }

    /// The params of `elicitation/create`, as a revision has them.
    pub(crate) fn form(&self, revision: Revision) -> Value {
        let field = json!({
            "type": "boolean", "title": "Run it", "default": false,
            "description": "Only yes lets it run, this once.",
        });
        let schema =
            json!({ "type": "object", "properties": { FIELD: field }, "required": [FIELD] });
        let mut form = json!({ "message": self.words, "requestedSchema": schema });
        if let Some(form) = form.as_object_mut().filter(|_| revision >= Revision::V2025_11_25) {
            form.insert("mode".to_owned(), "form".into());
        }
        form
    }
}

/// A user's word about one matter.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    about: Matter,
    answer: Answer,
}

impl Said {
    /// What a client brings back. An answer that is neither a yes nor a no is none.
    pub(crate) fn read(asked: &UserQuestion, told: &Value) -> Option<Self> {
        let ticked = || told.get("content")?.get(FIELD)?.as_bool();
        let answer = match (told.get("action")?.as_str()?, ticked()) {
            ("accept", Some(true)) => Answer::Approve,
            ("accept", Some(false)) | ("decline", _) => Answer::Deny,
            _ => return None,
        };
        Some(Self { about: asked.about.clone(), answer })
    }
}

/// The user of a client during one call: what was said before it, and what must be asked after it.
#[derive(Debug, Clone)]
pub struct User(Arc<Mutex<Interview>>);

#[derive(Debug)]
struct Interview {
    who: Actor,
    said: Option<Said>,
    asked: Option<UserQuestion>,
}

impl User {
    /// The user of a client, who may have said something already.
    pub(crate) fn of(principal: &Principal, said: Option<Said>) -> Self {
        let who = Actor::ClientUser(Arc::clone(&principal.name));
        Self(Arc::new(Mutex::new(Interview { who, said, asked: None })))
    }

    /// What the user must be asked, if the call came to nothing for want of it.
    pub(crate) fn asked(&self) -> Option<UserQuestion> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked.take()
    }

    /// What the user said before the call. No delegation covers a rule that wants a person's own key, or
    /// an approval of each call.
    fn answer(&self, question: &Question) -> Option<Response> {
        if !question.requires.is_default() {
            return None;
        }
        let mut interview = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match interview.said.take() {
            Some(said) if said.about == Matter::of(question) => {
                Some(Response::of(interview.who.clone(), said.answer))
            }
            // It is about something else, and nobody is asked twice for one request.
            Some(_) => None,
            None => {
                interview.asked = UserQuestion::of(question);
                None
            }
        }
    }
}

/// The users behind the calls that run now.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<BTreeMap<CallId, User>>);

impl Users {
    pub(crate) fn seat(&self, call: CallId, user: &User) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call, user.clone());
    }

    pub(crate) fn leave(&self, call: CallId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Person for Users {
    /// Says at once what the user said before the call. Nobody waits here for anybody.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        let users = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(ready(users.get(&question.call).and_then(|user| user.answer(question))))
    }
}

/// Whether a client can put a form before its user.
pub(crate) fn can_ask(caller: &Caller) -> bool {
    let declared = caller.capabilities.get("elicitation").and_then(Value::as_object);
    let forms = declared.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
    caller.revision >= Revision::V2025_06_18 && forms
}

/// Questions that clients of the newest revision were given to answer with their next request.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    asked: UserQuestion,
    principal: Arc<Principal>,
    state: String,
    until: Instant,
}

impl Questions {
    /// Keeps a question for its answer, and writes it as a result that is none yet.
    pub(crate) fn put(
        &self,
        asked: UserQuestion,
        caller: &Caller,
        limits: &Limits,
        now: Instant,
    ) -> Value {
        let until = toolgate_http::after(now, limits.answer_ms_max);
        let open_max = usize::try_from(limits.mcp_questions_max).unwrap_or(usize::MAX);
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The oldest ones make room.
        while waiting.open.len() >= open_max {
            waiting.open.pop_first();
        }
        waiting.next += 1;
        let number = waiting.next;
        // What was shown is part of it, so that no other question ever has the same.
        let state = format!("{number}.{}", Digest::of(asked.words.as_bytes()));
        let form = json!({ "method": "elicitation/create", "params": asked.form(caller.revision) });
        let principal = Arc::clone(&caller.principal);
        let told = json!({ "inputRequests": { KEY: form }, "requestState": state });
        waiting.open.insert(number, Open { asked, principal, state, until });
        told
    }

    /// The question that a client was given, once, and while there is time.
    pub(crate) fn take(&self, state: &str, caller: &Caller, now: Instant) -> Option<UserQuestion> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = state.split_once('.')?.0.parse().ok()?;
        let own = |open: &Open| open.state == state && *open.principal == *caller.principal;
        waiting.open.get(&number).filter(|open| own(open))?;
        let open = waiting.open.remove(&number)?;
        (now < open.until).then_some(open.asked)
    }
}

/// The answer to the one question, among those that a client brings.
pub(crate) fn answer_in(responses: &Map<String, Value>) -> &Value {
    responses.get(KEY).unwrap_or(&Value::Null)
}

/// A text in which nothing is hidden: what cannot be seen is written as its number.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let control = c.is_control() && c != '\n';
        if control || is_hidden(c) || is_blank(c) {
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}
