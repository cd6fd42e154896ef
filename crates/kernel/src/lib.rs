//! Pure decisions of toolgate: no IO, no clock, no randomness, no environment.
//!
//! Read it along the path of a call: [`gate`] (parse, resolve, validate, judge), then [`event`]
//! and [`fold`] for what the log says and means, then [`render`] and [`next`] for what follows.

pub mod actor;
pub mod agent;
pub mod approval;
pub mod bounded;
pub mod budget;
pub mod calling;
pub mod config;
pub mod credential;
pub mod decision;
pub mod digest;
pub mod directive;
pub mod envelope;
pub mod event;
pub mod evidence;
pub mod flow;
pub mod fold;
pub mod gate;
pub mod hidden;
pub mod json;
pub mod key;
pub mod letters;
pub mod limits;
mod mask;
pub mod names;
pub mod next;
pub mod path;
pub mod phase;
pub mod pin;
pub mod plan;
pub mod policy;
pub mod profile;
pub mod prompt;
pub mod prompt_skips;
pub mod prompt_text;
pub mod receipt;
pub mod redact;
pub mod render;
pub mod request;
pub mod reserved;
mod schema;
pub mod section;
pub mod seeded;
pub mod settings;
pub mod time;
pub mod token_key;
pub mod tool;
pub mod trace;
pub mod tree;
