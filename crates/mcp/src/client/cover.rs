//! Decides that a secret which a server was given does not come out of it again.

use std::sync::Arc;

use toolgate_kernel::hidden::Hidden;

use super::plan::Reach;

/// Shorter ones are words that anybody may say.
const SECRET_BYTES_MIN: usize = 8;
const COVERED: &str = "***";

/// The secrets of one server.
#[derive(Clone, Default)]
pub(super) struct Cover(Arc<[Hidden]>);

impl Cover {
    pub(super) fn of(reach: &Reach) -> Self {
        match reach {
            Reach::Stdio { env, .. } => Self::over(env.values()),
            Reach::Http { headers, bearer, .. } => {
                Self::over(headers.iter().map(|(_, value)| value).chain(bearer))
            }
        }
    }

    pub(super) fn over<'a>(secrets: impl Iterator<Item = &'a Hidden>) -> Self {
        let long = |secret: &&Hidden| secret.reveal().len() >= SECRET_BYTES_MIN;
        Self(secrets.filter(|secret| !secret.is_open()).filter(long).cloned().collect())
    }

    /// The text without them.
    pub(super) fn draw(&self, mut text: String) -> String {
        for secret in self.0.iter() {
            if text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), COVERED);
            }
        }
        text
    }
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
