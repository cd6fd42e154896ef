//! Performs what the kernel decides: ports, transactions, execution, the drive loop.
//!
//! Read it along the path of a call: [`drive`] (judge, begin, settle), [`transaction`] for what
//! a handler may reach, [`port`] for what is needed from outside.
//!
//! Embedding takes one tool, one phase and one policy:
//!
//! ```
//! use std::sync::Arc;
//! use toolgate_kernel::{actor::Actor, agent::*, config::*, names::*, section::*, tool::*};
//! use toolgate_runtime::{port::{Clock, Output}, *};
//! # use toolgate_kernel::time::Timestamp;
//! # struct Noon;
//! # impl Clock for Noon { fn now(&self) -> Timestamp { Timestamp(0) } }
//! # #[derive(serde::Deserialize, schemars::JsonSchema)] struct Greet { name: String }
//! # async fn embed() -> Result<(), Box<dyn std::error::Error>> {
//! let greet = tool(SpecDraft::new("greet", "Greets somebody."), |_, args: Greet| {
//!     Ok(Output::message(format!("Hello, {}!", args.name)))
//! })?;
//! let pack = Pack::new(Section::new(SectionName::parse("manners")?), vec![greet]);
//! let text: AgentText = serde_json::from_value(serde_json::json!({
//!     "phases": { "DAY": { "tools": { "include": ["greet"] } } },
//!     "policies": [{ "rule": { "tools": ["greet"], "deny": "args.name == 'Voldemort'", "message": "Not him." } }],
//! }))?;
//! let crew = Crew::new(Arc::new(text.build(vec![pack.section.clone()])?), Toolbox::of(&[pack]));
//! let runtime = Runtime::new(Arc::new(MemoryStore::new()), Arc::new(Noon));
//! let me = Actor::Client("example".into());
//! let mut driver = Driver::open(Arc::new(runtime), crew, SessionId::parse("s1")?, &me, "manners").await?;
//! assert_eq!(driver.call(&me, "greet", r#"{"name": "Ada"}"#, None).await?.message, "Hello, Ada!");
//! assert_eq!(driver.call(&me, "greet", r#"{"name": "Voldemort"}"#, None).await?.message, "Not him.");
//! # Ok(()) }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(embed()).unwrap();
//! ```

mod authority;
mod checkpoint;
pub mod crash;
mod directing;
pub mod drive;
mod execute;
mod explain;
mod fork;
mod host_key;
pub mod log;
pub mod memory;
mod once;
mod people;
mod picture;
pub mod port;
mod receipts;
mod restore;
mod runtime;
mod toolbox;
pub mod transaction;
mod undo;
pub mod verify;
mod versions;

pub use authority::{Author, InboxWord, Signer};
pub use checkpoint::checkpoint_body;
pub use directing::Directing;
pub use drive::{
    Answered, Company, Crew, DriveFault, Driver, Floor, Halt, Incoming, OnAsk, OpenFault,
    ReplacedConfig, Start,
};
pub use execute::Cancel;
pub use fork::{Fork, ForkRefusal, preview_fork};
pub use host_key::{HostKey, HostPublicKey, NoteFault};
pub use memory::MemoryStore;
pub use once::ask_once;
pub use picture::{Picture, PictureRefusal};
pub use receipts::{IndexedReceipt, ReceiptIndex};
pub use restore::{LostDecision, RestoreError, RestorePlan};
pub use runtime::{Committed, OBSERVER_EVENTS_MAX, Runtime, SayFault};
pub use toolbox::{Nothing, Pack, Toolbox, tool, waiting_tool};
pub use transaction::{Resources, Transaction};
pub use undo::{Back, REPLACED_BYTES_MAX, Range, Undo, UndoRefusal, preview};
