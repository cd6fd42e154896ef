//! Decides what the conformance suite sees of our client: it lists the tools of a server, leaves out
//! those that cannot be used, and calls every other one.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_http::{Roots, Transport};
use toolgate_kernel::names::ServerName;
use toolgate_kernel::pin::Definition;
use toolgate_mcp::client::{Asked, Bounds, HttpKind, Reach, Registry, ServerPlan};
use toolgate_mcp::scan::{Scanned, scan};

/// Milliseconds of a call.
const CALL_MS: u64 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().next_back().ok_or("say the address of the server")?;
    let name = ServerName::parse("suite")?;
    let reach = Reach::Http {
        url,
        headers: Vec::new(),
        bearer: None,
        keeper: None,
        kind: HttpKind::Streamable,
    };
    let plan = ServerPlan {
        name: name.clone(),
        reach,
        connect_ms_max: 20_000,
        call_ms_max: CALL_MS,
        bounds: Bounds::default(),
    };
    let registry = Registry::new(vec![plan], Arc::new(Transport::new(Roots::default())));
    let listed = registry.tools(&name).await?;
    let mut out = std::io::stdout();
    for (tool, args) in calls(&listed.tools)? {
        let deadline = tokio::time::Instant::now() + Duration::from_millis(CALL_MS);
        let asked = Asked { tool: &tool, args: &args, key: None };
        match registry.call(&name, asked, deadline).await {
            Ok(answered) => writeln!(out, "{tool}: {}", answered.text)?,
            Err(fault) => writeln!(out, "{tool}: {fault}")?,
        }
    }
    registry.close().await;
    Ok(())
}

/// What is called: what the suite asks for, or every tool that can be used.
fn calls(tools: &[toolgate_mcp::client::Found]) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let usable = |tool: &&toolgate_mcp::client::Found| {
        let definition = Definition {
            title: tool.title.clone(),
            about: tool.about.clone().unwrap_or_default(),
            input: tool.input.clone(),
            output: tool.output.clone(),
            annotations: tool.annotations.clone(),
        };
        !matches!(scan(&tool.name, &definition, &BTreeSet::new()), Scanned::Excluded(_))
    };
    let usable: Vec<_> = tools.iter().filter(usable).collect();
    if let Some(wanted) = context.get("toolCalls").and_then(Value::as_array) {
        let text = |call: &Value, key| call.get(key).cloned().unwrap_or_default();
        let name = |call: &Value| text(call, "name").as_str().unwrap_or_default().to_owned();
        let known = |call: &&Value| usable.iter().any(|tool| tool.name == name(call));
        let call = |call: &Value| (name(call), text(call, "arguments").to_string());
        return Ok(wanted.iter().filter(known).map(call).collect());
    }
    let call =
        |tool: &&toolgate_mcp::client::Found| (tool.name.clone(), made(&tool.input).to_string());
    Ok(usable.iter().map(call).collect())
}

/// Arguments that fit a schema.
fn made(schema: &Value) -> Value {
    if let Some(given) = schema.get("default").or_else(|| schema.get("const")) {
        return given.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|all| all.get(0)) {
        return first.clone();
    }
    match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "object" => {
            let fields = schema.get("properties").and_then(Value::as_object);
            let made = |(name, schema): (&String, &Value)| (name.clone(), made(schema));
            Value::Object(fields.into_iter().flatten().map(made).collect::<Map<_, _>>())
        }
        "number" | "integer" => json!(5),
        "boolean" => json!(true),
        "array" => json!([]),
        _ => json!("words"),
    }
}
