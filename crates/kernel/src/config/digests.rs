//! Digests of a configuration, split by what a change of it means.
//!
//! They are made from the whole configuration with built-in defaults, so the same file has the same
//! digests on every machine. Environment variables and flags are not part of them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::AgentText;
use super::values::{KeyPath, PathStep, by_pointer, complete, flat_values};
use crate::agent::Agent;
use crate::digest::Digest;
use crate::policy::MACHINE_POLICY_PREFIX;
use crate::seeded::{Bug, seeded};

/// The digests of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConfigDigests {
    /// What is started, connected to and read: programs, addresses, secret references.
    pub reach: Digest,
    /// What may be called, and who is asked: policies, phases, grants, effects, limits, and the
    /// built-in tools of this version.
    pub gate: Digest,
    /// Everything else: prompts, budgets, settings.
    pub rest: Digest,
}

/// The digest that a key of the configuration belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DigestPart {
    /// `ConfigDigests::reach`.
    Reach,
    /// `ConfigDigests::gate`.
    Gate,
    /// `ConfigDigests::rest`.
    Rest,
}

impl ConfigDigests {
    /// The digests of a configuration as its file says it, without settings of the environment; the
    /// agent that was made of it has the versions of the built-in tools.
    pub fn of(text: &AgentText, agent: &Agent) -> Self {
        let mut values = flat_values(&complete(text));
        if seeded(Bug::DigestWithoutServers) {
            values.retain(|path, _| !is_at(path, "mcp_servers"));
        }
        let digest = |part, own: Value| {
            let of_part = values.iter().filter(|(path, _)| part_of(path) == Some(part));
            Digest::of_json(&json!({
                "form": "toolgate configuration 1", "part": part,
                "values": by_pointer(of_part), "own": own,
            }))
        };
        Self {
            reach: digest(DigestPart::Reach, Value::Null),
            gate: digest(DigestPart::Gate, built_in(agent)),
            rest: digest(DigestPart::Rest, Value::Null),
        }
    }

    /// One digest of everything that needs a person's trust: `reach` and `gate`.
    pub fn trust_digest(&self) -> Digest {
        let Self { reach, gate, rest: _ } = self;
        Digest::of_json(&json!({"form": "toolgate trust 1", "reach": reach, "gate": gate}))
    }
}

/// What the program brings itself: its tools with their versions and policies, and its families.
/// Tools of servers are not there: they change without the file, and are pinned.
fn built_in(agent: &Agent) -> Value {
    let entries = agent.toolset.entries().iter();
    let own = entries.filter(|entry| entry.spec.name.of_server().is_none());
    let tools: BTreeMap<_, _> = own
        .map(|entry| {
            let of_file = entry
                .policies
                .iter()
                .filter(|one| !one.name().as_str().starts_with(MACHINE_POLICY_PREFIX));
            let policies = of_file.map(|one| json!([one.name(), one.describe()]));
            let policies: Vec<Value> = policies.collect();
            (entry.spec.name.to_string(), json!([entry.spec.version, policies]))
        })
        .collect();
    let families = agent.toolset.families();
    let families: BTreeMap<_, _> = families
        .map(|family| (family.name.to_string(), json!([family.home, family.guard, family.layout])))
        .collect();
    let mut own = json!({"tools": tools, "families": families});
    if let (false, Value::Object(own)) = (agent.toolset.faces().is_empty(), &mut own) {
        own.insert("sections".to_owned(), json!(agent.toolset.faces()));
    }
    own
}

/// The digest that the value at a path belongs to; none for what is only for the reader of the file.
pub fn part_of(path: &KeyPath) -> Option<DigestPart> {
    let named = |patterns: &[&str]| patterns.iter().any(|pattern| is_at(path, pattern));
    if named(COSMETIC) {
        None
    } else if named(GATE) {
        Some(DigestPart::Gate)
    } else if named(REST) {
        Some(DigestPart::Rest)
    } else if named(REACH) {
        Some(DigestPart::Reach)
    } else {
        // A new key belongs here until somebody decides otherwise: then a change of it asks anew.
        Some(DigestPart::Gate)
    }
}

/// Whether a path is at a pattern or inside of it. A `*` stands for one step.
fn is_at(path: &KeyPath, pattern: &str) -> bool {
    let mut steps = path.steps().iter();
    pattern.split('.').all(|wanted| match steps.next() {
        Some(PathStep::Key(key)) => wanted == "*" || wanted == key,
        Some(PathStep::Item(_)) => wanted == "*",
        None => false,
    })
}

/// Keys that change nothing.
pub const COSMETIC: &[&str] = &[
    // It names the form of the file. What the file means in that form is in all other values.
    "version",
];

