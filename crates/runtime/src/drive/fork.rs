//! Decides how a fork begins: in one append, as any session does, with what another one knew.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, Forked};
use toolgate_kernel::names::SessionId;

use super::open::{First, declared};
use super::{Crew, Driver, OpenFault};
use crate::fork::Fork;
use crate::runtime::Runtime;

impl Driver {
    /// Begins a new session with what another one knew. That one is not touched: what counts of it
    /// is durable, and stays what it is.
    pub async fn fork(
        runtime: Arc<Runtime>,
        crew: Crew,
        id: SessionId,
        actor: &Actor,
        fork: Fork,
    ) -> Result<Self, OpenFault> {
        let Some(phase) = fork.carried.phase.clone() else { return Err(OpenFault::NoPhase) };
        if crew.agent.phase(&phase).is_none() {
            return Err(OpenFault::PhaseGone(phase));
        }
        declared(&crew, fork.carried.agent.as_ref())?;
        let Fork { from, carried, left, note, mut opened, .. } = fork;
        // Whatever the other session began with, it is this one's own.
        if let Event::Opened { session, starter, .. } = &mut opened {
            session.clone_from(&id);
            *starter = crew.starter;
        }
        let program = runtime.program.clone();
        let forked = Event::Forked(Box::new(Forked { from, program, carried, left, note }));
        let first = First { events: vec![opened, forked], blobs: Vec::new() };
        Self::open_first(runtime, crew, id, actor, phase, first).await
    }
}
