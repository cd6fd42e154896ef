//! What fits a type: as written, after a safe coercion, or not at all and then why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::agent::AgentDraft;
use toolgate_kernel::tool::{Fit, Misfit, Problem, Shape, SpecDraft};

use crate::support::{Desk, built, section};

/// What becomes of a value.
enum Want {
    /// It fits as it is.
    As,
    /// It fits after a coercion, as this.
    To(Value),
    /// It does not: the path, a part of the message, and what is allowed instead.
    No(&'static str, Problem, &'static str, &'static [&'static str]),
}
use Want::{As, No, To};

fn fit(schema: &Value, value: &Value) -> (Result<Fit, Vec<Misfit>>, Value) {
    let shape = Shape::compile(schema).unwrap_or_else(|refusal| panic!("{schema}: {refusal}"));
    let mut fitted = value.clone();
    let mut warnings = Vec::new();
    let fit = shape.fit(&mut fitted, &mut warnings);
    assert!(warnings.is_empty(), "{schema} {value}: {warnings:?}");
    (fit, fitted)
}

fn check(schema: &Value, rows: Vec<(Value, Want)>) {
    for (value, want) in rows {
        let (found, fitted) = fit(schema, &value);
        match (want, found) {
            (As, found) => {
                assert_eq!(found, Ok(Fit::AsWritten), "{schema} {value}");
                assert_eq!(fitted, value, "{schema} {value}");
            }
            (To(wanted), found) => {
                assert_eq!(found, Ok(Fit::Changed), "{schema} {value}");
                assert_eq!(fitted, wanted, "{schema} {value}");
            }
            (No(path, problem, words, allowed), Err(misfits)) => {
                let first = &misfits[0];
                assert_eq!(
                    (first.path.as_str(), first.problem),
                    (path, problem),
                    "{schema} {value}"
                );
                assert!(first.message.contains(words), "{schema} {value}: {}", first.message);
                assert_eq!(first.allowed, allowed, "{schema} {value}");
            }
            (No(..), Ok(found)) => panic!("{schema} takes {value}, {found:?}"),
        }
    }
}

fn wrong(words: &'static str) -> Want {
    No("", Problem::WrongType, words, &[])
}

fn out(words: &'static str) -> Want {
    No("", Problem::OutOfRange, words, &[])
}

#[test]
fn whole_numbers() {
    check(
        &json!({"type": "integer"}),
        vec![
            (json!(3), As),
            (json!(-3), As),
            (json!(i64::MIN), As),
            (json!(i64::MAX), As),
            (json!(u64::MAX), As),
            (json!("3"), To(json!(3))),
            (json!(" 3 "), To(json!(3))),
            (json!("-3"), To(json!(-3))),
            (json!("9223372036854775807"), To(json!(i64::MAX))),
            (json!("-9223372036854775808"), To(json!(i64::MIN))),
            (json!("18446744073709551615"), To(json!(u64::MAX))),
            (json!(3.0), To(json!(3))),
            (json!(9_007_199_254_740_992.0), To(json!(9_007_199_254_740_992_i64))),
            // Beyond 2^53 a fraction may have been lost before we saw it.
            (json!(9_007_199_254_740_994.0), wrong("a whole number")),
            (json!(1e300), wrong("a whole number")),
            (json!(1.5), wrong("a whole number (got 1.5)")),
            (json!("1.5"), wrong("a whole number")),
            (json!("3.0"), wrong("a whole number")),
            (json!("1e3"), wrong("a whole number")),
            (json!("18446744073709551616"), wrong("a whole number")),
            (json!("-9223372036854775809"), wrong("a whole number")),
            (json!("0x10"), wrong("a whole number")),
            (json!("+3"), wrong("a whole number")),
            (json!("-0"), wrong("a whole number")),
            (json!("03"), wrong("a whole number")),
            (json!("three"), wrong(r#"(got "three")"#)),
            (json!("٣"), wrong("a whole number")),
            (json!(""), wrong("a whole number")),
            (json!(" "), wrong("a whole number")),
            (json!(null), wrong("(got null)")),
            (json!(true), wrong("(got true)")),
            (json!([3]), wrong("(got a list)")),
            (json!({"n": 3}), wrong("(got an object)")),
        ],
    );
}

#[test]
fn bounds_of_whole_numbers() {
    check(
        &json!({"type": "integer", "minimum": 1, "maximum": 30}),
        vec![
            (json!(0), out("1 to 30 (got 0)")),
            (json!(1), As),
            (json!(30), As),
            (json!(31), out("1 to 30 (got 31)")),
            (json!("31"), out("1 to 30 (got 31)")),
            (json!(u64::MAX), out("1 to 30")),
            (json!(i64::MIN), out("1 to 30")),
        ],
    );
    check(
        &json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}),
        vec![(json!(0), out("1 to 2")), (json!(1), As), (json!(2), As), (json!(3), out("1 to 2"))],
    );
    check(
        &json!({"type": "integer", "minimum": u64::MAX}),
        vec![(json!(u64::MAX - 1), out("at least")), (json!(u64::MAX), As)],
    );
    check(
        &json!({"type": "integer", "exclusiveMaximum": i64::MIN}),
        vec![(json!(i64::MIN), out("at most -9223372036854775809"))],
    );
}

