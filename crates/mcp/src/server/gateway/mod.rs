//! Decides what of a session an MCP client sees, and that whatever it calls passes the gate.

mod prompts;
mod resources;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::{PhaseName, SectionName};
use toolgate_kernel::tool::ToolSpec;

use super::clerk::{Clerk, Delivery, View};
use super::line::Line;
use super::refusal::Refused;
use super::served::{Answer, Answering, Cache, Caller, Card, Lists, Request, Served};
use super::user::{Questions, Said, User, UserQuestion, answer_in, can_ask};

/// Entries of one page of a list.
const PAGE_MAX: usize = 200;

/// How long a list may be kept. A client that listens hears of changes sooner.
const LIST: Cache = Cache { ttl_ms: 30_000, public: false };

/// What is read may be another the next moment.
const READ: Cache = Cache { ttl_ms: 0, public: false };

/// One session of toolgate, offered to MCP clients.
pub struct Gateway {
    clerk: Clerk,
    version: String,
    changes: watch::Receiver<u64>,
    /// Whether the users of clients may say what a person must say.
    trusts_users: bool,
    questions: Questions,
    /// Whether nobody waits any more, for tools from outside or for a user.
    stopping: watch::Sender<bool>,
    /// Who is told that nothing is at work any more.
    settled: Arc<Notify>,
}

impl Gateway {
    /// Offers the session that a clerk looks after. The work must be driven by somebody: it tells
    /// those who listen that lists may have changed.
    pub fn new(clerk: Clerk, version: &str) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (moved, changes) = watch::channel(0);
        let mut seen = clerk.watch();
        let work = async move {
            while seen.changed().await.is_ok() {
                seen.borrow_and_update();
                moved.send_modify(|count| *count += 1);
            }
        };
        let (version, questions) = (version.to_owned(), Questions::default());
        let stopping = watch::channel(false).0;
        let settled = Arc::default();
        let trusts_users = false;
        (Self { clerk, version, changes, trusts_users, questions, stopping, settled }, work)
    }

    /// Lets the users of clients say what a person must say, because the operator trusts them.
    #[must_use]
    pub fn trusting_users(self) -> Self {
        Self { trusts_users: true, ..self }
    }

    /// Says at the end when nothing is at work any more, while clients may still read their answers.
    #[must_use]
    pub fn saying_when_settled(self, settled: Arc<Notify>) -> Self {
        Self { settled, ..self }
    }

    /// Name and version.
    pub fn implementation(&self) -> Value {
        json!({ "name": "toolgate", "title": "toolgate", "version": self.version })
    }
}

/// The phase whose tools a caller sees; none means every phase.
fn phase<'a>(view: &'a View, caller: &'a Caller) -> Option<&'a PhaseName> {
    match (&caller.phase, caller.revision.modern()) {
        (Some(own), _) => Some(own),
        // A list of the newest revision must not change as a side effect of calls.
        (None, true) => None,
        (None, false) => view.phase.as_ref(),
    }
}

/// The tools that a caller sees, in declaration order.
fn reach(view: &View, caller: &Caller) -> Vec<Arc<ToolSpec>> {
    match phase(view, caller) {
        None => view.agent.every_for(view.who.as_ref()).to_vec(),
        Some(phase) => {
            let visible = view.agent.visible(phase, view.who.as_ref());
            visible.map(|entry| Arc::clone(&entry.spec)).collect()
        }
    }
}

/// The phase that holds for what a caller reads at this moment, which the session must be in.
fn reading<'a>(view: &'a View, caller: &Caller) -> Option<&'a PhaseName> {
    let now = view.phase.as_ref()?;
    caller.phase.as_ref().is_none_or(|own| own == now).then_some(now)
}

/// Whether a phase grants a tool of a section: only then is the section's state shown.
fn open_section(view: &View, phase: &PhaseName, section: &SectionName) -> bool {
    view.agent.visible(phase, view.who.as_ref()).any(|entry| entry.section == *section)
}

