//! Decides how a JSON Schema is sent to a provider. Our own check keeps the whole schema, so what
//! is left out or told in words here is still enforced.

mod merge;
mod strict;
mod table;
mod words;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use self::merge::{Inliner, choices, join, one_record};
pub use self::strict::strict;
pub use self::table::Surface;
use self::table::{Nulls, Table};

/// The schema as a provider takes it. It always takes the result; what it would refuse is told in
/// the descriptions.
pub fn sent(schema: &Value, to: Surface) -> Value {
    let inlined = Inliner::new(schema).node(schema, 0);
    Value::Object(shape(inlined, to).0)
}

/// The root as a record, everything in it as the provider takes it, and whether all of it was said.
fn shape(root: Map<String, Value>, to: Surface) -> (Map<String, Value>, Said) {
    let mut writer = Writer { table: to.table(), said: Said::Wholly };
    let root = writer.record(root);
    let mut node = writer.node(root, Place::Needed);
    // A tool always takes a record, even when it takes nothing.
    if node.get("type") == Some(&json!("object")) || !node.contains_key("type") {
        node.insert("type".to_owned(), json!("object"));
        node.entry("properties").or_insert_with(|| json!({}));
    }
    (node, writer.said)
}

/// Whether a form had to be given up for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Wholly,
    Loosely,
}

/// Where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The value must be there.
    Needed,
    /// A field that may be left out.
    Optional,
}

struct Writer {
    table: &'static Table,
    said: Said,
}

impl Writer {
    /// No provider takes several forms at the root: they become one record.
    fn record(&mut self, mut root: Map<String, Value>) -> Map<String, Value> {
        for union in ["anyOf", "oneOf"] {
            let Some(Value::Array(forms)) = root.shift_remove(union) else { continue };
            self.said = Said::Loosely;
            let forms: Vec<Map<String, Value>> = forms
                .into_iter()
                .filter_map(|form| if let Value::Object(map) = form { Some(map) } else { None })
                .collect();
            let mut merged = one_record(forms);
            let told = merged.shift_remove("description");
            join(&mut root, merged);
            let told = told.and_then(|words| words.as_str().map(str::to_owned));
            words::add(&mut root, &told.into_iter().collect::<Vec<_>>());
        }
        root
    }

    fn node(&mut self, mut map: Map<String, Value>, place: Place) -> Map<String, Value> {
        if let Some(value) = map.shift_remove("const") {
            map.insert("enum".to_owned(), Value::Array(vec![value]));
        }
        if let Some(forms) = map.shift_remove("oneOf") {
            map.entry("anyOf").or_insert(forms);
        }
        self.about(&mut map);
        if map.get("anyOf").is_some_and(Value::is_array) {
            return self.union(map, place);
        }
        let offers_null = without_null(&mut map);
        let types = types(&map);
        let nullable = offers_null || types.iter().any(|name| name == "null");
        let others: Vec<String> = types.into_iter().filter(|name| name != "null").collect();
        // A choice says itself which types it takes.
        if map.contains_key("enum") && others.len() > 1 {
            return self.plain(map, None);
        }
        if others.len() > 1 {
            return self.union(spread(map, &others, nullable), place);
        }
        let kind = others.into_iter().next();
        let mut node = self.plain(map, kind.as_deref());
        match kind {
            None if offers_null && node.contains_key("enum") => self.or_null(node, place),
            None if offers_null => node,
            // Null alone.
            None if nullable => {
                node.insert("type".to_owned(), json!("null"));
                node
            }
            None => node,
            Some(kind) => {
                front(&mut node, "type", json!(kind));
                if nullable { self.or_null(node, place) } else { node }
            }
        }
    }

    /// A title stands in for a description that is missing.
    fn about(&self, map: &mut Map<String, Value>) {
        let title = map.shift_remove("title").filter(Value::is_string);
        if let (Some(title), false) = (title, map.contains_key("description")) {
            map.insert("description".to_owned(), title);
        }
    }

