//! Decides what words from outside leave in a session, and what becomes of words that the provider
//! turned down.

use std::sync::Arc;

use imbl::Vector;

use super::person::AnswerSource;
use super::{Session, bytes};
use crate::actor::Actor;
use crate::approval::{DecisionSigner, SignedAnswer};
use crate::decision::DecisionRef;
use crate::event::{Basis, Image, Said, StreamId};
use crate::plan::opening;
use crate::time::Timestamp;

impl Session {
    pub(super) fn hears(
        &mut self,
        said: &Said,
        actor: &Actor,
        at: Timestamp,
        signer: Option<DecisionSigner>,
    ) {
        match said {
            Said::Feedback { text, images } => {
                self.awaits &= !actor.is_human();
                self.rejections = 0;
                self.flow.hear(text, actor);
                let images: Vector<Arc<Image>> = images.iter().cloned().map(Arc::new).collect();
                if self.withdraws() && self.turns.is_empty() {
                    return self.begins_with(text, images);
                }
                self.feedback.push_back(text.as_str().into());
                self.feedback_images.append(images);
            }
            Said::GoOn {} => self.awaits = false,
            Said::Stop { reason } => self.stop = Some(reason.as_str().into()),
            Said::Answer(word) => {
                // Only a person signs. Who is named beside another answer signed nothing.
                let signer = signer.filter(|_| matches!(actor, Actor::Human(_)));
                if let Some(DecisionSigner { role, .. }) = signer {
                    let confirmed = word.confirmed.clone();
                    self.answers.insert(self.inbox, SignedAnswer { role, confirmed });
                }
                let stream = StreamId::Inbox(self.id.clone());
                let decision = DecisionRef { stream, seq: self.inbox, hash: self.inbox_hash };
                let basis = match (actor, word.delegation) {
                    (Actor::Human(_), _) => Basis::Answer(decision.clone()),
                    (Actor::ClientUser(_), Some(delegation)) => {
                        Basis::Delegation { delegation, answer: decision.clone() }
                    }
                    _ => return,
                };
                self.hears_answer(word, &AnswerSource { who: actor, at, basis, decision, signer });
            }
            Said::Withdraw { tool, policy } => {
                self.withdraw(tool, policy);
            }
            Said::ClearTaint { seen, reason: _ } => self.flow.clear(*seen),
        }
    }

    /// Whether other words come after some that were turned down. Those are not said again, or
    /// nothing could be said any more. Where these are turned down too, the context is to blame:
    /// the failure stands, and the conversation begins anew.
    fn withdraws(&mut self) -> bool {
        let turned_down = self.failure.as_ref().is_some_and(|(fault, _)| fault.may_be_last_words());
        let Some(lap) = self.lap.as_mut().filter(|_| self.chat && turned_down) else {
            return false;
        };
        self.feedback.clear();
        self.feedback_images.clear();
        if !lap.withdrew || self.turns.is_empty() {
            self.failure = None;
        }
        lap.withdrew = true;
        true
    }

    /// Begins the open iteration with other words than it did.
    fn begins_with(&mut self, text: &str, images: Vector<Arc<Image>>) {
        (self.input, self.images) = (text.into(), images);
        if let Some(lap) = &mut self.lap {
            lap.rolled = opening(&self.system, text, &self.images);
            lap.rolled_bytes = bytes(&self.system) + bytes(text);
        }
    }
}
