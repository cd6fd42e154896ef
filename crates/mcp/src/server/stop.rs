//! Decides how long what was begun may take once a server is told to stop, or its client has left:
//! so long that it and the programs of other servers are gone five seconds later at the latest.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;

use super::served::Served;

/// How long calls at work may go on.
const GRACE: Duration = Duration::from_secs(1);

/// How long it may take to settle those that were cut off. Then the programs of other servers go, who
/// may take most of the time that is left.
const SETTLE: Duration = Duration::from_millis(500);

/// How long clients may take meanwhile to read their answers.
const READ: Duration = Duration::from_secs(3);

/// Waits for the rest of the work, also what nobody waits for any more, and cuts off what does not
/// end. Whether all of it came to its end.
pub(super) async fn ends(served: &dyn Served, rest: impl Future<Output = ()>) -> bool {
    let mut rest = std::pin::pin!(rest.fuse());
    let all = async {
        rest.as_mut().await;
        served.at_rest().await;
    };
    if tokio::time::timeout(GRACE, all).await.is_ok() {
        return true;
    }
    served.cut_off();
    let settling = async {
        // Whoever does not even hear this is left.
        drop(tokio::time::timeout(SETTLE, served.at_rest()).await);
        served.settled();
    };
    let read =
        async { rest.is_terminated() || tokio::time::timeout(READ, rest.as_mut()).await.is_ok() };
    tokio::join!(settling, read).1
}
