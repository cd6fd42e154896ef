//! Decides what a scripted model says: the next reply of a file, whatever it is asked.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate_kernel::event::{FaultKind, Finish, Usage};
use toolgate_kernel::plan::Plan;
use toolgate_runtime::port::{Desk, Provider, ProviderFault, Reply, ReplyCall, Streamed, Tap};

/// A script as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptText {
    /// What the script shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The replies, one per turn of the session.
    pub replies: Vec<ReplyText>,
}

/// A reply as it is written down. `{input}` in its texts stands for what the person said, and
/// `{opening}` for how that begins; in `text`, `{receipt}` for the receipt of the last result, and
/// `{nonce}` for the nonce of a request of the JSON tool protocol.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyText {
    /// What the model says.
    pub text: String,
    /// The calls it wants made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallText>,
    /// Why it stops; by itself `calls` when there are any, else `stop`.
    pub finish: Option<Finish>,
    /// What the provider says it cost.
    pub usage: Usage,
    /// The model does not answer, with this as the reason.
    pub fails: Option<String>,
    /// The kind of that failure; `overloaded` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// The model cannot be used, with this as the reason.
    pub fails_for_good: Option<String>,
}

/// A call as it is written down: arguments as an object, or raw text for what is no object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CallText {
    /// The name as the model writes it.
    pub tool: String,
    /// The arguments.
    pub args: Map<String, Value>,
    /// The arguments as text, in place of `args`.
    pub raw: Option<String>,
    /// The provider's id for the call.
    pub id: Option<String>,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
#[error("the script cannot be read: {0}")]
pub struct ScriptRefusal(String);

/// A model that plays a script.
pub struct Script {
    name: String,
    text: Arc<ScriptText>,
}

impl Script {
    /// A script under a name for the log.
    pub fn new(name: &str, text: ScriptText) -> Self {
        Self { name: format!("script:{name}"), text: Arc::new(text) }
    }

    /// Reads a script from YAML.
    pub fn parse(name: &str, yaml: &str) -> Result<Self, ScriptRefusal> {
        // `y` and `no` are words, as in a configuration.
        let options = serde_saphyr::options! { strict_booleans: true };
        let text = serde_saphyr::from_str_with_options(yaml, options)
            .map_err(|error| ScriptRefusal(error.to_string()))?;
        Ok(Self::new(name, text))
    }

    /// The reply of a turn: the log says which turn it is, so a resumed run goes on in its place.
    fn at(&self, turn: u64) -> Option<&ReplyText> {
        let place = usize::try_from(turn.checked_sub(1)?).ok()?;
        self.text.replies.get(place)
    }
}

impl CallText {
    /// The arguments as a model would send them.
    pub fn arguments(&self, input: &str) -> String {
        match &self.raw {
            Some(raw) => raw.clone(),
            None => {
                let mut args = Value::Object(self.args.clone());
                fill(&mut args, input);
                args.to_string()
            }
        }
    }
}

/// How much of what the person said `{opening}` stands for.
const OPENING_WORDS_MAX: usize = 60;

/// The same in characters, for what has no words.
const OPENING_CHARS_MAX: usize = 400;

/// A text with what the person said in its places.
fn filled(text: &str, input: &str) -> String {
    filled_with(text, &[("{input}", input), ("{opening}", &opening(input))])
}

/// A text with the meanings of words in braces in their places.
fn filled_with(text: &str, words: &[(&str, &str)]) -> String {
    // In one pass, so that what the person said is not looked at again.
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let mut known = words.iter();
        let known = known.find_map(|(word, said)| Some((from.strip_prefix(word)?, *said)));
        rest = match known {
            Some((after, said)) => {
                filled.push_str(said);
                after
            }
            None => {
                filled.push('{');
                from.get(1..).unwrap_or_default()
            }
        };
    }
    filled + rest
}

/// How a text begins: the whole of a short one, word for word.
fn opening(text: &str) -> String {
    let text = text.trim();
    let mut end = 0;
    for word in text.split_inclusive(char::is_whitespace).take(OPENING_WORDS_MAX) {
        if text.get(..end + word.len()).is_none_or(|so_far| longer(so_far.trim_end())) {
            break;
        }
        end += word.len();
    }
    let kept = text.get(..end).unwrap_or_default().trim_end();
    if kept.len() == text.len() {
        return text.to_owned();
    }
    if kept.is_empty() {
        return text.chars().take(OPENING_CHARS_MAX).chain(['…']).collect();
    }
    format!("{kept} …")
}

