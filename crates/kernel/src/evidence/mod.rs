//! Checks the evidence of a reply: what it cites, and whether that is there.
//!
//! Pure: what the sources say and which receipts count comes through [`EvidenceLookup`]. No text of
//! a prompt takes part, so none can switch the check off.

mod check;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use check::{EvidenceLookup, ReceiptCoverage, check_reply};
pub use parse::{Citation, EvidenceItem, LineRange, is_abstention};

use crate::digest::Digest;
use crate::envelope::Envelope;

/// The code of a reply whose evidence was not accepted twice.
pub const EVIDENCE_REJECTED: &str = "EVIDENCE_REJECTED";

/// Whether replies need evidence.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceMode {
    /// They do not.
    #[default]
    Off,
    /// A reply without evidence that can be verified is not accepted.
    Required,
}

impl EvidenceMode {
    /// Whether it asks for nothing.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// What an agent is for, which decides what it may cite.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Archetype {
    /// Plans the story: cites the outline.
    Planner,
    /// Writes: cites a scene.
    Writer,
    /// Edits: cites a scene.
    Editor,
    /// Reviews: cites a scene.
    Critic,
    /// Keeps the story consistent: cites canon or a scene.
    Continuity,
    /// Coordinates: cites any source, an issue, or a receipt alone.
    Chief,
    /// Anything else: cites any source.
    #[default]
    Any,
}

impl Archetype {
    /// The one that a configuration names, in any case. A name that is none of these cites any source.
    pub fn named(name: Option<&str>) -> Self {
        let known = [
            ("planner", Self::Planner),
            ("writer", Self::Writer),
            ("editor", Self::Editor),
            ("critic", Self::Critic),
            ("continuity", Self::Continuity),
            ("chief", Self::Chief),
        ];
        let name = name.unwrap_or_default().trim();
        let found = known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(Self::Any, |(_, archetype)| archetype)
    }

    /// The roles of which it must cite at least one source; any when absent.
    fn roles(self) -> Option<&'static [SourceRole]> {
        match self {
            Self::Planner => Some(&[SourceRole::Outline]),
            Self::Writer | Self::Editor | Self::Critic => Some(&[SourceRole::Scene]),
            Self::Continuity => Some(&[SourceRole::Canon, SourceRole::Scene]),
            Self::Chief | Self::Any => None,
        }
    }

    /// What it must cite, in words.
    fn cites(self) -> &'static str {
        match self {
            Self::Planner => "the outline",
            Self::Writer | Self::Editor | Self::Critic => "a scene",
            Self::Continuity => "canon or a scene",
            Self::Chief => "a source, an issue or a receipt",
            Self::Any => "a source",
        }
    }
}

/// What a source is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// The plan of the story.
    Outline,
    /// What holds true in the story.
    Canon,
    /// A scene or chapter.
    Scene,
    /// Anything else.
    Other,
}

/// A source that a reply cites, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitedSource {
    /// Its ref.
    pub reference: String,
    /// SHA-256 of the whole text.
    pub sha256: Digest,
    /// The number of its first line.
    pub first_line: u64,
    /// The text, with plain line ends.
    pub text: String,
}

/// Why the evidence of a reply is not accepted, in the order in which it is looked at.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceReason {
    /// The reply says nothing.
    Empty,
    /// It begins as a tool call.
    ToolSyntax,
    /// It begins with thoughts about what to do.
    CotLeak,
    /// It has no line of evidence.
    Missing,
    /// It has more than one.
    Multiple,
    /// The line cannot be read.
    Format,
    /// The agent must cite something else.
    WrongSource,
    /// A cited source does not exist.
    MissingFile,
    /// A problem or suggestion is told, and nothing is quoted.
    MissingQuote,
    /// A source is cited without its lines.
    MissingLocation,
    /// Something is said not to be there, without saying where was looked.
    MissingScope,
    /// A quote is not in its source.
    QuoteNotFound,
    /// It is there, elsewhere.
    WrongLine,
    /// There is no receipt for what is claimed, or one that does not count.
    MissingReceipt,
}

