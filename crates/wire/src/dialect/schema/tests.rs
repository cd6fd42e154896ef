//! Decides what is sent of a schema, provider by provider, as a table.

use serde_json::{Value, json};

use super::Surface::{Anthropic, AnthropicStrict, Gemini, OpenAi, OpenAiStrict};
use super::{Surface, sent, strict};

const TOOLS: &[Surface] = &[OpenAi, Anthropic, Gemini];

/// A record with one field that is needed.
fn needed(schema: &Value) -> Value {
    json!({ "type": "object", "properties": { "a": schema }, "required": ["a"] })
}

/// What becomes of the field.
fn field(schema: &Value, to: Surface) -> Value {
    sent(&needed(schema), to)["properties"]["a"].clone()
}

/// What becomes of a field that may be left out.
fn optional(schema: &Value, to: Surface) -> Value {
    sent(&json!({ "type": "object", "properties": { "a": schema } }), to)["properties"]["a"].clone()
}

/// What is shown, the schema, and what is sent to whom.
type Case<'a> = (&'a str, Value, &'a [(Surface, Value)]);

#[test]
fn a_needed_value_is_written_as_each_takes_it() {
    let cases: &[Case<'_>] = &[
        (
            "a width is no format",
            json!({ "type": "integer", "format": "uint32", "minimum": 1 }),
            &[
                (OpenAi, json!({ "type": "integer", "minimum": 1 })),
                (Anthropic, json!({ "type": "integer", "minimum": 1 })),
                (Gemini, json!({ "type": "integer", "minimum": 1 })),
            ],
        ),
        (
            "a small width is a bound",
            json!({ "type": "integer", "format": "uint8" }),
            &[(Gemini, json!({ "type": "integer", "minimum": 0, "maximum": 255 }))],
        ),
        (
            "a format nobody knows is told",
            json!({ "type": "string", "format": "phone", "description": "Whom to call." }),
            &[
                (
                    OpenAi,
                    json!({ "type": "string", "description": "Whom to call. (format phone)" }),
                ),
                (
                    Anthropic,
                    json!({ "type": "string", "description": "Whom to call. (format phone)" }),
                ),
            ],
        ),
        (
            "a format that is known stays",
            json!({ "type": "string", "format": "uri" }),
            &[
                (Anthropic, json!({ "type": "string", "format": "uri" })),
                (Gemini, json!({ "type": "string", "description": "format uri" })),
            ],
        ),
        (
            "a value or null",
            json!({ "type": ["integer", "null"] }),
            &[
                (OpenAi, json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] })),
                (Anthropic, json!({ "type": ["integer", "null"] })),
                (Gemini, json!({ "type": ["integer", "null"] })),
            ],
        ),
        (
            "several types with their rules",
            json!({ "type": ["string", "integer"], "minimum": 1, "minLength": 2 }),
            &[
                (
                    Anthropic,
                    json!({ "anyOf": [
                        { "type": "string", "minLength": 2 }, { "type": "integer", "minimum": 1 },
                    ] }),
                ),
                (
                    Gemini,
                    json!({ "anyOf": [
                        { "type": "string", "description": "at least 2 characters" },
                        { "type": "integer", "minimum": 1 },
                    ] }),
                ),
            ],
        ),
        (
            "one of several forms",
            json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
            &[(
                Gemini,
                json!({ "anyOf": [
                    { "type": "string" }, { "type": "array", "items": { "type": "string" } },
                ] }),
            )],
        ),
        (
            "a constant",
            json!({ "const": "x" }),
            &[
                (OpenAi, json!({ "type": "string", "enum": ["x"] })),
                (Gemini, json!({ "type": "string", "enum": ["x"] })),
            ],
        ),
        (
            "constants with a meaning",
            json!({ "description": "How.", "oneOf": [
                { "const": "fast", "description": "At once." },
                { "const": "slow", "description": "Later." },
            ] }),
            &[(
                OpenAi,
                json!({ "type": "string", "enum": ["fast", "slow"],
                    "description": "How. (\"fast\": At once.; \"slow\": Later.)" }),
            )],
        ),
        (
            "a choice with null in it",
            json!({ "enum": ["a", "b", null] }),
            &[(
                Gemini,
                json!({ "anyOf": [
                        { "type": "string", "enum": ["a", "b"] }, { "type": "null" },
                    ] }),
            )],
        ),
        (
            "a choice of what only some take",
            json!({ "type": "boolean", "enum": [true] }),
            &[
                (Anthropic, json!({ "type": "boolean", "enum": [true] })),
                (Gemini, json!({ "type": "boolean", "description": "one of: [true]" })),
            ],
        ),
        (
            "an empty text is no choice there",
            json!({ "type": "string", "enum": ["", "a"] }),
            &[(Gemini, json!({ "type": "string", "description": "one of: [\"\",\"a\"]" }))],
        ),
        (
            "open bounds",
            json!({ "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10 }),
            &[
                (
                    Anthropic,
                    json!({ "type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10 }),
                ),
                (Gemini, json!({ "type": "integer", "minimum": 1, "maximum": 9 })),
            ],
        ),
        (
            "an open bound of a number is told",
            json!({ "type": "number", "exclusiveMinimum": 0.5 }),
            &[(Gemini, json!({ "type": "number", "description": "more than 0.5" }))],
        ),
        (
            "patterns and lengths",
            json!({ "type": "string", "pattern": "^a", "maxLength": 9 }),
            &[
                (Anthropic, json!({ "type": "string", "pattern": "^a", "maxLength": 9 })),
                (
                    OpenAi,
                    json!({ "type": "string", "description": "matches ^a; at most 9 characters" }),
                ),
            ],
        ),
        (
            "a default",
            json!({ "type": "integer", "default": 3 }),
            &[
                (OpenAi, json!({ "type": "integer", "default": 3 })),
                (Gemini, json!({ "type": "integer", "description": "default 3" })),
            ],
        ),
        (
            "a list of anything",
            json!({ "type": "array" }),
            &[
                (OpenAi, json!({ "type": "array", "items": {} })),
                (Gemini, json!({ "type": "array", "items": {} })),
            ],
        ),
        (
            "a list too long for a grammar",
            json!({ "type": "array", "items": true, "maxItems": 5000 }),
            &[
                (
                    OpenAi,
                    json!({ "type": "array", "items": {}, "description": "at most 5000 items" }),
                ),
                (Gemini, json!({ "type": "array", "items": {}, "maxItems": 5000 })),
            ],
        ),
        (
            "parts of a whole",
            json!({ "allOf": [
                { "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"] },
                { "properties": { "y": { "type": "string" } }, "required": ["y"] },
            ] }),
            &[(
                Anthropic,
                json!({ "type": "object",
                    "properties": { "x": { "type": "string" }, "y": { "type": "string" } },
                    "required": ["x", "y"] }),
            )],
        ),
        (
            "nested empty lists of needed fields",
            json!({ "type": "object", "properties": {}, "required": [], "$schema": "x" }),
            &[
                (OpenAi, json!({ "type": "object", "properties": {} })),
                (Anthropic, json!({ "type": "object", "properties": {} })),
                (Gemini, json!({ "type": "object", "properties": {} })),
            ],
        ),
        (
            "a map of texts",
            json!({ "type": "object", "additionalProperties": { "type": "string", "format": "x" } }),
            &[(
                Gemini,
                json!({ "type": "object",
                    "additionalProperties": { "type": "string", "description": "format x" } }),
            )],
        ),
        (
            "rules nobody takes are told when they are short",
            json!({ "type": "object", "not": { "required": ["b"] }, "x-own": 1 }),
            &[(OpenAi, json!({ "type": "object", "description": "not: {\"required\":[\"b\"]}" }))],
        ),
        ("anything", json!(true), &[(OpenAi, json!({})), (Gemini, json!({}))]),
        (
            "a title stands in for a description",
            json!({ "type": "string", "title": "Name" }),
            &[(OpenAi, json!({ "type": "string", "description": "Name" }))],
        ),
    ];
    for (about, schema, wanted) in cases {
        for (to, wanted) in *wanted {
            assert_eq!(&field(schema, *to), wanted, "{about} for {to:?}");
        }
    }
}

#[test]
fn what_may_be_left_out_need_not_be_null() {
    let plain = json!({ "type": "integer" });
    for schema in [
        json!({ "type": ["integer", "null"] }),
        json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }),
    ] {
        assert_eq!(optional(&schema, OpenAi), plain);
        assert_eq!(optional(&schema, Gemini), plain);
        assert_eq!(optional(&schema, Anthropic), json!({ "type": ["integer", "null"] }));
    }
}

