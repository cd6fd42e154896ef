//! Who waits for whom while something takes its time: a person, a review, a slow read, a log that
//! cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::event::{Answer, CallSettled, Event, Record, StreamId};
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::{Family, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_mcp::server::{Clerk, Order};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{
    Output, Pause, Person, Question, Response, Store, StoreFault, Tool, Word,
};
use toolgate_runtime::{MemoryStore, Nothing, Pack, Signer, Transaction, tool, waiting_tool};
use toolgate_testkit::bent::{Bend, Bent};
use toolgate_testkit::signer::TestSigner;

use crate::stage::{clerk_of, session};

const AGENT: &str = r#"{
    "phases": { "A": {} },
    "policies": [{ "rule": { "tools": ["asked", "asked_put"], "ask": "true", "message": "A person must see this." } }]
}"#;

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
}

fn touches(
    access: Access,
) -> impl Fn(&Document) -> Result<Vec<(Access, Key)>, KeyRefusal> + Send + Sync + 'static {
    move |args| Ok(vec![(access, Key::parse(&format!("thing:{}", args.text("name").unwrap()))?)])
}

/// Tools that look at things and change them: at once, or when they are let go.
fn pack(gate: &Arc<Notify>) -> Pack {
    let key = |name: &str| Key::parse(&format!("thing:{name}")).unwrap();
    let see = move |tx: &mut Transaction, args: Named| {
        let found = tx.get(&key(&args.name))?;
        Ok(Output::message(found.map_or("nothing".to_owned(), |slot| slot.value().to_string())))
    };
    let put = move |tx: &mut Transaction, args: Named| {
        tx.put(&key(&args.name), &json!("put"))?;
        Ok(Output::message("put"))
    };
    let draft = |name: &str| SpecDraft::new(name, "Does what its name says.");
    let done = |_: &mut Transaction, _: Nothing| Ok(Output::message("done"));
    let slow_see = Arc::clone(gate);
    let slow_put = Arc::clone(gate);
    let slow = Arc::clone(gate);
    let tools: Vec<Arc<dyn Tool>> = vec![
        tool(draft("see").touches(touches(Access::Read)), see).unwrap(),
        tool(draft("put").effect(Effect::Staged).touches(touches(Access::Write)), put).unwrap(),
        tool(draft("look"), done).unwrap(),
        tool(draft("reach").effect(Effect::External), done).unwrap(),
        tool(draft("asked").effect(Effect::External), done).unwrap(),
        tool(draft("asked_put").effect(Effect::Staged).touches(touches(Access::Write)), put)
            .unwrap(),
        waiting_tool(draft("slow_see").touches(touches(Access::Read)), move |tx, args: Named| {
            let gate = Arc::clone(&slow_see);
            Box::pin(async move {
                gate.notified().await;
                see(tx, args)
            })
        })
        .unwrap(),
        waiting_tool(
            draft("slow_put").effect(Effect::Staged).touches(touches(Access::Write)),
            move |tx, args: Named| {
                let gate = Arc::clone(&slow_put);
                Box::pin(async move {
                    gate.notified().await;
                    put(tx, args)
                })
            },
        )
        .unwrap(),
        waiting_tool(draft("slow_reach").effect(Effect::External), move |_, _: Nothing| {
            let gate = Arc::clone(&slow);
            Box::pin(async move {
                gate.notified().await;
                Ok(Output::message("at last"))
            })
        })
        .unwrap(),
    ];
    let mut section = Section::new(SectionName::parse("tools").unwrap());
    section.families = vec![FamilySpec::new(Family::parse("thing").unwrap(), Home::Session)];
    Pack::new(section, tools)
}

struct Scene {
    clerk: Clerk,
    gate: Arc<Notify>,
}

impl Scene {
    async fn new(store: Arc<dyn Store>, person: Option<Arc<dyn Person>>) -> Self {
        let gate = Arc::new(Notify::new());
        let text = serde_json::from_str(AGENT).unwrap();
        let clerk = clerk_of(store, text, pack(&gate), person).await;
        Self { clerk, gate }
    }

