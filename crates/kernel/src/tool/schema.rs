//! Decides which JSON Schemas can be enforced, and compiles them into shapes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::pattern::Pattern;
use super::shape::{Field, Node, Others, Shape, is_a};
use super::union::Matching;

/// Why a schema cannot be used. Whoever wrote the tool reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaRefusal {
    /// The keyword would be ignored, so the check it asks for would not happen.
    #[error("{place}: the keyword {keyword:?} cannot be enforced; express it with another type")]
    Keyword {
        /// Where in the schema.
        place: String,
        /// The keyword.
        keyword: String,
    },
    /// The keyword has a value of the wrong kind.
    #[error("{place}: the value of {keyword:?} is not usable")]
    Value {
        /// Where in the schema.
        place: String,
        /// The keyword.
        keyword: &'static str,
    },
    /// A reference that leads nowhere, or out of the schema.
    #[error("{place}: {target:?} is not a definition of this schema")]
    Reference {
        /// Where in the schema.
        place: String,
        /// What it points to.
        target: String,
    },
    /// A definition that is itself, with nothing in between: no value has an end.
    #[error("{target:?} is defined by nothing but itself")]
    Circle {
        /// The definition.
        target: String,
    },
    /// Nested deeper than any real type.
    #[error("the schema is nested deeper than {SCHEMA_DEPTH_MAX}")]
    TooDeep,
    /// An alias was declared for a field that does not exist.
    #[error("no field {path:?} to give an alias to")]
    NoSuchField {
        /// The path that was given.
        path: String,
    },
    /// A path was declared that no text field of the record holds.
    #[error("no text field {field:?} to hold a path")]
    NotAPath {
        /// The field that was given.
        field: String,
    },
}

/// Deepest nesting of a schema.
const SCHEMA_DEPTH_MAX: usize = 32;

/// Keywords that describe and do not constrain.
const NOTES: &[&str] = &[
    "$schema",
    "$id",
    "$defs",
    "definitions",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// What becomes of fields that a schema does not name, where it says nothing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnamed {
    Refused,
    Taken,
}

pub(super) fn compile(schema: &Value, unnamed: Unnamed) -> Result<Shape, SchemaRefusal> {
    let mut names = BTreeMap::new();
    let mut sources = Vec::new();
    for root in ["$defs", "definitions"] {
        let Some(defs) = schema.get(root).and_then(Value::as_object) else { continue };
        for (name, source) in defs {
            names.insert(format!("#/{root}/{name}"), sources.len());
            sources.push(source);
        }
    }
    let compiler = Compiler { names, unnamed };
    let definitions = sources
        .into_iter()
        .map(|source| compiler.node(source, "$defs", 0))
        .collect::<Result<Vec<_>, _>>()?;
    for (target, at) in &compiler.names {
        if leads_to(&definitions, *at, *at, &mut Vec::new()) {
            return Err(SchemaRefusal::Circle { target: target.clone() });
        }
    }
    Ok(Shape { root: compiler.node(schema, "schema", 0)?, definitions })
}

/// Whether walking a definition comes to another one without stepping into the value.
fn leads_to(definitions: &[Node], from: usize, to: usize, seen: &mut Vec<usize>) -> bool {
    let mut nodes: Vec<&Node> = definitions.get(from).into_iter().collect();
    while let Some(node) = nodes.pop() {
        match node {
            Node::Definition(next) if *next == to => return true,
            Node::Definition(next) if !seen.contains(next) => {
                seen.push(*next);
                nodes.extend(definitions.get(*next));
            }
            Node::Nullable(inner) | Node::Typed { inner, .. } => nodes.push(inner),
            Node::Union { branches, .. } => nodes.extend(branches),
            Node::Definition(_)
            | Node::Any
            | Node::Null
            | Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::Text { .. }
            | Node::OneOf(_)
            | Node::List { .. }
            | Node::Object { .. } => {}
        }
    }
    false
}

struct Compiler {
    names: BTreeMap<String, usize>,
    unnamed: Unnamed,
}

