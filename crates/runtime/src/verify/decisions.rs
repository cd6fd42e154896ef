//! Whether every consequence rests on a decision that a person signed.

use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Event, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{LogRestore, Progress, Session};
use toolgate_kernel::names::{CallId, SessionId};

use super::{Check, SessionCheck, heard_hash};
use crate::authority::{InboxWord, Judge, Unfounded, check_word, out_of_order, statement_digest};
use crate::port::{Store, StoreFault};

/// A record of an inbox, for comparing with what its session heard.
pub(super) struct InboxRecord {
    pub(super) hash: Digest,
    /// Covers who said what, and who signed it.
    pub(super) said: Digest,
}

impl Check {
    /// Whether the record at hand counts, where it is one of an inbox or a person must have signed it.
    pub(super) async fn signed(
        &mut self,
        store: &dyn Store,
        stream: &StreamId,
        session: &mut SessionCheck,
    ) -> Result<(), StoreFault> {
        if let Some(record) = session.signed.take() {
            let end = store.project_end_at(stream, record.seq).await?;
            let seen = session.seen.map_or(0, |saw| saw.seq);
            let seq = seen.max(end.unwrap_or(0));
            let judge = Judge { log: self.log, project: &self.fold, seq };
            let found = judge.check(&record, stream).map(drop);
            let found = found.and_then(|()| self.stands_once(&record));
            self.decided(stream, record.seq, found);
        }
        let (StreamId::Inbox(id), Some(record)) = (stream, session.word.take()) else {
            return Ok(());
        };
        let end = store.project_end_at(stream, record.seq).await?;
        let found = check_word(self.log, &self.fold, &record, id, end);
        let signer = found.unwrap_or_default();
        let found = found.map(drop).and_then(|()| self.stands_once(&record));
        self.decided(stream, record.seq, found);
        if let Some(known) = self.inboxes.get_mut(id).and_then(|records| records.last_mut()) {
            let who = record.actor.clone();
            let word = InboxWord { record: *record, hash: known.hash, signer };
            known.said = heard_hash(&who, &word.heard());
        }
        Ok(())
    }

    /// A statement stands once in a log.
    fn stands_once<E>(&mut self, record: &Record<E>) -> Result<(), Unfounded> {
        match statement_digest(record) {
            Some(digest) if !self.statements.insert(digest) => Err(Unfounded::Used),
            _ => Ok(()),
        }
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

    /// Whether what a session heard is what stands in its inbox.
    pub(super) fn heard(&mut self, id: &SessionId, record: &Record<Event>) {
        let Event::Heard { inbox, hash, .. } = &record.event else { return };
        let at = usize::try_from(inbox.saturating_sub(1)).unwrap_or(usize::MAX);
        let known = self.inboxes.get(id).and_then(|records| records.get(at));
        let said = heard_hash(&record.actor, &record.event);
        if known.is_none_or(|one| (one.hash, one.said) != (*hash, said)) {
            let inbox_stream = StreamId::Inbox(id.clone());
            self.problem(&inbox_stream, *inbox, "the session heard another record here");
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
        if let Some(what) = out_of_order(record, fold) {
            self.problem(stream, record.seq, what);
        }
        let fold = session.fold.get_or_insert_with(|| Session::new(id.clone()));
        if let Event::CallAsked { call, .. } = &record.event {
            fold.apply(record);
            if hides_its_call(fold, *call) {
                let what = "a question shows other arguments than an answer to it is for";
                self.problem(stream, record.seq, what);
            }
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

/// Whether a person who is asked about a call would be shown other arguments than they answer about.
fn hides_its_call(session: &Session, call: CallId) -> bool {
    let Some(open) = session.open.get(&call) else { return false };
    let Progress::Asked(question) = &open.progress else { return false };
    question.shown_args(&open.raw).is_none()
}
