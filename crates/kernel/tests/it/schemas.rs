//! Which schemas are taken: what cannot be enforced is refused, and what is shown is what holds.

use std::error::Error;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{Fit, SchemaRefusal, Shape, SpecDraft, SpecRefusal};

fn with_field(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"a": schema}})
}

fn registered(schema: Value) -> Result<(), SchemaRefusal> {
    let built = SpecDraft::new("read", "A tool.").params_schema(schema).build();
    match built {
        Ok(_) => Ok(()),
        Err(refusal) => {
            let source = refusal.source().and_then(|source| source.downcast_ref::<SchemaRefusal>());
            Err(source.cloned().unwrap_or_else(|| panic!("{refusal}")))
        }
    }
}

/// The keyword and a schema that has it; each is legal JSON Schema and nothing we can keep.
fn unenforceable() -> Vec<(&'static str, Value)> {
    vec![
        ("not", json!({"not": {"type": "string"}})),
        ("if", json!({"type": "string", "if": {"minLength": 1}})),
        ("allOf", json!({"allOf": [{"type": "string"}, {"maxLength": 3}]})),
        ("minLength", json!({"allOf": [{"type": "string"}], "minLength": 3})),
        ("oneOf", json!({"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]})),
        ("minimum", json!({"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 3})),
        ("maxLength", json!({"$ref": "#/$defs/x", "maxLength": 3})),
        ("pattern", json!({"enum": ["a", "b"], "pattern": "a"})),
        ("maximum", json!({"const": 3, "maximum": 2})),
        ("contentEncoding", json!({"type": "string", "contentEncoding": "base64"})),
        ("minimum", json!({"type": "string", "minimum": 3})),
        ("multipleOf", json!({"type": "integer", "multipleOf": 5})),
        ("multipleOf", json!({"type": "number", "multipleOf": 0.5})),
        ("exclusiveMinimum", json!({"type": "number", "exclusiveMinimum": 0})),
        ("exclusiveMaximum", json!({"type": "number", "exclusiveMaximum": 0})),
        ("uniqueItems", json!({"type": "array", "uniqueItems": true})),
        ("prefixItems", json!({"type": "array", "prefixItems": [{"type": "string"}]})),
        ("contains", json!({"type": "array", "contains": {"type": "string"}})),
        ("unevaluatedItems", json!({"type": "array", "unevaluatedItems": false})),
        ("minProperties", json!({"type": "object", "minProperties": 1})),
        ("maxProperties", json!({"type": "object", "maxProperties": 1})),
        ("patternProperties", json!({"type": "object", "patternProperties": {"^a": true}})),
        ("propertyNames", json!({"type": "object", "propertyNames": {"maxLength": 3}})),
        ("dependentRequired", json!({"type": "object", "dependentRequired": {"a": ["b"]}})),
        ("dependentSchemas", json!({"type": "object", "dependentSchemas": {"a": {}}})),
        ("unevaluatedProperties", json!({"type": "object", "unevaluatedProperties": false})),
        ("$dynamicRef", json!({"$dynamicRef": "#x"})),
        ("required", json!({"required": ["a"]})),
        ("$id", json!({"$id": "https://example.org/a", "type": "string"})),
        ("$schema", json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})),
        ("$anchor", json!({"$anchor": "x", "type": "string"})),
        ("not", json!({"type": "null", "not": {}})),
        ("minLength", json!({"type": "null", "minLength": 1})),
        ("minLength", json!({"minLength": 1})),
        ("made_up", json!({"type": "string", "made_up": true})),
    ]
}

#[test]
fn a_keyword_that_cannot_be_enforced_is_refused_where_it_stands() {
    for (keyword, schema) in unenforceable() {
        let places = [
            ("schema.a", with_field(&schema)),
            ("schema.a[]", with_field(&json!({"type": "array", "items": schema}))),
            ("schema.a.b", with_field(&json!({"type": "object", "properties": {"b": schema}}))),
            ("schema.a", with_field(&json!({"anyOf": [schema, {"type": "null"}]}))),
        ];
        for (place, whole) in places {
            let refusal = registered(whole.clone()).unwrap_err();
            let wanted = SchemaRefusal::Keyword { place: place.into(), keyword: keyword.into() };
            assert_eq!(refusal, wanted, "{whole}");
        }
        let defined = json!({"type": "object", "properties": {}, "$defs": {"x": schema}});
        assert!(
            registered(defined.clone()).is_err(),
            "{defined}: unused, and refused all the same"
        );
        // These are legal at the root.
        if ["$id", "$schema"].contains(&keyword) {
            continue;
        }
        let answer = SpecDraft::new("read", "A tool.").returns_schema(schema.clone()).build();
        assert!(matches!(answer, Err(SpecRefusal::Schema { .. })), "{schema} of the answer");
    }
}

#[test]
fn what_only_describes_is_taken() {
    let described = json!({
        "type": "string", "title": "A", "description": "An a.", "default": "x", "examples": ["x"],
        "deprecated": true, "readOnly": true, "writeOnly": false, "format": "email",
        "$comment": "c", "x-order": 1, "minLength": 1,
    });
    assert_eq!(registered(with_field(&described)), Ok(()));
}

#[test]
fn a_keyword_with_a_value_of_another_kind_is_refused() {
    let bad = [
        json!({"type": "string", "minLength": -1}),
        json!({"type": "string", "minLength": 1.5}),
        json!({"type": "string", "maxLength": "3"}),
        json!({"type": "string", "pattern": 3}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "pattern": "(?=a)b"}),
        json!({"type": "string", "pattern": r"(a)\1"}),
        json!({"type": "string", "pattern": "[ab]{60000}{60000}"}),
        json!({"type": "integer", "minimum": "3"}),
        json!({"type": "integer", "exclusiveMinimum": true}),
        json!({"type": "number", "maximum": null}),
        json!({"type": "array", "minItems": -1}),
        json!({"type": "array", "items": [{"type": "string"}]}),
        json!({"type": "array", "items": "string"}),
        json!({"type": "object", "properties": {}, "required": "a"}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"type": "object", "properties": null}),
        json!({"type": "object", "properties": 5}),
        json!({"type": "object", "properties": []}),
        json!({"properties": 5}),
        json!({"type": "object", "properties": {"a": {}}, "required": ["a", 7]}),
        json!({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}),
        json!({"type": "object", "properties": {"a": {}}, "required": [["a"]]}),
        json!({"type": "object", "additionalProperties": null}),
        json!({"anyOf": []}),
        json!({"oneOf": []}),
        json!({"$defs": 5}),
        json!({"$defs": {"x": {"type": "text"}}}),
        json!({"definitions": []}),
        json!({"type": "string", "title": 5}),
        json!({"type": "string", "description": null}),
        json!({"type": "string", "format": ["email"]}),
        json!({"type": "string", "examples": "x"}),
        json!({"type": "string", "readOnly": "yes"}),
        json!({"type": ["object", "object"]}),
        json!({"type": "text"}),
        json!({"type": 3}),
        json!({"type": []}),
        json!({"type": ["string", "text"]}),
        json!(false),
        json!(null),
        json!("string"),
        json!([]),
    ];
    for schema in bad {
        let refusal = registered(with_field(&schema)).unwrap_err();
        assert!(matches!(refusal, SchemaRefusal::Value { .. }), "{schema}: {refusal}");
    }
}

/// A choice that its own type forbids altogether could never be sent.
#[test]
fn a_choice_of_nothing_is_refused() {
    for schema in [
        json!({"type": "integer", "const": "a"}),
        json!({"type": ["string", "null"], "enum": [1, false]}),
        json!({"enum": []}),
    ] {
        let refusal = registered(with_field(&schema)).unwrap_err();
        assert!(matches!(refusal, SchemaRefusal::Value { .. }), "{schema}: {refusal}");
    }
}

#[test]
fn references_stay_inside_the_schema() {
    for target in
        ["#/$defs/nowhere", "https://example.org/x.json", "file:///etc/passwd", "#", "x", ""]
    {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": target}},
                            "$defs": {"x": {"type": "string"}}});
        let refusal = registered(schema).unwrap_err();
        assert!(matches!(refusal, SchemaRefusal::Reference { .. }), "{target}: {refusal}");
    }
    let inside = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}},
                        "$defs": {"x": {"type": "string"}}});
    assert_eq!(registered(inside), Ok(()));
}

