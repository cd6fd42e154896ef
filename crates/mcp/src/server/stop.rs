//! Decides how long what was begun may take once a server is told to stop, or its client has left:
//! so long that the programs of other servers are gone five seconds later at the latest.

use std::time::Duration;

use super::served::Served;

/// How long calls at work may go on, and so may a write that was begun.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How long the answers to those that were cut off may take.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Waits for the rest of the work, also what nobody waits for any more, and cuts off what does not
/// end.
pub(super) async fn ends(served: &dyn Served, rest: impl Future<Output = ()>) {
    ends_within(GRACE, served, rest).await;
}

/// The same, where so much is left of the time that calls at work may have.
pub(super) async fn ends_within(
    grace: Duration,
    served: &dyn Served,
    rest: impl Future<Output = ()>,
) {
    let mut rest = std::pin::pin!(async {
        rest.await;
        served.at_rest().await;
    });
    if tokio::time::timeout(grace, rest.as_mut()).await.is_err() {
        served.cut_off();
        // Whoever does not even hear this is left.
        drop(tokio::time::timeout(LAST_WORDS, rest).await);
    }
}