impl Compiler {
    fn node(&self, schema: &Value, place: &str, depth: usize) -> Result<Node, SchemaRefusal> {
        if depth > SCHEMA_DEPTH_MAX {
            return Err(SchemaRefusal::TooDeep);
        }
        if schema == &Value::Bool(true) {
            return Ok(Node::Any);
        }
        let Some(map) = schema.as_object() else {
            return Err(SchemaRefusal::Value { place: place.to_owned(), keyword: "schema" });
        };
        let keys = Keywords { map, place };
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            keys.only(&["$ref"])?;
            return self.names.get(target).map(|at| Node::Definition(*at)).ok_or_else(|| {
                SchemaRefusal::Reference { place: place.to_owned(), target: target.to_owned() }
            });
        }
        if let Some([single]) = map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            keys.only(&["allOf"])?;
            return self.node(single, place, depth + 1);
        }
        for (union, matching) in [("anyOf", Matching::Any), ("oneOf", Matching::One)] {
            if let Some(branches) = map.get(union).and_then(Value::as_array) {
                keys.only(&[union, "type"])?;
                let inner = self.union(branches, matching, place, depth)?;
                return Ok(match keys.types()? {
                    None => inner,
                    Some(types) => Node::Typed { types, inner: Box::new(inner) },
                });
            }
        }
        if let Some(value) = map.get("const") {
            keys.only(&["const", "type"])?;
            return keys.one_of(std::slice::from_ref(value));
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            keys.only(&["enum", "type"])?;
            return keys.one_of(values);
        }
        self.typed(&keys, depth)
    }

    fn union(
        &self,
        branches: &[Value],
        matching: Matching,
        place: &str,
        depth: usize,
    ) -> Result<Node, SchemaRefusal> {
        let mut nodes = branches
            .iter()
            .map(|branch| self.node(branch, place, depth + 1))
            .collect::<Result<Vec<_>, _>>()?;
        let nulls = nodes.iter().filter(|node| matches!(node, Node::Null)).count();
        // What must be one of several kinds and may be two of them has to be tried.
        let apart = matching == Matching::Any || plainly_apart(&nodes);
        if nodes.len() > 1 && !apart {
            return Ok(Node::Union { branches: nodes, matching });
        }
        nodes.retain(|node| !matches!(node, Node::Null));
        let constants = nodes.iter().all(|node| matches!(node, Node::OneOf(_)));
        let node = match nodes.len() {
            0 => return Ok(Node::Null),
            1 => nodes.remove(0),
            _ if constants => Node::OneOf(
                nodes
                    .into_iter()
                    .flat_map(|node| if let Node::OneOf(values) = node { values } else { vec![] })
                    .collect(),
            ),
            _ => Node::Union { branches: nodes, matching },
        };
        Ok(if nulls > 0 { Node::Nullable(Box::new(node)) } else { node })
    }

    fn typed(&self, keys: &Keywords<'_>, depth: usize) -> Result<Node, SchemaRefusal> {
        let types = match keys.types()? {
            Some(types) => types,
            None if keys.map.contains_key("properties") => vec!["object".to_owned()],
            None => {
                keys.only(&[])?;
                return Ok(Node::Any);
            }
        };
        let nullable = types.iter().any(|name| name == "null");
        let mut nodes = types
            .iter()
            .filter(|name| *name != "null")
            .map(|name| self.of_type(name, keys, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let node = match nodes.len() {
            0 => return Ok(Node::Null),
            1 => nodes.remove(0),
            _ => Node::Union { branches: nodes, matching: Matching::Any },
        };
        Ok(if nullable { Node::Nullable(Box::new(node)) } else { node })
    }

    fn of_type(
        &self,
        name: &str,
        keys: &Keywords<'_>,
        depth: usize,
    ) -> Result<Node, SchemaRefusal> {
        match name {
            "boolean" => keys.only(&["type"]).map(|()| Node::Bool),
            "integer" => {
                keys.only(&["type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])?;
                let (least, most) = keys.width();
                let above = keys
                    .integer("exclusiveMinimum", f64::floor)?
                    .map(|bound| bound.saturating_add(1));
                let below = keys
                    .integer("exclusiveMaximum", f64::ceil)?
                    .map(|bound| bound.saturating_sub(1));
                let min = keys.integer("minimum", f64::ceil)?.max(above).max(least);
                let max = keys.integer("maximum", f64::floor)?;
                let max = max.into_iter().chain(below).chain(most).min();
                Ok(Node::Integer { min, max })
            }
            "number" => {
                keys.only(&["type", "minimum", "maximum"])?;
                Ok(Node::Number { min: keys.float("minimum")?, max: keys.float("maximum")? })
            }
            "string" => {
                keys.only(&["type", "minLength", "maxLength", "pattern"])?;
                let pattern = match keys.map.get("pattern") {
                    None => None,
                    Some(value) => Some(keys.pattern(value)?),
                };
                Ok(Node::Text {
                    min: keys.count("minLength")?,
                    max: keys.count("maxLength")?,
                    pattern,
                })
            }
            "array" => {
                keys.only(&["type", "items", "minItems", "maxItems"])?;
                let item = match keys.map.get("items") {
                    None => Node::Any,
                    Some(items) => self.node(items, &format!("{}[]", keys.place), depth + 1)?,
                };
                Ok(Node::List {
                    item: Box::new(item),
                    min: keys.count("minItems")?,
                    max: keys.count("maxItems")?,
                })
            }
            "object" => self.object(keys, depth),
            _ => Err(keys.bad("type")),
        }
    }

    fn object(&self, keys: &Keywords<'_>, depth: usize) -> Result<Node, SchemaRefusal> {
        keys.only(&["type", "properties", "required", "additionalProperties"])?;
        let required: Vec<&str> = match keys.map.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(keys.bad("required")),
        };
        let properties = keys.map.get("properties").and_then(Value::as_object);
        let mut fields = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            let place = format!("{}.{name}", keys.place);
            fields.push(Field {
                name: name.clone(),
                aliases: Vec::new(),
                required: required.contains(&name.as_str()),
                node: self.node(schema, &place, depth + 1)?,
            });
        }
        for name in required {
            if fields.iter().any(|field| field.name == name) {
                continue;
            }
            if self.unnamed == Unnamed::Refused {
                return Err(keys.bad("required"));
            }
            let (name, aliases) = (name.to_owned(), Vec::new());
            fields.push(Field { name, aliases, required: true, node: Node::Any });
        }
        let others = match keys.map.get("additionalProperties") {
            Some(Value::Bool(false)) => Others::Refused,
            // Fields were listed and nothing was said of others: others are mistakes.
            None if properties.is_some() && self.unnamed == Unnamed::Refused => Others::Refused,
            None | Some(Value::Bool(true)) => Others::Each(Box::new(Node::Any)),
            Some(schema) => Others::Each(Box::new(self.node(schema, keys.place, depth + 1)?)),
        };
        Ok(Node::Object { fields, others })
    }
}

struct Keywords<'a> {
    map: &'a Map<String, Value>,
    place: &'a str,
}

