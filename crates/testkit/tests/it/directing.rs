//! Directives as a model's replies carry them.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_kernel::config::DirectivesText;
use toolgate_kernel::directive::{Directives, Means, Mode};
use toolgate_kernel::event::{FaultKind, Finish, Usage};
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::SpecDraft;
use toolgate_runtime::Directing;
use toolgate_runtime::port::{Clock, Desk, Provider, ProviderFault, Reply, ReplyCall, Tap};
use toolgate_testkit::fake::{Fake, Play};
use toolgate_wire::dialect::Dialect;

use crate::provider::{block_on, exchange, spec};

/// A model that answers what it is told to, and remembers how it was asked.
struct Told {
    replies: Mutex<Vec<Result<Reply, ProviderFault>>>,
    asked: Mutex<Vec<(bool, usize)>>,
    plans: Mutex<Vec<Plan>>,
}

impl Provider for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn means(&self, _: &Value) -> Means {
        Means { json_schema: true, json_object: true }
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _: &'a mut Desk,
        _: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        self.asked.lock().unwrap().push((plan.shape.is_some(), plan.tools.len()));
        self.plans.lock().unwrap().push(plan.clone());
        Box::pin(std::future::ready(self.replies.lock().unwrap().remove(0)))
    }
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

fn said(text: &str) -> Result<Reply, ProviderFault> {
    let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
    Ok(Reply::new(text, Vec::new(), Finish::Stop, usage))
}

fn called() -> Result<Reply, ProviderFault> {
    let call = ReplyCall { alias: None, name: "look".to_owned(), args: "{}".to_owned() };
    Ok(Reply::new("", vec![call], Finish::Calls, Usage::default()))
}

const GOOD: &str = r#"{"assistant_text": "Here.", "directives": [
    {"type": "UI-Toast", "payload": {"text": "hi"}}, {"type": "nobody", "payload": {}},
    {"type": "change", "payload": {"ops": [{"path": "/draft/a", "value": 1}]}}]}"#;

fn directives() -> Directives {
    let types = json!({"types": {"ui.toast": {}, "change": {"patch": true}}});
    let text: DirectivesText = serde_json::from_value(types).unwrap();
    text.build().unwrap()
}

type Came = (Result<Reply, ProviderFault>, Vec<(bool, usize)>);

async fn ask(tools: bool, replies: Vec<Result<Reply, ProviderFault>>) -> Came {
    ask_with(if tools { "look" } else { "" }, replies).await
}

/// Asks with one tool, or with none where it has no name.
async fn ask_with(tool: &str, replies: Vec<Result<Reply, ProviderFault>>) -> Came {
    let told = told(replies);
    let tool = SpecDraft::new(tool, "Does.").build().map(Arc::new);
    let plan = Plan::alone("s", "i", tool.into_iter().collect());
    let reply = direct(told.clone(), &plan).await;
    let asked = told.asked.lock().unwrap().clone();
    (reply, asked)
}

fn told(replies: Vec<Result<Reply, ProviderFault>>) -> Arc<Told> {
    let (asked, plans) = (Mutex::default(), Mutex::default());
    Arc::new(Told { replies: Mutex::new(replies), asked, plans })
}

async fn direct(model: Arc<dyn Provider>, plan: &Plan) -> Result<Reply, ProviderFault> {
    let directing = Directing::new(model.clone(), model, directives(), Arc::new(Noon));
    directing.reply(plan, &mut Desk::default(), &|_| {}).await
}

/// A repair speaks of an answer, so the answer is there; and no two requests are the same, even
/// where the model repeats itself.
#[tokio::test]
async fn what_could_not_be_used_stands_before_what_is_wrong_with_it() {
    let replies = || vec![said("no"), said("no"), called(), said(" "), said("no"), said(GOOD)];
    let told = told(replies());
    let mut plan = Plan::alone("s", "i", Vec::new());
    plan.feedback = vec!["Show it.".into()];
    direct(told.clone(), &plan).await.unwrap();
    let plans = told.plans.lock().unwrap();
    let words = |plan: &Plan| {
        let turn = |turn: &Turn| format!("{} > {}", turn.notes.iter().count(), turn.text);
        let turns: Vec<String> = plan.turns.iter().map(|one| turn(one)).collect();
        format!("{} | {} {}", turns.join(", "), plan.feedback.len(), plan.notes.len())
    };
    let seen: Vec<String> = plans.iter().map(words).collect();
    let wanted = [
        " | 1 0",
        "1 > no | 0 1",
        "1 > no, 1 > no | 0 1",
        // Neither a call without a result nor a blank answer is shown again.
        "1 > no, 1 > no | 0 2",
        "1 > no, 1 > no | 0 3",
        "1 > no, 1 > no, 3 > no | 0 1",
    ];
    assert_eq!(seen, wanted);
    let prints: std::collections::BTreeSet<_> = plans.iter().map(|plan| plan.fingerprint).collect();
    assert_eq!(prints.len(), plans.len());
}

