//! The evaluator of the `cel` crate as an independent judge of ours, on random expressions.

use cel::{Context, Program, Value as CelValue};
use serde_json::json;

use super::soup::Dice;
use super::{Sample, compile};

/// The same small call for both; written in CEL, so that integers are signed.
const ARGS: &str = "{'n': 3, 'big': 9007199254740993, 'f': 2.5, 's': 'Grüße', 't': true, \
    'none': null, 'l': [1, 2, 3], 'empty': []}";

fn context() -> Context<'static, 'static> {
    let mut context = Context::default();
    let args = Program::compile(ARGS).unwrap().execute(&context).unwrap();
    context.add_variable_from_value("args", args);
    context.add_variable_from_value("phase", "draft");
    context
}

fn sample() -> Sample {
    Sample {
        args: json!({ "n": 3, "big": 9_007_199_254_740_993_i64, "f": 2.5, "s": "Grüße", "t": true,
            "none": null, "l": [1, 2, 3], "empty": [] }),
    }
}

fn number(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 || dice.below(4) == 0 {
        let leaves = ["args.n", "args.big", "args.f", "0", "1", "-2", "3u", "2.5", "args.s", "x"];
        return leaves[dice.below(leaves.len())].to_owned();
    }
    let (left, right) = (number(dice, depth - 1), number(dice, depth - 1));
    let operator = ["+", "-", "*", "/", "%"][dice.below(5)];
    match dice.below(6) {
        0 => format!("size({})", text(dice, depth - 1)),
        1 => format!("args.l[{left}]"),
        2 => format!("({} ? {left} : {right})", condition(dice, depth - 1)),
        _ => format!("({left} {operator} {right})"),
    }
}

fn text(dice: &mut Dice, depth: usize) -> String {
    let leaves = ["args.s", "phase", "'a'", "'Grü'", "args.none", "args.l", "args.missing", "''"];
    let leaf = leaves[dice.below(leaves.len())];
    if depth == 0 || dice.below(3) > 0 {
        return leaf.to_owned();
    }
    format!("({leaf} + {})", text(dice, depth - 1))
}

fn condition(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        let leaves = [
            "args.t",
            "true",
            "false",
            "has(args.n)",
            "has(args.missing)",
            "args.missing",
            "args.n",
        ];
        return leaves[dice.below(leaves.len())].to_owned();
    }
    let below = depth - 1;
    let order = ["<", "<=", ">", ">=", "==", "!="][dice.below(6)];
    let logic = ["&&", "||"][dice.below(2)];
    match dice.below(9) {
        0 => format!("{} {order} {}", number(dice, below), number(dice, below)),
        1 => format!("{} {order} {}", text(dice, below), text(dice, below)),
        2 | 3 => format!("({} {logic} {})", condition(dice, below), condition(dice, below)),
        4 => format!("!({})", condition(dice, below)),
        5 => format!("({} in [1, 2.5, 'a', {}])", number(dice, below), text(dice, below)),
        6 => format!("{}.startsWith({})", text(dice, below), text(dice, below)),
        7 => format!("[{}] == [{}]", number(dice, below), number(dice, below)),
        _ => format!(
            "({} ? {} : {})",
            condition(dice, below),
            condition(dice, below),
            condition(dice, below)
        ),
    }
}

/// A condition, sometimes about each item of a list; `x` is a number in any case.
fn source(dice: &mut Dice) -> String {
    let depth = 1 + dice.below(4);
    let body = condition(dice, depth);
    let list = ["args.l", "args.empty", "[1, 2.5, 'a']", "args.n"][dice.below(4)];
    match dice.below(8) {
        0 => format!("{list}.all(x, {body})"),
        1 => format!("{list}.exists(x, {body})"),
        2 => format!("{list}.exists_one(x, {body})"),
        3 => format!("{list}.filter(x, {body}) == [1]"),
        4 => format!("{list}.map(x, {body}, x) == [1, 2, 3]"),
        _ => body.replace('x', "3"),
    }
}

#[test]
fn both_evaluators_agree() {
    let (context, sample, mut dice) = (context(), sample(), Dice(7));
    let mut answered = 0;
    for _ in 0..1500 {
        let source = source(&mut dice);
        let Ok(ours) = compile(&source) else { continue };
        let ours = ours.evaluate(&sample).ok();
        let theirs = Program::compile(&source).unwrap().execute(&context);
        let theirs = match theirs {
            Ok(CelValue::Bool(truth)) => Some(truth),
            _ => None,
        };
        assert_eq!(ours, theirs, "{source}");
        answered += usize::from(ours.is_some());
    }
    assert!(answered > 300, "only {answered} had an answer");
}
