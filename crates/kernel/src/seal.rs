//! Decides how the log is made tamper-evident: chained records, signed heads, receipts.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize, Serializer};
use sha2::Sha256;

use crate::digest::{Digest, hex, unhex};
use crate::envelope::Envelope;
use crate::event::StreamId;
use crate::names::{CallId, ToolName};

/// The key that signs heads and receipts. It is kept outside the project folder.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Proof of a settled call: `rcpt_` and the first 24 hex digits of its signature.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Receipt([u8; 12]);

impl Receipt {
    /// The bytes themselves.
    pub(crate) fn bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

/// The newest position of a stream, signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// Which stream.
    pub stream: StreamId,
    /// Sequence number of its last record.
    pub seq: u64,
    /// Chain hash of its last record.
    pub hash: Digest,
    /// Signature over all of the above.
    pub mac: [u8; 32],
}

/// The key of one stream. It is made once for many signatures, and what it signs is worth nothing
/// in another stream.
#[derive(Clone)]
pub struct StreamKey {
    stream: StreamId,
    mac: Hmac<Sha256>,
}

/// What a receipt vouches for, in the session whose key signs it.
pub struct Settled<'a> {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: &'a ToolName,
    /// Hash of the arguments.
    pub args_hash: &'a Digest,
    /// What the caller is told; its own receipt is left out.
    pub envelope: &'a Envelope,
}

impl SigningKey {
    /// A key from 32 random bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        // HMAC fills a short key up with zeros to one block; done here it cannot fail.
        let mut block = [0; 64];
        block.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self(<Hmac<Sha256> as KeyInit>::new(&block.into()))
    }

    /// The key of one log. What it signs is worth nothing in another.
    pub fn for_log(&self, name: &str) -> Self {
        Self::from_bytes(&self.mac(b"log", &[name.as_bytes()]))
    }

    /// Parts are counted before they are signed, so that moving a border changes the signature.
    fn mac(&self, purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(purpose);
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// The key of one stream.
    pub fn for_stream(&self, stream: StreamId) -> StreamKey {
        let (kind, id) = stream.parts();
        let key = Self::from_bytes(&self.mac(b"stream", &[kind.as_bytes(), id.as_bytes()]));
        StreamKey { stream, mac: key.0 }
    }

    /// Whether a head was signed with this key.
    pub fn vouches_for(&self, head: &SignedHead) -> bool {
        let key = self.for_stream(head.stream.clone());
        equal(&key.head_mac(head.seq, &head.hash), &head.mac)
    }

    /// Signs a checkpoint, which is trusted only with its signature.
    pub fn sign_checkpoint(
        &self,
        stream: &StreamId,
        seq: u64,
        hash: &Digest,
        body: &[u8],
    ) -> Digest {
        let (kind, id) = stream.parts();
        let parts: [&[u8]; 5] = [kind.as_bytes(), id.as_bytes(), &seq.to_be_bytes(), &hash.0, body];
        Digest(self.mac(b"checkpoint", &parts))
    }

    /// What tells this log from every other, for what is signed with other keys.
    pub fn log_mark(&self) -> Digest {
        Digest(self.mac(b"mark", &[]))
    }

    /// Signs the words of a credential, such as a token. They say themselves what they are for.
    pub fn sign_words(&self, words: &[u8]) -> [u8; 32] {
        self.mac(b"words", &[words])
    }

    /// Whether words were signed with this key.
    pub fn vouches_for_words(&self, words: &[u8], mac: &[u8; 32]) -> bool {
        equal(&self.sign_words(words), mac)
    }
}

impl StreamKey {
    /// The stream.
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// Signs the newest position of the stream.
    pub fn sign_head(&self, seq: u64, hash: Digest) -> SignedHead {
        SignedHead { stream: self.stream.clone(), seq, hash, mac: self.head_mac(seq, &hash) }
    }

    fn head_mac(&self, seq: u64, hash: &Digest) -> [u8; 32] {
        let mut mac = self.mac.clone();
        mac.update(b"head");
        mac.update(&seq.to_be_bytes());
        mac.update(&hash.0);
        mac.finalize().into_bytes().into()
    }

