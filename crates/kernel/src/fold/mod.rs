//! Decides what the log means: two folds that copy what events say and decide nothing.

mod lap;
mod open;
mod project;
mod session;
mod state;
mod tally;
mod turn;

pub use lap::Lap;
pub use open::{OpenAnswer, OpenCall, OpenCalls, OpenQuestion, Progress};
pub use project::{
    ClientDelegation, DelegatedAnswer, ENROLMENTS_MAX, EarlierEnrolment, EnrolledPerson,
    LogRestore, Project, TrustedConfig, UntrustedWrite,
};
pub use session::{
    Allowance, CallOrigin, ClientBytes, InformationFlow, READS_MAX, Ruled, Seen, SeenFlow, Session,
    Stay, Supplied, TaintSource, Waiting, shown,
};
pub use state::{Shelf, Slot, State, StateRefusal};
pub use tally::{RATE_CALLS_MAX, Tally};
pub use turn::{Told, Turn};

use crate::section::Toolset;
use crate::time::Timestamp;

/// Everything a decision may look at. All of it comes from the log, except the moment.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// The session.
    pub session: &'a Session,
    /// What all sessions share.
    pub project: &'a Project,
    /// The tools, and the families of keys that may hold something.
    pub toolset: &'a Toolset,
    /// The moment of the decision, which the event will carry.
    pub now: Timestamp,
    /// Whether the call in question is already among the counted ones.
    pub counted: Counted,
}

/// Whether a call that is judged is already counted as admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// It is judged for the first time.
    NotYet,
    /// It was admitted before and the world moved since.
    Already,
}
