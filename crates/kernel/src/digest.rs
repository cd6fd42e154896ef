//! Decides how content is fingerprinted: SHA-256, written as hex.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 of some content. It lies where it can be copied in a few steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
#[repr(align(8))]
pub struct Digest(pub [u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 characters from 0-9 and a-f")]
pub struct DigestRefusal;

impl Digest {
    /// The digest before anything was hashed: where a chain begins.
    pub const ZERO: Self = Self([0; 32]);

    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of one link of a chain: what came before, then the digest of the bytes. So the chain
    /// can be followed also where only the digest of some bytes is left.
    pub fn link(previous: Self, bytes: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(previous.0);
        hasher.update(Self::of(bytes).0);
        Self(hasher.finalize().into())
    }

    /// The digest of a JSON value in canonical form.
    pub fn of_json(value: &serde_json::Value) -> Self {
        Self::of(&crate::json::canonical(value))
    }

    /// The first characters, enough for a person to tell two apart.
    pub fn short(&self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

/// The last long content that was fingerprinted, and how its hashing stood on the way.
///
/// A file that is written again begins mostly as it did before. What is the same is compared, which
/// costs a tenth of hashing it; the digest is the same as [`Digest::of`] gives.
#[derive(Default)]
pub struct Trail {
    content: Arc<Vec<u8>>,
    /// The hasher after one step, after two, and so on.
    steps: Vec<Sha256>,
}

/// Bytes from one step of a trail to the next.
const STEP: usize = 32 << 10;

/// Contents shorter than this leave no trail.
const TRAIL_BYTES_MIN: usize = 8 * STEP;

impl Trail {
    /// The digest of a content, which is remembered in place of the one before.
    pub fn digest(&mut self, content: &Arc<Vec<u8>>) -> Digest {
        if content.len() < TRAIL_BYTES_MIN {
            return Digest::of(content);
        }
        let pairs = content.chunks(STEP).zip(self.content.chunks(STEP));
        self.steps.truncate(pairs.take_while(|(now, before)| now == before).count());
        let mut hasher = self.steps.last().cloned().unwrap_or_default();
        for chunk in content.chunks(STEP).skip(self.steps.len()) {
            hasher.update(chunk);
            if chunk.len() == STEP {
                self.steps.push(hasher.clone());
            }
        }
        self.content = Arc::clone(content);
        Digest(hasher.finalize().into())
    }
}

/// Writes bytes as lower-case hex.
pub fn hex(bytes: &[u8], out: &mut [u8]) {
    // Counted out, not looked up: so many bytes are written at once.
    let digit = |nibble: u8| nibble + b'0' + if nibble > 9 { b'a' - b'9' - 1 } else { 0 };
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        if let [high, low] = pair {
            *high = digit(byte >> 4);
            *low = digit(byte & 15);
        }
    }
}

/// Reads hex of exactly `N` bytes.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(out)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.short())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0; 64];
        hex(&self.0, &mut text);
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// The first eight bytes of a digest: enough to tell versions of one thing apart,
/// not to vouch for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Tag([u8; 8]);

impl Tag {
    /// The bytes themselves.
    pub(crate) fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl From<Digest> for Tag {
    fn from(digest: Digest) -> Self {
        let mut short = [0; 8];
        short.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        Self(short)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Tag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [0; 16];
        hex(&self.0, &mut text);
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl TryFrom<String> for Tag {
    type Error = DigestRefusal;
    fn try_from(text: String) -> Result<Self, DigestRefusal> {
        unhex(&text).map(Self).ok_or(DigestRefusal)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestRefusal;
    fn try_from(text: String) -> Result<Self, DigestRefusal> {
        unhex(&text).map(Self).ok_or(DigestRefusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha256_and_round_trip() {
        let empty = Digest::of(b"");
        assert_eq!(
            empty.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(Digest::try_from(empty.to_string()), Ok(empty));
        assert!(Digest::try_from("E3".repeat(32)).is_err());
    }

    #[test]
    fn a_trail_gives_the_digest_of_the_whole_content() {
        let mut trail = Trail::default();
        let mut content: Vec<u8> = (0..=250).cycle().take(TRAIL_BYTES_MIN + 1_000).collect();
        let mut check = |content: &Vec<u8>| {
            assert_eq!(trail.digest(&Arc::new(content.clone())), Digest::of(content));
        };
        check(&content);
        check(&content);
        // Changed at the end, in the middle, on both sides of a step, at the start; longer, shorter.
        for at in [TRAIL_BYTES_MIN + 999, 5 * STEP + 7, 3 * STEP, 3 * STEP - 1, 0] {
            content[at] ^= 1;
            check(&content);
        }
        for length in [9 * STEP, 9 * STEP - 1, 20 * STEP, 3, 8 * STEP, 9 * STEP] {
            content.resize(length, 7);
            check(&content);
        }
        content[2 * STEP] ^= 1;
        check(&content);
    }
}
