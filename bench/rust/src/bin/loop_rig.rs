//! Part A, rig: its own agent loop with one tool, plain or streamed.

use std::convert::Infallible;

use futures::StreamExt;
use perf::{block, drive, stream, url};
use rig_agent::prelude::*;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::tool::PortableTool;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct AddArgs {
    a: i64,
    b: i64,
}

struct Add;

impl PortableTool for Add {
    const NAME: &'static str = "add";
    type Args = AddArgs;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Add two integers.".into()
    }

    fn parameters(&self) -> Value {
        json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        })
    }

    async fn call(&self, args: AddArgs) -> Result<String, Infallible> {
        Ok((args.a + args.b).to_string())
    }
}

fn main() {
    let (url, streamed) = (url(), stream());
    block(async move {
        let model = OpenAIConfig::new("x")
            .with_base_url(url)
            .connect(rig_reqwest::ReqwestClient::default())
            .chat("mock");
        let agent = AgentBuilder::new(model).tool(Add).build();
        drive(move || {
            let agent = agent.clone();
            async move {
                if !streamed {
                    return agent.prompt("go").max_turns(1000).await.unwrap().to_string();
                }
                let mut items = agent.prompt("go").max_turns(1000).stream();
                let mut text = String::new();
                while let Some(item) = items.next().await {
                    if let MultiTurnStreamItem::FinalResponse(reply) = item.unwrap() {
                        text = reply.output().to_string();
                    }
                }
                text
            }
        })
        .await
    })
}
