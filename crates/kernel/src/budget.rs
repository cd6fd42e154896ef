//! Bounds the tokens that a run may spend.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::Usage;

/// What a run may spend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Tokens read and written; 2,000,000 when left out, unbounded only with `none`.
    pub total_tokens_max: TokenLimit,
    /// Tokens read.
    pub input_tokens_max: Option<u64>,
    /// Tokens written.
    pub output_tokens_max: Option<u64>,
}

/// How many tokens, or that there is no bound. A loop that nobody watches must not spend without one, so
/// that is written and never the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum TokenLimit {
    /// At most so many.
    Tokens(u64),
    /// `none`: no bound.
    Unbounded(NoLimit),
}

/// The word for no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoLimit {
    /// No bound.
    None,
}

/// Tokens that a run may spend where nothing is written.
pub const TOTAL_TOKENS_DEFAULT: u64 = 2_000_000;

impl Default for TokenLimit {
    fn default() -> Self {
        Self::Tokens(TOTAL_TOKENS_DEFAULT)
    }
}

impl TokenLimit {
    fn tokens(self) -> Option<u64> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            Self::Unbounded(NoLimit::None) => None,
        }
    }
}

/// The dimension that is overspent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Budget exceeded: {0}")]
pub struct Overspent(pub &'static str);

/// A budget that would forbid everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is 0: a budget must be at least 1; `total_tokens_max: none` is no bound")]
pub struct BudgetRefusal(pub &'static str);

impl Budget {
    /// Refuses zero.
    pub fn check(&self) -> Result<(), BudgetRefusal> {
        self.refusals().next().map_or(Ok(()), Err)
    }

    /// Every limit that is zero.
    pub fn refusals(&self) -> impl Iterator<Item = BudgetRefusal> {
        let limits = [
            ("input_tokens_max", self.input_tokens_max),
            ("output_tokens_max", self.output_tokens_max),
            ("total_tokens_max", self.total_tokens_max.tokens()),
        ];
        let zero = limits.into_iter().filter(|(_, limit)| *limit == Some(0));
        zero.map(|(name, _)| BudgetRefusal(name))
    }

    /// Refuses usage that is over a limit; exactly at it is fine.
    pub fn allows(&self, usage: &Usage) -> Result<(), Overspent> {
        let total = usage.input_tokens.saturating_add(usage.output_tokens);
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used > limit);
        if over(self.input_tokens_max, usage.input_tokens) {
            return Err(Overspent("input_tokens"));
        }
        if over(self.output_tokens_max, usage.output_tokens) {
            return Err(Overspent("output_tokens"));
        }
        if over(self.total_tokens_max.tokens(), total) {
            return Err(Overspent("total_tokens"));
        }
        Ok(())
    }
}

/// Usage reported as running totals by several sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meter {
    totals: BTreeMap<String, Usage>,
}

impl Meter {
    /// Notes a source's running total; it replaces the one before.
    pub fn note(&mut self, source: &str, total: Usage) {
        self.totals.insert(source.to_owned(), total);
    }

    /// All sources together.
    pub fn sum(&self) -> Usage {
        self.totals.values().fold(Usage::default(), |sum, usage| sum.plus(usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(input: u64, output: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    }

    /// W28: totals of one source replace each other, those of several add up.
    #[test]
    fn running_totals_replace_and_sources_add() {
        let budget = Budget { total_tokens_max: TokenLimit::Tokens(100), ..Budget::default() };
        let mut meter = Meter::default();
        meter.note("a", used(40, 20));
        meter.note("a", used(60, 30));
        assert_eq!(budget.allows(&meter.sum()), Ok(()));
        meter.note("b", used(10, 10));
        assert_eq!(budget.allows(&meter.sum()), Err(Overspent("total_tokens")));
    }

    #[test]
    fn exactly_the_limit_is_fine_and_zero_is_refused() {
        let budget = Budget { input_tokens_max: Some(10), ..Budget::default() };
        assert_eq!(budget.allows(&used(10, 99)), Ok(()));
        assert_eq!(budget.allows(&used(11, 0)), Err(Overspent("input_tokens")));
        assert!(Budget { output_tokens_max: Some(0), ..Budget::default() }.check().is_err());
    }

    #[test]
    fn a_budget_without_a_bound_is_written() {
        let read = |text| serde_json::from_str::<Budget>(text).unwrap();
        let spent = used(TOTAL_TOKENS_DEFAULT, 1);
        assert_eq!(read("{}").allows(&spent), Err(Overspent("total_tokens")));
        let other = read(r#"{"output_tokens_max":5}"#).allows(&spent);
        assert_eq!(other, Err(Overspent("total_tokens")));
        assert_eq!(read(r#"{"total_tokens_max":"none"}"#).allows(&spent), Ok(()));
        assert!(serde_json::from_str::<Budget>(r#"{"total_tokens_max":"some"}"#).is_err());
    }
}
