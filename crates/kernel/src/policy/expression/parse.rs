//! Turns a source into the tree of the `cel` crate, with its complaints made readable.

use cel::{Env, IdedExpr, ParseErrors};

use super::NESTING_MAX;
use super::fault::ExpressionFault;

/// The parser's own bound on nesting, a little wider than ours, in case the scan was fooled.
const PARSER_RECURSION_MAX: u16 = 20;
const _: () = assert!(PARSER_RECURSION_MAX as usize > NESTING_MAX + 1);

/// Parses `source`, which the scan has passed.
///
/// Macros are left as the calls they are written as, so that lowering sees what was meant.
pub(super) fn parse(source: &str) -> Result<IdedExpr, ExpressionFault> {
    Env::default()
        .with_optional_support(false)
        .parser()
        .max_recursion_depth(PARSER_RECURSION_MAX)
        .parse(source)
        .map_err(|errors| first_of(&errors))
}

/// The earliest complaint; the ones after it are mostly its echoes.
fn first_of(errors: &ParseErrors) -> ExpressionFault {
    let failed = |reason: &str| ExpressionFault::ParserFailed { reason: reason.to_owned() };
    let Some(error) = errors.errors.first() else {
        return failed("it gave no reason");
    };
    match (usize::try_from(error.pos.0), usize::try_from(error.pos.1)) {
        (Ok(line @ 1..), Ok(column)) => {
            ExpressionFault::Syntax { line, column, message: plain(&error.msg) }
        }
        // Without a place it is no remark on the source, but the parser giving up.
        _ => failed("it gave up"),
    }
}

/// Says in plain words what the parser says in its own.
fn plain(message: &str) -> String {
    let message = message.strip_prefix("Syntax error: ").unwrap_or(message);
    // The parser lists every token it would have taken; nobody reads that.
    let message = message.split(" expecting ").next().unwrap_or(message);
    if message.starts_with("invalid string literal") {
        return "this text holds an invalid escape".to_owned();
    }
    let found = [
        "mismatched input ",
        "extraneous input ",
        "no viable alternative at input ",
        "token recognition error at: ",
    ];
    let Some(found) = found.iter().find_map(|jargon| message.strip_prefix(jargon)) else {
        return shorten(&message.replace("'<EOF>'", "the end"));
    };
    match found.trim_matches(['\'', ' ']) {
        "<EOF>" => "the expression ends too early".to_owned(),
        "=" => "'=' is no operator; write == to compare".to_owned(),
        "and" | "&" => "write && for 'and'".to_owned(),
        "or" | "|" => "write || for 'or'".to_owned(),
        other => format!("'{}' is not expected here", shorten(other)),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(100).collect()
}
