//! What the chores and the tidy tests of the tree share.

pub mod names;
