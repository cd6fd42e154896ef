//! Decides how something about a configuration is told: how bad it is, where it stands, what to write.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing is loaded.
    Error,
    /// It is loaded, and probably not what was meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// A stretch of the file, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// Which kind of thing was found. The word is stable, so that programs can rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mistake {
    /// The file is no text.
    Encoding,
    /// The file says nothing.
    Empty,
    /// The file is larger than any configuration.
    TooLarge,
    /// The file is no YAML.
    Syntax,
    /// A second document.
    SecondDocument,
    /// A YAML tag.
    Tag,
    /// A key given twice.
    DuplicateKey,
    /// A key that does not exist.
    UnknownKey,
    /// A key that must be there.
    MissingKey,
    /// Another type than the one that is due.
    WrongType,
    /// Not one of the values that are possible.
    NotAllowed,
    /// A number that is not possible.
    OutOfRange,
    /// A name that is not legal.
    BadName,
    /// A name that does not exist.
    UnknownName,
    /// A phase that no way leads to.
    UnreachablePhase,
    /// A phase with ways that all lead back to it.
    NoWayOut,
    /// A phase with ways out and no tool to take them.
    NoPhaseTool,
    /// A word in braces that nobody gives a meaning to.
    UnknownWord,
    /// Text for the model names a tool that the phase does not grant.
    UngrantedTool,
    /// The rules are put after the prompt.
    RulesAppended,
    /// A condition that does not compile.
    Condition,
    /// A policy that cannot be used.
    Policy,
    /// A star where groups are named.
    Wildcard,
    /// A name that a tool had before.
    FormerName,
    /// A block that nothing reads.
    Idle,
    /// A tool that is required and not granted.
    Required,
    /// A reference to a secret that cannot be followed.
    Secret,
    /// An MCP server that cannot be reached as written.
    Server,
    /// A model that cannot be used as written.
    Model,
    /// Parts that do not go together.
    Agent,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which kind it is.
    pub code: Mistake,
    /// Where; absent when it stands nowhere in the file.
    pub span: Option<Span>,
    /// What is the matter.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl Finding {
    pub(super) fn new(severity: Severity, code: Mistake, message: impl Into<String>) -> Self {
        Self { severity, code, span: None, message: message.into(), help: None }
    }

    pub(super) fn error(code: Mistake, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    pub(super) fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.span = span.into();
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn near(self, near: Option<&str>) -> Self {
        match near {
            Some(near) => self.help(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

/// A text from the file as a message quotes it: on one line, and not the whole of a long one.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    let dots = if text.chars().nth(40).is_some() { "…" } else { "" };
    format!("`{short}{dots}`")
}
