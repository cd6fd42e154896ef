//! Part D, a trivial rig program: builds a client and an agent, prints `ready`, exits.

use rig_agent::prelude::*;
use rig_core::providers::openai::OpenAIConfig;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let model = OpenAIConfig::new("x")
        .with_base_url("http://127.0.0.1:1/v1")
        .connect(rig_reqwest::ReqwestClient::default())
        .chat("mock");
    let _agent = AgentBuilder::new(model).build();
    println!("ready");
}
