//! Decides how a person's key is made, kept and unlocked: outside every project, for this user
//! alone, with a passphrase that is typed at the terminal and comes from nowhere else.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use argon2::{Algorithm, Argon2, Params, Version};
use ring::aead::{self, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::Nonce;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::ProjectEvent;
use toolgate_kernel::fold::Project;
use toolgate_runtime::{Author, SayFault, Signer};
use zeroize::Zeroizing;

use crate::console::{self, hint};
use crate::environment;
use crate::exit::Exit;
use crate::host::{check_mode, own_folder};
use crate::person::{self, Nobody, attended};
use crate::project::{Place, block_on};

/// The key as it lies on the disk.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    version: u16,
    /// How the person is called in the log.
    pub(crate) name: String,
    /// The public half.
    pub(crate) key: PersonKey,
    /// The secret half, sealed where there is a passphrase.
    #[serde(with = "hexed")]
    secret: Vec<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sealed: Option<Sealed>,
}

/// How a passphrase becomes the key that the secret is sealed with.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    argon2id_kib: u32,
    argon2id_passes: u32,
    #[serde(with = "hexed")]
    salt: Vec<u8>,
    #[serde(with = "hexed")]
    nonce: Vec<u8>,
}

/// What a passphrase costs to try: 64 MiB and three passes.
const KIB: u32 = 64 << 10;
const PASSES: u32 = 3;

/// More would make a key that somebody put there a way to use up the memory.
const KIB_MAX: u32 = 1 << 20;
const PASSES_MAX: u32 = 16;

/// How often a passphrase may be typed.
const TRIES: usize = 3;

/// A person's key while it is unlocked.
pub(crate) struct Unlocked {
    pair: Ed25519KeyPair,
    pub(crate) name: Arc<str>,
    /// Random bytes from which the nonces of this process follow.
    nonce_seed: [u8; 32],
    nonces: AtomicU64,
}

impl Unlocked {
    fn new(pair: Ed25519KeyPair, name: Arc<str>) -> Result<Self> {
        let nonce_seed = environment::random::<32>()?;
        Ok(Self { pair, name, nonce_seed, nonces: AtomicU64::new(0) })
    }
}

impl Signer for Unlocked {
    fn key(&self) -> PersonKey {
        let mut key = [0; 32];
        key.iter_mut().zip(self.pair.public_key().as_ref()).for_each(|(to, from)| *to = *from);
        PersonKey(key)
    }

    fn sign(&self, words: &[u8]) -> Signature {
        let mut bytes = [0; 64];
        let signature = self.pair.sign(words);
        bytes.iter_mut().zip(signature.as_ref()).for_each(|(to, from)| *to = *from);
        Signature(bytes)
    }

    fn nonce(&self) -> Nonce {
        let count = self.nonces.fetch_add(1, Ordering::Relaxed);
        let digest = Digest::of(&[&self.nonce_seed[..], &count.to_le_bytes()].concat());
        let mut nonce = [0; 16];
        nonce.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        Nonce(nonce)
    }
}

/// Unlocks the key of the person at the terminal; the first time, makes it. A process asks for the
/// passphrase once. Nothing when nobody is at a terminal.
pub(crate) async fn unlock(place: &Place) -> Result<Option<Arc<Unlocked>>> {
    static OPEN: Mutex<Option<Arc<Unlocked>>> = Mutex::new(None);
    let open = || OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !attended() {
        return Ok(None);
    }
    if let Some(unlocked) = open().clone() {
        return Ok(Some(unlocked));
    }
    let path = key_file(place)?;
    let Some(unlocked) = (match read(&path)? {
        Some(kept) => open_kept(&kept, &path).await?,
        None => make(&path, place.person.as_ref()).await?,
    }) else {
        return Ok(None);
    };
    let unlocked = Arc::new(unlocked);
    *open() = Some(Arc::clone(&unlocked));
    Ok(Some(unlocked))
}

/// The public key of the person of this account, where they have one. It needs no passphrase.
pub(crate) fn known_key(place: &Place) -> Result<Option<PersonKey>> {
    Ok(read(&key_file(place)?)?.map(|kept| kept.key))
}

/// The key of the person who starts something. Where a person is named they must have a key here: a
/// rule that excludes who started a session could be passed with any other name.
pub(crate) fn starter_key(place: &Place) -> Result<Option<PersonKey>> {
    let key = known_key(place)?;
    if let (Some(name), None) = (&place.person, key) {
        bail!("{name} has no key on this account; `toolgate people key` shows where one would be");
    }
    Ok(key)
}

/// Digest of the exact lines that a person was shown, as a statement names it.
pub(crate) fn digest_of(lines: &[String]) -> Digest {
    Digest::of(lines.join("\n").as_bytes())
}

