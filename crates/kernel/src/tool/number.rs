//! Compares numbers and values as JSON Schema does: by what they are worth, not by how they are
//! written.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Which of two numbers is larger, exactly: a whole number is never rounded to a float.
pub(super) fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        (None, Some(right)) => Some(compare_float(left.as_f64()?, right)),
        (Some(left), None) => Some(compare_float(right.as_f64()?, left).reverse()),
        (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// Whether a number lies within bounds.
pub(super) fn is_within(number: &Number, min: Option<&Number>, max: Option<&Number>) -> bool {
    let order = |bound| compare_numbers(number, bound);
    min.is_none_or(|min| order(min).is_some_and(Ordering::is_ge))
        && max.is_none_or(|max| order(max).is_some_and(Ordering::is_le))
}

/// The same with bounds that are whole numbers.
pub(super) fn is_within_whole(number: &Number, min: Option<i128>, max: Option<i128>) -> bool {
    let order = |bound| match (whole(number), number.as_f64()) {
        (Some(number), _) => Some(number.cmp(&bound)),
        (None, Some(float)) => Some(compare_float(float, bound)),
        (None, None) => None,
    };
    min.is_none_or(|min| order(min).is_some_and(Ordering::is_ge))
        && max.is_none_or(|max| order(max).is_some_and(Ordering::is_le))
}

/// Whether two values are equal to JSON Schema: `1` and `1.0` are, and the order of fields is of no
/// importance.
pub(super) fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            compare_numbers(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| is_equal(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(name, value)| right.get(name).is_some_and(|other| is_equal(value, other));
            left.len() == right.len() && left.iter().all(same)
        }
        _ => left == right,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare_float(float: f64, whole: i128) -> Ordering {
    let floor = float.floor();
    // Beyond the width it is larger or smaller than any whole number that is read.
    let beyond = if float < 0.0 { i128::MIN } else { i128::MAX };
    let below: i128 = format!("{floor:.0}").parse().unwrap_or(beyond);
    let fraction = if float > floor { Ordering::Greater } else { Ordering::Equal };
    below.cmp(&whole).then(fraction)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_equal_by_their_worth() {
        for (left, right, equal) in [
            (json!(1), json!(1.0), true),
            (json!(0), json!(-0.0), true),
            (json!(u64::MAX), json!(18_446_744_073_709_551_616.0), false),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), false),
            (json!(1e300), json!(1e300), true),
            (json!(1), json!("1"), false),
            (json!(1), json!(true), false),
            (json!([1, {"a": 2.0, "b": 1}]), json!([1.0, {"b": 1, "a": 2}]), true),
            (json!({"a": 1}), json!({"a": 1, "b": null}), false),
            (json!([1]), json!([1, 1]), false),
        ] {
            assert_eq!(is_equal(&left, &right), equal, "{left} {right}");
            assert_eq!(is_equal(&right, &left), equal, "{right} {left}");
        }
    }
}
