//! Bounded CEL conditions: compiled once when a rule is loaded, evaluated over a lazy view of a call.
//!
//! Only the parser of the `cel` crate is used. Its tree is checked and lowered into our own, which
//! a small evaluator walks, so a rule reads no more of the world than it names. The way of an
//! expression: `scan` (cheap bounds) → `parse` (cel, on a `stack` of its own) → `lower` (names, functions, patterns) →
//! `evaluate`.

mod builtin;
mod comprehend;
mod datum;
mod equal;
mod evaluate;
mod fault;
mod function;
mod lower;
mod lower_call;
mod meter;
mod node;
mod number;
mod operate;
mod parse;
mod pattern;
mod quiet;
mod scan;
mod stack;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;

pub use fault::{EvaluationFault, ExpressionFault};
pub use view::{Lookup, Scope, Sequence, View};

/// The longest expression, in bytes of source.
pub const EXPRESSION_BYTES_MAX: usize = 1024;
/// How deep brackets and conditionals may be nested.
pub const NESTING_MAX: usize = 16;
/// How many operators, member accesses and opening square brackets an expression may hold.
pub const OPERATORS_MAX: usize = 128;
/// How deep the parsed tree may be; a chain such as `a + b + c` is one level per operator.
pub const DEPTH_MAX: usize = 64;
/// The largest compiled regular expression of a `matches`, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// The most items one comprehension may visit, and a list built by an expression may hold.
pub const COMPREHENSION_ITEMS_MAX: usize = 10_000;
/// The most work one evaluation may do: a step is a node visited, an item compared, or 64 bytes of
/// text read.
pub const EVALUATION_STEPS_MAX: usize = 200_000;
/// The longest text an expression may build, in bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A condition that was checked and compiled; evaluating it is pure and bounded.
#[derive(Clone)]
pub struct Expression {
    source: Box<str>,
    root: node::Node,
}

impl Expression {
    /// Compiles `source`, in which only the variables named in `roots` may be used.
    pub fn compile(source: &str, roots: &[&str]) -> Result<Expression, ExpressionFault> {
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionFault::TooLong { bytes: source.len() });
        }
        if source.trim().is_empty() {
            return Err(ExpressionFault::Empty);
        }
        scan::scan(source)?;
        let root = stack::run(|| lower::lower(&parse::parse(source)?, roots))?;
        Ok(Expression { source: source.into(), root })
    }

    /// Answers the condition for `scope`; whoever asks must deny on a fault.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<bool, EvaluationFault> {
        // The evaluator itself has no panicking path; a scope written by somebody else may.
        quiet::catch(|| evaluate::evaluate(&self.root, scope))
            .unwrap_or_else(|message| Err(EvaluationFault::Panicked { message }))
    }

    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Expression").field(&self.source).finish()
    }
}
