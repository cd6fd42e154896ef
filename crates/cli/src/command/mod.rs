//! One file per command.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod explain;
pub(crate) mod init;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sessions;
pub(crate) mod tools;
pub(crate) mod verify;
