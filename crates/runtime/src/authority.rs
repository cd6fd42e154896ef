//! Whether a person's decision counts: signed with an enrolled key, in its role, for this very record.

use std::sync::Arc;

use ring::signature::{ED25519, UnparsedPublicKey};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::approval::DecisionSigner;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::{
    Decided, DecisionKind, DecisionStatement, Nonce, Role, SignedDecision,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Decision, Event, InboxEvent, ProjectEvent, RawCall, Record, Said, Saw, StreamId,
};
use toolgate_kernel::fold::{DelegatedAnswer, EnrolledPerson, LogRestore, Project, Session};
use toolgate_kernel::names::SessionId;
use toolgate_kernel::seeded::{Bug, seeded};
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
    /// A decision stands beside a record that counts without one.
    NotNeeded,
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
    /// It is said to have been decided earlier or later than it was written.
    Misplaced,
    /// The role of a key changed too often.
    ChangedTooOften,
}

impl Unfounded {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unsigned => "a person's decision without their signature",
            Self::NotNeeded => "a person's decision beside a record that needs none",
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
            Self::Misplaced => {
                "a person's decision that says of another moment of the project that it was made then"
            }
            Self::ChangedTooOften => "a key whose role or scope changed more than 100 times",
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
        role: project
            .people
            .get(&by)
            .and_then(|person| person.role_at(project.seq))
            .unwrap_or(Role::Owner),
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

/// Where a person's decision is judged: in a log whose project is known, at one place of it. What people
/// might do is looked up there, whatever they may do now.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'a> {
    pub(crate) log: LogId,
    pub(crate) project: &'a Project,
    /// The place in the project stream at which keys must have been good.
    pub(crate) seq: u64,
}

impl Judge<'_> {
    /// Whether a record counts: it needs no decision and has none, or the one it carries is good. Tells
    /// who signed it.
    pub(crate) fn check<E: Decided>(
        &self,
        record: &Record<E>,
        stream: &StreamId,
    ) -> Result<Option<DecisionSigner>, Unfounded> {
        let signed = record.decision.as_deref();
        let Some(what) = record.event.decision(stream, &record.actor) else {
            // What stands there would be believed by whoever reads it, and nothing of it was checked.
            return if signed.is_none() { Ok(None) } else { Err(Unfounded::NotNeeded) };
        };
        let Some(SignedDecision { statement, signature }) = signed else {
            return Err(Unfounded::Unsigned);
        };
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
        let may = |person: &EnrolledPerson| {
            person.role_at(self.seq) == Some(statement.role) && person.may(&what, self.seq)
        };
        if !matches!(&what, DecisionKind::Bootstrap { .. }) && !person.is_some_and(may) {
            return Err(Unfounded::NotAllowed);
        }
        Ok(Some(DecisionSigner { key: statement.by, role: statement.role }))
    }
}

/// Whether the answer of a client's user rests on a delegation, and was counted there: each use covers
/// one question. Whether the delegation was open is judged where the use stands.
fn check_delegated(
    project: &Project,
    who: &Actor,
    session: &SessionId,
    given: &Decision,
) -> Result<(), Unfounded> {
    let Actor::ClientUser(client) = who else { return Ok(()) };
    let answer = DelegatedAnswer {
        session: session.clone(),
        call: given.call,
        tool: given.tool.clone(),
        question: given.shown,
    };
    let found = given.delegation.and_then(|seq| project.delegations.get(&seq));
    let covers = found.is_some_and(|found| {
        found.answered.contains(&answer)
            && found.terms.client == **client
            && found.terms.tools.iter().any(|pattern| pattern.fits(&given.tool))
            && given.allow.is_none()
    });
    if covers || seeded(Bug::ClientUserWithoutDelegation) {
        Ok(())
    } else {
        Err(Unfounded::NotDelegated)
    }
}

