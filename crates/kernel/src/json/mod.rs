//! Decides what JSON is accepted from outside and how it is written for hashing.

mod canonical;
mod deserialize;
mod document;
mod exact;
mod merge;
mod read;
mod strict;
mod surrogate;
mod weigh;
mod write;

pub use canonical::{canonical, write_canonical};
pub use document::{Document, Items, Members, Part};
pub use exact::{inexact_number, is_exact, text_end};
pub use merge::lay_over;
pub use strict::{JsonRefusal, parse_strict};
pub use surrogate::{joined_surrogates, replace_lone_surrogates, without_lone_surrogates};
pub use weigh::{Room, TooLarge, weigh};
pub(crate) use write::{write_inner, write_text};