/// The receipt of the last result that a request shows.
fn last_receipt(plan: &Plan) -> String {
    let told = plan.turns.iter().rev().flat_map(|turn| turn.told.values());
    let receipt = told.filter_map(|told| told.envelope.receipt).next();
    receipt.map_or_else(|| format!("rcpt_{}", last_after(plan, "rcpt_", 24)), |it| it.to_string())
}

/// The characters that follow the last place of a mark among what a request says of toolgate's own.
fn last_after(plan: &Plan, mark: &str, chars: usize) -> String {
    let turns = plan.turns.iter().flat_map(|turn| turn.notes.iter());
    let said: Vec<&Arc<str>> = turns.chain(plan.feedback.iter()).collect();
    let found = said.iter().rev().find_map(|text| Some(text.rsplit_once(mark)?.1));
    found.unwrap_or_default().chars().take(chars).collect()
}

fn longer(text: &str) -> bool {
    text.chars().nth(OPENING_CHARS_MAX).is_some()
}

fn fill(value: &mut Value, input: &str) {
    match value {
        Value::String(text) if text.contains('{') => *text = filled(text, input),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, input)),
        Value::Object(map) => map.values_mut().for_each(|item| fill(item, input)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

impl Provider for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn reply<'a>(
        &'a self,
        plan: &'a Plan,
        _: &'a mut Desk,
        tap: Tap<'a>,
    ) -> BoxFuture<'a, Result<Reply, ProviderFault>> {
        Box::pin(async move {
            let Some(reply) = self.at(plan.turn) else {
                let turns = self.text.replies.len();
                let reason = format!("the script ends after {turns} replies");
                return Err(ProviderFault::new(FaultKind::Unusable, reason));
            };
            if let Some(reason) = &reply.fails {
                return Err(ProviderFault::new(
                    reply.fault.unwrap_or(FaultKind::Overloaded),
                    reason.as_str(),
                ));
            }
            if let Some(reason) = &reply.fails_for_good {
                return Err(ProviderFault::new(FaultKind::Unusable, reason.as_str()));
            }
            let text = filled_with(
                &reply.text,
                &[
                    ("{input}", &plan.title),
                    ("{opening}", &opening(&plan.title)),
                    ("{nonce}", &last_after(plan, "\"nonce\":\"", 32)),
                    ("{receipt}", &last_receipt(plan)),
                ],
            );
            tap(Streamed::Text(&text));
            let calls: Vec<ReplyCall> = reply
                .calls
                .iter()
                .map(|call| ReplyCall {
                    alias: call.id.clone(),
                    name: call.tool.clone(),
                    args: call.arguments(&plan.title),
                })
                .collect();
            let natural = if calls.is_empty() { Finish::Stop } else { Finish::Calls };
            let finish = reply.finish.unwrap_or(natural);
            Ok(Reply::new(text, calls, finish, reply.usage))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_person_said_stands_whole_or_as_its_opening() {
        let said = "a cat, {input}, {opening}";
        assert_eq!(filled("1 {input} {x} {", said), format!("1 {said} {{x}} {{"));
        assert_eq!(filled("“{opening}”", " Two\n\nlines. "), "“Two\n\nlines.”");
        let page = "word ".repeat(500);
        let short = filled("{opening}", &page);
        assert_eq!(short.split_whitespace().count(), OPENING_WORDS_MAX + 1);
        assert!(page.starts_with(short.trim_end_matches(" …")), "{short}");
        let exact = "word ".repeat(OPENING_WORDS_MAX);
        assert_eq!(filled("{opening}", &exact), exact.trim());
        for long in ["é".repeat(9_000), "é".repeat(399) + " " + &"x ".repeat(90)] {
            let short = filled("{opening}", &long);
            assert!(short.chars().count() <= OPENING_CHARS_MAX + 2 && short.ends_with('…'));
        }
    }

    #[test]
    fn words_stay_words() {
        let yaml = "replies: [{calls: [{tool: t, args: {key: y, other: no, yes: true}}]}]";
        let script = Script::parse("s", yaml).unwrap();
        let call = script.at(1).and_then(|reply| reply.calls.first()).unwrap();
        assert_eq!(call.arguments(""), r#"{"key":"y","other":"no","yes":true}"#);
    }
}
