//! Decides how the log is made tamper-evident: chained records, signed heads, receipts.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize, Serializer};
use sha2::Sha256;

use crate::digest::{Digest, hex, unhex};
use crate::envelope::Envelope;
use crate::event::StreamId;
use crate::names::{CallId, SessionId, ToolName};

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

/// What a receipt vouches for.
pub struct Settled<'a> {
    /// The session.
    pub session: &'a SessionId,
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

    /// Signs the newest position of a stream.
    pub fn sign_head(&self, stream: StreamId, seq: u64, hash: Digest) -> SignedHead {
        let mac = self.head_mac(&stream, seq, &hash);
        SignedHead { stream, seq, hash, mac }
    }

    /// Whether a head was signed with this key.
    pub fn vouches_for(&self, head: &SignedHead) -> bool {
        equal(&self.head_mac(&head.stream, head.seq, &head.hash), &head.mac)
    }

    fn head_mac(&self, stream: &StreamId, seq: u64, hash: &Digest) -> [u8; 32] {
        let (kind, id) = stream.parts();
        self.mac(b"head", &[kind.as_bytes(), id.as_bytes(), &seq.to_be_bytes(), &hash.0])
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

    /// The receipt of a settled call.
    pub fn receipt(&self, settled: &Settled<'_>) -> Receipt {
        let call = settled.call.0.to_be_bytes();
        let envelope = settled.envelope;
        // Most answers are words alone; only what is there is written out.
        let data = json(envelope.data.is_null(), &envelope.data);
        let warnings = json(envelope.warnings.is_empty(), &envelope.warnings);
        let errors = json(envelope.errors.is_empty(), &envelope.errors);
        let parts: [&[u8]; 10] = [
            settled.session.as_str().as_bytes(),
            &call,
            settled.tool.as_str().as_bytes(),
            &settled.args_hash.0,
            &[u8::from(envelope.ok)],
            envelope.tool.as_bytes(),
            envelope.message.as_bytes(),
            &data,
            &warnings,
            &errors,
        ];
        let mac = self.mac(b"receipt", &parts);
        let mut short = [0; 12];
        short.iter_mut().zip(mac).for_each(|(to, from)| *to = from);
        Receipt(short)
    }
}

fn json<T: Serialize + ?Sized>(empty: bool, part: &T) -> Vec<u8> {
    let mut out = Vec::new();
    if !empty {
        // Writing our own plain types into memory has no way to fail.
        let written = serde_json::to_writer(&mut out, part);
        debug_assert!(written.is_ok());
    }
    out
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
    use serde_json::json;

    #[test]
    fn a_receipt_vouches_for_every_byte() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let session = SessionId::parse("s1").unwrap();
        let tool = ToolName::parse("add").unwrap();
        let args_hash = Digest::of(b"{}");
        let receipt = |key: &SigningKey, call, envelope: &Envelope| {
            let (session, tool, args_hash) = (&session, &tool, &args_hash);
            key.receipt(&Settled { session, call: CallId(call), tool, args_hash, envelope })
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
        assert_eq!(Receipt::try_from(proof.to_string()), Ok(proof));
        assert_eq!(serde_json::to_value(proof).unwrap(), proof.to_string());
    }

    #[test]
    fn a_head_is_bound_to_its_stream_and_place() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let head = key.sign_head(StreamId::Project, 3, Digest::of(b"x"));
        assert!(key.vouches_for(&head));
        assert!(!key.vouches_for(&SignedHead { seq: 4, ..head.clone() }));
        let session = SessionId::parse("s1").unwrap();
        assert!(!key.vouches_for(&SignedHead { stream: StreamId::Session(session), ..head }));
    }
}