/// One page of a list. A cursor is the number of entries that came before.
fn page(params: &str, name: &str, all: Vec<Value>, cache: Cache) -> Result<Answer, Refused> {
    #[derive(Deserialize)]
    struct Params {
        cursor: Option<String>,
    }
    let params: Params = serde_json::from_str(params)
        .map_err(|_| Refused::params("A cursor is a text that this server gave."))?;
    let skip = match &params.cursor {
        None => 0,
        Some(cursor) => {
            let skip = cursor.parse().ok().filter(|skip| *skip < all.len() && *skip > 0);
            skip.ok_or_else(|| Refused::params("This cursor is not one that this server gave."))?
        }
    };
    let total = all.len();
    let shown: Vec<Value> = all.into_iter().skip(skip).take(PAGE_MAX).collect();
    let next = skip + shown.len();
    let mut result = json!({ name: shown });
    if let Some(result) = result.as_object_mut().filter(|_| next < total) {
        result.insert("nextCursor".to_owned(), next.to_string().into());
    }
    Ok(Answer::kept(&result, cache))
}

impl Served for Gateway {
    fn turn_away(&self) {
        self.clerk.turn_away();
    }

    fn cut_off(&self) {
        self.stopping.send_replace(true);
        self.clerk.cut_off();
    }