/// The person who decides something here: unlocked, or nothing is decided.
pub(crate) async fn decider(place: &Place) -> Result<Decider> {
    let Some(unlocked) = unlock(place).await? else {
        attended().then_some(()).ok_or(Nobody)?;
        return Err(NotUnlocked(key_file(place)?).into());
    };
    Ok(Decider { who: Actor::human(&unlocked.name), unlocked })
}

/// A person who decides something, with their key.
pub(crate) struct Decider {
    pub(crate) who: Actor,
    unlocked: Arc<Unlocked>,
}

impl Decider {
    pub(crate) fn key(&self) -> PersonKey {
        self.unlocked.key()
    }

    /// The person as the author of a decision, after they were shown these lines.
    pub(crate) fn author(&self, shown: &[String]) -> Author<'_> {
        Author::person(&self.who, self.unlocked.as_ref()).after_seeing(digest_of(shown))
    }
}

/// Shows a card, asks for the word and signs what follows from it.
pub(crate) fn sign_card(
    project: &Place,
    card: &[String],
    word: &str,
    done: &str,
    event: impl Fn(&Project) -> Result<ProjectEvent>,
) -> Result<Exit> {
    block_on(async {
        let seen = person::paged(card).await;
        if seen.is_none() || !person::confirm(word, "do this").await? {
            console::say("Nothing was changed.");
            return Ok(Exit::Failed);
        }
        let decider = decider(project).await?;
        let opened = project.open()?;
        let decide = |fold: &Project| match event(fold) {
            Ok(event) => Ok((vec![event], ())),
            Err(error) => Err(NotDecided::Refused(error)),
        };
        match opened.runtime.decide(decider.author(card), decide).await {
            Ok(()) => {}
            Err(NotDecided::Refused(error)) => return Err(error),
            Err(NotDecided::Say(fault)) => return Err(fault.into()),
        }
        console::say(done);
        Ok(Exit::Done)
    })
}

/// Why nothing was decided.
enum NotDecided {
    /// It changed meanwhile.
    Refused(anyhow::Error),
    /// The log could not take it.
    Say(SayFault),
}

impl From<SayFault> for NotDecided {
    fn from(fault: SayFault) -> Self {
        Self::Say(fault)
    }
}

impl Kept {
    /// Whether a passphrase guards it.
    pub(crate) fn guarded(&self) -> bool {
        self.sealed.is_some()
    }
}

/// Where the key of the person here lies, or would.
pub(crate) fn key_file(place: &Place) -> Result<PathBuf> {
    let name = match &place.person {
        None => "person.key".to_owned(),
        Some(person) => format!("person-{person}.key"),
    };
    Ok(own_folder(&place.folder, "person's key")?.join(name))
}

/// The key as it lies there, when it does.
pub(crate) fn read(path: &Path) -> Result<Option<Kept>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("{} cannot be read", path.display()));
        }
    };
    check_mode(path)?;
    let kept: Kept = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no person's key", path.display()))?;
    ensure!(kept.version == 1, "{} was made by a newer toolgate", path.display());
    Ok(Some(kept))
}

async fn open_kept(kept: &Kept, path: &Path) -> Result<Option<Unlocked>> {
    let Some(sealed) = &kept.sealed else { return unlocked(kept, &kept.secret, path).map(Some) };
    for left in (0..TRIES).rev() {
        let Some(phrase) = person::secret("Your passphrase:").await else { return Ok(None) };
        if let Some(secret) = open_sealed(sealed, &kept.secret, &phrase)? {
            return unlocked(kept, &secret, path).map(Some);
        }
        let again = if left > 0 { " Try again." } else { "" };
        hint(&format!("That is not the passphrase.{again}"));
    }
    Err(NotUnlocked(path.to_owned()).into())
}

/// A key whose passphrase was not given.
#[derive(Debug)]
pub(crate) struct NotUnlocked(PathBuf);

impl std::error::Error for NotUnlocked {}

impl std::fmt::Display for NotUnlocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the passphrase of {} was not given, so nothing was done", self.0.display())
    }
}

fn unlocked(kept: &Kept, secret: &[u8], path: &Path) -> Result<Unlocked> {
    let damaged = || format!("{} is damaged", path.display());
    let pair = Ed25519KeyPair::from_seed_and_public_key(secret, &kept.key.0).ok();
    Unlocked::new(pair.with_context(damaged)?, kept.name.as_str().into())
}

/// Makes a key, with a passphrase if the person wants one.
async fn make(path: &Path, name: Option<&PersonName>) -> Result<Option<Unlocked>> {
    hint("What only a person may do is signed with a key of your own. It is made now:");
    hint(&format!("  {}", path.display()));
    let Some(phrase) = choose().await? else { return Ok(None) };
    let seed = Zeroizing::new(environment::random::<32>()?);
    let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).ok().context("no key can be made")?;
    let name: Arc<str> = match name {
        Some(name) => name.to_string().as_str().into(),
        None => person::user_name(),
    };
    let unlocked = Unlocked::new(pair, Arc::clone(&name))?;
    let (secret, sealed) = if phrase.is_empty() {
        hint("No passphrase: anyone with this user account can say that they are you.");
        (seed.to_vec(), None)
    } else {
        let (secret, sealed) = seal(&*seed, &phrase)?;
        (secret, Some(sealed))
    };
    let kept = Kept { version: 1, name: name.to_string(), key: unlocked.key(), secret, sealed };
    write(path, &kept)?;
    Ok(Some(unlocked))
}

