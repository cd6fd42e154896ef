//! What a driver does when the log, a model, a person or its caller lets it down.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, pending, poll_fn, ready};
use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::config::DirectivesText;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{Ending, Event, FaultKind, Finish, Outcome, Said, StreamId, Usage};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{
    Append, Clock, Desk, Output, Person, Provider, ProviderFault, Question, Reply, ReplyCall,
    Response, StoreFault, Streamed, Tap,
};
use toolgate_runtime::{
    Crew, Directing, DriveFault, Driver, Halt, MemoryStore, Nothing, OpenFault, Runtime, Toolbox,
    waiting_tool,
};
use toolgate_testkit::bent::{Bend, Bent};
use toolgate_testkit::clock::FakeClock;

use crate::corpus_bench::{Bench, client, crew, doing, session};
use crate::corpus_found::keeping;
use crate::scenarios::block_on;

/// A log that fails, or falls silent, when told so.
#[derive(Default)]
struct Mood {
    reads_fail: AtomicBool,
    silent: AtomicBool,
}

type Moody = Bent<Mood>;

impl Bend for Mood {
    fn before_append<'a>(&'a self, _append: &'a Append) -> BoxFuture<'a, ()> {
        if self.silent.load(Ordering::SeqCst) { Box::pin(pending()) } else { Box::pin(ready(())) }
    }

    fn before_read(&self) -> Result<(), StoreFault> {
        if self.reads_fail.load(Ordering::SeqCst) { Err(StoreFault::TimedOut(1)) } else { Ok(()) }
    }
}

/// A driver over a moody log, with one tool that reaches the world.
async fn driven(bench: &Bench, store: &Arc<Moody>, limits: serde_json::Value) -> Driver {
    let tool = bench.reaching(SpecDraft::new("send", "Sends.").effect(Effect::External));
    let crew = crew(json!({ "limits": limits }), vec![tool], Vec::new()).unwrap();
    let clock = Arc::new(FakeClock::default());
    let runtime = Arc::new(Runtime::new(store.clone(), clock));
    let ada = Actor::Human("ada".into());
    Driver::open(runtime, crew, session("case"), &ada, "moody").await.unwrap()
}

#[test]
fn a_fault_half_way_closes_the_driver_and_runs_nothing_later() {
    let (bench, store) = (Bench::new(), Arc::new(Moody::default()));
    block_on(async {
        let mut driver = driven(&bench, &store, json!({})).await;
        let before = driver.durable_tip();
        store.bend.reads_fail.store(true, Ordering::SeqCst);
        assert!(driver.call(&client(), "send", "{}", None).await.is_err());
        store.bend.reads_fail.store(false, Ordering::SeqCst);
        // The caller thinks that nothing happened. So nothing may happen.
        let again = driver.call(&client(), "send", "{}", None).await;
        assert!(matches!(again, Err(DriveFault::Stopped)), "{again:?}");
        assert!(matches!(driver.settle_open().await, Err(DriveFault::Stopped)));
        assert_eq!(driver.durable_tip(), before);
    });
    assert_eq!(bench.effects(), []);
}

#[test]
fn a_log_that_falls_silent_stops_the_driver_in_time() {
    let (bench, store) = (Bench::new(), Arc::new(Moody::default()));
    block_on(async {
        let mut driver = driven(&bench, &store, json!({ "append_ms_max": 20 })).await;
        store.bend.silent.store(true, Ordering::SeqCst);
        let told = driver.call(&client(), "send", "{}", None).await;
        assert!(matches!(told, Err(DriveFault::Store(StoreFault::TimedOut(20)))), "{told:?}");
        store.bend.silent.store(false, Ordering::SeqCst);
        let again = driver.call(&client(), "send", "{}", None).await;
        assert!(matches!(again, Err(DriveFault::Stopped)), "{again:?}");
    });
    assert_eq!(bench.effects(), []);
}