impl Keywords<'_> {
    fn bad(&self, keyword: &'static str) -> SchemaRefusal {
        SchemaRefusal::Value { place: self.place.to_owned(), keyword }
    }

    fn only(&self, known: &[&str]) -> Result<(), SchemaRefusal> {
        let plain =
            |key: &str| known.contains(&key) || NOTES.contains(&key) || key.starts_with("x-");
        match self.map.keys().find(|key| !plain(key)) {
            None => Ok(()),
            Some(keyword) => Err(SchemaRefusal::Keyword {
                place: self.place.to_owned(),
                keyword: keyword.clone(),
            }),
        }
    }

    /// The types a schema names; absent when it names none.
    fn types(&self) -> Result<Option<Vec<String>>, SchemaRefusal> {
        const KNOWN: &[&str] =
            &["null", "boolean", "integer", "number", "string", "array", "object"];
        let names: Vec<&Value> = match self.map.get("type") {
            None => return Ok(None),
            Some(Value::Array(several)) => several.iter().collect(),
            Some(one) => vec![one],
        };
        let types: Option<Vec<String>> = names
            .iter()
            .map(|name| name.as_str().filter(|name| KNOWN.contains(name)).map(str::to_owned))
            .collect();
        types.filter(|types| !types.is_empty()).map(Some).ok_or_else(|| self.bad("type"))
    }

    /// A choice of values. One that is not of the type beside it can never be sent.
    fn one_of(&self, values: &[Value]) -> Result<Node, SchemaRefusal> {
        let mut values = values.to_vec();
        if let Some(types) = self.types()? {
            values.retain(|value| types.iter().any(|name| is_a(name, value)));
        }
        if values.is_empty() { Err(self.bad("type")) } else { Ok(Node::OneOf(values)) }
    }

    /// The bounds of a whole number of a certain width, which its format names.
    fn width(&self) -> (Option<i128>, Option<i128>) {
        let (least, most): (i128, i128) =
            match self.map.get("format").and_then(Value::as_str).unwrap_or_default() {
                "int8" => (i8::MIN.into(), i8::MAX.into()),
                "int16" => (i16::MIN.into(), i16::MAX.into()),
                "int32" => (i32::MIN.into(), i32::MAX.into()),
                "int64" => (i64::MIN.into(), i64::MAX.into()),
                "uint8" => (0, u8::MAX.into()),
                "uint16" => (0, u16::MAX.into()),
                "uint32" => (0, u32::MAX.into()),
                "uint64" => (0, u64::MAX.into()),
                _ => return (None, None),
            };
        (Some(least), Some(most))
    }

    /// A bound of a whole number. One with a fraction is brought to the whole number `towards`.
    fn integer(
        &self,
        keyword: &'static str,
        towards: fn(f64) -> f64,
    ) -> Result<Option<i128>, SchemaRefusal> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let float = || {
            let bound = towards(value.as_f64()?);
            // The bounds of a type wider than any number we take are as good as none.
            let beyond = if bound < 0.0 { i128::MIN } else { i128::MAX };
            Some(format!("{bound:.0}").parse().unwrap_or(beyond))
        };
        whole.or_else(float).map(Some).ok_or_else(|| self.bad(keyword))
    }

    fn float(&self, keyword: &'static str) -> Result<Option<f64>, SchemaRefusal> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or_else(|| self.bad(keyword)),
        }
    }

    fn count(&self, keyword: &'static str) -> Result<Option<u64>, SchemaRefusal> {
        match self.map.get(keyword) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| self.bad(keyword)),
        }
    }

    fn pattern(&self, value: &Value) -> Result<Pattern, SchemaRefusal> {
        value.as_str().and_then(Pattern::compile).ok_or_else(|| self.bad("pattern"))
    }
}

