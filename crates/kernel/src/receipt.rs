//! What proves that a call settled: a hash that anyone with the log can compute again.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::digest::{Digest, hex, unhex};
use crate::envelope::Envelope;
use crate::names::{CallId, ToolName};

/// Proof of a settled call: `rcpt_` and the first 24 hex digits of a hash over the call, its result
/// and its place in the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Receipt([u8; 12]);

/// A call that settled, as its receipt covers it.
pub struct SettledCall<'a> {
    /// Chain hash of the record before the settlement: the place in the log.
    pub link_before: Digest,
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: &'a ToolName,
    /// Hash of the arguments.
    pub args_hash: &'a Digest,
    /// What the caller is told; its own receipt is left out.
    pub envelope: &'a Envelope,
}

impl SettledCall<'_> {
    /// The receipt.
    pub fn receipt(&self) -> Receipt {
        let envelope = self.envelope;
        let mut content = ReceiptContent(Vec::with_capacity(288));
        content.0.extend_from_slice(b"receipt");
        content.0.extend_from_slice(&self.link_before.0);
        content.0.extend_from_slice(&self.call.0.to_be_bytes());
        content.0.extend_from_slice(&self.args_hash.0);
        content.0.push(u8::from(envelope.ok));
        content.text(self.tool.as_str());
        content.text(&envelope.tool);
        content.text(&envelope.message);
        // Most answers are words alone; only what is there is written out.
        content.json(envelope.data.is_null(), &envelope.data);
        content.json(envelope.warnings.is_empty(), &envelope.warnings);
        content.json(envelope.errors.is_empty(), &envelope.errors);
        let mut short = [0; 12];
        let hash = Sha256::digest(&content.0);
        short.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        Receipt(short)
    }
}

/// What is hashed: parts, each with its length behind it, so that moving a border changes the hash.
struct ReceiptContent(Vec<u8>);

impl ReceiptContent {
    fn text(&mut self, part: &str) {
        self.0.extend_from_slice(part.as_bytes());
        self.end(part.len());
    }

    fn json<T: Serialize + ?Sized>(&mut self, empty: bool, part: &T) {
        let start = self.0.len();
        if !empty {
            // Writing our own plain types into memory has no way to fail.
            let written = serde_json::to_writer(&mut self.0, part);
            debug_assert!(written.is_ok());
        }
        self.end(self.0.len() - start);
    }

    fn end(&mut self, length: usize) {
        self.0.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    }
}

impl Receipt {
    /// The bytes themselves.
    pub(crate) fn bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 24];
        hex(&self.0, &mut text);
        write!(f, "rcpt_{}", std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = *b"rcpt_000000000000000000000000";
        if let Some(digits) = text.get_mut(5..) {
            hex(&self.0, digits);
        }
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// A text that is no receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a receipt is rcpt_ and 24 characters from 0-9 and a-f")]
pub struct ReceiptRefusal;

impl TryFrom<String> for Receipt {
    type Error = ReceiptRefusal;
    fn try_from(text: String) -> Result<Self, ReceiptRefusal> {
        text.strip_prefix("rcpt_").and_then(unhex).map(Self).ok_or(ReceiptRefusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_receipt_covers_every_byte_and_its_place() {
        let tool = ToolName::parse("add").unwrap();
        let args_hash = Digest::of(b"{}");
        let receipt = |place: &[u8], call, envelope: &Envelope| {
            let (tool, args_hash, link_before) = (&tool, &args_hash, Digest::of(place));
            SettledCall { link_before, call: CallId(call), tool, args_hash, envelope }.receipt()
        };
        let told = Envelope::answer("add", "42".into(), json!({"n": 42}), vec![]);
        let proof = receipt(b"here", 1, &told);
        assert_eq!(proof, receipt(b"here", 1, &Envelope { receipt: Some(proof), ..told.clone() }));
        let changed = [
            Envelope { ok: false, ..told.clone() },
            Envelope { message: "43".into(), ..told.clone() },
            Envelope { data: json!({"n": 43}), ..told.clone() },
            Envelope { data: json!(null), ..told.clone() },
            Envelope { warnings: vec!["w".into()], ..told.clone() },
            Envelope { tool: "sub".into(), ..told.clone() },
        ];
        for envelope in &changed {
            assert_ne!(proof, receipt(b"here", 1, envelope), "{envelope:?}");
        }
        assert_ne!(proof, receipt(b"here", 2, &told));
        assert_ne!(proof, receipt(b"there", 1, &told));
        // The same letters, with the border between two parts elsewhere.
        let moved = |tool: &str, message: &str| Envelope {
            tool: tool.into(),
            message: message.into(),
            ..told.clone()
        };
        let [one, other] = [moved("ab", "c"), moved("a", "bc")];
        assert_ne!(receipt(b"here", 1, &one), receipt(b"here", 1, &other));
        assert_eq!(Receipt::try_from(proof.to_string()), Ok(proof));
        assert_eq!(serde_json::to_value(proof).unwrap(), proof.to_string());
    }
}