    fn at_rest(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.clerk.at_rest())
    }

    fn settled(&self) {
        self.settled.notify_one();
    }

    fn card(&self, caller: &Caller) -> Card {
        let view = self.clerk.view();
        Card {
            server: self.implementation(),
            capabilities: json!({
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "listChanged": true },
            }),
            instructions: prompts::instructions(&view.agent, phase(&view, caller)),
        }
    }

    fn answer<'a>(&'a self, request: Request<'a>, line: &'a Line) -> Answering<'a> {
        Box::pin(async move {
            let Request { method, params, caller, .. } = request;
            let view = || self.clerk.view();
            match method {
                "tools/call" => self.call(params, caller, line).await,
                "tools/list" => {
                    let view = tokio::select! {
                        biased;
                        view = self.ready(caller) => view,
                        // A list without what did not come would be taken for all there is.
                        () = self.stops() => return Err(Refused::stopping()),
                    };
                    // Tools that are still waited for may be there the next moment.
                    let cache = if self.clerk.awaits_tools() { READ } else { LIST };
                    page(params, "tools", tools::list(&view, caller), cache)
                }
                "prompts/list" => {
                    page(params, "prompts", prompts::list(&view().agent, caller), LIST)
                }
                "prompts/get" => prompts::get(&view(), caller, params),
                "resources/list" => {
                    page(params, "resources", resources::list(&self.clerk, caller), LIST)
                }
                "resources/templates/list" => {
                    page(params, "resourceTemplates", resources::templates(), LIST)
                }
                "resources/read" => resources::read(&self.clerk, caller, params),
                _ => Err(Refused::method(method)),
            }
        })
    }

    fn limits(&self) -> Limits {
        self.clerk.view().agent.limits.clone()
    }

    fn has_phase(&self, phase: &PhaseName) -> bool {
        self.clerk.view().agent.phase(phase).is_some()
    }

    fn lists(&self, caller: &Caller) -> Lists {
        let view = self.clerk.view();
        let of = |all: Vec<Value>| Some(Digest::of_json(&Value::Array(all)));
        // Which resources there are depends on the phase; what is in them is not told.
        let open = reading(&view, caller).map(|phase| json!(phase.as_str()));
        // Another phase is always told: what it was left with may not be all that a client saw.
        let mut tools = tools::list(&view, caller);
        tools.extend(phase(&view, caller).map(|phase| json!(phase.as_str())));
        Lists {
            tools: of(tools),
            prompts: of(prompts::list(&view.agent, caller)),
            resources: of(open.into_iter().collect()),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

/// How often a list is made ready anew because the phase moved meanwhile.
const PHASES_MAX: usize = 4;

/// How often a long call shows that it is still at work.
const BEAT: std::time::Duration = std::time::Duration::from_secs(5);

impl Gateway {
    /// The session with the tools from outside, which must be there before they are listed.
    async fn ready(&self, caller: &Caller) -> View {
        let mut before = self.clerk.view();
        for _ in 0..PHASES_MAX {
            let own = phase(&before, caller).cloned();
            let phases = match &own {
                Some(phase) => vec![phase.clone()],
                None => before.agent.phases().map(|phase| phase.name.clone()).collect(),
            };
            let view = self.clerk.view_with(phases).await;
            let now = self.clerk.view();
            if phase(&now, caller) == own.as_ref() {
                return View { phase: now.phase, ..view };
            }
            // The phase moved meanwhile.
            before = now;
        }
        before
    }

    /// Waits until nobody is to wait any more.
    async fn stops(&self) {
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }

    async fn call(&self, params: &str, caller: &Caller, line: &Line) -> Result<Answer, Refused> {
        let params = tools::Params::read(params)?;
        if !line.wants_progress() {
            return self.settle(&params, caller, line, None).await;
        }
        let (beat, mut beats) = mpsc::channel(8);
        let mut call = std::pin::pin!(self.settle(&params, caller, line, Some(beat)));
        let mut alive = tokio::time::interval_at(tokio::time::Instant::now() + BEAT, BEAT);
        loop {
            tokio::select! {
                biased;
                answer = &mut call => return answer,
                Some(()) = beats.recv() => line.beat(""),
                _ = alive.tick() => line.beat("still at work"),
            }
        }
    }

    /// Makes a call. One that came to nothing for want of a person's word is made once more when the
    /// client's user has given it, where the operator trusts that user.
    async fn settle(
        &self,
        params: &tools::Params<'_>,
        caller: &Caller,
        line: &Line,
        beat: Option<mpsc::Sender<()>>,
    ) -> Result<Answer, Refused> {
        let told = |delivery: Delivery| Ok(tools::answer(caller, &params.name, delivery));
        let may_ask = self.trusts_users && can_ask(caller);
        let modern = caller.revision.modern();
        let now = tokio::time::Instant::now();
        let asked = match params.state().filter(|_| may_ask && modern) {
            None => None,
            Some(state) => Some(self.questions.take(&state, caller, now).ok_or_else(closed)?),
        };
        let word = |asked: &UserQuestion| Said::read(asked, answer_in(&params.responses()));
        let user = may_ask.then(|| User::of(&caller.principal, asked.as_ref().and_then(word)));
        let first = self.clerk.call(params.order(caller, user.clone()), beat.clone()).await;
        let wanted = user.and_then(|user| user.asked()).filter(|_| asked.is_none());
        let Some(wanted) = wanted else { return told(first) };
        let agent = self.clerk.view().agent;
        if modern {
            let now = tokio::time::Instant::now();
            let question = self.questions.put(wanted, caller, &agent.limits, now);
            return Ok(Answer { input_required: true, ..Answer::new(question.to_string()) });
        }
        let form = wanted.form(caller.revision);
        let asking = line.ask_within(agent.limits.answer_ms_max, "elicitation/create", &form);
        let brought = tokio::select! {
            biased;
            brought = asking => brought.ok(),
            () = self.stops() => None,
        };
        let Some(said) = brought.and_then(|brought| Said::read(&wanted, &brought)) else {
            return told(first);
        };
        let user = User::of(&caller.principal, Some(said));
        told(self.clerk.call(params.order(caller, Some(user)), beat).await)
    }
}

fn closed() -> Refused {
    Refused::params(
        "The requestState is of no open question: it was answered, its time is over, or it was not \
         given to you. Make the call again without it.",
    )
}
