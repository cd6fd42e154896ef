//! Decides how a model is written down, and how it is asked to call tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::provider::ProviderName;
use super::secret::Secret;
use super::transform::TransformKind;
use crate::calling::{FailurePolicy, Finishing, ToolCalling, ToolProtocol};
use crate::limits::Limits;
use crate::names::{NameRefusal, ToolName};
use crate::plan::Choice;
use crate::render::ResultFormat;

/// A model as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelText {
    /// Who runs it; `openai` when left out, which is every compatible server too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderName>,
    /// The model's name, as its server calls it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Where it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// What is put between the address and the endpoint, unless it is already there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_prefix: Option<String>,
    /// The key: `env:NAME`, `file:PATH`, `${NAME}`, or the word itself. It is never printed.
    #[schemars(extend("writeOnly" = true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Headers that are sent with every request.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, Secret>,
    /// Whether its tool calls can be relied on, so that `tool_use_mode: enforced` makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calling_reliable: Option<bool>,
    /// What it can do, where that is not what its provider can do in general.
    #[serde(skip_serializing_if = "CapabilitiesText::is_empty")]
    pub capabilities: CapabilitiesText,
    /// Whether replies are streamed; they are when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// `preserve` keeps the provider's cache over a phase change, where the provider can restrict
    /// tools without changing their list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheText>,
    /// Tokens one reply may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The model that is asked when this one cannot be used; its name under `models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Allows `http://` to a host that is not on this machine or a private network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_plain_http: Option<bool>,
    /// Presets by name, besides the automatic ones; `[]` for none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presets: Option<NamesText>,
    /// How this model is asked to call tools, over what is said for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calling: Option<ToolCallingText>,
    /// Milliseconds to wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms_max: Option<u64>,
    /// Milliseconds to wait for the first byte of a reply; as long as the whole by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms_max: Option<u64>,
    /// Milliseconds its server may be silent in the middle of a reply; half the whole by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms_max: Option<u64>,
    /// Milliseconds one reply may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_ms_max: Option<u64>,
    /// Sampling and whatever else its server takes: temperature, top_p, top_k, min_p, …
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

/// What a model can do. What is left out is as its provider says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CapabilitiesText {
    /// Calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// Sees pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Streams its replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Keeps to a JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<bool>,
    /// Writes one JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_object: Option<bool>,
    /// Takes `parallel_tool_calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Tokens it can read and write together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window_tokens: Option<u64>,
}

impl CapabilitiesText {
    /// What is written here, and what is written there where nothing is written here.
    pub fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools.or(other.tools),
            images: self.images.or(other.images),
            streaming: self.streaming.or(other.streaming),
            json_schema: self.json_schema.or(other.json_schema),
            json_object: self.json_object.or(other.json_object),
            parallel_tool_calls: self.parallel_tool_calls.or(other.parallel_tool_calls),
            context_window_tokens: self.context_window_tokens.or(other.context_window_tokens),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is done for the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CacheText {
    /// The list of tools stays the same over a phase change, where the provider can restrict it.
    Preserve,
    /// Each phase sends its own tools and no others.
    Exact,
}

/// How models are asked to call tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolCallingText {
    /// Whether tools must be used; `relaxed` when left out. `enforced` wants a model that is marked
    /// reliable; `disabled` grants no tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_use_mode: Option<ToolUseMode>,
    /// What a tool that failed means for an enforced run; `fatal` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_failure_policy: Option<ToolFailurePolicy>,
    /// Allows `enforced` with a model that is not marked reliable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unreliable: Option<bool>,
    /// Bytes of a call's arguments; the same as `limits.args_bytes_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_args_bytes: Option<u64>,
    /// Bytes of a result shown to the model; the same as `limits.result_bytes_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_output_bytes: Option<u64>,
    /// How results are written for the model: `envelope`, or `text` for message and data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_format: Option<ResultFormat>,
    /// How the model says what it wants called: `native`, by the tool calling of its provider, or
    /// `json`, as JSON in its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_protocol: Option<ToolProtocol>,
    /// Turns of one iteration; the same as `limits.iteration_turns_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// Calls of one turn that are run; the same as `limits.turn_calls_max`. One, when
    /// `parallel_tool_calls` is false in `request_overrides`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls_per_turn: Option<u64>,
    /// Which tool is asked for: `auto`, `none`, `required`, a tool's name, or the provider's own
    /// form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ChoiceText>,
    /// How often a request is tried again without tools, in `relaxed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback_retry_count: Option<u64>,
    /// The only tools that are sent and may be called; `all` for no filter.
    #[schemars(with = "NamesText")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_allowlist: Option<NamesText>,
    /// Tools that are not sent and may not be called.
    #[schemars(with = "NamesText")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_denylist: Option<NamesText>,
    /// Whether a model that ends with nothing is asked once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_empty_final: Option<bool>,
    /// What it is then told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_empty_final_user_text: Option<String>,
    /// Whether it then gets no tools; it gets none when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_empty_final_disable_tools: Option<bool>,
    /// Put into every request, over everything else; not `model`, `messages`, the system prompt,
    /// `tools`, `tool_choice` and `response_format`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub request_overrides: Map<String, Value>,
    /// Changes of outgoing messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_transforms: Option<NamesText>,
    /// Changes of the tools that are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_transforms: Option<NamesText>,
    /// Changes of a reply before its calls are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_transforms: Option<NamesText>,
    /// Changes of calls before they are judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_transforms: Option<NamesText>,
    /// Changes of results before they are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result_transforms: Option<NamesText>,
}

