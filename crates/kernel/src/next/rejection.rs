//! Decides how it goes on after a reply that was not accepted, and when an answer is asked for without
//! tools.

use super::{Course, Manner, finishing};
use crate::agent::Agent;
use crate::calling::{JSON_STEPS_MAX, JSON_TURN_CHARS_MAX, ToolProtocol, json_result_excerpt};
use crate::event::{Closing, FaultKind, Note, NoteKind};
use crate::fold::{Lap, Session};
use crate::render::render;

/// Replies in a row that are not accepted, after which the model is still asked once more.
const REJECTIONS_MAX: u64 = 1;

/// Whether a reply that has come is followed by a request for last words, so that it is no answer
/// itself: it says nothing after calls.
pub fn asks_last_words(agent: &Agent, session: &Session, words: &str) -> bool {
    let Some(lap) = &session.lap else { return false };
    let worked = lap.calls > lap.before_words.0 && session.feedback.is_empty();
    let due = worked && words.trim().is_empty() && !lap.finished;
    // The very request may be the one for last words.
    let asked = session.notes.iter().any(|note| note.about == NoteKind::Finish);
    due && !asked && agent.tool_calling.last_words().is_some()
}

/// How it goes on after a reply that was not accepted: the model is told why, once.
pub(super) fn rejected(
    agent: &Agent,
    session: &Session,
    lap: &Lap,
    fault: FaultKind,
    reason: &str,
) -> Course {
    if session.rejections == 0 {
        // Words came since, and are answered.
        return Course::Ask(Manner::default());
    }
    if session.rejections <= REJECTIONS_MAX {
        let finish = session.turns.back().and_then(|last| finishing(agent, session, lap, last));
        let forced = || forced(agent, session, lap).unwrap_or_default();
        let manner = finish.map_or_else(forced, |finish| Manner::finishing(Some(&finish), false));
        return Course::Ask(manner.rejected(reason));
    }
    let told = stop_hook(fault, reason);
    if session.chat { Course::Listen(told) } else { Course::Close(Closing::Rejected, told) }
}

/// What a caller is told of a reply that was not accepted twice.
pub fn stop_hook(fault: FaultKind, reason: &str) -> String {
    if fault == FaultKind::EvidenceRejected {
        return reason.to_owned();
    }
    let hook = if fault.rejects_reply() { "tool_call_rejected" } else { "error" };
    format!("STOP_HOOK: {hook}\nReason: {reason}")
}

/// Asks for the answer without tools where the JSON protocol leaves no further step: enough calls
/// were made, or enough of results was shown.
pub(super) fn forced(agent: &Agent, session: &Session, lap: &Lap) -> Option<Manner> {
    if agent.tool_calling.protocol != ToolProtocol::Json || !session.feedback.is_empty() {
        return None;
    }
    let before = if session.chat { lap.before_words.1 } else { 0 };
    let before = usize::try_from(before).unwrap_or(usize::MAX);
    let (mut steps, mut chars) = (0_u64, 0_usize);
    for turn in session.turns.iter().skip(before) {
        steps += u64::from(!turn.calls.is_empty());
        for told in turn.told.values() {
            let text = render(told, agent.tool_calling.result_format);
            chars = chars.saturating_add(json_result_excerpt(&text).chars().count());
        }
    }
    let why = match (steps >= JSON_STEPS_MAX, chars > JSON_TURN_CHARS_MAX) {
        (true, _) => format!("You made {steps} calls, which is all there are for one request."),
        (false, true) => "You were shown as much as one request may show.".to_owned(),
        (false, false) => return None,
    };
    let text = format!("{why} Answer now, in words, from what you know.");
    Some(Manner { toolless: true, notes: vec![Note { about: NoteKind::Finish, text }] })
}
