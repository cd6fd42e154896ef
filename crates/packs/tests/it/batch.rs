//! A model that plans: several calls in one turn, each seeing what the one before it did.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use toolgate_kernel::event::{Ending, Finish, Usage};
use toolgate_kernel::plan::Plan as Request;
use toolgate_packs::planning::PlanStatus::Completed;
use toolgate_runtime::port::{Desk as Kept, Provider, ProviderFault, Reply, ReplyCall, Tap};
use toolgate_runtime::{Driver, Halt};

use crate::support::{Desk, client};

/// Plays one turn of calls, then one of words.
struct Scripted {
    calls: Vec<ReplyCall>,
    turns: AtomicUsize,
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn reply<'a>(
        &'a self,
        _: &'a Request,
        _: &'a mut Kept,
        _: Tap<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ProviderFault>> + Send + 'a>> {
        let first = self.turns.fetch_add(1, Ordering::Relaxed) == 0;
        let calls = if first { self.calls.clone() } else { Vec::new() };
        let (finish, usage) = (Finish::Stop, Usage::default());
        Box::pin(async move { Ok(Reply::new("Planned.", calls, finish, usage)) })
    }
}

#[tokio::test]
async fn a_whole_plan_in_one_turn() {
    let mut desk = Desk::open().await;
    let call = |name: &str, args: serde_json::Value| ReplyCall {
        alias: None,
        name: format!("planning_{name}"),
        args: args.to_string(),
    };
    let calls = vec![
        call("setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })),
        call("add_step", json!({ "steps": ["b"] })),
        call("add_step", json!({ "steps": [""] })),
        call("update_step", json!({ "step_id": 1, "status": "done" })),
        call("update_step", json!({ "step_id": 2, "status": "done" })),
        call("read_plan", json!({})),
    ];
    let provider = Scripted { calls, turns: AtomicUsize::new(0) };
    desk.crew.provider = Some(Arc::new(provider));
    let id = toolgate_kernel::names::SessionId::parse("s2").unwrap();
    let opened = Driver::open(desk.runtime.clone(), desk.crew.clone(), id, &client(), "").await;
    desk.driver = opened.unwrap();
    let Halt::Ended(ending, _) = desk.driver.run(&|_| {}).await.unwrap() else { panic!() };
    assert_eq!(ending, Ending::Completed);

    let session = desk.driver.session();
    let told = session.turns.iter().flat_map(|turn| turn.told.values());
    let messages: Vec<_> = told.map(|told| told.envelope.message.clone()).collect();
    assert_eq!(
        messages,
        [
            "Plan initialised with 1 step.",
            "Added 1 step.",
            "Tool validation failed: Title must not be empty.",
            "Step 1 updated.",
            "Step 2 updated.",
            "Retrieved the current plan with 2 steps.",
        ]
    );
    assert_eq!(desk.outline().0, Completed);
}
