//! Performs what the kernel decides: ports, transactions, execution, the drive loop.
//!
//! Read it along the path of a call: [`drive`] (judge, begin, settle), [`transaction`] for what
//! a handler may reach, [`port`] for what is needed from outside.

mod checkpoint;
pub mod crash;
pub mod drive;
mod execute;
mod explain;
pub mod log;
pub mod memory;
pub mod port;
mod runtime;
mod toolbox;
pub mod transaction;
pub mod verify;
mod versions;

pub use drive::{Crew, DriveFault, Driver, Halt, OpenFault};
pub use execute::Cancel;
pub use memory::MemoryStore;
pub use runtime::{Committed, OBSERVER_EVENTS_MAX, Runtime, SayFault};
pub use toolbox::{Nothing, Pack, Toolbox, tool, waiting_tool};
pub use transaction::{Resources, Transaction};
