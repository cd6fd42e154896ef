//! The key of this user on this machine, which signs the heads of logs.
//!
//! A host key proves what happened on this machine. It gives no permission to anything.

use std::fmt;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use toolgate_kernel::digest::{Digest, hex, unhex};
use toolgate_kernel::token_key::TokenKey;
use toolgate_kernel::tree::{LogId, SignedNote, TreeHead, key_id};
use zeroize::Zeroizing;

/// The key of this user on this machine.
pub struct HostKey {
    pair: Ed25519KeyPair,
    public: HostPublicKey,
    seed: Zeroizing<[u8; 32]>,
}

/// The public half of a host key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostPublicKey(pub [u8; 32]);

/// Why a signed head does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteFault {
    /// It is no signed head.
    #[error(transparent)]
    Malformed(#[from] toolgate_kernel::tree::NoteRefusal),
    /// It is of another log.
    #[error("the signed head is of another log, {0}")]
    OtherLog(String),
    /// Another key signed it.
    #[error("the signed head was signed with another host key than {0}")]
    OtherKey(HostPublicKey),
    /// Its signature does not fit.
    #[error("the signature of the signed head does not fit what it says")]
    Forged,
}

impl HostKey {
    /// A key from 32 random bytes; `None` where the bytes are no key.
    pub fn from_seed(seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let public = HostPublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(Self { pair, public, seed: Zeroizing::new(*seed) })
    }

    /// The public half.
    pub fn public(&self) -> HostPublicKey {
        self.public
    }

    /// Signs a head of a log.
    pub fn sign(&self, log: LogId, head: TreeHead) -> SignedNote {
        let origin = log.origin();
        let signature = self.pair.sign(SignedNote::text(&origin, &head).as_bytes());
        let mut bytes = [0; 64];
        bytes.iter_mut().zip(signature.as_ref()).for_each(|(to, from)| *to = *from);
        let key_id = key_id(&origin, &self.public.0);
        SignedNote { key_name: origin.clone(), origin, head, key_id, signature: bytes }
    }

    /// The key for tokens of one log. It tells nothing about this key.
    pub fn token_key(&self, log: LogId) -> TokenKey {
        let label = [b"toolgate tokens 1\n".as_slice(), self.seed.as_slice()].concat();
        TokenKey::from_bytes(&Digest::of(&Zeroizing::new(label)).0).derive(&log.to_string())
    }
}

impl HostPublicKey {
    /// Reads a key as it is shown: 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(Self)
    }

    /// Reads a note and checks that this key signed it for a log.
    pub fn open(&self, log: LogId, note: &str) -> Result<TreeHead, NoteFault> {
        let note = SignedNote::parse(note)?;
        let origin = log.origin();
        if note.origin != origin || note.key_name != origin {
            return Err(NoteFault::OtherLog(note.origin));
        }
        if note.key_id != key_id(&origin, &self.0) {
            return Err(NoteFault::OtherKey(*self));
        }
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        let verified = key.verify(note.signed_text().as_bytes(), &note.signature);
        verified.map_err(|_| NoteFault::Forged)?;
        Ok(note.head)
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKey({})", self.public)
    }
}

impl fmt::Display for HostPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        hex(&self.0, &mut text);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for HostPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostPublicKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> HostKey {
        HostKey::from_seed(&[byte; 32]).unwrap()
    }

    #[test]
    fn a_head_counts_only_for_its_log_under_its_key() {
        let (log, other) = (LogId::from_bytes([1; 16]), LogId::from_bytes([2; 16]));
        let head = TreeHead { size: 7, root: Digest::of(b"root") };
        let note = key(7).sign(log, head);
        let public = key(7).public();
        assert_eq!(public.open(log, &note.to_string()), Ok(head));
        assert!(matches!(public.open(other, &note.to_string()), Err(NoteFault::OtherLog(_))));
        let stranger = key(8).public();
        assert_eq!(stranger.open(log, &note.to_string()), Err(NoteFault::OtherKey(stranger)));
        let longer = SignedNote { head: TreeHead { size: 8, ..head }, ..note };
        assert_eq!(public.open(log, &longer.to_string()), Err(NoteFault::Forged));
        assert!(matches!(public.open(log, "x"), Err(NoteFault::Malformed(_))));
    }

    #[test]
    fn tokens_of_one_log_are_signed_with_a_key_of_their_own() {
        let (log, other) = (LogId::from_bytes([1; 16]), LogId::from_bytes([2; 16]));
        let mac = key(7).token_key(log).sign(b"x");
        assert!(key(7).token_key(log).verifies(b"x", &mac));
        assert!(!key(7).token_key(other).verifies(b"x", &mac));
        assert!(!key(8).token_key(log).verifies(b"x", &mac));
    }
}