/// The name of a definition is escaped as in a pointer, and as in an address around it.
#[test]
fn references_are_pointers() {
    let schema = |target: &str| {
        json!({"type": "object", "properties": {"a": {"$ref": target}}, "$defs": {
            "a/b": {"type": "string"}, "a~1b": {"type": "integer"}, "%41": {"type": "boolean"},
            "A": {"type": "null"}, "a": {"type": "object", "properties": {"b": {"type": "array"}}},
            "é": {"type": "number"},
        }})
    };
    for (target, fitting) in [
        ("#/$defs/a~1b", json!("x")),
        ("#/$defs/a~01b", json!(1)),
        ("#/$defs/%2541", json!(true)),
        ("#/$defs/%41", json!(null)),
        ("#/%24defs/A", json!(null)),
        ("#/$defs/a%2Fb", json!(null)),
        ("#/$defs/é", json!(1.5)),
        ("#/$defs/%C3%A9", json!(1.5)),
    ] {
        let Ok(shape) = Shape::compile(&schema(target)) else {
            assert_eq!(target, "#/$defs/a%2Fb", "a slash is a slash, however it is written");
            continue;
        };
        for value in [json!("x"), json!(1), json!(true), json!(null), json!(1.5), json!([])] {
            let mut args = json!({"a": value});
            let fits = shape.fit(&mut args, &mut Vec::new()) == Ok(Fit::AsWritten);
            let number = fitting == json!(1.5) && value.is_number();
            assert_eq!(fits, value == fitting || number, "{target} {value}");
        }
    }
    for target in
        ["#/$defs/a/b", "#/$defs/a~2b", "#/$defs/a~", "#/$defs/%4", "#/$defs/%FF", "#%", "#/$defs"]
    {
        let refusal = registered(schema(target)).unwrap_err();
        assert!(matches!(refusal, SchemaRefusal::Reference { .. }), "{target}: {refusal}");
    }
}

