//! Decides when a session works with other tools from outside than before.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Event;
use toolgate_kernel::names::PhaseName;

use super::{DriveFault, Driver};
use crate::execute::within;
use crate::port::{Supply, SupplyFault, Wanted};

/// What came of asking for tools from outside; nothing where there is no news.
pub(super) type SupplyOutcome = Result<Option<Supply>, SupplyFault>;

/// What is asked for.
enum Need {
    All,
    Calls(Vec<String>),
    Again(Vec<String>),
}

impl Driver {
    /// Asks for the tools from outside that the phase needs, and goes on with them. What came or
    /// went is in the log; what did not change is not said again.
    pub(super) async fn resupply(&mut self) -> Result<(), DriveFault> {
        let Some(phase) = &self.session.phase else { return Ok(()) };
        let Some(supplied) = self.supplied_in(phase, Need::All) else { return Ok(()) };
        let phase = phase.clone();
        let supplied = supplied.await;
        self.tick();
        self.take_supplied(phase, supplied)
    }

    /// Goes on with the tools from outside that phases ask for, for callers who saw them before they
    /// call. It waits for nobody. What a phase lacks is told when it is entered.
    pub async fn make_ready(&mut self, phases: &[PhaseName]) -> Result<(), DriveFault> {
        self.enter_open()?;
        self.tick();
        for phase in phases {
            let Some(supplier) = self.crew.supplier.clone() else { return Ok(()) };
            let agent = Arc::clone(&self.crew.agent);
            let supplied = pin!(supplier.supply(&agent, phase, Wanted::AtHand));
            let Some(supplied) = within(agent.limits.supply_ms_max, supplied).await else {
                continue;
            };
            match self.take_supplied(phase.clone(), supplied) {
                Ok(()) => {}
                Err(DriveFault::Supply(fault)) if self.session.phase.as_ref() == Some(phase) => {
                    self.note_lack(&fault)?;
                }
                Err(DriveFault::Supply(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        self.flush().await
    }

    /// Asks for what calls need in the phase, for whoever waits for it beside other things.
    pub(super) fn supplied_for(
        &self,
        calls: impl Iterator<Item = String>,
    ) -> Option<(PhaseName, BoxFuture<'static, SupplyOutcome>)> {
        self.crew.supplier.as_ref()?;
        let phase = self.session.phase.clone()?;
        let supplied = self.supplied_in(&phase, Need::Calls(calls.collect()))?;
        Some((phase, supplied))
    }

    /// The same for calls that have to be sent again.
    pub(super) fn supplied_again(
        &self,
        calls: Vec<String>,
    ) -> Option<(PhaseName, BoxFuture<'static, SupplyOutcome>)> {
        let phase = self.session.phase.clone()?;
        let supplied = self.supplied_in(&phase, Need::Again(calls))?;
        Some((phase, supplied))
    }

    /// Asks for what is needed in a phase.
    fn supplied_in(
        &self,
        phase: &PhaseName,
        need: Need,
    ) -> Option<BoxFuture<'static, SupplyOutcome>> {
        let supplier = self.crew.supplier.clone()?;
        let (agent, phase) = (Arc::clone(&self.crew.agent), phase.clone());
        let supply_ms_max = agent.limits.supply_ms_max;
        Some(Box::pin(async move {
            let wanted = match &need {
                Need::All => Wanted::All,
                Need::Calls(names) => Wanted::Calls(names),
                Need::Again(names) => Wanted::Again(names),
            };
            let supplied = pin!(supplier.supply(&agent, &phase, wanted));
            within(supply_ms_max, supplied).await.unwrap_or_else(|| {
                let reason =
                    format!("its tools from outside were not there within {supply_ms_max} ms");
                Err(SupplyFault::new(&phase, reason))
            })
        }))
    }

    /// Goes on with what came from outside.
    pub(super) fn take_supplied(
        &mut self,
        phase: PhaseName,
        supplied: SupplyOutcome,
    ) -> Result<(), DriveFault> {
        match supplied? {
            Some(supply) => self.take_supply(phase, supply),
            None => self.lacks_no_more(phase),
        }
    }

    fn take_supply(&mut self, phase: PhaseName, supply: Supply) -> Result<(), DriveFault> {
        let (tools, notes) = (supply.outside(), supply.notes.clone());
        let isolation = supply.isolation.clone();
        self.equip(supply);
        self.lack = None;
        let known = &self.session.supplied;
        if known.tools != tools || known.notes != notes || known.isolation != isolation {
            self.supplied = true;
            self.note(&Actor::System, Event::ToolsSupplied { phase, tools, notes, isolation })?;
        }
        Ok(())
    }

    /// Writes down, once, that the phase cannot begin; the console tells it from there.
    pub(super) fn note_lack(&mut self, fault: &SupplyFault) -> Result<(), DriveFault> {
        let lack = format!("{fault} (see `toolgate tools --connect`)");
        if self.lack.as_ref() == Some(&lack) {
            return Ok(());
        }
        let mut notes = self.notes_without_lack();
        notes.push(lack.clone());
        self.lack = Some(lack);
        let (phase, tools) = (fault.phase.clone(), self.session.supplied.tools.clone());
        let isolation = self.session.supplied.isolation.clone();
        self.note(&Actor::System, Event::ToolsSupplied { phase, tools, notes, isolation })
    }

    /// Nothing is missing any more, and all else is as it was.
    fn lacks_no_more(&mut self, phase: PhaseName) -> Result<(), DriveFault> {
        if self.lack.is_none() {
            return Ok(());
        }
        let (tools, notes) = (self.session.supplied.tools.clone(), self.notes_without_lack());
        let isolation = self.session.supplied.isolation.clone();
        self.lack = None;
        self.note(&Actor::System, Event::ToolsSupplied { phase, tools, notes, isolation })
    }

    fn notes_without_lack(&self) -> Vec<String> {
        let others = self.session.supplied.notes.iter();
        others.filter(|note| Some(*note) != self.lack.as_ref()).cloned().collect()
    }

    fn equip(&mut self, supply: Supply) {
        let Supply { agent, tools, .. } = supply;
        self.shared = Arc::new(self.shared.with_agent(Arc::clone(&agent)));
        (self.crew.agent, self.crew.tools) = (agent, tools);
    }
}
