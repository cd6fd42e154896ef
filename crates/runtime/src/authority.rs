//! Whether a person's decision counts: signed with an enrolled key, in its role, for this very record.

use std::collections::BTreeSet;

use ring::signature::{ED25519, UnparsedPublicKey};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::approval::DecisionSigner;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::{
    Decided, DecisionKind, DecisionStatement, Nonce, Role, SignedDecision,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Decision, Event, InboxEvent, ProjectEvent, Record, Said, Saw, StreamId,
};
use toolgate_kernel::fold::{LogRestore, Project};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::{LogId, TreeHead};

use crate::log::{ReadFault, Tip};
use crate::port::Store;

/// Milliseconds for which a signed statement can be used.
const STATEMENT_MS_MAX: u64 = 3_600_000;

/// Milliseconds that the clocks of two machines may differ by.
const CLOCK_MS_MAX: u64 = 300_000;

/// A person's key while it is unlocked.
pub trait Signer: Send + Sync {
    /// The public half, by which the person is known.
    fn key(&self) -> PersonKey;

    /// Signs the bytes of a statement.
    fn sign(&self, bytes: &[u8]) -> Signature;

    /// Random bytes for a new statement.
    fn nonce(&self) -> Nonce;
}

/// Who writes something down, and with which key, where they have one.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    /// Who.
    pub actor: &'a Actor,
    /// Their key.
    pub signer: Option<&'a dyn Signer>,
    /// Digest of the exact lines that they were shown; zero where nothing was.
    pub shown: Digest,
    /// The head of the log that their decision seals.
    pub(crate) head: Option<TreeHead>,
}

impl<'a> From<&'a Actor> for Author<'a> {
    fn from(actor: &'a Actor) -> Self {
        Self { actor, signer: None, shown: Digest::ZERO, head: None }
    }
}

impl<'a> Author<'a> {
    /// A person with their key.
    pub fn person(actor: &'a Actor, signer: &'a dyn Signer) -> Self {
        Self { actor, signer: Some(signer), shown: Digest::ZERO, head: None }
    }

    /// The same after they were shown something.
    pub fn after_seeing(self, shown: Digest) -> Self {
        Self { shown, ..self }
    }
}

/// Why a decision does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfounded {
    /// Nothing is signed.
    Unsigned,
    /// The signature does not fit the statement.
    Forged,
    /// The statement is about something else.
    OtherMatter,
    /// The statement is for another log.
    OtherLog,
    /// The key was not enrolled, was revoked, or its role or scope does not allow this.
    NotAllowed,
    /// The statement was used before.
    Used,
    /// The statement was too old, or not signed yet.
    Expired,
    /// What it allows for later lasts too long, or is for too many uses.
    Unbounded,
    /// A client's user answered without a delegation that covers it.
    NotDelegated,
    /// It was signed in a part of the log that an owner gave up.
    GivenUp,
}

impl Unfounded {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "a person's decision without their signature",
            Self::Forged => "a person's decision whose signature does not fit",
            Self::OtherMatter => "a person's decision that was signed for something else",
            Self::OtherLog => "a person's decision that was signed for another log",
            Self::NotAllowed => {
                "a decision signed with a key that was not enrolled, was revoked, or may not decide \
                 this"
            }
            Self::Used => "a person's decision that was used before",
            Self::Expired => "a person's decision that was too old, or signed later",
            Self::Unbounded => {
                "a person's decision that allows more than 30 days or 1,000 uses at once"
            }
            Self::NotDelegated => "an answer of a client's user that no delegation covers",
            Self::GivenUp => {
                "a person's decision from a part of the log that was given up when it was restored"
            }
        }
    }
}