#[test]
fn definitions_are_put_in_place_and_circles_are_cut() {
    let schema = json!({
        "type": "object",
        "properties": { "root": { "$ref": "#/$defs/Node", "description": "The top." } },
        "$defs": { "Node": {
            "type": "object",
            "properties": {
                "name": { "$ref": "#/$defs/Name" },
                "kids": { "type": "array", "items": { "$ref": "#/$defs/Node" } },
            },
            "required": ["name"],
        }, "Name": { "type": "string" } },
    });
    let wanted = json!({
        "type": "object",
        "properties": { "root": {
            "type": "object",
            "description": "The top.",
            "properties": {
                "name": { "type": "string" },
                "kids": { "type": "array", "items": {
                    "type": "object", "description": "again of the form Node",
                } },
            },
            "required": ["name"],
        } },
    });
    for to in TOOLS {
        assert_eq!(sent(&schema, *to), wanted, "{to:?}");
    }
}

#[test]
fn forms_at_the_root_become_one_record() {
    let schema = json!({ "type": "object", "oneOf": [
        { "properties": { "action": { "const": "add" }, "text": { "type": "string" } },
          "required": ["action", "text"] },
        { "properties": { "action": { "const": "drop" }, "id": { "type": "integer" } },
          "required": ["action", "id"] },
    ] });
    for to in TOOLS {
        let sent = sent(&schema, *to);
        assert_eq!(
            sent,
            json!({
                "type": "object",
                "properties": {
                    "action": { "type": "string", "enum": ["add", "drop"] },
                    "text": { "type": "string" },
                    "id": { "type": "integer" },
                },
                "required": ["action"],
                "description": "needs one of: action, text | action, id",
            }),
            "{to:?}"
        );
    }
}

