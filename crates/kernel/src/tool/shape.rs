//! Decides whether a value fits its schema, after declared aliases and the safe coercions.

use serde_json::{Map, Number, Value};

use super::keywords::Bounds;
use super::misfit::{Misfit, Path, Problem};
use super::number::is_within;
use super::pattern::Pattern;
use super::schema::{SchemaRefusal, Unnamed, compile};
use super::union::Matching;
use crate::json::is_exact;
use crate::names::nearest;

/// A schema compiled for walking: fields in declared order, unknown keys refused at every depth.
#[derive(Debug)]
pub struct Shape {
    pub(super) root: Node,
    pub(super) definitions: Vec<Node>,
}

#[derive(Debug)]
pub(super) enum Node {
    Any,
    Null,
    Bool,
    Integer {
        /// What is taken, which is no wider than the number in Rust.
        taken: Bounds<i128>,
        /// What the schema itself says.
        declared: Bounds<i128>,
    },
    Number {
        min: Option<Number>,
        max: Option<Number>,
    },
    Text {
        min: Option<u64>,
        max: Option<u64>,
        pattern: Option<Pattern>,
    },
    OneOf(Vec<Value>),
    List {
        item: Box<Node>,
        min: Option<u64>,
        max: Option<u64>,
    },
    Object {
        fields: Vec<Field>,
        others: Others,
        /// Whether the schema does not say that this is an object. It is taken as one, and to JSON
        /// Schema fits everything that is none.
        implied: bool,
    },
    Nullable(Box<Node>),
    Union {
        branches: Vec<Node>,
        matching: Matching,
    },
    /// A union or choice beside which the schema also names the type.
    Typed {
        types: Vec<String>,
        inner: Box<Node>,
    },
    Definition(usize),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) required: bool,
    pub(super) node: Node,
}

#[derive(Debug)]
pub(super) enum Others {
    Refused,
    Each(Box<Node>),
}

/// Misfits reported at once; more would bury the first.
const MISFITS_MAX: usize = 10;
/// Allowed values listed in one message.
const ALLOWED_MAX: usize = 50;
/// Steps of one walk. Kinds that look alike at every depth would take two to the power of it.
pub(super) const STEPS_MAX: u32 = 1_000_000;
/// Schemas in schemas that are walked at once; each takes a part of the stack.
pub(super) const WALK_DEPTH_MAX: u32 = 400;

impl Shape {
    /// Compiles a schema; a keyword that could not be enforced is refused, not ignored. Where fields
    /// are listed and nothing is said of others, others are mistakes.
    pub fn compile(schema: &Value) -> Result<Self, SchemaRefusal> {
        compile(schema, Unnamed::Refused)
    }

    /// The same as JSON Schema means it: fields that it does not name are taken, unless it says that
    /// they are not.
    pub fn compile_open(schema: &Value) -> Result<Self, SchemaRefusal> {
        compile(schema, Unnamed::Taken)
    }

    /// Declares another accepted spelling of a field, by its path: `title` or `steps[].title`.
    pub(super) fn alias(&mut self, path: &str, alias: &str) -> Result<(), SchemaRefusal> {
        let Self { root, definitions } = self;
        match super::schema::field_mut(root, definitions, path) {
            Some(field) => field.aliases.push(alias.to_owned()),
            None => return Err(SchemaRefusal::NoSuchField { path: path.to_owned() }),
        }
        Ok(())
    }

    /// Refuses a path argument that is no text field of its own: it would never be looked at.
    pub(super) fn check_path(&self, field: &str) -> Result<(), SchemaRefusal> {
        let is_text = |node: &Node| matches!(node, Node::Text { .. });
        let holds_path = |known: &Field| {
            let optional = matches!(&known.node, Node::Nullable(inner) if is_text(inner));
            known.name == field && (optional || is_text(&known.node))
        };
        if matches!(&self.root, Node::Object { fields, .. } if fields.iter().any(holds_path)) {
            return Ok(());
        }
        Err(SchemaRefusal::NotAPath { field: field.to_owned() })
    }

    /// Makes the value fit, or says what does not. Warnings tell what was ignored on the way.
    pub fn fit(&self, value: &mut Value, warnings: &mut Vec<String>) -> Result<Fit, Vec<Misfit>> {
        let mut walk = Walk::new(self, warnings, STEPS_MAX, WALK_DEPTH_MAX);
        walk.node(&self.root, value, &Path::Root);
        if walk.misfits.is_empty() { Ok(walk.fit) } else { Err(walk.misfits) }
    }

