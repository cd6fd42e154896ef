//! Decides whether a person's word is theirs: signed with a key that the project knows.

use ring::signature::{ED25519, UnparsedPublicKey};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signable, Signature, Signed, words};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{AuthorRefusal, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::Project;

/// A person's key while it is unlocked.
pub trait Signer: Send + Sync {
    /// The public half, by which the person is known.
    fn key(&self) -> PersonKey;

    /// Signs some words.
    fn sign(&self, words: &[u8]) -> Signature;
}

/// Who writes something down, and with which key, where they have one.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    /// Who.
    pub actor: &'a Actor,
    /// Their key.
    pub signer: Option<&'a dyn Signer>,
}

impl<'a> From<&'a Actor> for Author<'a> {
    fn from(actor: &'a Actor) -> Self {
        Self { actor, signer: None }
    }
}

/// Where a record stands, which is part of what is signed.
pub(crate) struct Spot<'a> {
    pub(crate) log: &'a Digest,
    pub(crate) stream: &'a StreamId,
    /// Chain hash of the record before.
    pub(crate) before: Digest,
}

/// Signs a record where its author has a key and it needs a signature.
pub(crate) fn sign<E: Signable>(
    spot: &Spot<'_>,
    record: &mut Record<E>,
    signer: Option<&dyn Signer>,
) -> Result<(), AuthorRefusal> {
    let Some(signer) = signer.filter(|_| record.event.needs_signature(&record.actor)) else {
        return Ok(());
    };
    let words = words(spot.log, spot.stream, spot.before, record)?;
    record.signed = Some(Box::new(Signed { by: signer.key(), signature: signer.sign(&words) }));
    Ok(())
}

/// Whether a record counts: it needs no signature, nobody's key is known yet, or one that is known
/// signed it.
pub(crate) fn counts<E: Signable>(spot: &Spot<'_>, project: &Project, record: &Record<E>) -> bool {
    if project.people.is_empty() || !record.event.needs_signature(&record.actor) {
        return true;
    }
    signed_by(spot, record).is_some_and(|key| project.people.contains(&key))
}

/// The same for a record of the project. The first key makes itself known.
pub(crate) fn project_counts(
    spot: &Spot<'_>,
    project: &Project,
    record: &Record<ProjectEvent>,
) -> bool {
    match &record.event {
        ProjectEvent::PersonEnrolled { key } if project.people.is_empty() => {
            signed_by(spot, record) == Some(*key)
        }
        ProjectEvent::PersonEnrolled { .. }
        | ProjectEvent::ProjectOpened {}
        | ProjectEvent::SessionOpened { .. }
        | ProjectEvent::ProjectConfigured { .. }
        | ProjectEvent::ProjectChanged { .. }
        | ProjectEvent::ToolPinned(_) => counts(spot, project, record),
    }
}

/// Whose signature is under a record, when it is a good one.
fn signed_by<E: Signable>(spot: &Spot<'_>, record: &Record<E>) -> Option<PersonKey> {
    let signed = record.signed.as_deref()?;
    let words = words(spot.log, spot.stream, spot.before, record).ok()?;
    let key = UnparsedPublicKey::new(&ED25519, signed.by.0);
    key.verify(&words, &signed.signature.0).ok()?;
    Some(signed.by)
}
