//! The functions an expression may call, carried out.

use std::rc::Rc;

use super::TEXT_BYTES_MAX;
use super::datum::{Datum, Text};
use super::fault::EvaluationFault;
use super::meter::Meter;
use super::number::{Number, not_convertible};

/// Functions of one value.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Size,
    Words,
    LowerAscii,
    UpperAscii,
    Int,
    Uint,
    Double,
    String,
}

/// Functions that look for one text in another.
#[derive(Clone, Copy)]
pub(super) enum Search {
    StartsWith,
    EndsWith,
    Contains,
}

impl Function {
    pub(super) fn apply<'a>(
        self,
        meter: &mut Meter,
        datum: Datum<'a>,
    ) -> Result<Datum<'a>, EvaluationFault> {
        match self {
            Self::Size => size(meter, &datum),
            Self::Words => count(words(read(meter, &datum, "words()")?)),
            Self::LowerAscii => recase(meter, &datum, "lowerAscii()", str::to_ascii_lowercase),
            Self::UpperAscii => recase(meter, &datum, "upperAscii()", str::to_ascii_uppercase),
            Self::Int => to_number(&datum, "int", "int()", Number::to_int, str::parse::<i64>)
                .map(Number::Int)
                .map(Datum::Number),
            Self::Uint => to_number(&datum, "uint", "uint()", Number::to_uint, str::parse::<u64>)
                .map(Number::Uint)
                .map(Datum::Number),
            Self::Double => {
                let float =
                    to_number(&datum, "double", "double()", Number::to_float, str::parse::<f64>)?;
                // Texts such as "inf" and "nan" parse, but no rule means them.
                if float.is_finite() {
                    Ok(Datum::Number(Number::Float(float)))
                } else {
                    Err(not_convertible(float, "double"))
                }
            }
            Self::String => to_text(datum),
        }
    }
}

impl Search {
    pub(super) fn holds(
        self,
        meter: &mut Meter,
        text: &Datum<'_>,
        part: &Datum<'_>,
    ) -> Result<bool, EvaluationFault> {
        let (Datum::Text(text), Datum::Text(part)) = (text, part) else {
            return Err(text.unfit_with(self.name(), part));
        };
        let (text, part) = (text.as_str(), part.as_str());
        match self {
            Self::StartsWith | Self::EndsWith => meter.spend_text(part.len())?,
            Self::Contains => meter.spend_text(text.len().saturating_add(part.len()))?,
        }
        Ok(match self {
            Self::StartsWith => text.starts_with(part),
            Self::EndsWith => text.ends_with(part),
            Self::Contains => text.contains(part),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::StartsWith => "startsWith()",
            Self::EndsWith => "endsWith()",
            Self::Contains => "contains()",
        }
    }
}

/// The text in `datum`, paid for.
fn read<'t>(
    meter: &mut Meter,
    datum: &'t Datum<'_>,
    operation: &'static str,
) -> Result<&'t str, EvaluationFault> {
    let Datum::Text(text) = datum else {
        return Err(datum.unfit(operation));
    };
    meter.spend_text(text.as_str().len())?;
    Ok(text.as_str())
}

/// Texts are counted in characters, lists in items, maps in entries.
fn size<'a>(meter: &mut Meter, datum: &Datum<'_>) -> Result<Datum<'a>, EvaluationFault> {
    match datum {
        Datum::Text(_) => count(read(meter, datum, "size()")?.chars().count()),
        Datum::List(list) => count(list.size()),
        Datum::Map(map) => count(map.size()),
        Datum::Null | Datum::Bool(_) | Datum::Number(_) => Err(datum.unfit("size()")),
    }
}

fn count<'a>(items: usize) -> Result<Datum<'a>, EvaluationFault> {
    let int =
        i64::try_from(items).map_err(|_| EvaluationFault::Overflow { operation: "size()" })?;
    Ok(Datum::Number(Number::Int(int)))
}

/// How many runs of characters that are not white space there are.
fn words(text: &str) -> usize {
    if !text.is_ascii() {
        return text.split_whitespace().count();
    }
    // The same for ASCII, several times faster on a long manuscript.
    let mut inside = false;
    let mut count = 0;
    for byte in text.bytes() {
        let blank = matches!(byte, b'\t'..=b'\r' | b' ');
        count += usize::from(!blank && !inside);
        inside = !blank;
    }
    count
}

fn recase<'a>(
    meter: &mut Meter,
    datum: &Datum<'_>,
    operation: &'static str,
    recase: fn(&str) -> String,
) -> Result<Datum<'a>, EvaluationFault> {
    let text = read(meter, datum, operation)?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(EvaluationFault::TooLongText { bytes: text.len() });
    }
    Ok(made(recase(text)))
}

/// A number by conversion, or by reading a text.
fn to_number<N, E>(
    datum: &Datum<'_>,
    to: &'static str,
    operation: &'static str,
    convert: fn(Number) -> Result<N, EvaluationFault>,
    parse: fn(&str) -> Result<N, E>,
) -> Result<N, EvaluationFault> {
    match datum {
        Datum::Number(number) => convert(*number),
        // No number needs more digits; a long text is not read to find that out.
        Datum::Text(text) if text.as_str().len() <= 64 => {
            parse(text.as_str()).map_err(|_| not_convertible(format!("{:?}", text.as_str()), to))
        }
        Datum::Text(_) => Err(not_convertible("a long text", to)),
        Datum::Null | Datum::Bool(_) | Datum::List(_) | Datum::Map(_) => {
            Err(datum.unfit(operation))
        }
    }
}

fn to_text(datum: Datum<'_>) -> Result<Datum<'_>, EvaluationFault> {
    match datum {
        Datum::Text(_) => Ok(datum),
        Datum::Bool(truth) => Ok(made(truth.to_string())),
        Datum::Number(Number::Int(int)) => Ok(made(int.to_string())),
        Datum::Number(Number::Uint(uint)) => Ok(made(uint.to_string())),
        Datum::Number(Number::Float(float)) => Ok(made(float.to_string())),
        Datum::Null | Datum::List(_) | Datum::Map(_) => Err(datum.unfit("string()")),
    }
}

pub(super) fn made<'a>(text: String) -> Datum<'a> {
    Datum::Text(Text::Made(Rc::from(text)))
}
