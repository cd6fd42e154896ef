//! Decides what can go wrong with a request to a model, and what each fault means for what follows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The reply is neither a call of the JSON protocol nor an answer.
    ToolCallRejected,
    /// The reply does not call the tool that the request requires.
    ToolRequired,
    /// The evidence of the reply was not accepted.
    EvidenceRejected,
    /// A person stopped it.
    Stopped,
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
            Self::ToolCallRejected => "tool_call_rejected",
            Self::ToolRequired => "tool_required",
            Self::EvidenceRejected => "evidence_rejected",
            Self::Stopped => "stopped",
            Self::Unusable => "unusable",
        }
    }

    /// Whether there was a whole reply, which is not accepted: the model is told why, once.
    pub fn rejects_reply(self) -> bool {
        matches!(self, Self::ToolCallRejected | Self::ToolRequired | Self::EvidenceRejected)
    }

    /// How often the very same request is worth another try.
    pub fn worth(self) -> Worth {
        self.meaning().worth
    }

    /// Whether it is the provider's trouble, which a breaker counts, and no fault of a request.
    pub fn is_trouble(self) -> bool {
        self.worth() == Worth::Always
    }

    /// Whether asking again later, perhaps in other words, may help.
    pub fn passing(self) -> bool {
        self.meaning().passing
    }

    /// Whether another model may answer where this one failed: it cannot be used, and the request
    /// is not to blame.
    pub fn stands_in(self) -> bool {
        self.meaning().stands_in
    }

    /// Whether the same words would be turned down again.
    pub fn about_the_request(self) -> bool {
        self.meaning().blames.contains(&Part::Words)
    }

    /// Whether what was said last may be why it was turned down.
    pub fn may_be_last_words(self) -> bool {
        self.meaning().blames.contains(&Part::LastWords)
    }

    /// Whether the tools of the request may be why it was turned down.
    pub fn may_be_tools(self) -> bool {
        self.meaning().blames.contains(&Part::Tools)
    }

    /// Whether the form that was asked for may be why it was turned down.
    pub fn may_be_form(self) -> bool {
        self.meaning().blames.contains(&Part::Form)
    }

    /// The one table of what a fault means.
    fn meaning(self) -> Meaning {
        use Part::{Form, LastWords, Tools, Words};
        use Worth::{Always, Never, Once};
        let of = |worth, passing, stands_in, blames| Meaning { worth, passing, stands_in, blames };
        match self {
            //                        the same  later  another model  what is to blame
            Self::Unreachable => of(Always, true, true, &[]),
            Self::Tls => of(Always, false, true, &[]),
            Self::TimedOut => of(Always, true, true, &[]),
            Self::RateLimited => of(Always, true, true, &[]),
            Self::Overloaded => of(Always, true, true, &[Tools, Form]),
            Self::CutOff => of(Always, true, true, &[]),
            Self::Billing => of(Never, false, true, &[]),
            Self::Unauthorized => of(Never, false, true, &[]),
            Self::NotFound => of(Never, false, true, &[Tools]),
            Self::Redirected => of(Never, false, true, &[]),
            Self::CircuitOpen => of(Never, false, true, &[]),
            Self::ToolCallRejected => of(Never, false, false, &[]),
            Self::ToolRequired => of(Never, false, false, &[]),
            Self::EvidenceRejected => of(Never, false, false, &[]),
            Self::Stopped => of(Never, true, false, &[]),
            Self::BadRequest => of(Never, true, false, &[LastWords, Words, Tools, Form]),
            Self::TooLarge => of(Never, true, false, &[Words, Tools, Form]),
            Self::Filtered => of(Never, false, false, &[LastWords]),
            Self::UnknownFinish => of(Never, false, false, &[Tools, Form]),
            Self::Unreadable => of(Once, true, false, &[Tools, Form]),
            Self::Truncated => of(Once, true, false, &[Form]),
            Self::MalformedCall => of(Once, true, false, &[Tools, Form]),
            Self::NoCalls => of(Once, true, false, &[Form]),
            Self::Unusable => of(Never, false, false, &[Words]),
        }
    }
}

/// How often a fault is worth another try of the same request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worth {
    /// Never: the same request has the same answer.
    Never,
    /// Once: the model may write it otherwise.
    Once,
    /// As long as there are tries and time.
    Always,
}

/// What of a request may be why it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    LastWords,
    Words,
    Tools,
    Form,
}

/// What a fault means for what follows.
struct Meaning {
    worth: Worth,
    passing: bool,
    stands_in: bool,
    blames: &'static [Part],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_model_is_asked_only_when_the_request_is_not_to_blame() {
        use FaultKind as K;
        for kind in [K::Overloaded, K::TimedOut, K::Billing, K::Unauthorized, K::CircuitOpen] {
            assert!(kind.stands_in() && !kind.about_the_request(), "{kind:?}");
        }
        for kind in [K::BadRequest, K::TooLarge, K::Filtered, K::Unusable, K::Truncated] {
            assert!(!kind.stands_in(), "{kind:?}");
        }
        assert!(!K::Unauthorized.may_be_form() && K::BadRequest.may_be_form());
    }
}
