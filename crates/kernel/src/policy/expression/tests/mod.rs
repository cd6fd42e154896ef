//! What conditions answer, what is refused, and that nothing hostile gets through.

mod conditions;
mod faults;
mod hostile;
mod judge;
mod lazy;
mod refusals;
mod soup;

use serde_json::Value;

use super::{EvaluationFault, Expression, ExpressionFault, Scope, View};

const ROOTS: &[&str] = &["args", "tool", "phase", "session", "project", "now"];

/// A small call: arguments as JSON, a phase, a tool and an instant.
struct Sample {
    args: Value,
}

impl Scope for Sample {
    fn get(&self, name: &str) -> Option<View<'_>> {
        match name {
            "args" => Some(View::Json(&self.args)),
            "tool" => Some(View::Text("write_section")),
            "phase" => Some(View::Text("draft")),
            "now" => Some(View::Int(1_700_000_000_000)),
            _ => None,
        }
    }
}

fn compile(source: &str) -> Result<Expression, ExpressionFault> {
    Expression::compile(source, ROOTS)
}

/// Compiles `source`, which must be fine, and answers it for `args`.
fn answer(source: &str, args: &Value) -> Result<bool, EvaluationFault> {
    let expression = compile(source).unwrap_or_else(|fault| panic!("{source}: {fault}"));
    expression.evaluate(&Sample { args: args.clone() })
}

/// Checks that each source compiles and answers as written beside it.
fn check(args: &Value, cases: &[(&str, bool)]) {
    for (source, expected) in cases {
        assert_eq!(answer(source, args), Ok(*expected), "{source} for {args}");
    }
}
