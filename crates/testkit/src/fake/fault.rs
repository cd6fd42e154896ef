//! Decides which faults can be staged, and under which names.

/// What goes wrong with one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// An error with its status, in the dialect's own form.
    Status {
        /// The status.
        status: u16,
        /// Headers besides.
        headers: Vec<(String, String)>,
        /// What programs read.
        code: String,
        /// What people read.
        words: String,
    },
    /// Any page at all.
    Page {
        /// The status.
        status: u16,
        /// Its type.
        kind: String,
        /// Its bytes.
        body: Vec<u8>,
    },
    /// The server points elsewhere.
    Redirect(String),
    /// The connection is closed without a word.
    Close,
    /// The request is taken, and nothing ever comes back.
    Silence,
    /// The head comes, and nothing after it.
    Stall,
    /// A byte at a time for ever.
    Drip,
    /// Comments for ever.
    Pings,
    /// The connection is closed after so many bytes of the body.
    CutAt(usize),
    /// The body ends, as HTTP has it, after so many bytes.
    EndAt(usize),
    /// The reply itself is bent.
    Bent(Bend),
}

/// How a reply is bent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bend {
    /// It says that there are calls, and there is none.
    NoCalls,
    /// It says that it is done, and there are calls.
    StopWithCalls,
    /// It ran out of room inside a call.
    Truncated,
    /// It ran out of the model's context.
    ContextExceeded,
    /// The provider could not read the call that the model wrote.
    MalformedCall,
    /// The model called a tool that was not there.
    UnexpectedCall,
    /// A filter stopped it.
    Filtered,
    /// A filter stopped it half-way through a call.
    FilteredHalfWay,
    /// The model declined.
    Refused,
    /// The request itself was blocked.
    Blocked,
    /// The provider makes a pause.
    Paused,
    /// It stopped for a reason nobody knows.
    UnknownFinish,
    /// There is no reply in it.
    EmptyChoices,
    /// An error comes inside the stream.
    ErrorEvent,
    /// The same, because the model wrote a call that its server cannot read.
    FailedCallEvent,
    /// All calls have one id.
    DuplicateIds,
    /// No call has an id.
    BlankIds,
    /// Ids of 86 characters.
    LongIds,
    /// Calls share one index.
    SharedIndex,
    /// Indexes begin at one.
    IndexFromOne,
    /// A name comes in two pieces.
    SplitName,
    /// A name comes in every piece.
    RepeatedName,
    /// The end comes twice.
    DoubleFinish,
    /// Arguments are no JSON.
    BadArgs,
    /// Arguments are too long.
    HugeArgs,
    /// Arguments are nested too deep.
    DeepArgs,
    /// The first call's arguments come as JSON, nested deeper than JSON is read.
    DeepObject,
    /// A stream comes, and is called JSON.
    EventsAsJson,
    /// The figures of usage cannot be.
    UsageLie,
    /// A call is printed in the words.
    PrintedCall,
    /// A call is in the thoughts.
    CallInThoughts,
    /// A call is in a thought that the words begin with.
    CallInInlineThought,
    /// The one call comes as the old `function_call`.
    OldCall,
    /// The one call comes without a list.
    SingleCall,
}

