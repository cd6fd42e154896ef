//! Reads and writes signed heads: a checkpoint of C2SP, which is a signed note.
//!
//! The text of a note is what is signed. This reads and writes notes; signatures are made and checked
//! where there is cryptography.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::TreeHead;
use crate::digest::Digest;

/// Bytes that a note may have. One of ours has about 250.
const NOTE_BYTES_MAX: usize = 2_048;

/// What stands before each signature: an em dash and a space.
const SIGNATURE_MARK: &str = "\u{2014} ";

/// Marks the kind of an Ed25519 key in its id.
const ED25519: u8 = 1;

/// A head of a log with one signature under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    /// The log, such as `toolgate/` and its id.
    pub origin: String,
    /// The head.
    pub head: TreeHead,
    /// What the key is called.
    pub key_name: String,
    /// Names the key.
    pub key_id: [u8; 4],
    /// The signature over the text.
    pub signature: [u8; 64],
}

/// A text that is no note of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a signed head: {0}")]
pub struct NoteRefusal(&'static str);

/// The id of an Ed25519 key under a name.
pub fn key_id(name: &str, public_key: &[u8; 32]) -> [u8; 4] {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update([b'\n', ED25519]);
    hasher.update(public_key);
    let hash: [u8; 32] = hasher.finalize().into();
    let [a, b, c, d, ..] = hash;
    [a, b, c, d]
}

impl SignedNote {
    /// What is signed of a head.
    pub fn text(origin: &str, head: &TreeHead) -> String {
        format!("{origin}\n{}\n{}\n", head.size, STANDARD.encode(head.root.0))
    }

    /// What was signed of this one.
    pub fn signed_text(&self) -> String {
        Self::text(&self.origin, &self.head)
    }

    /// Reads a note of exactly one head and one signature.
    pub fn parse(note: &str) -> Result<Self, NoteRefusal> {
        if note.len() > NOTE_BYTES_MAX {
            return Err(NoteRefusal("it is too long"));
        }
        let lines: Vec<&str> = note.split('\n').collect();
        let [origin, size, root, "", signature, ""] = lines.as_slice() else {
            return Err(NoteRefusal("it has not the lines of a head and one signature"));
        };
        let head = TreeHead { size: parse_size(size)?, root: Digest(parse_base64(root)?) };
        let signature = signature.strip_prefix(SIGNATURE_MARK);
        let (key_name, signature) = signature
            .and_then(|signature| signature.split_once(' '))
            .ok_or(NoteRefusal("its last line is no signature"))?;
        if origin.is_empty() || key_name.is_empty() {
            return Err(NoteRefusal("a name is empty"));
        }
        let signed: [u8; 68] = parse_base64(signature)?;
        let (id, signature) = signed.split_at(4);
        let (Ok(key_id), Ok(signature)) = (id.try_into(), signature.try_into()) else {
            return Err(NoteRefusal("its signature has not the length of one"));
        };
        let (origin, key_name) = ((*origin).to_owned(), key_name.to_owned());
        Ok(Self { origin, head, key_name, key_id, signature })
    }
}

impl std::fmt::Display for SignedNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut signed = self.key_id.to_vec();
        signed.extend_from_slice(&self.signature);
        let (text, signature) = (self.signed_text(), STANDARD.encode(signed));
        writeln!(f, "{text}\n{SIGNATURE_MARK}{} {signature}", self.key_name)
    }
}

/// Decimal, without signs or leading zeros.
fn parse_size(text: &str) -> Result<u64, NoteRefusal> {
    let size: u64 = text.parse().map_err(|_| NoteRefusal("its size is no number"))?;
    if size.to_string() == text { Ok(size) } else { Err(NoteRefusal("its size is no number")) }
}

fn parse_base64<const N: usize>(text: &str) -> Result<[u8; N], NoteRefusal> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    bytes.ok_or(NoteRefusal("it has base64 of another length, or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SignedNote {
        let head = TreeHead { size: 20_852_163, root: Digest::of(b"root") };
        let (origin, key_name) = ("toolgate/00".to_owned(), "toolgate/00".to_owned());
        SignedNote { origin, head, key_name, key_id: [1, 2, 3, 4], signature: [7; 64] }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let note = sample();
        assert_eq!(SignedNote::parse(&note.to_string()), Ok(note));
    }

    #[test]
    fn key_ids_are_those_of_the_published_example() {
        // The example key in the documentation of Go's note package.
        let key: [u8; 33] = parse_base64("ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW").unwrap();
        assert_eq!(key[0], ED25519);
        let public: [u8; 32] = key[1..].try_into().unwrap();
        assert_eq!(key_id("PeterNeumann", &public), [0xc7, 0x4f, 0x20, 0xa3]);
    }

    #[test]
    fn the_published_checkpoint_is_read() {
        let published = "example.com/behind-the-sofa\n20852163\n\
            CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
            \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
        let note = SignedNote::parse(published).unwrap();
        assert_eq!(note.head.size, 20_852_163);
        assert_eq!(note.to_string(), published);
    }

    #[test]
    fn other_texts_are_refused() {
        let good = sample().to_string();
        let cases = [
            ("", "empty"),
            ("toolgate/00\n1\n", "no signature"),
            (&good.replace("20852163", "+20852163"), "a sign"),
            (&good.replace("20852163", "020852163"), "a leading zero"),
            (&good.replace("20852163", "20852163\n5"), "another line"),
            (&good.replace("\u{2014} ", "- "), "another dash"),
            (&good.replace("\n\n", "\n"), "no empty line"),
            (good.trim_end(), "no end"),
            (&format!("{good}\u{2014} x AAAA\n"), "two signatures"),
            (&format!("{good}{}", " ".repeat(NOTE_BYTES_MAX)), "too long"),
        ];
        for (note, why) in cases {
            assert!(SignedNote::parse(note).is_err(), "{why}");
        }
    }
}
