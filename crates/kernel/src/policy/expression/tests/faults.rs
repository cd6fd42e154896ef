//! Evaluations that have no answer, and why.

use serde_json::{Value, json};

use super::super::{EvaluationFault as Fault, Expression, Scope, View};
use super::{ROOTS, answer, compile};

fn fault(source: &str, args: &Value) -> Fault {
    answer(source, args).err().unwrap_or_else(|| panic!("{source} has an answer"))
}

#[test]
fn every_kind_of_fault_is_told() {
    let args = json!({ "n": 1, "s": "x", "f": 1.5, "max": i64::MAX, "min": i64::MIN, "u": u64::MAX,
        "l": [1, 2], "m": { "a": 1 }, "none": null });
    let mismatch = |operation, found| Fault::Mismatch { operation, found };
    let pair = |operation, left, right| Fault::MismatchedPair { operation, left, right };
    let overflow = |operation| Fault::Overflow { operation };
    let field = |name: &str| Fault::NoField { name: name.to_owned() };
    let item = |index: &str| Fault::NoItem { index: index.to_owned(), size: 2 };
    let cases = [
        ("args.n", Fault::NotBoolean { found: "int" }),
        ("'true'", Fault::NotBoolean { found: "string" }),
        ("null", Fault::NotBoolean { found: "null" }),
        ("args.zzz == 1", field("zzz")),
        ("has(args.zzz.a)", field("zzz")),
        ("has(args.n.a)", mismatch("has()", "int")),
        ("args.none.a == 1", mismatch("a field access", "null")),
        ("args.m['b'] == 1", field("b")),
        ("args.l[2] == 1", item("2")),
        ("args.l[-1] == 1", item("-1")),
        ("args.l[0.5] == 1", item("0.5")),
        ("args.l['0'] == 1", pair("[ ]", "list", "string")),
        ("args.max + 1 > 0", overflow("+")),
        ("args.min - 1 < 0", overflow("-")),
        ("-args.min > 0", overflow("-")),
        ("args.max * 2 > 0", overflow("*")),
        ("args.min / -1 > 0", overflow("/")),
        ("args.min % -1 == 0", overflow("%")),
        ("args.u + 1u > 0u", overflow("+")),
        ("0u - 1u > 0u", overflow("-")),
        ("1 / 0 == 1", Fault::DivisionByZero),
        ("1 % 0 == 1", Fault::DivisionByZero),
        ("1u / 0u == 1u", Fault::DivisionByZero),
        ("args.n + args.f > 1.0", pair("+", "int", "double")),
        ("args.n + 1u > 1", pair("+", "int", "uint")),
        ("args.f % 1.0 == 0.5", mismatch("%", "double")),
        ("args.s + 1 == 'x1'", pair("+", "string", "int")),
        ("args.s < 1", pair("<", "string", "int")),
        ("args.none >= 1", pair(">=", "null", "int")),
        ("'x' in args.s", pair("in", "string", "string")),
        ("args.n.startsWith('a')", pair("startsWith()", "int", "string")),
        ("args.n.matches('a')", mismatch("matches()", "int")),
        ("words(args.n) > 1", mismatch("words()", "int")),
        ("size(args.n) > 1", mismatch("size()", "int")),
        ("args.n.all(x, true)", mismatch("a comprehension", "int")),
        ("args.l.all(x, x)", mismatch("all()", "int")),
        ("!args.n", mismatch("!", "int")),
        ("-args.s == 1", mismatch("-", "string")),
        ("args.n ? true : false", mismatch("? :", "int")),
        ("args.n && true", mismatch("&&", "int")),
        ("args.zzz || false", field("zzz")),
        ("false || args.zzz", field("zzz")),
        ("args.l.exists(x, args.zzz == x)", field("zzz")),
        ("args.l.exists_one(x, x == 1 || args.zzz)", field("zzz")),
        ("{'a': 1, 'a': 2}.a == 1", Fault::DuplicateKey),
        ("{1: 1, 1u: 2}[1] == 1", Fault::DuplicateKey),
        ("{1.5: 1}[1.5] == 1", mismatch("a map key", "double")),
        ("string(args.l) == ''", mismatch("string()", "list")),
        ("int(null) == 0", mismatch("int()", "null")),
        ("project.x == 1", Fault::NoVariable { name: "project".to_owned() }),
    ];
    for (source, expected) in cases {
        assert_eq!(fault(source, &args), expected, "{source}");
    }
}

#[test]
fn conversions_never_lose_anything_silently() {
    let args = json!({ "big": 9_007_199_254_740_993_i64, "u": u64::MAX, "f": 1e300 });
    for source in [
        "double(args.big) > 0.0",
        "double(args.u) > 0.0",
        "int(args.u) > 0",
        "int(args.f) > 0",
        "uint(-1) > 0u",
        "int('1.5') == 1",
        "int('') == 1",
        "double('nan') == 1.0",
        "double('x') == 1.0",
        "int('9223372036854775808') > 0",
    ] {
        assert!(matches!(fault(source, &args), Fault::NotConvertible { .. }), "{source}");
    }
}

#[test]
fn faults_say_what_to_do() {
    let args = json!({ "n": 1 });
    let said = fault("args.content == 'x'", &args).to_string();
    assert_eq!(said, "no such field 'content'; test it with has() first");
    let said = fault("args.n", &args).to_string();
    assert_eq!(said, "the condition answered int, not a boolean; compare it with something");
}

struct Panicking;

impl Scope for Panicking {
    fn get(&self, name: &str) -> Option<View<'_>> {
        panic!("no {name} today")
    }
}

#[test]
fn a_panicking_scope_is_a_fault_even_beside_a_decision() {
    let expression = compile("args.a == 1 || true").unwrap();
    let expected = Fault::Panicked { message: "no args today".to_owned() };
    assert_eq!(expression.evaluate(&Panicking), Err(expected));
}

#[test]
fn expressions_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync + Clone>(_: &T) {}
    let expression = Expression::compile("args.n == 1", ROOTS).unwrap();
    shareable(&expression);
    assert_eq!(expression.source(), "args.n == 1");
    assert_eq!(format!("{expression:?}"), "Expression(\"args.n == 1\")");
}