/// Every fault with a name, and what it is.
pub const FAULTS: &[(&str, &str)] = &[
    ("rate_limited", "429 with Retry-After: 0"),
    ("rate_limited_long", "429 with Retry-After: 86400"),
    ("rate_limited_date", "429 with a date in 2099"),
    ("rate_limited_garbage", "429 with Retry-After: abc"),
    ("billing", "429 with insufficient_quota"),
    ("spend_limit", "429 with enforced_spend_limit_reached"),
    ("payment", "402"),
    ("overloaded", "529"),
    ("unavailable", "503"),
    ("server_error", "500"),
    ("html", "502 with an HTML page"),
    ("unauthorized", "401"),
    ("forbidden", "403"),
    ("not_found", "404"),
    ("bad_request", "400"),
    ("too_large", "413"),
    ("flat_too_large", "400, and the body itself is the error"),
    ("flat_too_large_200", "the same with 200"),
    ("detail_200", "200 with the errors of FastAPI"),
    ("plain_too_large", "500 in plain words"),
    ("failed_call", "400 with tool_use_failed"),
    ("wrong_key", "400, and only its words say that the key is wrong"),
    ("close", "the connection is closed"),
    ("silence", "nothing ever comes"),
    ("stall", "the head comes, and nothing after it"),
    ("drip", "a byte at a time for ever"),
    ("pings", "comments for ever"),
    ("cut", "the connection is closed after 200 bytes"),
    ("end", "the body ends after 200 bytes"),
    ("redirect", "302 to another server"),
    ("html_200", "200 with an HTML page"),
    ("bad_utf8", "200 with bytes that are no text"),
    ("empty", "200 with nothing"),
    ("error_200", "200 with an error in it"),
    ("no_calls", "says tools, has none"),
    ("stop_with_calls", "says stop, has calls"),
    ("truncated", "runs out of room inside a call"),
    ("context_exceeded", "runs out of context"),
    ("malformed_call", "the provider cannot read the call"),
    ("unexpected_call", "a tool that was not there"),
    ("filtered", "a filter stops it"),
    ("filtered_half_way", "a filter stops it half-way through a call"),
    ("refused", "the model declines"),
    ("blocked", "the request is blocked"),
    ("paused", "the provider makes a pause"),
    ("unknown_finish", "stops for a reason nobody knows"),
    ("empty_choices", "no reply in it"),
    ("error_event", "an error inside the stream"),
    ("failed_call_event", "tool_use_failed inside the stream"),
    ("duplicate_ids", "all calls have one id"),
    ("blank_ids", "no call has an id"),
    ("long_ids", "ids of 86 characters"),
    ("shared_index", "calls share one index"),
    ("index_from_one", "indexes begin at one"),
    ("split_name", "a name in two pieces"),
    ("repeated_name", "a name in every piece"),
    ("double_finish", "the end comes twice"),
    ("bad_args", "arguments are no JSON"),
    ("huge_args", "arguments of 300,000 characters"),
    ("deep_args", "arguments 120 levels deep"),
    ("deep_object", "the first arguments as JSON, 200 levels deep"),
    ("events_as_json", "a stream that is called JSON"),
    ("usage_lie", "figures that cannot be"),
    ("printed_call", "a call in the words"),
    ("call_in_thoughts", "a call in the thoughts"),
    ("call_in_inline_thought", "a call in a thought that the words begin with"),
    ("old_call", "the old function_call"),
    ("single_call", "a call without a list"),
];

impl Fault {
    /// An error with its status.
    pub fn status(status: u16, code: &str) -> Self {
        let (code, words) = (code.to_owned(), "staged".to_owned());
        Self::Status { status, headers: Vec::new(), code, words }
    }

    /// The same with a header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Status { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// The same in other words.
    pub fn saying(mut self, said: &str) -> Self {
        if let Self::Status { words, .. } = &mut self {
            said.clone_into(words);
        }
        self
    }

    /// Any page at all.
    pub fn page(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Page { status, kind: kind.to_owned(), body: body.into() }
    }

