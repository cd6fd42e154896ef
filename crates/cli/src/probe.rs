//! Decides whether a model made the one call it was asked for, as the gate would take it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolgate_kernel::gate::{fitting, mended};
use toolgate_kernel::json::parse_strict;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};
use toolgate_runtime::port::Reply;

use crate::console::visible;
use crate::remedy::{CALLS_NOTHING, CALLS_WRONGLY};

/// Characters of what a model wrote that are shown.
const SHOWN_CHARS: usize = 80;

/// A call that a model is asked for.
pub(crate) struct Probe {
    tool: Arc<ToolSpec>,
    a: u32,
    b: u32,
}

/// The arguments of the call.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Add {
    a: i64,
    b: i64,
}

/// What is wrong with a reply.
pub(crate) struct Wrong {
    /// What was seen, in a sentence.
    pub(crate) says: String,
    /// What to do, in a sentence.
    pub(crate) fix: &'static str,
}

impl Probe {
    /// The probe of this number; each asks for other arguments.
    pub(crate) fn number(at: u32) -> Option<Self> {
        let draft = SpecDraft::new("add", "Adds two whole numbers.").params::<Add>();
        let tool = Arc::new(draft.build().ok()?);
        Some(Self { tool, a: at + 2, b: at * 7 % 10 + 3 })
    }

    /// What is sent.
    pub(crate) fn plan(&self) -> Plan {
        let Self { tool, a, b } = self;
        let input = format!("What is {a} + {b}? Call the tool `add` with a={a} and b={b}.");
        Plan::alone("You call tools when you are asked to.", &input, vec![Arc::clone(tool)])
    }

    /// What is wrong with a reply, if something is.
    pub(crate) fn wrong(&self, reply: &Reply, limits: &Limits) -> Option<Wrong> {
        let [call] = reply.calls.as_slice() else {
            return Some(match reply.calls.len() {
                0 => {
                    let says = format!("it called no tool, and said {:?}", shown(&reply.text));
                    Wrong { says, fix: CALLS_NOTHING }
                }
                count => {
                    let says = format!("it made {count} calls where one was asked for");
                    Wrong { says, fix: CALLS_WRONGLY }
                }
            });
        };
        let why = match self.taken(&call.name, &call.args, limits) {
            Ok(args) if self.is_meant(&args) => return None,
            Ok(_) => "which is not what was asked for".to_owned(),
            Err(why) => why,
        };
        let says = format!("it called {} with {}, {why}", shown(&call.name), shown(&call.args));
        Some(Wrong { says, fix: CALLS_WRONGLY })
    }

    /// The arguments as the gate would hand them to the tool, or why it would not.
    fn taken(&self, name: &str, args: &str, limits: &Limits) -> Result<Map<String, Value>, String> {
        if name != self.tool.name.as_str() {
            return Err("which is not what was asked for".to_owned());
        }
        let plain = match parse_strict(args, limits) {
            Ok(Value::Object(args)) => Some(args),
            Ok(_) | Err(_) => mended(args, limits),
        };
        let args = plain.ok_or_else(|| "which is no JSON object".to_owned())?;
        fitting(&self.tool, &args).map_err(|refusal| {
            let first = refusal.errors.first().map(|trouble| visible(&trouble.message));
            format!("which the gate would refuse: {}", first.unwrap_or_default())
        })
    }

    fn is_meant(&self, args: &Map<String, Value>) -> bool {
        let is =
            |key: &str, meant: u32| args.get(key).and_then(Value::as_u64) == Some(meant.into());
        is("a", self.a) && is("b", self.b)
    }
}

/// The beginning of what a model wrote.
fn shown(text: &str) -> String {
    visible(text).chars().take(SHOWN_CHARS).collect()
}
