//! Decides which rules there are, for which dialects they hold, and when one is broken.

use serde_json::{Map, Value};

use super::marks::{Mark, Signed};
use super::{Called, Dialect, Last, Transcript};

/// Something a provider wants of every transcript.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub sentence: &'static str,
    /// The dialects it holds for.
    pub dialects: &'static [Dialect],
    /// Whether the next thing that is said breaks it.
    pub(super) check: fn(&Transcript, &Mark<'_>) -> bool,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const ALL: &[Dialect] = &Dialect::ALL;
const WITH_IDS: &[Dialect] = &[Dialect::Chat, Dialect::Responses, Dialect::Anthropic];
const NOT_ANTHROPIC: &[Dialect] = &[Dialect::Chat, Dialect::Responses, Dialect::Gemini];

/// Every rule. The first one that is broken is told.
pub static RULES: &[Rule] = &[
    Rule {
        name: "known_form",
        sentence: "Every message has a form that the dialect knows.",
        dialects: ALL,
        check: |_, mark| matches!(mark, Mark::Strange),
    },
    Rule {
        name: "system_first",
        sentence: "Words of the system stand at the begin and nowhere else.",
        dialects: &[Dialect::Chat],
        check: |so_far, mark| {
            matches!(mark, Mark::System) && !matches!(so_far.last, Last::Nothing | Last::System)
        },
    },
    Rule {
        name: "user_begins",
        sentence: "The first message after the system's is the user's.",
        dialects: ALL,
        check: |so_far, mark| {
            let begins = matches!(so_far.last, Last::Nothing | Last::System);
            begins && !matches!(mark, Mark::System | Mark::User { .. })
        },
    },
    Rule {
        name: "no_open_call",
        sentence: "Every call has its result before anything else is said, and before the request ends.",
        dialects: ALL,
        check: |so_far, mark| {
            let open = !so_far.open().is_empty();
            open && match mark {
                Mark::User { .. } | Mark::System | Mark::Reply | Mark::End(_) => true,
                // Some of its calls have results: the reply is over.
                Mark::Words { .. } | Mark::Thought { .. } | Mark::Call { .. } => {
                    so_far.answered > 0
                }
                Mark::Result { .. } | Mark::Strange => false,
            }
        },
    },
    Rule {
        name: "result_of_a_call",
        sentence: "Every result belongs to a call of the reply right before it, and no call has two.",
        dialects: ALL,
        check: |so_far, mark| {
            let Mark::Result { id, name } = mark else { return false };
            !so_far.open().iter().any(|call| fits(call, *id, *name))
        },
    },
    Rule {
        name: "results_in_order",
        sentence: "The results of a reply come in the order of its calls.",
        dialects: ALL,
        check: |so_far, mark| {
            let Mark::Result { id, name } = mark else { return false };
            !so_far.open().first().is_some_and(|call| fits(call, *id, *name))
        },
    },
    Rule {
        name: "id_is_legal",
        sentence: "Every call has an id that is not blank, not too long, and made of signs the provider takes.",
        dialects: WITH_IDS,
        check: |so_far, mark| {
            let Mark::Call { id, .. } = mark else { return false };
            !id.is_some_and(|id| legal_id(so_far.dialect, id))
        },
    },
    Rule {
        name: "id_is_unique",
        sentence: "No two calls of a reply have the same id; with Anthropic, no two calls at all.",
        dialects: WITH_IDS,
        check: |so_far, mark| {
            let Mark::Call { id: Some(id), .. } = mark else { return false };
            let open = so_far.open().iter().any(|call| call.id.as_deref() == Some(*id));
            open || so_far.ids.contains(*id)
        },
    },
    Rule {
        name: "name_is_legal",
        sentence: "Every call has a name of 1 to 64 letters, digits, `_` and `-`; with Gemini it begins with a letter or `_`.",
        dialects: ALL,
        check: |so_far, mark| {
            let Mark::Call { name, .. } = mark else { return false };
            !legal_name(so_far.dialect, name)
        },
    },
    Rule {
        name: "arguments_are_an_object",
        sentence: "The arguments of every call are one JSON object.",
        dialects: ALL,
        check: |_, mark| matches!(mark, Mark::Call { object: false, .. }),
    },
    Rule {
        name: "signature_on_the_first",
        sentence: "Where we sign calls that another model made, the first one of the reply is signed.",
        dialects: &[Dialect::Chat, Dialect::Gemini],
        check: |so_far, mark| {
            let ours = matches!(mark, Mark::Call { signed: Signed::Ours, .. });
            ours && so_far.open().first().is_some_and(|first| first.signed == Signed::No)
        },
    },
    Rule {
        name: "thought_is_sealed",
        sentence: "Every thought that is sent back carries its signature or its sealed content.",
        dialects: &[Dialect::Responses, Dialect::Anthropic],
        check: |_, mark| matches!(mark, Mark::Thought { sealed: false }),
    },
    Rule {
        name: "thought_leads_on",
        sentence: "A thought is followed by the words or the call it led to.",
        dialects: &[Dialect::Responses],
        check: |so_far, mark| {
            so_far.last == Last::Thought
                && matches!(
                    mark,
                    Mark::User { .. } | Mark::System | Mark::Result { .. } | Mark::End(_)
                )
        },
    },
    Rule {
        name: "call_after_user",
        sentence: "A reply follows words of the user or results, never another reply.",
        dialects: &[Dialect::Gemini],
        check: |so_far, mark| {
            matches!(mark, Mark::Reply) && !matches!(so_far.last, Last::User | Last::Result)
        },
    },
    Rule {
        name: "nothing_blank",
        sentence: "No message and no text in it is blank.",
        dialects: &[Dialect::Anthropic, Dialect::Gemini],
        check: |_, mark| matches!(mark, Mark::User { blank: true } | Mark::Words { blank: true }),
    },
    Rule {
        name: "user_ends",
        sentence: "The last message is the user's or a result. Only Anthropic is asked to go on with a reply.",
        dialects: NOT_ANTHROPIC,
        check: |so_far, mark| {
            matches!(mark, Mark::End(_))
                && !matches!(so_far.last, Last::User | Last::Result)
                && so_far.open().is_empty()
        },
    },
    Rule {
        name: "tools_or_form",
        sentence: "Tools and a form of the words are never in one request.",
        dialects: &[Dialect::Chat, Dialect::Responses],
        check: |_, mark| {
            let Mark::End(frame) = mark else { return false };
            frame.contains_key("tools") && has_form(frame)
        },
    },
    Rule {
        name: "calls_have_tools",
        sentence: "A transcript with calls comes with the definitions of tools.",
        dialects: &[Dialect::Anthropic],
        check: |so_far, mark| {
            let Mark::End(frame) = mark else { return false };
            let tools = frame.get("tools").and_then(Value::as_array);
            so_far.called && tools.is_none_or(Vec::is_empty)
        },
    },
];

/// Whether a result says that it is the one of a call: by its id, and by its name where it has none.
fn fits(call: &Called, id: Option<&str>, name: Option<&str>) -> bool {
    let named = name.is_none_or(|name| name == call.name);
    match (id, call.id.as_deref()) {
        (Some(id), Some(call)) => id == call && named,
        (None, _) => name.is_some() && named,
        (Some(_), None) => false,
    }
}

fn plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn legal_id(dialect: Dialect, id: &str) -> bool {
    let (chars_max, signs) = match dialect {
        Dialect::Chat => (40, id.bytes().all(|byte| byte.is_ascii_graphic())),
        Dialect::Responses => (64, id.bytes().all(|byte| byte.is_ascii_graphic())),
        Dialect::Anthropic | Dialect::Gemini => (64, plain(id)),
    };
    (1..=chars_max).contains(&id.len()) && signs
}

fn legal_name(dialect: Dialect, name: &str) -> bool {
    let first = name.bytes().next().unwrap_or(b' ');
    let begin = dialect != Dialect::Gemini || first.is_ascii_alphabetic() || first == b'_';
    (1..=64).contains(&name.len()) && plain(name) && begin
}

fn has_form(frame: &Map<String, Value>) -> bool {
    let text = frame.get("text").and_then(|text| text.get("format")?.get("type")?.as_str());
    frame.contains_key("response_format") || text.is_some_and(|kind| kind != "text")
}
