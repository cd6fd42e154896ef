//! Decides in which order admitted calls of a model run: leading reads together, the rest one by one.

use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{join_all, try_join};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::event::Event;
use toolgate_kernel::fold::{Counted, Project, World};
use toolgate_kernel::gate::{Admitted, Refusal, confirm, readmit};
use toolgate_kernel::names::CallId;
use toolgate_kernel::seeded::{Bug, seeded};
use toolgate_kernel::tool::Effect;

use super::settle::Ended;
use super::{DriveFault, Driver};
use crate::crash_point;
use crate::execute::{Cancel, Executed, cancelled, execute};
use crate::port::Tool;
use crate::transaction::{Ran, Reach, Transaction, idempotency_key};
use crate::versions::{Lookup, unlooked};

/// A call that was begun, with its handler.
pub(super) struct Begun {
    tx: Transaction,
    tool: Arc<dyn Tool>,
}

/// An admission that can begin, with its handler.
type Beginning = (Admitted, Arc<dyn Tool>);

impl Transaction {
    /// Begins a call: confirms it against the world of now and writes its intent where one is due.
    ///
    /// It consumes the admission, so a call cannot begin twice.
    pub async fn begin(
        driver: &mut Driver,
        admitted: Admitted,
    ) -> Result<Result<Self, Refusal>, DriveFault> {
        let (project, _) = driver.runtime.project();
        let (call, touched) = match driver.confirmed(admitted, &project) {
            Ok(admitted) => admitted.into_parts(),
            Err(refusal) => return Ok(Err(refusal)),
        };
        if call.spec().effect.needs_intent() && !seeded(Bug::NoIntent) {
            let key = idempotency_key(&driver.session, call.id());
            driver.note(&Actor::System, Event::CallStarted { call: call.id(), key })?;
            driver.flush().await?;
            crash_point!("after_intent");
        }
        let reach = driver.reach(call.id());
        Ok(Ok(Self::new(call, touched, Arc::clone(&driver.session), project, reach)))
    }
}

impl Driver {
    /// An admission that holds in the world of now.
    fn confirmed(&self, admitted: Admitted, project: &Project) -> Result<Admitted, Refusal> {
        // Only what this driver's log says was admitted may begin, whoever holds the admission.
        let logged = self.admitted(admitted.call().id());
        if logged.is_none_or(|logged| logged.args_hash != admitted.call().args_hash()) {
            return Err(Refusal::unreachable("the log has no such admission"));
        }
        let (agent, session) = (&self.crew.agent, &self.session);
        let lookup = Lookup { agent, session, project, files: self.runtime.files.as_ref() };
        let touched = lookup.touched(admitted.call().keys()).map_err(|fault| unlooked(&fault))?;
        let world = World { counted: Counted::Already, ..self.world(project) };
        confirm(agent, &world, admitted, touched)
    }

    /// Runs admitted calls in call order and settles each exactly once.
    pub(super) async fn run_calls(&mut self, ids: &[CallId]) -> Result<(), DriveFault> {
        let reads = ids.iter().take_while(|id| self.effect(**id) == Some(Effect::Read)).count();
        let (leading, rest) = ids.split_at_checked(reads).unwrap_or((ids, &[]));
        if !leading.is_empty() {
            self.run_together(leading).await?;
        }
        for id in rest {
            if let Some(begun) = self.begin(*id).await? {
                let (call_ms_max, cancel) = (self.call_ms_max(*id), self.cancel.clone());
                let running = pin!(perform(begun, call_ms_max, &cancel));
                let (ran, executed) = self.flush_beside(running).await?;
                crash_point!("after_effect");
                self.tick();
                self.settle(ran, executed).await?;
            }
        }
        Ok(())
    }

    async fn run_together(&mut self, ids: &[CallId]) -> Result<(), DriveFault> {
        let begun = self.begin_all(ids).await?;
        let cancel = self.cancel.clone();
        let running = begun.into_iter().map(|(one, ms_max)| perform(one, ms_max, &cancel));
        let ended = self.flush_beside(pin!(join_all(running))).await?;
        self.tick();
        for (ran, executed) in ended {
            self.settle(ran, executed).await?;
        }
        Ok(())
    }

