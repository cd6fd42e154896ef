//! Decides what is said of a run at its end: figures per phase, and the files it made.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_kernel::event::{Event, FileChange, IterationClosed, Outcome, Record};

use crate::console::{bold, fit, grouped, say, visible};

/// The figures of a run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Figures per phase, in the order they were entered.
    pub(crate) phases: IndexMap<String, Figures>,
    /// One row per iteration.
    pub(crate) iterations: Vec<IterationClosed>,
    /// Files that calls wrote and that are still there, in order.
    pub(crate) files: Vec<String>,
}

/// The figures of one phase.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Figures {
    iterations: u64,
    calls: u64,
    refused: u64,
    failed: u64,
    tokens: u64,
    took_ms: u64,
}

impl Summary {
    /// The figures of a session's records.
    pub(crate) fn of(records: &[Record<Event>]) -> Self {
        let (mut summary, mut files, mut phase) = (Self::default(), BTreeMap::new(), String::new());
        records.iter().for_each(|record| summary.take(record, &mut phase, &mut files));
        summary.files = files.into_iter().filter(|(_, there)| *there).map(|file| file.0).collect();
        summary
    }

    fn take(
        &mut self,
        record: &Record<Event>,
        phase: &mut String,
        files: &mut BTreeMap<String, bool>,
    ) {
        match &record.event {
            Event::ConfigBound { phase: bound, .. } => *phase = bound.to_string(),
            Event::PhaseEntered { phase: entered, .. } => *phase = entered.to_string(),
            Event::CallRefused(_) => {
                let figures = self.figures(phase);
                (figures.calls, figures.refused) = (figures.calls + 1, figures.refused + 1);
            }
            Event::CallSettled(settled) => {
                let figures = self.figures(phase);
                figures.calls += 1;
                figures.failed +=
                    u64::from(settled.outcome != Outcome::Done || !settled.envelope.ok);
                for FileChange { path, new, .. } in &settled.files {
                    files.insert(path.clone(), new.is_some());
                }
            }
            Event::IterationClosed(closed) => {
                let figures = self.figures(closed.start_phase.as_str());
                figures.iterations += 1;
                figures.tokens = figures.tokens.saturating_add(closed.input_tokens);
                figures.tokens = figures.tokens.saturating_add(closed.output_tokens);
                figures.took_ms = figures.took_ms.saturating_add(closed.took_ms);
                self.iterations.push(closed.as_ref().clone());
            }
            Event::Opened { .. }
            | Event::IterationOpened { .. }
            | Event::PlanSent { .. }
            | Event::ModelReplied { .. }
            | Event::ModelFailed { .. }
            | Event::CallReceived { .. }
            | Event::CallAdmitted(_)
            | Event::CallAsked { .. }
            | Event::CallStarted { .. }
            | Event::FileConflicted { .. }
            | Event::StateChanged { .. }
            | Event::Answered { .. }
            | Event::Heard { .. }
            | Event::Ended { .. } => {}
        }
    }

    fn figures(&mut self, phase: &str) -> &mut Figures {
        self.phases.entry(phase.to_owned()).or_default()
    }

    /// Prints the table and the files.
    pub(crate) fn print(&self, words: Option<&str>) {
        let head = ["phase", "iterations", "calls", "refused", "failed", "tokens"];
        let row = |(phase, figures): (&String, &Figures)| figures.row(phase);
        let mut rows: Vec<[String; 6]> = self.phases.iter().map(row).collect();
        if rows.len() > 1 {
            rows.push(self.total().row("total"));
        }
        let longest = rows.iter().map(|row| row.first().map_or(0, String::len)).max();
        let first = longest.unwrap_or(0).clamp(5, 28);
        let line = |cells: &[String; 6]| {
            let [phase, rest @ ..] = cells;
            let mut line = format!("  {phase:<first$}");
            for (cell, head) in rest.iter().zip(head.iter().skip(1)) {
                line.push_str(&format!("  {cell:>wide$}", wide = head.len().max(7)));
            }
            fit(&line)
        };
        say("");
        say(&bold(&line(&head.map(str::to_owned))));
        rows.iter().for_each(|row| say(&line(row)));
        for path in &self.files {
            let words = words.filter(|_| path == "manuscript.md");
            let note = words.map(|words| format!(" ({words} words)")).unwrap_or_default();
            say(&fit(&format!("  wrote {}{note}", visible(path))));
        }
    }

    fn total(&self) -> Figures {
        let mut total = Figures::default();
        for figures in self.phases.values() {
            total.iterations += figures.iterations;
            total.calls += figures.calls;
            total.refused += figures.refused;
            total.failed += figures.failed;
            total.tokens = total.tokens.saturating_add(figures.tokens);
            total.took_ms = total.took_ms.saturating_add(figures.took_ms);
        }
        total
    }
}

impl Figures {
    fn row(&self, phase: &str) -> [String; 6] {
        let [iterations, calls, refused, failed, tokens] =
            [self.iterations, self.calls, self.refused, self.failed, self.tokens].map(grouped);
        [phase.to_owned(), iterations, calls, refused, failed, tokens]
    }
}