    /// A call by a client of its own; it has begun, or waits, when this returns.
    async fn begin(&self, tool: &str, name: &str) -> JoinHandle<Value> {
        let args = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
        let order = Order {
            actor: Actor::Client(format!("{tool}-{name}").into()),
            name: tool.to_owned(),
            args: args.to_string(),
            alias: None,
            phase: None,
            user: None,
        };
        let clerk = self.clerk.clone();
        let call = tokio::spawn(async move {
            let delivery = clerk.call(order, None).await;
            serde_json::to_value(delivery.answered.envelope.as_ref()).unwrap()
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        call
    }

    /// A call that nobody is in the way of.
    async fn at_once(&self, tool: &str, name: &str) -> Value {
        ended(self.begin(tool, name).await, &format!("{tool} {name}")).await
    }
}

async fn ended(call: JoinHandle<Value>, what: &str) -> Value {
    let came = tokio::time::timeout(Duration::from_secs(5), call).await;
    came.unwrap_or_else(|_| panic!("{what} is not answered")).unwrap()
}

/// A person who takes as long as the test wants.
#[derive(Default)]
struct Slow {
    asked: AtomicUsize,
    answers: Notify,
    always: bool,
}

impl Person for Slow {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Option<Response>> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.answers.notified().await;
            let yes = Response::of(Actor::Human("ada".into()), Answer::Approve);
            let signer: Arc<dyn Signer> = TestSigner::new("ada").unwrap();
            let terms = AllowanceTerms::default_from(Timestamp(0));
            let allow = self.always.then_some(terms);
            Some(Response { signer: Some(signer), allow, ..yes })
        })
    }

    fn go_on<'a>(&'a self, _: &'a Pause) -> BoxFuture<'a, Option<Word>> {
        Box::pin(async { None })
    }
}

/// Whoever ended while a person thinks is answered, and whoever comes meanwhile too.
#[tokio::test]
async fn nobody_else_waits_for_the_person_who_is_asked() {
    let person = Arc::new(Slow::default());
    let scene =
        Scene::new(Arc::new(MemoryStore::new()), Some(Arc::clone(&person) as Arc<dyn Person>))
            .await;
    let before = scene.begin("slow_reach", "").await;
    let asked = scene.begin("asked", "").await;
    assert_eq!(person.asked.load(Ordering::SeqCst), 1);
    let next = scene.begin("asked", "").await;
    scene.gate.notify_one();
    assert_eq!(ended(before, "what was at work").await["ok"], true);
    assert_eq!(scene.at_once("look", "").await["ok"], true);
    assert_eq!(scene.at_once("put", "a").await["ok"], true);
    assert!(!asked.is_finished() && !next.is_finished());
    // One question after the other.
    person.answers.notify_one();
    assert_eq!(ended(asked, "what a person said yes to").await["ok"], true);
    person.answers.notify_one();
    assert_eq!(ended(next, "the next question").await["ok"], true);
    assert!(scene.clerk.look().0.open.is_empty());
}

/// A yes for the whole session answers the questions that wait behind it.
#[tokio::test]
async fn after_always_nobody_is_asked_about_those_who_wait() {
    let person = Arc::new(Slow { always: true, ..Slow::default() });
    let scene =
        Scene::new(Arc::new(MemoryStore::new()), Some(Arc::clone(&person) as Arc<dyn Person>))
            .await;
    let mut calls = Vec::new();
    for name in ["a", "b", "c"] {
        calls.push(scene.begin("asked_put", name).await);
    }
    let other = scene.begin("asked", "").await;
    assert_eq!(person.asked.load(Ordering::SeqCst), 1);
    person.answers.notify_one();
    for call in calls {
        assert_eq!(ended(call, "what a person said yes to").await["ok"], true);
    }
    // Another tool is another question.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!other.is_finished());
    assert_eq!(person.asked.load(Ordering::SeqCst), 2);
    person.answers.notify_one();
    assert_eq!(ended(other, "the other tool").await["ok"], true);
    assert!(scene.clerk.look().0.open.is_empty());
}

/// At the end nobody waits for a person, and nobody is asked any more.
#[tokio::test]
async fn whoever_waits_for_a_person_is_answered_at_the_end() {
    let person = Arc::new(Slow::default());
    let scene =
        Scene::new(Arc::new(MemoryStore::new()), Some(Arc::clone(&person) as Arc<dyn Person>))
            .await;
    let calls = [scene.begin("asked_put", "a").await, scene.begin("asked_put", "b").await];
    scene.clerk.cut_off();
    for call in calls {
        let told = ended(call, "who waited for a person").await;
        assert_eq!(told["errors"][0]["code"], "APPROVAL_PENDING", "{told}");
    }
    assert_eq!(person.asked.load(Ordering::SeqCst), 1);
    assert!(scene.clerk.look().0.open.is_empty());
}