/// What leaves nothing behind runs while the disk works; what reaches the world waits for it. Neither
/// is answered when the log cannot be written.
#[test]
fn only_what_leaves_nothing_behind_runs_before_the_log_has_answered() {
    let cases = [
        (Effect::Read, true),
        (Effect::Staged, true),
        (Effect::Idempotent, false),
        (Effect::External, false),
    ];
    for (effect, runs) in cases {
        let (store, ran) = (Arc::new(Moody::default()), Arc::new(AtomicBool::new(false)));
        let noticed = Arc::clone(&ran);
        let tool = doing(SpecDraft::new("look", "Looks.").effect(effect), move |_| {
            noticed.store(true, Ordering::SeqCst);
            Ok(Output::message("Looked."))
        });
        let limits = json!({ "limits": { "append_ms_max": 20 } });
        let crew = crew(limits, vec![tool], Vec::new()).unwrap();
        let clock = Arc::new(FakeClock::default());
        let runtime = Arc::new(Runtime::new(store.clone(), clock));
        block_on(async {
            let ada = Actor::Human("ada".into());
            let opened = Driver::open(runtime, crew, session("case"), &ada, "moody").await;
            let mut driver = opened.unwrap();
            let before = driver.durable_tip();
            store.bend.silent.store(true, Ordering::SeqCst);
            let told = driver.call(&client(), "look", "{}", None).await;
            assert!(matches!(told, Err(DriveFault::Store(_))), "{effect:?}: {told:?}");
            assert_eq!(driver.durable_tip(), before, "{effect:?}");
        });
        assert_eq!(ran.load(Ordering::SeqCst), runs, "{effect:?}");
    }
}

/// What an earlier try may have done is unknown, whatever keeps a new one from running.
#[test]
fn a_call_that_was_started_never_settles_as_failed() {
    let (bench, store) = (Bench::new(), Arc::new(Moody::default()));
    let (reach, log) = (bench.reach(), Arc::clone(&store));
    let draft = SpecDraft::new("send", "Sends.").effect(Effect::Idempotent);
    let send = doing(draft, move |tx| {
        reach(tx)?;
        log.bend.silent.store(true, Ordering::SeqCst);
        Ok(Output::message("Sent."))
    });
    let limits = json!({ "limits": { "append_ms_max": 20 } });
    let crew = crew(limits, vec![send], Vec::new()).unwrap();
    let clock = Arc::new(FakeClock::default());
    let runtime = Arc::new(Runtime::new(store.clone(), clock));
    block_on(async {
        let (id, ada) = (session("case"), Actor::Human("ada".into()));
        let opened = Driver::open(runtime.clone(), crew.clone(), id.clone(), &ada, "moody").await;
        assert!(opened.unwrap().call(&client(), "send", "{}", None).await.is_err());
        store.bend.silent.store(false, Ordering::SeqCst);
        // The program that goes on with it has no handler for the tool any more.
        let without = Crew::new(Arc::clone(&crew.agent), Toolbox::default());
        let mut driver = Driver::resume(runtime, without, id.clone()).await.unwrap();
        driver.settle_open().await.unwrap();
        let (stream, mut ends) = (StreamId::Session(id), Vec::new());
        read_from::<Event>(store.log.as_ref(), &stream, Tip::START, |record, _| {
            ends.extend(outcome(&record.event));
        })
        .await
        .unwrap();
        assert_eq!(ends, [Outcome::Unknown]);
    });
    assert_eq!(bench.effects().len(), 1);
}