/// A chain of definitions is followed for every value, so it takes little of the stack.
#[test]
fn chains_of_definitions_end_somewhere() {
    let chain = |links: usize| {
        let mut defs = serde_json::Map::new();
        for at in 0..links {
            defs.insert(format!("d{at}"), json!({"$ref": format!("#/$defs/d{}", at + 1)}));
        }
        defs.insert(format!("d{links}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    };
    assert_eq!(registered(chain(20)), Ok(()));
    for links in [40, 3_000] {
        assert_eq!(registered(chain(links)), Err(SchemaRefusal::TooDeep), "{links}");
    }
}

/// However a schema nests kinds in kinds, a deep value takes little of the stack.
#[test]
fn a_deep_value_takes_little_of_the_stack() {
    let mut kind = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}});
    for _ in 0..12 {
        kind = json!({"oneOf": [kind, {"type": "string"}]});
    }
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {"d0": kind}});
    let value = (0..63).fold(json!("x"), |inner, _| json!({ "x": inner }));
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let walked = small.spawn(move || {
        let shape = Shape::compile(&schema).unwrap();
        shape.fit(&mut value.clone(), &mut Vec::new()).is_ok()
    });
    // Whether it fits is another matter: it must not end the process.
    assert!(walked.unwrap().join().is_ok());
}

