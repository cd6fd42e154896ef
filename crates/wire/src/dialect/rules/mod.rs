//! Decides whether a provider would take a transcript: the listed rules of each dialect.
//!
//! A request that breaks one is never sent. The rules are looked at as the transcript grows, so that
//! a turn costs what is new.

mod list;
mod marks;
#[cfg(test)]
mod tests;

use imbl::OrdSet;
use serde_json::{Map, Value};

pub use list::{RULES, Rule};
use marks::{Mark, Signed, marks};

use super::Dialect;

/// The rule that a whole request breaks, if there is one.
pub fn broken(dialect: Dialect, body: &Map<String, Value>) -> Option<&'static Rule> {
    let messages = body.get(key(dialect)).and_then(Value::as_array);
    Transcript::new(dialect).end(messages.map(Vec::as_slice).unwrap_or_default(), body)
}

/// The key under which the messages of a request are.
fn key(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat | Dialect::Anthropic => "messages",
        Dialect::Responses => "input",
        Dialect::Gemini => "contents",
    }
}

/// A transcript as it grows. Copying it is cheap.
#[derive(Debug, Clone)]
pub struct Transcript {
    dialect: Dialect,
    last: Last,
    /// The calls of the reply that is open, and how many of them have a result.
    calls: Vec<Called>,
    answered: usize,
    /// Every id so far, where no two calls may share one.
    ids: OrdSet<String>,
    /// Whether there is a call in it at all.
    called: bool,
}

/// A call that waits for its result.
#[derive(Debug, Clone)]
struct Called {
    id: Option<String>,
    name: String,
    signed: Signed,
}

/// What was said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Nothing,
    System,
    User,
    Words,
    Thought,
    Call,
    Result,
}

impl Transcript {
    /// Nothing said yet.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            last: Last::Nothing,
            calls: Vec::new(),
            answered: 0,
            ids: OrdSet::new(),
            called: false,
        }
    }

    /// Adds what will stay in the transcript, such as one turn, and says which rule it breaks.
    pub fn add(&mut self, messages: &[Value]) -> Option<&'static Rule> {
        for message in messages {
            for mark in marks(self.dialect, message) {
                if let Some(rule) = self.breaks(&mark) {
                    return Some(rule);
                }
                self.apply(mark);
            }
        }
        None
    }

    /// Which rule a request breaks that ends with these messages. `frame` is the rest of its body.
    pub fn end(&self, closing: &[Value], frame: &Map<String, Value>) -> Option<&'static Rule> {
        let mut whole = self.clone();
        whole.add(closing).or_else(|| whole.breaks(&Mark::End(frame)))
    }

    fn breaks(&self, mark: &Mark<'_>) -> Option<&'static Rule> {
        let holds = |rule: &&Rule| rule.dialects.contains(&self.dialect);
        RULES.iter().filter(holds).find(|rule| (rule.check)(self, mark))
    }

    fn apply(&mut self, mark: Mark<'_>) {
        self.last = match mark {
            Mark::Reply => {
                self.fresh();
                return;
            }
            Mark::System => Last::System,
            Mark::User { .. } => {
                self.fresh();
                Last::User
            }
            Mark::Words { .. } => Last::Words,
            Mark::Thought { .. } => Last::Thought,
            Mark::Call { id, name, signed, .. } => {
                // After a result, a call belongs to the next reply.
                if self.answered > 0 {
                    self.fresh();
                }
                self.called = true;
                if self.dialect == Dialect::Anthropic {
                    self.ids.extend(id.map(str::to_owned));
                }
                let id = id.map(str::to_owned);
                self.calls.push(Called { id, name: name.to_owned(), signed });
                Last::Call
            }
            Mark::Result { .. } => {
                self.answered += 1;
                Last::Result
            }
            Mark::Strange | Mark::End(_) => return,
        };
    }

    fn fresh(&mut self) {
        self.calls.clear();
        self.answered = 0;
    }

    /// The calls without a result.
    fn open(&self) -> &[Called] {
        self.calls.get(self.answered..).unwrap_or_default()
    }
}
