//! Compiles JSON Schemas into shapes. A schema that is not valid, or that has a keyword that could
//! not be enforced, is refused.

use std::cell::Cell;

use serde_json::Value;

use super::keywords::{Keywords, Level};
use super::number::is_equal;
use super::pattern::{Pattern, SCHEMA_PATTERN_BYTES_MAX};
use super::reference::{DEFINITION_KEYWORDS, DefinitionNames};
use super::shape::{Field, Node, Others, Shape};
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
    /// The keyword has a value that makes the schema invalid, or that cannot be enforced exactly.
    #[error(
        "{place}: the value of {keyword:?} is not valid in JSON Schema, or cannot be enforced exactly \
         (docs/tools.md says which can)"
    )]
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
    /// Their compiled forms would take too much memory.
    #[error("the patterns of the schema are too large together; use fewer or simpler ones")]
    TooManyPatterns,
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
pub(super) const SCHEMA_DEPTH_MAX: usize = 32;

/// What becomes of fields that a schema does not name, where it says nothing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnamed {
    Refused,
    Taken,
}

pub(super) fn compile(schema: &Value, unnamed: Unnamed) -> Result<Shape, SchemaRefusal> {
    let mut names = DefinitionNames::default();
    let mut sources = Vec::new();
    for keyword in DEFINITION_KEYWORDS {
        let Some(defs) = schema.get(keyword).and_then(Value::as_object) else { continue };
        for (name, source) in defs {
            names.insert(keyword, name, sources.len());
            sources.push(source);
        }
    }
    let pattern_bytes_left = Cell::new(SCHEMA_PATTERN_BYTES_MAX);
    let compiler = Compiler { names, unnamed, pattern_bytes_left };
    let definitions = sources
        .into_iter()
        .map(|source| compiler.node(source, "$defs", 0))
        .collect::<Result<Vec<_>, _>>()?;
    compiler.names.check_chains(&definitions)?;
    let root = match schema.as_object() {
        Some(map) => compiler.keywords(&Keywords::read(map, "schema", Level::Root)?, 0)?,
        None => compiler.node(schema, "schema", 0)?,
    };
    Ok(Shape { root, definitions })
}

struct Compiler {
    names: DefinitionNames,
    unnamed: Unnamed,
    pattern_bytes_left: Cell<usize>,
}

