//! Decides what may be registered as a tool.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::domain::{ACTION, Action, Domain, check_labels};
use super::misfit::Misfit;
use super::schema::SchemaRefusal;
use super::shape::{Fit, Shape};
use crate::digest::Digest;
use crate::flow::{FlowLabels, Sends};
use crate::json::Document;
use crate::key::{Access, Key, KeyRefusal};
use crate::names::{GroupName, NameRefusal, ToolName};
use crate::reserved::person_only_act;

/// Longest description of a tool or an example, in characters of any script.
pub const ABOUT_CHARS_MAX: usize = 200;

/// Longest description of a tool of an MCP server, which others wrote.
pub(super) const REMOTE_ABOUT_CHARS_MAX: usize = 4_096;

/// What rollback and resume can promise of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing; may run again freely.
    Read,
    /// All its changes are staged in our store or files; runs exactly once in effect.
    Staged,
    /// Reaches the world, which honours our key; may be sent again with the same key.
    Idempotent,
    /// Reaches the world; runs at most once, and a lost answer is *unknown*.
    External,
}

impl Effect {
    /// The effect as one word, as the log has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Staged => "staged",
            Self::Idempotent => "idempotent",
            Self::External => "external",
        }
    }

    /// Whether a durable intent must precede the effect.
    pub fn needs_intent(self) -> bool {
        matches!(self, Self::Idempotent | Self::External)
    }
}

/// One worked example of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// What it shows.
    pub about: String,
    /// The arguments.
    pub input: Value,
    /// The data of the answer.
    pub output: Value,
}

/// Says purely which keys a call touches. It sees validated arguments.
pub type Touches = Arc<dyn Fn(&Document) -> Result<Vec<(Access, Key)>, KeyRefusal> + Send + Sync>;

/// A registered tool: everything the gate needs to know of it. The handler lives in the runtime.
pub struct ToolSpec {
    /// Its name in configuration and log.
    pub name: ToolName,
    /// The name the model is shown; for tools of our own the same one.
    pub wire: ToolName,
    /// One or two sentences for the model.
    pub about: String,
    /// JSON Schema of the arguments.
    pub input: Value,
    /// JSON Schema of the answer's data.
    pub output: Value,
    /// What rollback and resume can promise.
    pub effect: Effect,
    /// The group a phase grants it by.
    pub group: GroupName,
    /// Other names that resolve to this tool.
    pub aliases: Vec<ToolName>,
    /// Worked examples, checked against both schemas.
    pub examples: Vec<Example>,
    /// Whether a person may override the description.
    pub overridable: bool,
    /// Its actions, when it is a domain tool.
    pub domain: Option<Domain>,
    /// What its calls bring into a session and where they send; actions may have labels of their own.
    pub labels: FlowLabels,
    /// Fingerprint of all of the above: the tool's version.
    pub version: Digest,
    pub(crate) input_shape: Shape,
    pub(crate) output_shape: Shape,
    pub(crate) touches: Option<Touches>,
    pub(crate) paths: Vec<PathArgument>,
}

/// A text argument that names a file: it is brought into one form before anybody looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PathArgument {
    pub(crate) field: String,
    pub(crate) mount: Option<String>,
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolSpec({}, {:?})", self.name, self.effect)
    }
}

impl ToolSpec {
    /// Whether calls of this tool have a footprint.
    pub fn touches_anything(&self) -> bool {
        self.touches.is_some()
    }

    /// What a call with these arguments brings into a session, and where it sends.
    pub fn labels_for(&self, args: &Document) -> &FlowLabels {
        let action = self.domain.as_ref().and_then(|domain| domain.action(args).ok());
        action.and_then(|action| action.labels.as_ref()).unwrap_or(&self.labels)
    }

    /// The labels of every action; those of the tool where it has none.
    pub fn every_label(&self) -> impl Iterator<Item = &FlowLabels> {
        let actions = self.domain.iter().flat_map(|domain| &domain.actions);
        let of_actions = actions.map(|action| action.labels.as_ref().unwrap_or(&self.labels));
        let own = self.domain.is_none().then_some(&self.labels);
        own.into_iter().chain(of_actions)
    }

    /// Whether data has the declared type of the answer.
    pub fn check_output(&self, data: &Value) -> Result<(), Vec<Misfit>> {
        // The answer is checked as it is: coercing it would change what the tool said.
        let mut copy = data.clone();
        self.output_shape.fit(&mut copy, &mut Vec::new()).map(drop)
    }
}

