//! What holds of every answer, whatever its dialect.

use std::collections::BTreeSet;

use toolgate_kernel::event::Finish;
use toolgate_wire::dialect::{Dialect, ReplyBounds, WireFault};
use toolgate_http::sse::Reader;

/// The bytes as a plain answer, and as a stream.
pub fn check(dialect: Dialect, data: &[u8]) {
    if let Ok(body) = toolgate_wire::answer::read(data) {
        look(dialect, &body);
    }
    let (mut reader, mut gather) = (Reader::default(), dialect.gather(ReplyBounds::default()));
    let read = reader.read(data, |event| gather.take(event, &|_| {}));
    if read.is_ok() && gather.fault().is_none() {
        look(dialect, &gather.body());
    }
}

fn look(dialect: Dialect, body: &serde_json::Value) {
    match dialect.decode(body) {
        Ok(reply) => {
            let ids: BTreeSet<_> = reply.calls.iter().map(|call| &call.alias).collect();
            assert_eq!(ids.len(), reply.calls.len(), "ids differ");
            match reply.finish {
                Finish::Calls => assert!(!reply.calls.is_empty()),
                Finish::Stop | Finish::Length | Finish::Refused => assert!(reply.calls.is_empty()),
                Finish::Paused => {}
            }
        }
        Err(WireFault { reason, .. }) => {
            assert!(!reason.is_empty() && reason.chars().count() <= 300);
            assert!(!reason.contains('\n'));
        }
    }
}
