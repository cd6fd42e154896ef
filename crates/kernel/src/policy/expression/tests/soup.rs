//! Random sources: whatever they hold, compiling answers, and what compiles can be evaluated.

use serde_json::json;

use super::hostile::on_stack;
use super::{Sample, compile};

/// A small deterministic generator; tests need no better one.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

const TOKENS: &[&str] = &[
    "args",
    "phase",
    "x",
    "has",
    "all",
    "exists",
    "map",
    "filter",
    "size",
    "words",
    "matches",
    "in",
    "true",
    "false",
    "null",
    "1",
    "2u",
    "1.5",
    "0x",
    "'a'",
    "\"b\"",
    "r'c'",
    "'",
    "\"",
    "'''",
    "\\",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "?",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "<",
    "<=",
    "==",
    "!=",
    "&&",
    "||",
    "//",
    "\n",
    " ",
    "@",
    "`",
    "ä",
    "\u{0}",
    "args.n",
    "args.l.all(x, ",
    "x.all(y, ",
    ".size()",
    ".matches('a+')",
    "[0]",
    "? true :",
    "Foo{",
    "b'x'",
    "if",
    "9223372036854775808",
];

fn soup(dice: &mut Dice, separator: &str) -> String {
    let count = 1 + dice.below(40);
    let tokens: Vec<&str> = (0..count).map(|_| TOKENS[dice.below(TOKENS.len())]).collect();
    tokens.join(separator)
}

fn noise(dice: &mut Dice) -> String {
    let count = dice.below(200);
    let bytes: Vec<u8> = (0..count).map(|_| u8::try_from(dice.below(256)).unwrap()).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Well formed more often than not: a random tree written out.
fn tree(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return ["args.n", "1", "'a'", "true", "args.l", "phase", "null", "2.5"][dice.below(8)]
            .to_owned();
    }
    let left = tree(dice, depth - 1);
    let right = tree(dice, depth - 1);
    match dice.below(9) {
        0 => format!("({left}) == ({right})"),
        1 => format!("{left} + {right}"),
        2 => format!("({left} || {right})"),
        3 => format!("!({left})"),
        4 => format!("[{left}, {right}]"),
        5 => format!("({left} ? {right} : {left})"),
        6 => format!("args.l.exists(x, x == {right})"),
        7 => format!("{{'k': {left}}}.k"),
        _ => format!("size({left}) > {right}"),
    }
}

fn swallow(source: &str) -> bool {
    let sample = Sample { args: json!({ "n": 3, "l": [1, 2, 3] }) };
    let compiled = compile(source);
    if let Ok(expression) = &compiled {
        // Any answer will do; it must only come.
        let _ = expression.evaluate(&sample);
    }
    compiled.is_ok()
}

#[test]
fn random_sources_never_end_the_process() {
    on_stack(512, || {
        let mut dice = Dice(42);
        let mut compiled = 0;
        for _ in 0..400 {
            compiled += usize::from(swallow(&soup(&mut dice, " ")));
            compiled += usize::from(swallow(&soup(&mut dice, "")));
            compiled += usize::from(swallow(&noise(&mut dice)));
            let depth = 1 + dice.below(4);
            compiled += usize::from(swallow(&tree(&mut dice, depth)));
        }
        assert!(compiled > 100, "only {compiled} compiled");
    });
}