/// A dialect that cannot hold the words to this form does not claim to: it is asked in words.
#[test]
fn a_mode_of_which_nothing_would_be_sent_is_left_out() {
    block_on(async {
        for (dialect, mode) in [
            (Dialect::Anthropic, Mode::PromptOnly),
            (Dialect::Gemini, Mode::JsonSchema),
            (Dialect::Responses, Mode::JsonSchema),
            (Dialect::Chat, Mode::JsonSchema),
        ] {
            let replies = json!({"replies": [{"text": GOOD}]});
            let script = serde_json::from_value(replies).unwrap();
            let fake = Fake::start(Play { script, ..Play::default() }).await.unwrap();
            let mut spec = spec(dialect, &fake, false);
            spec.options.capabilities.json_schema = true;
            let model = Arc::new(exchange().model(&spec).unwrap());
            let reply = direct(model, &Plan::alone("s", "i", Vec::new())).await.unwrap();
            let directed = reply.directed.unwrap();
            assert_eq!(directed.mode, Some(mode), "{dialect:?}");
            let left_out = directed.tried.iter().filter_map(|tried| tried.code.as_deref());
            assert!(left_out.clone().all(|code| code == "CAPABILITY_UNSUPPORTED"));
            let sent = fake.seen()[0].body.to_string();
            let named = sent.contains("json_schema") || sent.contains("responseJsonSchema");
            assert_eq!(
                (named, left_out.count()),
                match mode {
                    Mode::PromptOnly => (false, 2),
                    Mode::JsonSchema | Mode::JsonObject => (true, 0),
                },
                "{dialect:?}: {sent}"
            );
        }
    });
}

#[tokio::test]
async fn directives_are_read_and_changes_become_calls() {
    let (reply, asked) = ask(false, vec![said(GOOD)]).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), asked.as_slice()), ("Here.", [(true, 0)].as_slice()));
    let directed = reply.directed.unwrap();
    assert_eq!((directed.ok, directed.mode), (true, Some(Mode::JsonSchema)));
    let kinds: Vec<&str> = directed.directives.iter().map(|d| d.kind.as_str()).collect();
    assert_eq!(kinds, ["ui.toast", "change"]);
    let codes: Vec<&str> = directed.warnings.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["UNKNOWN_DIRECTIVE_TYPE", "PATCH_NOT_AVAILABLE"]);
    assert_eq!(reply.calls.len(), 0, "what is not shown is not called");
    let (reply, _) = ask_with("state_patch", vec![said(GOOD)]).await;
    let reply = reply.unwrap();
    assert_eq!(reply.calls[0].name, "state_patch", "state is reached through the gate");
    assert_eq!(reply.directed.unwrap().warnings.len(), 1);
}

/// Each request that was sent is known by its fingerprint; one that was left out has none.
#[tokio::test]
async fn every_request_of_the_ladder_has_a_fingerprint_of_its_own() {
    let refused = || Err(ProviderFault::new(FaultKind::BadRequest, "no response_format"));
    let (reply, asked) = ask(false, vec![refused(), said("words"), said(GOOD)]).await;
    let tried = reply.unwrap().directed.unwrap().tried;
    let plans: std::collections::BTreeSet<_> = tried.iter().map(|one| one.plan.unwrap()).collect();
    assert_eq!((plans.len(), asked.len()), (3, 3));
}

