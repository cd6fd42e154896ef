//! What must hold of every message of a server, for the fuzzer. Behind the feature `fuzzing`.

use toolgate_kernel::limits::Limits;
use toolgate_kernel::redact::Redactor;

use super::call::{Answered, read_answer};
use super::cut::cut_off;
use super::message::{Head, Reply, claimed_by_unreadable};
use super::secrets::redact_answer;
use crate::parts::output;

/// Reads bytes as a message, whole and cut off. Nothing panics, and what is not known to have
/// succeeded is no success.
///
/// # Panics
///
/// Where that does not hold.
pub fn check_message(bytes: &[u8]) {
    drop(claimed_by_unreadable(bytes));
    let whole = std::str::from_utf8(bytes).ok().and_then(Head::read);
    if let Some(Ok(Reply::Result(text))) = whole.map(|head| head.answer())
        && let Some(answered) = read_answer(text, None)
    {
        check_answer(answered);
    }
    if let Reply::Cut(text) = cut_off(bytes)
        && let Some(answered) = read_answer(text, Some(bytes.len()))
    {
        assert!(answered.is_error != Some(false), "a cut answer is no success");
        check_answer(answered);
    }
}

fn check_answer(answered: Answered) {
    let answered = redact_answer(&Redactor::default(), answered);
    for declared in [false, true] {
        let told = output(&answered, declared, &Limits::default());
        assert!(told.is_err() || answered.is_error == Some(false), "no success is made up");
    }
}
