//! Decides whether a person's word is theirs: signed with a key that the project knows.

use ring::signature::{ED25519, UnparsedPublicKey};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signable, Signature, Signed, words};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    AuthorRefusal, Event, InboxEvent, ProjectEvent, Record, Said, Saw, StreamId,
};
use toolgate_kernel::fold::Project;
use toolgate_kernel::names::SessionId;

use crate::log::{ReadFault, Tip};
use crate::port::Store;

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
        | ProjectEvent::ProjectOpened { .. }
        | ProjectEvent::SessionOpened { .. }
        | ProjectEvent::ProjectConfigured { .. }
        | ProjectEvent::ProjectChanged { .. }
        | ProjectEvent::ToolPinned(_) => counts(spot, project, record),
    }
}

/// Whether what is said in a session, or to it, must be signed: the session saw that a person is
/// known here, or it was said since.
pub(crate) fn due<E>(project: &Project, seen: Option<Saw>, record: &Record<E>) -> bool {
    let Some(enrolled) = project.enrolled else { return !project.people.is_empty() };
    record.at >= enrolled.at || seen.is_some_and(|saw| saw.seq >= enrolled.seq)
}

/// Looks at a session while it is read: whether what people are said to have said is theirs.
pub(crate) struct Hearing<'a> {
    log: &'a Digest,
    project: &'a Project,
    stream: StreamId,
    seen: Option<Saw>,
    before: Digest,
    unvouched: Option<u64>,
    /// What was heard from the inbox and only a person may say, with the record that says so.
    heard: Vec<(u64, Word)>,
}

/// A person's word as a session heard it.
struct Word {
    who: Actor,
    inbox: u64,
    hash: Digest,
    said: Said,
}

impl<'a> Hearing<'a> {
    /// Begins where the session was read to so far.
    pub(crate) fn of(
        log: &'a Digest,
        project: &'a Project,
        session: &SessionId,
        (seen, before): (Option<Saw>, Digest),
    ) -> Self {
        let stream = StreamId::Session(session.clone());
        Self { log, project, stream, seen, before, unvouched: None, heard: Vec::new() }
    }

    /// Takes in the next record, which ends the chain with this hash.
    pub(crate) fn take(&mut self, record: &Record<Event>, hash: Digest) {
        self.seen = record.saw.or(self.seen);
        let before = std::mem::replace(&mut self.before, hash);
        if !due(self.project, self.seen, record) {
            return;
        }
        let spot = Spot { log: self.log, stream: &self.stream, before };
        if !counts(&spot, self.project, record) {
            self.unvouched = self.unvouched.or(Some(record.seq));
        }
        if let Event::Heard { inbox, hash, said } = &record.event
            && said.must_be_signed()
        {
            let word =
                Word { who: record.actor.clone(), inbox: *inbox, hash: *hash, said: said.clone() };
            self.heard.push((record.seq, word));
        }
    }

    /// Whether all of it counts. What was heard is looked up where it was said.
    pub(crate) async fn end(self, store: &dyn Store) -> Result<(), ReadFault> {
        let mut unvouched = self.unvouched;
        if let StreamId::Session(session) = &self.stream {
            let inbox = StreamId::Inbox(session.clone());
            for (seq, word) in &self.heard {
                if !self.was_said(store, &inbox, word).await? {
                    unvouched = Some(unvouched.map_or(*seq, |first| first.min(*seq)));
                }
            }
        }
        match unvouched {
            Some(seq) => Err(ReadFault::Unvouched { stream: self.stream, seq }),
            None => Ok(()),
        }
    }

    async fn was_said(
        &self,
        store: &dyn Store,
        inbox: &StreamId,
        word: &Word,
    ) -> Result<bool, ReadFault> {
        let before = word.inbox.saturating_sub(1);
        let rows = store.read(inbox, before.max(1), 2).await?;
        let hash = |seq| rows.iter().find(|row| row.seq == seq).map(|row| row.hash);
        let tip = match before {
            0 => Some(Digest::ZERO),
            seq => hash(seq),
        };
        let (Some(before_hash), Some(row)) = (tip, rows.iter().find(|row| row.seq == word.inbox))
        else {
            return Ok(false);
        };
        let follows = Tip { seq: before, hash: before_hash }.follow(row);
        let Ok(record) = Record::<InboxEvent>::decode(&row.bytes) else { return Ok(false) };
        let spot = Spot { log: self.log, stream: inbox, before: before_hash };
        let InboxEvent::Spoken { said } = &record.event;
        Ok(follows.is_some_and(|tip| tip.hash == word.hash)
            && *said == word.said
            && record.actor == word.who
            && counts(&spot, self.project, &record))
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