/// Bounds are compared exactly, also where two whole numbers are one float.
#[test]
fn large_bounds_of_numbers_hold() {
    let large = 9_007_199_254_740_992_u64;
    check(
        &json!({"type": "number", "maximum": large}),
        vec![
            (json!(large), As),
            (json!(large + 1), out("at most")),
            (json!("9007199254740993"), out("at most")),
            (json!(1e300), out("at most")),
            (json!(-1e300), As),
        ],
    );
    check(
        &json!({"type": "number", "minimum": u64::MAX}),
        vec![(json!(u64::MAX), As), (json!(u64::MAX - 1), out("at least"))],
    );
    check(
        &json!({"type": "number", "minimum": 0.5}),
        vec![(json!(0), out("at least")), (json!(1), As), (json!(0.5), As)],
    );
}

/// Other tools write bounds of whole numbers as floats; they hold all the same.
#[test]
fn bounds_written_with_a_fraction_hold() {
    check(
        &json!({"type": "integer", "minimum": 1.0, "maximum": 10.5}),
        vec![
            (json!(0), out("1 to 10")),
            (json!(1), As),
            (json!(10), As),
            (json!(11), out("1 to 10")),
        ],
    );
    check(
        &json!({"type": "integer", "exclusiveMinimum": 0.5, "exclusiveMaximum": 3.0}),
        vec![(json!(0), out("1 to 2")), (json!(1), As), (json!(2), As), (json!(3), out("1 to 2"))],
    );
    // The bounds of a type wider than any number we take never bite.
    check(
        &json!({"type": "integer", "minimum": 0, "maximum": 3.4e38}),
        vec![(json!(u64::MAX), As), (json!(-1), out("at least 0"))],
    );
}

#[test]
fn numbers() {
    check(
        &json!({"type": "number", "minimum": 0, "maximum": 1.5}),
        vec![
            (json!(0), As),
            (json!(0.0), As),
            (json!(1), As),
            (json!(1.5), As),
            (json!(1.6), out("0 to 1.5")),
            (json!(-0.1), out("0 to 1.5")),
            (json!("1.5"), To(json!(1.5))),
            (json!(" 1 "), To(json!(1))),
            (json!("1e0"), To(json!(1.0))),
            (json!("0e2"), To(json!(0))),
            (json!("-0"), To(json!(0))),
            (json!("1e400"), wrong("a number")),
            (json!("NaN"), wrong("a number")),
            (json!("inf"), wrong("a number")),
            (json!(""), wrong("a number")),
            (json!(null), wrong("a number")),
            (json!(false), wrong("a number")),
        ],
    );
}

#[test]
fn truths() {
    check(
        &json!({"type": "boolean"}),
        vec![
            (json!(true), As),
            (json!("true"), To(json!(true))),
            (json!("false"), To(json!(false))),
            (json!("True"), wrong("true or false")),
            (json!("yes"), wrong("true or false")),
            (json!(1), wrong("true or false")),
            (json!(0), wrong("true or false")),
            (json!(""), wrong("true or false")),
            (json!(null), wrong("true or false")),
        ],
    );
}

