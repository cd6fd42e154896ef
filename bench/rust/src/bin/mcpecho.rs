//! Part C, the MCP server behind every gateway: one `echo` tool, built on rmcp.
//!
//! `mcpecho stdio` or `mcpecho http PORT [session]`; without `session`, stateless JSON replies.

use axum::serve::ListenerExt;
use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::{ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp::{ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct EchoArgs {
    text: String,
}

#[derive(Clone)]
struct Echo {
    #[allow(dead_code)]
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Echo {
    fn new() -> Self {
        Self { tool_router: Self::tool_router() }
    }

    #[tool(description = "Echo the text")]
    fn echo(&self, Parameters(EchoArgs { text }): Parameters<EchoArgs>) -> String {
        text
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "stdio" {
        let running = Echo::new().serve(rmcp::transport::stdio()).await.unwrap();
        running.waiting().await.unwrap();
        return;
    }
    let mut config = StreamableHttpServerConfig::default();
    if args.get(3).map(String::as_str) != Some("session") {
        config.legacy_session_mode = false;
        config.json_response = true;
    }
    let service: StreamableHttpService<Echo, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Echo::new()), Default::default(), config);
    let listener = TcpListener::bind(format!("127.0.0.1:{}", args[2])).await.unwrap();
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    let app = axum::Router::new().nest_service("/mcp", service);
    axum::serve(listener, app).await.unwrap();
}
