//! Decides, with the kernel, which of a batch's calls are admitted, in call order.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, RawCall};
use toolgate_kernel::fold::Project;
use toolgate_kernel::gate::{Judgement, Refusal, admit, over_limit, prepare};

use super::{DriveFault, Driver};
use crate::versions::{Lookup, unlooked};

impl Driver {
    /// Judges calls in order; each admission counts before the next call is judged.
    pub(super) async fn judge(&mut self, raws: &[Arc<RawCall>]) -> Result<(), DriveFault> {
        let project = self.runtime.catch_up().await?;
        for raw in raws {
            match self.judged(raw, &project) {
                None => {}
                Some(Judgement::Refused(refusal)) => self.refuse(raw, &refusal)?,
                Some(judgement) => {
                    self.note(&Actor::System, judgement.event(raw))?;
                    if let Judgement::Admitted(admitted) = judgement {
                        self.ready.push(admitted);
                    }
                }
            }
        }
        Ok(())
    }

    /// The gate's word on a call that is open.
    fn judged(&self, raw: &RawCall, project: &Project) -> Option<Judgement> {
        let (agent, session) = (&self.crew.agent, &self.session);
        if let Some(refusal) = over_limit(agent, session, raw).or_else(|| self.over_quota(raw)) {
            return Some(Judgement::Refused(refusal));
        }
        let call = match prepare(agent, session, &project.pins, session.open.get(&raw.id)?) {
            Ok(call) => call,
            Err(refusal) => return Some(Judgement::Refused(refusal)),
        };
        let files = self.runtime.files.as_ref();
        let lookup = Lookup { agent, session, project, files };
        Some(match lookup.touched(call.keys()) {
            Ok(touched) => admit(agent, &self.world(project), call, touched),
            Err(fault) => Judgement::Refused(unlooked(&fault)),
        })
    }

    /// Why a call is not made because of what the log has already.
    fn over_quota(&self, raw: &RawCall) -> Option<Refusal> {
        let limits = &self.crew.agent.limits;
        let bytes = self.runtime.store.bytes();
        if bytes >= limits.log_bytes_max {
            return Some(Refusal::log_full(bytes, limits.log_bytes_max));
        }
        let actor = &self.session.open.get(&raw.id)?.actor;
        let today = self.session.client_bytes.on_day(actor, self.session.last_at);
        let quota = limits.client_bytes_per_day_max;
        (today > quota).then(|| Refusal::client_quota(quota))
    }

    pub(super) fn refuse(&mut self, raw: &RawCall, refusal: &Refusal) -> Result<(), DriveFault> {
        let refusal = refusal.clone().of_tool(&self.crew.agent, raw);
        self.note(&Actor::System, Event::CallRefused(refusal.event(raw)))
    }
}
