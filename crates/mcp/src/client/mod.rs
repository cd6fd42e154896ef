//! Decides how MCP servers are reached, and what of them is believed.

mod call;
mod child;
mod connection;
mod cut;
mod fault;
mod form;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod guest;
pub(crate) mod headers;
mod http;
mod lines;
mod listing;
mod message;
pub mod oauth;
mod open;
mod outbox;
mod place;
mod plan;
mod registry;
mod seat;
mod secrets;
mod sse;
mod stdio;
mod strays;
mod stream;
mod switch;

pub use call::{Answered, RemoteCall};
pub(crate) use fault::shown;
pub use fault::{CallFault, ServerFault};
pub use form::{Form, Respondent};
pub use listing::{Found, Listed};
pub use plan::{Bounds, HttpKind, ProgramSandbox, Reach, ServerPlan, inherited};
pub(crate) use registry::Asking;
pub use registry::Registry;
pub use seat::Health;
pub(crate) use seat::Pace;
