//! Decides how the misbehaving MCP server is started: a way to misbehave, and what it is reached over.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use toolgate_testkit::mcp::{Era, Mode, Server, serve_http, serve_stdio};

/// An MCP server that misbehaves in one way. It speaks over its input and output, or over HTTP:
/// streamable at /mcp, and the older events at /sse.
#[derive(Parser)]
#[command(name = "toolgate-fake-mcp")]
struct Options {
    /// How it misbehaves.
    #[arg(long, default_value = "normal")]
    mode: Mode,
    /// Which revision it speaks.
    #[arg(long, default_value = "legacy")]
    era: Era,
    /// Speaks over HTTP at this port, and prints its address; 0 for any free one.
    #[arg(long)]
    port: Option<u16>,
    /// Answers over HTTP come as streams.
    #[arg(long)]
    streams: bool,
    /// The file to which every executed call is written.
    #[arg(long)]
    ledger: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let server = Server::new(options.mode, options.era, options.streams, options.ledger);
    let server = Arc::new(server);
    server.record("started");
    let Some(port) = options.port else {
        serve_stdio(server);
        return Ok(());
    };
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    writeln!(std::io::stdout(), "http://{}", listener.local_addr()?)?;
    serve_http(&server, &listener);
    Ok(())
}
