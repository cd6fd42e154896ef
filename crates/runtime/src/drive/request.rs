//! Opens requests of a session: what a caller asks for under options of its own.

use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::Event;
use toolgate_kernel::request::RequestOptions;

use super::{DriveFault, Driver};

impl Driver {
    /// Opens a request: from here on these options hold, until the next one is opened. They are in
    /// the log before anything is done under them.
    pub async fn open_request(
        &mut self,
        actor: &Actor,
        options: &RequestOptions,
    ) -> Result<(), DriveFault> {
        self.enter_open()?;
        let session = &self.session;
        let Some(phase) = session.phase.clone() else { return Err(DriveFault::Stopped) };
        options.check(&self.crew.agent, &phase, session.agent.as_ref())?;
        // Only what narrows nothing, after what narrowed nothing, is no news.
        if options.is_default() && session.request.is_none() {
            return Ok(());
        }
        self.tick();
        self.note(actor, Event::RequestOpened(Box::new(options.clone())))?;
        self.flush().await
    }
}