#[test]
fn an_open_that_is_refused_fences_nobody() {
    let bench = Bench::new();
    let crew = || crew(json!({}), vec![keeping("write", "note:a")], Vec::new()).unwrap();
    block_on(async {
        let mut driver = bench.open(crew()).await;
        let (runtime, ada) = (Arc::clone(&bench.runtime), Actor::Human("ada".into()));
        let again = Driver::open(runtime, crew(), session("case"), &ada, "again").await;
        assert!(matches!(again, Err(OpenFault::Exists(_))));
        let told = driver.call(&client(), "write", r#"{"text":"still mine"}"#, None).await;
        assert!(told.unwrap().ok);
    });
}

/// A caller that goes away drops the transaction, and with it what was staged.
#[test]
fn a_call_that_is_dropped_leaves_nothing_and_is_settled_later() {
    let bench = Bench::new();
    let draft = SpecDraft::new("ponder", "Thinks long.").effect(Effect::Staged);
    let ponder = waiting_tool(draft, |tx, _: Nothing| {
        Box::pin(async move {
            tx.notice("thought", "half a thought")?;
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(Output::message("Thought."))
        })
    });
    block_on(async {
        let crew = crew(json!({}), vec![ponder.unwrap()], Vec::new()).unwrap();
        let mut driver = bench.open(crew).await;
        {
            let actor = client();
            let mut call = pin!(driver.call(&actor, "ponder", "{}", None));
            let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
            assert!(first, "it thinks");
        }
        assert_eq!(driver.session().open.len(), 1);
        driver.settle_open().await.unwrap();
        assert_eq!(driver.session().open.len(), 0);
    });
    let settled: Vec<Outcome> = bench.events().iter().filter_map(outcome).collect();
    assert_eq!(settled, [Outcome::Done], "once, by whoever came next");
}

fn outcome(event: &Event) -> Option<Outcome> {
    if let Event::CallSettled(settled) = event { Some(settled.outcome) } else { None }
}

struct Silent;

impl Provider for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn reply<'a>(
        &'a self,
        _plan: &'a Plan,
        _desk: &'a mut Desk,
        _tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(pending())
    }
}

impl Person for Silent {
    fn ask<'a>(&'a self, _question: &'a Question) -> BoxFuture<'a, Option<Response>> {
        Box::pin(pending())
    }
}

#[test]
fn a_model_and_a_person_who_say_nothing_are_not_waited_for_without_end() {
    let bench = Bench::new();
    let rule = json!({ "rule": { "tools": ["write"], "ask": "true", "message": "may I?" } });
    let limits = json!({ "reply_ms_max": 5, "answer_ms_max": 5, "retry_ms_max": 1 });
    let text = json!({ "limits": limits, "policies": [rule] });
    block_on(async {
        let mut crew = crew(text, vec![keeping("write", "note:a")], Vec::new()).unwrap();
        crew.provider = Some(Arc::new(Silent));
        crew.person = Some(Arc::new(Silent));
        let mut driver = bench.open(crew).await;
        let told = driver.call(&client(), "write", r#"{"text":"x"}"#, None).await.unwrap();
        assert_eq!(told.code(), Some(&Code::APPROVAL_PENDING), "{}", told.to_json());
        for _ in 0..2 {
            // The session is not over: when the model is back, it goes on.
            let halt = driver.run(&|_| {}).await.unwrap();
            assert!(matches!(halt, Halt::ModelFailed(_)), "{halt:?}");
        }
    });
}

/// A clock that goes on by itself.
struct Running(tokio::time::Instant);

impl Clock for Running {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_225_600_000).plus_ms(self.0.elapsed().as_millis().try_into().unwrap())
    }
}

/// A model that takes its time.
struct Slow;

impl Provider for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn turn_ms_max(&self) -> Option<u64> {
        Some(3_600_000)
    }

    fn reply<'a>(
        &'a self,
        _plan: &'a Plan,
        _desk: &'a mut Desk,
        _tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(pending())
    }
}

#[test]
fn a_model_is_not_waited_for_beyond_the_end_of_the_run() {
    let clock = Arc::new(Running(tokio::time::Instant::now()));
    let runtime = Arc::new(Runtime::new(Arc::new(MemoryStore::new()), clock));
    block_on(async {
        let limits = json!({ "run_ms_max": 60, "retry_ms_max": 1 });
        let mut crew = crew(json!({ "limits": limits }), Vec::new(), Vec::new()).unwrap();
        crew.provider = Some(Arc::new(Slow));
        let id = SessionId::parse("s").unwrap();
        let mut driver = Driver::open(runtime, crew, id, &client(), "t").await.unwrap();
        let run = driver.run(&|_| {});
        let halt = tokio::time::timeout(Duration::from_secs(10), run).await;
        let halt = halt.expect("the run has an end").unwrap();
        assert!(matches!(halt, Halt::Ended(Ending::DeadlineExceeded, _)), "{halt:?}");
    });
}

