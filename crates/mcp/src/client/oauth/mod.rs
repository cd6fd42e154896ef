//! Decides how a person lets us use an MCP server: the authorization of the specification, with a
//! browser that the person opens. No clock and no chance is read here; the caller brings both.

mod address;
mod callback;
mod challenge;
mod client;
mod exchange;
mod fault;
mod keeper;
mod login;
mod metadata;
mod permit;

pub use client::OauthPlan;
pub use fault::OauthFault;
pub use keeper::{Keeper, Pen, Permits};
pub use login::{Chance, Login, Request};
pub use permit::Permit;

pub(super) use challenge::{Challenge, told};
pub(super) use keeper::late;
