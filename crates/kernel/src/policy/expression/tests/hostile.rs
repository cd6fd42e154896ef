//! Sources and arguments made to exhaust the stack, the time or the memory.

use serde_json::{Value, json};

use super::super::{EvaluationFault, Expression, ExpressionFault, stack};
use super::{ROOTS, answer, compile};

/// Runs `work` on a thread with the given stack, on which an overflow would end the process.
pub(super) fn on_stack(kib: usize, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(kib * 1024);
        builder.spawn_scoped(scope, work).unwrap().join().unwrap();
    });
}

#[test]
fn giant_sources_are_refused_by_their_length() {
    for unit in ["(", "!", "-", "true||", "a.", "[", "{1:", "a?a:", "'", "\u{0}", "ä"] {
        let source = unit.repeat(1024 * 1024 / unit.len());
        assert!(matches!(compile(&source), Err(ExpressionFault::TooLong { .. })), "{unit}");
    }
    let terms = vec!["true"; 2000].join("||");
    assert!(matches!(compile(&terms), Err(ExpressionFault::TooLong { .. })));
    assert!(matches!(
        compile(&format!("{}true", "!".repeat(5000))),
        Err(ExpressionFault::TooLong { .. })
    ));
}

#[test]
fn deep_and_long_sources_within_the_length_are_refused() {
    use ExpressionFault::{TooChained, TooNested};
    let closed =
        |open: &str, close: &str, times| format!("{}1{}", open.repeat(times), close.repeat(times));
    on_stack(512, || {
        for (source, expected) in [
            ("(".repeat(1000), TooNested),
            (")".repeat(20) + &"(".repeat(900), TooNested),
            (closed("(", ")", 400), TooNested),
            (closed("[", "]", 400), TooNested),
            (closed("{1:", "}", 200), TooNested),
            (closed("size(", ")", 100), TooNested),
            (closed("args[", "]", 100), TooNested),
            (closed("!(", ")", 100), TooNested),
            (format!("{}true", "true?true:".repeat(100)), TooNested),
            (format!("{}true", "!".repeat(1000)), TooChained),
            (format!("{}1 == 1", "- ".repeat(500)), TooChained),
            (vec!["a"; 340].join("||"), TooChained),
            (vec!["a"; 500].join("."), TooChained),
            (vec!["1"; 500].join("+"), TooChained),
            (format!("args{}", "[0]".repeat(300)), TooChained),
            (format!("args{}", ".a()".repeat(200)), TooChained),
            (vec!["a"; 200].join(" in "), TooChained),
        ] {
            assert_eq!(compile(&source).err(), Some(expected), "{source}");
        }
    });
}

/// The scan may be fooled by texts the parser reads otherwise; the parser's own bound then holds.
#[test]
fn a_fooled_scan_does_no_harm() {
    on_stack(512, || {
        for source in [
            format!("\"\\q{}\"", "(".repeat(1000)),
            format!("'\\x{}'", "[".repeat(1000)),
            format!("b'\\u{}'", "{1:".repeat(300)),
            format!("'\\q{}'", "a||".repeat(330)),
            format!("'\\q{}'", "a.".repeat(500)),
            format!("`'`{}'", "(".repeat(900)),
            format!("1.'{}'", "(".repeat(900)),
        ] {
            assert!(compile(&source).is_err(), "{source}");
        }
    });
}

#[test]
fn a_panicking_parser_is_a_refusal() {
    let refusal = stack::run(|| -> Result<(), ExpressionFault> { panic!("bad state {}", 7) });
    assert_eq!(refusal, Err(ExpressionFault::ParserFailed { reason: "bad state 7".to_owned() }));
}

#[test]
fn the_deepest_allowed_expressions_run_on_a_small_stack() {
    let nested = |open: &str, close: &str| format!("{}args.t{}", open.repeat(16), close.repeat(16));
    let sources = [
        nested("(", ")"),
        nested("!(", ")"),
        format!("{} != 0", nested("[", "]")),
        format!("{} != 0", nested("{1:", "}")),
        format!("{} != ''", nested("string(", ")")),
        format!("{} != 0", vec!["args.n"; 62].join("+")),
        format!("{}true", "true?true:".repeat(16)),
        vec!["args.t"; 61].join("!="),
        vec!["args.t"; 60].join("&&"),
        format!("args.l.all(x, {})", vec!["x"; 60].join("+") + " > 0"),
    ];
    on_stack(256, move || {
        let args = json!({ "t": true, "n": 1, "l": [1] });
        for source in sources {
            assert_eq!(answer(&source, &args), Ok(true), "{source}");
        }
    });
}

