//! Decides how a model is asked once, outside every session: with a deadline, and never for calls.

use std::pin::pin;

use toolgate_kernel::event::{FaultKind, Finish};
use toolgate_kernel::plan::Plan;

use crate::execute::within;
use crate::port::{Desk, Provider, ProviderFault, Reply};

/// One reply to one request. It is whole and in words, or it is a fault.
pub async fn ask_once(
    provider: &dyn Provider,
    plan: &Plan,
    ms_max: u64,
) -> Result<Reply, ProviderFault> {
    let mut desk = Desk::default();
    let asked = within(ms_max, pin!(provider.reply(plan, &mut desk, &|_| {}))).await;
    let reply = asked.unwrap_or_else(|| {
        let reason = format!("no answer within {ms_max} ms");
        Err(ProviderFault::new(FaultKind::TimedOut, reason))
    })?;
    match (reply.finish, reply.calls.is_empty()) {
        (Finish::Stop, true) => Ok(reply),
        (Finish::Stop | Finish::Calls, _) => {
            let reason = "it wants calls made, and none was offered";
            Err(ProviderFault::of_reply(FaultKind::Unusable, reason, reply))
        }
        (Finish::Length | Finish::Paused, _) => {
            let reason = "its answer is not whole";
            Err(ProviderFault::of_reply(FaultKind::Unusable, reason, reply))
        }
        (Finish::Refused, _) => {
            let reason = "it declined to answer";
            Err(ProviderFault::of_reply(FaultKind::Unusable, reason, reply))
        }
    }
}
