//! Checks texts that models are shown as guidance: the fields of a prompt tool, and the description
//! of a tool that comes from outside.
//!
//! [`check_fields`] holds the fields of a prompt tool against the text rules and names the first one
//! that is broken. [`suspicious_words`] looks at the description of a tool of an MCP server. Both read
//! a text as it is written and as its look-alike letters are taken ([`plain_letters`]).
//!
//! What passes is not therefore safe: a person still reads and approves it. The rules keep out what
//! no honest prompt says, and they prefer a false alarm to an override only where a writer has
//! another way to say the same.

mod core_claim;
mod forms;
mod packed;
mod patterns;
mod skeleton;
mod tool_words;

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use crate::letters::{is_bidi, is_selector, is_tag, is_zero_width};

pub use skeleton::{is_mark, name_skeleton, plain_letters};
pub use tool_words::suspicious_words;

/// A rule that every text of a prompt tool keeps. They are checked in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TextRule {
    /// Not longer than its field may be, and one line where the field is one.
    Length,
    /// No control characters.
    Control,
    /// No characters that are not seen.
    Hidden,
    /// Puts no instructions, rules or decisions of a person aside.
    Override,
    /// Speaks as no one else: no `system:`, no marks that chats are made of.
    Role,
    /// Has nothing that is read as a call of a tool.
    Protocol,
    /// Has nothing that ends or begins a block of the prompt.
    Delimiter,
    /// Does not do without evidence, and makes none up.
    Evidence,
    /// Keeps nothing from people.
    Secrecy,
    /// Asks for no secrets, and sends nothing away.
    Secrets,
    /// Does not pass itself off as a core tool.
    CoreClaim,
    /// Has no packed text.
    Packed,
}

impl TextRule {
    /// All rules, in the order in which they are checked.
    pub const ALL: [Self; 12] = [
        Self::Length,
        Self::Control,
        Self::Hidden,
        Self::Override,
        Self::Role,
        Self::Protocol,
        Self::Delimiter,
        Self::Evidence,
        Self::Secrecy,
        Self::Secrets,
        Self::CoreClaim,
        Self::Packed,
    ];

    /// The name that people and models are told.
    pub fn name(self) -> &'static str {
        match self {
            Self::Length => "LENGTH",
            Self::Control => "CONTROL",
            Self::Hidden => "HIDDEN",
            Self::Override => "OVERRIDE",
            Self::Role => "ROLE",
            Self::Protocol => "PROTOCOL",
            Self::Delimiter => "DELIMITER",
            Self::Evidence => "EVIDENCE",
            Self::Secrecy => "SECRECY",
            Self::Secrets => "SECRETS",
            Self::CoreClaim => "CORE_CLAIM",
            Self::Packed => "PACKED",
        }
    }

    /// What the rule asks for, for the person who broke it.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Length => "make it as long as the field allows",
            Self::Control => "leave out control characters, and line breaks in a field of one line",
            Self::Hidden => "leave out characters that are not seen",
            Self::Override => {
                "say what to do, not which instructions, rules or approvals to ignore"
            }
            Self::Role => "do not write as the system, a developer or another speaker",
            Self::Protocol => "describe tools in words; show no call or decision as JSON or tags",
            Self::Delimiter => "leave out headings and marks that the catalogue is made of",
            Self::Evidence => "ask for evidence, receipts and quotes, or do not mention them",
            Self::Secrecy => "keep nothing from the person who uses it",
            Self::Secrets => "ask for no credentials, and send nothing to an address",
            Self::CoreClaim => "name core tools only to say when to call them",
            Self::Packed => "write it out in words",
        }
    }
}

impl fmt::Display for TextRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which lines a field may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldLines {
    /// One.
    One,
    /// As many as fit.
    Many,
}

/// Whether a model is ever shown a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldUse {
    /// Shown: all rules hold.
    Shown,
    /// Shown as the name or id of a tool: all rules hold, and it must not look like the name of a
    /// core tool.
    ToolName,
    /// Never shown, such as what a test case must not say: only [`TextRule::Length`] and
    /// [`TextRule::Control`] hold.
    NeverShown,
}

/// A text with its place and its bounds.
#[derive(Debug, Clone, Copy)]
pub struct PromptField<'a> {
    /// The name of the field, as an error names it.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
    /// Characters it must have, in NFC.
    pub chars_min: usize,
    /// Characters it may have, in NFC.
    pub chars_max: usize,
    /// Which lines it may have.
    pub lines: FieldLines,
    /// Whether a model is ever shown it.
    pub shown: FieldUse,
}

impl<'a> PromptField<'a> {
    /// A field of several lines that models are shown.
    pub fn new(name: &'a str, text: &'a str, chars_max: usize) -> Self {
        let (lines, shown) = (FieldLines::Many, FieldUse::Shown);
        Self { name, text, chars_min: 0, chars_max, lines, shown }
    }

    /// With a least length.
    pub fn at_least(self, chars_min: usize) -> Self {
        Self { chars_min, ..self }
    }

    /// As a field of one line.
    pub fn one_line(self) -> Self {
        Self { lines: FieldLines::One, ..self }
    }

    /// As the name or id of a tool, on one line.
    pub fn tool_name(self) -> Self {
        Self { lines: FieldLines::One, shown: FieldUse::ToolName, ..self }
    }

    /// As a field that no model is shown.
    pub fn never_shown(self) -> Self {
        Self { shown: FieldUse::NeverShown, ..self }
    }
}

