//! Counts the work of one evaluation and stops it at the bound.

use super::EVALUATION_STEPS_MAX;
use super::fault::EvaluationFault;

/// How much text is read for one step.
const STEP_BYTES: usize = 64;

pub(super) struct Meter {
    steps_left: usize,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter { steps_left: EVALUATION_STEPS_MAX }
    }

    /// Takes `steps` from what is left.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), EvaluationFault> {
        match self.steps_left.checked_sub(steps) {
            Some(left) => {
                self.steps_left = left;
                Ok(())
            }
            None => {
                self.steps_left = 0;
                Err(EvaluationFault::TooMuchWork)
            }
        }
    }

    /// Takes what reading or building `bytes` of text costs.
    pub(super) fn spend_text(&mut self, bytes: usize) -> Result<(), EvaluationFault> {
        self.spend(bytes / STEP_BYTES)
    }
}
