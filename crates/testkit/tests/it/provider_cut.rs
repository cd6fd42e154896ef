//! A good answer of each dialect, cut at every byte: there is never a reply, and nothing breaks.

use serde_json::json;
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::Desk;
use toolgate_testkit::fake::{Fake, Fault, Play};
use toolgate_wire::dialect::Dialect;
use toolgate_wire::script::ScriptText;
use toolgate_wire::{BreakerRules, Retries};

use crate::provider::{asked, block_on, exchange_with, plan, play, spec};

/// Longer than any answer here.
const BYTES_MAX: usize = 8_000;

/// How an answer ends too early.
type End = fn(usize) -> Fault;

#[test]
fn chat_cut_at_any_byte_is_no_reply() {
    cut_in_every_way(Dialect::Chat);
}

#[test]
fn responses_cut_at_any_byte_are_no_reply() {
    cut_in_every_way(Dialect::Responses);
}

#[test]
fn anthropic_cut_at_any_byte_is_no_reply() {
    cut_in_every_way(Dialect::Anthropic);
}

#[test]
fn gemini_cut_at_any_byte_is_no_reply() {
    cut_in_every_way(Dialect::Gemini);
}

fn cut_in_every_way(dialect: Dialect) {
    // A plain answer whose connection breaks is never whole, whatever came of it.
    let ways = [(true, Fault::CutAt as End), (true, Fault::EndAt), (false, Fault::EndAt)];
    for (stream, end) in ways {
        let few = block_on(cut_everywhere(dialect, stream, end));
        assert!((100..BYTES_MAX).contains(&few), "{dialect:?} {stream}: {few} bytes");
    }
}

/// A few words and two calls.
fn short() -> ScriptText {
    let call = |path: &str| json!({"tool": "read", "args": {"path": path}});
    let reply = json!({"text": "So be it.", "calls": [call("a"), call("b")]});
    serde_json::from_value(json!({"replies": [reply]})).unwrap()
}

/// Cuts at byte after byte until the whole is a reply; how many were too few.
async fn cut_everywhere(dialect: Dialect, stream: bool, end: End) -> usize {
    let faults: Vec<Fault> = (0..BYTES_MAX).map(end).collect();
    let fake = Fake::start(Play { script: short(), ..play(faults) }).await.unwrap();
    let mut spec = spec(dialect, &fake, stream);
    spec.retries = Retries { attempts_max: 1, ..Retries::default() };
    // The breaker would leave such a provider alone.
    let rules = BreakerRules { failures_max: u32::MAX, ..BreakerRules::default() };
    let model = exchange_with(rules).model(&spec).unwrap();
    let (plan, mut desk) = (plan(), Desk::default());
    for offset in 0..BYTES_MAX {
        match asked(&model, &plan, &mut desk).await.reply {
            Ok(reply) => {
                assert_eq!(reply.calls.len(), 2, "{dialect:?} at {offset}");
                assert_eq!(reply.text, "So be it.");
                assert!(reply.calls.iter().all(|call| call.args.ends_with('}')));
                return offset;
            }
            Err(fault) => {
                let kinds = [FaultKind::CutOff, FaultKind::Unreadable];
                assert!(kinds.contains(&fault.kind), "{dialect:?} at {offset}: {fault:?}");
            }
        }
    }
    BYTES_MAX
}