impl EvidenceReason {
    /// Every reason, in the order in which it is looked at.
    pub const ALL: &'static [Self] = &[
        Self::Empty,
        Self::ToolSyntax,
        Self::CotLeak,
        Self::Missing,
        Self::Multiple,
        Self::Format,
        Self::WrongSource,
        Self::MissingFile,
        Self::MissingQuote,
        Self::MissingLocation,
        Self::MissingScope,
        Self::QuoteNotFound,
        Self::WrongLine,
        Self::MissingReceipt,
    ];

    /// The reason as one word, as the log has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::ToolSyntax => "tool-syntax",
            Self::CotLeak => "cot-leak",
            Self::Missing => "missing",
            Self::Multiple => "multiple",
            Self::Format => "format",
            Self::WrongSource => "wrong-source",
            Self::MissingFile => "missing-file",
            Self::MissingQuote => "missing-quote",
            Self::MissingLocation => "missing-location",
            Self::MissingScope => "missing-scope",
            Self::QuoteNotFound => "quote-not-found",
            Self::WrongLine => "wrong-line",
            Self::MissingReceipt => "missing-receipt",
        }
    }
}

impl fmt::Display for EvidenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Evidence that is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct EvidenceError {
    /// Why.
    pub reason: EvidenceReason,
    /// What about it, and what to write instead.
    pub detail: String,
}

impl EvidenceError {
    fn new(reason: EvidenceReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// What became of the evidence of a reply, as the log says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum EvidenceVerdict {
    /// Everything it cites was verified.
    Accepted {
        /// How much it cites.
        items: u64,
        /// The receipts among it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        receipts: Vec<String>,
    },
    /// It asks to be given a source.
    AccessRequest {},
    /// It has nothing to say, and says so.
    Abstained {},
    /// It calls tools: its words are no answer, and are shown to nobody.
    NoAnswer {},
}

/// Which sources a call read, by what it answered. A part of a text is no reading of all of it.
pub fn coverage(envelope: &Envelope) -> Vec<ReceiptCoverage> {
    let data = &envelope.data;
    let number = |field: &str| data.get(field).and_then(Value::as_u64);
    let sources = data.get("sources").and_then(Value::as_array).into_iter().flatten();
    let read = sources.filter_map(|source| {
        let reference = source.get("source")?.as_str()?.to_owned();
        let sha256 = serde_json::from_value(source.get("sha256")?.clone()).ok()?;
        let whole = match (number("start_line"), number("end_line")) {
            (Some(start), Some(end)) => {
                let lines = source.get("lines").and_then(Value::as_u64);
                lines.is_some_and(|lines| end.saturating_sub(start).saturating_add(1) >= lines)
            }
            _ => true,
        };
        Some(ReceiptCoverage { reference, sha256, whole })
    });
    read.collect()
}

/// What a model is told of evidence, where it is required.
pub fn instructions(archetype: Archetype) -> String {
    format!(
        "## Evidence\n\nEnd each answer with exactly one line of evidence; it is verified, and an \
         answer without is not accepted:\n\
         Evidence: SOURCE L3-5 \"exact quote\"; SOURCE L7 \"exact quote\"; receipt rcpt_…\n\
         - SOURCE is the ref of a text, in backticks where it has blanks. L3 is its line. Quote at \
         least 6 characters, letter by letter. You must cite {}.\n\
         - Where you tell a problem or make a suggestion, quote; for structure, SOURCE and lines are \
         enough.\n\
         - Where something is nowhere: scope SOURCE, SOURCE found nothing; with the receipt of the \
         call that read all of it.\n\
         - Where you name a tool, cite the receipt of its call. It must be of a call since the last \
         message to you, of the text as it is now.\n\
         - Where you may not read what you need: ACCESS_REQUEST SOURCE why.\n\
         - With nothing to say, answer ABSTAIN and no more.",
        archetype.cites()
    )
}
