//! Decides what JSON is accepted from outside and how it is written for hashing.

mod canonical;
mod deserialize;
mod document;
mod exact;
mod merge;
mod read;
mod strict;
mod weigh;
mod write;

pub use canonical::{canonical, write_canonical};
pub use document::{Document, Items, Members, Part};
pub use exact::{inexact_number, is_exact};
pub use merge::lay_over;
pub use strict::{JsonRefusal, parse_strict};
pub use weigh::{Room, TooLarge, weigh};
pub(crate) use write::{write_inner, write_text};
