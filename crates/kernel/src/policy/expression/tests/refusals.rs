//! Sources that are refused at load, with the reason told.

use super::super::ExpressionFault as Fault;
use super::super::{DEPTH_MAX, NESTING_MAX, OPERATORS_MAX};
use super::compile;

fn refusal(source: &str) -> Fault {
    compile(source).err().unwrap_or_else(|| panic!("{source} compiles"))
}

#[test]
fn messages_name_the_mistake_and_the_way_out() {
    let cases = [
        ("  \n", "the expression is empty; write a condition such as `args.amount > 100`"),
        ("word(args.content) > 3", "unknown function 'word', did you mean 'words'?"),
        ("args.url.startswith('x')", "unknown function 'startswith', did you mean 'startsWith'?"),
        ("arg.x == 1", "unknown variable 'arg', did you mean 'args'?"),
        (
            "content == 1",
            "unknown variable 'content'; use one of args, tool, phase, session, project, now",
        ),
        ("[1].all(item, itm > 0)", "unknown variable 'itm', did you mean 'item'?"),
        ("words(args.a, 2) > 1", "'words' is called differently; write words(text)"),
        ("args.a.words() > 1", "'words' is called differently; write words(text)"),
        ("has(args)", "'has' is called differently; write has(value.field), or 'key' in value"),
        ("all(args.l, x)", "'all' is called differently; write list.all(item, condition)"),
        ("args.l.all(x.y, true)", "'all' is called differently; write list.all(item, condition)"),
        (
            "args.x.matches('(')",
            "the pattern '(' is not a usable regular expression: unclosed group",
        ),
        ("args.x == 'abc", "line 1, column 11: this text is not closed"),
        ("true &&\n  'a\nb'", "line 2, column 3: this text is not closed"),
        (
            "b'x' == b'x'",
            "a bytes literal is not supported in rules; write a text without the b in front",
        ),
        (
            "Foo{a: 1} == 1",
            "a message such as Type{field: value} is not supported in rules; write a map such as {'field': value}",
        ),
    ];
    for (source, message) in cases {
        assert_eq!(refusal(source).to_string(), message, "{source}");
    }
}

#[test]
fn syntax_errors_carry_their_place() {
    for (source, place) in [
        ("args.n ==", (1, 10)),
        ("args.n == 1)", (1, 12)),
        ("true &&\n && false", (2, 2)),
        ("args.n = 1", (1, 8)),
        ("args.a.?b == 1", (1, 7)),
        ("args.`a-b` == 1", (1, 5)),
        ("if == 1", (1, 1)),
        ("99999999999999999999 == 1", (1, 1)),
        ("args.n == 1 \u{0}", (1, 13)),
        ("'\\q' == 'q'", (1, 1)),
    ] {
        let Fault::Syntax { line, column, message } = refusal(source) else {
            panic!("{source}: {:?}", refusal(source));
        };
        assert_eq!((line, column), place, "{source}: {message}");
        assert!(!message.contains("expecting {"), "{message}");
    }
}

#[test]
fn one_level_of_comprehension() {
    for source in [
        "args.a.all(x, x.all(y, y > 0))",
        "args.a.exists(x, args.b.exists(y, y == x))",
        "args.a.map(x, [x].map(y, y)).size() > 0",
        "args.a.filter(x, !args.b.exists_one(y, y == x)) == []",
        "args.a.map(x, true, args.b.filter(y, y == x)) == []",
    ] {
        assert!(matches!(refusal(source), Fault::NestedComprehension { .. }), "{source}");
    }
}

#[test]
fn patterns_are_literal_and_small() {
    for source in ["args.a.matches(args.b)", "args.a.matches('a' + 'b')", "matches(args.a, phase)"]
    {
        assert_eq!(refusal(source), Fault::PatternNotLiteral, "{source}");
    }
    for source in ["args.a.matches('(a{1000}){1000}')", "args.a.matches('(\\\\w{100}){100}')"] {
        assert!(matches!(refusal(source), Fault::PatternTooLarge { .. }), "{source}");
    }
    assert!(matches!(refusal("args.a.matches(r'(a)\\1')"), Fault::BadPattern { .. }));
    assert!(matches!(refusal("args.a.matches('(?=a)')"), Fault::BadPattern { .. }));
}

#[test]
fn bounds_hold_exactly() {
    let parens = |depth: usize| format!("{}true{}", "(".repeat(depth), ")".repeat(depth));
    assert!(compile(&parens(NESTING_MAX)).is_ok());
    assert_eq!(refusal(&parens(NESTING_MAX + 1)), Fault::TooNested);

    let lists = |depth: usize| format!("{}1{} != 1", "[".repeat(depth), "]".repeat(depth));
    assert!(compile(&lists(NESTING_MAX)).is_ok());
    assert_eq!(refusal(&lists(NESTING_MAX + 1)), Fault::TooNested);

    let maps = |depth: usize| format!("{}1{} != 1", "{1:".repeat(depth), "}".repeat(depth));
    assert!(compile(&maps(NESTING_MAX)).is_ok());
    assert_eq!(refusal(&maps(NESTING_MAX + 1)), Fault::TooNested);

    let choices = |depth: usize| format!("{}true", "true?true:".repeat(depth));
    assert!(compile(&choices(NESTING_MAX)).is_ok());
    assert_eq!(refusal(&choices(NESTING_MAX + 1)), Fault::TooNested);

    let ors = |terms: usize| vec!["true"; terms].join("||");
    assert!(compile(&ors(OPERATORS_MAX + 1)).is_ok());
    assert_eq!(refusal(&ors(OPERATORS_MAX + 2)), Fault::TooChained);

    let sums = |terms: usize| format!("{} != 0", vec!["1"; terms].join("+"));
    assert!(compile(&sums(DEPTH_MAX - 1)).is_ok());
    assert_eq!(refusal(&sums(DEPTH_MAX)), Fault::TooChained);
}
