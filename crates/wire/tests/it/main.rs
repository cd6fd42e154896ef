//! Decides that every dialect says and hears the same: plain, streamed, and cut off anywhere.

#![cfg(test)]

mod case;
mod chat_streams;
mod conformance;
mod listed;
mod moved;
mod odd;
mod play;
mod streams;
mod told_apart;