    /// The receipt of a settled call.
    pub fn receipt(&self, settled: &Settled<'_>) -> Receipt {
        let envelope = settled.envelope;
        let mut words = Words(Vec::with_capacity(256));
        words.0.extend_from_slice(b"receipt");
        words.0.extend_from_slice(&settled.call.0.to_be_bytes());
        words.0.extend_from_slice(&settled.args_hash.0);
        words.0.push(u8::from(envelope.ok));
        words.text(settled.tool.as_str());
        words.text(&envelope.tool);
        words.text(&envelope.message);
        // Most answers are words alone; only what is there is written out.
        words.json(envelope.data.is_null(), &envelope.data);
        words.json(envelope.warnings.is_empty(), &envelope.warnings);
        words.json(envelope.errors.is_empty(), &envelope.errors);
        let mut mac = self.mac.clone();
        mac.update(&words.0);
        let mut short = [0; 12];
        short.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
        Receipt(short)
    }
}

/// What is signed: parts, each with its length behind it, so that moving a border changes the
/// signature.
struct Words(Vec<u8>);

impl Words {
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

/// Compares without telling by its time where the difference is.
fn equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
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
    use crate::names::SessionId;
    use serde_json::json;

    #[test]
    fn a_receipt_vouches_for_every_byte() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let stream = |id| StreamId::Session(SessionId::parse(id).unwrap());
        let tool = ToolName::parse("add").unwrap();
        let args_hash = Digest::of(b"{}");
        let receipt = |key: &SigningKey, call, envelope: &Envelope| {
            let (tool, args_hash) = (&tool, &args_hash);
            let settled = Settled { call: CallId(call), tool, args_hash, envelope };
            key.for_stream(stream("s1")).receipt(&settled)
        };
        let told = Envelope::answer("add", "42".into(), json!({"n": 42}), vec![]);
        let proof = receipt(&key, 1, &told);
        assert_eq!(proof, receipt(&key, 1, &Envelope { receipt: Some(proof), ..told.clone() }));
        let changed = [
            Envelope { ok: false, ..told.clone() },
            Envelope { message: "43".into(), ..told.clone() },
            Envelope { data: json!({"n": 43}), ..told.clone() },
            Envelope { data: json!(null), ..told.clone() },
            Envelope { warnings: vec!["w".into()], ..told.clone() },
            Envelope { tool: "sub".into(), ..told.clone() },
        ];
        for envelope in &changed {
            assert_ne!(proof, receipt(&key, 1, envelope), "{envelope:?}");
        }
        assert_ne!(proof, receipt(&key, 2, &told));
        assert_ne!(proof, receipt(&SigningKey::from_bytes(&[8; 32]), 1, &told));
        let settled =
            Settled { call: CallId(1), tool: &tool, args_hash: &args_hash, envelope: &told };
        assert_ne!(proof, key.for_stream(stream("s2")).receipt(&settled));
        // The same letters, with the border between two parts elsewhere.
        let moved = |tool: &str, message: &str| Envelope {
            tool: tool.into(),
            message: message.into(),
            ..told.clone()
        };
        let [one, other] = [moved("ab", "c"), moved("a", "bc")];
        assert_ne!(receipt(&key, 1, &one), receipt(&key, 1, &other));
        assert_eq!(Receipt::try_from(proof.to_string()), Ok(proof));
        assert_eq!(serde_json::to_value(proof).unwrap(), proof.to_string());
    }

    #[test]
    fn a_head_is_bound_to_its_stream_and_place() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let head = key.for_stream(StreamId::Project).sign_head(3, Digest::of(b"x"));
        assert!(key.vouches_for(&head));
        assert!(!key.vouches_for(&SignedHead { seq: 4, ..head.clone() }));
        let session = SessionId::parse("s1").unwrap();
        assert!(!key.vouches_for(&SignedHead { stream: StreamId::Session(session), ..head }));
    }
}