#[test]
fn texts() {
    check(
        &json!({"type": "string"}),
        vec![
            (json!(""), As),
            (json!(" "), As),
            (json!("3"), As),
            (json!(3), wrong("a text (got 3)")),
            (json!(null), wrong("a text (got null)")),
            (json!(["a"]), wrong("a text (got a list)")),
        ],
    );
    check(
        &json!({"type": "string", "minLength": 1.0, "maxLength": 3}),
        vec![
            (json!(""), out("1 to 3 characters (got 0)")),
            (json!("あああ"), As),
            (json!("🙂🙂🙂"), As),
            (json!("あああああ"), out("(got 5)")),
        ],
    );
    let no_match = || No("", Problem::NoMatch, "must match ^[a-z][a-z0-9-]*$", &[]);
    check(
        &json!({"type": "string", "pattern": "^[a-z][a-z0-9-]*$"}),
        vec![
            (json!("main"), As),
            (json!("--output=/tmp/pwn"), no_match()),
            (json!("main\n"), no_match()),
            (json!("main\nx"), no_match()),
            (json!(""), no_match()),
        ],
    );
    // A pattern means what it means to everyone who reads the schema: these are ASCII.
    let no = |words| No("", Problem::NoMatch, words, &[]);
    check(
        &json!({"type": "string", "pattern": r"^\d+$"}),
        vec![(json!("3"), As), (json!("٣"), no("must match"))],
    );
    check(
        &json!({"type": "string", "pattern": r"^\w+$"}),
        vec![(json!("a_1"), As), (json!("é"), no("must match"))],
    );
}

#[test]
fn choices() {
    check(
        &json!({"enum": ["walk", "train", 3, null]}),
        vec![
            (json!("walk"), As),
            (json!(3), As),
            (json!(null), As),
            (
                json!("Walk"),
                No(
                    "",
                    Problem::NotAllowed,
                    r#"one of walk, train, 3, null (got "Walk")"#,
                    &["walk", "train", "3", "null"],
                ),
            ),
            (json!("3"), No("", Problem::NotAllowed, "one of", &["walk", "train", "3", "null"])),
            (json!(""), No("", Problem::NotAllowed, "one of", &["walk", "train", "3", "null"])),
        ],
    );
    check(
        &json!({"const": {"a": 1}}),
        vec![
            (json!({"a": 1}), As),
            (json!({"a": 2}), No("", Problem::NotAllowed, "", &[r#"{"a":1}"#])),
        ],
    );
}

#[test]
fn lists() {
    check(
        &json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
        vec![
            (json!([1]), As),
            (json!([1, "2"]), To(json!([1, 2]))),
            (json!([]), out("1 to 2 items (got 0)")),
            (json!([1, 2, 3]), out("1 to 2 items (got 3)")),
            (json!([1, "b"]), No("[1]", Problem::WrongType, "a whole number", &[])),
            (json!("1"), wrong("a list")),
            (json!({"0": 1}), wrong("a list")),
            (json!(null), wrong("a list")),
        ],
    );
    check(&json!({"type": "array"}), vec![(json!([1, "a", null, {"x": []}]), As)]);
}

#[test]
fn records_and_what_is_too_much() {
    let schema = json!({
        "type": "object", "required": ["title", "stops"],
        "properties": {
            "title": {"type": "string"},
            "stops": {"type": "array", "items": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "at": {
                    "type": "object", "properties": {"x": {"type": "integer"}},
                }},
            }},
        },
    });
    let good = |stops: Value| json!({"title": "Alps", "stops": stops});
    check(
        &schema,
        vec![
            (good(json!([])), As),
            (good(json!([{"name": "Chur", "at": {"x": 1}}])), As),
            (
                good(json!([{"name": "Chur", "at": {"x": "1"}}])),
                To(good(json!([{"name": "Chur", "at": {"x": 1}}]))),
            ),
            (json!({"title": "Alps"}), No("stops", Problem::Missing, "is required", &[])),
            (
                json!({"title": "Alps", "stops": [], "colour": "red"}),
                No("colour", Problem::Unknown, "the fields are title, stops", &["title", "stops"]),
            ),
            (
                json!({"titl": "Alps", "title": "Alps", "stops": []}),
                No("titl", Problem::Unknown, "did you mean title?", &["title", "stops"]),
            ),
            (
                good(json!([{"name": "Chur", "beds": 2}])),
                No("stops[0].beds", Problem::Unknown, "the fields are name, at", &["name", "at"]),
            ),
            (
                good(json!([{"name": "a"}, {"name": "b", "at": {"x": 1, "y": 2}}])),
                No("stops[1].at.y", Problem::Unknown, "the fields are x", &["x"]),
            ),
            (
                good(json!([{"name": "a", "at": {"x": "far"}}])),
                No("stops[0].at.x", Problem::WrongType, "a whole number", &[]),
            ),
            (good(json!([{"at": {}}])), No("stops[0].name", Problem::Missing, "is required", &[])),
            (good(json!([null])), No("stops[0]", Problem::WrongType, "an object", &[])),
            (json!([]), wrong("an object (got a list)")),
            (json!("title"), wrong("an object")),
            (json!(null), wrong("an object (got null)")),
        ],
    );
    check(
        &json!({"type": "object", "properties": {}}),
        vec![
            (json!({}), As),
            (json!({"a": 1}), No("a", Problem::Unknown, "send no fields here", &[])),
        ],
    );
}

#[test]
fn maps_check_every_value_and_open_records_their_rest() {
    check(
        &json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        vec![
            (json!({}), As),
            (json!({"a": 1, "b": 2}), As),
            (json!({"a": "1"}), To(json!({"a": 1}))),
            (json!({"a": 1, "b": "x"}), No("b", Problem::WrongType, "a whole number", &[])),
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}}),
        vec![
            (json!({"a": "x", "b": 2}), As),
            (json!({"a": 1}), No("a", Problem::WrongType, "a text", &[])),
            (json!({"a": "x", "b": "x"}), No("b", Problem::WrongType, "a whole number", &[])),
        ],
    );
    check(
        &json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
        vec![(json!({"a": "x", "anything": [null]}), As)],
    );
}