/// Whether what was said to a session counts, as things stood when it was said. Tells who signed it.
///
/// `project_end` is where the project ended when the record was written, where the store knows it.
pub(crate) fn check_word(
    log: LogId,
    project: &Project,
    record: &Record<InboxEvent>,
    session: &SessionId,
    project_end: Option<u64>,
) -> Result<Option<DecisionSigner>, Unfounded> {
    let InboxEvent::Spoken { said } = &record.event;
    if let Said::Answer(given) = said {
        check_delegated(project, &record.actor, session, given)?;
    }
    let seq = record.saw.map_or(0, |saw| saw.seq);
    let judge = Judge { log, project, seq };
    let signer = judge.check(record, &StreamId::Inbox(session.clone()))?;
    // A key that was revoked signs nothing into the time before.
    let is_there = project_end.is_none_or(|end| end == seq);
    if said.is_a_decision() && !is_there && !seeded(Bug::RevokedKeyCounts) {
        return Err(Unfounded::Misplaced);
    }
    Ok(signer)
}

/// The project stream's own records are judged by what stands before them.
pub(crate) fn check_project(
    log: LogId,
    project: &Project,
    record: &Record<ProjectEvent>,
) -> Result<(), Unfounded> {
    let judge = Judge { log, project, seq: project.seq };
    judge.check(record, &StreamId::Project)?;
    if statement_digest(record).is_some_and(|digest| project.statements.contains(&digest)) {
        return Err(Unfounded::Used);
    }
    if let ProjectEvent::PersonEnrolled { key, .. } = &record.event
        && project.people.get(key).is_some_and(EnrolledPerson::is_settled)
    {
        return Err(Unfounded::ChangedTooOften);
    }
    let ProjectEvent::DelegationUsed { delegation, tool, .. } = &record.event else {
        return Ok(());
    };
    // A date that is put back does not open a delegation again.
    let at = record.at.max(project.latest);
    let found = project.delegations.get(delegation);
    let covers = found.is_some_and(|found| found.covers(&found.terms.client, tool, at));
    if covers { Ok(()) } else { Err(Unfounded::NotDelegated) }
}

/// What of a session's record cannot follow what stands before it, in words: it saw less of the project,
/// hears a place of the inbox a second time, or gives a number to a second call.
pub(crate) fn out_of_order(record: &Record<Event>, before: &Session) -> Option<&'static str> {
    if goes_back(before.saw, record.saw) {
        return Some("the record saw less of the project than the ones before it");
    }
    if let Event::Heard { inbox, .. } = &record.event
        && *inbox != before.inbox.saturating_add(1)
    {
        return Some("what the session heard is not the next record of its inbox");
    }
    let mut calls = [].as_slice();
    if let Event::CallReceived { call, .. } = &record.event {
        calls = std::slice::from_ref(call);
    } else if let Event::ModelReplied { calls: made, .. } = &record.event {
        calls = made.as_slice();
    }
    let mut next = before.next_call;
    let is_used = |call: &Arc<RawCall>| {
        let is_used = call.id.0 < next;
        next = next.max(call.id.0.saturating_add(1));
        is_used
    };
    calls.iter().any(is_used).then_some("a call has the number of an earlier one")
}

/// A record of an inbox that counts, with what was found out about its signature.
pub struct InboxWord {
    /// The record.
    pub record: Record<InboxEvent>,
    /// Chain hash up to and with it.
    pub hash: Digest,
    /// Who signed it, where that was checked.
    pub(crate) signer: Option<DecisionSigner>,
}

impl InboxWord {
    /// What a session writes down when it hears it.
    pub fn heard(self) -> Event {
        // A signature that was not checked says nothing.
        let statement = self.signer.and_then(|_| statement_digest(&self.record));
        let InboxEvent::Spoken { said } = self.record.event;
        let (inbox, hash, signer) = (self.record.seq, self.hash, self.signer);
        Event::Heard { inbox, hash, said, statement, signer }
    }
}

/// Looks at a session while it is read: whether what people are said to have decided is theirs.
pub(crate) struct SessionAuthority<'a> {
    log: LogId,
    project: &'a Project,
    session: SessionId,
    stream: StreamId,
    seen: Option<Saw>,
    /// The first record that says it saw less of the project than one before it.
    backward: Option<u64>,
    /// The newest head that a decision seals, with its record.
    sealed: Option<SealedHead>,
    unfounded: Option<u64>,
    /// Records that people signed, with what the session had seen of the project by then.
    signed: Vec<(u64, Record<Event>)>,
    /// Records by which a decision was heard from the inbox.
    heard: Vec<Record<Event>>,
}