/// Signs a record where it counts only with a decision and its author has a key.
pub(crate) fn sign<E: Decided>(
    record: &mut Record<E>,
    stream: &StreamId,
    author: Author<'_>,
    project: &Project,
    log: LogId,
) {
    let (Some(signer), Some(what)) = (author.signer, record.event.decision(stream, author.actor))
    else {
        return;
    };
    let by = signer.key();
    let what = founding(project, what, by);
    let statement = DecisionStatement {
        log,
        head: author.head,
        by,
        role: project.people.get(&by).map_or(Role::Owner, |person| person.role),
        at: record.at,
        expires: record.at.plus_ms(STATEMENT_MS_MAX),
        nonce: signer.nonce(),
        shown: author.shown,
        what,
    };
    let signature = signer.sign(&statement.signed_bytes());
    record.decision = Some(Box::new(SignedDecision { statement, signature }));
}

/// The first enrolment of a log is one by which a person makes their own key known.
fn founding(project: &Project, what: DecisionKind, by: PersonKey) -> DecisionKind {
    let DecisionKind::Enrol { key, name, .. } = &what else { return what };
    if !project.people.is_empty() || *key != by {
        return what;
    }
    DecisionKind::Bootstrap { key: *key, name: name.clone() }
}

/// Where people's decisions are judged: the project as it is known, and up to which place of it.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) log: LogId,
    pub(crate) project: &'a Project,
    /// The place in the project stream at which keys must have been good.
    pub(crate) seq: u64,
}

impl Judge<'_> {
    /// Whether a record counts: it needs no decision, or the one it carries is good.
    pub(crate) fn check<E: Decided>(
        &self,
        record: &Record<E>,
        stream: &StreamId,
        is_used: impl FnOnce(&Digest) -> bool,
    ) -> Result<(), Unfounded> {
        let Some(what) = record.event.decision(stream, &record.actor) else { return Ok(()) };
        let Some(signed) = record.decision.as_deref() else { return Err(Unfounded::Unsigned) };
        let SignedDecision { statement, signature } = signed;
        let what = founding(self.project, what, statement.by);
        if statement.log != self.log {
            return Err(Unfounded::OtherLog);
        }
        if statement.what != what {
            return Err(Unfounded::OtherMatter);
        }
        let key = UnparsedPublicKey::new(&ED25519, statement.by.0);
        let fits = key.verify(&statement.signed_bytes(), &signature.0).is_ok();
        if !fits && !seeded(Bug::SignatureSkipped) {
            return Err(Unfounded::Forged);
        }
        let in_time = record.at <= statement.expires
            && statement.at <= record.at.plus_ms(CLOCK_MS_MAX)
            && statement.expires <= statement.at.plus_ms(STATEMENT_MS_MAX);
        if !in_time {
            return Err(Unfounded::Expired);
        }
        if !what.is_bounded(statement.at) {
            return Err(Unfounded::Unbounded);
        }
        // What was decided in a part that is lost could allow something a second time.
        let given_up = |restore: &LogRestore| restore.precedes(statement);
        if !what.only_restricts() && self.project.restores.iter().any(given_up) {
            return Err(Unfounded::GivenUp);
        }
        // The first key makes itself known, and nothing else counts before it.
        let person = self.project.people.get(&statement.by);
        let may = matches!(&what, DecisionKind::Bootstrap { .. })
            || person.is_some_and(|one| one.role == statement.role && one.may(&what, self.seq));
        if !may {
            return Err(Unfounded::NotAllowed);
        }
        if is_used(&statement.digest()) { Err(Unfounded::Used) } else { Ok(()) }
    }

    /// Whether the answer of a client's user rests on a delegation, and was counted there.
    pub(crate) fn delegated(
        &self,
        who: &Actor,
        session: &SessionId,
        given: &Decision,
        at: Timestamp,
    ) -> Result<(), Unfounded> {
        let Actor::ClientUser(client) = who else { return Ok(()) };
        let found = given.delegation.and_then(|seq| self.project.delegations.get(&seq));
        let covers = found.is_some_and(|found| {
            found.answered.contains(&(session.clone(), given.call))
                && found.terms.client == **client
                && found.terms.tools.iter().any(|pattern| pattern.fits(&given.tool))
                && at <= found.terms.until
                && given.allow.is_none()
        });
        if covers || seeded(Bug::ClientUserWithoutDelegation) {
            Ok(())
        } else {
            Err(Unfounded::NotDelegated)
        }
    }

    /// Whether what was said to a session counts.
    pub(crate) fn check_said(
        &self,
        record: &Record<InboxEvent>,
        session: &SessionId,
        is_used: impl FnOnce(&Digest) -> bool,
    ) -> Result<(), Unfounded> {
        let InboxEvent::Spoken { said } = &record.event;
        if let Said::Answer(given) = said {
            self.delegated(&record.actor, session, given, record.at)?;
        }
        self.check(record, &StreamId::Inbox(session.clone()), is_used)
    }
}

