//! Flattens a configuration into one value per key path, with the built-in defaults filled in.
//!
//! Digests and differences are made from this form, so they cover every key of the schema without a
//! list of their own.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::model::{NamesText, ToolCallingText};
use super::read::schema;
use super::{
    AgentText, ConditionText, ModelText, PackName, ServerText, SettingsText, ToolsText,
    TransitionText, Transport, Version, WebText,
};

/// One step of a path into a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// A key of a map.
    Key(String),
    /// A place in a list, from zero.
    Item(usize),
}

/// The path of a value in a configuration, shown like `policies[0].rule.ask`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<PathStep>);

impl KeyPath {
    /// The path of something inside.
    pub(super) fn with(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    pub(super) fn key(&self, key: &str) -> Self {
        self.with(PathStep::Key(key.to_owned()))
    }

    pub(super) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// The path as a JSON pointer, which unlike the shown form no key can imitate.
    fn pointer(&self) -> String {
        let mut out = String::new();
        for step in &self.0 {
            out.push('/');
            match step {
                PathStep::Key(key) => out.push_str(&key.replace('~', "~0").replace('/', "~1")),
                PathStep::Item(at) => out.push_str(&at.to_string()),
            }
        }
        out
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if nth == 0 => f.write_str(key)?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Item(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

/// The values of a configuration by their paths. A list without maps in it is one value, and so is an
/// empty map.
pub(super) fn flat_values(whole: &Value) -> BTreeMap<KeyPath, Value> {
    let mut found = BTreeMap::new();
    flatten(KeyPath::default(), whole, &mut found);
    found
}

fn flatten(path: KeyPath, value: &Value, found: &mut BTreeMap<KeyPath, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(key, value)| flatten(path.key(key), value, found));
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, item) in items.iter().enumerate() {
                flatten(path.with(PathStep::Item(at)), item, found);
            }
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            found.insert(path, value.clone());
        }
    }
}

/// One JSON object of some values, by their pointers.
pub(super) fn by_pointer<'a>(values: impl Iterator<Item = (&'a KeyPath, &'a Value)>) -> Value {
    Value::Object(values.map(|(path, value)| (path.pointer(), value.clone())).collect())
}

/// A configuration as JSON in which every key of the schema appears; what nothing is said of is
/// null. Secret references appear as they are written and literal secrets as the word `literal`.
pub(super) fn complete(text: &AgentText) -> Value {
    let filled = with_defaults(text.clone());
    let mut whole = serde_json::to_value(&filled).unwrap_or_default();
    for (name, server) in &filled.mcp_servers {
        let env = whole.pointer_mut(&format!("/mcp_servers/{name}/env"));
        let Some(Value::Object(env)) = env else { continue };
        // A plain variable can decide which code a program loads or where it connects
        // (`npm_config_registry`, `API_HOST`), so its value counts unless it looks like a secret.
        for (variable, secret) in &server.env {
            if let Some(plain) = secret.plain_variable(variable) {
                env.insert(variable.clone(), plain.into());
            }
        }
    }
    fill(&mut whole, schema());
    whole
}

