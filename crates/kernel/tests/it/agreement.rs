//! Our walker and an independent validator agree: what we take, the published schema takes too.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jsonschema::draft202012;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use toolgate_kernel::tool::{Fit, Shape, SpecDraft};

use crate::support::cases;

/// Few names, so that fields of values meet fields of schemas.
const NAMES: &[&str] = &["a", "b", "c", "kind"];
const WORDS: &[&str] =
    &["", " ", "a", "b", "ab", "3", "-1", "2.5", "true", "null", "é", "٣", "A b"];
const PATTERNS: &[&str] = &["^[a-z]*$", "b", r"^\d+$", r"\w", r"^\s?$", "^.$", "[^a]"];

fn bounds(low: i64, high: i64) -> impl Strategy<Value = (Option<i64>, Option<i64>)> {
    let bound = move || prop::option::weighted(0.3, low..high);
    (bound(), bound())
}

fn with<T: Into<Value>>(schema: &mut Value, keyword: &str, value: Option<T>) {
    if let (Some(map), Some(value)) = (schema.as_object_mut(), value) {
        map.insert(keyword.to_owned(), value.into());
    }
}

fn any_scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::Bool),
        4 => (-4..5_i64).prop_map(Value::from),
        1 => select(vec![i64::MIN, i64::MAX, 9_007_199_254_740_993]).prop_map(Value::from),
        1 => Just(Value::from(u64::MAX)),
        2 => select(vec![0.0, -0.0, 1.0, 1.5, -2.5, 3.0, 1e300, 9_007_199_254_740_994.0]).prop_map(Value::from),
        6 => select(WORDS).prop_map(Value::from),
    ]
}

fn scalar_schema() -> impl Strategy<Value = Value> {
    let integer = (bounds(-3, 4), select(vec!["minimum", "exclusiveMinimum"])).prop_map(
        |((low, high), name)| {
            let mut schema = json!({"type": "integer"});
            with(&mut schema, name, low);
            with(&mut schema, &name.replace("in", "ax"), high);
            schema
        },
    );
    let halves = bounds(-3, 4).prop_map(|(low, high)| {
        let mut schema = json!({"type": "integer"});
        let half = |n: i64| i32::try_from(n).map(f64::from).unwrap_or_default() / 2.0;
        with(&mut schema, "minimum", low.map(half));
        with(&mut schema, "maximum", high.map(half));
        schema
    });
    let number = bounds(-3, 4).prop_map(|(low, high)| {
        let mut schema = json!({"type": "number"});
        with(&mut schema, "minimum", low);
        with(&mut schema, "maximum", high);
        schema
    });
    let text = (bounds(0, 3), prop::option::weighted(0.3, select(PATTERNS))).prop_map(
        |((low, high), pattern)| {
            let mut schema = json!({"type": "string"});
            with(&mut schema, "minLength", low);
            with(&mut schema, "maxLength", high);
            with(&mut schema, "pattern", pattern);
            schema
        },
    );
    prop_oneof![
        1 => Just(json!({})),
        1 => Just(json!(true)),
        1 => Just(json!({"type": "null"})),
        2 => Just(json!({"type": "boolean"})),
        3 => integer,
        1 => halves,
        2 => number,
        3 => text,
        2 => prop::collection::vec(any_scalar(), 1..4).prop_map(|values| json!({ "enum": values })),
        1 => any_scalar().prop_map(|value| json!({ "const": value })),
        1 => prop::sample::subsequence(vec!["integer", "string", "boolean", "null", "number"], 1..4)
            .prop_map(|types| json!({ "type": types })),
        1 => select(vec!["#/$defs/leaf", "#/$defs/tree"]).prop_map(|target| json!({"$ref": target})),
    ]
}

fn object_schema(
    inner: impl Strategy<Value = Value> + Clone + 'static,
) -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec((select(NAMES), inner.clone(), any::<bool>()), 0..4);
    let others = prop_oneof![
        3 => Just(None),
        1 => Just(Some(json!(false))),
        1 => Just(Some(json!(true))),
        1 => inner.prop_map(Some),
    ];
    (fields, others, any::<bool>()).prop_map(|(fields, others, listed)| {
        let mut properties = Map::new();
        let mut required: Vec<&str> = Vec::new();
        for (name, schema, needed) in fields {
            properties.insert(name.to_owned(), schema);
            if needed && !required.contains(&name) {
                required.push(name);
            }
        }
        let mut schema = json!({"type": "object"});
        if listed || !properties.is_empty() {
            with(&mut schema, "properties", Some(properties));
            with(&mut schema, "required", (!required.is_empty()).then_some(required));
        }
        with(&mut schema, "additionalProperties", others);
        schema
    })
}

