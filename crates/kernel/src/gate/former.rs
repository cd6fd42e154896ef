//! Decides what a call by a former name of a tool means. Each of the former tools did one thing, so
//! its calls name no action: the name implies it.

use serde_json::{Map, Value};

use super::parse::{Parsed, parse};
use super::refusal::{self, Refusal};
use crate::agent::Agent;
use crate::envelope::{Code, Trouble};
use crate::event::{RawCall, Stage};
use crate::json::{Document, Part};
use crate::tool::{ACTION, Effect, ToolSpec};

/// What calls of a former tool were like.
struct Form {
    name: &'static str,
    action: &'static str,
    /// The fields that its arguments were named after; each had the value. Without any in a call the
    /// first one is meant.
    fields: &'static [&'static str],
}

const FORMS: &[Form] = &[
    Form { name: "ViewSystemPromptTool", action: "view", fields: &["system_prompt"] },
    Form { name: "UpdateSystemPromptTool", action: "update", fields: &["system_prompt", "name"] },
    Form { name: "WebSearchTool", action: "search", fields: &[] },
    Form { name: "WebFetchTool", action: "fetch", fields: &[] },
];

const TOLD: &str =
    "a former tool was called in its old form; call the tool of today, with its action";

/// The form that a call is in, where it is one of a former tool and names no action.
fn form(name: &str, spec: &ToolSpec, args: &Document) -> Option<&'static Form> {
    let domain = spec.domain.as_ref()?;
    let named = args.get(ACTION).is_some_and(|part| !matches!(part, Part::Null));
    let form = FORMS.iter().find(|form| form.name == name && !named)?;
    let known = domain.actions.iter().map(|action| &action.name);
    let mut known = known.chain(domain.absent.iter().map(|(action, _)| action));
    known.any(|action| action == form.action).then_some(form)
}

/// Puts a call in the form of today.
pub(super) fn translate(raw: &RawCall, spec: &ToolSpec, parsed: Parsed) -> Result<Parsed, Refusal> {
    let Some(form) = form(&raw.name, spec, &parsed.args) else { return Ok(parsed) };
    let mut args = parsed.args.to_map();
    args.insert(ACTION.to_owned(), form.action.into());
    if !args.contains_key("field") {
        name_field(form, &mut args)?;
    }
    Ok(Parsed { args: Document::from(&args), repaired: parsed.repaired.or(Some(TOLD)) })
}

/// An argument that was named after a field is that field with its value.
fn name_field(form: &Form, args: &mut Map<String, Value>) -> Result<(), Refusal> {
    let given = |field: &&&str| args.get(**field).is_some_and(|value| !blank(value));
    let given: Vec<&str> = form.fields.iter().filter(given).copied().collect();
    if given.len() > 1 {
        let message = format!(
            "{} can be changed one at a time: send a call for each, with action, field and value.",
            given.join(" and ")
        );
        let trouble = Trouble::new(Code::ARGUMENTS_INVALID, message);
        return Err(Refusal::new(Stage::Validate, trouble));
    }
    let Some(field) = given.first().or(form.fields.first()) else { return Ok(()) };
    args.insert("field".to_owned(), (*field).into());
    let values = form.fields.iter().filter_map(|field| Some((*field, args.remove(*field)?)));
    let values: Vec<(&str, Value)> = values.collect();
    let value = values.into_iter().find(|(name, _)| name == field);
    if let Some((_, value)) = value {
        args.insert("value".to_owned(), value);
    }
    Ok(())
}

/// A blank text kept what there was.
fn blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The action that a call of a domain tool names, or that its former name implies; `None` when the
/// tool has no such action, or the arguments cannot be read.
pub fn meant_action(agent: &Agent, raw: &RawCall) -> Option<String> {
    refusal::action(agent, raw).or_else(|| {
        let entry = agent.toolset.entries().get(agent.toolset.find(&raw.name)?)?;
        let parsed = parse(raw, Effect::Read, &agent.limits).ok()?;
        form(&raw.name, &entry.spec, &parsed.args).map(|form| form.action.to_owned())
    })
}