#[tokio::test]
async fn tools_come_first_and_a_last_word_that_cannot_be_read_is_asked_for_again() {
    let (reply, asked) = ask(true, vec![called()]).await;
    assert_eq!((reply.unwrap().calls.len(), asked), (1, vec![(false, 1)]));
    let (reply, asked) = ask(true, vec![said("plain words"), said(GOOD)]).await;
    let reply = reply.unwrap();
    assert_eq!(asked, [(false, 1), (true, 0)]);
    assert_eq!(reply.usage.input_tokens, 20, "both were paid for");
    assert_eq!(reply.last_usage.unwrap().input_tokens, 10, "and one is the size of the context");
}

#[tokio::test]
async fn what_never_can_be_read_is_words_and_calls_nothing() {
    let refused = || Err(ProviderFault::new(FaultKind::BadRequest, "no response_format"));
    let replies = vec![refused(), called(), called(), said("words"), said("only words")];
    let (reply, asked) = ask(false, replies).await;
    let reply = reply.unwrap();
    assert_eq!(asked.len(), 5);
    assert_eq!((reply.text.as_str(), reply.calls.len()), ("only words", 0));
    let directed = reply.directed.unwrap();
    let codes: Vec<_> = directed.tried.iter().filter_map(|tried| tried.code.as_deref()).collect();
    let called = "TOOL_CALLS_PRESENT";
    assert_eq!(codes, ["HTTP_ERROR", called, called, "INVALID_JSON", "INVALID_JSON"]);
    assert!(!directed.ok && directed.tried[0].structured_output_unsupported);
    let (none, _) = ask(false, vec![refused(), refused(), refused()]).await;
    assert_eq!(none.unwrap_err().kind, FaultKind::BadRequest);
}

/// A fault with what it cost, as a provider tells of it.
fn fault(kind: FaultKind) -> Result<Reply, ProviderFault> {
    let usage = Usage { input_tokens: 100, ..Usage::default() };
    let failed = ProviderFault { usage: Some(usage), ..ProviderFault::new(kind, "no") };
    Err(ProviderFault { attempts: vec![failed.attempt()], ..failed })
}

#[tokio::test]
async fn no_form_is_asked_for_where_none_can_help() {
    let kinds = [FaultKind::Unauthorized, FaultKind::Billing, FaultKind::Unreachable];
    for kind in kinds {
        let (reply, asked) = ask(false, vec![fault(kind), said(GOOD)]).await;
        assert_eq!((reply.unwrap_err().kind, asked.len()), (kind, 1));
    }
    // What was said before stays, and is not taken for directives.
    let (reply, asked) = ask(true, vec![said("words"), fault(FaultKind::Unauthorized)]).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), asked.len()), ("words", 2));
    assert_eq!(reply.directed.unwrap().tried.len(), 1);
}

#[tokio::test]
async fn every_step_is_in_the_reply_with_what_it_cost() {
    use FaultKind::{BadRequest, Overloaded};
    let mended = |text: &str| {
        let reply = said(text).unwrap();
        let attempts = vec![ProviderFault::new(FaultKind::Overloaded, "busy").attempt()];
        Ok(Reply { attempts, repairs: vec![format!("mended {text}")], ..reply })
    };
    let replies = vec![mended("plain words"), fault(FaultKind::BadRequest), mended(GOOD)];
    let reply = ask(true, replies).await.0.unwrap();
    let faults: Vec<FaultKind> = reply.attempts.iter().map(|attempt| attempt.fault).collect();
    assert_eq!(faults, [Overloaded, BadRequest, BadRequest, Overloaded]);
    assert_eq!(reply.repairs.len(), 2);
    let discarded = Usage::discarded(&reply.attempts, None);
    assert_eq!((reply.usage.input_tokens, discarded.input_tokens), (20, 200));
    let all = vec![fault(BadRequest), fault(BadRequest), fault(BadRequest)];
    let failed = ask(false, all).await.0.unwrap_err();
    assert_eq!((failed.attempts.len(), failed.usage.unwrap().input_tokens), (5, 100));
}

#[tokio::test]
async fn what_was_declined_or_cut_stays_so() {
    let ended = |finish| Ok(Reply { finish, ..said("No.").unwrap() });
    let (reply, asked) = ask(false, vec![ended(Finish::Refused), said(GOOD)]).await;
    assert_eq!((reply.unwrap().finish, asked.len()), (Finish::Refused, 1));
    let cut = (0..6).map(|_| ended(Finish::Length)).collect();
    assert_eq!(ask(false, cut).await.0.unwrap().finish, Finish::Length);
}
