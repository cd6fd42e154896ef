//! Decides that a secret which a server was given does not come out of it again.

use std::sync::Arc;

use toolgate_kernel::hidden::Hidden;

use super::fault::{CallFault, ServerFault};
use super::oauth::Keeper;
use super::plan::Reach;

/// Shorter ones are words that anybody may say.
const SECRET_BYTES_MIN: usize = 8;
const COVERED: &str = "***";

/// The secrets of one server.
#[derive(Clone, Default)]
pub(super) struct Cover {
    fixed: Arc<[Hidden]>,
    /// Who has those of a login, which are renewed.
    keeper: Option<Arc<Keeper>>,
}

impl Cover {
    pub(super) fn of(reach: &Reach) -> Self {
        match reach {
            Reach::Stdio { env, .. } => Self::over(env.values()),
            Reach::Http { headers, bearer, keeper, .. } => {
                let whole = headers.iter().map(|(_, value)| value);
                // A server that repeats `Bearer abc` may well repeat `abc` alone.
                let named: Vec<Hidden> = whole.clone().filter_map(without_its_scheme).collect();
                let fixed = Self::over(whole.chain(bearer).chain(&named));
                Self { keeper: keeper.clone(), ..fixed }
            }
        }
    }

    pub(super) fn over<'a>(secrets: impl Iterator<Item = &'a Hidden>) -> Self {
        let secrets = secrets.filter(|secret| !secret.is_open()).filter(is_long);
        Self { fixed: secrets.cloned().collect(), keeper: None }
    }

    /// The text without them.
    pub(super) fn draw(&self, mut text: String) -> String {
        let renewed = self.keeper.as_ref().map(|keeper| keeper.known()).unwrap_or_default();
        for secret in self.fixed.iter().chain(renewed.iter().filter(is_long)) {
            if text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), COVERED);
            }
        }
        text
    }

    /// The same of what a server says when it refuses a call, or answers with no result.
    pub(super) fn draw_over(&self, fault: CallFault) -> CallFault {
        match fault {
            CallFault::Refused { code, message } => {
                CallFault::Refused { code, message: self.draw(message) }
            }
            CallFault::Misfit(what) => CallFault::Misfit(self.draw(what)),
            // Faults of a server are covered where it is connected to.
            CallFault::NotSent(_)
            | CallFault::Changed
            | CallFault::Lost(_)
            | CallFault::TimedOut { .. }
            | CallFault::TooLarge { .. }
            | CallFault::WantsInput(_) => fault,
        }
    }
}

impl Cover {
    /// The same of what a server says when it is connected to.
    pub(super) fn draw_over_server(&self, fault: ServerFault) -> ServerFault {
        if let ServerFault::Protocol(words) = fault {
            return ServerFault::Protocol(self.draw(words));
        }
        if let ServerFault::Misunderstood(words) = fault {
            return ServerFault::Misunderstood(self.draw(words));
        }
        fault
    }
}

fn is_long(secret: &&Hidden) -> bool {
    secret.reveal().len() >= SECRET_BYTES_MIN
}

/// What stands behind the scheme in a header, such as `Bearer`.
fn without_its_scheme(value: &Hidden) -> Option<Hidden> {
    let (_, rest) = value.reveal().split_once(' ').filter(|_| !value.is_open())?;
    Some(Hidden::new(rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_covered_and_nothing_else() {
        let secrets =
            [Hidden::new("s3cr3tVALUE99"), Hidden::open("/srv/books"), Hidden::new("yes")];
        let cover = Cover::over(secrets.iter());
        let said = "token s3cr3tVALUE99 in /srv/books, yes".to_owned();
        assert_eq!(cover.draw(said), "token *** in /srv/books, yes");
    }
}