    /// Whether this takes fields that it does not name, in any of its forms.
    pub fn takes_unnamed_fields(&self) -> bool {
        self.is_open(&self.root)
    }

    fn is_open(&self, node: &Node) -> bool {
        match node {
            Node::Any => true,
            Node::Object { others, .. } => matches!(others, Others::Each(_)),
            Node::Nullable(inner) | Node::Typed { inner, .. } => self.is_open(inner),
            Node::Union { branches, .. } => branches.iter().any(|branch| self.is_open(branch)),
            Node::Definition(at) => {
                self.definitions.get(*at).is_none_or(|definition| self.is_open(definition))
            }
            Node::Null
            | Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::Text { .. }
            | Node::OneOf(_)
            | Node::List { .. } => false,
        }
    }

    /// Whether this shape takes no field at all.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::Object { fields, others: Others::Refused, .. } if fields.is_empty())
    }
}

/// How a value came to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It fitted as it was.
    AsWritten,
    /// Aliases or coercions changed it.
    Changed,
}

pub(super) struct Walk<'a, 'w> {
    pub(super) shape: &'a Shape,
    pub(super) fit: Fit,
    pub(super) misfits: Vec<Misfit>,
    pub(super) warnings: &'w mut Vec<String>,
    pub(super) steps_left: u32,
    pub(super) depth_left: u32,
}

impl<'a, 'w> Walk<'a, 'w> {
    pub(super) fn new(
        shape: &'a Shape,
        warnings: &'w mut Vec<String>,
        steps_left: u32,
        depth_left: u32,
    ) -> Self {
        let (fit, misfits) = (Fit::AsWritten, Vec::new());
        Self { shape, fit, misfits, warnings, steps_left, depth_left }
    }
}

impl Walk<'_, '_> {
    pub(super) fn node(&mut self, node: &Node, value: &mut Value, path: &Path<'_>) {
        let Some(left) = self.steps_left.checked_sub(1) else {
            let message = "can be read in too many ways; send something simpler".to_owned();
            return self.misfit(path, Problem::OutOfRange, message, Vec::new());
        };
        self.steps_left = left;
        let Some(left) = self.depth_left.checked_sub(1) else {
            let message = "is nested too deep; send something simpler".to_owned();
            return self.misfit(path, Problem::OutOfRange, message, Vec::new());
        };
        self.depth_left = left;
        self.within_bounds(node, value, path);
        self.depth_left = left + 1;
    }

    fn within_bounds(&mut self, node: &Node, value: &mut Value, path: &Path<'_>) {
        match node {
            Node::Any => {}
            Node::Null => {
                if !value.is_null() {
                    self.wrong(path, "null", value);
                }
            }
            Node::Bool => self.bool(value, path),
            Node::Integer { taken: (min, max), .. } => self.integer(*min, *max, value, path),
            Node::Number { min, max } => self.number(min.as_ref(), max.as_ref(), value, path),
            Node::Text { min, max, pattern } => {
                self.text(*min, *max, pattern.as_ref(), value, path);
            }
            Node::OneOf(allowed) => self.one_of(allowed, value, path),
            Node::List { item, min, max } => self.list(item, *min, *max, value, path),
            Node::Object { fields, others, .. } => self.object(fields, others, value, path),
            Node::Nullable(inner) => self.nullable(inner, value, path),
            Node::Union { branches, matching } => self.union(branches, *matching, value, path),
            Node::Typed { types, inner } => self.typed(types, inner, value, path),
            Node::Definition(at) => {
                let shape = self.shape;
                if let Some(definition) = shape.definitions.get(*at) {
                    self.node(definition, value, path);
                }
            }
        }
    }

    pub(super) fn coerce(&mut self, value: &mut Value, into: Value) {
        *value = into;
        self.fit = Fit::Changed;
    }

    fn bool(&mut self, value: &mut Value, path: &Path<'_>) {
        let coerced = match value.as_str() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        if let Some(truth) = coerced {
            self.coerce(value, Value::Bool(truth));
        } else if !value.is_boolean() {
            self.wrong(path, "true or false", value);
        }
    }

