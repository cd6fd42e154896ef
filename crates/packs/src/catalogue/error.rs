//! Why something about the catalogue was refused: a code, a sentence, and the field.

use serde::Serialize;
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::prompt_text::TextViolation;
use toolgate_runtime::port::Fault;

/// Something about the catalogue that cannot be done. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct CatalogueError {
    /// What kind of refusal it is.
    pub code: &'static str,
    /// A sentence that says what to do.
    pub message: String,
    /// The field it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The text rule that was broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// What would be taken instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
}

impl CatalogueError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), path: None, rule: None, allowed: Vec::new() }
    }

    pub(super) fn at(self, path: impl Into<String>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    pub(super) fn allowing(self, allowed: Vec<String>) -> Self {
        Self { allowed, ..self }
    }

    /// A field that cannot be taken as it is.
    pub(super) fn field(path: &str, message: impl Into<String>) -> Self {
        Self::new("PROPOSAL_INVALID", message).at(path)
    }

    /// A core tool cannot be changed.
    pub(super) fn core_locked(id: &str) -> Self {
        Self::new(
            "CORE_LOCKED",
            format!(
                "{id} is a core tool and locked; propose a copy of it: type new, copyOf {id}, which \
                 becomes {id}_custom"
            ),
        )
        .at("id")
    }

    /// Only a person decides.
    pub fn person_required(act: &str) -> Self {
        Self::new(
            "PERSON_REQUIRED",
            format!("only a person can {act}, with their signature: `toolgate catalogue`"),
        )
    }
}

impl From<TextViolation> for CatalogueError {
    fn from(violation: TextViolation) -> Self {
        let mut error = Self::new("PROMPT_TEXT_REFUSED", violation.to_string());
        error.rule = Some(violation.rule.name());
        error.at(violation.field)
    }
}

impl From<CatalogueError> for Fault {
    fn from(error: CatalogueError) -> Self {
        // The message begins with the rule.
        let CatalogueError { code, message, path, rule: _, allowed } = error;
        let code = Code::domain(code).unwrap_or(Code::TOOL_FAILED);
        let mut trouble = Trouble::new(code, message);
        trouble.path = path;
        trouble.allowed = Some(allowed).filter(|allowed| !allowed.is_empty());
        Self::of(trouble)
    }
}
