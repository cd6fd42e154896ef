//! Decides what each provider takes of a JSON Schema.

/// Where a schema is sent. Each has rules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// Tools of the OpenAI APIs and of every server that speaks like them.
    OpenAi,
    /// Structured output of the OpenAI APIs, enforced by them.
    OpenAiStrict,
    /// Tools of the Anthropic API.
    Anthropic,
    /// Structured output of the Anthropic API, enforced by it.
    AnthropicStrict,
    /// Tools and structured output of the Gemini API, where it takes JSON Schema.
    Gemini,
}

/// How a value that may be null is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// As a list of types.
    Listed,
    /// As one of several forms.
    Form,
}

/// What a provider takes.
pub(super) struct Table {
    /// Keywords that bound a value. Others are told in words.
    pub(super) bounds: &'static [&'static str],
    /// Formats of a text. Others are told in words.
    pub(super) formats: &'static [&'static str],
    /// Highest count that may stand in `minItems` and `maxItems`.
    pub(super) items_max: u64,
    /// How a value that may be null is written.
    pub(super) nulls: Nulls,
    /// Whether a field that may be left out need not say that it may be null, too.
    pub(super) plain_optional: bool,
    /// Whether a choice may offer anything but texts and numbers.
    pub(super) any_choice: bool,
    /// Whether names of fields are bounded to 64 plain characters.
    pub(super) plain_names: bool,
}

/// Formats that JSON Schema itself names.
const TEXTS: &[&str] =
    &["date-time", "date", "time", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Servers that build a grammar from a schema refuse patterns without anchors and long
/// repetitions, so the first row tells those in words.
const OPEN_AI: Table = Table {
    bounds: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "default",
    ],
    formats: TEXTS,
    items_max: 100,
    nulls: Nulls::Form,
    plain_optional: true,
    any_choice: true,
    plain_names: false,
};

const OPEN_AI_STRICT: Table = Table {
    bounds: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
        "pattern",
    ],
    formats: &[
        "date-time",
        "date",
        "time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
    ],
    items_max: u64::MAX,
    nulls: Nulls::Listed,
    plain_optional: false,
    any_choice: true,
    plain_names: false,
};

const ANTHROPIC: Table = Table {
    bounds: &[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "minItems",
        "maxItems",
        "uniqueItems",
        "default",
    ],
    formats: TEXTS,
    items_max: u64::MAX,
    nulls: Nulls::Listed,
    plain_optional: false,
    any_choice: true,
    plain_names: true,
};

const ANTHROPIC_STRICT: Table = Table {
    bounds: &["minItems"],
    formats: TEXTS,
    items_max: 1,
    nulls: Nulls::Form,
    plain_optional: false,
    any_choice: true,
    plain_names: true,
};

const GEMINI: Table = Table {
    bounds: &["minimum", "maximum", "minItems", "maxItems"],
    formats: &["date-time", "date", "time"],
    items_max: u64::MAX,
    nulls: Nulls::Listed,
    plain_optional: true,
    any_choice: false,
    plain_names: false,
};

impl Surface {
    pub(super) fn table(self) -> &'static Table {
        match self {
            Self::OpenAi => &OPEN_AI,
            Self::OpenAiStrict => &OPEN_AI_STRICT,
            Self::Anthropic => &ANTHROPIC,
            Self::AnthropicStrict => &ANTHROPIC_STRICT,
            Self::Gemini => &GEMINI,
        }
    }
}
