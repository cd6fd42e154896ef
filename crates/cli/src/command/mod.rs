//! One file per command.

pub(crate) mod call;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod verify;
