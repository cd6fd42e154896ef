//! Follows calls of a session: received, admitted, settled, and what their ends leave.

use std::sync::Arc;

use super::{READS_MAX, Seen, Session};
use crate::actor::Actor;
use crate::envelope::{Code, Envelope};
use crate::event::{Attached, CallAdmitted, CallSettled, Outcome, RawCall};
use crate::fold::{OpenCall, Progress, Tally, Told};
use crate::key::{Access, Touched};
use crate::names::CallId;
use crate::time::Timestamp;

impl Session {
    pub(super) fn receive(&mut self, raw: Arc<RawCall>, actor: &Actor, turn: Option<u64>) {
        // A number stands for one call: what was decided about that one is not for another.
        if raw.id.0 < self.next_call {
            return;
        }
        self.next_call = raw.id.0.saturating_add(1);
        self.open.insert(OpenCall {
            actor: actor.clone(),
            shown_in: self.phase.clone().filter(|_| turn.is_none() || !self.toolless),
            turn,
            progress: Progress::Received,
            of: None,
            edited: false,
            raw,
        });
    }

    pub(super) fn progress(&mut self, call: CallId, step: impl FnOnce(Progress) -> Progress) {
        if let Some(open) = self.open.get_mut(&call) {
            let before = std::mem::replace(&mut open.progress, Progress::Received);
            open.progress = step(before);
        }
    }

    pub(super) fn admitted(&mut self, admitted: &Arc<CallAdmitted>, at: Timestamp) {
        let (turn, iteration) = (self.turn, self.iteration);
        if let Some(tally) = self.tallies.get_mut(&admitted.tool) {
            Arc::make_mut(tally).admit(turn, iteration, at);
        } else {
            let mut tally = Tally::default();
            tally.admit(turn, iteration, at);
            self.tallies.insert(admitted.tool.clone(), Arc::new(tally));
        }
        self.repeated = match self.repeated.take() {
            Some((tool, hash, times)) if tool == admitted.tool && hash == admitted.args_hash => {
                Some((tool, hash, times + 1))
            }
            _ => Some((admitted.tool.clone(), admitted.args_hash, 1)),
        };
        let admitted = self.resolved(Arc::clone(admitted), at);
        if let Some(open) = self.open.get(&admitted.call) {
            self.flow.admitted(&admitted, &open.raw);
        }
        self.progress(admitted.call, |_| Progress::Admitted(admitted));
    }

    pub(super) fn answered_client(&mut self, call: CallId, envelope: &Envelope, at: Timestamp) {
        if let Some(open) = self.open.get(&call) {
            self.client_bytes.add_answer(&open.actor, at, envelope);
        }
    }

    pub(super) fn settled(&mut self, settled: &CallSettled) {
        self.pay(&settled.spent.unwrap_or_default());
        let admitted = self.open.get(&settled.call).and_then(|open| open.progress.admitted());
        if let Some(admitted) = admitted {
            self.flow.settled(admitted, settled, self.seq);
        }
        if let (Some(request), Some(admitted)) = (&mut self.request, admitted)
            && request.is_required(&admitted.tool)
        {
            Arc::make_mut(request).used_required = true;
        }
        if settled.outcome == Outcome::Done {
            self.successes += 1;
            if let Some(tally) = admitted.and_then(|one| self.tallies.get_mut(&one.tool)) {
                Arc::make_mut(tally).succeeded += 1;
            }
            for touched in &settled.touched {
                // What was read and written in one call reached the model in its new form.
                let read =
                    |other: &&Touched| other.access == Access::Read && other.key == touched.key;
                let access = settled.touched.iter().find(read).map_or(touched.access, |t| t.access);
                let seen = Seen { version: touched.version, iteration: self.iteration, access };
                self.reads.insert(touched.key.clone(), seen);
            }
            // Forgetting a read can only make a policy stricter.
            while self.reads.len() > READS_MAX {
                self.reads = self.reads.without_min().1;
            }
        }
        self.change(&settled.changes);
        // Pictures stand beside the results in the next request.
        let images = settled.attached.iter().filter_map(Attached::image);
        self.feedback_images.extend(images.map(Arc::new));
        self.close(settled.call, || Told {
            envelope: Arc::clone(&settled.envelope),
            message_only: settled.message_only,
        });
    }

    /// Ends a call; the model is told of it when it was the model's.
    pub(super) fn close(&mut self, call: CallId, told: impl FnOnce() -> Told) {
        let Some(open) = self.open.remove(&call) else { return };
        let Some(turn) = open.turn else { return self.tell_of(&open, told) };
        let told = told();
        self.remember(&open.raw.name, &told);
        if let Some(lap) = &mut self.lap
            && told.envelope.code() != Some(&Code::CALLS_OVER_LIMIT)
        {
            lap.calls += 1;
        }
        let again = told.envelope.code() == Some(&Code::CALL_REPEATED);
        self.stuck = if again { self.stuck + 1 } else { 0 };
        if let Some(last) = self.turns.back_mut().filter(|last| last.number == turn) {
            Arc::make_mut(last).told.insert(call, Arc::new(told));
        }
    }
}
