//! Reads the text of the arguments as one JSON object of bounded size.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::envelope::{Code, Trouble};
use crate::event::{RawCall, Stage};
use crate::json::{Document, inexact_number, parse_strict};
use crate::limits::Limits;
use crate::tool::{Effect, ToolSpec};

/// Arguments as JSON, with what was repaired to get there.
pub(super) struct Parsed {
    pub(super) args: Document,
    pub(super) repaired: Option<&'static str>,
}

/// Reads the arguments for a tool. One that takes none leaves nothing to guess.
pub(super) fn parse_for(
    raw: &RawCall,
    spec: &ToolSpec,
    limits: &Limits,
) -> Result<Parsed, Refusal> {
    let effect = match is_blank(&raw.args) && spec.input_shape.is_empty() {
        true => Effect::Read,
        false => spec.effect,
    };
    parse(raw, effect, limits)
}

/// Whether a text says that there are no arguments. Some servers write `null` then.
fn is_blank(text: &str) -> bool {
    matches!(text.trim(), "" | "null")
}

/// Reads the arguments. Blank text and `null` mean no arguments, and a code fence and double encoding
/// are repaired, except that nothing is guessed for an external tool. Numbers reach tools that are not
/// our own exactly as they are written.
pub(super) fn parse(raw: &RawCall, effect: Effect, limits: &Limits) -> Result<Parsed, Refusal> {
    let text = raw.args.as_str();
    let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if bytes > limits.args_bytes_max {
        let max = limits.args_bytes_max;
        let message =
            format!("The arguments have {bytes} bytes; at most {max} are taken. Send less.");
        return Err(Refusal::new(Stage::Parse, Trouble::new(Code::ARGUMENTS_TOO_LARGE, message)));
    }
    if is_blank(text) {
        return match effect {
            Effect::External => Err(unreadable(
                "it is empty, and nothing is guessed for this tool; send {} for none",
            )),
            Effect::Read | Effect::Staged | Effect::Idempotent => {
                Ok(Parsed { args: Document::default(), repaired: None })
            }
        };
    }
    // Staged tools are our own, and count as we do.
    if effect != Effect::Staged
        && let Some(number) = inexact_number(text)
    {
        return Err(inexact(number));
    }
    if let Some(args) = Document::read(text, limits) {
        return Ok(Parsed { args, repaired: None });
    }
    if let Ok(Value::Object(args)) = parse_strict(text, limits) {
        return Ok(Parsed { args: Document::from(&args), repaired: None });
    }
    match repair(text, limits) {
        Ok((args, repaired)) if effect != Effect::External => {
            // Numbers within a text were not looked at before.
            let inner = serde_json::from_str::<String>(text).unwrap_or_default();
            if let Some(number) = inexact_number(&inner).filter(|_| effect != Effect::Staged) {
                return Err(inexact(number));
            }
            Ok(Parsed { args: Document::from(&args), repaired: Some(repaired) })
        }
        Ok(_) => Err(unreadable("send plain JSON: nothing is guessed for this tool")),
        Err(reason) => Err(unreadable(&reason)),
    }
}

/// Arguments that are no object as they stand, as they are understood where something is guessed.
pub fn mended(text: &str, limits: &Limits) -> Option<Map<String, Value>> {
    repair(text, limits).ok().map(|(args, _)| args)
}

/// An object with how it was come by, or why there is none.
fn repair(text: &str, limits: &Limits) -> Result<(Map<String, Value>, &'static str), String> {
    match parse_strict(text, limits) {
        Ok(other) => {
            let inner = other.as_str().and_then(|inner| parse_strict(inner, limits).ok());
            let args = inner.and_then(object).ok_or_else(|| "it is no object".to_owned())?;
            Ok((args, "arguments were encoded twice"))
        }
        Err(refusal) => {
            let args = fenced(text, limits).ok_or_else(|| refusal.to_string())?;
            Ok((args, "arguments stood in a code fence"))
        }
    }
}

fn inexact(number: &str) -> Refusal {
    /// Characters of the number that are shown.
    const NUMBER_CHARS_MAX: usize = 40;
    let shown: String = number.chars().take(NUMBER_CHARS_MAX).collect();
    let message = format!(
        "The number {shown} cannot be passed on exactly as it is written. Send it with at most 15 \
         digits, or as a text if the tool takes one."
    );
    Refusal::new(Stage::Parse, Trouble::new(Code::ARGUMENTS_INVALID, message))
}

fn unreadable(reason: &str) -> Refusal {
    let message =
        format!("The arguments are not one JSON object: {reason}. Send {{\"name\": value, …}}.");
    Refusal::new(Stage::Parse, Trouble::new(Code::ARGUMENTS_JSON_PARSE_ERROR, message))
}

/// An object inside one code fence with nothing around it.
fn fenced(text: &str, limits: &Limits) -> Option<Map<String, Value>> {
    let body = text.trim().strip_prefix("```")?.strip_suffix("```")?;
    let (language, body) = body.split_once('\n')?;
    if !language.trim().chars().all(|c| c.is_ascii_alphanumeric()) || body.contains("```") {
        return None;
    }
    object(parse_strict(body.trim(), limits).ok()?)
}

fn object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(args) = value { Some(args) } else { None }
}