/// A passphrase that was typed twice; blank for none.
async fn choose() -> Result<Option<Zeroizing<String>>> {
    for _ in 0..TRIES {
        let asked = "Choose a passphrase, or press Enter for none:";
        let Some(phrase) = person::secret(asked).await else { return Ok(None) };
        if phrase.is_empty() {
            return Ok(Some(phrase));
        }
        let Some(again) = person::secret("The same once more:").await else { return Ok(None) };
        if *phrase == *again {
            return Ok(Some(phrase));
        }
        hint("They differ.");
    }
    bail!("no passphrase was chosen, so no key was made")
}

fn sealing_key(sealed: &Sealed, phrase: &str) -> Result<LessSafeKey> {
    let bearable = sealed.argon2id_kib <= KIB_MAX && sealed.argon2id_passes <= PASSES_MAX;
    ensure!(bearable, "the person's key asks for more work than any that toolgate makes");
    let params = Params::new(sealed.argon2id_kib, sealed.argon2id_passes, 1, Some(32));
    let params = params.map_err(|_| anyhow::anyhow!("the person's key is damaged"))?;
    let mut key = Zeroizing::new([0; 32]);
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(phrase.as_bytes(), &sealed.salt, &mut *key)
        .map_err(|_| anyhow::anyhow!("the person's key is damaged"))?;
    let key = UnboundKey::new(&CHACHA20_POLY1305, &*key);
    Ok(LessSafeKey::new(key.ok().context("the key cannot be used")?))
}

fn seal(secret: &[u8], phrase: &str) -> Result<(Vec<u8>, Sealed)> {
    let sealed = Sealed {
        argon2id_kib: KIB,
        argon2id_passes: PASSES,
        salt: environment::random::<16>()?.to_vec(),
        nonce: environment::random::<12>()?.to_vec(),
    };
    let mut bytes = secret.to_vec();
    let nonce = aead::Nonce::try_assume_unique_for_key(&sealed.nonce).ok().context("no nonce")?;
    sealing_key(&sealed, phrase)?
        .seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes)
        .ok()
        .context("the key cannot be sealed")?;
    Ok((bytes, sealed))
}

/// The secret, when this is the passphrase.
fn open_sealed(sealed: &Sealed, secret: &[u8], phrase: &str) -> Result<Option<Zeroizing<Vec<u8>>>> {
    let nonce = aead::Nonce::try_assume_unique_for_key(&sealed.nonce).ok();
    let nonce = nonce.context("the person's key is damaged")?;
    let mut bytes = Zeroizing::new(secret.to_vec());
    let opened = sealing_key(sealed, phrase)?.open_in_place(nonce, Aad::empty(), &mut bytes);
    Ok(opened.ok().map(|secret| Zeroizing::new(secret.to_vec())))
}

/// Writes the key where there is none. Who is first wins.
fn write(path: &Path, kept: &Kept) -> Result<()> {
    let context = || format!("{} cannot be made", path.display());
    let folder = path.parent().with_context(context)?;
    std::fs::create_dir_all(folder).with_context(context)?;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(context)?;
    file.write_all(&Zeroizing::new(serde_json::to_vec_pretty(kept)?))?;
    file.sync_all()?;
    Ok(())
}

/// Bytes as hex.
mod hexed {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        out.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
        Option::<Vec<u8>>::ok_or(bytes, D::Error::custom("is no hex"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_key_opens_with_its_passphrase_and_with_no_other() {
        let (secret, sealed) = seal(&[7; 32], "storm lamp").unwrap();
        assert_ne!(secret[..32], [7; 32]);
        let open = |phrase| open_sealed(&sealed, &secret, phrase).unwrap();
        assert_eq!(open("storm lamp").as_deref(), Some(&vec![7; 32]));
        for other in ["", "storm lamp ", "Storm lamp"] {
            assert!(open(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_key_that_asks_for_too_much_work_is_refused() {
        let (secret, sealed) = seal(&[7; 32], "a").unwrap();
        let sealed = Sealed { argon2id_kib: u32::MAX, ..sealed };
        assert!(open_sealed(&sealed, &secret, "a").is_err());
    }
}

/// The name of a person whose key lies beside the one of the user of this account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PersonName(String);

impl std::fmt::Display for PersonName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for PersonName {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let label = Actor::try_from(format!("human:{text}"));
        match label {
            Ok(_) if !text.starts_with('.') => Ok(Self(text.to_owned())),
            _ => Err("a person's name has 1 to 32 of a-z, 0-9 and ._-".to_owned()),
        }
    }
}