/// Why a tool cannot be registered. Its author reads this.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecRefusal {
    /// The name, group or an alias is not legal.
    #[error("tool {tool:?}")]
    Name {
        /// The tool's name as given.
        tool: String,
        /// What is wrong with it.
        source: NameRefusal,
    },
    /// The name, or an alias, is that of something only a person may do.
    #[error(
        "tool {tool:?}: the name {name:?} is reserved: `{act}` is for a person alone, and no tool may \
         have such a name; give it another one"
    )]
    PersonOnly {
        /// The tool's name as given.
        tool: String,
        /// The name that is reserved.
        name: String,
        /// What only a person may do.
        act: &'static str,
    },
    /// The description is blank or too long.
    #[error("tool {tool}: the description of {of} must have 1 to {max} characters, it has {chars}")]
    About {
        /// The tool.
        tool: ToolName,
        /// The tool itself or one of its examples.
        of: String,
        /// How long it is.
        chars: usize,
        /// How long it may be.
        max: usize,
    },
    /// The schema cannot be enforced.
    #[error("tool {tool}: its schema cannot be used")]
    Schema {
        /// The tool.
        tool: ToolName,
        /// Why not.
        source: SchemaRefusal,
    },
    /// Arguments are always an object.
    #[error("tool {tool}: its parameters must be a record with named fields")]
    NotARecord {
        /// The tool.
        tool: ToolName,
    },
    /// An example is not of the declared types.
    #[error("tool {tool}: example {at} does not fit the {side} type: {misfit}")]
    Example {
        /// The tool.
        tool: ToolName,
        /// Which example, counted from one.
        at: usize,
        /// `params` or `result`.
        side: &'static str,
        /// What does not fit.
        misfit: Misfit,
    },
    /// The actions and the parameters of a domain tool do not go together.
    #[error("tool {tool}: {reason}")]
    Domain {
        /// The tool.
        tool: ToolName,
        /// What does not go together.
        reason: String,
    },
    /// A label names an argument that there is not.
    #[error("tool {tool}: it sends to the argument {pointer:?}, which it does not have")]
    Labels {
        /// The tool.
        tool: ToolName,
        /// What the label says.
        pointer: String,
    },
}

/// A tool being described. Finish with [`SpecDraft::build`].
pub struct SpecDraft {
    name: String,
    /// The name of a tool of a server, which no tool of our own can have.
    remote: Option<ToolName>,
    wire: Option<String>,
    about: String,
    input: Value,
    output: Value,
    effect: Effect,
    group: String,
    aliases: Vec<String>,
    argument_aliases: Vec<(String, String)>,
    examples: Vec<Example>,
    touches: Option<Touches>,
    paths: Vec<PathArgument>,
    overridable: bool,
    domain: Option<Domain>,
    labels: Option<FlowLabels>,
}

