//! Decides nothing yet: it stands in the place of the dialects that another branch brings.

use serde_json::{Map, Value};
use toolgate_kernel::event::FaultKind;
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Reply, Tap};

use super::{Frame, Gathering, Options, WireFault};

pub(super) fn frame(_: &Plan, _: &Options) -> Frame {
    Frame { path: String::new(), key: "messages", body: Map::new() }
}

pub(super) fn opening(_: &Plan, _: &Options) -> Vec<Value> {
    Vec::new()
}

pub(super) fn turn(_: Option<&Turn>, _: &Turn, _: &Plan, _: &Options) -> Vec<Value> {
    Vec::new()
}

pub(super) fn closing(_: &Plan, _: &Options) -> Vec<Value> {
    Vec::new()
}

pub(super) fn decode(_: &Value) -> Result<Reply, WireFault> {
    Err(WireFault::new(FaultKind::Unusable, "this dialect is not spoken yet"))
}

pub(super) fn gather() -> Box<dyn Gathering> {
    Box::new(Silent)
}

struct Silent;

impl Gathering for Silent {
    fn take(&mut self, _: &str, _: Value, _: Tap<'_>) -> Result<(), WireFault> {
        Ok(())
    }

    fn whole(&self) -> bool {
        false
    }

    fn words(&self) -> &str {
        ""
    }

    fn body(self: Box<Self>) -> Value {
        Value::Null
    }
}
