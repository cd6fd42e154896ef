//! The calls of this session that settled last, with their receipts.
//!
//! The session keeps the calls of its open iteration; what came before is in the log. A host that
//! reads the log hands in a [`ReceiptHistory`], which then takes precedence.

use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::fold::Told;
use toolgate_kernel::names::SessionId;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::Transaction;

/// A call that settled, with its receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentReceipt {
    /// The agent that made it, where the session speaks as one.
    pub agent: Option<String>,
    /// When it settled, where that is known.
    pub at: Option<Timestamp>,
    /// What the caller was told, with tool, receipt and sources.
    pub envelope: Arc<Envelope>,
}

/// Reads the last calls of a session from the log, newest first, at most as many as asked for.
type ReadHistory = dyn Fn(&SessionId, usize) -> Vec<RecentReceipt> + Send + Sync;

/// The settled calls of a session as the log has them. A host hands it in as a resource.
pub struct ReceiptHistory(Box<ReadHistory>);

impl ReceiptHistory {
    /// A history that is read in this way.
    pub fn new(
        read: impl Fn(&SessionId, usize) -> Vec<RecentReceipt> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(read))
    }
}

/// What of the session the receipts are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiptScope {
    /// The whole session.
    Session,
    /// The calls of the model in the open iteration.
    Iteration,
}

impl ReceiptScope {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Iteration => "iteration",
        }
    }
}

/// The last calls of this session that have a receipt, newest first.
pub(super) fn recent(tx: &Transaction, max: usize) -> (ReceiptScope, Vec<RecentReceipt>) {
    let session = tx.session();
    if let Some(history) = tx.resource::<ReceiptHistory>() {
        let mut receipts = (history.0)(&session.id, max);
        receipts.truncate(max);
        return (ReceiptScope::Session, receipts);
    }
    let agent = session.agent.as_ref().map(ToString::to_string);
    let told = session.turns.iter().rev().flat_map(|turn| {
        // The result of a call stands under its id; the calls are in their order.
        turn.calls.iter().rev().filter_map(|call| turn.told.get(&call.id))
    });
    let settled = told.filter(|told| told.envelope.receipt.is_some()).take(max);
    let receipt = |told: &Arc<Told>| RecentReceipt {
        agent: agent.clone(),
        at: None,
        envelope: Arc::clone(&told.envelope),
    };
    (ReceiptScope::Iteration, settled.map(receipt).collect())
}

/// The refs of the sources that an answer was made from.
pub(super) fn sources(envelope: &Envelope) -> Vec<String> {
    let listed = envelope.data.get("sources").and_then(Value::as_array);
    let refs = listed.into_iter().flatten().filter_map(|source| source.get("source")?.as_str());
    refs.map(str::to_owned).collect()
}
