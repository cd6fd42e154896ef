//! Decides what a tool is: its name, its types, its effect, and what it touches.

mod domain;
mod exact;
mod fits;
mod keywords;
mod misfit;
mod number;
mod pattern;
mod reference;
mod schema;
mod shape;
mod spec;
mod union;

pub(crate) use domain::Unfit;
pub use domain::{ACTION, Action, Domain, Setting};
pub use misfit::{Misfit, Problem};
pub use schema::SchemaRefusal;
pub use shape::{Fit, Shape};
pub use spec::{ABOUT_CHARS_MAX, Effect, Example, SpecDraft, SpecRefusal, ToolSpec, Touches};
