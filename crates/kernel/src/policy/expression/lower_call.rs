//! Resolves calls: operators, functions, patterns and the one level of comprehension.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::fault::ExpressionFault;
use super::function::{ENTRIES, Entry, Form, Macro, Meaning};
use super::lower::Place;
use super::node::{Comparison, Comprehension, Fold, Logic, Node, Pair};
use super::number::Arithmetic;
use super::pattern::Pattern;
use crate::names::nearest;

impl<'n> Place<'n> {
    pub(super) fn lower_call(self, call: &'n CallExpr) -> Result<Node, ExpressionFault> {
        match (&call.target, call.args.as_slice()) {
            (None, [only]) if call.func_name == operators::LOGICAL_NOT => {
                self.lower_boxed(only).map(Node::Not)
            }
            (None, [only]) if call.func_name == operators::NEGATE => {
                self.lower_boxed(only).map(Node::Negate)
            }
            (None, [first, second, third]) if call.func_name == operators::CONDITIONAL => {
                let branches = (self.lower(first)?, self.lower(second)?, self.lower(third)?);
                Ok(Node::Choose(Box::new(branches)))
            }
            (None, [left, right]) => match binary(&call.func_name) {
                Some(make) => self.lower_pair(left, right).map(make),
                None => self.lower_function(call),
            },
            _ => self.lower_function(call),
        }
    }

    fn lower_pair(self, left: &'n IdedExpr, right: &'n IdedExpr) -> Result<Pair, ExpressionFault> {
        Ok(Box::new((self.lower(left)?, self.lower(right)?)))
    }

    fn lower_function(self, call: &'n CallExpr) -> Result<Node, ExpressionFault> {
        let name = call.func_name.as_str();
        let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
            let known = || ENTRIES.iter().map(|entry| entry.name);
            return Err(ExpressionFault::UnknownFunction {
                name: name.to_owned(),
                nearest: nearest(name, known()).map(str::to_owned),
                known: known().map(str::to_owned).collect(),
            });
        };
        let target = call.target.as_deref();
        match (entry.meaning, target, call.args.as_slice()) {
            (Meaning::Apply(function, Form::Global | Form::Either), None, [value])
            | (Meaning::Apply(function, Form::Member | Form::Either), Some(value), []) => {
                self.lower_boxed(value).map(|value| Node::Apply(function, value))
            }
            (Meaning::Search(search), Some(text), [part]) => {
                self.lower_pair(text, part).map(|pair| Node::Search(search, pair))
            }
            (Meaning::Matches, Some(text), [pattern])
            | (Meaning::Matches, None, [text, pattern]) => {
                let text = self.lower_boxed(text)?;
                compile_pattern(pattern).map(|pattern| Node::Matches(text, pattern))
            }
            (Meaning::Has, None, [IdedExpr { expr: Expr::Select(select), .. }]) => {
                let of = self.lower_boxed(&select.operand)?;
                Ok(Node::Has(of, select.field.as_str().into()))
            }
            (Meaning::Comprehension(kind), Some(over), args) => {
                self.lower_comprehension(entry, kind, over, args)
            }
            _ => Err(wrong_call(entry)),
        }
    }

    fn lower_comprehension(
        self,
        entry: &Entry,
        kind: Macro,
        over: &'n IdedExpr,
        args: &'n [IdedExpr],
    ) -> Result<Node, ExpressionFault> {
        let [IdedExpr { expr: Expr::Ident(item), .. }, body @ ..] = args else {
            return Err(wrong_call(entry));
        };
        let Some(inside) = self.inside(item) else {
            return Err(ExpressionFault::NestedComprehension { name: entry.name.to_owned() });
        };
        // The list itself is visited before the variable exists: chains are fine, nests are not.
        let over = self.lower(over)?;
        let fold = match (kind, body) {
            (Macro::All, [test]) => Fold::All(inside.lower(test)?),
            (Macro::Exists, [test]) => Fold::Exists(inside.lower(test)?),
            (Macro::ExistsOne, [test]) => Fold::ExistsOne(inside.lower(test)?),
            (Macro::Filter, [test]) => Fold::Filter(inside.lower(test)?),
            (Macro::Map, [to]) => Fold::Map { test: None, to: inside.lower(to)? },
            (Macro::Map, [test, to]) => {
                Fold::Map { test: Some(inside.lower(test)?), to: inside.lower(to)? }
            }
            _ => return Err(wrong_call(entry)),
        };
        Ok(Node::Comprehension(Box::new(Comprehension { over, fold })))
    }
}

/// What a binary operator makes of its two sides.
fn binary(name: &str) -> Option<fn(Pair) -> Node> {
    Some(match name {
        operators::LOGICAL_AND => |pair| Node::Logic(Logic::And, pair),
        operators::LOGICAL_OR => |pair| Node::Logic(Logic::Or, pair),
        operators::EQUALS => Node::Equal,
        operators::NOT_EQUALS => Node::NotEqual,
        operators::IN => Node::In,
        operators::INDEX => Node::Index,
        operators::ADD => |pair| Node::Arithmetic(Arithmetic::Add, pair),
        operators::SUBSTRACT => |pair| Node::Arithmetic(Arithmetic::Subtract, pair),
        operators::MULTIPLY => |pair| Node::Arithmetic(Arithmetic::Multiply, pair),
        operators::DIVIDE => |pair| Node::Arithmetic(Arithmetic::Divide, pair),
        operators::MODULO => |pair| Node::Arithmetic(Arithmetic::Remainder, pair),
        operators::LESS => |pair| Node::Compare(Comparison::Less, pair),
        operators::LESS_EQUALS => |pair| Node::Compare(Comparison::LessOrEqual, pair),
        operators::GREATER => |pair| Node::Compare(Comparison::Greater, pair),
        operators::GREATER_EQUALS => |pair| Node::Compare(Comparison::GreaterOrEqual, pair),
        _ => return None,
    })
}

fn compile_pattern(pattern: &IdedExpr) -> Result<Pattern, ExpressionFault> {
    let Expr::Literal(LiteralValue::String(pattern)) = &pattern.expr else {
        return Err(ExpressionFault::PatternNotLiteral);
    };
    Pattern::compile(pattern.inner())
}

fn wrong_call(entry: &Entry) -> ExpressionFault {
    ExpressionFault::WrongCall { name: entry.name.to_owned(), usage: entry.usage }
}
