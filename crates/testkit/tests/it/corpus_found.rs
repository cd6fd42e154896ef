//! Bugs that were found become cases: each of these went wrong once.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Mutex;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{Change, Event, StreamId};
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::tool::{Effect, SpecDraft};
use toolgate_runtime::port::{Append, Output, Tool};
use toolgate_runtime::{Driver, Runtime};
use toolgate_testkit::bent::{Bend, Bent};
use toolgate_testkit::clock::FakeClock;

use crate::corpus_bench::{Bench, client, crew, doing, session, taking_text};
use crate::scenarios::block_on;

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// A tool that keeps its text under a key.
pub(crate) fn keeping(name: &str, under: &str) -> Arc<dyn Tool> {
    let (touched, put) = (key(under), key(under));
    let draft = taking_text(name, "text", Effect::Staged);
    doing(draft.touches(move |_| Ok(vec![(Access::Write, touched.clone())])), move |tx| {
        let text = tx.args()["text"].clone();
        tx.put(&put, &text)?;
        Ok(Output::message("Kept."))
    })
}

/// A log that another process writes to just before our first change of the project.
#[derive(Default)]
struct Contested {
    other: Mutex<Option<Driver>>,
}

impl Bend for Contested {
    fn before_append<'a>(&'a self, append: &'a Append) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let shared = append.batches.iter().any(|batch| *batch.stream() == StreamId::Project);
            if shared && let Some(mut other) = self.other.lock().await.take() {
                let told = other.call(&client(), "write", r#"{"text":"theirs"}"#, None).await;
                assert!(told.unwrap().ok);
            }
        })
    }
}

/// Our commit came second and was tried again: the caller is told what was written then.
#[test]
fn a_caller_is_told_what_the_log_says() {
    let bench = Bench::new();
    let made = || crew(json!({}), vec![keeping("write", "book:one")], Vec::new()).unwrap();
    let told = block_on(async {
        let (log, bend) = (Arc::clone(&bench.store), Contested::default());
        let contested = Arc::new(Bent { log, bend });
        let clock = Arc::new(FakeClock::default());
        let runtime = Arc::new(Runtime::new(contested.clone(), clock));
        let ada = Actor::Human("ada".into());
        let ours = Driver::open(runtime, made(), session("case"), &ada, "ours").await;
        *contested.bend.other.lock().await = Some(bench.open_as("other", made()).await);
        ours.unwrap().call(&client(), "write", r#"{"text":"ours"}"#, None).await.unwrap()
    });
    assert_eq!(told.code(), Some(&Code::COMMIT_CONFLICT), "{}", told.to_json());
    assert_eq!(bench.told(), [told], "the log says the same");
    let project = block_on(bench.runtime.catch_up()).unwrap();
    assert_eq!(project.state.get(&key("book:one")).unwrap().value(), json!("theirs"));
}

/// A person's change that cannot be made is refused before it is written down.
#[test]
fn a_change_that_cannot_be_made_is_not_written() {
    let bench = Bench::new();
    let crew = crew(json!({}), vec![keeping("write", "note:a")], Vec::new()).unwrap();
    let ada = Actor::Human("ada".into());
    block_on(async {
        let mut driver = bench.open(crew).await;
        driver.call(&client(), "write", r#"{"text":"one"}"#, None).await.unwrap();
        bench.expect_state_of(&driver);
        let change = |key, value| Change::Push { key, value, v: 1 };
        let fine = change(key("note:list"), json!(1));
        let bad = change(key("note:a"), json!(2));
        assert!(driver.change(&ada, vec![fine, bad], "a mistake").await.is_err());
        assert!(driver.call(&client(), "write", r#"{"text":"one"}"#, None).await.unwrap().ok);
    });
    let written =
        bench.events().into_iter().any(|event| matches!(event, Event::StateChanged { .. }));
    assert!(!written, "nothing of it is in the log");
    assert_eq!(bench.wounds(toolgate_testkit::corpus::Outcome::Reject), [""; 0]);
}

/// A float that a tool answers with is the same float in the log, in its receipt and in the state.
#[test]
fn floats_are_kept_to_their_last_bit() {
    let bench = Bench::new();
    let (touched, put) = (key("note:sum"), key("note:sum"));
    let draft = SpecDraft::new("sum", "Adds.").effect(Effect::Staged);
    let floats = [0.1 + 0.2, 0.1 * 0.2, 1.071_566_039_146_582_6e-75, 5e-324, f64::MAX];
    let sum =
        doing(draft.touches(move |_| Ok(vec![(Access::Write, touched.clone())])), move |tx| {
            tx.put(&put, &floats)?;
            Output::data("Added.", &floats)
        });
    block_on(async {
        let mut driver = bench.open(crew(json!({}), vec![sum], Vec::new()).unwrap()).await;
        let told = driver.call(&client(), "sum", "{}", None).await.unwrap();
        assert_eq!(told.data, json!(floats));
        bench.expect_state_of(&driver);
    });
    assert_eq!(bench.wounds(toolgate_testkit::corpus::Outcome::Inert), [""; 0]);
}