fn any_schema() -> BoxedStrategy<Value> {
    let schema = scalar_schema().prop_recursive(3, 24, 4, |inner| {
        let list = (inner.clone(), bounds(0, 3)).prop_map(|(item, (low, high))| {
            let mut schema = json!({"type": "array", "items": item});
            with(&mut schema, "minItems", low);
            with(&mut schema, "maxItems", high);
            schema
        });
        let union = (select(vec!["anyOf", "oneOf"]), prop::collection::vec(inner.clone(), 1..4))
            .prop_map(|(keyword, branches)| json!({ keyword: branches }));
        prop_oneof![
            3 => list,
            5 => object_schema(inner.clone()),
            3 => union,
            1 => inner.clone().prop_map(|inner| json!({"anyOf": [inner, {"type": "null"}]})),
            1 => inner.prop_map(|inner| json!({"allOf": [inner]})),
        ]
    });
    schema.boxed()
}

/// A tool's parameters as they are published, with two definitions that schemas may refer to.
fn published() -> impl Strategy<Value = Value> {
    object_schema(any_schema()).prop_filter_map("is registered", |mut schema| {
        with(
            &mut schema,
            "$defs",
            Some(json!({
                "leaf": {"type": "string", "minLength": 1},
                "tree": {"type": "object", "properties": {
                    "a": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
                    "b": {"type": "integer"},
                }},
            })),
        );
        Some(SpecDraft::new("random", "A tool.").params_schema(schema).build().ok()?.input)
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((select(NAMES), inner), 0..4).prop_map(|entries| {
                Value::Object(
                    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                )
            }),
        ]
    })
}

/// A value that was meant for the schema: right in most places, off in some.
fn meant_for(schema: &Value, root: &Value, depth: usize) -> BoxedStrategy<Value> {
    let guess = match (schema.get("$ref").and_then(Value::as_str), schema.get("type")) {
        (Some(target), _) if depth < 4 => {
            let target = root.pointer(target.trim_start_matches('#')).unwrap_or(&Value::Null);
            meant_for(target, root, depth + 1)
        }
        (None, Some(Value::String(name))) => of_type(name, schema, root, depth),
        _ => {
            let lists = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema.get(name));
            let branches: Vec<_> = lists.filter_map(Value::as_array).flatten().collect();
            let values = schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default();
            let values: Vec<_> = values.into_iter().chain(schema.get("const").cloned()).collect();
            if !values.is_empty() {
                select(values).boxed()
            } else if branches.is_empty() {
                any_value().boxed()
            } else {
                let options: Vec<_> =
                    branches.iter().map(|branch| meant_for(branch, root, depth + 1)).collect();
                proptest::strategy::Union::new(options).boxed()
            }
        }
    };
    prop_oneof![19 => guess, 1 => any_value()].boxed()
}

fn of_type(name: &str, schema: &Value, root: &Value, depth: usize) -> BoxedStrategy<Value> {
    match name {
        "array" => {
            let item = schema
                .get("items")
                .map_or_else(|| any_value().boxed(), |item| meant_for(item, root, depth + 1));
            prop::collection::vec(item, 0..3).prop_map(Value::Array).boxed()
        }
        "object" => {
            let empty = Map::new();
            let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
            let fields: Vec<_> = properties
                .iter()
                .map(|(name, inner)| {
                    let value = prop::option::weighted(0.8, meant_for(inner, root, depth + 1));
                    (Just(name.clone()), value)
                })
                .collect();
            let extra = prop::option::weighted(0.2, (select(NAMES), any_scalar()));
            (fields, extra)
                .prop_map(|(fields, extra)| {
                    let fields =
                        fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
                    let extra = extra.map(|(name, value)| (name.to_owned(), value));
                    Value::Object(extra.into_iter().chain(fields).collect())
                })
                .boxed()
        }
        "null" => Just(Value::Null).boxed(),
        "boolean" => select(vec![json!(true), json!(false), json!("true"), json!("")]).boxed(),
        "string" => {
            prop_oneof![4 => select(WORDS).prop_map(Value::from), 1 => any_scalar()].boxed()
        }
        "integer" | "number" => {
            let written = (-4..5_i64).prop_map(|number| Value::from(number.to_string()));
            let number = (-4..5_i64).prop_map(Value::from);
            prop_oneof![3 => number, 1 => written, 1 => any_scalar()].boxed()
        }
        _ => any_scalar().boxed(),
    }
}

fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    published().prop_flat_map(|schema| {
        let value = meant_for(&schema, &schema, 0);
        (Just(schema), value)
    })
}

