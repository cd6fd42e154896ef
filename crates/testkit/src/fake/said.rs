//! Decides what the fake says: the script's next reply, bent where a fault is staged.

use serde_json::{Value, json};
use toolgate_kernel::event::{Finish, Usage};
use toolgate_wire::script::ScriptText;

use super::fault::Bend;

/// A reply before it is put into a dialect.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) text: String,
    pub(super) thought: String,
    pub(super) calls: Vec<SaidCall>,
    pub(super) finish: Finish,
    /// The reason to stop, where it is not the dialect's usual word.
    pub(super) word: Option<String>,
    pub(super) usage: Usage,
    /// Figures that no provider can mean.
    pub(super) lies: bool,
    pub(super) bend: Option<Bend>,
    /// Why there is no reply.
    pub(super) fails: Option<String>,
}

/// A call of it.
#[derive(Debug, Clone)]
pub(super) struct SaidCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: String,
    /// Arguments that are sent as JSON in every dialect, and in one piece.
    pub(super) whole: Option<Value>,
}

impl SaidCall {
    /// The arguments where they are sent as text.
    pub(super) fn as_text(&self) -> Value {
        self.whole.clone().unwrap_or_else(|| json!(self.args))
    }

    /// The arguments where they are sent as JSON.
    pub(super) fn as_json(&self) -> Value {
        let read = || serde_json::from_str(&self.args).unwrap_or_else(|_| json!(self.args));
        self.whole.clone().unwrap_or_else(read)
    }
}

impl Said {
    /// The reply with this number, from zero.
    pub(super) fn of(script: &ScriptText, number: usize, input: &str, model: &str) -> Self {
        let reply = script.replies.get(number).cloned().unwrap_or_default();
        let spoken = number < script.replies.len();
        let call = |(at, call): (usize, &toolgate_wire::script::CallText)| SaidCall {
            id: call.id.clone().unwrap_or_else(|| format!("call_{number}_{at}")),
            name: call.tool.clone(),
            args: call.arguments(input),
            whole: None,
        };
        let calls: Vec<SaidCall> = reply.calls.iter().enumerate().map(call).collect();
        let natural = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
        let text = if spoken { reply.text.replace("{input}", input) } else { "Done.".to_owned() };
        Self {
            id: format!("fake_{number}"),
            model: model.to_owned(),
            text,
            thought: String::new(),
            calls,
            finish: reply.finish.unwrap_or(natural),
            word: None,
            usage: reply.usage,
            lies: false,
            bend: None,
            fails: reply.fails.or(reply.fails_for_good),
        }
    }

    /// Counts tokens where the script does not; what the last prompt began with too is cached.
    pub(super) fn count(&mut self, body: &[u8], last: &mut Vec<u8>) {
        let tokens = |bytes: usize| u64::try_from(bytes / 4).unwrap_or(u64::MAX);
        let body = prompt(body);
        let same = body.iter().zip(last.iter()).take_while(|(a, b)| a == b).count();
        if self.usage.input_tokens == 0 {
            self.usage.input_tokens = tokens(body.len()).max(1);
            let args: usize = self.calls.iter().map(|call| call.args.len()).sum();
            self.usage.output_tokens = tokens(self.text.len() + args).max(1);
            self.usage.cached_tokens = tokens(same).min(self.usage.input_tokens);
        }
        *last = body;
    }

    /// Puts something wrong into it. `word` is how the dialect names the reason to stop.
    pub(super) fn bend(&mut self, bend: Bend, word: Option<&str>) {
        self.bend = Some(bend);
        self.word = word.map(str::to_owned);
        let many = |count: usize| "x".repeat(count);
        match bend {
            Bend::NoCalls | Bend::Filtered | Bend::Refused | Bend::Paused => self.calls.clear(),
            Bend::DuplicateIds => self.calls.iter_mut().for_each(|call| call.id = "call_1".into()),
            Bend::BlankIds => self.calls.iter_mut().for_each(|call| call.id = String::new()),
            Bend::LongIds => {
                let long = |(at, call): (usize, &mut SaidCall)| {
                    call.id = format!("{}{at}", many(85));
                };
                self.calls.iter_mut().enumerate().for_each(long);
            }
            Bend::BadArgs => self.calls.iter_mut().for_each(|call| call.args = "{\"a\":".into()),
            Bend::HugeArgs => {
                let huge = format!("{{\"a\":\"{}\"}}", many(300_000));
                self.calls.iter_mut().for_each(|call| call.args.clone_from(&huge));
            }
            Bend::DeepArgs => {
                let deep = format!("{{\"a\":{}{}}}", "[".repeat(120), "]".repeat(120));
                self.calls.iter_mut().for_each(|call| call.args.clone_from(&deep));
            }
            Bend::DeepObject => {
                let deep = (0..200).fold(json!([]), |inner, _| json!([inner]));
                if let Some(call) = self.calls.first_mut() {
                    call.whole = Some(json!({ "a": deep }));
                }
            }
            Bend::UsageLie => self.lies = true,
            Bend::PrintedCall => {
                let call = self.calls.pop();
                let name = call.map(|call| call.name).unwrap_or_default();
                self.text = format!("<tool_call>{{\"name\":\"{name}\"}}</tool_call>");
                self.finish = Finish::Stop;
            }
            Bend::CallInThoughts => {
                let call = self.calls.pop();
                let (name, args) = call.map(|call| (call.name, call.args)).unwrap_or_default();
                self.thought =
                    format!("I will call {name} with {args}: <tool_call>{name}</tool_call>");
                self.finish = Finish::Stop;
            }
            Bend::CallInInlineThought => {
                let call = self.calls.pop();
                let name = call.map(|call| call.name).unwrap_or_default();
                self.text = format!(
                    "<think>\nPerhaps <tool_call>{{\"name\":\"{name}\"}}</tool_call>?\n</think>\n\n{}",
                    self.text
                );
                self.finish = Finish::Stop;
            }
            Bend::OldCall | Bend::SingleCall => self.calls.truncate(1),
            Bend::StopWithCalls
            | Bend::Truncated
            | Bend::ContextExceeded
            | Bend::MalformedCall
            | Bend::UnexpectedCall
            | Bend::FilteredHalfWay
            | Bend::Blocked
            | Bend::UnknownFinish
            | Bend::EmptyChoices
            | Bend::ErrorEvent
            | Bend::FailedCallEvent
            | Bend::SharedIndex
            | Bend::IndexFromOne
            | Bend::SplitName
            | Bend::RepeatedName
            | Bend::DoubleFinish
            | Bend::EventsAsJson => {}
        }
    }

    pub(super) fn is_bent(&self, bend: Bend) -> bool {
        self.bend == Some(bend)
    }

    /// The words in pieces, as a model writes them.
    pub(super) fn pieces(&self) -> Vec<&str> {
        self.text.split_inclusive(' ').collect()
    }
}

/// A text in short pieces.
pub(super) fn cut(text: &str, chars: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect()
}

/// What a model reads of a request, in the order in which providers write it: tools, system, words.
/// Which tool may be chosen is not in it.
fn prompt(body: &[u8]) -> Vec<u8> {
    let parts =
        ["tools", "system", "instructions", "systemInstruction", "messages", "input", "contents"];
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    parts
        .iter()
        .filter_map(|part| body.get(part))
        .flat_map(|part| part.to_string().into_bytes())
        .collect()
}
