//! MCP, both ways: servers whose tools a phase may use, and toolgate itself as a server.

pub mod client;
mod offer;
mod parts;
mod recall;
mod remote;
pub mod scan;
pub mod server;
mod supply;

pub use offer::Terms;
pub use recall::{Recalled, Recollection, recall};
pub use supply::{Build, Supplies};