/// Keys of `gate` that stand inside of a key of another part.
const GATE: &[&str] = &[
    // It decides whether several calls of one turn are run.
    "models.*.tool_calling.request_overrides.parallel_tool_calls",
    "tool_calling.request_overrides.parallel_tool_calls",
];

/// Keys of `rest`: they change what a model is told and how a run goes on, not what it may do.
const REST: &[&str] = &[
    "name",
    "description",
    "system_prompt",
    "planning",
    // Its tools only read, what it shows are words, and `chief` is asked beside it: its model is in
    // `reach`, and it decides nothing.
    "catalogue",
    "budget",
    "settings.auto_pilot",
    "settings.stop_only_on_complete",
    "settings.stop_after_phase_change",
    "settings.max_context_tokens",
    "settings.max_tool_calls_per_iteration",
    "settings.tool_args_max_chars",
    "settings.tool_result_max_chars",
    "settings.stream_console_updates",
    "settings.summary_max_chars",
    "agents.*.name",
    "agents.*.archetype",
    "agents.*.system_prompt",
    "agents.*.reflection_prompt",
    "agents.*.memory_reflection_prompt",
    "phases.*.description",
    "phases.*.rules",
    "phases.*.guide",
    "directives.types.*.description",
    "directives.modes",
    "directives.repair_retry_count",
    "models.*.tool_calling_reliable",
    "models.*.capabilities.images",
    "models.*.capabilities.streaming",
    "models.*.capabilities.json_schema",
    "models.*.capabilities.json_object",
    "models.*.capabilities.parallel_tool_calls",
    "models.*.capabilities.context_window_tokens",
    "models.*.stream",
    "models.*.cache",
    "models.*.max_output_tokens",
    "models.*.connect_ms_max",
    "models.*.first_byte_ms_max",
    "models.*.idle_ms_max",
    "models.*.reply_ms_max",
    "models.*.tool_calling.result_format",
    "models.*.tool_calling.tool_protocol",
    "models.*.tool_calling.tool_choice",
    "models.*.tool_calling.fallback_retry_count",
    "models.*.tool_calling.fix_empty_final",
    "models.*.tool_calling.fix_empty_final_user_text",
    "models.*.tool_calling.fix_empty_final_disable_tools",
    "tool_calling.result_format",
    "tool_calling.tool_protocol",
    "tool_calling.tool_choice",
    "tool_calling.fallback_retry_count",
    "tool_calling.fix_empty_final",
    "tool_calling.fix_empty_final_user_text",
    "tool_calling.fix_empty_final_disable_tools",
    // Sampling. Any other option can let the provider itself connect somewhere.
    "models.*.options.temperature",
    "models.*.options.top_p",
    "models.*.options.top_k",
    "models.*.options.min_p",
    "models.*.options.seed",
    "models.*.options.frequency_penalty",
    "models.*.options.presence_penalty",
    "models.*.options.repetition_penalty",
    "models.*.options.max_tokens",
    "models.*.options.max_completion_tokens",
    "models.*.options.max_output_tokens",
    "models.*.options.maxOutputTokens",
    // How long a model and its server are waited for, and what is kept of their replies.
    "limits.reply_ms_max",
    "limits.turn_ms_max",
    "limits.reply_bytes_max",
    "limits.fault_bytes_max",
    "limits.model_failures_max",
    "limits.retry_ms_max",
    "limits.attempts_max",
    "limits.backoff_ms_max",
    "limits.retry_after_ms_max",
    "limits.breaker_failures_max",
    "limits.breaker_rest_ms_max",
    "limits.breaker_billing_ms_max",
    "limits.picture_bytes_max",
    "limits.pictures_max",
    "limits.pictures_bytes_max",
];

/// Keys of `reach`.
const REACH: &[&str] = &[
    "mcp_servers.*.transport",
    "mcp_servers.*.command",
    "mcp_servers.*.args",
    "mcp_servers.*.env",
    "mcp_servers.*.loader_env",
    "mcp_servers.*.cwd",
    "mcp_servers.*.url",
    "mcp_servers.*.headers",
    "mcp_servers.*.auth",
    "mcp_servers.*.oauth",
    "mcp_servers.*.sandbox",
    // The name of a model says which provider is asked, and with it the address.
    "settings.model",
    "settings.base_url",
    "settings.api_key",
    "agents.*.model",
    "models.*.provider",
    "models.*.model",
    "models.*.base_url",
    "models.*.api_prefix",
    "models.*.api_key",
    "models.*.headers",
    "models.*.fallback",
    "models.*.allow_plain_http",
    "models.*.options",
    "models.*.tool_calling.request_overrides",
    "tool_calling.request_overrides",
    "directives.request_overrides",
    "web.searxng_url",
    "web.follow_redirects",
];