/// Blank stands for nothing only where nothing is legal and a text is not.
#[test]
fn nothing_and_blanks() {
    check(
        &json!({"type": ["integer", "null"]}),
        vec![
            (json!(null), As),
            (json!(3), As),
            (json!("3"), To(json!(3))),
            (json!(""), To(json!(null))),
            (json!(" \t"), To(json!(null))),
            (json!("x"), wrong("a whole number")),
        ],
    );
    check(&json!({"type": ["boolean", "null"]}), vec![(json!(""), To(json!(null)))]);
    check(
        &json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        vec![(json!(""), To(json!(null))), (json!([""]), As)],
    );
    check(&json!({"type": "null"}), vec![(json!(null), As), (json!(""), wrong("null"))]);
    check(
        &json!({"type": ["string", "null"]}),
        vec![(json!(""), As), (json!(" "), As), (json!(null), As)],
    );
    check(&json!({"type": ["string", "integer", "null"]}), vec![(json!(""), As), (json!(" "), As)]);
    check(
        &json!({"anyOf": [{"$ref": "#/$defs/name"}, {"type": "null"}], "$defs": {"name": {"type": "string"}}}),
        vec![(json!(""), As), (json!(null), As)],
    );
    check(
        &json!({"anyOf": [{"enum": ["", "walk"]}, {"type": "null"}]}),
        vec![(json!(""), As), (json!("walk"), As), (json!(" "), To(json!(null)))],
    );
    check(
        &json!({"anyOf": [{"enum": ["walk"]}, {"type": "null"}]}),
        vec![(json!(""), To(json!(null)))],
    );
    check(&json!({}), vec![(json!(""), As), (json!(null), As)]);
}

