//! Decides how whiteboards are kept: named texts with revisions, shared by all sessions, one of
//! them active in each.
//!
//! `board` has the rules, `tools` what the model calls.

mod board;
mod tools;

pub use tools::whiteboard;

/// The section, the tool and its group.
const NAME: &str = "whiteboard";

/// The number of the next board. It changes whenever a board does (ADR 0009).
const WHOLE: &str = "boards";

/// The boards: `board:<id>`.
const BOARD: &str = "board";

/// Earlier contents: `board_revision:<id>/<revision>`.
const REVISION: &str = "board_revision";

/// The board that is active in a session.
const ACTIVE: &str = "active_board";
