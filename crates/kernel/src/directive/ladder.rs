//! Decides what to ask for next until the directives can be read: schema, object, then words alone.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::prompt::repair;
use super::{Directives, Envelope, SHAPE_NAME, parse};
use crate::digest::Digest;
use crate::plan::{OutputShape, ShapeMode};

/// How a model is held to the form of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By a JSON Schema that the provider enforces.
    JsonSchema,
    /// By the provider, to some JSON object.
    JsonObject,
    /// By words alone.
    PromptOnly,
}

impl Mode {
    /// Every mode, the strictest first.
    pub const ALL: [Self; 3] = [Self::JsonSchema, Self::JsonObject, Self::PromptOnly];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::PromptOnly => "prompt_only",
        })
    }
}

/// What a model's provider can see to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Means {
    /// A JSON Schema.
    pub json_schema: bool,
    /// Some JSON object.
    pub json_object: bool,
}

/// A request to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// How the model is held to the form.
    pub mode: Mode,
    /// The form, where the provider sees to it. Tools are not sent beside it.
    pub shape: Option<OutputShape>,
    /// What the request says of the form.
    pub instructions: String,
    /// What the model is told of its last reply.
    pub repair: Option<String>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The model answered.
    Replied {
        /// Its words.
        text: String,
        /// How many tools it called; none should be.
        calls: usize,
        /// Milliseconds it took.
        elapsed_ms: u64,
    },
    /// The provider did not.
    Fault {
        /// The status, when there was one.
        status: Option<u16>,
        /// Why, without a secret.
        reason: String,
        /// Milliseconds it took.
        elapsed_ms: u64,
    },
}

/// One step that was tried or left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tried {
    /// The mode.
    pub mode: Mode,
    /// Which try of the mode it was, from one; zero when it was left out.
    pub attempt: u64,
    /// Why it did not do; absent when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The status of the provider's answer, when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether the provider said that it knows no such form.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub structured_output_unsupported: bool,
    /// Milliseconds it took.
    pub elapsed_ms: u64,
    /// Fingerprint of the request, when one was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
}

/// Directives that were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// The mode that did it.
    pub mode: Mode,
    /// Words and directives.
    pub envelope: Envelope,
    /// Every step.
    pub tried: Vec<Tried>,
}

/// No directives could be read. The words of the last reply are all that is left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Every step.
    pub tried: Vec<Tried>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// A request.
    Ask(Box<Ask>),
    /// The end, with directives.
    Done(Box<Done>),
    /// The end, without.
    Failed(Failed),
}

/// The way from mode to mode, driven by what became of each request.
#[derive(Debug, Clone)]
pub struct Ladder {
    directives: Arc<Directives>,
    means: Means,
    /// The place in the list of modes.
    rung: usize,
    /// Tries of this mode so far.
    attempt: u64,
    tried: Vec<Tried>,
    /// The request that is under way.
    sent: Option<Digest>,
}

impl Ladder {
    /// A ladder that nobody has stepped on.
    pub fn new(directives: Arc<Directives>, means: Means) -> Self {
        Self { directives, means, rung: 0, attempt: 0, tried: Vec::new(), sent: None }
    }

    /// The first request, or the failure when no mode is possible.
    pub fn start(&mut self) -> Next {
        self.ask(None)
    }

    /// The request that was asked for is sent; this is its fingerprint.
    pub fn sent(&mut self, plan: Digest) {
        self.sent = Some(plan);
    }