impl SpecDraft {
    /// A tool that reads, takes no arguments, answers no data and belongs to the group `tools`.
    pub fn new(name: &str, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            remote: None,
            wire: None,
            about: about.to_owned(),
            input: json!({ "type": "object", "properties": {} }),
            output: json!(true),
            effect: Effect::Read,
            group: "tools".to_owned(),
            aliases: Vec::new(),
            argument_aliases: Vec::new(),
            examples: Vec::new(),
            touches: None,
            paths: Vec::new(),
            overridable: true,
            domain: None,
            labels: None,
        }
    }

    /// A tool of a server, which reaches the world and belongs to the group `mcp`.
    pub fn of_server(name: ToolName, about: &str) -> Self {
        let draft = Self::new(name.as_str(), about).effect(Effect::External).group("mcp");
        Self { remote: Some(name), ..draft }
    }

    /// Another name for the model than the one that follows from the tool's own.
    pub fn shown_as(mut self, name: &str) -> Self {
        self.wire = Some(name.to_owned());
        self
    }

    /// The type of the arguments; its schema is what the model is shown.
    pub fn params<P: JsonSchema>(self) -> Self {
        self.params_schema(schemars::schema_for!(P).to_value())
    }

    /// The type of the answer's data.
    pub fn returns<R: JsonSchema>(self) -> Self {
        self.returns_schema(schemars::schema_for!(R).to_value())
    }

    /// The schema of the arguments, where there is no Rust type for them.
    pub fn params_schema(mut self, schema: Value) -> Self {
        self.input = schema;
        self
    }

    /// The schema of the answer's data, where there is no Rust type for it.
    pub fn returns_schema(mut self, schema: Value) -> Self {
        self.output = schema;
        self
    }

    /// What rollback and resume can promise.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// The group a phase grants it by.
    pub fn group(mut self, group: &str) -> Self {
        group.clone_into(&mut self.group);
        self
    }

    /// Another name that resolves to this tool.
    pub fn alias(mut self, name: &str) -> Self {
        self.aliases.push(name.to_owned());
        self
    }

    /// Another spelling of an argument, by its path: `title` or `steps[].title`.
    pub fn argument_alias(mut self, path: &str, alias: &str) -> Self {
        self.argument_aliases.push((path.to_owned(), alias.to_owned()));
        self
    }

    /// A worked example.
    pub fn example(mut self, about: &str, input: Value, output: Value) -> Self {
        self.examples.push(Example { about: about.to_owned(), input, output });
        self
    }

    /// Which keys a call touches.
    pub fn touches<F>(mut self, touches: F) -> Self
    where
        F: Fn(&Document) -> Result<Vec<(Access, Key)>, KeyRefusal>,
        F: Send + Sync + 'static,
    {
        self.touches = Some(Arc::new(touches));
        self
    }

    /// An argument that names a file of the project, with the mount point it may be written under.
    pub fn path_argument(mut self, field: &str, mount: Option<&str>) -> Self {
        self.paths.push(PathArgument { field: field.to_owned(), mount: mount.map(str::to_owned) });
        self
    }

    /// Nobody may override the description.
    pub fn locked(mut self) -> Self {
        self.overridable = false;
        self
    }

    /// Makes it a domain tool: its first argument is `action`, and every error has a `type` and
    /// names what is allowed.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = Some(domain);
        self
    }

    /// What its calls bring into a session and where they send. Without it a tool that reaches the world
    /// sends its arguments there, and nothing it answers is private or untrusted.
    pub fn labels(mut self, labels: FlowLabels) -> Self {
        self.labels = Some(labels);
        self
    }

    /// Checks everything that can be checked before the first call.
    pub fn build(mut self) -> Result<ToolSpec, SpecRefusal> {
        let given = self.name.clone();
        let named = |source| SpecRefusal::Name { tool: given.clone(), source };
        let name = match &self.remote {
            Some(name) => name.clone(),
            None => ToolName::own(&self.name).map_err(named)?,
        };
        let group = GroupName::parse(&self.group).map_err(named)?;
        let aliases: Result<_, _> = self.aliases.iter().map(|name| ToolName::other(name)).collect();
        let mut aliases: Vec<ToolName> = aliases.map_err(named)?;
        let wire = match &self.wire {
            Some(wire) => ToolName::own(wire).map_err(named)?,
            None => name.on_wire(),
        };
        if name.of_server().is_some() {
            // Both spellings mean the tool, and so does a shorter one that it is shown by.
            aliases.push(name.on_wire());
        }
        if wire != name && !aliases.contains(&wire) {
            aliases.push(wire.clone());
        }
        for shown in [&name, &wire].into_iter().chain(&aliases) {
            let shown = shown.of_server().map_or(shown.as_str(), |(_, tool)| tool);
            if let Some(act) = person_only_act(shown) {
                let name = shown.to_owned();
                return Err(SpecRefusal::PersonOnly { tool: given, name, act });
            }
        }
        let about_max = match name.of_server() {
            Some(_) => REMOTE_ABOUT_CHARS_MAX,
            None => ABOUT_CHARS_MAX,
        };
        let about = checked_about(&name, "the tool", &self.about, about_max)?;

        if let Some(domain) = &self.domain {
            let refused = |reason| SpecRefusal::Domain { tool: name.clone(), reason };
            self.input = with_action(&self.input, domain).map_err(refused)?;
        }
        check_labels(&name, &self.input, self.labels.as_ref(), self.domain.as_ref())?;
        let unusable = |source| SpecRefusal::Schema { tool: name.clone(), source };
        let (input, output) = match &self.remote {
            None => (published(self.input), published(self.output)),
            // What others answer may have fields they did not tell of.
            Some(_) => (published(self.input), self.output),
        };
        if input.get("type") != Some(&json!("object")) {
            return Err(SpecRefusal::NotARecord { tool: name });
        }
        let mut input_shape = Shape::compile(&input).map_err(unusable)?;
        let output_shape = match &self.remote {
            None => Shape::compile(&output),
            Some(_) => Shape::compile_open(&output),
        };
        let output_shape = output_shape.map_err(unusable)?;
        for (path, alias) in &self.argument_aliases {
            input_shape.alias(path, alias).map_err(unusable)?;
        }
        for PathArgument { field, .. } in &self.paths {
            input_shape.check_path(field).map_err(unusable)?;
        }
        check_examples(&name, &self.examples, &input_shape, &output_shape)?;
        let mut described = json!({
            "name": name, "about": about, "input": input, "output": output,
            "effect": self.effect, "group": group, "aliases": aliases,
            "argument_aliases": self.argument_aliases, "examples": self.examples,
            "paths": self.paths, "overridable": self.overridable,
        });
        if let (Some(domain), Value::Object(described)) = (&self.domain, &mut described) {
            described.insert("domain".to_owned(), json!(domain));
        }
        let sends = if self.effect.needs_intent() { Sends::Configured } else { Sends::No };
        let labels = self.labels.unwrap_or(FlowLabels { sends, ..FlowLabels::default() });
        if let (false, Value::Object(described)) = (labels.is_default(), &mut described) {
            described.insert("labels".to_owned(), json!(labels));
        }
        let version = Digest::of_json(&described);
        Ok(ToolSpec {
            name,
            wire,
            about,
            input,
            output,
            effect: self.effect,
            group,
            aliases,
            examples: self.examples,
            overridable: self.overridable,
            domain: self.domain,
            labels,
            version,
            input_shape,
            output_shape,
            touches: self.touches,
            paths: self.paths,
        })
    }
}