/// Whether tools must be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolUseMode {
    /// At least one call must succeed.
    Enforced,
    /// As it comes.
    Relaxed,
    /// Tools are never sent.
    Disabled,
}

/// What a tool that failed means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolFailurePolicy {
    /// The run failed.
    Fatal,
    /// One success is enough.
    Tolerated,
}

/// Which tool is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChoiceText {
    /// A word.
    Word(String),
    /// The provider's own form.
    Form(Map<String, Value>),
}

/// Names as a list, or as one text with commas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NamesText {
    /// A list.
    List(Vec<String>),
    /// One text.
    Text(String),
}

impl NamesText {
    /// The names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::List(names) => names.iter().map(String::as_str).collect(),
            Self::Text(text) => {
                text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
            }
        }
    }
}

/// Tool calling that cannot be used as it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallingRefusal {
    /// Which tool is asked for cannot be told.
    #[error("tool_choice: {0:?} is neither auto, none, required nor the name of a tool")]
    Choice(String),
    /// The model is told nothing.
    #[error("fix_empty_final_user_text is blank; leave it out for the default")]
    NoWords,
    /// A name is not legal.
    #[error("{key}: {refusal}")]
    Name {
        /// The list.
        key: &'static str,
        /// What was written.
        entry: String,
        /// Why.
        refusal: NameRefusal,
    },
    /// A limit is given in two places, with two values.
    #[error("{key} is {given}, and `limits` says {other}: write it in one place")]
    TwoLimits {
        /// The key.
        key: &'static str,
        /// What it says.
        given: u64,
        /// What `limits` says.
        other: u64,
    },
}

/// How the bound of a reply is written among the options of the dialects.
pub const OUTPUT_KEYS: &[&str] =
    &["max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"];

impl ModelText {
    /// Tokens one reply may have, wherever that is written.
    pub fn output_tokens_max(&self) -> Option<u64> {
        let among = OUTPUT_KEYS.iter().filter_map(|key| self.options.get(*key)?.as_u64());
        self.max_output_tokens.or(among.max())
    }
}

/// A limit that has a second name under `tool_calling`.
pub(super) struct LimitKey {
    /// The name there.
    pub(super) key: &'static str,
    /// The name under `limits`.
    pub(super) name: &'static str,
    /// What is said of it.
    pub(super) given: Option<u64>,
    /// The limit itself.
    pub(super) of: fn(&mut Limits) -> &mut u64,
}

/// The word in an allow list that filters nothing.
pub(super) const ALL: &str = "all";