    fn integer(
        &mut self,
        min: Option<i128>,
        max: Option<i128>,
        value: &mut Value,
        path: &Path<'_>,
    ) {
        if !value.is_i64() && !value.is_u64() {
            match whole(value) {
                Some(number) => self.coerce(value, Value::Number(number)),
                None => return self.wrong(path, "a whole number", value),
            }
        }
        let number = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let Some(number) = number else { return };
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            // A bound that only the type has says nothing, unless it is the one that was crossed.
            let max = max.filter(|max| number > *max || *max < i128::from(i64::MAX));
            let min = min.filter(|min| number < *min || *min > i128::from(i64::MIN));
            self.range(path, min, max, value);
        }
    }

    fn number(
        &mut self,
        min: Option<&Number>,
        max: Option<&Number>,
        value: &mut Value,
        path: &Path<'_>,
    ) {
        if let Some(text) = value.as_str() {
            match serde_json::from_str::<Number>(text.trim()) {
                // Zero has one form, as in the arguments themselves.
                Ok(_) if !is_exact(text.trim()) => {
                    return self.wrong(path, "a number of at most 15 digits", value);
                }
                Ok(number) if number.as_f64() == Some(0.0) => self.coerce(value, 0.into()),
                Ok(number) => self.coerce(value, Value::Number(number)),
                Err(_) => return self.wrong(path, "a number", value),
            }
        }
        let Value::Number(number) = value else { return self.wrong(path, "a number", value) };
        if !is_within(number, min, max) {
            self.range(path, min, max, value);
        }
    }

    fn text(
        &mut self,
        min: Option<u64>,
        max: Option<u64>,
        pattern: Option<&Pattern>,
        value: &Value,
        path: &Path<'_>,
    ) {
        let Some(text) = value.as_str() else { return self.wrong(path, "a text", value) };
        if min.is_some() || max.is_some() {
            let chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            if min.is_some_and(|min| chars < min) || max.is_some_and(|max| chars > max) {
                let message = format!("must have {} characters (got {chars})", span(min, max));
                return self.misfit(path, Problem::OutOfRange, message, Vec::new());
            }
        }
        if let Some(pattern) = pattern.filter(|pattern| !pattern.is_match(text)) {
            let message = format!("must match {pattern}");
            self.misfit(path, Problem::NoMatch, message, Vec::new());
        }
    }

    pub(super) fn one_of(&mut self, allowed: &[Value], value: &Value, path: &Path<'_>) {
        if allowed.contains(value) {
            return;
        }
        let allowed: Vec<String> = allowed.iter().take(ALLOWED_MAX).map(plain).collect();
        let message = format!("must be one of {} (got {})", allowed.join(", "), shown(value));
        self.misfit(path, Problem::NotAllowed, message, allowed);
    }

    fn list(
        &mut self,
        item: &Node,
        min: Option<u64>,
        max: Option<u64>,
        value: &mut Value,
        path: &Path<'_>,
    ) {
        let Value::Array(items) = value else { return self.wrong(path, "a list", value) };
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
            let message = format!("must have {} items (got {count})", span(min, max));
            self.misfit(path, Problem::OutOfRange, message, Vec::new());
        }
        for (at, inner) in items.iter_mut().enumerate() {
            self.node(item, inner, &Path::Item(path, at));
        }
    }

    fn object(&mut self, fields: &[Field], others: &Others, value: &mut Value, path: &Path<'_>) {
        let Value::Object(map) = value else { return self.wrong(path, "an object", value) };
        let mut known = 0;
        for field in fields {
            if !field.aliases.is_empty() {
                self.unalias(field, map, path);
            }
            let here = Path::Field(path, &field.name);
            match find(map, &field.name) {
                Some(inner) => {
                    known += 1;
                    self.node(&field.node, inner, &here);
                }
                None if field.required => {
                    self.misfit(&here, Problem::Missing, "is required".to_owned(), Vec::new());
                }
                None => {}
            }
        }
        if known == map.len() {
            return;
        }
        for (name, inner) in map.iter_mut() {
            if fields.iter().any(|field| field.name == *name) {
                continue;
            }
            match others {
                Others::Each(node) => self.node(node, inner, &Path::Field(path, name)),
                Others::Refused => self.unknown(fields, name, path),
            }
        }
    }

    fn unalias(&mut self, field: &Field, map: &mut Map<String, Value>, path: &Path<'_>) {
        for alias in &field.aliases {
            let Some(inner) = map.shift_remove(alias) else { continue };
            self.fit = Fit::Changed;
            if map.contains_key(&field.name) {
                let place = Path::Field(path, alias);
                let name = &field.name;
                self.warnings.push(format!("{place} was ignored: {name} was also given"));
            } else {
                map.insert(field.name.clone(), inner);
            }
        }
    }

    fn nullable(&mut self, inner: &Node, value: &mut Value, path: &Path<'_>) {
        if value.is_null() {
            return;
        }
        // A blank text stands for nothing only where text itself is not wanted.
        let blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        if blank && !self.wants_text(inner, value) {
            return self.coerce(value, Value::Null);
        }
        self.node(inner, value, path);
    }

    /// Whether this very text is one of the things wanted here.
    fn wants_text(&self, node: &Node, text: &Value) -> bool {
        match node {
            Node::Any | Node::Text { .. } => true,
            Node::OneOf(allowed) => allowed.contains(text),
            Node::Nullable(inner) | Node::Typed { inner, .. } => self.wants_text(inner, text),
            Node::Union { branches, .. } => branches.iter().any(|node| self.wants_text(node, text)),
            Node::Definition(at) => {
                self.shape.definitions.get(*at).is_some_and(|node| self.wants_text(node, text))
            }
            Node::Null
            | Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::List { .. }
            | Node::Object { .. } => false,
        }
    }

    fn typed(&mut self, types: &[String], inner: &Node, value: &mut Value, path: &Path<'_>) {
        let before = self.misfits.len();
        self.node(inner, value, path);
        if self.misfits.len() == before && !types.iter().any(|name| is_a(name, value)) {
            self.wrong(path, &format!("of type {}", types.join(" or ")), value);
        }
    }

    fn unknown(&mut self, fields: &[Field], name: &str, path: &Path<'_>) {
        let known: Vec<String> =
            fields.iter().take(ALLOWED_MAX).map(|field| field.name.clone()).collect();
        let mut message = match known.as_slice() {
            [] => "is not a field: send no fields here".to_owned(),
            known => format!("is not a field: the fields are {}", known.join(", ")),
        };
        if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean {near}?"));
        }
        let name: String = name.chars().take(80).collect();
        self.misfit(&Path::Field(path, &name), Problem::Unknown, message, known);
    }

    fn wrong(&mut self, path: &Path<'_>, wanted: &str, value: &Value) {
        let message = format!("must be {wanted} (got {})", shown(value));
        self.misfit(path, Problem::WrongType, message, Vec::new());
    }

    fn range<T: std::fmt::Display>(
        &mut self,
        path: &Path<'_>,
        min: Option<T>,
        max: Option<T>,
        value: &Value,
    ) {
        let message = format!("must be {} (got {})", span(min, max), shown(value));
        self.misfit(path, Problem::OutOfRange, message, Vec::new());
    }

    pub(super) fn misfit(
        &mut self,
        path: &Path<'_>,
        problem: Problem,
        message: String,
        allowed: Vec<String>,
    ) {
        if self.misfits.len() < MISFITS_MAX {
            self.misfits.push(Misfit { path: path.to_string(), problem, message, allowed });
        }
    }

    pub(super) fn complain(&mut self, misfits: Vec<Misfit>) {
        self.misfits.extend(misfits);
        self.misfits.truncate(MISFITS_MAX);
    }
}

