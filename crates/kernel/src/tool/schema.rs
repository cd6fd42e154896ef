//! Decides which JSON Schemas can be enforced, and compiles them into shapes.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::shape::{Field, Node, Others, Shape};

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
    /// Nested deeper than any real type.
    #[error("the schema is nested deeper than {SCHEMA_DEPTH_MAX}")]
    TooDeep,
    /// An alias was declared for a field that does not exist.
    #[error("no field {path:?} to give an alias to")]
    NoSuchField {
        /// The path that was given.
        path: String,
    },
}

/// Deepest nesting of a schema.
const SCHEMA_DEPTH_MAX: usize = 32;
/// Largest compiled pattern.
const PATTERN_BYTES_MAX: usize = 1 << 20;

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

pub(super) fn compile(schema: &Value) -> Result<Shape, SchemaRefusal> {
    let mut names = BTreeMap::new();
    let mut sources = Vec::new();
    for root in ["$defs", "definitions"] {
        let Some(defs) = schema.get(root).and_then(Value::as_object) else { continue };
        for (name, source) in defs {
            names.insert(format!("#/{root}/{name}"), sources.len());
            sources.push(source);
        }
    }
    let compiler = Compiler { names };
    let definitions = sources
        .into_iter()
        .map(|source| compiler.node(source, "$defs", 0))
        .collect::<Result<_, _>>()?;
    Ok(Shape { root: compiler.node(schema, "schema", 0)?, definitions })
}

struct Compiler {
    names: BTreeMap<String, usize>,
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
        for union in ["anyOf", "oneOf"] {
            if let Some(branches) = map.get(union).and_then(Value::as_array) {
                keys.only(&[union, "type"])?;
                return self.union(branches, place, depth);
            }
        }
        if let Some(value) = map.get("const") {
            keys.only(&["const", "type"])?;
            return Ok(Node::OneOf(vec![value.clone()]));
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            keys.only(&["enum", "type"])?;
            return Ok(Node::OneOf(values.clone()));
        }
        self.typed(&keys, depth)
    }

    fn union(&self, branches: &[Value], place: &str, depth: usize) -> Result<Node, SchemaRefusal> {
        let mut nodes = branches
            .iter()
            .map(|branch| self.node(branch, place, depth + 1))
            .collect::<Result<Vec<_>, _>>()?;
        let before = nodes.len();
        nodes.retain(|node| !matches!(node, Node::Null));
        let nullable = nodes.len() < before;
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
            _ => Node::Union(nodes),
        };
        Ok(if nullable { Node::Nullable(Box::new(node)) } else { node })
    }

    fn typed(&self, keys: &Keywords<'_>, depth: usize) -> Result<Node, SchemaRefusal> {
        let types: Vec<&str> = match keys.map.get("type") {
            None if keys.map.contains_key("properties") => vec!["object"],
            None => {
                keys.only(&[])?;
                return Ok(Node::Any);
            }
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(keys.bad("type")),
        };
        let nullable = types.contains(&"null");
        let mut nodes = types
            .iter()
            .filter(|name| **name != "null")
            .map(|name| self.of_type(name, keys, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let node = match nodes.len() {
            0 if nullable => return Ok(Node::Null),
            0 => return Err(keys.bad("type")),
            1 => nodes.remove(0),
            _ => Node::Union(nodes),
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
                let above = keys.integer("exclusiveMinimum")?.map(|bound| bound + 1);
                let below = keys.integer("exclusiveMaximum")?.map(|bound| bound - 1);
                let min = keys.integer("minimum")?.max(above);
                let max = keys.integer("maximum")?.into_iter().chain(below).min();
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
        if required.iter().any(|name| !fields.iter().any(|field| field.name == *name)) {
            return Err(keys.bad("required"));
        }
        let others = match keys.map.get("additionalProperties") {
            Some(Value::Bool(false)) => Others::Refused,
            // Fields were listed and nothing was said of others: others are mistakes.
            None if properties.is_some() => Others::Refused,
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

    fn integer(&self, keyword: &'static str) -> Result<Option<i128>, SchemaRefusal> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        // Types wider than JSON numbers give their bounds as floats; those bounds never bite.
        if whole.is_none() && value.is_f64() {
            return Ok(None);
        }
        whole.map(Some).ok_or_else(|| self.bad(keyword))
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

    fn pattern(&self, value: &Value) -> Result<regex::Regex, SchemaRefusal> {
        let source = value.as_str().ok_or_else(|| self.bad("pattern"))?;
        RegexBuilder::new(source)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map_err(|_| self.bad("pattern"))
    }
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
        | Node::Union(_) => return None,
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