impl ToolCallingText {
    /// What it holds back, and the limits with what it says of them; `refuse` is told what cannot
    /// be used.
    pub(super) fn build(
        &self,
        limits: &mut Limits,
        mut refuse: impl FnMut(CallingRefusal),
    ) -> ToolCalling {
        self.build_limits(limits, &mut refuse);
        let choice = self.choice().unwrap_or_else(|word| {
            refuse(CallingRefusal::Choice(word));
            Choice::Auto
        });
        let words = self.fix_empty_final_user_text.clone();
        if words.as_ref().is_some_and(|words| words.trim().is_empty()) {
            refuse(CallingRefusal::NoWords);
        }
        let finish = self.fix_empty_final.unwrap_or(true).then(|| Finishing {
            text: words.unwrap_or_else(|| Finishing::default().text),
            tools: self.fix_empty_final_disable_tools == Some(false),
        });
        let enforced = (self.tool_use_mode == Some(ToolUseMode::Enforced)).then(|| {
            match self.tool_failure_policy.unwrap_or(ToolFailurePolicy::Fatal) {
                ToolFailurePolicy::Fatal => FailurePolicy::Fatal,
                ToolFailurePolicy::Tolerated => FailurePolicy::Tolerated,
            }
        });
        let mut tools = |key: &'static str, names: Vec<&str>| -> Vec<ToolName> {
            let parsed = names.into_iter().map(|name| (name, ToolName::parse(name)));
            let legal = parsed.filter_map(|(name, parsed)| {
                let told = |refusal| {
                    refuse(CallingRefusal::Name { key, entry: name.to_owned(), refusal });
                };
                parsed.map_err(told).ok()
            });
            legal.collect()
        };
        let allow = self.tool_allowlist.as_ref().map(NamesText::names);
        // Beside other names it is a name like them, so that no slip lets everything through.
        let allow = allow.filter(|names| names.as_slice() != [ALL]);
        let deny = self.tool_denylist.as_ref().map(NamesText::names).unwrap_or_default();
        ToolCalling {
            disabled: self.tool_use_mode == Some(ToolUseMode::Disabled),
            allow: allow.map(|names| tools("tool_allowlist", names)),
            deny: tools("tool_denylist", deny),
            enforced,
            choice,
            finish,
            toolless_retries: self.fallback_retry_count.unwrap_or(0),
            result_format: self.result_format.unwrap_or_default(),
            protocol: self.tool_protocol.unwrap_or_default(),
        }
    }

    /// The limits with what is said of them here.
    pub(super) fn build_limits(
        &self,
        limits: &mut Limits,
        refuse: &mut impl FnMut(CallingRefusal),
    ) {
        let own = Limits::default();
        for LimitKey { key, given, of, .. } in self.limits() {
            let Some(given) = given else { continue };
            let (own, limit) = (*of(&mut own.clone()), of(limits));
            if *limit != own && *limit != given {
                refuse(CallingRefusal::TwoLimits { key, given, other: *limit });
            }
            *limit = given;
        }
        if self.one_at_a_time() {
            limits.turn_calls_max = 1;
        }
    }

    /// Whether one call of a turn is run. Whoever wants no parallel calls gets none, whatever the
    /// model sends; a number of calls beside it wins.
    pub fn one_at_a_time(&self) -> bool {
        let parallel = self.request_overrides.get("parallel_tool_calls");
        parallel == Some(&Value::Bool(false)) && self.max_tool_calls_per_turn.is_none()
    }

    /// The limits that have a second name here.
    pub(super) fn limits(&self) -> [LimitKey; 4] {
        let row = |key, name, given, of| LimitKey { key, name, given, of };
        [
            row("max_tool_args_bytes", "args_bytes_max", self.max_tool_args_bytes, |limits| {
                &mut limits.args_bytes_max
            }),
            row(
                "max_tool_output_bytes",
                "result_bytes_max",
                self.max_tool_output_bytes,
                |limits| &mut limits.result_bytes_max,
            ),
            row("max_turns", "iteration_turns_max", self.max_turns, |limits| {
                &mut limits.iteration_turns_max
            }),
            row(
                "max_tool_calls_per_turn",
                "turn_calls_max",
                self.max_tool_calls_per_turn,
                |limits| &mut limits.turn_calls_max,
            ),
        ]
    }

    /// What takes tools away: whether all, all but some, and which.
    pub(super) fn held_back(&self) -> (bool, Option<Vec<&str>>, Vec<&str>) {
        fn sorted(names: &NamesText) -> Vec<&str> {
            let mut names = names.names();
            names.sort_unstable();
            names
        }
        (
            self.tool_use_mode == Some(ToolUseMode::Disabled),
            self.tool_allowlist.as_ref().map(sorted),
            self.tool_denylist.as_ref().map(sorted).unwrap_or_default(),
        )
    }

    /// What another model says otherwise than it holds for a run with this one: these settings are
    /// of the run, whoever answers. `own` is what the other one says itself, not what is said for
    /// all.
    pub(super) fn overrules(&self, other: &Self, own: &Self) -> Option<&'static str> {
        let holds = self.build(&mut Limits::default(), |_| {});
        let said = other.build(&mut Limits::default(), |_| {});
        let (ends, asks) = (&holds.finish, &said.finish);
        let words = |finish: &Option<Finishing>| finish.as_ref().map(|finish| finish.text.clone());
        let tools = |finish: &Option<Finishing>| finish.as_ref().map(|finish| finish.tools);
        let rows = [
            ("tool_use_mode", own.tool_use_mode.is_some(), said.mode() == holds.mode()),
            (
                "tool_failure_policy",
                own.tool_failure_policy.is_some(),
                said.failure_policy() == holds.failure_policy(),
            ),
            ("tool_choice", own.tool_choice.is_some(), said.choice == holds.choice),
            (
                "fallback_retry_count",
                own.fallback_retry_count.is_some(),
                said.toolless_retries == holds.toolless_retries,
            ),
            ("fix_empty_final", own.fix_empty_final.is_some(), asks.is_some() == ends.is_some()),
            (
                "fix_empty_final_user_text",
                own.fix_empty_final_user_text.is_some(),
                words(asks) == words(ends),
            ),
            (
                "fix_empty_final_disable_tools",
                own.fix_empty_final_disable_tools.is_some(),
                tools(asks) == tools(ends),
            ),
            (
                "result_format",
                own.result_format.is_some(),
                said.result_format == holds.result_format,
            ),
            ("tool_protocol", own.tool_protocol.is_some(), said.protocol == holds.protocol),
        ];
        rows.into_iter().find(|(_, given, same)| *given && !same).map(|(key, ..)| key)
    }

    /// Which tool is asked for; the word when it is none.
    pub(super) fn choice(&self) -> Result<Choice, String> {
        Ok(match &self.tool_choice {
            None => Choice::Auto,
            Some(ChoiceText::Form(form)) => Choice::Form(form.clone()),
            Some(ChoiceText::Word(word)) => match word.trim().to_ascii_lowercase().as_str() {
                "auto" => Choice::Auto,
                "none" => Choice::None,
                "required" | "any" => Choice::Required,
                _ => Choice::Tool(ToolName::parse(word.trim()).map_err(|_| word.clone())?),
            },
        })
    }

    /// Whether the lists leave a tool out.
    pub(super) fn takes_away(&self, tool: &str) -> bool {
        let (all, allow, deny) = self.held_back();
        all || allow.is_some_and(|allow| allow != [ALL] && !allow.contains(&tool))
            || deny.contains(&tool)
    }

    /// The tool that is asked for by name, in whichever form.
    pub(super) fn chosen_tool(&self) -> Option<&str> {
        match self.tool_choice.as_ref()? {
            ChoiceText::Word(word) => {
                matches!(self.choice(), Ok(Choice::Tool(_))).then(|| word.trim())
            }
            ChoiceText::Form(form) => match form.get("function") {
                Some(Value::Object(function)) => function.get("name").and_then(Value::as_str),
                _ => form.get("name").and_then(Value::as_str),
            },
        }
    }

    /// The names of transforms, by their kind.
    pub fn transforms(&self) -> [(TransformKind, &Option<NamesText>); 5] {
        [
            (TransformKind::Message, &self.message_transforms),
            (TransformKind::Tool, &self.tool_transforms),
            (TransformKind::Response, &self.response_transforms),
            (TransformKind::Call, &self.tool_call_transforms),
            (TransformKind::Result, &self.tool_result_transforms),
        ]
    }
}
