//! Judges a value by JSON Schema alone, without aliases, coercions and our own narrower bounds. A
//! schema that counts how many alternatives fit (`oneOf`) is enforced only by this measure: an
//! alternative that we would refuse for a reason of our own still counts.

use serde_json::{Map, Number, Value};

use super::number::{is_equal, is_within, is_within_whole};
use super::shape::{Field, Node, Others, Shape, is_a};
use super::union::Matching;

/// A judgement that is bounded in steps and depth. It says nothing where a bound is reached.
pub(super) struct ExactJudge<'a> {
    pub(super) shape: &'a Shape,
    pub(super) steps_left: u32,
    pub(super) depth_left: u32,
}

impl ExactJudge<'_> {
    /// How many of several schemas a value fits.
    pub(super) fn count(&mut self, branches: &[Node], value: &Value) -> Option<usize> {
        let mut count = 0;
        for branch in branches {
            count += usize::from(self.fits(branch, value)?);
        }
        Some(count)
    }

    fn fits(&mut self, node: &Node, value: &Value) -> Option<bool> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        self.depth_left = self.depth_left.checked_sub(1)?;
        let fits = self.node(node, value);
        self.depth_left += 1;
        fits
    }

    fn node(&mut self, node: &Node, value: &Value) -> Option<bool> {
        Some(match node {
            Node::Any => true,
            Node::Null => value.is_null(),
            Node::Bool => value.is_boolean(),
            Node::Integer { declared: (min, max), .. } => {
                is_a("integer", value)
                    && as_number(value).is_some_and(|number| is_within_whole(number, *min, *max))
            }
            Node::Number { min, max } => {
                as_number(value).is_some_and(|number| is_within(number, min.as_ref(), max.as_ref()))
            }
            Node::Text { min, max, pattern } => value.as_str().is_some_and(|text| {
                let count = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
                min.is_none_or(|min| count >= min)
                    && max.is_none_or(|max| count <= max)
                    && pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
            }),
            Node::OneOf(allowed) => allowed.iter().any(|one| is_equal(one, value)),
            Node::List { item, min, max } => {
                let Some(items) = value.as_array() else { return Some(false) };
                let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
                if min.is_some_and(|min| count < min) || max.is_some_and(|max| count > max) {
                    return Some(false);
                }
                return self.all(items.iter().map(|inner| (&**item, inner)));
            }
            // Without `type`, the keywords of objects say nothing of other values.
            Node::Object { fields, others, implied } => {
                let Some(map) = value.as_object() else { return Some(*implied) };
                return self.object(fields, others, map);
            }
            Node::Nullable(inner) => value.is_null() || self.fits(inner, value)?,
            Node::Union { branches, matching } => {
                let count = self.count(branches, value)?;
                match matching {
                    Matching::Any => count > 0,
                    Matching::One => count == 1,
                }
            }
            Node::Typed { types, inner } => {
                types.iter().any(|name| is_a(name, value)) && self.fits(inner, value)?
            }
            Node::Definition(at) => {
                let shape = self.shape;
                return self.fits(shape.definitions.get(*at)?, value);
            }
        })
    }

    fn object(
        &mut self,
        fields: &[Field],
        others: &Others,
        map: &Map<String, Value>,
    ) -> Option<bool> {
        if fields.iter().any(|field| field.required && !map.contains_key(&field.name)) {
            return Some(false);
        }
        for (name, value) in map {
            let node = match (fields.iter().find(|field| field.name == *name), others) {
                (Some(field), _) => &field.node,
                (None, Others::Each(node)) => node,
                (None, Others::Refused) => return Some(false),
            };
            if !self.fits(node, value)? {
                return Some(false);
            }
        }
        Some(true)
    }

    fn all<'n>(&mut self, pairs: impl Iterator<Item = (&'n Node, &'n Value)>) -> Option<bool> {
        for (node, value) in pairs {
            if !self.fits(node, value)? {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn as_number(value: &Value) -> Option<&Number> {
    if let Value::Number(number) = value { Some(number) } else { None }
}