    /// A value that is not one of several forms.
    fn plain(&mut self, map: Map<String, Value>, kind: Option<&str>) -> Map<String, Value> {
        let (mut node, mut told) = (Map::new(), Vec::new());
        let mut map = map;
        self.widths(&mut map);
        for (keyword, value) in map {
            match keyword.as_str() {
                "type" => {}
                "description" if value.is_string() => {
                    node.insert(keyword, value);
                }
                "enum" => self.choice(&mut node, value, &mut told),
                "properties" | "required" | "additionalProperties" => {
                    node.insert(keyword, value);
                }
                "items" => {
                    let items = self.inner(value, Place::Needed);
                    node.insert(keyword, items);
                }
                "format" => match value.as_str() {
                    Some(format) if self.table.formats.contains(&format) => {
                        node.insert(keyword, value);
                    }
                    Some(format) if WIDTHS.contains(&format) => {}
                    _ => told.extend(words::rule(&keyword, &value)),
                },
                bound if self.takes(bound, &value) => {
                    node.insert(keyword, value);
                }
                other => told.extend(words::rule(other, &value)),
            }
        }
        if kind == Some("array") {
            // Some servers refuse a list that does not say of what.
            node.entry("items").or_insert_with(|| json!({}));
        }
        if kind == Some("object") || node.contains_key("properties") {
            self.fields(&mut node, &mut told);
        }
        words::add(&mut node, &told);
        node
    }

    fn inner(&mut self, schema: Value, place: Place) -> Value {
        let Value::Object(map) = schema else { return json!({}) };
        Value::Object(self.node(map, place))
    }

    fn takes(&self, bound: &str, value: &Value) -> bool {
        let counts = matches!(bound, "minItems" | "maxItems");
        let small = value.as_u64().is_some_and(|count| count <= self.table.items_max);
        self.table.bounds.contains(&bound) && (!counts || small)
    }

