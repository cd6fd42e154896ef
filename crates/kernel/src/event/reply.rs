//! Decides what the log says of a model's reply: why it stopped, what it cost, and which tries failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::FaultKind;
use crate::digest::{Digest, Tag};

/// Why a model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants calls made.
    Calls,
    /// It ran out of room.
    Length,
    /// It was cut off by a filter, or declined.
    Refused,
    /// Its provider made a pause, and wants to be asked to go on.
    Paused,
}

/// Tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Tokens read, those from the cache too.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens read that the provider put into its cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_written_tokens: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Both together. What a provider says is not trusted, so a sum stops at the largest number.
    pub fn plus(&self, more: &Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(more.input_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(more.cached_tokens),
            cache_written_tokens: self
                .cache_written_tokens
                .saturating_add(more.cache_written_tokens),
        }
    }
}

impl Usage {
    /// What was paid for replies that nobody saw: those of tries that failed.
    pub fn discarded(attempts: &[Attempt], last: Option<&Self>) -> Self {
        let paid = attempts.iter().filter_map(|attempt| attempt.usage.as_ref()).chain(last);
        paid.fold(Self::default(), |sum, usage| sum.plus(usage))
    }
}

/// A reply in its dialect's own form, as it is sent back: kept when it says more than words and
/// calls, such as thoughts with their signatures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    /// The dialect; no other one can use it.
    pub dialect: String,
    /// Which model at which address made it. What is sealed in it opens nowhere else, so it goes
    /// back to no other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<Tag>,
    /// What is sent back.
    pub content: Value,
}

impl Native {
    /// A reply of nobody in particular.
    pub fn new(dialect: &str, content: Value) -> Self {
        Self { dialect: dialect.to_owned(), maker: None, content }
    }
}

/// A picture shown to the model. Its bytes are kept by their hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// What kind of picture it is, such as `image/png`.
    pub media_type: String,
    /// The hash of its bytes.
    pub hash: Digest,
}

/// A try of a request that failed, before another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attempt {
    /// What went wrong.
    pub fault: FaultKind,
    /// The same in words, without secrets.
    pub reason: String,
    /// The server's status, where it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Milliseconds that were waited after it.
    pub waited_ms: u64,
    /// What it cost, where the provider says so: a reply that cannot be used is paid for too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}
