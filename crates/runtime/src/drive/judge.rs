//! Decides, with the kernel, which of a batch's calls are admitted, in call order.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, RawCall};
use toolgate_kernel::gate::{Judgement, Refusal, admit, over_limit, prepare};

use super::{DriveFault, Driver};
use crate::versions::{Lookup, unlooked};

impl Driver {
    /// Judges calls in order; each admission counts before the next call is judged.
    pub(super) async fn judge(&mut self, raws: &[Arc<RawCall>]) -> Result<(), DriveFault> {
        let project = self.runtime.catch_up().await?;
        let agent = Arc::clone(&self.crew.agent);
        for raw in raws {
            if let Some(refusal) = over_limit(&agent, &self.session, raw) {
                self.refuse(raw, &refusal)?;
                continue;
            }
            let Some(open) = self.session.open.get(&raw.id) else { continue };
            let call = match prepare(&agent, &self.session, &project.pins, open) {
                Ok(call) => call,
                Err(refusal) => {
                    self.refuse(raw, &refusal)?;
                    continue;
                }
            };
            let files = self.runtime.files.as_ref();
            let lookup = Lookup { agent: &agent, session: &self.session, project: &project, files };
            let judgement = match lookup.touched(call.keys()) {
                Ok(touched) => admit(&agent, &self.world(&project), call, touched),
                Err(fault) => Judgement::Refused(unlooked(&fault)),
            };
            if let Judgement::Refused(refusal) = judgement {
                self.refuse(raw, &refusal)?;
                continue;
            }
            self.note(&Actor::System, judgement.event(raw))?;
            if let Judgement::Admitted(admitted) = judgement {
                self.ready.push(admitted);
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&mut self, raw: &RawCall, refusal: &Refusal) -> Result<(), DriveFault> {
        let refusal = refusal.clone().of_tool(&self.crew.agent, raw);
        self.note(&Actor::System, Event::CallRefused(refusal.event(raw)))
    }
}