    /// The fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        let limited = || Self::status(429, "rate_limit_error");
        let html = "<html><body><h1>nginx CANARY</h1></body></html>";
        let error = r#"{"error":{"message":"something"}}"#;
        let flat = r#"{"object":"error","message":"The prompt is too large for model with 9 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}"#;
        let detail = r#"{"detail":[{"loc":["body"],"msg":"Extra inputs are not permitted"}]}"#;
        Some(match name {
            "none" => Self::None,
            "rate_limited" => limited().with("retry-after", "0"),
            "rate_limited_long" => limited().with("retry-after", "86400"),
            "rate_limited_date" => limited().with("retry-after", "Wed, 21 Oct 2099 07:28:00 GMT"),
            "rate_limited_garbage" => limited().with("retry-after", "abc"),
            "billing" => Self::status(429, "insufficient_quota"),
            "spend_limit" => Self::status(429, "enforced_spend_limit_reached"),
            "payment" => Self::status(402, "payment_required"),
            "overloaded" => Self::status(529, "overloaded_error"),
            "unavailable" => Self::status(503, "unavailable"),
            "server_error" => Self::status(500, "server_error"),
            "html" => Self::page(502, "text/html", html),
            "unauthorized" => Self::status(401, "authentication_error"),
            "forbidden" => Self::status(403, "permission_error"),
            "not_found" => Self::status(404, "not_found_error"),
            "bad_request" => Self::status(400, "invalid_request_error"),
            "too_large" => Self::status(413, "request_too_large"),
            "flat_too_large" => Self::page(400, "application/json", flat),
            "flat_too_large_200" => Self::page(200, "application/json", flat),
            "detail_200" => Self::page(200, "application/json", detail),
            "plain_too_large" => Self::page(500, "text/plain", "maximum context length is 9"),
            "failed_call" => Self::status(400, "tool_use_failed"),
            "wrong_key" => Self::status(400, "INVALID_ARGUMENT").saying("API key not valid."),
            "close" => Self::Close,
            "silence" => Self::Silence,
            "stall" => Self::Stall,
            "drip" => Self::Drip,
            "pings" => Self::Pings,
            "cut" => Self::CutAt(200),
            "end" => Self::EndAt(200),
            "redirect" => Self::Redirect("http://127.0.0.1:9/elsewhere".to_owned()),
            "html_200" => Self::page(200, "text/html", html),
            "bad_utf8" => Self::page(200, "application/json", b"{\"a\":\"\xff\"}".as_slice()),
            "empty" => Self::page(200, "application/json", ""),
            "error_200" => Self::page(200, "application/json", error),
            bent => Self::Bent(Bend::named(bent)?),
        })
    }
}

impl Bend {
    /// Whether a client may take a reply that is bent so.
    pub(super) fn is_usable(self) -> bool {
        ![
            Self::NoCalls,
            Self::Truncated,
            Self::ContextExceeded,
            Self::MalformedCall,
            Self::FailedCallEvent,
            Self::UnexpectedCall,
            Self::Blocked,
            Self::UnknownFinish,
            Self::EmptyChoices,
            Self::SplitName,
        ]
        .contains(&self)
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "no_calls" => Self::NoCalls,
            "stop_with_calls" => Self::StopWithCalls,
            "truncated" => Self::Truncated,
            "context_exceeded" => Self::ContextExceeded,
            "malformed_call" => Self::MalformedCall,
            "unexpected_call" => Self::UnexpectedCall,
            "filtered" => Self::Filtered,
            "filtered_half_way" => Self::FilteredHalfWay,
            "refused" => Self::Refused,
            "blocked" => Self::Blocked,
            "paused" => Self::Paused,
            "unknown_finish" => Self::UnknownFinish,
            "empty_choices" => Self::EmptyChoices,
            "error_event" => Self::ErrorEvent,
            "failed_call_event" => Self::FailedCallEvent,
            "duplicate_ids" => Self::DuplicateIds,
            "blank_ids" => Self::BlankIds,
            "long_ids" => Self::LongIds,
            "shared_index" => Self::SharedIndex,
            "index_from_one" => Self::IndexFromOne,
            "split_name" => Self::SplitName,
            "repeated_name" => Self::RepeatedName,
            "double_finish" => Self::DoubleFinish,
            "bad_args" => Self::BadArgs,
            "huge_args" => Self::HugeArgs,
            "deep_args" => Self::DeepArgs,
            "deep_object" => Self::DeepObject,
            "events_as_json" => Self::EventsAsJson,
            "usage_lie" => Self::UsageLie,
            "printed_call" => Self::PrintedCall,
            "call_in_thoughts" => Self::CallInThoughts,
            "call_in_inline_thought" => Self::CallInInlineThought,
            "old_call" => Self::OldCall,
            "single_call" => Self::SingleCall,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_fault_can_be_staged() {
        for (name, _) in FAULTS {
            assert!(Fault::named(name).is_some(), "{name}");
        }
        assert_eq!(Fault::named("made_up"), None);
    }
}
