//! Decides how a value that does not fit its type is reported: where, why, what fits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// A required field is absent.
    Missing,
    /// A field that the type does not have.
    Unknown,
    /// Another type than the declared one.
    WrongType,
    /// Not one of the allowed values.
    NotAllowed,
    /// Outside the declared bounds.
    OutOfRange,
    /// A text that does not match the declared pattern.
    NoMatch,
}

/// One value that does not fit, with the path to it and what would fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfit {
    /// Where: `steps[0].title`.
    pub path: String,
    /// What is wrong.
    pub problem: Problem,
    /// A sentence that says what to send instead.
    pub message: String,
    /// The values or fields that are allowed, where they can be listed.
    pub allowed: Vec<String>,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Where the walk stands; only written out when something does not fit.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, at) => write!(f, "{parent}[{at}]"),
        }
    }
}