/// What fits one kind as it is, is that kind, wherever it stands in the list.
#[test]
fn unions_take_what_fits_as_written_before_they_coerce() {
    for schema in [
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        json!({"type": ["integer", "string"]}),
    ] {
        check(&schema, vec![(json!(3), As), (json!("3"), As), (json!("x"), As), (json!(""), As)]);
    }
    // The first kind coerces and then does not fit; that leaves no trace.
    check(
        &json!({"anyOf": [{"type": "integer", "maximum": 2}, {"type": "string"}]}),
        vec![(json!("3"), As), (json!("2"), As), (json!(2), As)],
    );
    check(
        &json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}),
        vec![(json!("3"), To(json!(3))), (json!("true"), To(json!(true)))],
    );
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code)]
enum Step {
    Walk { days: u8, note: Option<String> },
    Ride { train: Train },
    Rest,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
enum Train {
    /// Slow.
    Regional,
    /// Fast.
    Express,
    Night,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Trip {
    title: String,
    steps: Vec<Step>,
    #[serde(default)]
    budget: Option<f64>,
    seats: BTreeMap<String, u64>,
    train: Option<Train>,
    offset: i64,
}

/// Types as Rust writes them down: tagged enums, options, maps, bounds from the number's width.
#[test]
fn a_rust_type_is_enforced_as_it_is_declared() {
    let schema = schemars::schema_for!(Trip).to_value();
    let trip =
        |steps: Value| json!({"title": "Alps", "steps": steps, "seats": {"a": 1}, "offset": -1});
    let misfit = |path, problem, words, allowed| No(path, problem, words, allowed);
    check(
        &schema,
        vec![
            (trip(json!([])), As),
            (trip(json!([{"kind": "walk", "days": 3}, {"kind": "rest"}])), As),
            (trip(json!([{"kind": "walk", "days": 3, "note": null}])), As),
            (trip(json!([{"kind": "ride", "train": "night"}])), As),
            (
                trip(json!([{"kind": "walk", "days": "3"}])),
                To(trip(json!([{"kind": "walk", "days": 3}]))),
            ),
            (
                trip(json!([{"kind": "walk", "days": 256}])),
                misfit("steps[0].days", Problem::OutOfRange, "0 to 255", &[]),
            ),
            (
                trip(json!([{"kind": "walk", "days": -1}])),
                misfit("steps[0].days", Problem::OutOfRange, "0 to 255", &[]),
            ),
            (
                trip(json!([{"kind": "walk"}])),
                misfit("steps[0].days", Problem::Missing, "is required", &[]),
            ),
            (
                trip(json!([{"kind": "walk", "days": 3, "train": "night"}])),
                misfit(
                    "steps[0].train",
                    Problem::Unknown,
                    "the fields are kind, days, note",
                    &["kind", "days", "note"],
                ),
            ),
            (
                trip(json!([{"kind": "rest", "days": 3}])),
                misfit("steps[0].days", Problem::Unknown, "the fields are kind", &["kind"]),
            ),
            (
                trip(json!([{"kind": "ride", "train": "fast"}])),
                misfit(
                    "steps[0].train",
                    Problem::NotAllowed,
                    "night, regional, express",
                    &["night", "regional", "express"],
                ),
            ),
            (
                json!({"title": "A", "steps": [], "seats": {"a": "x"}, "offset": 0}),
                misfit("seats.a", Problem::WrongType, "a whole number", &[]),
            ),
            (
                json!({"title": "A", "steps": [], "seats": {"a": -1}, "offset": 0}),
                misfit("seats.a", Problem::OutOfRange, "at least 0", &[]),
            ),
            (json!({"title": "A", "steps": [], "seats": {}, "offset": i64::MIN}), As),
            (json!({"title": "A", "steps": [], "seats": {"a": u64::MAX}, "offset": i64::MAX}), As),
            (
                json!({"title": "A", "steps": [], "seats": {}, "offset": 0, "train": ""}),
                To(json!({"title": "A", "steps": [], "seats": {}, "offset": 0, "train": null})),
            ),
            (
                json!({"title": "A", "steps": [], "seats": {}, "offset": 0, "budget": "1.5"}),
                To(json!({"title": "A", "steps": [], "seats": {}, "offset": 0, "budget": 1.5})),
            ),
            (json!({"title": "A", "steps": [], "seats": {}, "offset": 0, "budget": null}), As),
        ],
    );
    let unknown =
        No("steps[0].kind", Problem::NotAllowed, "walk, ride, rest", &["walk", "ride", "rest"]);
    check(&schema, vec![(trip(json!([{"kind": "fly", "days": 3}])), unknown)]);
    let (found, _) = fit(&schema, &trip(json!([{"days": 3}])));
    let misfits = found.unwrap_err();
    assert!(misfits.iter().any(|misfit| misfit.path == "steps[0].kind"), "{misfits:?}");
}

/// An `i64` does not hold what only a `u64` holds, and the tool must not be the first to notice.
#[test]
fn the_width_of_a_rust_number_is_kept() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Wide {
        signed: i64,
        unsigned: u64,
    }
    let schema = schemars::schema_for!(Wide).to_value();
    let shape = Shape::compile(&schema).unwrap();
    for (signed, unsigned) in [
        (json!(i64::MIN), json!(u64::MAX)),
        (json!(u64::MAX), json!(0)),
        (json!(0), json!(-1)),
        (json!("9223372036854775808"), json!(0)),
    ] {
        let mut value = json!({"signed": signed, "unsigned": unsigned});
        let fits = shape.fit(&mut value, &mut Vec::new()).is_ok();
        assert_eq!(fits, serde_json::from_value::<Wide>(value.clone()).is_ok(), "{value}");
    }
    // The bound that was crossed is told, also when only the type has it.
    let misfit = |mut value: Value| shape.fit(&mut value, &mut Vec::new()).unwrap_err().remove(0);
    let large = misfit(json!({"signed": u64::MAX, "unsigned": 0}));
    assert!(large.message.contains("at most 9223372036854775807"), "{}", large.message);
    let small = misfit(json!({"signed": 0, "unsigned": -1}));
    assert!(small.message.contains("at least 0 (got -1)"), "{}", small.message);
}

/// A type beside a choice or a union holds too.
#[test]
fn a_type_beside_a_union_is_kept() {
    let choice = json!({"type": "string", "enum": ["a", 1]});
    check(
        &choice,
        vec![(json!("a"), As), (json!(1), No("", Problem::NotAllowed, "one of a", &["a"]))],
    );
    let union = json!({"type": "string", "anyOf": [{"type": "string"}, {"type": "integer"}]});
    check(&union, vec![(json!("a"), As), (json!(1), wrong("of type string (got 1)"))]);
    let object = json!({"type": "object", "oneOf": [{"type": "string"}, {"type": "object"}]});
    check(&object, vec![(json!({}), As), (json!("a"), wrong("of type object"))]);
}

/// `oneOf` means exactly one.
#[test]
fn what_fits_two_kinds_at_once_is_neither() {
    let schema = json!({"oneOf": [{"type": "integer"}, {"type": "number", "maximum": 5}]});
    check(
        &schema,
        vec![
            (json!(7), As),
            (json!(1.5), As),
            (json!(3), wrong("several")),
            (json!("3"), wrong("several")),
            // A number without a fraction is an integer, however it is written.
            (json!(3.0), wrong("several")),
            (json!(7.0), To(json!(7))),
        ],
    );
    let both = json!({"oneOf": [{"type": "integer"}, {"type": "number"}]});
    check(
        &both,
        vec![
            (json!(1), wrong("several")),
            (json!(1.0), wrong("several")),
            (json!(1e300), wrong("several")),
            (json!(1.5), As),
        ],
    );
    let width = json!({"oneOf": [{"type": "integer", "format": "uint8"}, {"type": "integer"}]});
    check(&width, vec![(json!(3), wrong("several")), (json!(300), wrong("several"))]);
    let equal = json!({"oneOf": [{"const": 1}, {"const": 1.0}]});
    check(&equal, vec![(json!(1), wrong("several")), (json!(1.0), wrong("several"))]);
    let tags = |tag: Value| json!({"type": "object", "required": ["k"], "properties": {"k": {"const": tag}}});
    let tagged = json!({"oneOf": [tags(json!(1)), tags(json!(1.0))]});
    check(&tagged, vec![(json!({"k": 1}), wrong("several"))]);
    let implied = json!({"oneOf": [{"properties": {"a": {}}}, {"type": "string"}]});
    check(&implied, vec![(json!("x"), wrong("several")), (json!({"a": 1}), As)]);
    let implied = json!({"oneOf": [{"properties": {"a": {}}}, {"type": "null"}]});
    check(&implied, vec![(json!(null), wrong("several"))]);
    let nullable = json!({"oneOf": [{"type": "integer"}, {"type": "null"}]});
    check(&nullable, vec![(json!(null), As), (json!(3), As), (json!(""), To(json!(null)))]);
    let twice = json!({"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]});
    check(&twice, vec![(json!("a"), As), (json!("c"), As), (json!("b"), wrong("several"))]);
    let any = json!({"oneOf": [{}, {"type": "null"}]});
    check(&any, vec![(json!(3), As), (json!(null), wrong("several"))]);
}

/// Every misfit is told at once, in order, up to ten.
#[test]
fn misfits_are_told_together_and_not_without_end() {
    let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"},
    }});
    let (found, _) = fit(&schema, &json!({"a": "x", "c": 1, "d": 1}));
    let paths: Vec<_> = found.unwrap_err().into_iter().map(|misfit| misfit.path).collect();
    assert_eq!(paths, ["a", "b", "c", "d"]);
    let (found, _) =
        fit(&json!({"type": "array", "items": {"type": "integer"}}), &json!(vec!["x"; 50]));
    assert_eq!(found.unwrap_err().len(), 10);
}