#[test]
fn a_record_that_needs_one_of_its_fields_keeps_them_all() {
    let schema = json!({ "type": "object", "description": "Changes it.",
        "properties": { "id": { "type": "integer" }, "a": { "type": "string" },
            "b": { "type": "string" } },
        "required": ["id"],
        "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    for to in TOOLS {
        let sent = sent(&schema, *to);
        assert_eq!(sent["properties"], schema["properties"], "{to:?}");
        assert_eq!(sent["required"], json!(["id"]), "{to:?}");
        assert_eq!(sent["description"], json!("Changes it. (needs one of: a | b)"), "{to:?}");
    }
}

/// What our own check takes, a provider must let its model write; it may let it write more.
#[test]
fn nothing_is_forbidden_that_our_own_check_takes() {
    let schema = everything();
    let ours = jsonschema::validator_for(&schema).unwrap();
    let values = [
        json!({}),
        json!({ "n": 3, "u": "xx", "e": "a" }),
        json!({ "u": { "t": { "t": { "t": {} } } } }),
        json!({ "l": [] }),
        json!({ "l": [{ "c": 3, "d": { "any": 1 } }, {}] }),
        json!({ "e": 1 }),
        json!({ "e": true }),
    ];
    for value in values {
        assert!(ours.is_valid(&value), "{value}");
        for to in TOOLS {
            let theirs = jsonschema::validator_for(&sent(&schema, *to)).unwrap();
            assert!(theirs.is_valid(&value), "{to:?}: {value}");
        }
    }
}

#[test]
fn a_name_that_is_refused_is_told() {
    let schema = json!({ "type": "object",
        "properties": { "$filter": { "type": "string" }, "b": { "type": "string" } },
        "required": ["$filter", "b"] });
    assert_eq!(
        sent(&schema, Anthropic),
        json!({ "type": "object", "properties": { "b": { "type": "string" } }, "required": ["b"],
            "description": "also a field \"$filter\": {\"type\":\"string\"}" })
    );
    assert_eq!(sent(&schema, Gemini), schema);
}

/// A schema with something of everything, nested.
fn everything() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": { "type": ["integer", "null"], "format": "uint64", "exclusiveMinimum": 0 },
            "u": { "anyOf": [{ "$ref": "#/$defs/T" }, { "type": "string", "pattern": "x" }] },
            "l": { "type": "array", "items": { "type": "object", "required": [],
                "properties": { "c": { "const": 3 }, "d": { "default": {}, "type": "object" } } } },
            "e": { "enum": ["a", 1, null, true] },
        },
        "required": [],
        "$defs": { "T": { "allOf": [{ "$ref": "#/$defs/T2" }], "if": {}, "then": {} },
            "T2": { "type": "object", "properties": { "t": { "$ref": "#/$defs/T" } } } },
    })
}