/// A field by its name. Few are found faster by looking at each than by hashing the name.
fn find<'m>(map: &'m mut Map<String, Value>, name: &str) -> Option<&'m mut Value> {
    if map.len() > 16 {
        return map.get_mut(name);
    }
    map.iter_mut().find_map(|(key, value)| (key == name).then_some(value))
}

/// Whether a value is of a type that a schema names.
pub(super) fn is_a(type_name: &str, value: &Value) -> bool {
    match type_name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// A whole number written as text or with a zero fraction; anything else is no whole number.
fn whole(value: &Value) -> Option<Number> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => {
            let float = number.as_f64()?;
            // Beyond 2^53 a fraction could have been lost before we saw it.
            if float.fract() != 0.0 || float.abs() > 9_007_199_254_740_992.0 {
                return None;
            }
            format!("{float:.0}")
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let number: Number = serde_json::from_str(&text).ok()?;
    (number.is_i64() || number.is_u64()).then_some(number)
}

fn span<T: std::fmt::Display>(min: Option<T>, max: Option<T>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => "any".to_owned(),
    }
}

/// A value as a message quotes it: short, and never the whole of a long text.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => {
            let short: String = text.chars().take(40).collect();
            let dots = if short.len() < text.len() { "…" } else { "" };
            format!("{short:?}{dots}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