#[test]
fn work_is_bounded_whatever_the_arguments_are() {
    let long = "ab ".repeat(60_000);
    let list: Vec<Value> = (0..10_000).map(Value::from).collect();
    let texts = vec![Value::from(long.clone()); 100];
    let args = json!({ "long": long, "list": list, "texts": texts, "n": 1 });
    for source in [
        "args.list.all(x, x in args.list)",
        "args.list.all(x, words(args.long) > 0)",
        "args.list.all(x, args.long.contains('zzz') || true)",
        "args.list.all(x, args.long.matches('zzz') || true)",
        "args.list.all(x, args.list == args.list)",
        "args.list.map(x, args.long + args.long).size() > 0",
        "args.list.map(x, args.long.upperAscii()).size() > 0",
        "args.list.exists(x, args[args.long] == 1)",
        "args.list.exists(x, args.long in args)",
        "args.texts == args.texts",
        "args.list.all(x, x + x + x + x + x + x + x + x + x + x + x > -1)",
    ] {
        assert_eq!(answer(source, &args), Err(EvaluationFault::TooMuchWork), "{source}");
    }
    assert_eq!(answer("args.list.all(x, x >= 0 && x < 10000)", &args), Ok(true));
}

#[test]
fn built_texts_and_lists_are_bounded() {
    let args = json!({ "s": "x".repeat(600_000), "l": vec![0; 6_000] });
    let fault = answer("args.s + args.s != ''", &args);
    assert_eq!(fault, Err(EvaluationFault::TooLongText { bytes: 1_200_000 }));
    let fault = answer("args.l + args.l != []", &args);
    assert_eq!(fault, Err(EvaluationFault::TooManyItems { items: 12_000 }));
}

#[test]
fn values_too_deep_are_not_compared() {
    let deep = (0..300).fold(json!(1), |inner, _| json!([inner]));
    on_stack(512, move || {
        let answer = answer("args.d == args.d", &json!({ "d": deep }));
        assert_eq!(answer, Err(EvaluationFault::TooDeep));
    });
}

#[test]
fn patterns_take_linear_time_and_little_stack() {
    on_stack(256, || {
        for pattern in
            ["(a+)+$", "(a|aa)+$", "(.*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "((((((((a))))))))"]
        {
            let source = format!("args.s.matches('{pattern}')");
            let args = json!({ "s": "a".repeat(200_000) + "!" });
            assert!(answer(&source, &args).is_ok(), "{pattern}");
        }
        let nested = format!("'a'.matches('{}a{}')", "(".repeat(400), ")".repeat(400));
        assert!(matches!(compile(&nested), Err(ExpressionFault::BadPattern { .. })));
    });
}

#[test]
fn a_match_is_paid_for_by_the_size_of_its_pattern() {
    let text = |bytes: usize| "ab cd ä ".chars().cycle().take(bytes).collect::<String>();
    let args = json!({ "long": text(200_000), "short": text(1_000) });
    for pattern in [
        "TODO",
        "(?i)secret",
        r"\bTODO\b",
        r"^[\w.-]+@[\w.-]+$",
        r"\d{4}-\d{2}-\d{2}",
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "ghp_[A-Za-z0-9]{36}",
        r"\p{Lu}\p{L}+!",
    ] {
        assert_eq!(
            answer(&format!("args.long.matches(r'{pattern}')"), &args),
            Ok(false),
            "{pattern}"
        );
    }
    let heavy = "matches('a[ab]{1000}c')";
    let fault = Err(EvaluationFault::TooMuchWork);
    assert_eq!(answer(&format!("args.long.{heavy}"), &args), fault);
    assert_eq!(answer(&format!("args.short.{heavy}"), &args), Ok(false));
}

#[test]
fn roots_that_were_not_declared_do_not_exist() {
    assert!(Expression::compile("phase == 'draft'", &["args"]).is_err());
    assert!(Expression::compile("true", &[]).is_ok());
    assert!(Expression::compile(".args.n == 1", ROOTS).is_err());
}