    /// Widths of numbers are no formats to a provider. Small ones and a sign become bounds, and
    /// whole numbers are bounded by what they may be, not by what they may not.
    fn widths(&self, map: &mut Map<String, Value>) {
        let format = map.get("format").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (least, most): (Option<i64>, Option<i64>) = match format.as_str() {
            "int8" => (Some(-128), Some(127)),
            "int16" => (Some(-32_768), Some(32_767)),
            "uint8" => (Some(0), Some(255)),
            "uint16" => (Some(0), Some(65_535)),
            "uint" | "uint32" | "uint64" | "uint128" => (Some(0), None),
            _ => (None, None),
        };
        for (keyword, bound) in [("minimum", least), ("maximum", most)] {
            if let Some(bound) = bound {
                map.entry(keyword).or_insert_with(|| json!(bound));
            }
        }
        if map.get("type") != Some(&json!("integer")) {
            return;
        }
        for (open, closed, step) in
            [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)]
        {
            if self.table.bounds.contains(&open) || map.contains_key(closed) {
                continue;
            }
            if let Some(bound) = map.get(open).and_then(Value::as_i64) {
                map.shift_remove(open);
                map.insert(closed.to_owned(), json!(bound.saturating_add(step)));
            }
        }
    }

    /// A choice of values. Where only texts and numbers may be offered, the rest is told.
    fn choice(&mut self, node: &mut Map<String, Value>, value: Value, told: &mut Vec<String>) {
        let Value::Array(values) = value else { return };
        let fine = |value: &Value| {
            self.table.any_choice
                || value.is_number()
                || value.as_str().is_some_and(|text| !text.is_empty())
        };
        let all = words::rule("one of", &Value::Array(values.clone()));
        let (fine, rest): (Vec<Value>, Vec<Value>) = values.into_iter().partition(fine);
        if rest.is_empty() && !fine.is_empty() {
            node.insert("enum".to_owned(), Value::Array(fine));
        } else {
            told.extend(all);
        }
    }

    /// The fields of a record: each as it is sent, and only known ones needed.
    fn fields(&mut self, node: &mut Map<String, Value>, told: &mut Vec<String>) {
        let needed: Vec<String> = node
            .shift_remove("required")
            .and_then(|names| serde_json::from_value(names).ok())
            .unwrap_or_default();
        let others = node.shift_remove("additionalProperties");
        let mut fields = Map::new();
        let listed = match node.shift_remove("properties") {
            Some(Value::Object(listed)) => Some(listed),
            _ => None,
        };
        let any = listed.is_some();
        for (name, schema) in listed.into_iter().flatten() {
            let place = if needed.contains(&name) { Place::Needed } else { Place::Optional };
            let schema = self.inner(schema, place);
            if self.table.plain_names && !is_plain(&name) {
                self.said = Said::Loosely;
                told.extend(words::rule(&format!("also a field {name:?}"), &schema));
            } else {
                fields.insert(name, schema);
            }
        }
        let needed: Vec<String> =
            needed.into_iter().filter(|name| fields.contains_key(name)).collect();
        if any {
            node.insert("properties".to_owned(), Value::Object(fields));
        }
        // An empty list is refused by some servers.
        if !needed.is_empty() {
            node.insert("required".to_owned(), json!(needed));
        }
        match others {
            Some(Value::Bool(false)) => {
                node.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            Some(schema @ Value::Object(_)) => {
                let schema = self.inner(schema, Place::Needed);
                node.insert("additionalProperties".to_owned(), schema);
            }
            _ => {}
        }
    }

    /// One of several forms: as few of them as say the same.
    fn union(&mut self, mut map: Map<String, Value>, place: Place) -> Map<String, Value> {
        let about = map.shift_remove("description").filter(Value::is_string);
        let Some(Value::Array(forms)) = map.shift_remove("anyOf") else { return map };
        let is_null = |form: &Value| {
            form.get("type") == Some(&json!("null")) || choices(form) == Some(vec![Value::Null])
        };
        let (nulls, forms): (Vec<Value>, Vec<Value>) = forms.into_iter().partition(is_null);
        let beside = map;
        let mut node = match choice_of(&forms) {
            Some(choice) => self.node(joined(beside, choice), Place::Needed),
            None => self.forms(beside, forms),
        };
        if let Some(about) = about {
            let words = node.shift_remove("description");
            node.insert("description".to_owned(), about);
            let words = words.and_then(|words| words.as_str().map(str::to_owned));
            words::add(&mut node, &words.into_iter().collect::<Vec<_>>());
        }
        if nulls.is_empty() { node } else { self.or_null(node, place) }
    }

    fn forms(&mut self, beside: Map<String, Value>, forms: Vec<Value>) -> Map<String, Value> {
        let kind = types(&beside);
        let mut written = Vec::new();
        for form in forms {
            let Value::Object(form) = form else { continue };
            // What stands beside the forms holds for each of them.
            let whole = joined(form, beside.clone());
            let fits = types(&whole).iter().any(|name| kind.is_empty() || kind.contains(name));
            if fits || types(&whole).is_empty() {
                written.push(self.node(whole, Place::Needed));
            }
        }
        match written.len() {
            0 => Map::new(),
            1 => written.remove(0),
            _ => {
                let mut node = Map::new();
                node.insert("anyOf".to_owned(), written.into_iter().map(Value::Object).collect());
                node
            }
        }
    }

    /// The same value, or null. A field that may be left out need not say so.
    fn or_null(&self, mut node: Map<String, Value>, place: Place) -> Map<String, Value> {
        if place == Place::Optional && self.table.plain_optional {
            return node;
        }
        if let Some(Value::Array(forms)) = node.get_mut("anyOf") {
            forms.push(json!({ "type": "null" }));
            return node;
        }
        let listed = self.table.nulls == Nulls::Listed && !node.contains_key("enum");
        if listed && let Some(kind) = node.get("type").cloned() {
            node.insert("type".to_owned(), json!([kind, "null"]));
            return node;
        }
        let about = node.shift_remove("description");
        let mut whole = Map::new();
        if let Some(about) = about {
            whole.insert("description".to_owned(), about);
        }
        whole.insert("anyOf".to_owned(), json!([node, { "type": "null" }]));
        whole
    }
}

