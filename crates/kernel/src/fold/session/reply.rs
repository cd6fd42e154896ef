//! Decides what a model's reply leaves in a session: a turn, its cost, and how its calls went.

use std::sync::Arc;

use imbl::OrdMap;

use super::{RESULTS_MAX, Session, count};
use crate::actor::Actor;
use crate::digest::Digest;
use crate::envelope::Code;
use crate::event::{Finish, Native, NoteKind, RawCall, Usage};
use crate::fold::{Told, Turn};
use crate::letters::is_unseen;
use crate::plan::roll;

/// What a turn keeps of a reply.
pub(super) struct Words<'a> {
    pub(super) text: &'a str,
    pub(super) calls: &'a [Arc<RawCall>],
    pub(super) finish: Finish,
    pub(super) native: &'a Option<Arc<Native>>,
}

impl Session {
    /// Takes the last turn into the transcript: it is complete when the next request is sent.
    pub(super) fn roll(&mut self) {
        let (Some(lap), Some(turn)) = (&mut self.lap, self.turns.back()) else { return };
        if turn.number > lap.rolled_turn {
            lap.rolled = roll(lap.rolled, turn);
            lap.rolled_bytes = lap.rolled_bytes.saturating_add(turn.bytes());
            lap.rolled_messages = lap.rolled_messages.saturating_add(turn.messages());
            lap.rolled_turn = turn.number;
        }
    }

    pub(super) fn replied(&mut self, number: u64, reply: Words<'_>, actor: &Actor) {
        self.asking = false;
        self.rejections = 0;
        self.flow.replied();
        let calls: Arc<[Arc<RawCall>]> = reply.calls.into();
        for call in calls.iter() {
            self.receive(Arc::clone(call), actor, Some(number));
        }
        let mut notes = std::mem::take(&mut self.feedback);
        if let Some(lap) = self.lap.as_mut().filter(|_| !notes.is_empty()) {
            lap.before_words = (lap.calls, count(self.turns.len()));
            lap.finished = false;
            lap.warned &= !self.chat;
        }
        for note in std::mem::take(&mut self.notes) {
            notes.push_back(note.text.as_str().into());
            match (&mut self.lap, note.about, &self.phase) {
                (Some(lap), NoteKind::Phase, Some(phase)) => lap.told_phase = phase.clone(),
                (Some(lap), NoteKind::Calls, _) => lap.warned = true,
                (Some(lap), NoteKind::Finish, _) => lap.finished = true,
                (Some(lap), NoteKind::Profile, _) => {
                    lap.told_profile = Some(Digest::of(note.text.as_bytes()));
                }
                (Some(lap), NoteKind::Evidence, _) => lap.told_evidence = true,
                (Some(lap), NoteKind::Catalogue, _) => {
                    lap.told_catalogue = Some(Digest::of(note.text.as_bytes()));
                }
                (Some(_), NoteKind::Rejected | NoteKind::Prompt, _)
                | (Some(_), NoteKind::Phase, None)
                | (None, ..) => {}
            }
        }
        self.turns.push_back(Arc::new(Turn {
            number,
            notes,
            images: std::mem::take(&mut self.feedback_images),
            text: reply.text.into(),
            calls,
            told: OrdMap::new(),
            finish: reply.finish,
            native: reply.native.clone(),
        }));
    }

    /// Counts what was paid for replies that could not be used.
    pub(super) fn pay(&mut self, usage: &Usage) {
        self.usage = self.usage.plus(usage);
        self.spent = self.spent.plus(usage);
        if let Some(lap) = &mut self.lap {
            lap.usage = lap.usage.plus(usage);
        }
    }

    /// What a reply cost: as the provider counts, and by bytes where it counts nothing.
    pub(super) fn believed(&self, usage: &Usage, text: &str, calls: &[Arc<RawCall>]) -> Usage {
        if usage.input_tokens > 0 || usage.output_tokens > 0 {
            return *usage;
        }
        let calls = calls.iter().map(|call| call.name.len() + call.args.len());
        let output_tokens = count(text.len() + calls.sum::<usize>()) / 4;
        Usage { input_tokens: self.asked_tokens, output_tokens, ..*usage }
    }

    /// Keeps how the last call of a tool went. One that was not run for want of room or of a
    /// person says nothing of the tool.
    pub(super) fn remember(&mut self, name: &str, told: &Told) {
        let unsaid = [Code::CALLS_OVER_LIMIT, Code::APPROVAL_PENDING];
        if told.envelope.code().is_some_and(|code| unsaid.contains(code)) {
            return;
        }
        let name: Arc<str> = name.chars().take(80).collect::<String>().into();
        // Such a call says nothing of a tool, and no later call by that name could make it good.
        let not_callable =
            [Code::TOOL_UNKNOWN, Code::TOOL_NOT_GRANTED, Code::TOOL_HELD, Code::POLICY_DENIED];
        if told.envelope.code().is_some_and(|code| not_callable.contains(code)) {
            self.not_callable = Some((name, self.turn));
            return;
        }
        let later = |(_, turn): &(Arc<str>, u64)| self.turn != *turn;
        if told.envelope.ok && self.not_callable.as_ref().is_some_and(later) {
            self.not_callable = None;
        }
        if self.results.len() < RESULTS_MAX || self.results.contains_key(&name) {
            self.results.insert(name, told.envelope.ok);
        }
    }

    /// Whether the only reply since a turn has neither words nor calls nor directives.
    pub fn said_nothing_since(&self, turn: u64) -> bool {
        let only = self.turns.back().filter(|_| self.turn == turn + 1 && !self.has_directives);
        only.is_some_and(|turn| is_unseen(&turn.text) && turn.calls.is_empty())
    }

    /// Calls of the open iteration that count; in a conversation those since a person spoke.
    pub fn counted_calls(&self) -> u64 {
        let calls = self.lap.as_ref().map_or(0, |lap| lap.calls);
        calls.saturating_sub(self.calls_before_words())
    }

    /// Calls that no longer count, because a person of the conversation spoke after them.
    pub fn calls_before_words(&self) -> u64 {
        self.lap.as_ref().filter(|_| self.chat).map_or(0, |lap| lap.before_words.0)
    }
}
