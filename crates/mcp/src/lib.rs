//! MCP, both ways: servers whose tools a phase may use, and toolgate itself as a server.

pub mod client;
pub mod scan;
pub mod server;