/// Adds every property of the schema that a value does not have, as null.
fn fill(value: &mut Value, form: &Value) {
    let form = fitting(value, form);
    match value {
        Value::Object(map) => {
            let properties = form.get("properties").and_then(Value::as_object);
            for (key, form) in properties.into_iter().flatten() {
                // A map of any keys has no value of its own, so that its first key is one change.
                if form.get("additionalProperties") != Some(&Value::Bool(true)) {
                    map.entry(key.clone()).or_insert(Value::Null);
                }
            }
            for (key, value) in map {
                if let Some(form) = form_of_key(form, key) {
                    fill(value, form);
                }
            }
        }
        Value::Array(items) => {
            if let Some(form) = form.get("items") {
                items.iter_mut().for_each(|item| fill(item, form));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The schema of what stands under a key.
pub(super) fn form_of_key<'a>(form: &'a Value, key: &str) -> Option<&'a Value> {
    let own = form.get("properties").and_then(|properties| properties.get(key));
    let patterns = form.get("patternProperties").and_then(Value::as_object);
    let pattern = patterns.and_then(|patterns| patterns.values().next());
    own.or(pattern).or_else(|| form.get("additionalProperties").filter(|form| form.is_object()))
}

/// The schema without references, and of several forms the one for a value of this type.
pub(super) fn fitting<'a>(value: &Value, form: &'a Value) -> &'a Value {
    if let Some(name) = form.get("$ref").and_then(Value::as_str) {
        let target = name.strip_prefix('#').and_then(|pointer| schema().pointer(pointer));
        return target.map_or(form, |target| fitting(value, target));
    }
    let Some(forms) = form.get("anyOf").and_then(Value::as_array) else { return form };
    let fits = |form: &&Value| match value {
        Value::Object(_) => form.get("properties").is_some(),
        Value::Array(_) => form.get("items").is_some(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    forms.iter().map(|form| fitting(value, form)).find(fits).unwrap_or(form)
}

/// The configuration with built-in defaults where nothing is said, and with one spelling where there
/// are several.
fn with_defaults(mut text: AgentText) -> AgentText {
    text.version.get_or_insert(Version::One);
    text.settings = settings_with_defaults(text.settings);
    text.packs.get_or_insert_with(|| PackName::DEFAULT.to_vec());
    text.planning.get_or_insert_default();
    text.memory.get_or_insert_default();
    text.issues.get_or_insert_default();
    text.self_authoring.get_or_insert_default();
    text.catalogue.get_or_insert_default();
    let web = text.web.take().unwrap_or_default();
    text.web =
        Some(WebText { searches_max: Some(web.searches()), pages_max: Some(web.pages()), ..web });
    // The order of phases has a meaning only for where a session starts.
    let first = text.phases.keys().next().cloned();
    text.default_phase = text.default_phase.or(first);
    for phase in text.phases.values_mut() {
        phase.tools = phase.tools.take().map(|tools| ToolsText::Full(tools.full()));
        for transition in &mut phase.transitions {
            if let TransitionText::To(to) = transition {
                let (when, otherwise) = (None, String::new());
                *transition =
                    TransitionText::When(ConditionText { to: to.clone(), when, otherwise });
            }
        }
    }
    text.mcp_servers.values_mut().for_each(server_with_defaults);
    text.models.values_mut().for_each(model_with_defaults);
    names_as_lists(text.tool_calling.get_or_insert_default());
    text
}

fn settings_with_defaults(text: SettingsText) -> SettingsText {
    let own = text.settings();
    SettingsText {
        auto_pilot: Some(own.auto_pilot),
        stop_only_on_complete: Some(own.stop_only_on_complete),
        stop_after_phase_change: Some(own.stop_after_phase_change),
        max_context_tokens: Some(own.max_context_tokens),
        max_tool_calls_per_iteration: Some(own.max_tool_calls_per_iteration),
        tool_args_max_chars: Some(own.tool_args_max_chars),
        tool_result_max_chars: Some(own.tool_result_max_chars),
        stream_console_updates: Some(own.stream_console_updates),
        summary_max_chars: Some(own.summary_max_chars),
        ..text
    }
}

fn server_with_defaults(server: &mut ServerText) {
    let transport = server.transport();
    let same = if transport == Transport::Http { Transport::StreamableHttp } else { transport };
    server.transport = Some(same);
    if same == Transport::Stdio {
        server.sandbox.get_or_insert_default();
    }
}

fn model_with_defaults(model: &mut ModelText) {
    let known = model.provider_or_default().known();
    model.provider.get_or_insert(known.provider);
    model.base_url.get_or_insert_with(|| known.base_url.to_owned());
    model.api_prefix.get_or_insert_with(|| known.api_prefix.to_owned());
    model.presets.as_mut().map(as_list);
    names_as_lists(model.tool_calling.get_or_insert_default());
}

fn names_as_lists(calling: &mut ToolCallingText) {
    let lists = [
        &mut calling.tool_allowlist,
        &mut calling.tool_denylist,
        &mut calling.message_transforms,
        &mut calling.tool_transforms,
        &mut calling.response_transforms,
        &mut calling.tool_call_transforms,
        &mut calling.tool_result_transforms,
    ];
    lists.into_iter().flatten().for_each(as_list);
}

fn as_list(names: &mut NamesText) {
    *names = NamesText::List(names.names().into_iter().map(str::to_owned).collect());
}
