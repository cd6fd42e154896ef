//! Decides whether a log and its world are as they should be after a crash.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use toolgate_kernel::event::{Event, Outcome, StreamId};
use toolgate_kernel::names::CallId;
use toolgate_kernel::tool::Effect;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::verify::verify;

use crate::ledger::Entry;
use crate::stage::{Played, Stage};

/// Everything that is wrong after a crash and a resume, compared with a run without a crash.
pub async fn wounds(stage: &Stage, played: &Played, clean: &Played) -> Result<Vec<String>> {
    let mut wounds = stage.lost_acks().await?;
    for problem in verify(stage.store.as_ref()).await?.problems {
        wounds.push(format!("{}, record {}: {}", problem.stream, problem.seq, problem.what));
    }
    let mut unknown = false;
    for head in stage.store.heads().await? {
        if let StreamId::Session(id) = &head.stream {
            let calls = calls(stage, &head.stream).await?;
            unknown |= calls.unknown;
            wounds.extend(calls.wounds(id.as_str(), &played.ledger));
        }
    }
    // A call whose outcome is unknown may have left out what it would have staged, and a run
    // whose time was over when it was resumed does less than one that was not interrupted.
    if !unknown && !stage.scenario.passes_time() && played.state != clean.state {
        wounds.push(format!("state differs:\n{}\n{}", clean.state, played.state));
    }
    Ok(wounds)
}

/// What a session's log says of its calls.
#[derive(Default)]
struct Calls {
    /// Whether it is a conversation.
    chat: bool,
    /// How many rows each iteration has.
    iterations: BTreeMap<u64, u64>,
    received: BTreeSet<CallId>,
    admitted: BTreeMap<CallId, Effect>,
    started: BTreeMap<String, CallId>,
    ended: BTreeMap<CallId, u64>,
    unknown: bool,
    wrong_unknown: Vec<CallId>,
}

async fn calls(stage: &Stage, stream: &StreamId) -> Result<Calls> {
    let mut calls = Calls::default();
    read_from::<Event>(stage.store.as_ref(), stream, Tip::START, |record, _| {
        if let Event::Opened { chat, .. } = &record.event {
            calls.chat = *chat;
        }
        if let Event::ModelReplied { calls: raw, .. } = &record.event {
            calls.received.extend(raw.iter().map(|raw| raw.id));
        }
        if let Event::CallReceived { call, .. } = &record.event {
            calls.received.insert(call.id);
        }
        if let Event::CallAdmitted(admitted) = &record.event {
            calls.admitted.insert(admitted.call, admitted.effect);
        }
        if let Event::CallStarted { call, key } = &record.event {
            calls.started.insert(key.clone(), *call);
        }
        if let Event::IterationOpened { iteration, .. } = &record.event {
            calls.iterations.insert(*iteration, 0);
        }
        if let Event::IterationClosed(closed) = &record.event {
            *calls.iterations.entry(closed.iteration).or_default() += 1;
        }
        if let Event::CallRefused(refused) = &record.event {
            *calls.ended.entry(refused.call).or_default() += 1;
        }
        if let Event::CallSettled(settled) = &record.event {
            *calls.ended.entry(settled.call).or_default() += 1;
            if settled.outcome == Outcome::Unknown {
                calls.unknown = true;
                if !calls.admitted.get(&settled.call).is_some_and(|effect| effect.needs_intent()) {
                    calls.wrong_unknown.push(settled.call);
                }
            }
        }
    })
    .await?;
    Ok(calls)
}

impl Calls {
    fn wounds(&self, session: &str, ledger: &[Entry]) -> Vec<String> {
        let mut wounds = Vec::new();
        for call in &self.received {
            match self.ended.get(call) {
                Some(1) => {}
                Some(times) => wounds.push(format!("{session}/{call} settled {times} times")),
                None => wounds.push(format!("{session}/{call} never settled")),
            }
        }
        let last = self.iterations.keys().next_back().copied();
        for (iteration, times) in &self.iterations {
            // A conversation is left with its last iteration open: it waits for a person.
            let open = self.chat && *times == 0 && Some(*iteration) == last;
            if *times != 1 && !open {
                wounds.push(format!("{session}: iteration {iteration} has {times} rows"));
            }
        }
        for call in &self.wrong_unknown {
            wounds.push(format!("{session}/{call} is unknown though it never reached the world"));
        }
        let mut done: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in ledger.iter().filter(|entry| entry.key.starts_with(&format!("{session}/"))) {
            *done.entry(&entry.key).or_default() += 1;
            let Some(call) = self.started.get(&entry.key) else {
                wounds.push(format!("{} reached the world without an intent", entry.key));
                continue;
            };
            let external = self.admitted.get(call) == Some(&Effect::External);
            if external && done.get(entry.key.as_str()).is_some_and(|times| *times > 1) {
                wounds.push(format!("{} reached the world more than once", entry.key));
            }
        }
        wounds
    }
}
