//! Decides how a model is written down, and how it is asked to call tools.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::secret::Secret;
use super::transform::TransformKind;
use crate::agent::ToolCalling;
use crate::limits::Limits;
use crate::names::{NameRefusal, ToolName};

/// A model as it is written down. It is checked now, and not active yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelText {
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
    #[serde(skip_serializing)]
    pub api_key: Option<Secret>,
    /// Headers that are sent with every request.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, Secret>,
    /// Whether its tool calls can be relied on, so that `tool_use_mode: enforced` makes sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calling_reliable: Option<bool>,
    /// Milliseconds to wait for a connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms_max: Option<u64>,
    /// Milliseconds one reply may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_ms_max: Option<u64>,
    /// Sampling and whatever else its server takes: temperature, top_p, top_k, min_p, …
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

/// How models are asked to call tools. What holds tools back is in force; the rest is checked
/// now, and not active yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolCallingText {
    /// Whether tools must be used; `relaxed` when left out. `enforced` is not active yet, and an
    /// error; `disabled` grants no tools.
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
    /// Which tool is asked for: `auto`, `none`, `required`, or the provider's own form.
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
    /// Put into every request, over everything else.
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
    /// Tools would have to be used, and nobody sees to it yet.
    #[error("tool_use_mode: `enforced` is not active yet; leave it out")]
    Enforced,
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

/// The word in an allow list that filters nothing.
const ALL: &str = "all";

impl ToolCallingText {
    /// What it holds back, and the limits with what it says of them; `refuse` is told what cannot
    /// be used.
    pub(super) fn build(
        &self,
        limits: &mut Limits,
        mut refuse: impl FnMut(CallingRefusal),
    ) -> ToolCalling {
        if self.tool_use_mode == Some(ToolUseMode::Enforced) {
            refuse(CallingRefusal::Enforced);
        }
        let own = Limits::default();
        for (key, given, limit, own) in [
            (
                "max_tool_args_bytes",
                self.max_tool_args_bytes,
                &mut limits.args_bytes_max,
                own.args_bytes_max,
            ),
            (
                "max_tool_output_bytes",
                self.max_tool_output_bytes,
                &mut limits.result_bytes_max,
                own.result_bytes_max,
            ),
        ] {
            let Some(given) = given else { continue };
            if *limit != own && *limit != given {
                refuse(CallingRefusal::TwoLimits { key, given, other: *limit });
            }
            *limit = given;
        }
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
        }
    }

    /// The keys that are written and not active yet.
    pub(super) fn inactive(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("tool_failure_policy", self.tool_failure_policy.is_some()),
            ("allow_unreliable", self.allow_unreliable.is_some()),
            ("tool_choice", self.tool_choice.is_some()),
            ("fallback_retry_count", self.fallback_retry_count.is_some()),
            ("fix_empty_final", self.fix_empty_final.is_some()),
            ("fix_empty_final_user_text", self.fix_empty_final_user_text.is_some()),
            ("fix_empty_final_disable_tools", self.fix_empty_final_disable_tools.is_some()),
            ("request_overrides", !self.request_overrides.is_empty()),
        ];
        let transforms = self.transforms().map(|(kind, names)| (kind.key(), names.is_some()));
        keys.into_iter().chain(transforms).filter(|(_, given)| *given).map(|(key, _)| key)
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