/// A value is quoted short, so that an error never carries a whole manuscript.
#[test]
fn a_message_stays_short() {
    let long = "x".repeat(10_000);
    let (found, _) = fit(&json!({"type": "integer"}), &json!(long));
    assert!(found.unwrap_err()[0].message.len() < 200);
    let (found, _) = fit(&json!({"type": "object", "properties": {}}), &json!({ (long): 1 }));
    assert!(found.unwrap_err()[0].to_string().len() < 400);
}

/// Two kinds that look alike at every depth are not tried two to the power of the depth times.
#[test]
fn a_deep_value_of_alike_kinds_is_answered() {
    let kind = |name: &str| {
        json!({
            "type": "object", "required": ["op"],
            "properties": {"op": {"const": name}, "of": {"$ref": "#/$defs/term"}},
        })
    };
    let untagged = |name: &str| {
        json!({
            "type": "object", "properties": {"of": {"$ref": "#/$defs/term"}, (name): {"type": "string"}},
        })
    };
    for branches in [[kind("not"), kind("neg")], [untagged("a"), untagged("b")]] {
        let schema = json!({"$ref": "#/$defs/term", "$defs": {"term": {"anyOf": branches}}});
        let shape = Shape::compile(&schema).unwrap();
        let nested = |core: Value| {
            (0..60).fold(core, |inner, at| match at % 2 {
                0 => json!({"op": "neg", "of": inner}),
                _ => json!({"op": "not", "of": inner}),
            })
        };
        let mut bad = nested(json!({"op": "neither"}));
        assert!(shape.fit(&mut bad, &mut Vec::new()).is_err());
    }
}