/// A definition that is itself, with nothing in between, has no values and no end.
#[test]
fn a_definition_that_is_only_itself_is_refused() {
    let circles = [
        json!({"x": {"$ref": "#/$defs/x"}}),
        json!({"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}),
        json!({"x": {"anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}}),
        json!({"x": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/x"}]}}),
        json!({"x": {"allOf": [{"$ref": "#/$defs/x"}]}}),
    ];
    for defs in circles {
        let schema =
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": defs});
        assert!(registered(schema.clone()).is_err(), "{schema}");
    }
    // Through a field or a list there is something to walk down, so this ends with the value.
    let tree = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}}, "$defs": {
        "tree": {"type": "object", "properties": {
            "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "rest": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        }},
    }});
    assert_eq!(registered(tree), Ok(()));
}

#[test]
fn nesting_ends_somewhere() {
    let nested = |depth: usize| {
        (0..depth)
            .fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}))
    };
    assert!(Shape::compile(&nested(32)).is_ok());
    assert_eq!(Shape::compile(&nested(33)).err(), Some(SchemaRefusal::TooDeep));
}

fn nested_draft() -> SpecDraft {
    SpecDraft::new("plan", "Plans.").params_schema(json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "meta": {"type": "object", "properties": {"author": {"type": "string"}}},
            "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
            "last": {"anyOf": [{"$ref": "#/$defs/step"}, {"type": "null"}]},
        },
        "$defs": {"step": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }))
}

#[test]
fn an_alias_belongs_to_a_field_that_exists() {
    for path in ["title", "meta.author", "steps[].name", "last.name"] {
        assert!(nested_draft().argument_alias(path, "other").build().is_ok(), "{path}");
    }
    for path in ["", "titel", "meta.title", "meta.author.x", "steps.name", "title[].x", "[]"] {
        let refusal = nested_draft().argument_alias(path, "other").build().unwrap_err();
        let SpecRefusal::Schema { source, .. } = &refusal else { panic!("{path}: {refusal}") };
        assert_eq!(*source, SchemaRefusal::NoSuchField { path: path.into() }, "{path}");
    }
}

/// A path that is not there, or is no text, would reach the tool in a form nobody looked at.
#[test]
fn a_path_argument_is_a_text_field_that_exists() {
    let draft = || {
        SpecDraft::new("read", "Reads.").params_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "other": {"type": ["string", "null"]},
                "count": {"type": "integer"},
                "paths": {"type": "array", "items": {"type": "string"}},
                "any": {},
            },
        }))
    };
    for field in ["path", "other"] {
        assert!(draft().path_argument(field, None).build().is_ok(), "{field}");
    }
    for field in ["", "pathh", "count", "paths", "any"] {
        assert!(draft().path_argument(field, None).build().is_err(), "{field:?}");
    }
}

/// What is shown says outright that other fields are refused, at every depth.
#[test]
fn the_published_schema_is_closed() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    /// Docs of a Rust type say nothing to a model.
    struct Params {
        /// The title.
        title: String,
        inner: Option<Inner>,
        list: Vec<Inner>,
        map: std::collections::BTreeMap<String, u8>,
    }
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Inner {
        n: i64,
    }
    let spec = SpecDraft::new("plan", "Plans.").params::<Params>().build().unwrap();
    let input = &spec.input;
    assert_eq!(input["additionalProperties"], json!(false));
    assert_eq!(input["$defs"]["Inner"]["additionalProperties"], json!(false));
    assert_eq!(input["properties"]["map"]["additionalProperties"]["type"], json!("integer"));
    assert_eq!(input["properties"]["title"]["description"], json!("The title."));
    for noise in ["$schema", "title", "description"] {
        assert_eq!(input.get(noise), None, "{noise}");
    }
    let none = SpecDraft::new("ping", "Pings.").params_schema(json!({"type": "object"})).build();
    let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(none.unwrap().input, closed);
}

/// A field may be named like a keyword, and a default may look like a schema.
#[test]
fn only_schemas_are_closed() {
    let schema = json!({
        "type": "object",
        "properties": {
            "properties": {"type": "object", "properties": {"type": {"type": "string"}}},
            "enum": {"enum": [{"properties": {}}]},
            "$defs": {"type": "string", "default": {"properties": {}}},
        },
    });
    let input = SpecDraft::new("edit", "Edits.").params_schema(schema).build().unwrap().input;
    let fields: Vec<_> = input["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["properties", "enum", "$defs"]);
    assert_eq!(input["properties"]["properties"]["additionalProperties"], json!(false));
    assert_eq!(input["properties"]["enum"]["enum"], json!([{"properties": {}}]));
    assert_eq!(input["properties"]["$defs"]["default"], json!({"properties": {}}));
}
