//! Equality: by value for numbers, false across other types, bounded for lists and maps.

use super::datum::{Datum, List, Map};
use super::fault::EvaluationFault;
use super::meter::Meter;

/// How deep two values are compared; JSON that was parsed is never deeper.
const COMPARED_DEPTH_MAX: usize = 128;

/// Whether `left == right`.
pub(super) fn equal<'a>(
    meter: &mut Meter,
    left: &Datum<'a>,
    right: &Datum<'a>,
) -> Result<bool, EvaluationFault> {
    equal_at(meter, left, right, 0)
}

/// Whether `list` holds `wanted`.
pub(super) fn contains<'a>(
    meter: &mut Meter,
    list: List<'a>,
    wanted: &Datum<'a>,
) -> Result<bool, EvaluationFault> {
    for item in list.items() {
        if equal_at(meter, &item?, wanted, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal_at<'a>(
    meter: &mut Meter,
    left: &Datum<'a>,
    right: &Datum<'a>,
    depth: usize,
) -> Result<bool, EvaluationFault> {
    if depth > COMPARED_DEPTH_MAX {
        return Err(EvaluationFault::TooDeep);
    }
    meter.spend(1)?;
    match (left, right) {
        (Datum::Null, Datum::Null) => Ok(true),
        (Datum::Bool(left), Datum::Bool(right)) => Ok(left == right),
        (Datum::Number(left), Datum::Number(right)) => {
            Ok(left.order(*right).is_some_and(|order| order.is_eq()))
        }
        (Datum::Text(left), Datum::Text(right)) => {
            let (left, right) = (left.as_str(), right.as_str());
            if left.len() != right.len() {
                return Ok(false);
            }
            meter.spend_text(left.len())?;
            Ok(left == right)
        }
        (Datum::List(left), Datum::List(right)) => equal_lists(meter, left, right, depth + 1),
        (Datum::Map(left), Datum::Map(right)) => equal_maps(meter, left, right, depth + 1),
        _ => Ok(false),
    }
}

fn equal_lists<'a>(
    meter: &mut Meter,
    left: &List<'a>,
    right: &List<'a>,
    depth: usize,
) -> Result<bool, EvaluationFault> {
    if left.size() != right.size() {
        return Ok(false);
    }
    for index in 0..left.size() {
        if !equal_at(meter, &left.item(index)?, &right.item(index)?, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal_maps<'a>(
    meter: &mut Meter,
    left: &Map<'a>,
    right: &Map<'a>,
    depth: usize,
) -> Result<bool, EvaluationFault> {
    if left.size() != right.size() {
        return Ok(false);
    }
    for key in left.clone().keys() {
        let key = key?;
        let (Some(ours), Some(theirs)) = (left.entry(&key)?, right.entry(&key)?) else {
            return Ok(false);
        };
        if !equal_at(meter, &ours, &theirs, depth)? {
            return Ok(false);
        }
    }
    Ok(true)
}
