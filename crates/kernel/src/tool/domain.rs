//! Decides what a domain tool is: one tool with several actions, whose errors name what is allowed.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::spec::SpecRefusal;
use crate::envelope::{Code, Trouble};
use crate::flow::{FlowLabels, Sends};
use crate::json::{Document, Part};
use crate::names::ToolName;

/// The argument that names the action; always the first one.
pub const ACTION: &str = "action";

/// The argument that names the field, in a domain of fields.
const FIELD: &str = "field";

/// What a tool with several actions can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Domain {
    /// Its actions, in the order in which errors list them.
    pub actions: Vec<Action>,
    /// Actions that are not offered here, each with what would make it be.
    pub absent: Vec<(String, String)>,
    /// The fields that can be named, for a domain of fields.
    pub fields: Vec<String>,
    /// Where it works.
    #[serde(skip_serializing_if = "Setting::is_anywhere")]
    pub setting: Setting,
}

/// Where a domain tool works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// In every session.
    #[default]
    Anywhere,
    /// In a group conversation that speaks as an agent.
    AgentInGroup,
}

impl Setting {
    fn is_anywhere(&self) -> bool {
        *self == Self::Anywhere
    }
}

/// One action of a domain tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Action {
    /// Its name.
    pub name: String,
    /// What it does, in a few words for the model.
    pub about: String,
    /// The arguments it cannot do without: neither missing, nor null, nor blank.
    pub required: Vec<String>,
    /// What it brings into a session and where it sends, where it is not as the whole tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<FlowLabels>,
}

/// A call that does not fit its domain, with what the error says besides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unfit {
    pub(crate) trouble: Trouble,
    /// Whether the argument it concerns is missing.
    pub(crate) missing: bool,
}

impl Unfit {
    /// What the error says besides.
    pub(crate) fn data(&self) -> Value {
        match &self.trouble.path {
            Some(field) if self.missing => json!({ "required_param": field }),
            _ => Value::Null,
        }
    }
}

impl Domain {
    /// The names of the actions, in order.
    pub fn names(&self) -> Vec<String> {
        self.actions.iter().map(|action| action.name.clone()).collect()
    }

    /// The schema of the argument `action`.
    pub(super) fn schema(&self) -> Value {
        let told = self.actions.iter().map(|Action { name, about, required, .. }| {
            let needs = if required.is_empty() { "" } else { " Needs " };
            let stop = if required.is_empty() { "" } else { "." };
            format!("{name}: {about}{needs}{}{stop}", required.join(", "))
        });
        let told: Vec<String> = told.collect();
        json!({ "type": "string", "enum": self.names(), "description": told.join(" ") })
    }

    /// The action of a call. It is looked at before everything else.
    pub(crate) fn action(&self, args: &Document) -> Result<&Action, Unfit> {
        let Some(given) = args.get(ACTION).filter(|part| !blank(part)) else {
            return Err(self.missing(ACTION, "action is required".to_owned()));
        };
        let given = given.as_str().map_or_else(|| given.to_value().to_string(), str::to_owned);
        if let Some(action) = self.actions.iter().find(|action| action.name == given) {
            return Ok(action);
        }
        let given: String = given.chars().take(80).collect();
        let absent = self.absent.iter().find(|(name, _)| *name == given);
        let message = match absent {
            Some((_, why)) => format!("Action '{given}' is not available. {why}"),
            None => format!("Invalid action '{given}'"),
        };
        Err(Unfit { trouble: self.unfit(ACTION, message), missing: false })
    }

    /// Whether a call of an action on a field names one that there is, where it names one. It is
    /// looked at after the action and before everything else.
    pub(crate) fn field(&self, args: &Document) -> Result<(), Unfit> {
        let Action { required, .. } = self.action(args)?;
        let named = required.iter().any(|name| name == FIELD);
        let given = args.get(FIELD).filter(|part| named && !blank(part));
        let Some(given) = given else { return Ok(()) };
        let given = given.as_str().map_or_else(|| given.to_value().to_string(), str::to_owned);
        if self.fields.contains(&given) {
            return Ok(());
        }
        let given: String = given.chars().take(80).collect();
        let trouble = Trouble::new(Code::ARGUMENTS_INVALID, format!("Invalid field '{given}'"));
        let trouble = trouble.at(FIELD).allowing(self.fields.clone());
        Err(Unfit { trouble, missing: false })
    }

    /// Whether a call has what its action cannot do without.
    pub(crate) fn complete(&self, args: &Document) -> Result<(), Unfit> {
        let Action { name, required, .. } = self.action(args)?;
        let missing = |field: &&String| args.get(field).is_none_or(|part| blank(&part));
        match required.iter().find(missing) {
            None => Ok(()),
            // An action on a field says it as its kind always did.
            Some(field) if required.iter().any(|name| name == FIELD) => {
                Err(self.missing(field, format!("{field} required for {name}")))
            }
            Some(field) => {
                Err(self.missing(field, format!("{field} is required for {name} action")))
            }
        }
    }

    fn missing(&self, field: &str, message: String) -> Unfit {
        let mut trouble = self.unfit(field, message);
        trouble.allowed = trouble.allowed.filter(|_| field == ACTION);
        Unfit { trouble, missing: true }
    }