/// The project stream's own records are judged by what stands before them.
pub(crate) fn check_project(
    log: LogId,
    project: &Project,
    record: &Record<ProjectEvent>,
) -> Result<(), Unfounded> {
    let judge = Judge { log, project, seq: project.seq };
    judge.check(record, &StreamId::Project, |digest| project.statements.contains(digest))?;
    let ProjectEvent::DelegationUsed { delegation, tool, .. } = &record.event else {
        return Ok(());
    };
    let found = project.delegations.get(delegation);
    let covers = found.is_some_and(|found| found.covers(&found.terms.client, tool, record.at));
    if covers { Ok(()) } else { Err(Unfounded::NotDelegated) }
}

/// Looks at a session while it is read: whether what people are said to have decided is theirs.
pub(crate) struct Hearing<'a> {
    log: LogId,
    project: &'a Project,
    session: SessionId,
    stream: StreamId,
    seen: Option<Saw>,
    /// The first record that says it saw less of the project than one before it.
    backward: Option<u64>,
    unfounded: Option<u64>,
    statements: BTreeSet<Digest>,
    /// The newest head that a decision seals, with its record.
    sealed: Option<SealedHead>,
    /// What was heard from the inbox and only a person may say, with the record that says so.
    heard: Vec<HeardWord>,
}

/// A person's word as a session heard it.
struct HeardWord {
    seq: u64,
    /// What the session had seen of the project by then.
    seen: u64,
    who: Actor,
    inbox: u64,
    hash: Digest,
    said: Said,
    statement: Option<Digest>,
    signer: Option<DecisionSigner>,
}

impl<'a> Hearing<'a> {
    /// Begins where the session was read to so far.
    pub(crate) fn of(
        log: LogId,
        project: &'a Project,
        session: &SessionId,
        seen: Option<Saw>,
    ) -> Self {
        Self {
            log,
            project,
            session: session.clone(),
            stream: StreamId::Session(session.clone()),
            seen,
            backward: None,
            unfounded: None,
            statements: BTreeSet::new(),
            sealed: None,
            heard: Vec::new(),
        }
    }

    /// Takes in the next record.
    pub(crate) fn take(&mut self, record: &Record<Event>) {
        if goes_back(self.seen, record.saw) {
            self.backward = self.backward.or(Some(record.seq));
        }
        self.seen = record.saw.or(self.seen);
        self.sealed = sealed_head(record).or(self.sealed);
        let seen = self.seen.map_or(0, |saw| saw.seq);
        let judge = Judge { log: self.log, project: self.project, seq: seen };
        let is_used = |digest: &Digest| !self.statements.insert(*digest);
        if judge.check(record, &self.stream, is_used).is_err() {
            self.unfounded = self.unfounded.or(Some(record.seq));
        }
        if let Event::Heard { inbox, hash, said, statement, signer } = &record.event
            && said.is_a_decision()
        {
            self.heard.push(HeardWord {
                seq: record.seq,
                seen,
                who: record.actor.clone(),
                inbox: *inbox,
                hash: *hash,
                said: said.clone(),
                statement: *statement,
                signer: *signer,
            });
        }
    }