/// `3` and `3.0` are one value to a validator and two to us, so that we refuse more.
fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// What became of one value, when both agree on it.
fn compare(schema: &Value, value: &Value) -> Result<Option<Fit>, String> {
    let shape = Shape::compile(schema).map_err(|refusal| refusal.to_string())?;
    let judge = draft202012::new(schema).map_err(|error| error.to_string())?;
    let floats = has_float(value) || has_float(schema);
    let taken = |value: &Value| judge.is_valid(value);
    let mut fitted = value.clone();
    match shape.fit(&mut fitted, &mut Vec::new()) {
        Ok(Fit::AsWritten) if fitted != *value => Err(format!("became {fitted} unnoticed")),
        Ok(Fit::AsWritten) if !taken(value) => Err("is taken, and the schema refuses it".into()),
        Ok(Fit::AsWritten) => Ok(Some(Fit::AsWritten)),
        Ok(Fit::Changed) if !taken(&fitted) => Err(format!("is made {fitted}, which is refused")),
        Ok(Fit::Changed) => {
            // What was made to fit fits.
            let again = shape.fit(&mut fitted.clone(), &mut Vec::new());
            if again == Ok(Fit::AsWritten) {
                Ok(Some(Fit::Changed))
            } else {
                Err(format!("{again:?}"))
            }
        }
        Err(misfits) if misfits.is_empty() || misfits.len() > 10 => Err(format!("{misfits:?}")),
        // Nothing is refused that anybody would take, apart from numbers we do not trust.
        Err(misfits) if !floats && judge.is_valid(value) => Err(format!("is refused: {misfits:?}")),
        Err(_) => Ok(None),
    }
}

#[test]
fn what_we_take_the_published_schema_takes() {
    let seen = Mutex::new(BTreeMap::new());
    let mut runner = TestRunner::new(cases(6_000));
    let property = |(schema, value): (Value, Value)| {
        let outcome = compare(&schema, &value)
            .map_err(|reason| TestCaseError::fail(format!("{schema}: {value} {reason}")))?;
        *seen.lock().unwrap().entry(format!("{outcome:?}")).or_insert(0) += 1;
        Ok(())
    };
    runner.run(&schema_and_value(), property).unwrap_or_else(|failure| panic!("{failure}"));
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() == 3 && seen.values().all(|count| *count > 50), "vacuous: {seen:?}");
}

/// Schemas in which a value may fit an alternative for reasons that are not ours: without a type,
/// with a width, with numbers that are equal and not the same.
fn odd_schema() -> BoxedStrategy<Value> {
    let numbers = vec![json!(1), json!(1.0), json!(0), json!(-0.0), json!(1.5), json!(1e300)];
    let wide = vec![json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_993_u64), json!(2)];
    let leaf = prop_oneof![
        2 => select(vec!["int8", "uint8", "int64", "uint64"])
            .prop_map(|width| json!({"type": "integer", "format": width})),
        2 => select(wide.clone()).prop_map(|most| json!({"type": "number", "maximum": most})),
        2 => select(wide).prop_map(|most| json!({"type": "integer", "minimum": most})),
        2 => select(numbers.clone()).prop_map(|value| json!({ "const": value })),
        2 => prop::collection::vec(select(numbers), 1..3).prop_map(|all| json!({ "enum": all })),
        4 => scalar_schema(),
    ];
    let schema = leaf.prop_recursive(3, 24, 4, |inner| {
        let implied = (inner.clone(), any::<bool>()).prop_map(|(field, needed)| {
            let required = if needed { vec!["a"] } else { vec![] };
            json!({"properties": {"a": field}, "required": required})
        });
        let unlisted = (inner.clone(), select(NAMES)).prop_map(|(others, name)| {
            json!({"type": "object", "required": [name], "additionalProperties": others})
        });
        let union = (select(vec!["anyOf", "oneOf"]), prop::collection::vec(inner.clone(), 1..4))
            .prop_map(|(keyword, branches)| json!({ keyword: branches }));
        let typed = (select(vec!["integer", "number", "object"]), inner.clone(), inner.clone())
            .prop_map(|(name, one, other)| json!({"type": name, "oneOf": [one, other]}));
        prop_oneof![
            2 => implied,
            1 => unlisted,
            6 => union,
            2 => typed,
            2 => inner.prop_map(|item| json!({"type": "array", "items": item})),
        ]
    });
    schema.boxed()
}

#[test]
fn what_we_take_of_odd_schemas_the_validator_takes() {
    let values = prop_oneof![
        3 => any_value(),
        1 => select(vec![
            json!(1), json!(1.0), json!(300), json!(-0.0), json!(1e300), json!({"a": 1.0}),
            json!({"a": 300}), json!([1, 1.0]), json!(9_007_199_254_740_993_u64),
        ]),
    ];
    let taken = Mutex::new(0);
    let mut runner = TestRunner::new(cases(6_000));
    let property = |(mut schema, value): (Value, Value)| {
        with(
            &mut schema,
            "$defs",
            Some(json!({"leaf": {"type": "string"}, "tree": {"type": "object"}})),
        );
        let Ok(shape) = Shape::compile_open(&schema) else { return Ok(()) };
        let judge = draft202012::new(&schema).unwrap();
        let mut fitted = value.clone();
        if shape.fit(&mut fitted, &mut Vec::new()).is_ok() {
            prop_assert!(judge.is_valid(&fitted), "{schema} takes {value} as {fitted}");
            *taken.lock().unwrap() += 1;
        }
        Ok(())
    };
    let values = (odd_schema(), values);
    runner.run(&values, property).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(taken.into_inner().unwrap() > 500, "vacuous");
}