impl Compiler {
    /// A schema below the root.
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
        let keys = Keywords::read(map, place, Level::Below)?;
        // Nothing can refer to these, and they must be valid all the same.
        for keyword in DEFINITION_KEYWORDS {
            let defs = map.get(keyword).and_then(Value::as_object);
            for source in defs.into_iter().flat_map(|defs| defs.values()) {
                self.node(source, place, depth + 1)?;
            }
        }
        self.keywords(&keys, depth)
    }

    fn keywords(&self, keys: &Keywords<'_>, depth: usize) -> Result<Node, SchemaRefusal> {
        let (map, place) = (keys.map, keys.place);
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            keys.only(&["$ref"])?;
            return self.names.resolve(target).map(Node::Definition).ok_or_else(|| {
                SchemaRefusal::Reference { place: place.to_owned(), target: target.to_owned() }
            });
        }
        if let Some([single]) = map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            keys.only(&["allOf"])?;
            return self.node(single, place, depth + 1);
        }
        for (union, matching) in [("anyOf", Matching::Any), ("oneOf", Matching::One)] {
            if let Some(branches) = keys.branches(union)? {
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
        self.typed(keys, depth)
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
        let Some(types) = keys.types()? else {
            if keys.map.contains_key("properties") {
                return self.object(keys, depth, TypeKeyword::Implied);
            }
            keys.only(&[])?;
            return Ok(Node::Any);
        };
        let nullable = types.iter().any(|name| name == "null");
        let mut nodes = types
            .iter()
            .filter(|name| *name != "null")
            .map(|name| self.of_type(name, keys, depth))
            .collect::<Result<Vec<_>, _>>()?;
        let node = match nodes.len() {
            0 => return keys.only(&["type"]).map(|()| Node::Null),
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
                keys.whole_number()
            }
            "number" => {
                keys.only(&["type", "minimum", "maximum"])?;
                Ok(Node::Number { min: keys.number("minimum")?, max: keys.number("maximum")? })
            }
            "string" => {
                keys.only(&["type", "minLength", "maxLength", "pattern"])?;
                let (min, max) = (keys.count("minLength")?, keys.count("maxLength")?);
                Ok(Node::Text { min, max, pattern: self.pattern(keys)? })
            }
            "array" => {
                keys.only(&["type", "items", "minItems", "maxItems"])?;
                let item = match keys.map.get("items") {
                    None => Node::Any,
                    Some(items) => self.node(items, &format!("{}[]", keys.place), depth + 1)?,
                };
                let (min, max) = (keys.count("minItems")?, keys.count("maxItems")?);
                Ok(Node::List { item: Box::new(item), min, max })
            }
            "object" => self.object(keys, depth, TypeKeyword::Written),
            _ => Err(keys.bad("type")),
        }
    }

    /// A pattern, as long as those of the whole schema are not too large together.
    fn pattern(&self, keys: &Keywords<'_>) -> Result<Option<Pattern>, SchemaRefusal> {
        let pattern = keys.pattern()?;
        let bytes = pattern.as_ref().map_or(0, Pattern::bytes_max);
        let left = self.pattern_bytes_left.get().checked_sub(bytes);
        self.pattern_bytes_left.set(left.ok_or(SchemaRefusal::TooManyPatterns)?);
        Ok(pattern)
    }

    fn object(
        &self,
        keys: &Keywords<'_>,
        depth: usize,
        type_keyword: TypeKeyword,
    ) -> Result<Node, SchemaRefusal> {
        keys.only(&["type", "properties", "required", "additionalProperties"])?;
        let (properties, required) = (keys.properties()?, keys.required()?);
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
        // A field that is required and not listed is one of the others, so it can be checked only
        // where those may be anything.
        let others = self.others(keys, depth)?;
        let free = matches!(&others, Others::Each(node) if matches!(**node, Node::Any));
        let unlisted: Vec<&str> = required
            .into_iter()
            .filter(|name| !fields.iter().any(|field| field.name == *name))
            .collect();
        if !unlisted.is_empty() && (self.unnamed == Unnamed::Refused || !free) {
            return Err(keys.bad("required"));
        }
        fields.extend(unlisted.into_iter().map(|name| Field {
            name: name.to_owned(),
            aliases: Vec::new(),
            required: true,
            node: Node::Any,
        }));
        let implied = type_keyword == TypeKeyword::Implied;
        Ok(Node::Object { fields, others, implied })
    }

    fn others(&self, keys: &Keywords<'_>, depth: usize) -> Result<Others, SchemaRefusal> {
        let listed = keys.map.contains_key("properties");
        Ok(match keys.map.get("additionalProperties") {
            Some(Value::Bool(false)) => Others::Refused,
            // Fields were listed and nothing was said of others: others are mistakes.
            None if listed && self.unnamed == Unnamed::Refused => Others::Refused,
            None => Others::Each(Box::new(Node::Any)),
            Some(schema) => Others::Each(Box::new(self.node(schema, keys.place, depth + 1)?)),
        })
    }
}

/// Whether a schema of an object says that it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeKeyword {
    Written,
    Implied,
}

/// Whether it is plain that no value can be two of these kinds: at most one null, and beside it
/// either one kind that has no null or choices that share nothing.
fn plainly_apart(nodes: &[Node]) -> bool {
    let (mut nulls, mut plain, mut values) = (0, 0, Vec::new());
    for node in nodes {
        match node {
            Node::Null => nulls += 1,
            Node::OneOf(choice) => values.extend(choice),
            // It says nothing of what is no object, so it takes null too.
            Node::Object { implied: true, .. } => return false,
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
    /// Choices that are compared with each other here; more are told apart value by value.
    const CHOICES_MAX: usize = 200;
    if values.len() > CHOICES_MAX {
        return false;
    }
    let distinct = values.iter().enumerate().all(|(at, value)| {
        !value.is_null() && !values.iter().take(at).any(|before| is_equal(before, value))
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