/// Whether it is plain that no value can be two of these kinds: at most one null, and beside it
/// either one kind that has no null or choices that share nothing.
fn plainly_apart(nodes: &[Node]) -> bool {
    let (mut nulls, mut plain, mut values) = (0, 0, Vec::new());
    for node in nodes {
        match node {
            Node::Null => nulls += 1,
            Node::OneOf(choice) => values.extend(choice),
            Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::Text { .. }
            | Node::List { .. }
            | Node::Object { .. } => plain += 1,
            Node::Any
            | Node::Nullable(_)
            | Node::Union { .. }
            | Node::Typed { .. }
            | Node::Definition(_) => return false,
        }
    }
    let distinct = values.iter().enumerate().all(|(at, value)| {
        !value.is_null() && !values.iter().take(at).any(|before| before == value)
    });
    nulls <= 1 && (values.is_empty() && plain <= 1 || plain == 0 && distinct)
}

/// The field at a path such as `title`, `meta.author` or `steps[].title`.
pub(super) fn field_mut<'a>(
    node: &'a mut Node,
    definitions: &'a mut [Node],
    path: &str,
) -> Option<&'a mut Field> {
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let (name, in_list) = head.strip_suffix("[]").map_or((head, false), |name| (name, true));
    // An alias given inside a definition holds wherever that definition is used.
    let fields = match node {
        Node::Object { fields, .. } => fields,
        Node::Nullable(inner) => return field_mut(inner, definitions, path),
        Node::Definition(at) => {
            let (before, after) = definitions.split_at_mut_checked(*at)?;
            let (here, _) = after.split_first_mut()?;
            return field_mut(here, before, path);
        }
        Node::Any
        | Node::Null
        | Node::Bool
        | Node::Integer { .. }
        | Node::Number { .. }
        | Node::Text { .. }
        | Node::OneOf(_)
        | Node::List { .. }
        | Node::Typed { .. }
        | Node::Union { .. } => return None,
    };
    let field = fields.iter_mut().find(|field| field.name == name)?;
    let Some(rest) = rest else { return Some(field) };
    let mut inner = &mut field.node;
    if let Node::Nullable(boxed) = inner {
        inner = boxed;
    }
    match (in_list, inner) {
        (true, Node::List { item, .. }) => field_mut(item, definitions, rest),
        (false, inner) => field_mut(inner, definitions, rest),
        (true, _) => None,
    }
}