/// A model that is left alone for an hour.
struct Resting;

impl Provider for Resting {
    fn name(&self) -> &str {
        "resting"
    }

    fn rest_ms(&self) -> Option<u64> {
        Some(3_600_000)
    }

    fn reply<'a>(
        &'a self,
        _plan: &'a Plan,
        _desk: &'a mut Desk,
        _tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(ready(Err(ProviderFault::new(FaultKind::CircuitOpen, "it is left alone"))))
    }
}

/// Whoever waits for a model hears what others say, and stops when it is told so.
#[test]
fn a_run_that_waits_for_a_model_hears_what_is_said() {
    let bench = Bench::new();
    block_on(async {
        let limits = json!({ "model_failures_max": 9, "run_ms_max": 3_600_000 });
        let mut crew = crew(json!({ "limits": limits }), Vec::new(), Vec::new()).unwrap();
        crew.provider = Some(Arc::new(Resting));
        let mut driver = bench.open(crew).await;
        let (runtime, ada) = (Arc::clone(&bench.runtime), Actor::Human("ada".into()));
        let saying = async {
            let feedback = Said::Feedback { text: "Are you there?".to_owned(), images: Vec::new() };
            for said in [feedback, Said::Stop { reason: "enough".to_owned() }] {
                tokio::time::sleep(Duration::from_millis(50)).await;
                runtime.say(&session("case"), &ada, said).await.unwrap();
                // It is heard before the next word comes.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (halt, ()) = tokio::time::timeout(Duration::from_secs(20), async {
            tokio::join!(driver.run(&|_| {}), saying)
        })
        .await
        .expect("the wait has an end");
        let halt = halt.unwrap();
        assert!(matches!(&halt, Halt::Ended(Ending::Stopped, why) if why == "enough"), "{halt:?}");
    });
    let events = bench.events();
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Heard { .. })).count(), 2);
    let asked = events.iter().filter(|event| matches!(event, Event::PlanSent { .. })).count();
    assert_eq!(asked, 1, "words do not cut the rest short");
}

/// A model that tells this as it goes, and then has a reply in words, or falls silent.
struct Telling(&'static [Streamed<'static>], Option<&'static str>);

impl Provider for Telling {
    fn name(&self) -> &str {
        "telling"
    }

    fn reply<'a>(
        &'a self,
        _plan: &'a Plan,
        _desk: &'a mut Desk,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        self.0.iter().for_each(|streamed| tap(*streamed));
        let reply = |words| Ok(Reply::new(words, Vec::new(), Finish::Stop, Usage::default()));
        match self.1 {
            Some(words) => Box::pin(ready(reply(words))),
            None => Box::pin(pending()),
        }
    }
}

/// Something is said that may be a call, and then nothing more.
const HELD: &[Streamed<'_>] = &[
    Streamed::Text("So: "),
    Streamed::Held("<tool"),
    Streamed::Freed("<tool"),
    Streamed::Text("s> "),
    Streamed::Held("<tool_call>{"),
];

#[test]
fn a_reply_that_is_parked_keeps_the_words_that_were_held_back() {
    // Of an object that carries directives, the words for a person are kept.
    const FORMED: &[Streamed<'_>] = &[
        Streamed::Text("{\"assistant_text\": \"So: \\"),
        Streamed::Text("u00e4"),
        Streamed::Text("h\", \"directives\": [{"),
    ];
    const SAID: &str = "So: <tools> <tool_call>{";
    let own = || Arc::new(Telling(HELD, None)) as Arc<dyn Provider>;
    let formed = || Arc::new(Telling(FORMED, None)) as Arc<dyn Provider>;
    let text: DirectivesText = serde_json::from_value(json!({ "types": { "toast": {} } })).unwrap();
    let directed = |model: &dyn Fn() -> Arc<dyn Provider>| {
        let clock = Arc::new(FakeClock::default());
        Arc::new(Directing::new(model(), model(), text.build().unwrap(), clock))
            as Arc<dyn Provider>
    };
    // Words that carry directives are shown once they are read; they are kept before.
    let tool = || doing(SpecDraft::new("look", "Looks."), |_| Ok(Output::message("Seen.")));

    for (provider, tools, said) in [
        (own(), Vec::new(), SAID),
        (directed(&own), vec![tool()], SAID),
        (directed(&own), Vec::new(), SAID),
        (directed(&formed), vec![tool()], "So: äh"),
        (directed(&formed), Vec::new(), "So: äh"),
    ] {
        let bench = Bench::new();
        block_on(async {
            let mut crew = crew(json!({}), tools, Vec::new()).unwrap();
            crew.provider = Some(provider);
            let mut driver = bench.open(crew).await;
            let run = tokio::time::timeout(Duration::from_millis(200), driver.run(&|_| {})).await;
            assert!(run.is_err(), "{run:?}");
            driver.park().await.unwrap();
        });
        let events = bench.events();
        let parked = events.iter().find_map(|event| {
            if let Event::ModelFailed { partial, .. } = event { Some(partial) } else { None }
        });
        assert_eq!(parked.map(String::as_str), Some(said));
    }
}

