//! Decides quickly whether a document fits a shape just as it is. What does not, or may be several
//! things, is left to `shape.rs`, which also coerces it and says what is wrong with it.

use serde_json::Value;

use super::number::is_within;
use super::shape::{Field, Node, Others, STEPS_MAX, Shape, WALK_DEPTH_MAX};
use crate::json::{Document, Members, Part};

impl Shape {
    /// Whether [`fit`](Shape::fit) would certainly leave this as it is and warn of nothing.
    pub(crate) fn fits(&self, document: &Document) -> bool {
        Look { shape: self, steps_left: STEPS_MAX, depth_left: WALK_DEPTH_MAX }
            .node(&self.root, document.root())
    }
}

struct Look<'a> {
    shape: &'a Shape,
    steps_left: u32,
    depth_left: u32,
}

impl Look<'_> {
    fn node(&mut self, node: &Node, part: Part<'_>) -> bool {
        let Some(left) = self.steps_left.checked_sub(1) else { return false };
        self.steps_left = left;
        let Some(left) = self.depth_left.checked_sub(1) else { return false };
        self.depth_left = left;
        let fits = self.within_bounds(node, part);
        self.depth_left = left + 1;
        fits
    }

    fn within_bounds(&mut self, node: &Node, part: Part<'_>) -> bool {
        match node {
            Node::Any => true,
            Node::Null => matches!(part, Part::Null),
            Node::Bool => matches!(part, Part::Bool(_)),
            Node::Integer { taken: (min, max), .. } => {
                whole(part).is_some_and(|number| within(number, *min, *max))
            }
            Node::Number { min, max } => {
                part.number().is_some_and(|number| is_within(&number, min.as_ref(), max.as_ref()))
            }
            Node::Text { min, max, pattern } => part.as_str().is_some_and(|text| {
                let counted = min.is_none() && max.is_none() || within(chars(text), *min, *max);
                counted && pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
            }),
            Node::OneOf(allowed) => one_of(allowed, part),
            Node::List { item, min, max } => {
                let Part::List(mut items) = part else { return false };
                let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
                within(count, *min, *max) && items.all(|part| self.node(item, part))
            }
            Node::Object { fields, others, .. } => {
                let Part::Object(members) = part else { return false };
                self.object(fields, others, members)
            }
            Node::Nullable(inner) => matches!(part, Part::Null) || self.node(inner, part),
            Node::Definition(at) => {
                let shape = self.shape;
                shape.definitions.get(*at).is_none_or(|node| self.node(node, part))
            }
            Node::Union { .. } | Node::Typed { .. } => false,
        }
    }

    fn object(&mut self, fields: &[Field], others: &Others, members: Members<'_>) -> bool {
        let mut required = 0;
        // Most people write the fields in the order in which they are declared.
        let mut declared = fields.iter();
        for (name, part) in members {
            let next = declared.next().filter(|field| field.name == name);
            let known = next.or_else(|| fields.iter().find(|field| field.name == name));
            let fits = match (known, others) {
                (Some(field), _) => {
                    required += usize::from(field.required);
                    self.node(&field.node, part)
                }
                (None, Others::Each(node)) if fields.iter().all(|f| f.aliases.is_empty()) => {
                    self.node(node, part)
                }
                (None, _) => false,
            };
            if !fits {
                return false;
            }
        }
        required == fields.iter().filter(|field| field.required).count()
    }
}

fn within<T: PartialOrd>(number: T, min: Option<T>, max: Option<T>) -> bool {
    min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
}

fn whole(part: Part<'_>) -> Option<i128> {
    if let Part::Unsigned(number) = part {
        return Some(number.into());
    }
    if let Part::Signed(number) = part { Some(number.into()) } else { None }
}

fn chars(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

fn one_of(allowed: &[Value], part: Part<'_>) -> bool {
    if let Part::Text(text) = part {
        return allowed.iter().any(|value| value.as_str() == Some(text));
    }
    allowed.contains(&part.to_value())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::limits::Limits;
    use crate::tool::Fit;

    fn shape() -> Shape {
        let mut shape = Shape::compile(&json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": -1, "maximum": 9},
                "b": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
                "c": {"type": "array", "items": {"type": ["number", "null"]}, "maxItems": 2},
                "d": {"enum": ["x", 1, null, true]},
                "e": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "f": {"anyOf": [{"type": "boolean"}, {"type": "string"}]},
            },
            "required": ["a"],
        }))
        .unwrap();
        shape.alias("b", "beta").unwrap();
        shape
    }

    /// What fits at a glance is what the walk leaves as it is.
    fn at_a_glance(text: &str) -> bool {
        let (shape, mut warnings) = (shape(), Vec::new());
        let document = Document::read(text, &Limits::default()).unwrap();
        let fits = shape.fits(&document);
        let mut value = Value::Object(document.to_map());
        if fits {
            assert_eq!(shape.fit(&mut value, &mut warnings), Ok(Fit::AsWritten), "{text}");
            assert_eq!((value, warnings), (Value::Object(document.to_map()), vec![]), "{text}");
        }
        fits
    }

    #[test]
    fn what_is_right_is_seen_at_a_glance_and_nothing_else() {
        let right = [
            r#"{"a":1}"#,
            r#"{"b":"abc","a":-1,"c":[null,1.5],"d":"x","e":{"q":true}}"#,
            r#"{"a":9,"c":[],"d":null,"e":{}}"#,
        ];
        let others = [
            "{}",
            r#"{"a":10}"#,
            r#"{"a":-2}"#,
            r#"{"a":1.0}"#,
            r#"{"a":"1"}"#,
            r#"{"a":1,"b":""}"#,
            r#"{"a":1,"b":"abcd"}"#,
            r#"{"a":1,"b":"A"}"#,
            r#"{"a":1,"c":[1,2,3]}"#,
            r#"{"a":1,"c":["1"]}"#,
            r#"{"a":1,"d":"y"}"#,
            r#"{"a":1,"e":{"q":1}}"#,
            r#"{"a":1,"beta":"b"}"#,
            r#"{"a":1,"g":1}"#,
            r#"{"a":1,"f":true}"#,
            r#"{"a":null}"#,
        ];
        right.iter().for_each(|text| assert!(at_a_glance(text), "{text}"));
        others.iter().for_each(|text| assert!(!at_a_glance(text), "{text}"));
    }

    proptest! {
        #[test]
        fn whatever_fits_at_a_glance_fits(
            names in prop::sample::subsequence(vec!["b", "c", "d", "e", "f", "beta"], 0..6),
            values in prop::collection::vec(prop::sample::select(vec![
                "1", "-1", "2.5", "\"x\"", "\"abc\"", "\"\"", "null", "true", "[]", "[null,1]",
                "[1,\"2\"]", "{}", "{\"q\":true}", "{\"b\":\"x\"}", "\"true\"",
            ]), 7),
        ) {
            let members: Vec<String> = std::iter::once(&"a").chain(&names).zip(&values)
                .map(|(name, value)| format!("\"{name}\":{value}")).collect();
            at_a_glance(&format!("{{{}}}", members.join(",")));
        }
    }
}