    /// Makes everything in line durable while calls run. What may reach the world has its intent in
    /// the log by now; all others leave nothing behind before they are settled, so they need not wait
    /// for the disk. When the log cannot be written, they are dropped.
    ///
    /// It is written before they run, so that one that takes the process down leaves a trace. A log
    /// that goes down too keeps none: what ends at once is written there together with its settlement.
    async fn flush_beside<T>(
        &mut self,
        mut running: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, DriveFault> {
        if !self.runtime.store.outlasts_process()
            && let Some(ended) = running.as_mut().now_or_never()
        {
            return Ok(ended);
        }
        let mut flushing = pin!(self.flush());
        match flushing.as_mut().now_or_never() {
            Some(flushed) => flushed?,
            None => return Ok(try_join(flushing, running.map(Ok)).await?.1),
        }
        Ok(running.as_mut().await)
    }

    async fn begin_all(&mut self, ids: &[CallId]) -> Result<Vec<(Begun, u64)>, DriveFault> {
        let mut begun = Vec::with_capacity(ids.len());
        for id in ids {
            let one = self.begin(*id).await?;
            begun.extend(one.map(|one| (one, self.call_ms_max(*id))));
        }
        Ok(begun)
    }

    pub(super) fn effect(&self, id: CallId) -> Option<Effect> {
        self.admitted(id).map(|admitted| admitted.effect)
    }

    /// Begins a call, or settles it without running: refused by now, out of time, lost before.
    pub(super) async fn begin(&mut self, id: CallId) -> Result<Option<Begun>, DriveFault> {
        let Some((admitted, tool)) = self.beginning(id)? else { return Ok(None) };
        match Transaction::begin(self, admitted).await? {
            Ok(tx) => Ok(Some(Begun { tx, tool })),
            Err(refusal) => self.settle_refused(id, &refusal).map(|()| None),
        }
    }

    /// What can begin; or a call that is settled without running.
    fn beginning(&mut self, id: CallId) -> Result<Option<Beginning>, DriveFault> {
        let at = self.ready.iter().position(|admitted| admitted.call().id() == id);
        let admitted = match at.map(|at| self.ready.swap_remove(at)) {
            Some(admitted) => Ok(Some(admitted)),
            None => {
                let (project, _) = self.runtime.project();
                let world = World { counted: Counted::Already, ..self.world(&project) };
                readmit(&self.crew.agent, &world, id)
            }
        };
        let admitted = match admitted {
            Ok(Some(admitted)) => admitted,
            Ok(None) => return self.settle_unknown(id).map(|()| None),
            Err(refusal) => return self.settle_refused(id, &refusal).map(|()| None),
        };
        let is_taken_back = self.floor.as_mut().is_some_and(|floor| !floor.begins(id));
        let over = if is_taken_back { Some(cancelled()) } else { self.over(id) };
        if let Some(trouble) = over {
            return self.settle_failed(id, vec![trouble]).map(|()| None);
        }
        let name = &admitted.call().spec().name;
        let Some(tool) = self.crew.tools.get(name).cloned() else {
            let message = format!("Tool '{name}' is declared and cannot be run here.");
            let trouble = Trouble::new(Code::TOOL_HAS_NO_HANDLER, message);
            return self.settle_failed(id, vec![trouble]).map(|()| None);
        };
        Ok(Some((admitted, tool)))
    }

    /// The end, when it has come: nothing begins after a cancellation, and no call of the model
    /// after the run's own end. A caller
    /// without a model loop is no run; its session may be old.
    fn over(&self, id: CallId) -> Option<Trouble> {
        if self.cancel.is_cancelled() {
            return Some(cancelled());
        }
        self.session.open.get(&id)?.turn?;
        let limits = &self.crew.agent.limits;
        if self.session.driven_ms > limits.run_ms_max {
            let message = "The run's time is over. Nothing more is run.";
            return Some(Trouble::new(Code::RUN_DEADLINE_EXCEEDED, message));
        }
        let overspent = self.crew.agent.budget.allows(&self.session.spent).err()?;
        Some(Trouble::new(Code::BUDGET_EXCEEDED, format!("{overspent}. Nothing more is run.")))
    }

    /// What one call may take: its own limit, or what is left of the run.
    pub(super) fn call_ms_max(&self, id: CallId) -> u64 {
        let limits = &self.crew.agent.limits;
        if self.session.open.get(&id).is_none_or(|open| open.turn.is_none()) {
            return limits.call_ms_max;
        }
        let left_ms = limits.run_ms_max.saturating_sub(self.session.driven_ms);
        limits.call_ms_max.min(left_ms.max(1))
    }

    fn reach(&self, id: CallId) -> Reach {
        let deadline = self.now.plus_ms(self.call_ms_max(id));
        Reach { shared: Arc::clone(&self.shared), deadline }
    }

    /// The outcome of a call that may have reached the world before a crash.
    fn settle_unknown(&mut self, id: CallId) -> Result<(), DriveFault> {
        self.settle_ended(id, Ended::lost(Ended::failed(Vec::new())))
    }

    /// The outcome of a call that was open in the state that the log was restored to.
    pub(super) fn settle_lost_in_restore(&mut self, id: CallId) -> Result<(), DriveFault> {
        self.settle_ended(id, Ended::unknown(Refusal::lost_in_restore()))
    }

    pub(super) fn settle_failed(
        &mut self,
        id: CallId,
        errors: Vec<Trouble>,
    ) -> Result<(), DriveFault> {
        self.settle_ended(id, Ended::failed(errors))
    }

    /// A call that was admitted and is refused by now: it settles, with the refusal's words.
    fn settle_refused(&mut self, id: CallId, refusal: &Refusal) -> Result<(), DriveFault> {
        self.settle_ended(id, Ended::failed(refusal.errors.clone()))
    }
}

pub(super) async fn perform(
    begun: Begun,
    call_ms_max: u64,
    cancel: &Cancel,
) -> (Box<Ran>, Executed) {
    let Begun { mut tx, tool } = begun;
    let executed = execute(tool.as_ref(), &mut tx, call_ms_max, cancel).await;
    (tx.ran(), executed)
}