/// What was counted of a reply is paid for, also when nobody waits for its end.
#[test]
fn a_reply_that_is_parked_or_late_counts_as_far_as_it_was_counted() {
    const fn tokens(input_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cached_tokens: 0, cache_written_tokens: 0 }
    }
    const COUNTED: &[Streamed<'_>] = &[
        Streamed::Counted(tokens(10, 1)),
        Streamed::Again,
        Streamed::Text("So"),
        Streamed::Counted(tokens(100, 1)),
        Streamed::Counted(tokens(200, 1)),
    ];
    for limits in [json!({}), json!({ "limits": { "reply_ms_max": 50 } })] {
        let bench = Bench::new();
        block_on(async {
            let mut crew = crew(limits, Vec::new(), Vec::new()).unwrap();
            crew.provider = Some(Arc::new(Telling(COUNTED, None)));
            let mut driver = bench.open(crew).await;
            drop(tokio::time::timeout(Duration::from_millis(500), driver.run(&|_| {})).await);
            driver.park().await.unwrap();
            let session = driver.session();
            assert!(session.usage.input_tokens >= 210, "{:?}", session.usage);
        });
        let failed = bench.events().into_iter().find_map(|event| {
            if let Event::ModelFailed { partial, usage, .. } = event {
                Some((partial, usage.unwrap_or_default()))
            } else {
                None
            }
        });
        assert_eq!(failed, Some(("So".to_owned(), tokens(210, 2))));
    }
}

/// A model that makes so many calls at once.
struct Calling(usize);

impl Provider for Calling {
    fn name(&self) -> &str {
        "calling"
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _desk: &'a mut Desk,
        _tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        let call = ReplyCall { alias: None, name: "look".into(), args: "{}".into() };
        let calls = if plan.turns.is_empty() { vec![call; self.0] } else { Vec::new() };
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        Box::pin(ready(Ok(Reply::new("", calls, finish, Usage::default()))))
    }
}

#[test]
fn a_reply_with_too_many_calls_is_refused_as_a_whole() {
    let limits = json!({ "turn_calls_max": 2, "reply_calls_max": 5, "retry_ms_max": 1 });
    for (calls, fails) in [(5, false), (6, true), (200, true)] {
        let bench = Bench::new();
        block_on(async {
            let tool = doing(SpecDraft::new("look", "Looks."), |_| Ok(Output::message("Seen.")));
            let mut crew =
                crew(json!({ "limits": limits.clone() }), vec![tool], Vec::new()).unwrap();
            crew.provider = Some(Arc::new(Calling(calls)));
            let halt = bench.open(crew).await.run(&|_| {}).await.unwrap();
            let told = format!("{halt:?}");
            let reason = format!("the reply has {calls} calls; at most 5 are taken");
            assert_eq!(matches!(halt, Halt::ModelFailed(_)), fails, "{told}");
            assert_eq!(told.contains(&reason), fails, "{told}");
        });
        let count = |is: fn(&Event) -> bool| bench.events().iter().filter(|one| is(one)).count();
        let settled = count(|event| matches!(event, Event::CallSettled(_)));
        let refused = count(|event| matches!(event, Event::CallRefused(_)));
        assert_eq!((settled, refused), if fails { (0, 0) } else { (2, 3) });
    }
}

