//! Decides whether the arguments have the declared types, and what the call touches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::Call;
use super::parse::Parsed;
use super::refusal::Refusal;
use super::resolve::Resolved;
use crate::digest::Digest;
use crate::envelope::{Code, Trouble};
use crate::event::Stage;
use crate::fold::OpenCall;
use crate::json::Document;
use crate::key::{Access, Key};
use crate::path::{is_plain, project_path};
use crate::section::Toolset;
use crate::tool::{Effect, Fit, Misfit, ToolSpec};

pub(super) fn validate(
    resolved: Resolved,
    parsed: Parsed,
    open: &OpenCall,
) -> Result<Box<Call>, Refusal> {
    let Resolved { spec, place, shown_in } = resolved;
    let mut warnings: Vec<String> = parsed.repaired.map(str::to_owned).into_iter().collect();
    let Taken { args, tree, fit } = taken(&spec, parsed.args, &mut warnings)?;
    let args_hash = Digest::of(&args.canonical());
    let keys = footprint(&spec, &args)?;
    Ok(Box::new(Call {
        id: open.raw.id,
        place,
        args,
        tree,
        args_hash,
        rewritten: parsed.repaired.is_some() || fit == Fit::Changed,
        keys,
        warnings,
        actor: open.actor.clone(),
        shown_in,
        from_model: open.turn.is_some(),
        spec,
        judged: None,
    }))
}

/// Arguments as a tool gets them.
struct Taken {
    args: Document,
    tree: OnceLock<Map<String, Value>>,
    fit: Fit,
}

fn taken(
    spec: &ToolSpec,
    mut args: Document,
    warnings: &mut Vec<String>,
) -> Result<Taken, Refusal> {
    if spec.input_shape.is_empty() && !args.is_empty() {
        return Err(invalid("Tool does not accept any arguments. Send {}."));
    }
    if let Some(domain) = &spec.domain {
        domain.action(&args)?;
        domain.field(&args)?;
    }
    let (mut tree, mut fit) = (OnceLock::new(), Fit::AsWritten);
    if !spec.input_shape.fits(&args) || !paths_are_normal(spec, &args) {
        let changed;
        (changed, fit) = fitted(spec, args.to_map(), warnings)?;
        args = Document::from(&changed);
        tree = OnceLock::from(changed);
    }
    if let Some(domain) = &spec.domain {
        domain.complete(&args)?;
    }
    Ok(Taken { args, tree, fit })
}

/// The arguments as a tool would get them, for whoever writes some by hand; or what is wrong with
/// them.
pub fn fitting(spec: &ToolSpec, args: &Map<String, Value>) -> Result<Map<String, Value>, Refusal> {
    let taken = taken(spec, Document::from(args), &mut Vec::new())?;
    footprint(spec, &taken.args)?;
    Ok(taken.args.to_map())
}

/// Whether a blank text was taken for null somewhere.
fn became_null(written: &Value, fitted: &Value) -> bool {
    match (written, fitted) {
        (Value::String(_), Value::Null) => true,
        (Value::Array(written), Value::Array(fitted)) => {
            written.iter().zip(fitted).any(|(written, fitted)| became_null(written, fitted))
        }
        (Value::Object(written), Value::Object(fitted)) => written.iter().any(|(key, written)| {
            fitted.get(key).is_some_and(|fitted| became_null(written, fitted))
        }),
        _ => false,
    }
}

/// The arguments made to fit, with every path in its one form.
fn fitted(
    spec: &ToolSpec,
    args: Map<String, Value>,
    warnings: &mut Vec<String>,
) -> Result<(Map<String, Value>, Fit), Refusal> {
    let mut args = Value::Object(args);
    let misfitting = |misfits: Vec<Misfit>| {
        Refusal::of(Stage::Validate, misfits.into_iter().map(Trouble::from).collect())
    };
    let written = (spec.effect == Effect::External).then(|| args.clone());
    let mut fit = spec.input_shape.fit(&mut args, warnings).map_err(misfitting)?;
    if written.is_some_and(|written| became_null(&written, &args)) {
        return Err(invalid(
            "A blank text is not null. Nothing is guessed for this tool: send null.",
        ));
    }
    let mut moved = Fit::AsWritten;
    if let Value::Object(args) = &mut args {
        moved = normalise_paths(spec, args)?;
    }
    if moved == Fit::Changed {
        // The tool gets the path in its one form, so it is that form which must fit the type.
        spec.input_shape.fit(&mut args, warnings).map_err(misfitting)?;
        fit = moved;
    }
    let Value::Object(args) = args else { return Err(invalid("Send one JSON object.")) };
    Ok((args, fit))
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(Stage::Validate, Trouble::new(Code::ARGUMENTS_INVALID, message))
}

/// Whether every path is in its one form already.
fn paths_are_normal(spec: &ToolSpec, args: &Document) -> bool {
    spec.paths.iter().all(|argument| {
        args.text(&argument.field).is_none_or(|given| {
            let path = || project_path(given, argument.mount.as_deref());
            is_plain(given) || path().is_ok_and(|path| path == given)
        })
    })
}

/// Brings every path into its one form, so that policy and tool cannot see different files.
fn normalise_paths(spec: &ToolSpec, args: &mut Map<String, Value>) -> Result<Fit, Refusal> {
    let mut fit = Fit::AsWritten;
    for argument in &spec.paths {
        let Some(Value::String(given)) = args.get_mut(&argument.field) else { continue };
        let path = project_path(given, argument.mount.as_deref()).map_err(|refusal| {
            let message = format!("{}: {refusal}.", argument.field);
            let trouble = Trouble::new(Code::ARGUMENTS_INVALID, message).at(&argument.field);
            Refusal::new(Stage::Validate, trouble)
        })?;
        if *given != path {
            (*given, fit) = (path, Fit::Changed);
        }
    }
    Ok(fit)
}

/// What the call touches, reads first. A tool that cannot say is not run.
fn footprint(spec: &ToolSpec, args: &Document) -> Result<Vec<(Access, Key)>, Refusal> {
    let Some(touches) = &spec.touches else { return Ok(Vec::new()) };
    let keys = catch_unwind(AssertUnwindSafe(|| touches(args)))
        .map_err(|_| invalid("What this call would touch cannot be told; it is not run."))?;
    let mut keys = keys.map_err(|refusal| invalid(&refusal.to_string()))?;
    keys.sort_by_key(|(access, _)| *access);
    Ok(keys)
}

/// Refuses a write to a file that shows the state of another section.
pub(super) fn keeps_out(toolset: &Toolset, call: &Call) -> Result<(), Refusal> {
    let writes = call.keys.iter().filter(|(access, _)| *access == Access::Write);
    for (_, key) in writes {
        if toolset.shows_another(call.place, key) {
            let name = key.name();
            return Err(invalid(&format!(
                "{name} is kept by other tools and cannot be written directly. Use those tools."
            )));
        }
    }
    Ok(())
}
