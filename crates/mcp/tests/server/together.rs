//! Calls of many clients side by side: the log tells what happened, once each, and folds to what is
//! shown.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, Outcome, Record, StreamId};
use toolgate_kernel::fold::Session;
use toolgate_mcp::server::{Clerk, Order};
use toolgate_runtime::MemoryStore;
use toolgate_runtime::log::{Tip, read_from};

use crate::stage::{Ledger, clerk, session};

const CLIENTS: u64 = 6;
const CALLS: u64 = 60;

/// What a client does next: nothing is random that cannot be repeated.
fn next(seed: &mut u64) -> (&'static str, &'static str) {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    match (*seed >> 33) % 12 {
        0 => ("move_on", r#"{"to": "A"}"#),
        1 => ("move_on", r#"{"to": "B"}"#),
        2 => ("slow", "{}"),
        3 => ("watch", "{}"),
        4 => ("leave", "{}"),
        5 => ("asked", r#"{"word": "a"}"#),
        6 => ("alpha", "{}"),
        7 => ("beta", "{}"),
        8 => ("nobody", "{}"),
        9 | 10 => ("common", r#"{"word": "a"}"#),
        _ => ("record", "{}"),
    }
}

async fn client(clerk: Clerk, number: u64) {
    let mut seed = number;
    for call in 0..CALLS {
        let (name, args) = next(&mut seed);
        let order = Order {
            actor: Actor::Client(format!("client-{number}").into()),
            name: name.to_owned(),
            args: args.to_owned(),
            alias: None,
            phase: None,
            user: None,
        };
        let wait = if call % 7 == 0 { 1 } else { 20_000 };
        // Some are taken back, or not waited for.
        let waited = tokio::time::timeout(Duration::from_millis(wait), clerk.call(order, None));
        assert!(waited.await.is_ok() || wait == 1, "{name} was not answered");
    }
}

#[tokio::test]
async fn whatever_runs_side_by_side_is_in_the_log_once_and_in_order() {
    let (store, ledger, gate) =
        (Arc::new(MemoryStore::new()), Ledger::default(), Arc::new(Notify::new()));
    let clerk = clerk(&store, &ledger, &gate, 1_000).await;
    let letting_go = {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                gate.notify_one();
            }
        })
    };
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(clerk.clone(), number))).collect();
    for client in clients {
        client.await.unwrap();
    }
    // Those that nobody waited for come to their end too.
    tokio::time::sleep(Duration::from_millis(500)).await;
    letting_go.abort();
    let (live, stream) = (clerk.look().0, StreamId::Session(session()));
    let (mut replayed, mut done, mut beside) = (Session::new(session()), Vec::new(), 0);
    let mut at_work: Vec<(u64, String)> = Vec::new();
    let each = |record: Record<Event>, _: &_| {
        replayed.apply(&record);
        if let Event::CallStarted { call, .. } = &record.event {
            let name = replayed.open.get(call).unwrap().raw.name.clone();
            assert!(at_work.iter().all(|(_, other)| *other != name), "{name} twice at a time");
            beside += usize::from(!at_work.is_empty());
            at_work.push((call.0, name));
        } else if let Event::CallSettled(settled) = &record.event {
            at_work.retain(|(call, _)| *call != settled.call.0);
            if settled.outcome == Outcome::Done {
                done.push(settled.envelope.tool.clone());
            }
        }
    };
    read_from(store.as_ref(), &stream, Tip::START, each).await.unwrap();
    assert!(at_work.is_empty() && live.open.is_empty());
    assert_eq!(replayed, *live, "what is shown is what the log says");
    assert!(beside > 20, "{beside} calls began while another was at work");
    let world = ledger.lock().unwrap();
    for tool in ["alpha", "beta", "slow", "common"] {
        let times = world.iter().filter(|line| line.split(' ').next() == Some(tool)).count();
        let told = done.iter().filter(|name| name.as_str() == tool).count();
        assert!(times == told && times > 0, "{tool}: {times} times, told {told} times");
    }
}