/// The parameters of a domain tool with `action` in front. Which of the others a call needs depends
/// on its action, so none of them is required by the schema.
fn with_action(params: &Value, domain: &Domain) -> Result<Value, String> {
    let none = Map::new();
    let fields = params.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = params.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if let Some(field) = required.first() {
        return Err(format!("{field} must be optional: say which actions require it"));
    }
    if fields.contains_key(ACTION) {
        return Err("the parameter action is there by itself: leave it out".to_owned());
    }
    for (at, Action { name, about, required, .. }) in domain.actions.iter().enumerate() {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let twice = domain.actions.iter().take(at).any(|earlier| earlier.name == *name);
        if !(1..=64).contains(&name.len()) || !name.bytes().all(legal) || twice {
            return Err(format!("{name:?} cannot be the name of an action, or is there twice"));
        }
        if about.trim().is_empty() {
            return Err(format!("action {name} has no description"));
        }
        if let Some(field) = required.iter().find(|field| !fields.contains_key(*field)) {
            return Err(format!("action {name} requires {field}, which is no parameter"));
        }
    }
    if domain.actions.is_empty() {
        return Err("a domain has at least one action".to_owned());
    }
    let mut properties = Map::new();
    properties.insert(ACTION.to_owned(), domain.schema());
    properties.extend(fields.iter().map(|(name, schema)| (name.clone(), schema.clone())));
    let mut params = params.as_object().cloned().unwrap_or_default();
    params.insert("properties".to_owned(), Value::Object(properties));
    params.insert("required".to_owned(), json!([ACTION]));
    Ok(Value::Object(params))
}

fn checked_about(
    tool: &ToolName,
    of: &str,
    about: &str,
    max: usize,
) -> Result<String, SpecRefusal> {
    let about = about.trim();
    let chars = about.chars().count();
    if (1..=max).contains(&chars) {
        return Ok(about.to_owned());
    }
    Err(SpecRefusal::About { tool: tool.clone(), of: of.to_owned(), chars, max })
}

fn check_examples(
    tool: &ToolName,
    examples: &[Example],
    input: &Shape,
    output: &Shape,
) -> Result<(), SpecRefusal> {
    for (at, example) in examples.iter().enumerate() {
        let at = at + 1;
        checked_about(tool, &format!("example {at}"), &example.about, ABOUT_CHARS_MAX)?;
        for (side, shape, value) in
            [("params", input, &example.input), ("result", output, &example.output)]
        {
            // An example shows the type itself, so nothing in it may need coercing.
            let mut fitted = value.clone();
            let fit = shape.fit(&mut fitted, &mut Vec::new());
            let misfit = match fit {
                Err(misfits) => misfits.into_iter().next(),
                Ok(Fit::Changed) => Some(Misfit {
                    path: String::new(),
                    problem: super::Problem::WrongType,
                    message: format!("write it as {fitted}"),
                    allowed: Vec::new(),
                }),
                Ok(Fit::AsWritten) => None,
            };
            if let Some(misfit) = misfit {
                return Err(SpecRefusal::Example { tool: tool.clone(), at, side, misfit });
            }
        }
    }
    Ok(())
}

/// The schema as it is shown: without noise, and saying outright that other fields are refused.
fn published(mut schema: Value) -> Value {
    if let Some(map) = schema.as_object_mut() {
        // The name and the docs of a Rust type say nothing to a model.
        for noise in ["$schema", "title", "description"] {
            map.shift_remove(noise);
        }
        // Some providers want to see that there are no fields.
        if map.get("type") == Some(&json!("object")) && !map.contains_key("properties") {
            map.insert("properties".to_owned(), json!({}));
        }
    }
    close_objects(&mut schema);
    schema
}

/// Says of every record in a schema that other fields are refused. Only schemas are walked: a
/// field may be named like a keyword, and a default may look like a schema.
fn close_objects(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("properties").is_some_and(Value::is_object)
        && !map.contains_key("additionalProperties")
    {
        map.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    for (keyword, inner) in map.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                schemas.values_mut().for_each(close_objects);
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(close_objects);
            }
            ("items" | "additionalProperties", schema) => close_objects(schema),
            _ => {}
        }
    }
}