impl<'a> SessionAuthority<'a> {
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
            sealed: None,
            unfounded: None,
            signed: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// Takes in the next record of a session that was read up to there.
    pub(crate) fn take(&mut self, record: &Record<Event>, before: &Session) {
        if goes_back(before.saw, record.saw) {
            self.backward = self.backward.or(Some(record.seq));
        }
        self.seen = record.saw.or(self.seen);
        self.sealed = sealed_head(record).or(self.sealed);
        let used = statement_digest(record).is_some_and(|one| before.statements.contains(&one));
        if used || out_of_order(record, before).is_some() {
            self.is_unfounded(record.seq);
        }
        if is_signed(record, &self.stream) {
            let seen = record.saw.or(before.saw).map_or(0, |saw| saw.seq);
            self.signed.push((seen, record.clone()));
        }
        if let Event::Heard { said, .. } = &record.event
            && said.is_a_decision()
        {
            self.heard.push(record.clone());
        }
    }

    fn is_unfounded(&mut self, seq: u64) {
        self.unfounded = Some(self.unfounded.map_or(seq, |first| first.min(seq)));
    }

    /// Whether all of it counts. What was heard is looked up where it was said.
    pub(crate) async fn end(mut self, store: &dyn Store) -> Result<(), ReadFault> {
        check_seal(store, self.project, &self.stream, self.sealed).await?;
        self.compare_project(store).await?;
        for (seen, record) in std::mem::take(&mut self.signed) {
            let end = store.project_end_at(&self.stream, record.seq).await?;
            let judge = self.judge(seen, end);
            if judge.check(&record, &self.stream).is_err() {
                self.is_unfounded(record.seq);
            }
        }
        for record in std::mem::take(&mut self.heard) {
            if !self.was_said(store, &record).await? {
                self.is_unfounded(record.seq);
            }
        }
        match self.unfounded {
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

    fn judge(&self, seen: u64, project_end: Option<u64>) -> Judge<'_> {
        Judge { log: self.log, project: self.project, seq: seen.max(project_end.unwrap_or(0)) }
    }

    async fn was_said(&self, store: &dyn Store, record: &Record<Event>) -> Result<bool, ReadFault> {
        let Event::Heard { inbox: place, .. } = &record.event else { return Ok(false) };
        let inbox = StreamId::Inbox(self.session.clone());
        let before = place.saturating_sub(1);
        let rows = store.read(&inbox, before.max(1), 2).await?;
        let hash = |seq| rows.iter().find(|row| row.seq == seq).map(|row| row.hash);
        let tip = if before == 0 { Some(Digest::ZERO) } else { hash(before) };
        let (Some(hash), Some(row)) = (tip, rows.iter().find(|row| row.seq == *place)) else {
            return Ok(false);
        };
        if (Tip { seq: before, hash }).follow(row).is_none() {
            return Ok(false);
        }
        let Ok(said) = Record::<InboxEvent>::decode(&row.bytes) else { return Ok(false) };
        check_seal(store, self.project, &inbox, sealed_head(&said)).await?;
        let end = store.project_end_at(&inbox, *place).await?;
        let Ok(signer) = check_word(self.log, self.project, &said, &self.session, end) else {
            return Ok(false);
        };
        let who = said.actor.clone();
        let word = InboxWord { record: said, hash: row.hash, signer };
        Ok(who == record.actor && word.heard() == record.event)
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
fn goes_back(before: Option<Saw>, saw: Option<Saw>) -> bool {
    matches!((before, saw), (Some(before), Some(saw)) if saw.seq < before.seq)
}

/// Whether a record of a session counts only with a signature, or carries one.
pub(crate) fn is_signed(record: &Record<Event>, stream: &StreamId) -> bool {
    record.decision.is_some() || record.event.decision(stream, &record.actor).is_some()
}

/// Digest of the statement that a record carries.
pub(crate) fn statement_digest<E>(record: &Record<E>) -> Option<Digest> {
    record.decision.as_deref().map(|signed| signed.statement.digest())
}