/// Every schema in a schema, by the places where schemas stand.
fn every(schema: &Value, check: &mut dyn FnMut(&Value)) {
    check(schema);
    if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
        fields.values().for_each(|inner| every(inner, check));
    }
    for inner in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(key)) {
        every(inner, check);
    }
    if let Some(forms) = schema.get("anyOf").and_then(Value::as_array) {
        forms.iter().for_each(|inner| every(inner, check));
    }
}

#[test]
fn nothing_that_is_refused_is_left_at_any_depth() {
    const NEVER: &[&str] =
        &["$schema", "$ref", "$defs", "const", "oneOf", "allOf", "if", "then", "title", "not"];
    for to in TOOLS {
        let sent = sent(&everything(), *to);
        every(&sent, &mut |schema| {
            for keyword in NEVER {
                assert!(schema.get(keyword).is_none(), "{to:?}: {keyword} in {schema}");
            }
            assert_ne!(schema.get("required"), Some(&json!([])), "{to:?}: {schema}");
            let format = schema.get("format").and_then(Value::as_str);
            assert!(format.is_none(), "{to:?}: {schema}");
        });
        jsonschema::validator_for(&sent).unwrap();
    }
}

#[test]
fn it_is_done_once_and_for_all() {
    for to in TOOLS {
        let once = sent(&everything(), *to);
        let twice = sent(&once, *to);
        // Words that were told once are told once.
        assert_eq!(once, twice, "{to:?}");
    }
}

#[test]
fn what_grows_without_end_is_bounded() {
    let mut defs = serde_json::Map::new();
    for at in 0..30 {
        let next = json!({ "$ref": format!("#/$defs/D{}", at + 1) });
        let fields = json!({ "a": next, "b": next, "c": next });
        defs.insert(format!("D{at}"), json!({ "type": "object", "properties": fields }));
    }
    defs.insert("D30".to_owned(), json!({ "type": "string" }));
    let schema = json!({ "type": "object", "properties": { "r": { "$ref": "#/$defs/D0" } },
        "$defs": defs });
    for to in TOOLS {
        let mut count = 0;
        every(&sent(&schema, *to), &mut |_| count += 1);
        assert!((100..20_000).contains(&count), "{to:?}: {count}");
    }
    assert_eq!(strict(&schema, OpenAiStrict), None);
}

#[test]
fn strict_schemas_are_closed() {
    let schema = json!({ "type": "object", "properties": {
        "text": { "type": "string", "maxLength": 5 },
        "kind": { "enum": ["a", "b"] },
        "list": { "type": "array", "minItems": 2, "items": {
            "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } },
            "required": ["n"],
        } },
    }, "required": ["text", "list"] });
    assert_eq!(
        strict(&schema, OpenAiStrict).unwrap(),
        json!({ "type": "object", "properties": {
            "text": { "type": "string", "description": "at most 5 characters" },
            "kind": { "anyOf": [{ "type": "string", "enum": ["a", "b"] }, { "type": "null" }] },
            "list": { "type": "array", "minItems": 2, "items": {
                "type": "object", "properties": { "n": { "type": "integer", "minimum": 1 } },
                "required": ["n"], "additionalProperties": false,
            } },
        }, "required": ["text", "kind", "list"], "additionalProperties": false })
    );
    assert_eq!(
        strict(&schema, AnthropicStrict).unwrap(),
        json!({ "type": "object", "properties": {
            "text": { "type": "string", "description": "at most 5 characters" },
            "kind": { "type": "string", "enum": ["a", "b"] },
            "list": { "type": "array", "description": "at least 2 items", "items": {
                "type": "object",
                "properties": { "n": { "type": "integer", "description": "at least 1" } },
                "required": ["n"], "additionalProperties": false,
            } },
        }, "required": ["text", "list"], "additionalProperties": false })
    );
}

#[test]
fn what_cannot_be_enforced_is_not_promised() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..12 {
        deep = json!({ "type": "object", "properties": { "in": deep } });
    }
    for (about, schema) in [
        ("an open record", needed(&json!({ "type": "object" }))),
        (
            "a map",
            needed(&json!({ "type": "object", "additionalProperties": { "type": "string" } })),
        ),
        ("anything", needed(&json!({}))),
        ("a list of anything", needed(&json!({ "type": "array" }))),
        ("forms at the root", json!({ "anyOf": [needed(&json!({ "type": "string" }))] })),
        ("a circle", json!({ "type": "object", "properties": { "a": { "$ref": "#" } } })),
        ("too deep", deep),
    ] {
        for to in [OpenAiStrict, AnthropicStrict] {
            assert_eq!(strict(&schema, to), None, "{about} for {to:?}");
        }
    }
}