/// A model that makes one call with a name and an id of this many bytes.
struct Rambling(usize);

impl Provider for Rambling {
    fn name(&self) -> &str {
        "rambling"
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _desk: &'a mut Desk,
        _tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        let name = "x".repeat(self.0);
        let call = ReplyCall { alias: Some(format!("id{name}")), name, args: "{}".into() };
        let calls = if plan.turns.is_empty() { vec![call] } else { Vec::new() };
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        Box::pin(ready(Ok(Reply::new("", calls, finish, Usage::default()))))
    }
}

#[test]
fn a_long_name_or_id_is_cut_before_it_is_written_down() {
    for (bytes, is_cut) in [(200, false), (100_000, true)] {
        let bench = Bench::new();
        block_on(async {
            let tool = doing(SpecDraft::new("look", "Looks."), |_| Ok(Output::message("Seen.")));
            let mut crew = crew(json!({}), vec![tool], Vec::new()).unwrap();
            crew.provider = Some(Arc::new(Rambling(bytes)));
            let mut driver = bench.open(crew).await;
            let me = Actor::Client("test".into());
            let told = driver.call(&me, &"y".repeat(bytes), "{}", None).await.unwrap();
            driver.run(&|_| {}).await.unwrap();
            assert!(!told.ok && told.tool.len() <= 80, "{told:?}");
        });
        let mut names = Vec::new();
        for event in bench.events() {
            assert!(serde_json::to_string(&event).unwrap().len() < 20_000, "{bytes}");
            if let Event::ModelReplied { calls, .. } = &event {
                names.extend(calls.iter().map(|call| (call.name.clone(), call.alias.clone())));
            } else if let Event::CallReceived { call, .. } = &event {
                names.push((call.name.clone(), None));
            }
        }
        assert_eq!(names.len(), 2, "{names:?}");
        for (name, alias) in names {
            for text in [Some(name), alias].into_iter().flatten() {
                let told = text.contains("bytes, sha256 ");
                assert_eq!(told, is_cut, "{text}");
                assert!(text.len() <= 4_096, "{}", text.len());
            }
        }
    }
}

/// T2: whoever listens and fails changes nothing.
#[test]
fn a_listener_that_panics_disturbs_nobody() {
    let bench = Bench::new();
    block_on(async {
        let mut crew = crew(json!({}), Vec::new(), Vec::new()).unwrap();
        const SAID: &[Streamed<'_>] = &[Streamed::Text("He"), Streamed::Text("llo.")];
        crew.provider = Some(Arc::new(Telling(SAID, Some("Hello."))));
        let mut driver = bench.open(crew).await;
        let heard = std::sync::atomic::AtomicU32::new(0);
        let halt = driver
            .run(&|_| {
                heard.fetch_add(1, Ordering::SeqCst);
                panic!("a listener failed")
            })
            .await;
        assert!(matches!(halt, Ok(Halt::Ended(..))), "{halt:?}");
        assert!(heard.into_inner() >= 2);
    });
}

/// Whoever watches and does not keep up loses events, is told so, and holds nobody up.
#[test]
fn an_observer_that_lags_disturbs_nobody() {
    let bench = Bench::new();
    let mut idle = bench.runtime.observe();
    drop(bench.runtime.observe());
    block_on(async {
        let tool = doing(SpecDraft::new("look", "Looks."), |_| Ok(Output::message("Seen.")));
        let mut driver = bench.open(crew(json!({}), vec![tool], Vec::new()).unwrap()).await;
        for _ in 0..toolgate_runtime::OBSERVER_EVENTS_MAX {
            assert!(driver.call(&client(), "look", "{}", None).await.unwrap().ok);
        }
        let lagged = idle.recv().await;
        assert!(matches!(lagged, Err(tokio::sync::broadcast::error::RecvError::Lagged(_))));
        assert!(idle.recv().await.is_ok(), "it goes on with what is still there");
    });
}
