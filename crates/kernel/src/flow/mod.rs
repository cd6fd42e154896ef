//! Information flow: what calls read, where they send, and what of the one stands in the other.
//!
//! The rule of two (ADR 0033) asks before a session that has read private data and untrusted content
//! sends to a new destination. This module has the parts that it is made of: the labels of a tool, the
//! destinations that stand in a text, and bounded digests of texts. Every bound fails towards asking.

mod address;
mod decode;
mod labels;
mod shingle;

pub use address::{AddressSet, Addresses, host_of, urls_in};
pub use decode::{DecodedForms, decoded_addresses, decoded_forms, percent_decoded, text_leaves};
pub use labels::{CallLabels, FlowLabels, Sends};
pub use shingle::{RUN_CHARS, RunSet, uncovered_chars};