/// Through the gate: aliases first, then coercions, and a path in its one form.
#[test]
fn aliases_and_paths_are_settled_before_anybody_looks() {
    let draft = SpecDraft::new("write", "Writes.")
        .params_schema(json!({
            "type": "object", "required": ["path"],
            "properties": {
                "path": {"type": "string", "pattern": "^notes/", "maxLength": 40},
                "steps": {"type": "array", "items": {
                    "type": "object", "properties": {"name": {"type": "string"}},
                }},
            },
        }))
        .argument_alias("path", "file")
        .argument_alias("steps[].name", "label")
        .path_argument("path", Some("/work"));
    let mut desk = Desk::new(AgentDraft::new("desk", vec![section("a", vec![built(draft)])]));
    let mut prepare = |args: Value| {
        let id = desk.receive("write", &args.to_string());
        desk.prepare(id)
    };
    let call = prepare(json!({"file": "notes/./a.md", "steps": [{"label": "x"}]})).unwrap();
    assert_eq!(
        Value::Object(call.args_tree().clone()),
        json!({"steps": [{"name": "x"}], "path": "notes/a.md"})
    );
    let both = prepare(json!({"path": "notes/a.md", "file": "notes/b.md"})).unwrap();
    assert_eq!(both.args_tree()["path"], "notes/a.md");
    assert_eq!(both.warnings(), ["file was ignored: path was also given"]);
    // The type is the type of what the tool gets, not of what was written.
    for path in
        ["notes/../secret.md", "secret.md", "notes/../../x", "/somewhere/x.md", "notes/\u{202e}x"]
    {
        assert!(prepare(json!({"path": path})).is_err(), "{path}");
    }
}
