//! An MCP server with one of everything, on our own server code, for the official conformance suite.

mod input;
mod shown;
mod tools;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::PhaseName;
use toolgate_kernel::token_key::TokenKey;
use toolgate_mcp::server::http::{Denied, Porter};
use toolgate_mcp::server::{
    Answer, Answering, Cache, Caller, Card, Line, Lists, Principal, Refused, Request, Served,
};

/// Everything, with two lists that grow when somebody asks for it.
pub struct Everything {
    key: TokenKey,
    tools: AtomicU64,
    prompts: AtomicU64,
    changes: watch::Sender<u64>,
}

impl Default for Everything {
    fn default() -> Self {
        Self {
            key: TokenKey::from_bytes(&[9; 32]),
            tools: AtomicU64::new(0),
            prompts: AtomicU64::new(0),
            changes: watch::Sender::new(0),
        }
    }
}

/// Name and version.
pub fn implementation() -> Value {
    json!({ "name": "toolgate-fixture-mcp", "version": "1.0.0" })
}

/// Lets everybody in: the suite has no token.
pub struct Anybody;

impl Porter for Anybody {
    fn admit(&self, _: Option<&str>) -> Result<Arc<Principal>, Denied> {
        Ok(Arc::new(Principal { name: "anybody".into(), phase: None }))
    }
}

/// The params of what is called, asked for or read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    name: String,
    #[serde(default)]
    uri: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    input_responses: Map<String, Value>,
    request_state: Option<String>,
}

impl Params {
    fn read(text: &str) -> Result<Self, Refused> {
        serde_json::from_str(text).map_err(|fault| Refused::params(fault.to_string()))
    }

    fn text(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

const KEPT: Cache = Cache { ttl_ms: 1_000, public: true };

impl Everything {
    /// One more tool or prompt, so that a list changes.
    fn grow(&self, list: &AtomicU64) {
        list.fetch_add(1, Ordering::Relaxed);
        self.changes.send_modify(|count| *count += 1);
    }

    async fn served(&self, request: Request<'_>, line: &Line) -> Result<Answer, Refused> {
        let caller = request.caller;
        let params = Params::read(request.params)?;
        match request.method {
            "tools/list" => Ok(Answer::kept(&json!({ "tools": self.tool_list() }), KEPT)),
            "prompts/list" => Ok(Answer::kept(&json!({ "prompts": self.prompt_list() }), KEPT)),
            "resources/list" => Ok(Answer::kept(&json!({ "resources": shown::resources() }), KEPT)),
            "resources/templates/list" => {
                Ok(Answer::kept(&json!({ "resourceTemplates": shown::templates() }), KEPT))
            }
            "resources/read" => match shown::read(&params.uri) {
                Some(contents) => Ok(Answer::kept(&json!({ "contents": [contents] }), KEPT)),
                None => Err(Refused::resource(&params.uri, caller.revision)),
            },
            "resources/subscribe" | "resources/unsubscribe" => Ok(Answer::new("{}".into())),
            "completion/complete" => {
                let completion = json!({ "values": [], "total": 0, "hasMore": false });
                Ok(Answer::new(json!({ "completion": completion }).to_string()))
            }
            "prompts/get" if params.name == "test_input_required_result_prompt" => {
                input::prompt(&params)
            }
            "prompts/get" => match shown::prompt(&params) {
                Some(messages) => Ok(Answer::new(json!({ "messages": messages }).to_string())),
                None => Err(Refused::params("There is no such prompt.")),
            },
            "tools/call" => self.call(&params, caller, line).await,
            method => Err(Refused::method(method)),
        }
    }

    async fn call(&self, params: &Params, caller: &Caller, line: &Line) -> Result<Answer, Refused> {
        match params.name.as_str() {
            "test_trigger_tool_change" => self.grow(&self.tools),
            "test_trigger_prompt_change" => self.grow(&self.prompts),
            name if name.starts_with("test_input_required_result_") => {
                return input::call(params, caller, &self.key);
            }
            _ => return tools::call(params, caller, line).await,
        }
        Ok(tools::said("changed"))
    }

    fn tool_list(&self) -> Vec<Value> {
        let more = 0..self.tools.load(Ordering::Relaxed);
        let more = more.map(|at| tools::shown(&format!("test_extra_{at}"), json!({})));
        tools::list().into_iter().chain(more).collect()
    }

    fn prompt_list(&self) -> Vec<Value> {
        let more = 0..self.prompts.load(Ordering::Relaxed);
        let more = more.map(|at| shown::prompt_named(&format!("test_extra_{at}"), &[]));
        shown::prompts().into_iter().chain(more).collect()
    }
}

impl Served for Everything {
    fn card(&self, _: &Caller) -> Card {
        Card {
            server: implementation(),
            capabilities: json!({
                "tools": { "listChanged": true },
                "prompts": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "logging": {},
                "completions": {},
            }),
            instructions: "One of everything.".to_owned(),
        }
    }

    fn answer<'a>(&'a self, request: Request<'a>, line: &'a Line) -> Answering<'a> {
        Box::pin(self.served(request, line))
    }

    fn marked(&self, tool: &str) -> Option<Value> {
        (tool == tools::MARKED).then(tools::marked_schema)
    }

    fn has_phase(&self, _: &PhaseName) -> bool {
        false
    }

    fn lists(&self, _: &Caller) -> Lists {
        let of = |all: Vec<Value>| Some(Digest::of_json(&Value::Array(all)));
        Lists {
            tools: of(self.tool_list()),
            prompts: of(self.prompt_list()),
            resources: of(shown::resources()),
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
