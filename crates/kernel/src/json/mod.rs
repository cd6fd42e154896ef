//! Decides what JSON is accepted from outside and how it is written for hashing.

mod canonical;
mod strict;

pub use canonical::{canonical, write_canonical};
pub use strict::{JsonRefusal, parse_strict};
