//! Decides what the log says of a model's reply: why it stopped, what it cost, and what went wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;

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

/// A reply in its dialect's own form, as it is sent back: kept when it says more than words and
/// calls, such as thoughts with their signatures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    /// The dialect; no other one can use it.
    pub dialect: String,
    /// What is sent back.
    pub content: Value,
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
}

/// What went wrong with a request to a model.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// There is no connection.
    Unreachable,
    /// There is no trusted connection.
    Tls,
    /// It took too long.
    TimedOut,
    /// Too many requests for now.
    RateLimited,
    /// The provider has trouble of its own.
    Overloaded,
    /// There is no money left, or a spending limit is reached.
    Billing,
    /// The key is missing, wrong, or not allowed to do this.
    Unauthorized,
    /// There is no such model or address.
    NotFound,
    /// The provider does not take the request.
    BadRequest,
    /// The request is longer than the provider takes.
    TooLarge,
    /// The stream ended before the reply did.
    CutOff,
    /// The answer is not what the dialect says.
    Unreadable,
    /// The reply ran out of room inside a call.
    Truncated,
    /// A filter stopped it.
    Filtered,
    /// The provider says that the model wrote a call it cannot read.
    MalformedCall,
    /// The reply says that there are calls, and there is none.
    NoCalls,
    /// The reply stopped for a reason that is not known.
    UnknownFinish,
    /// The address sends somewhere else, and is not followed.
    Redirected,
    /// It failed too often, so it is left alone for a while.
    CircuitOpen,
    /// The model cannot be used as it is set up.
    #[default]
    Unusable,
}

impl FaultKind {
    /// The kind as one word, as the log has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::TimedOut => "timed_out",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Billing => "billing",
            Self::Unauthorized => "unauthorized",
            Self::NotFound => "not_found",
            Self::BadRequest => "bad_request",
            Self::TooLarge => "too_large",
            Self::CutOff => "cut_off",
            Self::Unreadable => "unreadable",
            Self::Truncated => "truncated",
            Self::Filtered => "filtered",
            Self::MalformedCall => "malformed_call",
            Self::NoCalls => "no_calls",
            Self::UnknownFinish => "unknown_finish",
            Self::Redirected => "redirected",
            Self::CircuitOpen => "circuit_open",
            Self::Unusable => "unusable",
        }
    }

    /// Whether the tools of the request may be why it was turned down.
    pub fn may_be_tools(self) -> bool {
        match self {
            Self::NotFound
            | Self::BadRequest
            | Self::TooLarge
            | Self::Overloaded
            | Self::Unreadable
            | Self::MalformedCall
            | Self::UnknownFinish => true,
            Self::Unreachable
            | Self::Tls
            | Self::TimedOut
            | Self::RateLimited
            | Self::Billing
            | Self::Unauthorized
            | Self::CutOff
            | Self::Truncated
            | Self::Filtered
            | Self::NoCalls
            | Self::Redirected
            | Self::CircuitOpen
            | Self::Unusable => false,
        }
    }

    /// Whether the same words would be turned down again.
    pub fn about_the_request(self) -> bool {
        matches!(self, Self::TooLarge | Self::BadRequest | Self::Unusable)
    }

    /// Whether asking again later, perhaps in other words, may help.
    pub fn passing(self) -> bool {
        match self {
            Self::Unreachable
            | Self::TimedOut
            | Self::RateLimited
            | Self::Overloaded
            | Self::BadRequest
            | Self::TooLarge
            | Self::CutOff
            | Self::Unreadable
            | Self::Truncated
            | Self::MalformedCall
            | Self::NoCalls
            | Self::UnknownFinish => true,
            Self::Tls
            | Self::Billing
            | Self::Unauthorized
            | Self::NotFound
            | Self::Filtered
            | Self::Redirected
            | Self::CircuitOpen
            | Self::Unusable => false,
        }
    }
}
