//! Decides whether a value fits its schema, after declared aliases and the safe coercions.

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::misfit::{Misfit, Path, Problem};
use super::schema::{SchemaRefusal, compile};
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
    Integer { min: Option<i128>, max: Option<i128> },
    Number { min: Option<f64>, max: Option<f64> },
    Text { min: Option<u64>, max: Option<u64>, pattern: Option<Regex> },
    OneOf(Vec<Value>),
    List { item: Box<Node>, min: Option<u64>, max: Option<u64> },
    Object { fields: Vec<Field>, others: Others },
    Nullable(Box<Node>),
    Union(Vec<Node>),
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

impl Shape {
    /// Compiles a schema; a keyword that could not be enforced is refused, not ignored.
    pub fn compile(schema: &Value) -> Result<Self, SchemaRefusal> {
        compile(schema)
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

    /// Makes the value fit, or says what does not. Warnings tell what was ignored on the way.
    pub fn fit(&self, value: &mut Value, warnings: &mut Vec<String>) -> Result<Fit, Vec<Misfit>> {
        let mut walk = Walk { shape: self, fit: Fit::AsWritten, misfits: Vec::new(), warnings };
        walk.node(&self.root, value, &Path::Root);
        if walk.misfits.is_empty() { Ok(walk.fit) } else { Err(walk.misfits) }
    }

    /// Whether this shape takes no field at all.
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::Object { fields, others: Others::Refused } if fields.is_empty())
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

struct Walk<'a, 'w> {
    shape: &'a Shape,
    fit: Fit,
    misfits: Vec<Misfit>,
    warnings: &'w mut Vec<String>,
}

impl Walk<'_, '_> {
    fn node(&mut self, node: &Node, value: &mut Value, path: &Path<'_>) {
        match node {
            Node::Any => {}
            Node::Null => {
                if !value.is_null() {
                    self.wrong(path, "null", value);
                }
            }
            Node::Bool => self.bool(value, path),
            Node::Integer { min, max } => self.integer(*min, *max, value, path),
            Node::Number { min, max } => self.number(*min, *max, value, path),
            Node::Text { min, max, pattern } => {
                self.text(*min, *max, pattern.as_ref(), value, path);
            }
            Node::OneOf(allowed) => self.one_of(allowed, value, path),
            Node::List { item, min, max } => self.list(item, *min, *max, value, path),
            Node::Object { fields, others } => self.object(fields, others, value, path),
            Node::Nullable(inner) => self.nullable(inner, value, path),
            Node::Union(branches) => self.union(branches, value, path),
            Node::Definition(at) => {
                let shape = self.shape;
                if let Some(definition) = shape.definitions.get(*at) {
                    self.node(definition, value, path);
                }
            }
        }
    }

    fn coerce(&mut self, value: &mut Value, into: Value) {
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
            self.range(path, min, max, value);
        }
    }

    fn number(&mut self, min: Option<f64>, max: Option<f64>, value: &mut Value, path: &Path<'_>) {
        if let Some(text) = value.as_str() {
            match serde_json::from_str::<Number>(text.trim()) {
                Ok(number) => self.coerce(value, Value::Number(number)),
                Err(_) => return self.wrong(path, "a number", value),
            }
        }
        let Some(number) = value.as_f64() else { return self.wrong(path, "a number", value) };
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            self.range(path, min, max, value);
        }
    }

    fn text(
        &mut self,
        min: Option<u64>,
        max: Option<u64>,
        pattern: Option<&Regex>,
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

    fn one_of(&mut self, allowed: &[Value], value: &Value, path: &Path<'_>) {
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
            match map.get_mut(&field.name) {
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
        if !matches!(inner, Node::Text { .. } | Node::Any)
            && value.as_str().is_some_and(|text| text.trim().is_empty())
        {
            return self.coerce(value, Value::Null);
        }
        self.node(inner, value, path);
    }

    fn union(&mut self, branches: &[Node], value: &mut Value, path: &Path<'_>) {
        let mut nearest: Option<Vec<Misfit>> = None;
        for branch in branches {
            let mut attempt = value.clone();
            let before = std::mem::take(&mut self.misfits);
            self.node(branch, &mut attempt, path);
            let found = std::mem::replace(&mut self.misfits, before);
            if found.is_empty() {
                *value = attempt;
                return;
            }
            // A branch whose tag fits is what was meant; its complaints help most.
            let tag_fits = !found.iter().any(|misfit| misfit.problem == Problem::NotAllowed);
            if nearest.is_none() || tag_fits {
                nearest = Some(found);
            }
        }
        self.misfits.extend(nearest.unwrap_or_default());
        self.misfits.truncate(MISFITS_MAX);
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

    fn misfit(&mut self, path: &Path<'_>, problem: Problem, message: String, allowed: Vec<String>) {
        if self.misfits.len() < MISFITS_MAX {
            self.misfits.push(Misfit { path: path.to_string(), problem, message, allowed });
        }
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
