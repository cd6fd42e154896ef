//! References between the parts of a schema: where they lead, and that they come to an end.

use std::collections::BTreeMap;

use super::schema::{SCHEMA_DEPTH_MAX, SchemaRefusal};
use super::shape::Node;

/// The definitions of a schema, by the keyword they stand under and their name.
#[derive(Debug, Default)]
pub(super) struct DefinitionNames(BTreeMap<(&'static str, String), usize>);

/// Keywords that hold definitions.
pub(super) const DEFINITION_KEYWORDS: [&str; 2] = ["$defs", "definitions"];

impl DefinitionNames {
    pub(super) fn insert(&mut self, keyword: &'static str, name: &str, at: usize) {
        self.0.insert((keyword, name.to_owned()), at);
    }

    /// The definition that a reference such as `#/$defs/name` means, where it means one.
    pub(super) fn resolve(&self, target: &str) -> Option<usize> {
        let pointer = decoded(target.strip_prefix('#')?)?;
        let (keyword, name) = pointer.strip_prefix('/')?.split_once('/')?;
        let keyword = DEFINITION_KEYWORDS.into_iter().find(|known| *known == keyword)?;
        if name.contains('/') {
            return None;
        }
        self.0.get(&(keyword, unescaped(name)?)).copied()
    }

    /// Refuses definitions that are nothing but themselves, or that are reached through too many
    /// others without a step into the value: each of them takes a part of the stack.
    pub(super) fn check_chains(&self, definitions: &[Node]) -> Result<(), SchemaRefusal> {
        let mut chains = Chains { definitions, known: vec![None; definitions.len()], open: vec![] };
        for ((keyword, name), at) in &self.0 {
            chains.definition(*at, 0).map_err(|fault| match fault {
                ChainFault::Circle => {
                    SchemaRefusal::Circle { target: format!("#/{keyword}/{name}") }
                }
                ChainFault::TooLong => SchemaRefusal::TooDeep,
            })?;
        }
        Ok(())
    }
}

enum ChainFault {
    Circle,
    TooLong,
}

struct Chains<'a> {
    definitions: &'a [Node],
    /// How long the chain is that begins at each definition.
    known: Vec<Option<usize>>,
    /// The definitions that are being followed.
    open: Vec<usize>,
}

impl Chains<'_> {
    /// The length of a chain, which `before` other links lead to.
    fn definition(&mut self, at: usize, before: usize) -> Result<usize, ChainFault> {
        if self.open.contains(&at) {
            return Err(ChainFault::Circle);
        }
        let length = match self.known.get(at).copied().flatten() {
            Some(length) => length,
            None => {
                let definitions = self.definitions;
                self.open.push(at);
                let length = match definitions.get(at) {
                    Some(node) => self.node(node, before + 1)? + 1,
                    None => 1,
                };
                self.open.pop();
                if let Some(known) = self.known.get_mut(at) {
                    *known = Some(length);
                }
                length
            }
        };
        if before + length > SCHEMA_DEPTH_MAX { Err(ChainFault::TooLong) } else { Ok(length) }
    }

    fn node(&mut self, node: &Node, before: usize) -> Result<usize, ChainFault> {
        if before > SCHEMA_DEPTH_MAX {
            return Err(ChainFault::TooLong);
        }
        match node {
            Node::Definition(at) => self.definition(*at, before),
            Node::Nullable(inner) | Node::Typed { inner, .. } => {
                Ok(self.node(inner, before + 1)? + 1)
            }
            Node::Union { branches, .. } => {
                let mut longest = 0;
                for branch in branches {
                    longest = longest.max(self.node(branch, before + 1)?);
                }
                Ok(longest + 1)
            }
            Node::Any
            | Node::Null
            | Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::Text { .. }
            | Node::OneOf(_)
            | Node::List { .. }
            | Node::Object { .. } => Ok(0),
        }
    }
}

/// A fragment without its percent signs; nothing where it is not one.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => hex(rest.next()?)? * 16 + hex(rest.next()?)?,
            plain => plain,
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A part of a pointer: `~1` is a slash, `~0` a tilde, and no other `~` is legal.
fn unescaped(token: &str) -> Option<String> {
    let mut out = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(c) = rest.next() {
        out.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(out)
}
