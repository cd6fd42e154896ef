//! Decides what an MCP client gets to see and do here: what the gate allows.
//!
//! Read it from the outside in: [`http`] and [`stdio`] bring messages, [`Served`] is what can be
//! asked for, [`Gateway`] is a session of toolgate offered so, and a [`Clerk`] drives it for all.

pub mod clerk;
mod gateway;
pub mod http;
mod line;
mod lines;
mod message;
pub mod pipes;
mod protocol;
mod queue;
mod refusal;
mod revision;
mod served;
mod skim;
pub mod stdio;
mod stop;
pub mod token;
mod user;
mod visit;

pub use clerk::{Clerk, Driving, Order, View};
pub use gateway::Gateway;
pub use line::{AskFault, Line};
pub use message::RequestId;
pub use refusal::{Refused, RpcCode};
pub use revision::Revision;
pub use served::{Answer, Answering, Cache, Caller, Card, Lists, Principal, Request, Served};
pub use user::User;
