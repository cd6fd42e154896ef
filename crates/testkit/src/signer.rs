//! Signs decisions as people in tests: the same name always has the same key, and statements come out
//! the same in every run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::{Result, anyhow};
use ring::signature::{Ed25519KeyPair, KeyPair};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::Nonce;
use toolgate_kernel::digest::Digest;
use toolgate_runtime::{Author, Signer};

/// Ada, with her key, for tests that need one person.
pub fn ada() -> Author<'static> {
    static ADA: LazyLock<Option<(Actor, Arc<TestSigner>)>> =
        LazyLock::new(|| Some((Actor::Human("ada".into()), TestSigner::new("ada").ok()?)));
    match ADA.as_ref() {
        Some((actor, signer)) => signer.author(actor),
        None => (&Actor::System).into(),
    }
}

/// A person of a test, with a key that follows from their name.
pub struct TestSigner {
    pair: Ed25519KeyPair,
    nonces: AtomicU64,
}

impl TestSigner {
    /// The person of this name.
    pub fn new(name: &str) -> Result<Arc<Self>> {
        let seed = Digest::of(name.as_bytes()).0;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        let pair = pair.map_err(|_| anyhow!("no key can be made of {name:?}"))?;
        Ok(Arc::new(Self { pair, nonces: AtomicU64::new(0) }))
    }

    /// This person as the author of something.
    pub fn author<'a>(&'a self, actor: &'a Actor) -> Author<'a> {
        Author::person(actor, self)
    }
}

impl Signer for TestSigner {
    fn key(&self) -> PersonKey {
        let mut key = [0; 32];
        key.iter_mut().zip(self.pair.public_key().as_ref()).for_each(|(to, from)| *to = *from);
        PersonKey(key)
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        let mut signature = [0; 64];
        let signed = self.pair.sign(bytes);
        signature.iter_mut().zip(signed.as_ref()).for_each(|(to, from)| *to = *from);
        Signature(signature)
    }

    fn nonce(&self) -> Nonce {
        Nonce(u128::from(self.nonces.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
    }
}
