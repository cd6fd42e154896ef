//! Checks the parsed tree and turns it into ours: every name known, every bound kept.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue};

use super::DEPTH_MAX;
use super::fault::ExpressionFault;
use super::node::Node;
use super::number::Number;
use crate::names::nearest;

/// Lowers the tree of an expression that may use the variables in `roots`.
pub(super) fn lower(tree: &IdedExpr, roots: &[&str]) -> Result<Node, ExpressionFault> {
    Place { roots, item: None, depth: 0 }.lower(tree)
}

/// Where in the tree we are, and which names hold there.
#[derive(Clone, Copy)]
pub(super) struct Place<'n> {
    roots: &'n [&'n str],
    /// The variable of the comprehension around.
    item: Option<&'n str>,
    depth: usize,
}

impl<'n> Place<'n> {
    pub(super) fn lower(self, expr: &'n IdedExpr) -> Result<Node, ExpressionFault> {
        // Evaluation recurses as deep as this tree is, on the stack of whoever calls it.
        if self.depth >= DEPTH_MAX {
            return Err(ExpressionFault::TooChained);
        }
        let below = Place { depth: self.depth + 1, ..self };
        match &expr.expr {
            Expr::Literal(literal) => lower_literal(literal),
            Expr::Ident(name) => self.lower_name(name),
            Expr::Select(select) => {
                let of = below.lower_boxed(&select.operand)?;
                Ok(Node::Member(of, select.field.as_str().into()))
            }
            Expr::Call(call) => below.lower_call(call),
            Expr::List(list) => below.lower_list(list),
            Expr::Map(map) => {
                let entries = map.entries.iter().map(|entry| below.lower_entry(entry));
                entries.collect::<Result<_, _>>().map(Node::Map)
            }
            Expr::Struct(_) => Err(ExpressionFault::Unsupported {
                what: "a message such as Type{field: value}",
                instead: "write a map such as {'field': value}",
            }),
            // The parser was told to expand no macros, and answers whole trees or errors.
            Expr::Comprehension(_) | Expr::Unspecified => {
                Err(ExpressionFault::ParserFailed { reason: "an incomplete tree".to_owned() })
            }
        }
    }

    pub(super) fn lower_boxed(self, expr: &'n IdedExpr) -> Result<Box<Node>, ExpressionFault> {
        self.lower(expr).map(Box::new)
    }

    /// The body of a comprehension over `item`, or nothing if we are already in one.
    pub(super) fn inside(self, item: &'n str) -> Option<Place<'n>> {
        self.item.is_none().then_some(Place { item: Some(item), ..self })
    }

    /// The variable of a comprehension hides a root of the same name, as in CEL.
    fn lower_name(self, name: &str) -> Result<Node, ExpressionFault> {
        if self.item == Some(name) {
            return Ok(Node::Item);
        }
        if self.roots.contains(&name) {
            return Ok(Node::Root(name.into()));
        }
        let known: Vec<&str> = self.item.into_iter().chain(self.roots.iter().copied()).collect();
        Err(ExpressionFault::UnknownVariable {
            name: name.to_owned(),
            nearest: nearest(name, known.iter().copied()).map(str::to_owned),
            known: known.into_iter().map(str::to_owned).collect(),
        })
    }

    fn lower_list(self, list: &'n ListExpr) -> Result<Node, ExpressionFault> {
        if !list.optional_indices.is_empty() {
            return Err(optional());
        }
        let items = list.elements.iter().map(|element| self.lower(element));
        items.collect::<Result<_, _>>().map(Node::List)
    }

    fn lower_entry(self, entry: &'n IdedEntryExpr) -> Result<(Node, Node), ExpressionFault> {
        match &entry.expr {
            EntryExpr::MapEntry(entry) if !entry.optional => {
                Ok((self.lower(&entry.key)?, self.lower(&entry.value)?))
            }
            EntryExpr::MapEntry(_) | EntryExpr::StructField(_) => Err(optional()),
        }
    }
}

fn lower_literal(literal: &LiteralValue) -> Result<Node, ExpressionFault> {
    match literal {
        LiteralValue::Null => Ok(Node::Null),
        LiteralValue::Boolean(truth) => Ok(Node::Bool(*truth.inner())),
        LiteralValue::Int(int) => Ok(Node::Number(Number::Int(*int.inner()))),
        LiteralValue::UInt(uint) => Ok(Node::Number(Number::Uint(*uint.inner()))),
        LiteralValue::Double(float) => Ok(Node::Number(Number::Float(*float.inner()))),
        LiteralValue::String(text) => Ok(Node::Text(text.inner().into())),
        LiteralValue::Bytes(_) => Err(ExpressionFault::Unsupported {
            what: "a bytes literal",
            instead: "write a text without the b in front",
        }),
    }
}

fn optional() -> ExpressionFault {
    ExpressionFault::Unsupported { what: "optional syntax", instead: "test with has() first" }
}
