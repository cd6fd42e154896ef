//! Why an expression is refused at load, and why an evaluation has no answer.

use thiserror::Error;

use super::{
    COMPREHENSION_ITEMS_MAX, DEPTH_MAX, EVALUATION_STEPS_MAX, EXPRESSION_BYTES_MAX, NESTING_MAX,
    OPERATORS_MAX, PATTERN_BYTES_MAX, TEXT_BYTES_MAX,
};

/// Why an expression could not be compiled; each message says what to change.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ExpressionFault {
    /// There is nothing but white space.
    #[error("the expression is empty; write a condition such as `args.amount > 100`")]
    Empty,
    /// The source is too long.
    #[error(
        "the expression has {bytes} bytes, at most {EXPRESSION_BYTES_MAX} are allowed; split it \
         into several rules"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Brackets or conditionals are nested too deep.
    #[error(
        "the expression is nested too deep, at most {NESTING_MAX} levels of brackets and `? :` \
         are allowed; split it into several rules"
    )]
    TooNested,
    /// There are too many operators, or too many in one chain.
    #[error(
        "the expression chains too many operators, at most {OPERATORS_MAX} are allowed and \
         fewer than {DEPTH_MAX} in one chain; split it, or use `in [..]`"
    )]
    TooChained,
    /// The source is not CEL.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// The line, counted from one.
        line: usize,
        /// The column in characters, counted from one.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The parser gave up instead of answering.
    #[error("the parser failed on this expression ({reason}); write it more simply")]
    ParserFailed {
        /// What the parser said.
        reason: String,
    },
    /// A variable that does not exist here.
    #[error("unknown variable '{name}'{}", advice(.nearest, .known))]
    UnknownVariable {
        /// The name as written.
        name: String,
        /// The known name that is most alike.
        nearest: Option<String>,
        /// Every name that may be used.
        known: Vec<String>,
    },
    /// A function that does not exist.
    #[error("unknown function '{name}'{}", advice(.nearest, .known))]
    UnknownFunction {
        /// The name as written.
        name: String,
        /// The known name that is most alike.
        nearest: Option<String>,
        /// Every name that may be used.
        known: Vec<String>,
    },
    /// A function called in a form it does not have.
    #[error("'{name}' is called differently; write {usage}")]
    WrongCall {
        /// The function.
        name: String,
        /// How it is called.
        usage: &'static str,
    },
    /// A comprehension inside another one.
    #[error(
        "'{name}' inside another comprehension; only one level is allowed, so test one list at \
         a time or split the rule"
    )]
    NestedComprehension {
        /// The inner macro.
        name: String,
    },
    /// The pattern of a `matches` is computed.
    #[error(
        "the pattern of matches() must be a literal text, because it is compiled when the rule \
         is loaded; use contains() or == for computed text"
    )]
    PatternNotLiteral,
    /// The pattern of a `matches` does not compile.
    #[error("the pattern '{pattern}' is not a usable regular expression: {reason}")]
    BadPattern {
        /// The pattern as written.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The pattern of a `matches` compiles to too much.
    #[error(
        "the pattern '{pattern}' compiles to more than {PATTERN_BYTES_MAX} bytes; use smaller \
         repetitions or (?-u)"
    )]
    PatternTooLarge {
        /// The pattern as written.
        pattern: String,
    },
    /// A part of CEL that rules do not have.
    #[error("{what} is not supported in rules; {instead}")]
    Unsupported {
        /// The construct.
        what: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
}

/// The end of an "unknown name" message: the nearest name, or else all of them.
fn advice(nearest: &Option<String>, known: &[String]) -> String {
    match nearest {
        Some(name) => format!(", did you mean '{name}'?"),
        None => format!("; use one of {}", known.join(", ")),
    }
}

/// Why an evaluation has no answer; whoever asked denies.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EvaluationFault {
    /// The condition is not a condition.
    #[error("the condition answered {found}, not a boolean; compare it with something")]
    NotBoolean {
        /// The type it answered.
        found: &'static str,
    },
    /// A declared root variable that this scope does not have.
    #[error("variable '{name}' has no value here")]
    NoVariable {
        /// The variable.
        name: String,
    },
    /// A member or key that is not there.
    #[error("no such field '{name}'; test it with has() first")]
    NoField {
        /// The member or key.
        name: String,
    },
    /// An index outside a list.
    #[error("index {index} is outside the list of {size}")]
    NoItem {
        /// The index.
        index: String,
        /// How many items there are.
        size: usize,
    },
    /// An operation on a type it is not for.
    #[error("{operation} cannot be used on {found}")]
    Mismatch {
        /// The operation.
        operation: &'static str,
        /// The type it met.
        found: &'static str,
    },
    /// An operation on two types that do not go together.
    #[error(
        "{operation} cannot be used on {left} and {right}; convert one with int(), double() or \
         string()"
    )]
    MismatchedPair {
        /// The operation.
        operation: &'static str,
        /// The type on the left.
        left: &'static str,
        /// The type on the right.
        right: &'static str,
    },
    /// A number that does not fit its type.
    #[error("the result of {operation} does not fit a 64-bit integer")]
    Overflow {
        /// The operation.
        operation: &'static str,
    },
    /// A division or remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A value that cannot be converted without loss of meaning.
    #[error("{value} cannot be converted to {to} exactly")]
    NotConvertible {
        /// The value, shortened.
        value: String,
        /// The type asked for.
        to: &'static str,
    },
    /// A map written with one key twice.
    #[error("the map holds one key twice")]
    DuplicateKey,
    /// A list too long to visit or to build.
    #[error("a list of {items} items, at most {COMPREHENSION_ITEMS_MAX} are visited or built")]
    TooManyItems {
        /// How many items it has.
        items: usize,
    },
    /// A text too long to build.
    #[error("a text of {bytes} bytes, at most {TEXT_BYTES_MAX} are built")]
    TooLongText {
        /// How long it would be.
        bytes: usize,
    },
    /// The evaluation did all the work it may do.
    #[error("the evaluation took more than {EVALUATION_STEPS_MAX} steps")]
    TooMuchWork,
    /// Values too deep to compare.
    #[error("a value is nested too deep to be compared")]
    TooDeep,
    /// A scope or lookup panicked.
    #[error("the evaluation panicked: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl EvaluationFault {
    /// Whether `||`, `&&`, `all` and `exists` must pass the fault on even if the other side decides:
    /// a bound that was reached is never argued away.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::TooManyItems { .. }
                | Self::TooLongText { .. }
                | Self::TooMuchWork
                | Self::TooDeep
        )
    }
}