/// A text that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{rule}: `{field}` {quote}; {}", .rule.advice())]
pub struct TextViolation {
    /// The rule.
    pub rule: TextRule,
    /// The field.
    pub field: String,
    /// What in it breaks the rule, as it is read; characters that are not seen are written out.
    pub quote: String,
}

/// Holds texts against the rules. The first rule that one of them breaks is named, with the first
/// such field. `core_names` are ids and names of the core tools.
pub fn check_fields(fields: &[PromptField<'_>], core_names: &[&str]) -> Result<(), TextViolation> {
    let found = fields.iter().enumerate().filter_map(|(at, field)| {
        let (rule, quote) = first_broken(field, core_names)?;
        Some((rule, at, field.name, quote))
    });
    match found.min_by_key(|(rule, at, ..)| (*rule, *at)) {
        None => Ok(()),
        Some((rule, _, field, quote)) => {
            Err(TextViolation { rule, field: field.to_owned(), quote: shown_quote(&quote) })
        }
    }
}

/// The first rule that a field breaks, and by what.
fn first_broken(field: &PromptField<'_>, core_names: &[&str]) -> Option<(TextRule, String)> {
    if let Some(why) = wrong_length(field) {
        return Some((TextRule::Length, why));
    }
    if let Some(why) = control(field) {
        return Some((TextRule::Control, why));
    }
    if field.shown == FieldUse::NeverShown {
        return None;
    }
    if let Some(why) = hidden(field.text) {
        return Some((TextRule::Hidden, why));
    }
    let forms = forms::forms(field.text);
    let said = forms.iter().flat_map(patterns::find);
    let squeezed = patterns::squeezed_override(&forms::squeezed(field.text));
    let squeezed = squeezed.map(|quote| (TextRule::Override, quote));
    let claims = forms.iter().filter_map(|form| core_claim::find(&form.text, core_names));
    let claims = claims.chain(same_name(field, core_names));
    let claims = claims.map(|quote| (TextRule::CoreClaim, quote));
    let packed = forms.iter().find_map(|form| packed::packed_run(&form.text));
    let packed = packed.map(|run| (TextRule::Packed, run.to_owned()));
    // The form as it is written comes first, so that its words are quoted.
    let all = said.chain(squeezed).chain(claims).chain(packed);
    let first = all.min_by_key(|(rule, _)| *rule)?;
    Some((first.0, format!("says \"{}\"", first.1)))
}

/// A tool's name that a reader takes for the one of a core tool.
fn same_name(field: &PromptField<'_>, core_names: &[&str]) -> Option<String> {
    let is_name = field.shown == FieldUse::ToolName;
    let own = is_name.then(|| name_skeleton(field.text))?;
    let same = core_names.iter().any(|core| name_skeleton(core) == own);
    same.then(|| field.text.to_owned())
}

fn wrong_length(field: &PromptField<'_>) -> Option<String> {
    // Counting stops where it is too long: what is counted is bounded by what may be kept.
    let count = field.text.nfc().take(field.chars_max.saturating_add(1)).count();
    if count > field.chars_max {
        return Some(format!("has more than {} characters", field.chars_max));
    }
    let short = count < field.chars_min || (field.chars_min > 0 && field.text.trim().is_empty());
    short.then(|| format!("has {count} characters; at least {} are needed", field.chars_min))
}

fn control(field: &PromptField<'_>) -> Option<String> {
    let is_line_end = |c: char| matches!(c, '\n' | '\r');
    let ordinary = |c: char| match field.lines {
        FieldLines::Many => is_line_end(c) || c == '\t',
        FieldLines::One => false,
    };
    let found = field.text.chars().find(|c| c.is_control() && !ordinary(*c))?;
    Some(format!("has the control character U+{:04X}", u32::from(found)))
}

/// The first character that is not seen, unless a script or an emoji is written with it.
fn hidden(text: &str) -> Option<String> {
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let after = rest.peek().copied();
        let kind = match c {
            '\u{200c}' | '\u{200d}' if joins(before, after) => None,
            '\u{fe0f}' if before.is_some_and(takes_emoji_form) => None,
            c if is_tag(c) => Some("a hidden letter (tag)"),
            c if is_zero_width(c) => Some("a character of no width"),
            c if is_bidi(c) => Some("a mark that turns the direction of writing"),
            c if is_selector(c) => Some("a variation selector"),
            _ => None,
        };
        if let Some(kind) = kind {
            return Some(format!("has {kind}: U+{:04X}", u32::from(c)));
        }
        before = Some(c);
    }
    None
}

/// Whether a joiner stands where a script or an emoji has one.
fn joins(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let joined = |c: char| {
        matches!(u32::from(c),
            0x600..=0x7ff | 0x8a0..=0xdff | 0xf00..=0x109f | 0x1780..=0x18af | 0xa840..=0xa87f)
    };
    (joined(before) && joined(after))
        || ((is_emoji(before) || before == '\u{fe0f}') && is_emoji(after))
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x2190..=0x2bff | 0x1_f300..=0x1_faff)
}

/// Characters that are written as a picture with a selector behind them.
fn takes_emoji_form(c: char) -> bool {
    is_emoji(c)
        || matches!(
            c,
            '#' | '*' | '0'..='9' | '©' | '®' | '‼' | '⁉' | '™' | 'ℹ' | '〰' | '〽' | '㊗' | '㊙'
        )
}

/// A quote as it can be printed: on one line, bounded, with what is not seen written out.
fn shown_quote(quote: &str) -> String {
    const CHARS_MAX: usize = 160;
    let mut out = String::new();
    for c in quote.chars().take(CHARS_MAX) {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() || crate::letters::is_hidden(c) => {
                out.push_str(&format!("<U+{:04X}>", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}
