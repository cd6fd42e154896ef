//! Decides how one object is laid over another.

use serde_json::{Map, Value};

/// Objects are merged key by key; everything else takes the place of what was there.
pub fn lay_over(below: &mut Map<String, Value>, above: &Map<String, Value>) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(Value::Object(inner)), Value::Object(over)) => lay_over(inner, over),
            (Some(old), _) => *old = value.clone(),
            (None, _) => drop(below.insert(key.clone(), value.clone())),
        }
    }
}
