//! Decides how the program is told to stop: by Ctrl-C, by a TERM signal, or by a terminal that goes.

use anyhow::Result;

use crate::exit::Exit;

/// Hears when the program is told to stop, from the moment it is made.
pub(crate) struct Stop {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
}

impl Stop {
    /// Begins to listen.
    pub(crate) fn listen() -> Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
            #[cfg(unix)]
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until it is told, and says with which exit code to go.
    pub(crate) async fn heard(&mut self) -> Exit {
        #[cfg(unix)]
        tokio::select! {
            _ = self.terminate.recv() => return Exit::Done,
            // The terminal is gone.
            _ = self.hang_up.recv() => return Exit::Done,
            _ = self.interrupt.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            // Nothing can be heard here; the run goes on.
            std::future::pending::<()>().await;
        }
        Exit::Interrupted
    }
}
