//! Says whether a run is over after an iteration, and how it ends.

use crate::agent::Agent;
use crate::calling::FailurePolicy;
use crate::event::{Closing, Ending};
use crate::fold::{Session, World};
use crate::letters::is_unseen;
use crate::prompt_skips::PromptSkips;

/// Why no further iteration follows.
pub(super) fn finished(
    agent: &Agent,
    world: &World<'_>,
    skips: &PromptSkips,
) -> Option<(Ending, String)> {
    let session = world.session;
    let closed = session.closed.as_ref().filter(|_| !session.chat)?;
    let words = || session.turns.back().map(|turn| turn.text.to_string()).unwrap_or_default();
    if closed.closing == Closing::Failed {
        return None;
    }
    let cut = || match words() {
        words if words.trim().is_empty() => closed.note.clone(),
        words => format!("{}: {words}", closed.note),
    };
    if closed.closing == Closing::Rejected {
        return Some((Ending::Rejected, closed.note.clone()));
    }
    // The same words would be declined again, in whichever phase.
    if closed.closing == Closing::Refused {
        return Some((Ending::Refused, cut()));
    }
    let alone = agent.phases().count() == 1;
    let silent = closed.calls == 0 && !agent.settings.stop_only_on_complete;
    let last = alone || silent;
    if closed.closing == Closing::Truncated && (last || agent.terminal(&closed.start_phase)) {
        return Some((Ending::Truncated, cut()));
    }
    // A reply without words, directives and calls is fine as the last of several, and no work by itself.
    let nothing = closed.calls == 0 && is_unseen(&closed.summary) && !session.has_directives;
    if closed.closing == Closing::Done && last && nothing && session.iteration <= 1 {
        let note = "the first reply of the model was empty: no words and no calls".to_owned();
        return Some((Ending::Stalled, note));
    }
    // Without tools there is one reply, whatever the phases say.
    if skips.skip_tools && closed.closing == Closing::Done {
        return Some((Ending::Completed, words()));
    }
    // A terminal phase has one last iteration, however it ends.
    if agent.terminal(&closed.start_phase) {
        return Some(held(agent, session, words()));
    }
    if closed.closing == Closing::Done && last {
        return Some(held(agent, session, words()));
    }
    if closed.closing == Closing::TurnLimit && alone {
        return Some((Ending::TurnsExceeded, closed.note.clone()));
    }
    if session.idle >= agent.limits.idle_iterations_max {
        let note = format!("no call succeeded in {} iterations in a row", session.idle);
        return Some((Ending::Stalled, note));
    }
    if session.iteration >= agent.limits.iterations_max {
        let note = format!("{} iterations are over", session.iteration);
        return Some((Ending::IterationsExceeded, note));
    }
    None
}

/// How a run ends that came to its end: one that had to use tools is held to it.
fn held(agent: &Agent, session: &Session, words: String) -> (Ending, String) {
    let Some(policy) = agent.tool_calling.enforced else { return (Ending::Completed, words) };
    let failed = session.results.iter().filter(|(_, ok)| !**ok).map(|(tool, _)| tool.as_ref());
    let refused = session.not_callable.as_ref().map(|(name, _)| name.as_ref());
    let failed: Vec<&str> = failed.chain(refused).collect();
    if session.results.is_empty() && refused.is_none() {
        (Ending::NoToolCalls, "tools must be used, and none was called".to_owned())
    } else if policy == FailurePolicy::Fatal && !failed.is_empty() {
        (Ending::ToolError, format!("the last result of {} was a failure", failed.join(", ")))
    } else if session.results.values().all(|ok| !ok) {
        (Ending::ToolError, "tools must be used, and no call succeeded".to_owned())
    } else {
        (Ending::Completed, words)
    }
}
