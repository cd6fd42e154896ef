//! Whether every consequence rests on a decision that a person signed.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Event, InboxEvent, ProjectEvent, Record, Saw, StreamId};
use toolgate_kernel::fold::{LogRestore, Progress, Session};
use toolgate_kernel::names::SessionId;

use super::{Check, SessionCheck, said_hash};
use crate::authority::{Judge, Unfounded};
use crate::port::{Store, StoreFault};

/// A record of an inbox, for comparing with what its session heard.
pub(super) struct InboxRecord {
    pub(super) hash: Digest,
    /// Covers who said what.
    pub(super) said: Digest,
    /// Where it is a person's decision. It is judged by what the session had seen when it was heard.
    pub(super) decision: Option<Box<Record<InboxEvent>>>,
}

impl Check {
    /// Where decisions are judged in a session that has seen the project up to a place.
    pub(super) fn judge(&self, seen: Option<Saw>) -> Judge<'_> {
        let seq = seen.map_or(0, |saw| saw.seq);
        Judge { log: self.log, project: &self.fold, seq }
    }

    pub(super) fn decided(&mut self, stream: &StreamId, seq: u64, found: Result<(), Unfounded>) {
        if let Err(unfounded) = found {
            self.problem(stream, seq, unfounded.as_str());
        }
    }

    /// Remembers the head that a person saw when they decided.
    pub(super) fn seals<E>(&mut self, stream: &StreamId, record: &Record<E>) {
        let head = record.decision.as_deref().and_then(|signed| signed.statement.head);
        if let Some(head) = head {
            self.sealed.push((stream.clone(), record.seq, head));
        }
    }

    /// Whether the log still is what people saw when they decided.
    pub(super) async fn sealed(&mut self, store: &dyn Store) -> Result<(), StoreFault> {
        for (stream, seq, head) in std::mem::take(&mut self.sealed) {
            match store.root_at(head.size).await {
                Ok(root) if root == Some(head.root) => {}
                Ok(_) if self.fold.restores.iter().any(|restore| restore.gives_up(&head)) => {}
                Ok(_) => {
                    self.problem(&stream, seq, "a person who decided this saw another history");
                }
                // What is wrong with the heads themselves is reported with them.
                Err(StoreFault::Damaged(_)) => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Whether the log goes on from where each restore says.
    pub(super) async fn restores(&mut self, store: &dyn Store) -> Result<(), StoreFault> {
        for restore in self.fold.restores.clone() {
            let LogRestore { seq, seen, now, .. } = restore;
            // One commit follows at least, which has the restore in it.
            let goes_on = match store.tree_head().await? {
                Some(head) => head.size > now.size,
                None => false,
            };
            if !goes_on || store.root_at(now.size).await? != Some(now.root) {
                let what = "the log was restored to another state than it goes on from here";
                self.problem(&StreamId::Project, seq, what);
            }
            if seen.size <= now.size || store.root_at(seen.size).await? == Some(seen.root) {
                let what = "the restore gives up a part of the log that was never lost";
                self.problem(&StreamId::Project, seq, what);
            }
        }
        Ok(())
    }

    /// Whether a session that goes on in a restored log said so before it let a call run.
    fn restored(&mut self, stream: &StreamId, record: &Record<Event>, session: &SessionCheck) {
        let seen = session.seen.map_or(0, |saw| saw.seq);
        let newest = self.fold.restores.iter().rfind(|restore| restore.seq <= seen);
        let knows = session.fold.as_ref().and_then(|fold| fold.restored);
        if newest.is_some_and(|newest| knows != Some(newest.named())) {
            let what = "a call was admitted on what counted before the log was restored";
            self.problem(stream, record.seq, what);
        }
    }

    /// Whether what was decided about a definition can follow what was known of it.
    pub(super) fn pin(&mut self, stream: &StreamId, record: &Record<ProjectEvent>) {
        if let ProjectEvent::ToolPinned(pinned) = &record.event
            && !self.fold.pins.can_follow(pinned)
        {
            let what = "a tool definition replaces the known one, and no person accepted it";
            self.problem(stream, record.seq, what);
        }
    }

    /// Whether what a session heard is what stands in its inbox, and counts.
    pub(super) fn heard(
        &mut self,
        id: &SessionId,
        record: &Record<Event>,
        session: &mut SessionCheck,
    ) {
        let Event::Heard { inbox, hash, said, statement, signer } = &record.event else { return };
        let inbox_stream = StreamId::Inbox(id.clone());
        let at = usize::try_from(inbox.saturating_sub(1)).unwrap_or(usize::MAX);
        let known = self.inboxes.get_mut(id).and_then(|records| records.get_mut(at));
        let digest = said_hash(&record.actor, said, *statement, *signer);
        let Some(known) = known.filter(|one| (one.hash, one.said) == (*hash, digest)) else {
            return self.problem(&inbox_stream, *inbox, "the session heard another record here");
        };
        let Some(decision) = known.decision.take() else { return };
        let is_used = |digest: &Digest| !session.statements.insert(*digest);
        let found = self.judge(session.seen).check_said(&decision, id, is_used);
        self.decided(&inbox_stream, *inbox, found);
    }

    /// Whether what no session has heard yet would count now.
    pub(super) fn unheard(&mut self) {
        let seq = self.fold.seq;
        for (id, records) in std::mem::take(&mut self.inboxes) {
            for record in records.into_iter().filter_map(|one| one.decision) {
                let judge = Judge { log: self.log, project: &self.fold, seq };
                let found = judge.check_said(&record, &id, |_| false);
                self.decided(&StreamId::Inbox(id.clone()), record.seq, found);
            }
        }
    }

    /// Whether what a call was admitted on is in the log before it.
    pub(super) fn authority(
        &mut self,
        stream: &StreamId,
        id: &SessionId,
        record: &Record<Event>,
        session: &mut SessionCheck,
    ) {
        let fold = session.fold.get_or_insert_with(|| Session::new(id.clone()));
        // What is missing before it is reported elsewhere.
        if record.seq != fold.seq.saturating_add(1) {
            return;
        }
        let progress = |fold: &Session, call| fold.open.get(call).map(|open| open.progress.clone());
        let Event::CallAdmitted(admitted) = &record.event else { return fold.apply(record) };
        self.restored(stream, record, session);
        let Some(fold) = session.fold.as_mut() else { return };
        let before = progress(fold, &admitted.call);
        let unanswered = matches!(before, Some(Progress::Asked(_)));
        let denied =
            matches!(&before, Some(Progress::Answered(said)) if said.answer == Answer::Deny);
        fold.apply(record);
        let resolved = match progress(fold, &admitted.call) {
            Some(Progress::Admitted(counted)) => counted.basis == admitted.basis,
            _ => true,
        };
        if !resolved {
            self.problem(
                stream,
                record.seq,
                "a call is said to rest on a person's decision, and no such decision covers it",
            );
        } else if denied {
            self.problem(stream, record.seq, "a call was admitted after a person denied it");
        } else if unanswered && admitted.basis.is_rules() {
            self.problem(
                stream,
                record.seq,
                "a call was admitted before its question was answered",
            );
        }
    }
}
