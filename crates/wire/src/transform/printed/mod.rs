//! Decides when words of a model are calls that it printed, and what is left of the words.
//!
//! Every form is looked for in one pass, with a bound on the work. A call is taken only when it
//! is whole; what is broken or cut off stays a text.

mod deepseek;
mod domain;
mod held;
mod hermes;
mod llama;
mod mistral;
mod payload;
mod said;
mod scan;
mod tags;

use serde_json::Value;

use super::granted::Granted;
pub(crate) use held::Holding;
use hermes::Wanted;
use payload::PrintedCall;
use scan::Scan;

/// Longest text that is looked at.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Calls that are taken from one text; what follows stays text.
const CALLS_MAX: usize = 64;

/// What was found in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    calls: Vec<PrintedCall>,
    /// Calls that could not be read.
    unread: usize,
    /// Results that the model made up beside its calls.
    echoes: usize,
    /// The stretches that the calls stood in, in order.
    cuts: Vec<(usize, usize)>,
    /// Places of `\<`, which is shown as `&lt;`.
    escapes: Vec<usize>,
}

/// What becomes of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Salvaged {
    /// The calls, with their ids, names and arguments.
    pub(super) calls: Vec<(String, String, String)>,
    /// The words that are left.
    pub(super) text: String,
    /// What was done, in words.
    pub(super) repairs: Vec<String>,
}

/// A form in which calls are printed.
pub(super) struct Form {
    /// How it is told.
    name: &'static str,
    /// How the ids of its calls begin.
    prefix: &'static str,
    /// How a call in it begins, and whether it may begin as bare JSON.
    marks: &'static [&'static str],
    bare: bool,
    find: fn(&str, &Granted<'_>) -> Option<Found>,
}

const fn form(
    name: &'static str,
    marks: &'static [&'static str],
    find: fn(&str, &Granted<'_>) -> Option<Found>,
) -> Form {
    Form { name, prefix: "printed_call", marks, bare: false, find }
}

/// The tags of document 003, which names their ids too.
pub(super) const TAGS: Form =
    Form { prefix: "tag_call", ..form("tags", tags::MARKS, |text, _| tags::find(text)) };
pub(super) const HERMES: Form = form("Hermes", hermes::MARKS, hermes::find);
pub(super) const LLAMA: Form = Form { bare: true, ..form("Llama", llama::MARKS, llama::find) };
pub(super) const MISTRAL: Form = form("Mistral", mistral::MARKS, |text, _| mistral::find(text));
pub(super) const DEEPSEEK: Form =
    form("DeepSeek", deepseek::OPENERS, |text, _| deepseek::find(text));
pub(super) const DOMAIN: Form = Form { bare: true, ..form("domain JSON", &[], domain::find) };

impl Form {
    /// The calls that a text holds in this form; absent when nothing changes.
    pub(super) fn salvage(&self, text: &str, granted: &Granted<'_>) -> Option<Salvaged> {
        if text.len() > TEXT_BYTES_MAX || text.trim().is_empty() {
            return None;
        }
        let found = (self.find)(text, granted)?;
        if said::was_said(&found, text, granted) {
            return None;
        }
        let (text, repairs) = (found.remains(text), found.repairs(self.name));
        let id = |at: usize| format!("{}_{}", self.prefix, at + 1);
        let numbered = found.calls.into_iter().enumerate();
        let calls = numbered.map(|(at, call)| (id(at), call.name, call.args)).collect();
        Some(Salvaged { calls, text, repairs })
    }
}

impl Found {
    fn is_full(&self) -> bool {
        self.calls.len() >= CALLS_MAX
    }

    fn take(&mut self, calls: Vec<PrintedCall>, start: usize, end: usize) {
        self.calls.extend(calls);
        self.cuts.push((start, end));
    }

    /// Takes the calls behind every marker. What cannot be read there is counted and stays text.
    fn look(
        &mut self,
        scan: &mut Scan<'_>,
        markers: &[&'static str],
        calls: impl Fn(&mut Scan<'_>, &str) -> Option<Vec<PrintedCall>>,
    ) {
        while !self.is_full()
            && let Some(marker) = scan.find(markers)
        {
            let start = scan.at;
            match calls(scan, marker) {
                Some(calls) => self.take(calls, start, scan.at),
                None => {
                    self.unread += 1;
                    scan.at = start + marker.len();
                }
            }
        }
    }

    fn if_any(self) -> Option<Self> {
        (!self.calls.is_empty()).then_some(self)
    }

    /// The text without what was cut.
    fn remains(&self, text: &str) -> String {
        let mut left = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end) in &self.cuts {
            self.copy(text, at, *start, &mut left);
            at = at.max(*end);
        }
        self.copy(text, at, text.len(), &mut left);
        if self.calls.is_empty() { left } else { left.trim().to_owned() }
    }

    fn copy(&self, text: &str, mut at: usize, end: usize, into: &mut String) {
        let start = at;
        for escape in self.escapes.iter().filter(|escape| (start..end).contains(*escape)) {
            into.push_str(text.get(at..*escape).unwrap_or_default());
            into.push_str("&lt;");
            at = escape + "\\<".len();
        }
        into.push_str(text.get(at..end).unwrap_or_default());
    }

    fn repairs(&self, form: &str) -> Vec<String> {
        let mut repairs = Vec::new();
        let mut tell = |count: usize, one: &str, many: &str| match count {
            0 => {}
            1 => repairs.push(one.to_owned()),
            count => repairs.push(format!("{count} {many}")),
        };
        let calls = self.calls.len();
        tell(
            calls,
            &format!("a call printed as text was taken ({form})"),
            &format!("calls printed as text were taken ({form})"),
        );
        if calls > 0 {
            tell(
                self.unread,
                "a call printed as text could not be read",
                "calls printed as text could not be read",
            );
        }
        tell(
            self.echoes,
            "a result that the model made up was left out",
            "results that the model made up were left out",
        );
        repairs
    }
}

impl Granted<'_> {
    /// What a tool wants one of its parameters to be.
    fn wants(&self, tool: &str, parameter: &str) -> Wanted {
        let Some(schema) = self.field(tool, parameter) else { return Wanted::Unknown };
        let types: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let branches = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array());
        let text_branch = branches
            .flatten()
            .any(|branch| branch.get("type").and_then(Value::as_str) == Some("string"));
        let choices = schema.get("enum").and_then(Value::as_array);
        let text_choice = choices.is_some_and(|choices| choices.iter().any(Value::is_string));
        if types.contains(&"string") || text_branch || text_choice {
            Wanted::Text
        } else if types.is_empty() {
            Wanted::Unknown
        } else {
            Wanted::Other
        }
    }
}

/// The length of the blank that begins a text.
fn skip_blank(text: &str) -> usize {
    text.len() - text.trim_start().len()
}
