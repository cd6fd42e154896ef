//! What the tests of models share: a fake provider, a model that asks it, and a plan to ask with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use toolgate_http::{Patience, Roots};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::plan::{Choice, Plan};
use toolgate_kernel::render::ResultFormat;
use toolgate_kernel::tool::SpecDraft;
use toolgate_runtime::port::{Desk, Provider, ProviderFault, Reply, Streamed};
use toolgate_testkit::clock::FakeClock;
use toolgate_testkit::fake::{Fake, Fault, Play, Seen};
use toolgate_wire::dialect::Dialect;
use toolgate_wire::model::{Exchange, Model, ModelSpec};
use toolgate_wire::script::ScriptText;
use toolgate_wire::{BreakerRules, Retries};

/// The key of every model here. It must come out nowhere.
pub(crate) const KEY: &str = "sk-CANARY-0123456789";

/// Where a dialect is under the fake's address.
pub(crate) fn prefix(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat | Dialect::Responses | Dialect::Anthropic => "/v1",
        Dialect::Gemini => "/v1beta",
    }
}

pub(crate) fn exchange() -> Exchange {
    exchange_with(BreakerRules::default())
}

pub(crate) fn exchange_with(rules: BreakerRules) -> Exchange {
    Exchange::new(Roots::default(), Arc::new(FakeClock::default()), 7, rules)
}

/// A model whose patience is short and whose waits are shorter.
pub(crate) fn spec(dialect: Dialect, fake: &Fake, stream: bool) -> ModelSpec {
    let base_url = fake.base_url("");
    let mut spec = ModelSpec::new("fake:model", dialect, &base_url, "model");
    spec.api_prefix = Some(prefix(dialect).to_owned());
    spec.key = Some(Hidden::new(KEY));
    spec.options.stream = stream;
    spec.options.output_tokens_max = Some(1_000);
    spec.retries = Retries { backoff_ms: 1, backoff_ms_max: 2, ..Retries::default() };
    spec
}

/// The patience of those who are made to wait for nothing.
pub(crate) fn impatient() -> Patience {
    Patience {
        first_byte_ms_max: Some(40),
        idle_ms_max: Some(40),
        request_ms_max: Some(120),
        ..Patience::default()
    }
}

/// Two calls of a tool that is there, then the last words.
pub(crate) fn script() -> ScriptText {
    let call = |path: &str| json!({"tool": "read", "args": {"path": path}});
    let replies = json!({"replies": [
        {"text": "Let me look at both.", "calls": [call("a.md"), call("b.md")]},
        {"text": "Done."},
    ]});
    serde_json::from_value(replies).unwrap()
}

pub(crate) fn play(faults: Vec<Fault>) -> Play {
    Play { script: script(), faults, key: Some(KEY.to_owned()), ..Play::default() }
}

/// The first request of a session that has one tool.
pub(crate) fn plan() -> Plan {
    let schema = json!({"type": "object", "required": ["path"],
                        "properties": {"path": {"type": "string"}}});
    let tool = SpecDraft::new("read", "Reads a file.").params_schema(schema).build().unwrap();
    let tools = vec![Arc::new(tool)];
    Plan {
        turn: 1,
        iteration: 1,
        title: "t".into(),
        system: "Be brief.".into(),
        input: "Begin.".into(),
        images: Default::default(),
        turns: Default::default(),
        feedback: Vec::new(),
        feedback_images: Vec::new(),
        notes: Vec::new(),
        every: tools.clone().into(),
        tools,
        choice: Choice::Auto,
        result_format: ResultFormat::Text,
        shape: None,
        pictures: Default::default(),
        tokens_estimated: 0,
        fingerprint: Digest::ZERO,
    }
}

/// What came of one request.
pub(crate) struct Came {
    pub(crate) reply: Result<Reply, ProviderFault>,
    /// What was streamed: words, and `!` for each time it was void.
    pub(crate) streamed: String,
    pub(crate) seen: Vec<Seen>,
}

impl Came {
    /// Everything that anybody may see of it.
    pub(crate) fn told(&self) -> String {
        format!("{:?} {}", self.reply, self.streamed)
    }
}

pub(crate) async fn ask(model: &Model, fake: &Fake) -> Came {
    let came = asked(model, &plan(), &mut Desk::default()).await;
    Came { seen: fake.seen(), ..came }
}

/// The same for those who do not look at what was sent.
pub(crate) async fn asked(model: &Model, plan: &Plan, desk: &mut Desk) -> Came {
    let streamed = Mutex::new(String::new());
    let tap = |piece: Streamed<'_>| {
        let mut streamed = streamed.lock().unwrap();
        match piece {
            Streamed::Text(words) | Streamed::Freed(words) => streamed.push_str(words),
            Streamed::Held(_)
            | Streamed::Thought(_)
            | Streamed::Call { .. }
            | Streamed::Counted(_)
            | Streamed::Waits { .. } => {}
            Streamed::Again => streamed.push('!'),
        }
    };
    // A test that hangs is a test that fails.
    let replying = model.reply(plan, desk, &tap);
    let reply = tokio::time::timeout(Duration::from_secs(30), replying).await.unwrap();
    Came { reply, streamed: streamed.into_inner().unwrap(), seen: Vec::new() }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}
