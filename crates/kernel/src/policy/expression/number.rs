//! Numbers as CEL has them: three types that never turn into each other unasked, compared by value.

use std::cmp::Ordering;

use super::fault::EvaluationFault;

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i64),
    Uint(u64),
    Float(f64),
}

#[derive(Clone, Copy)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// 2^53: up to here every integer is a double.
const EXACT_MAX: u64 = 1 << 53;
/// 2^63 and 2^64 as doubles; both are exact.
const INT_END: f64 = 9_223_372_036_854_775_808.0;
const UINT_END: f64 = 18_446_744_073_709_551_616.0;

impl Number {
    /// JSON integers stay integers: int where it fits, else uint, else no number at all.
    pub(super) fn from_json(number: &serde_json::Number) -> Result<Number, EvaluationFault> {
        if let Some(int) = number.as_i64() {
            return Ok(Number::Int(int));
        }
        if let Some(uint) = number.as_u64() {
            return Ok(Number::Uint(uint));
        }
        // With arbitrary precision switched on a JSON integer may be wider than 64 bits.
        match number.as_f64() {
            Some(float) if number.is_f64() => Ok(Number::Float(float)),
            _ => Err(not_convertible(number, "int")),
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Float(_) => "double",
        }
    }

    /// The order by value across the three types; nothing for NaN.
    pub(super) fn order(self, other: Number) -> Option<Ordering> {
        match (self.whole(), other.whole()) {
            (Ok(left), Ok(right)) => Some(left.cmp(&right)),
            (Ok(left), Err(right)) => order_whole(left, right),
            (Err(left), Ok(right)) => order_whole(right, left).map(Ordering::reverse),
            (Err(left), Err(right)) => left.partial_cmp(&right),
        }
    }

    /// An integer of either kind, or the double it is.
    fn whole(self) -> Result<i128, f64> {
        match self {
            Self::Int(int) => Ok(int.into()),
            Self::Uint(uint) => Ok(uint.into()),
            Self::Float(float) => Err(float),
        }
    }

    pub(super) fn negate(self) -> Result<Number, EvaluationFault> {
        match self {
            Self::Int(int) => int.checked_neg().map(Self::Int).ok_or(overflow("-")),
            Self::Float(float) => Ok(Self::Float(-float)),
            Self::Uint(_) => Err(EvaluationFault::Mismatch { operation: "-", found: "uint" }),
        }
    }

    pub(super) fn to_int(self) -> Result<i64, EvaluationFault> {
        match self {
            Self::Int(int) => Ok(int),
            Self::Uint(uint) => i64::try_from(uint).map_err(|_| not_convertible(uint, "int")),
            Self::Float(float) if (-INT_END..INT_END).contains(&float) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the range was checked; the fraction goes, as CEL says"
                )]
                Ok(float as i64)
            }
            Self::Float(float) => Err(not_convertible(float, "int")),
        }
    }

    pub(super) fn to_uint(self) -> Result<u64, EvaluationFault> {
        match self {
            Self::Uint(uint) => Ok(uint),
            Self::Int(int) => u64::try_from(int).map_err(|_| not_convertible(int, "uint")),
            Self::Float(float) if (0.0..UINT_END).contains(&float) =>
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the range was checked; the fraction goes, as CEL says"
                )]
                Ok(float as u64)
            }
            Self::Float(float) => Err(not_convertible(float, "uint")),
        }
    }

    /// The place in a list that this number names; a double must be whole.
    pub(super) fn to_index(self) -> Option<usize> {
        match self {
            Self::Float(float) if float.fract() != 0.0 => None,
            Self::Int(_) | Self::Uint(_) | Self::Float(_) => {
                usize::try_from(self.to_uint().ok()?).ok()
            }
        }
    }

    /// Only integers that a double holds exactly are converted.
    pub(super) fn to_float(self) -> Result<f64, EvaluationFault> {
        match self {
            Self::Float(float) => Ok(float),
            Self::Int(int) if int.unsigned_abs() <= EXACT_MAX =>
            {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "exact up to 2^53, which was checked"
                )]
                Ok(int as f64)
            }
            Self::Uint(uint) if uint <= EXACT_MAX =>
            {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "exact up to 2^53, which was checked"
                )]
                Ok(uint as f64)
            }
            Self::Int(int) => Err(not_convertible(int, "double")),
            Self::Uint(uint) => Err(not_convertible(uint, "double")),
        }
    }
}

impl Arithmetic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    /// Both sides must be of one type; integers never wrap around.
    pub(super) fn apply(self, left: Number, right: Number) -> Result<Number, EvaluationFault> {
        match (left, right) {
            (Number::Int(left), Number::Int(right)) => self.apply_int(left, right).map(Number::Int),
            (Number::Uint(left), Number::Uint(right)) => {
                self.apply_uint(left, right).map(Number::Uint)
            }
            (Number::Float(left), Number::Float(right)) => {
                self.apply_float(left, right).map(Number::Float)
            }
            _ => Err(EvaluationFault::MismatchedPair {
                operation: self.symbol(),
                left: left.kind(),
                right: right.kind(),
            }),
        }
    }

    fn apply_int(self, left: i64, right: i64) -> Result<i64, EvaluationFault> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide | Self::Remainder if right == 0 => {
                return Err(EvaluationFault::DivisionByZero);
            }
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
        };
        result.ok_or(overflow(self.symbol()))
    }

    fn apply_uint(self, left: u64, right: u64) -> Result<u64, EvaluationFault> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => return left.checked_div(right).ok_or(EvaluationFault::DivisionByZero),
            Self::Remainder => {
                return left.checked_rem(right).ok_or(EvaluationFault::DivisionByZero);
            }
        };
        result.ok_or(overflow(self.symbol()))
    }

    fn apply_float(self, left: f64, right: f64) -> Result<f64, EvaluationFault> {
        match self {
            Self::Add => Ok(left + right),
            Self::Subtract => Ok(left - right),
            Self::Multiply => Ok(left * right),
            Self::Divide => Ok(left / right),
            Self::Remainder => Err(EvaluationFault::Mismatch { operation: "%", found: "double" }),
        }
    }
}

/// Compares without ever making the integer a double, which could round it.
fn order_whole(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= UINT_END {
        return Some(Ordering::Less);
    }
    if float < -INT_END {
        return Some(Ordering::Greater);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range was checked and the fraction is compared below"
    )]
    let floor = float.trunc() as i128;
    Some(whole.cmp(&floor).then(0.0_f64.partial_cmp(&float.fract())?))
}

pub(super) fn not_convertible(value: impl ToString, to: &'static str) -> EvaluationFault {
    let value = value.to_string().chars().take(40).collect();
    EvaluationFault::NotConvertible { value, to }
}

fn overflow(operation: &'static str) -> EvaluationFault {
    EvaluationFault::Overflow { operation }
}
