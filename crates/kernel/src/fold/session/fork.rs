//! Decides what a session takes over from the one it was forked from, and what it does not.

use crate::digest::Digest;
use crate::event::Forked;
use crate::fold::{InformationFlow, OpenCalls, Session};
use crate::seeded::{Bug, seeded};

impl Session {
    /// What a fork begins with: everything, but for what belongs to this session alone. A person's
    /// yes was given here, the inbox is here, and the end and the wish to stop are of here.
    pub fn carried(&self) -> Self {
        Self {
            open: OpenCalls::default(),
            asking: false,
            waiting: Default::default(),
            allowances: Default::default(),
            statements: Default::default(),
            answers: Default::default(),
            client_bytes: Default::default(),
            starter: None,
            stop: None,
            ended: None,
            inbox: 0,
            inbox_hash: Digest::ZERO,
            saw: None,
            origin: None,
            flow: match seeded(Bug::TaintLostAtFork) {
                true => InformationFlow::default(),
                false => self.flow.clone(),
            },
            ..self.clone()
        }
    }

    /// Begins with what another session knew. What is not carried over is not taken from the record
    /// either, whatever it says.
    pub(super) fn forked(&mut self, forked: &Forked) {
        let own = std::mem::replace(self, forked.carried.carried());
        (self.id, self.seq, self.epoch) = (own.id, own.seq, own.epoch);
        (self.opened_at, self.last_at, self.saw) = (own.opened_at, own.last_at, own.saw);
        self.flow.taken_over_at(self.seq);
        (self.starter, self.origin) = (own.starter, Some(forked.from.clone()));
        if !forked.note.is_empty() {
            self.feedback.push_back(forked.note.as_str().into());
        }
    }

    /// Whether it can be forked here: it has begun, no call is on its way, and the model is not being
    /// asked, so that every call of the conversation has its result.
    pub fn whole(&self) -> bool {
        self.phase.is_some() && self.open.is_empty() && !self.asking
    }
}
