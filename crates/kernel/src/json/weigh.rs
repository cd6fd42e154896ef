//! Decides whether a value is small enough to be written out, without writing it.

use serde_json::Value;

/// How large a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// How deep it may be nested.
    pub depth_max: usize,
    /// How many values it may have in it, itself and its keys counted.
    pub nodes_max: usize,
    /// How many bytes it may have when it is written out, as estimated.
    pub bytes_max: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { depth_max: 20, nodes_max: 50_000, bytes_max: 200_000 }
    }
}

/// Why a value is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Nested too deeply.
    #[error("MAX_DEPTH")]
    Depth,
    /// Too many values.
    #[error("MAX_NODES")]
    Nodes,
    /// Too many bytes.
    #[error("MAX_BYTES")]
    Bytes,
    /// One text alone has too many bytes.
    #[error("STRING_TOO_LARGE")]
    Text,
}

impl TooLarge {
    /// Why, in words, for a value that had this much room.
    pub fn told(self, room: &Room) -> String {
        match self {
            // The last level that is counted is that of a plain value.
            Self::Depth => {
                format!("it is nested deeper than {} levels", room.depth_max.saturating_sub(1))
            }
            Self::Nodes => format!("it has more than {} values", room.nodes_max),
            Self::Bytes => format!("it has more than {} bytes", room.bytes_max),
            Self::Text => format!("a text in it has more than {} bytes", room.bytes_max),
        }
    }
}

/// About how many bytes a value has when it is written out. It stops at the first bound, so that
/// it costs no more than what fits.
pub fn weigh(value: &Value, room: &Room) -> Result<usize, TooLarge> {
    let (mut nodes, mut bytes) = (0_usize, 0_usize);
    // Most answers are plain: nothing in them is still to be looked at.
    let (mut open, mut next) = (Vec::new(), Some((value, 1_usize)));
    while let Some((value, depth)) = next.take().or_else(|| open.pop()) {
        if depth > room.depth_max {
            return Err(TooLarge::Depth);
        }
        let (inside, own) = match value {
            Value::Null => (0, 4),
            Value::Bool(_) => (0, 5),
            Value::Number(_) => (0, 8),
            Value::String(text) => (0, fits(text, room)? + 2),
            Value::Array(items) => (items.len(), items.len() + 2),
            Value::Object(map) => {
                let mut keys = 0;
                for key in map.keys().take(room.nodes_max) {
                    keys += fits(key, room)? + 4;
                }
                (map.len() * 2, keys + 2)
            }
        };
        nodes += 1;
        // What is inside is counted before it is looked at, so that the list of it stays short.
        if nodes + open.len() + inside > room.nodes_max {
            return Err(TooLarge::Nodes);
        }
        bytes += own;
        if bytes > room.bytes_max {
            return Err(TooLarge::Bytes);
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => {
                nodes += map.len();
                open.extend(map.values().map(|item| (item, depth + 1)));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(bytes)
}

fn fits(text: &str, room: &Room) -> Result<usize, TooLarge> {
    if text.len() > room.bytes_max { Err(TooLarge::Text) } else { Ok(text.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(depth: usize) -> Value {
        (1..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    /// T40: the bounds hold where they are said to, and small values pass.
    #[test]
    fn large_values_are_found_without_writing_them() {
        let list = |items: usize| Value::Array(vec![json!(1); items]);
        let keys = |count: usize| {
            Value::Object((0..count).map(|at| (format!("k{at}"), Value::Null)).collect())
        };
        let cases = [
            (json!({"a": [1, "two", null, true]}), None),
            (nested(20), None),
            (nested(21), Some(TooLarge::Depth)),
            (Value::String("x".repeat(190_000)), None),
            (Value::String("x".repeat(200_001)), Some(TooLarge::Text)),
            (json!({"k".repeat(200_001): 1}), Some(TooLarge::Text)),
            (Value::Array(vec![Value::String("x".repeat(1_000)); 300]), Some(TooLarge::Bytes)),
            (list(20_000), None),
            (list(50_000), Some(TooLarge::Nodes)),
            (keys(25_000), Some(TooLarge::Nodes)),
            (keys(10_000), None),
        ];
        for (value, expected) in cases {
            let about: String = value.to_string().chars().take(40).collect();
            assert_eq!(weigh(&value, &Room::default()).err(), expected, "{about}");
        }
        assert_eq!(TooLarge::Depth.to_string(), "MAX_DEPTH");
    }

    #[test]
    fn the_weight_is_near_the_truth() {
        let value = json!({"name": "Łódź", "list": [1, 2, 3], "deep": {"a": {"b": "text"}}});
        let (weight, written) = (weigh(&value, &Room::default()).unwrap(), value.to_string().len());
        assert!(weight.abs_diff(written) < written / 2, "{weight} for {written}");
    }
}
