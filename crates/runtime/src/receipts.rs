//! Finds calls by their receipts: an index of one session, made from its log whenever it is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{CallAdmitted, Event, Outcome, RawCall, Record, StreamId};
use toolgate_kernel::names::{CallId, ToolName};
use toolgate_kernel::receipt::{Receipt, SettledCall};
use toolgate_kernel::time::Timestamp;

use crate::log::{ReadFault, Tip, read_signed};
use crate::port::{Row, Store};

/// A settled call, as its record has it.
#[derive(Debug, Clone)]
pub struct IndexedReceipt {
    /// The place of the record in the stream of its session.
    pub seq: u64,
    /// When it settled.
    pub at: Timestamp,
    /// Who made the call.
    pub actor: Actor,
    /// The call as it was written.
    pub call: Arc<RawCall>,
    /// The tool.
    pub tool: ToolName,
    /// How it ended.
    pub outcome: Outcome,
    /// What the caller was told.
    pub envelope: Arc<Envelope>,
    /// Whether its hash, computed again from the record and its place, is the receipt.
    pub recomputes: bool,
    /// Whether the record lies under the signed head of the log.
    pub under_head: bool,
}

/// The receipts of one session. It follows the log from where it was; nothing depends on it being
/// there.
#[derive(Debug, Default)]
pub struct ReceiptIndex {
    tip: Option<Tip>,
    received: BTreeMap<CallId, (Arc<RawCall>, Actor)>,
    admitted: BTreeMap<CallId, Arc<CallAdmitted>>,
    found: BTreeMap<Receipt, IndexedReceipt>,
}

impl ReceiptIndex {
    /// Takes in what was added to the log. Where that does not end under the signed head of the log,
    /// this fails, and what it read is known to lie under none.
    pub async fn catch_up(
        &mut self,
        store: &dyn Store,
        stream: &StreamId,
    ) -> Result<(), ReadFault> {
        let mut before = self.tip.unwrap_or(Tip::START);
        let from = before;
        let each = |record: Record<Event>, row: &Row| {
            self.take(record, before.hash);
            before = Tip { seq: row.seq, hash: row.hash };
        };
        let tip = read_signed(store, stream, from, each).await?;
        self.tip = Some(tip);
        let new = self.found.values_mut().filter(|found| found.seq > from.seq);
        new.for_each(|found| found.under_head = true);
        Ok(())
    }

    /// Whether there is no receipt in it.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The call that a receipt is of.
    pub fn get(&self, receipt: Receipt) -> Option<&IndexedReceipt> {
        self.found.get(&receipt)
    }

    fn take(&mut self, record: Record<Event>, link_before: Digest) {
        let Record { seq, at, actor, event, .. } = record;
        match event {
            Event::ModelReplied { calls, .. } => {
                for call in calls {
                    self.received.insert(call.id, (call, actor.clone()));
                }
            }
            Event::CallReceived { call, .. } => {
                self.received.insert(call.id, (call, actor));
            }
            Event::CallAdmitted(admitted) => {
                self.admitted.insert(admitted.call, admitted);
            }
            Event::CallSettled(settled) => {
                let admitted = self.admitted.remove(&settled.call);
                let received = self.received.remove(&settled.call);
                let envelope = settled.envelope;
                let (Some(receipt), Some(admitted), Some((call, actor))) =
                    (envelope.receipt, admitted, received)
                else {
                    return;
                };
                let (tool, args_hash) = (&admitted.tool, &admitted.args_hash);
                let covered = SettledCall {
                    link_before,
                    call: settled.call,
                    tool,
                    args_hash,
                    envelope: &envelope,
                };
                let recomputes = covered.receipt() == receipt;
                let (tool, outcome) = (tool.clone(), settled.outcome);
                let indexed = IndexedReceipt {
                    seq,
                    at,
                    actor,
                    call,
                    tool,
                    outcome,
                    envelope,
                    recomputes,
                    under_head: false,
                };
                self.found.insert(receipt, indexed);
            }
            // A refused call has no receipt.
            Event::CallRefused(refused) => {
                self.received.remove(&refused.call);
                self.admitted.remove(&refused.call);
            }
            Event::Opened { .. }
            | Event::Forked(_)
            | Event::ConfigBound { .. }
            | Event::IterationOpened { .. }
            | Event::IterationClosed(_)
            | Event::RequestOpened(_)
            | Event::PlanSent { .. }
            | Event::ModelFailed { .. }
            | Event::CallAsked { .. }
            | Event::CallStarted { .. }
            | Event::FileConflicted { .. }
            | Event::StateChanged { .. }
            | Event::Undone(_)
            | Event::PhaseEntered { .. }
            | Event::ToolsSupplied { .. }
            | Event::Heard { .. }
            | Event::Ended { .. } => {}
        }
    }
}