/// Formats that name the width of a number.
const WIDTHS: &[&str] = &[
    "int", "int8", "int16", "int32", "int64", "int128", "uint", "uint8", "uint16", "uint32",
    "uint64", "uint128", "float", "double",
];

fn types(map: &Map<String, Value>) -> Vec<String> {
    match map.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        None if map.contains_key("properties") => vec!["object".to_owned()],
        None if map.contains_key("items") => vec!["array".to_owned()],
        _ => map
            .get("enum")
            .and_then(Value::as_array)
            .map(|values| kinds(values))
            .unwrap_or_default(),
    }
}

/// The types of the values of a choice, where all are of one.
fn kinds(values: &[Value]) -> Vec<String> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let first = values.first().map(kind);
    let same = values.iter().all(|value| Some(kind(value)) == first);
    first.filter(|_| same).map(|name| vec![name.to_owned()]).unwrap_or_default()
}

/// One form per type, each with the rules that mean something to it.
fn spread(map: Map<String, Value>, types: &[String], nullable: bool) -> Map<String, Value> {
    const OF: &[(&str, &[&str])] = &[
        ("string", &["minLength", "maxLength", "pattern", "format"]),
        ("array", &["items", "minItems", "maxItems", "uniqueItems", "prefixItems"]),
        ("object", &["properties", "required", "additionalProperties"]),
        (
            "number",
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"],
        ),
    ];
    let mut whole = Map::new();
    let mut forms = Vec::new();
    for kind in types {
        let name = if kind == "integer" { "number" } else { kind };
        let own = OF.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, rules)| rules);
        let mut form = Map::new();
        form.insert("type".to_owned(), json!(kind));
        for (keyword, value) in map.iter().filter(|(keyword, _)| own.contains(&keyword.as_str())) {
            form.insert(keyword.clone(), value.clone());
        }
        forms.push(Value::Object(form));
    }
    if nullable {
        forms.push(json!({ "type": "null" }));
    }
    if let Some(about) = map.get("description") {
        whole.insert("description".to_owned(), about.clone());
    }
    whole.insert("anyOf".to_owned(), Value::Array(forms));
    whole
}

/// Takes null out of a choice of several values, and says whether it was in it.
fn without_null(map: &mut Map<String, Value>) -> bool {
    let Some(Value::Array(values)) = map.get_mut("enum") else { return false };
    let before = values.len();
    if before > 1 {
        values.retain(|value| !value.is_null());
    }
    values.len() < before
}

/// Forms that are nothing but values of one type are one choice; what each means is told.
fn choice_of(forms: &[Value]) -> Option<Map<String, Value>> {
    if forms.len() < 2 {
        return None;
    }
    let (mut values, mut told) = (Vec::new(), Vec::new());
    for form in forms {
        let own = choices(form)?;
        if let ([value], Some(about)) = (&own[..], form.get("description").and_then(Value::as_str))
        {
            told.push(format!("{value}: {about}"));
        }
        values.extend(own);
    }
    let kind = kinds(&values);
    let [kind] = &kind[..] else { return None };
    let mut node = Map::new();
    node.insert("type".to_owned(), json!(kind));
    node.insert("enum".to_owned(), Value::Array(values));
    words::add(&mut node, &told);
    Some(node)
}

/// The first map, and what the second one has beside it.
fn joined(mut first: Map<String, Value>, second: Map<String, Value>) -> Map<String, Value> {
    for (keyword, value) in second {
        first.entry(keyword).or_insert(value);
    }
    first
}

fn front(node: &mut Map<String, Value>, keyword: &str, value: Value) {
    node.shift_insert(0, keyword.to_owned(), value);
}

/// Names of fields that every provider takes.
fn is_plain(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}
