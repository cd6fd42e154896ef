//! Every keyword with every kind of value, beside every type: what is taken is a valid schema, and
//! what it takes an independent validator takes too.

use jsonschema::draft202012;
use serde_json::{Map, Value, json};
use toolgate_kernel::tool::Shape;

/// All keywords of JSON Schema, of older drafts too, and some that are none.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "disallow",
    "divisibleBy",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "extends",
    "format",
    "id",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
];

fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(5),
        json!(-1),
        json!(2.0),
        json!(1.5),
        json!(1e300),
        json!(9_007_199_254_740_993_u64),
        json!("x"),
        json!(""),
        json!("("),
        json!("^[^;&&|]$"),
        json!("object"),
        json!("#/$defs/x"),
        json!([]),
        json!([7]),
        json!(["a"]),
        json!(["a", 7]),
        json!(["a", "a"]),
        json!(["object", "object"]),
        json!(["string", "null"]),
        json!([{}]),
        json!([true]),
        json!([false]),
        json!([5]),
        json!([null]),
        json!([{}, {"type": "string"}]),
        json!([{"type": "integer"}, {"type": "number"}]),
        json!([{"const": 1}, {"const": 1.0}]),
        json!([{"properties": {"a": true}}, {"type": "string"}]),
        json!([{"properties": {"a": true}}, {"type": "null"}]),
        json!([{"type": "integer", "format": "uint8"}, {"type": "integer"}]),
        json!({}),
        json!({"a": {}}),
        json!({"a": 5}),
        json!({"a": ["b"]}),
        json!({"type": "string"}),
        json!({"type": "text"}),
        json!({"a": {"$id": "other"}}),
    ]
}

/// What stands beside a keyword.
fn contexts() -> Vec<Value> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let mut all: Vec<Value> = types.iter().map(|name| json!({"type": name})).collect();
    all.extend([
        json!({}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["object", "integer"]}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        json!({"properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        json!({"$ref": "#/$defs/x"}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"enum": [1, "a"]}),
    ]);
    all
}

fn samples() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(-1),
        json!(1.5),
        json!(300),
        json!(9_007_199_254_740_993_u64),
        json!(9_007_199_254_740_992_u64),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("1"),
        json!("ls; rm"),
        json!([]),
        json!([1]),
        json!([1, 1.0]),
        json!(["a", null, {}]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "x"}),
        json!({"b": "x"}),
        json!({"a": 1, "b": [{}]}),
    ]
}

/// What is wrong with how a schema is taken; nothing where it is refused.
fn wrong(schema: &Value) -> Option<String> {
    let shape = Shape::compile_open(schema).ok()?;
    if !draft202012::meta::is_valid(schema) {
        return Some("is taken and not valid".to_owned());
    }
    let Ok(judge) = draft202012::new(schema) else {
        return Some("is taken, and the validator cannot read it".to_owned());
    };
    samples().into_iter().find_map(|sample| {
        let mut fitted = sample.clone();
        let fits = shape.fit(&mut fitted, &mut Vec::new()).is_ok();
        (fits && !judge.is_valid(&fitted)).then(|| format!("takes {sample} as {fitted}"))
    })
}

fn merged(context: &Value, keyword: &str, value: &Value) -> Value {
    let mut map = context.as_object().cloned().unwrap_or_else(Map::new);
    map.insert(keyword.to_owned(), value.clone());
    Value::Object(map)
}

#[test]
fn no_keyword_is_ignored_or_misread() {
    let (mut found, mut taken) = (Vec::new(), 0);
    for keyword in KEYWORDS {
        for value in values() {
            for context in contexts() {
                let schema = merged(&context, keyword, &value);
                let below = json!({"type": "object", "properties": {"p": schema},
                                   "$defs": {"x": {"type": "string"}}});
                let mut at_root = schema.clone();
                if let Some(map) = at_root.as_object_mut() {
                    map.entry("$defs").or_insert_with(|| json!({"x": {"type": "string"}}));
                }
                for whole in [at_root, below, json!({"oneOf": [schema, {"type": "string"}]})] {
                    taken += usize::from(Shape::compile_open(&whole).is_ok());
                    if let Some(why) = wrong(&whole) {
                        found.push(format!("{whole} {why}"));
                    }
                }
            }
        }
    }
    assert!(found.is_empty(), "{} schemas:\n{}", found.len(), found.join("\n"));
    assert!(taken > 1_000, "vacuous: {taken} schemas were taken");
}