/// A change that takes a while, such as one that another model looks at first, holds up what has
/// something to do with it, and nobody else.
#[tokio::test]
async fn a_change_that_takes_a_while_holds_up_what_could_conflict() {
    let scene = Scene::new(Arc::new(MemoryStore::new()), None).await;
    let change = scene.begin("slow_put", "a").await;
    let like = scene.begin("slow_put", "a").await;
    let seen = scene.begin("see", "a").await;
    let other = scene.begin("put", "a").await;
    for (tool, name) in [("look", ""), ("reach", ""), ("see", "b"), ("put", "b"), ("see", "b")] {
        assert_eq!(scene.at_once(tool, name).await["ok"], true, "{tool} {name}");
    }
    for waiting in [&change, &like, &seen, &other] {
        assert!(!waiting.is_finished());
    }
    scene.gate.notify_one();
    assert_eq!(ended(change, "the change").await["ok"], true);
    scene.gate.notify_one();
    assert_eq!(ended(like, "the next change").await["ok"], true);
    let seen = ended(seen, "who wants to see it").await;
    assert_eq!(seen["message"], "\"put\"", "it is seen as it is now: {seen}");
    assert_eq!(ended(other, "who changes the same").await["ok"], true);
}

async fn settlements(store: &MemoryStore) -> Vec<CallSettled> {
    let (mut settled, stream) = (Vec::new(), StreamId::Session(session()));
    let each = |record: Record<Event>, _: &_| {
        if let Event::CallSettled(one) = record.event {
            settled.push(one);
        }
    };
    read_from(store, &stream, Tip::START, each).await.unwrap();
    settled
}

/// What was changed beside a slow read was not read in the form it has now.
#[tokio::test]
async fn a_slow_read_of_what_was_changed_meanwhile_counts_for_nothing() {
    let store = Arc::new(MemoryStore::new());
    let scene = Scene::new(Arc::clone(&store) as Arc<dyn Store>, None).await;
    let stale = scene.begin("slow_see", "a").await;
    let fresh = scene.begin("slow_see", "b").await;
    assert_eq!(scene.at_once("put", "a").await["ok"], true);
    scene.gate.notify_one();
    scene.gate.notify_one();
    tokio::time::sleep(Duration::from_millis(50)).await;
    scene.gate.notify_one();
    assert_eq!(ended(stale, "the first read").await["message"], "nothing");
    assert_eq!(ended(fresh, "the second read").await["message"], "nothing");
    let settled = settlements(&store).await;
    let read = |tool: &str, at: usize| {
        let one = settled.iter().filter(|one| one.envelope.tool == tool).nth(at).unwrap();
        one.touched.iter().map(|touched| touched.key.to_string()).collect::<Vec<_>>()
    };
    let mut reads = [read("slow_see", 0), read("slow_see", 1)];
    reads.sort();
    assert_eq!(reads, [vec![], vec!["thing:b".to_owned()]]);
    assert_eq!(read("put", 0), ["thing:a"]);
}

/// A log that cannot be read while it is told so.
#[derive(Default)]
struct Unreadable(AtomicBool);

impl Bend for Unreadable {
    fn before_read(&self) -> Result<(), StoreFault> {
        let broken = self.0.load(Ordering::SeqCst);
        if broken { Err(StoreFault::Unavailable("a test".to_owned())) } else { Ok(()) }
    }
}

/// Trouble with those who come is theirs: whoever is at work comes to the end of it first.
#[tokio::test]
async fn trouble_at_the_door_waits_for_those_at_work() {
    let store = Arc::new(Bent::<Unreadable>::default());
    let scene = Scene::new(Arc::clone(&store) as Arc<dyn Store>, None).await;
    let at_work = scene.begin("slow_reach", "").await;
    store.bend.0.store(true, Ordering::SeqCst);
    let newcomer = scene.begin("look", "").await;
    let late = scene.begin("see", "a").await;
    assert!(!at_work.is_finished() && !newcomer.is_finished());
    store.bend.0.store(false, Ordering::SeqCst);
    scene.gate.notify_one();
    let told = ended(at_work, "who was at work").await;
    assert_eq!(told["message"], "at last", "{told}");
    let told = ended(newcomer, "who came").await;
    assert_eq!(told["errors"][0]["code"], "CALL_CANCELLED", "{told}");
    // The session goes on.
    assert_eq!(ended(late, "who came later").await["ok"], true);
    assert_eq!(scene.at_once("look", "").await["ok"], true);
    let settled = settlements(&store.log).await;
    assert!(settled.iter().any(|one| one.envelope.message == "at last"));
}
