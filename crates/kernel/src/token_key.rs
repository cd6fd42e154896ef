//! Signs the tokens of this machine, such as those that MCP clients send.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key that signs tokens. It is derived from the key of the host, and signs nothing else.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

impl TokenKey {
    /// A key from 32 secret bytes.
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        // HMAC fills a short key up with zeros to one block; done here it cannot fail.
        let mut block = [0; 64];
        block.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        Self(<Hmac<Sha256> as KeyInit>::new(&block.into()))
    }

    /// The key for one purpose, such as one log. What it signs is worth nothing for another.
    pub fn derive(&self, purpose: &str) -> Self {
        Self::from_bytes(&self.mac(b"derive", purpose.as_bytes()))
    }

    /// Signs the content of a token.
    pub fn sign(&self, content: &[u8]) -> [u8; 32] {
        self.mac(b"token", content)
    }

    /// Whether a content was signed with this key.
    pub fn verifies(&self, content: &[u8], mac: &[u8; 32]) -> bool {
        // Compared in the same time wherever the difference is.
        let own = self.sign(content);
        own.iter().zip(mac).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
    }

    fn mac(&self, label: &[u8], content: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(label);
        mac.update(&u64::try_from(content.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(content);
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_bound_to_its_key_and_content() {
        let key = TokenKey::from_bytes(&[7; 32]);
        let mac = key.sign(b"token");
        assert!(key.verifies(b"token", &mac));
        assert!(!key.verifies(b"tokens", &mac));
        assert!(!TokenKey::from_bytes(&[8; 32]).verifies(b"token", &mac));
        assert!(!key.derive("log").verifies(b"token", &mac));
        assert_ne!(key.derive("log").sign(b"token"), key.derive("other").sign(b"token"));
    }
}