    /// What follows a request. `objections` is the caller's own check of a reply that can be
    /// read: it names what is wrong with it, or nothing.
    pub fn next(
        &mut self,
        outcome: Outcome,
        objections: impl FnOnce(&Envelope) -> Vec<String>,
    ) -> Next {
        let Some(mode) = self.mode() else { return self.failed() };
        match outcome {
            Outcome::Fault { status, reason, elapsed_ms } => {
                let unsupported = matches!(status, Some(400 | 422)) && names_form(&reason);
                self.note(mode, Some("HTTP_ERROR"), elapsed_ms);
                if let Some(last) = self.tried.last_mut() {
                    (last.status, last.structured_output_unsupported) = (status, unsupported);
                }
                // Whatever the provider minds, another mode is another request.
                self.up();
                self.ask(None)
            }
            Outcome::Replied { text, calls, elapsed_ms } => {
                match self.judge(&text, calls, objections) {
                    Ok(envelope) => {
                        self.note(mode, None, elapsed_ms);
                        let tried = std::mem::take(&mut self.tried);
                        Next::Done(Box::new(Done { mode, envelope, tried }))
                    }
                    Err((code, problems)) => {
                        self.note(mode, Some(code), elapsed_ms);
                        if self.attempt > self.directives.repairs {
                            self.up();
                        }
                        self.ask(Some(repair(code, &problems)))
                    }
                }
            }
        }
    }

    /// The end, after what no other form of the request would mend.
    pub fn stop(&mut self, code: &str, status: Option<u16>, elapsed_ms: u64) -> Failed {
        if let Some(mode) = self.mode() {
            self.note(mode, Some(code), elapsed_ms);
        }
        if let Some(last) = self.tried.last_mut() {
            last.status = status;
        }
        self.fail()
    }

    fn judge(
        &self,
        text: &str,
        calls: usize,
        objections: impl FnOnce(&Envelope) -> Vec<String>,
    ) -> Result<Envelope, (&'static str, Vec<String>)> {
        if calls > 0 {
            let problem = "tools cannot be called here; write directives".to_owned();
            return Err(("TOOL_CALLS_PRESENT", vec![problem]));
        }
        let object = parse(text).map_err(|refused| (refused.code, vec![refused.message]))?;
        let envelope =
            self.directives.read(&object).map_err(|(code, message)| (code, vec![message]))?;
        match objections(&envelope) {
            reasons if reasons.is_empty() => Ok(envelope),
            mut reasons => {
                // What was dropped may be why something is missing.
                reasons.extend(envelope.warnings.iter().map(|warning| warning.message.clone()));
                Err(("ASSERTION_FAILED", reasons))
            }
        }
    }

    fn mode(&self) -> Option<Mode> {
        self.directives.modes.get(self.rung).copied()
    }

    fn up(&mut self) {
        (self.rung, self.attempt) = (self.rung + 1, 0);
    }

    fn note(&mut self, mode: Mode, code: Option<&str>, elapsed_ms: u64) {
        self.tried.push(Tried {
            mode,
            attempt: self.attempt,
            code: code.map(str::to_owned),
            status: None,
            structured_output_unsupported: false,
            elapsed_ms,
            plan: self.sent.take(),
        });
    }

    /// The next request that is possible. What a provider cannot see to is left out, and noted.
    fn ask(&mut self, repair: Option<String>) -> Next {
        while let Some(mode) = self.mode() {
            let (possible, shape) = match mode {
                Mode::JsonSchema => (self.means.json_schema, Some(ShapeMode::JsonSchema)),
                Mode::JsonObject => (self.means.json_object, Some(ShapeMode::JsonObject)),
                Mode::PromptOnly => (true, None),
            };
            if possible {
                self.attempt += 1;
                let schema = |mode| {
                    let schema = self.directives.schema();
                    OutputShape { name: SHAPE_NAME.to_owned(), mode, schema }
                };
                let instructions = self.directives.instructions(mode);
                return Next::Ask(Box::new(Ask {
                    mode,
                    shape: shape.map(schema),
                    instructions,
                    repair,
                }));
            }
            self.note(mode, Some("CAPABILITY_UNSUPPORTED"), 0);
            self.up();
        }
        self.failed()
    }

    fn failed(&mut self) -> Next {
        Next::Failed(self.fail())
    }

    fn fail(&mut self) -> Failed {
        Failed { tried: std::mem::take(&mut self.tried) }
    }
}

/// Whether a provider's complaint is about the form of the reply.
fn names_form(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    ["response_format", "json_schema", "json_object", "structured output"]
        .iter()
        .any(|word| reason.contains(word))
}
