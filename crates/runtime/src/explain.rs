//! Decides what would become of a call, without making it.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::event::RawCall;
use toolgate_kernel::fold::{Counted, OpenCall, Progress, Session, World};
use toolgate_kernel::gate::{Explanation, explain};
use toolgate_kernel::names::CallId;

use crate::log::ReadFault;
use crate::runtime::Runtime;
use crate::versions::{Lookup, unlooked};

impl Runtime {
    /// Tells what the gate would decide on a call of somebody in a session as it stands. Nothing
    /// is written and nothing runs.
    pub async fn explain(
        &self,
        agent: &Agent,
        session: &Session,
        actor: Actor,
        name: &str,
        args: &str,
    ) -> Result<Explanation, ReadFault> {
        let project = self.catch_up().await?;
        let id = CallId(session.next_call);
        let (name, args) = (name.to_owned(), args.to_owned());
        // A model calls in a turn of its own; only its calls are counted as repeated.
        let turn = matches!(actor, Actor::Model(_)).then_some(session.turn.saturating_add(1));
        let open = OpenCall {
            raw: Arc::new(RawCall { id, name, args, alias: None }),
            actor,
            shown_in: session.phase.clone(),
            turn,
            progress: Progress::Received,
            of: None,
            edited: false,
        };
        let (project, toolset, now) = (project.as_ref(), &agent.toolset, self.clock.now());
        let world = World { session, project, toolset, now, counted: Counted::NotYet };
        let lookup = Lookup { agent, session, project, files: self.files.as_ref() };
        let look_up = |keys: &[_]| lookup.touched(keys).map_err(|fault| unlooked(&fault));
        Ok(explain(agent, &world, &open, look_up))
    }
}
