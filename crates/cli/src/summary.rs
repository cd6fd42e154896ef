//! Decides what is said of a run at its end: figures per phase, and the files it made.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_kernel::event::{Event, FileChange, IterationClosed, Outcome, Record, Usage};

use crate::console::{bold, fit, grouped, say, visible};

/// The figures of a run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Figures per phase, in the order they were entered.
    pub(crate) phases: IndexMap<String, Figures>,
    /// One row per iteration.
    pub(crate) iterations: Vec<IterationClosed>,
    /// One row per request that was answered.
    pub(crate) requests: Vec<RequestRow>,
    /// What each change of phase cost: the first request after it.
    pub(crate) transitions: Vec<TransitionRow>,
    /// Files that calls wrote and that are still there, in order.
    pub(crate) files: Vec<String>,
}

/// What one request cost.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RequestRow {
    turn: u64,
    phase: String,
    input_tokens: u64,
    /// Of these, read from the provider's cache.
    cached_tokens: u64,
    output_tokens: u64,
}

/// What a change of phase cost.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TransitionRow {
    from: String,
    to: String,
    /// The request that followed.
    turn: u64,
    input_tokens: u64,
    cached_tokens: u64,
    /// Tokens the provider had to read anew.
    fresh_tokens: u64,
}

/// The figures of one phase.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Figures {
    iterations: u64,
    calls: u64,
    refused: u64,
    failed: u64,
    tokens: u64,
    /// Of the tokens, those that were read.
    input_tokens: u64,
    /// Of the tokens read, those from the provider's cache.
    cached_tokens: u64,
    /// Of the tokens, those of replies that could not be used.
    discarded_tokens: u64,
    took_ms: u64,
}

/// Where the reading of a log has come to.
#[derive(Default)]
struct Course {
    phase: String,
    /// The phase before, until a request shows what the change cost.
    from: Option<String>,
    files: BTreeMap<String, bool>,
}

impl Summary {
    /// The figures of a session's records.
    pub(crate) fn of(records: &[Record<Event>]) -> Self {
        let (mut summary, mut course) = (Self::default(), Course::default());
        records.iter().for_each(|record| summary.take(record, &mut course));
        let there = course.files.into_iter().filter(|(_, there)| *there);
        summary.files = there.map(|file| file.0).collect();
        summary
    }

    fn take(&mut self, record: &Record<Event>, course: &mut Course) {
        let Course { phase, from, files } = course;
        match &record.event {
            Event::ConfigBound { phase: bound, .. } => *phase = bound.to_string(),
            Event::PhaseEntered { phase: entered, .. } => {
                from.get_or_insert_with(|| phase.clone());
                *phase = entered.to_string();
            }
            Event::ModelFailed { attempts, usage, .. } => {
                self.discarded(phase, &Usage::discarded(attempts, usage.as_ref()));
            }
            Event::ModelReplied { turn, usage, attempts, .. } => {
                self.discarded(phase, &Usage::discarded(attempts, None));
                self.request(*turn, phase, from.take(), usage);
            }
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
                figures.took_ms = figures.took_ms.saturating_add(closed.took_ms);
                self.iterations.push(closed.as_ref().clone());
            }
            // A conversation has one, which stays open.
            Event::IterationOpened { .. } => self.figures(phase).iterations += 1,
            Event::Opened { .. }
            | Event::Forked(_)
            | Event::RequestOpened(_)
            | Event::PlanSent { .. }
            | Event::CallReceived { .. }
            | Event::CallAdmitted(_)
            | Event::CallAsked { .. }
            | Event::CallStarted { .. }
            | Event::FileConflicted { .. }
            | Event::StateChanged { .. }
            | Event::Undone(_)
            | Event::ToolsSupplied { .. }
            | Event::LogRestored { .. }
            | Event::Heard { .. }
            | Event::Ended { .. } => {}
        }
    }

    fn request(&mut self, turn: u64, phase: &str, from: Option<String>, usage: &Usage) {
        let (input_tokens, cached_tokens) = (usage.input_tokens, usage.cached_tokens);
        self.figures(phase).pay(usage);
        let (phase, output_tokens) = (phase.to_owned(), usage.output_tokens);
        if let Some(from) = from {
            let fresh_tokens = input_tokens.saturating_sub(cached_tokens);
            let to = phase.clone();
            let row = TransitionRow { from, to, turn, input_tokens, cached_tokens, fresh_tokens };
            self.transitions.push(row);
        }
        let row = RequestRow { turn, phase, input_tokens, cached_tokens, output_tokens };
        self.requests.push(row);
    }

    fn discarded(&mut self, phase: &str, usage: &Usage) {
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        if tokens > 0 {
            let figures = self.figures(phase);
            figures.pay(usage);
            figures.discarded_tokens = figures.discarded_tokens.saturating_add(tokens);
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
        let total = self.total();
        if total.cached_tokens > 0 {
            let (cached, read) = (grouped(total.cached_tokens), grouped(total.input_tokens));
            say(&fit(&format!("  {cached} of {read} tokens read came from the provider's cache")));
        }
        let fresh: u64 = self.transitions.iter().map(|row| row.fresh_tokens).sum();
        if fresh > 0 {
            let changes = self.transitions.len();
            let s = if changes == 1 { "" } else { "s" };
            let fresh = grouped(fresh);
            say(&fit(&format!("  {changes} phase change{s} cost {fresh} tokens read anew")));
        }
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
            total.input_tokens = total.input_tokens.saturating_add(figures.input_tokens);
            total.cached_tokens = total.cached_tokens.saturating_add(figures.cached_tokens);
            total.took_ms = total.took_ms.saturating_add(figures.took_ms);
        }
        total
    }
}

impl Figures {
    fn pay(&mut self, usage: &Usage) {
        let both = usage.input_tokens.saturating_add(usage.output_tokens);
        self.tokens = self.tokens.saturating_add(both);
        self.input_tokens = self.input_tokens.saturating_add(usage.input_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(usage.cached_tokens);
    }

    fn row(&self, phase: &str) -> [String; 6] {
        let [iterations, calls, refused, failed, tokens] =
            [self.iterations, self.calls, self.refused, self.failed, self.tokens].map(grouped);
        [phase.to_owned(), iterations, calls, refused, failed, tokens]
    }
}