    fn unfit(&self, path: &str, message: String) -> Trouble {
        Trouble::new(Code::ARGUMENTS_INVALID, message).at(path).allowing(self.names())
    }

    /// The data of an error: what happened, and for a call that was wrong what is allowed.
    /// `more` are fields of its own.
    pub fn error(&self, action: Option<&str>, errors: &[Trouble], more: &Value) -> Value {
        let first = errors.first();
        let message = first.map_or("", |trouble| trouble.message.as_str());
        let mut data = Map::new();
        data.insert("type".to_owned(), "error".into());
        data.insert("error".to_owned(), message.into());
        data.insert(ACTION.to_owned(), action.into());
        for (name, value) in more.as_object().into_iter().flatten() {
            data.insert(name.clone(), value.clone());
        }
        let wrong = [Code::ARGUMENTS_INVALID, Code::ARGUMENTS_JSON_PARSE_ERROR];
        if first.is_some_and(|trouble| wrong.contains(&trouble.code)) {
            data.insert("allowed_actions".to_owned(), self.names().into());
            if !self.fields.is_empty() {
                data.insert("allowed_fields".to_owned(), self.fields.clone().into());
            }
        }
        Value::Object(data)
    }
}

fn blank(part: &Part<'_>) -> bool {
    matches!(part, Part::Null) || part.as_str().is_some_and(|text| text.trim().is_empty())
}

/// Whether the arguments that labels name are there.
pub(super) fn check_labels(
    tool: &ToolName,
    input: &Value,
    labels: Option<&FlowLabels>,
    domain: Option<&Domain>,
) -> Result<(), SpecRefusal> {
    let actions = domain.into_iter().flat_map(|domain| &domain.actions);
    for labels in labels.into_iter().chain(actions.filter_map(|action| action.labels.as_ref())) {
        let Sends::To(pointer) = &labels.sends else { continue };
        let first = pointer.strip_prefix('/').and_then(|rest| rest.split('/').next());
        let fields = input.get("properties").and_then(Value::as_object);
        if !first.is_some_and(|first| fields.is_some_and(|fields| fields.contains_key(first))) {
            return Err(SpecRefusal::Labels { tool: tool.clone(), pointer: pointer.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain() -> Domain {
        let action = |name: &str, required: &[&str]| Action {
            name: name.to_owned(),
            about: format!("Does {name}."),
            required: required.iter().map(|field| (*field).to_owned()).collect(),
            labels: None,
        };
        Domain {
            actions: vec![action("search", &["query"]), action("fetch", &["url"])],
            absent: vec![("extract".to_owned(), "Set web.extract.".to_owned())],
            fields: Vec::new(),
            setting: Setting::Anywhere,
        }
    }

    fn told(args: Value) -> Option<Value> {
        let domain = domain();
        let args = Document::from(args.as_object().unwrap());
        let unfit = domain.complete(&args).err()?;
        let action = args.text(ACTION).filter(|name| domain.names().iter().any(|n| n == name));
        let more = unfit.data();
        Some(domain.error(action, &[unfit.trouble], &more))
    }

    #[test]
    fn a_call_that_does_not_fit_is_told_what_would() {
        let all = json!(["search", "fetch"]);
        for (args, data) in [
            (
                json!({ "action": "crawl" }),
                json!({ "type": "error", "error": "Invalid action 'crawl'", "action": null,
                        "allowed_actions": all }),
            ),
            (
                json!({ "action": 5 }),
                json!({ "type": "error", "error": "Invalid action '5'", "action": null,
                        "allowed_actions": all }),
            ),
            (
                json!({ "query": "x" }),
                json!({ "type": "error", "error": "action is required", "action": null,
                        "required_param": "action", "allowed_actions": all }),
            ),
            (
                json!({ "action": "search", "query": " \n" }),
                json!({ "type": "error", "error": "query is required for search action",
                        "action": "search", "required_param": "query", "allowed_actions": all }),
            ),
            (
                json!({ "action": "fetch", "url": null }),
                json!({ "type": "error", "error": "url is required for fetch action",
                        "action": "fetch", "required_param": "url", "allowed_actions": all }),
            ),
            (
                json!({ "action": "extract" }),
                json!({ "type": "error", "action": null, "allowed_actions": all,
                        "error": "Action 'extract' is not available. Set web.extract." }),
            ),
        ] {
            assert_eq!(told(args), Some(data));
        }
        assert_eq!(told(json!({ "action": "search", "query": "x" })), None);
    }

    #[test]
    fn what_the_world_refuses_names_no_actions() {
        let trouble = Trouble::new(Code::TOOL_FAILED, "HTTP 500");
        let data = domain().error(Some("search"), &[trouble], &json!({ "query": "x" }));
        let expected =
            json!({ "type": "error", "error": "HTTP 500", "action": "search", "query": "x" });
        assert_eq!(data, expected);
    }

    #[test]
    fn the_schema_tells_every_action() {
        let schema = domain().schema();
        assert_eq!(schema["enum"], json!(["search", "fetch"]));
        assert_eq!(
            schema["description"],
            "search: Does search. Needs query. fetch: Does fetch. Needs url."
        );
    }
}
