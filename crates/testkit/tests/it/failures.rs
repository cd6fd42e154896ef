//! Failure semantics as one table: a row per cause, what the model reads, whether the run goes on.

use std::sync::Arc;

use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{CallRefused, CallSettled, Ending, Event, StreamId};
use toolgate_runtime::MemoryStore;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_testkit::ledger::Ledger;
use toolgate_testkit::scenario::Scenario;
use toolgate_testkit::stage::Stage;

use crate::scenarios::block_on;

struct Row {
    cause: &'static str,
    /// What the tool does after it staged a change of state and of a file.
    does: &'static str,
    args: &'static str,
    limits: &'static str,
    usage: u64,
    code: Code,
    /// How the run ends; `Completed` means that it went on to the model's last word.
    ending: Ending,
}

const ROWS: &[Row] = &[
    Row {
        cause: "bad arguments",
        does: "[]",
        args: "{m: 1}",
        limits: "{}",
        usage: 0,
        code: Code::ARGUMENTS_INVALID,
        ending: Ending::Completed,
    },
    Row {
        cause: "returned error",
        does: "[fail: no]",
        args: "{n: 1}",
        limits: "{}",
        usage: 0,
        code: Code::TOOL_FAILED,
        ending: Ending::Completed,
    },
    Row {
        cause: "panic",
        does: "[panic: boom]",
        args: "{n: 1}",
        limits: "{}",
        usage: 0,
        code: Code::TOOL_PANICKED,
        ending: Ending::Completed,
    },
    Row {
        cause: "time-out",
        does: "[sleep_ms: 60000]",
        args: "{n: 1}",
        limits: "{call_ms_max: 20}",
        usage: 0,
        code: Code::TOOL_TIMED_OUT,
        ending: Ending::Completed,
    },
    Row {
        cause: "time-out of one that never rests",
        does: "[toil]",
        args: "{n: 1}",
        limits: "{call_ms_max: 20}",
        usage: 0,
        code: Code::TOOL_TIMED_OUT,
        ending: Ending::Completed,
    },
    Row {
        cause: "cancel",
        does: "[cancel]",
        args: "{n: 1}",
        limits: "{}",
        usage: 0,
        code: Code::CALL_CANCELLED,
        ending: Ending::Stopped,
    },
    Row {
        cause: "run deadline",
        does: "[]",
        args: "{n: 1}",
        limits: "{run_ms_max: 500}",
        usage: 0,
        code: Code::RUN_DEADLINE_EXCEEDED,
        ending: Ending::DeadlineExceeded,
    },
    Row {
        cause: "budget",
        does: "[]",
        args: "{n: 1}",
        limits: "{}",
        usage: 1_000,
        code: Code::BUDGET_EXCEEDED,
        ending: Ending::BudgetExceeded,
    },
    Row {
        cause: "commit conflict",
        does: "[meanwhile: [canon.md, theirs]]",
        args: "{n: 1}",
        limits: "{}",
        usage: 0,
        code: Code::COMMIT_CONFLICT,
        ending: Ending::Completed,
    },
    Row {
        cause: "missing handler",
        does: "null",
        args: "{n: 1}",
        limits: "{}",
        usage: 0,
        code: Code::TOOL_HAS_NO_HANDLER,
        ending: Ending::Completed,
    },
];

#[test]
fn every_cause_of_failure_leaves_nothing_behind() {
    for row in ROWS {
        let does = match row.does {
            "null" => "null".to_owned(),
            list => {
                let rest = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap();
                format!("[put: ['note:a', 1], write_file: [canon.md, ours], {rest}]")
                    .replace(", ]", "]")
            }
        };
        let yaml = format!(
            "about: {cause}\nfamilies: {{note: session}}\nfiles: {{canon.md: before}}\n\
             agent: {{limits: {limits}, budget: {{total_tokens_max: 500}}}}\n\
             sections:\n  - name: desk\n    tools:\n\
             \x20     - name: wait\n        does: [clock_ms: 1000]\n\
             \x20     - name: act\n        effect: staged\n\
             \x20       params: {{type: object, required: ['n'], properties: {{n: {{type: integer}}}}}}\n\
             \x20       writes: ['note:a', 'file:canon.md']\n        does: {does}\n\
             script:\n  replies:\n\
             \x20   - calls: [{{tool: wait}}, {{tool: act, args: {args}}}]\n\
             \x20     usage: {{input_tokens: {usage}}}\n\
             \x20   - text: Done.\n",
            cause = row.cause,
            limits = row.limits,
            args = row.args,
            usage = row.usage,
        );
        check(row, &yaml);
    }
}

fn check(row: &Row, yaml: &str) {
    let scenario: Scenario = serde_saphyr::from_str(yaml).unwrap_or_else(|e| panic!("{yaml}\n{e}"));
    let (store, folder) = (Arc::new(MemoryStore::new()), tempfile::tempdir().unwrap());
    let stage = Stage::new(scenario, store.clone(), folder.path(), Ledger::default()).unwrap();
    let stage = stage.unwrap_or_else(|refused| panic!("{}: {}", row.cause, refused.0));
    let played = block_on(stage.play()).unwrap();
    let (mut codes, mut ending, mut attempts) = (Vec::new(), None, 0);
    let stream = StreamId::Session(toolgate_kernel::names::SessionId::parse("s1").unwrap());
    let read = read_from::<Event>(store.as_ref(), &stream, Tip::START, |record, _| {
        if let Event::CallSettled(CallSettled { envelope, .. })
        | Event::CallRefused(CallRefused { envelope, .. }) = &record.event
        {
            codes.extend(envelope.code().cloned());
        }
        if let Event::ModelReplied { calls, .. } = &record.event {
            attempts += calls.len();
        }
        if let Event::Ended { ending: how, .. } = record.event {
            ending = Some(how);
        }
    });
    block_on(read).unwrap();
    // Once the run is over, every call of the turn is told so.
    codes.dedup();
    assert_eq!(codes.as_slice(), std::slice::from_ref(&row.code), "{}", row.cause);
    assert_eq!(ending, Some(row.ending), "{}", row.cause);
    assert_eq!(attempts, 2, "{}: the attempt stays in the log", row.cause);
    assert!(played.state.contains(r#""state":{}"#), "{}: {}", row.cause, played.state);
    let left = if row.cause == "commit conflict" { "theirs" } else { "before" };
    assert!(
        played.trace.contains(&format!("file canon.md {left:?}")),
        "{}: {}",
        row.cause,
        played.trace
    );
    assert!(!played.trace.contains("file .toolgate"), "{}: a staged copy is left", row.cause);
}
