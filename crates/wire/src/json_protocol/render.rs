//! Writes a request of the JSON tool protocol: calls and results as words, the protocol last.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde_json::{Value, json};
use toolgate_kernel::calling::json_result_excerpt;
use toolgate_kernel::event::Finish;
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan, ShapeMode};
use toolgate_kernel::render::{ResultFormat, render};
use toolgate_kernel::tool::ToolSpec;

use super::ExpectedReply;

/// What stands in place of the nonce of an earlier call: it is of no use any more.
const USED: &str = "<used>";

/// The same request without tools: calls and their results are words, and the protocol comes last.
pub(super) fn text_plan(plan: &Plan, expected: ExpectedReply, nonce: &str) -> Plan {
    let mut asked = plan.clone();
    let mut results: Option<Arc<str>> = None;
    let mut turns = Vector::new();
    for turn in &plan.turns {
        let mut notes = turn.notes.clone();
        if let Some(results) = results.take() {
            notes.push_front(results);
        }
        results = results_of(turn, plan.result_format);
        turns.push_back(Arc::new(Turn {
            number: turn.number,
            notes,
            images: turn.images.clone(),
            text: said(turn),
            calls: Arc::new([]),
            told: OrdMap::new(),
            finish: Finish::Stop,
            native: None,
        }));
    }
    asked.turns = turns;
    let notes = std::mem::take(&mut asked.notes).into_iter().map(|note| Arc::from(note.text));
    let feedback = std::mem::take(&mut asked.feedback);
    asked.feedback = results.into_iter().chain(feedback).chain(notes).collect();
    asked.feedback.extend(protocol(plan, expected, nonce).map(Arc::from));
    (asked.tools, asked.every) = (Vec::new(), Arc::new([]));
    asked.choice = Choice::Auto;
    asked
}

/// What the model said in a turn, as it wrote it.
fn said(turn: &Turn) -> Arc<str> {
    let Some(call) = turn.calls.first() else {
        // Of a turn without words it is known that the answer was to come next.
        if turn.text.trim().is_empty() {
            return json!({ "action": "final", "nonce": USED }).to_string().into();
        }
        return Arc::clone(&turn.text);
    };
    let args: Value = serde_json::from_str(&turn.args_again(call)).unwrap_or(Value::Null);
    json!({ "tool": call.name, "args": args, "nonce": USED }).to_string().into()
}

/// The results of the calls of a turn, in words.
fn results_of(turn: &Turn, format: ResultFormat) -> Option<Arc<str>> {
    let told = turn.calls.iter().filter_map(|call| Some((call, turn.told.get(&call.id)?)));
    let texts = told.map(|(call, told)| {
        let receipt = told.envelope.receipt.map(|receipt| format!(", {receipt}"));
        let receipt = receipt.unwrap_or_default();
        format!("Result of {}{receipt}:\n{}", call.name, json_result_excerpt(&render(told, format)))
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    (!text.is_empty()).then(|| text.into())
}

/// The protocol of one request; nothing where the answer is due.
fn protocol(plan: &Plan, expected: ExpectedReply, nonce: &str) -> Option<String> {
    let call = format!("{{\"tool\":\"NAME\",\"args\":{{…}},\"nonce\":\"{nonce}\"}}");
    let next = match expected {
        ExpectedReply::Answer => return None,
        ExpectedReply::CallOrWords => format!(
            "To call a tool, answer with exactly one JSON object and nothing around it:\n{call}\n\
             To answer without a tool, write words and no JSON."
        ),
        ExpectedReply::Call => format!(
            "Call a tool now: answer with exactly one JSON object and nothing around it:\n{call}"
        ),
        ExpectedReply::Decision => format!(
            "You have a result. Answer with exactly one JSON object and nothing around it. To call \
             another tool:\n{{\"action\":\"tool\",\"tool\":\"NAME\",\"args\":{{…}},\"nonce\":\"{nonce}\"}}\n\
             When you know enough:\n{{\"action\":\"final\",\"nonce\":\"{nonce}\"}}\nYou are asked for \
             the answer itself after that."
        ),
    };
    let tools: Vec<String> = required(plan).map(|tool| described(tool)).collect();
    Some(format!(
        "## Tools\n\nThis is the only way to call a tool. The nonce is new in every request; copy it. \
         One call per reply.\n{next}\n\n{}",
        tools.join("\n")
    ))
}

/// The tools that may be called now.
fn required(plan: &Plan) -> impl Iterator<Item = &Arc<ToolSpec>> {
    plan.tools.iter().filter(|tool| match &plan.choice {
        Choice::Tool(name) => tool.wire == *name || tool.name == *name,
        Choice::Auto | Choice::None | Choice::Required | Choice::Form(_) => true,
    })
}

fn described(tool: &ToolSpec) -> String {
    format!("- {}: {}\n  args: {}", tool.wire, tool.about, tool.input)
}

/// The form of a reply that must be a call, as a JSON Schema.
pub(super) fn call_shape(
    tools: &[Arc<ToolSpec>],
    choice: &Choice,
    nonce: &str,
) -> Option<OutputShape> {
    let wanted = |tool: &&Arc<ToolSpec>| match choice {
        Choice::Tool(name) => tool.wire == *name || tool.name == *name,
        Choice::Auto | Choice::None | Choice::Required | Choice::Form(_) => true,
    };
    let variant = |tool: &Arc<ToolSpec>| {
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["tool", "args", "nonce"],
            "properties": {
                "tool": { "const": tool.wire }, "args": tool.input, "nonce": { "const": nonce },
            },
        })
    };
    let mut variants: Vec<Value> = tools.iter().filter(wanted).map(variant).collect();
    let schema = match variants.len() {
        0 => return None,
        1 => variants.remove(0),
        _ => json!({ "anyOf": variants }),
    };
    Some(OutputShape { name: "tool_call".to_owned(), mode: ShapeMode::JsonSchema, schema })
}