    /// Whether all of it counts. What was heard is looked up where it was said.
    pub(crate) async fn end(self, store: &dyn Store) -> Result<(), ReadFault> {
        check_seal(store, self.project, &self.stream, self.sealed).await?;
        self.compare_project(store).await?;
        let mut unfounded = self.unfounded;
        for word in &self.heard {
            if !self.was_said(store, word).await? {
                unfounded = Some(unfounded.map_or(word.seq, |first| first.min(word.seq)));
            }
        }
        match unfounded {
            Some(seq) => Err(ReadFault::Unfounded { stream: self.stream, seq }),
            None => Ok(()),
        }
    }

    /// Whether the project is the one that the session saw. Each of its records covers all before it, so
    /// the newest one that was seen is enough.
    async fn compare_project(&self, store: &dyn Store) -> Result<(), ReadFault> {
        let other = |seq| Err(ReadFault::OtherProject { stream: self.stream.clone(), seq });
        if seeded(Bug::SawNotCompared) {
            return Ok(());
        }
        if let Some(seq) = self.backward {
            return other(seq);
        }
        let Some(saw) = self.seen else { return Ok(()) };
        let rows = store.read(&StreamId::Project, saw.seq, 1).await?;
        match rows.first().is_some_and(|row| row.seq == saw.seq && row.hash == saw.hash) {
            true => Ok(()),
            false => other(saw.seq),
        }
    }

    async fn was_said(&self, store: &dyn Store, word: &HeardWord) -> Result<bool, ReadFault> {
        let inbox = StreamId::Inbox(self.session.clone());
        let before = word.inbox.saturating_sub(1);
        let rows = store.read(&inbox, before.max(1), 2).await?;
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
        check_seal(store, self.project, &inbox, sealed_head(&record)).await?;
        let judge = Judge { log: self.log, project: self.project, seq: word.seen };
        let InboxEvent::Spoken { said } = &record.event;
        Ok(follows.is_some_and(|tip| tip.hash == word.hash)
            && *said == word.said
            && record.actor == word.who
            && statement_digest(&record) == word.statement
            && signer_of(&record) == word.signer
            && judge.check_said(&record, &self.session, |_| false).is_ok())
    }
}

/// The head of the log that a person's decision seals, with the number of its record.
pub(crate) type SealedHead = (u64, TreeHead);

/// The head that a record's decision seals.
pub(crate) fn sealed_head<E>(record: &Record<E>) -> Option<SealedHead> {
    let head = record.decision.as_deref()?.statement.head?;
    Some((record.seq, head))
}

/// Refuses a log that is not what the person of its newest decision saw. One that was written anew with
/// the host key lacks the history which that decision seals. What an owner gave up for a restored
/// backup is not missed.
pub(crate) async fn check_seal(
    store: &dyn Store,
    project: &Project,
    stream: &StreamId,
    sealed: Option<SealedHead>,
) -> Result<(), ReadFault> {
    let Some((seq, head)) = sealed else { return Ok(()) };
    match store.root_at(head.size).await? {
        Some(root) if root == head.root => Ok(()),
        _ if project.restores.iter().any(|restore| restore.gives_up(&head)) => Ok(()),
        _ => Err(ReadFault::OtherHistory { stream: stream.clone(), seq }),
    }
}

/// Whether a record says that it saw less of the project than one before it. Keys that were revoked
/// would count again.
pub(crate) fn goes_back(before: Option<Saw>, saw: Option<Saw>) -> bool {
    matches!((before, saw), (Some(before), Some(saw)) if saw.seq < before.seq)
}

/// Who signed the statement that a record carries.
pub(crate) fn signer_of<E>(record: &Record<E>) -> Option<DecisionSigner> {
    let DecisionStatement { by, role, .. } = &record.decision.as_deref()?.statement;
    Some(DecisionSigner { key: *by, role: *role })
}

/// Digest of the statement that a record carries.
pub(crate) fn statement_digest<E>(record: &Record<E>) -> Option<Digest> {
    record.decision.as_deref().map(|signed| signed.statement.digest())
}
