//! Decides what a plan is and how it may change. Pure: tools load it, change it, and keep it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest objective or title, in characters, after trimming.
pub const TEXT_CHARS_MAX: usize = 500;

/// Most steps of one plan.
pub const STEPS_MAX: usize = 200;

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Finished.
    Done,
}

impl StepStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }
}

/// Whether a plan can still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// There is something left to do, or nothing was planned yet.
    Active,
    /// Every step is done; the plan can only be replaced.
    Completed,
}

impl PlanStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
        }
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStep {
    /// Its number within the plan; none is used twice, also after an undo.
    pub step_id: u64,
    /// What is to be done.
    pub title: String,
    /// How far it has come.
    pub status: StepStatus,
}

/// An objective and the steps towards it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// What the plan is for.
    pub objective: String,
    /// Completed when there are steps and all are done; active otherwise.
    pub status: PlanStatus,
    /// The steps, in the order of their numbers.
    pub steps: Vec<PlanStep>,
}

/// What cannot be done to a plan. The model reads this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PlanRefusal {
    #[error("No plan is currently initialised.")]
    NoPlan,
    #[error("Plan must be active. Current status: {}.", .0.word())]
    NotActive(PlanStatus),
    #[error("{what} must not be empty.")]
    Blank { what: &'static str, path: String },
    #[error("{what} must be <= {TEXT_CHARS_MAX} characters.")]
    TooLong { what: &'static str, path: String },
    #[error("Provide at least one step to add.")]
    NothingToAdd,
    #[error("Provide a new title or status to update a step.")]
    NothingToUpdate,
    #[error("Step {step_id} does not exist.")]
    NoSuchStep { step_id: u64, known: Vec<u64> },
    #[error(
        "A plan holds at most {STEPS_MAX} steps; this one would have {count}. Use fewer steps."
    )]
    TooManySteps { count: usize },
    #[error("The plan would have {bytes} bytes; at most {max} can be shown. Shorten it.")]
    TooLarge { bytes: u64, max: u64 },
}

impl Plan {
    /// A new plan; its steps are numbered from 1.
    pub(super) fn new(objective: &str, titles: &[String]) -> Result<Self, PlanRefusal> {
        let objective = checked("Objective", "objective".to_owned(), objective)?;
        let mut plan = Self { objective, status: PlanStatus::Active, steps: Vec::new() };
        plan.append(checked_titles("initial_steps", titles)?, 0)?;
        Ok(plan)
    }

    /// Puts steps at the end. Their numbers are above those of the others, and above `taken`.
    pub(super) fn add(&mut self, titles: &[String], taken: u64) -> Result<(), PlanRefusal> {
        self.must_be_active()?;
        let titles = checked_titles("steps", titles)?;
        if titles.is_empty() {
            return Err(PlanRefusal::NothingToAdd);
        }
        self.append(titles, taken)
    }

    /// Gives a step another title, another status, or both.
    pub(super) fn update(
        &mut self,
        step_id: u64,
        title: Option<&str>,
        status: Option<StepStatus>,
    ) -> Result<(), PlanRefusal> {
        self.must_be_active()?;
        let title = title.map(|title| checked("Title", "title".to_owned(), title)).transpose()?;
        if title.is_none() && status.is_none() {
            return Err(PlanRefusal::NothingToUpdate);
        }
        let Some(step) = self.steps.iter_mut().find(|step| step.step_id == step_id) else {
            let known = self.steps.iter().map(|step| step.step_id).collect();
            return Err(PlanRefusal::NoSuchStep { step_id, known });
        };
        if let Some(title) = title {
            step.title = title;
        }
        step.status = status.unwrap_or(step.status);
        if self.steps.iter().all(|step| step.status == StepStatus::Done) {
            self.status = PlanStatus::Completed;
        }
        Ok(())
    }

    /// The plan as a person reads it, for a terminal or a page.
    pub fn render(&self) -> String {
        let mut text = format!("Objective: {}\nStatus: {}\n", self.objective, self.status.word());
        if self.steps.is_empty() {
            text.push_str("\n<no steps>");
        }
        for PlanStep { step_id, title, status } in &self.steps {
            text.push_str(&format!("\n{step_id} [{}] {title}", status.word()));
        }
        text
    }

    fn must_be_active(&self) -> Result<(), PlanRefusal> {
        match self.status {
            PlanStatus::Active => Ok(()),
            PlanStatus::Completed => Err(PlanRefusal::NotActive(self.status)),
        }
    }

    fn append(&mut self, titles: Vec<String>, taken: u64) -> Result<(), PlanRefusal> {
        let count = self.steps.len() + titles.len();
        if count > STEPS_MAX {
            return Err(PlanRefusal::TooManySteps { count });
        }
        let first = self.steps.last().map_or(0, |last| last.step_id).max(taken) + 1;
        let step = |(step_id, title)| PlanStep { step_id, title, status: StepStatus::Pending };
        self.steps.extend((first..).zip(titles).map(step));
        Ok(())
    }
}

fn checked_titles(field: &str, titles: &[String]) -> Result<Vec<String>, PlanRefusal> {
    let title = |(at, title): (usize, &String)| checked("Title", format!("{field}[{at}]"), title);
    titles.iter().enumerate().map(title).collect()
}

/// A text as it is kept. `path` is the argument it came from.
fn checked(what: &'static str, path: String, text: &str) -> Result<String, PlanRefusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(PlanRefusal::Blank { what, path });
    }
    if text.chars().count() > TEXT_CHARS_MAX {
        return Err(PlanRefusal::TooLong { what, path });
    }
    Ok(text.to_owned())
}
