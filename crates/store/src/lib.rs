//! Keeps the log in SQLite, and reaches the project's files through a jail.
//!
//! [`SqliteStore`] is the durable log: one thread writes, one reads. [`Folder`] is the project
//! folder: every file is opened relative to its handle, so no link or `..` leads out of it.
//! [`Hold`] keeps a session for one process. [`AnchorFolder`] remembers the newest head of each log.
//! [`LogPointer`] stands for a log that lies outside of its project.
//! [`TrustFolder`] keeps what people signed about configurations.

mod anchor;
mod decision_copies;
mod folder;
mod hold;
mod pointer;
mod sqlite;
mod trust;

pub use anchor::{Anchor, AnchorFolder};
pub use decision_copies::CopiedDecision;
pub use folder::{FILE_BYTES_MAX, Folder, FolderFault};
pub use hold::{Handover, Hold, HoldFault, Rival};
pub use pointer::LogPointer;
pub use sqlite::{LogSetup, OpenFault, SqliteStore};
pub use trust::{TrustEntry, TrustFolder};
