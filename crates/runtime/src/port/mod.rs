//! Decides what the runtime needs from outside: a clock, a store, files, a model, a person.

mod clock;
mod evidence;
mod files;
mod person;
mod promised;
mod provider;
mod rows;
mod store;
mod supplier;
mod tool;

pub use clock::Clock;
pub use evidence::EvidenceSources;
pub use files::{Files, FilesFault, Listed, Listing, NoFiles, Placed, StageTag};
pub use person::{Pause, Person, Question, Response, Word};
pub use promised::{Promised, at_once, later};
pub use provider::{Desk, Provider, ProviderFault, Reply, ReplyCall, Streamed, Tap};
pub use rows::{Lying, Rows};
pub use store::{Append, Batch, Checkpoint, IntegrityProblem, Row, Store, StoreFault, StreamHead};
pub use supplier::{Supplier, Supply, SupplyFault, Wanted};
pub use tool::{Fault, Output, Part, Parts, Tool};
