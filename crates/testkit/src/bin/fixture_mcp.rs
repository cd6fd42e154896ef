//! Decides how the fixture for the conformance suite is started: over HTTP, for everybody here.

// It prints its address, which is what it is for.
#![allow(clippy::print_stdout)]

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use tokio::net::TcpListener;
use tokio::sync::watch;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::token_key::TokenKey;
use toolgate_mcp::server::http::{Door, Opening, serve};
use toolgate_testkit::everything::{Anybody, Everything, implementation};

/// An MCP server with one of everything, for the official conformance suite.
#[derive(Parser)]
#[command(name = "toolgate-fixture-mcp")]
struct Options {
    /// The port; any free one when left out.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
        println!("http://{}/mcp", listener.local_addr()?);
        let opening = Opening {
            served: Arc::new(Everything::default()),
            porter: Arc::new(Anybody),
            door: Door::default(),
            key: TokenKey::from_bytes(&[9; 32]),
            now: Timestamp(0),
            server: implementation(),
        };
        let (_stop, stopped) = watch::channel(false);
        serve(listener, opening, stopped).await;
        Ok(())
    })
}
