//! Decides how tool calling is put together: presets of the provider and of the model, then what
//! is said for all models, then what is said for this one.

use super::model::ALL;
use super::provider::{ProviderName, Speech};
use super::transform::{Transform, TransformKind, canonical};
use super::{ModelText, NamesText, ToolCallingText, ToolUseMode};
use crate::names::nearest;

/// Settings that go together, under one name. A preset never says whether tools must be used, nor
/// what a failed tool means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// The transforms it adds.
    pub transforms: &'static [Transform],
    /// What it says of several calls in one reply.
    pub parallel_tool_calls: Option<bool>,
}

const fn preset(
    name: &'static str,
    about: &'static str,
    transforms: &'static [Transform],
) -> Preset {
    Preset { name, about, transforms, parallel_tool_calls: None }
}

/// Every preset, in the order of the docs.
pub const PRESETS: &[Preset] = &[
    preset(
        "openai_compatible_reliability",
        "Mends what servers send that are almost compatible with OpenAI chat completions.",
        &[
            Transform::FunctionCall,
            Transform::CallsToArray,
            Transform::ArgumentsToText,
            Transform::BlankArguments,
            Transform::NormalizeNames,
        ],
    ),
    Preset {
        name: "sequential_tool_calls",
        about: "Asks for one call at a time.",
        transforms: &[],
        parallel_tool_calls: Some(false),
    },
    preset(
        "content_tag_tool_call_fallback",
        "Takes calls that a model prints between <tool_call> tags.",
        &[Transform::PrintedTags],
    ),
    preset(
        "deepseek_openrouter_compat",
        "Sends what DeepSeek's reasoning models want beside calls.",
        &[Transform::ReasoningEmptyIfMissing],
    ),
    preset(
        "gemini_openrouter_compat",
        "Sends what Gemini wants beside calls, where its own signature is not known.",
        &[Transform::SignatureSkipIfMissing],
    ),
    preset(
        "strict_chat_template",
        "Sends what Mistral and strict templates take: user and assistant take turns, and ids of \
         calls are nine letters and digits.",
        &[Transform::AlternateRoles, Transform::ShortIds],
    ),
    preset(
        "inline_thoughts",
        "Takes a thought that the words begin with out of them.",
        &[Transform::LeadingThought],
    ),
    preset(
        "printed_tool_calls",
        "Takes calls that any local model prints as text.",
        &[
            Transform::PrintedHermes,
            Transform::PrintedLlama,
            Transform::PrintedMistral,
            Transform::PrintedDeepSeek,
            Transform::PrintedDomain,
            Transform::BlankArguments,
            Transform::NormalizeNames,
        ],
    ),
    preset(
        "hermes_printed_tool_calls",
        "Takes calls that Hermes and Qwen models print as text.",
        &[Transform::PrintedHermes],
    ),
    preset(
        "llama_printed_tool_calls",
        "Takes calls that Llama models print as text.",
        &[Transform::PrintedLlama],
    ),
    preset(
        "mistral_printed_tool_calls",
        "Takes calls that Mistral models print as text.",
        &[Transform::PrintedMistral],
    ),
    preset(
        "deepseek_printed_tool_calls",
        "Takes calls that DeepSeek models print as text.",
        &[Transform::PrintedDeepSeek],
    ),
];

/// Which presets a model gets by its name. The name is looked at whole and without what stands
/// before the last slash, in small letters.
const BY_MODEL: &[(&str, &str)] = &[
    ("deepseek/*", "deepseek_openrouter_compat"),
    ("*reasoner*", "deepseek_openrouter_compat"),
    ("google/gemini-*", "gemini_openrouter_compat"),
    ("mistral*", "strict_chat_template"),
    ("mixtral*", "strict_chat_template"),
    ("ministral*", "strict_chat_template"),
    ("magistral*", "strict_chat_template"),
    ("devstral*", "strict_chat_template"),
    ("codestral*", "strict_chat_template"),
    ("gemma*", "strict_chat_template"),
    // Thoughts go out of the words before calls are looked for in these.
    ("qwen*", "inline_thoughts"),
    ("qwq*", "inline_thoughts"),
    ("deepseek*", "inline_thoughts"),
    ("magistral*", "inline_thoughts"),
    ("*r1-distill*", "inline_thoughts"),
    ("glm*", "inline_thoughts"),
    ("minimax-m*", "inline_thoughts"),
    ("kimi*", "inline_thoughts"),
    ("exaone*", "inline_thoughts"),
    ("smollm3*", "inline_thoughts"),
    ("phi-4*", "inline_thoughts"),
    ("*nemotron*", "inline_thoughts"),
    ("*hermes-4*", "inline_thoughts"),
    ("*thinking*", "inline_thoughts"),
    ("qwen*", "hermes_printed_tool_calls"),
    ("qwq*", "hermes_printed_tool_calls"),
    ("*hermes*", "hermes_printed_tool_calls"),
    ("llama*", "llama_printed_tool_calls"),
    ("meta-llama*", "llama_printed_tool_calls"),
    ("mistral*", "mistral_printed_tool_calls"),
    ("mixtral*", "mistral_printed_tool_calls"),
    ("ministral*", "mistral_printed_tool_calls"),
    ("magistral*", "mistral_printed_tool_calls"),
    ("devstral*", "mistral_printed_tool_calls"),
    ("codestral*", "mistral_printed_tool_calls"),
    ("deepseek*", "deepseek_printed_tool_calls"),
];

/// Models that cannot call tools. This is known of the model, so that only the model's own
/// `tool_use_mode` is stronger.
const WITHOUT_TOOLS: &[&str] = &["minimax/minimax-m2-her"];

/// A preset that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{name}`")]
pub struct PresetRefusal {
    /// What was written.
    pub name: String,
    /// The nearest name there is.
    pub near: Option<&'static str>,
}

impl PresetRefusal {
    /// What to write instead.
    pub fn help(&self) -> String {
        match self.near {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                format!("there is {}", names.join(", "))
            }
        }
    }
}

impl Preset {
    /// The preset with this name; blanks around it, case and `-` are of no account.
    pub fn find(name: &str) -> Result<&'static Self, PresetRefusal> {
        let wanted = canonical(name);
        PRESETS.iter().find(|preset| preset.name == wanted).ok_or_else(|| {
            let near = nearest(&wanted, PRESETS.iter().map(|preset| preset.name));
            PresetRefusal { name: name.chars().take(80).collect(), near }
        })
    }

    /// The preset as if somebody had written it down.
    fn text(&self) -> ToolCallingText {
        let mut text = ToolCallingText::default();
        if let Some(parallel) = self.parallel_tool_calls {
            text.request_overrides.insert("parallel_tool_calls".to_owned(), parallel.into());
        }
        for transform in self.transforms {
            let list = list_mut(&mut text, transform.kind());
            *list = union(list.take(), Some(&NamesText::List(vec![transform.name().to_owned()])));
        }
        text
    }
}

fn list_mut(text: &mut ToolCallingText, kind: TransformKind) -> &mut Option<NamesText> {
    match kind {
        TransformKind::Message => &mut text.message_transforms,
        TransformKind::Tool => &mut text.tool_transforms,
        TransformKind::Response => &mut text.response_transforms,
        TransformKind::Call => &mut text.tool_call_transforms,
        TransformKind::Result => &mut text.tool_result_transforms,
    }
}

/// How a model is asked to call tools.
pub fn effective(
    global: &ToolCallingText,
    model: &ModelText,
    provider: ProviderName,
) -> ToolCallingText {
    let named: Option<Vec<&str>> = model.presets.as_ref().map(NamesText::names);
    let automatic = named.as_ref().is_none_or(|names| !names.is_empty());
    let mut names = Vec::new();
    if automatic {
        names.extend(of_provider(model, provider));
        names.extend(of_model(&model.model, provider));
    }
    names.extend(named.into_iter().flatten());
    let mut text = ToolCallingText::default();
    let mut seen: Vec<&Preset> = Vec::new();
    for preset in names.into_iter().filter_map(|name| Preset::find(name).ok()) {
        if !seen.contains(&preset) {
            seen.push(preset);
            lay_over(&mut text, &preset.text());
        }
    }
    lay_over(&mut text, global);
    if automatic && is_any(&model.model, WITHOUT_TOOLS.iter().copied()) {
        text.tool_use_mode = Some(ToolUseMode::Disabled);
    }
    if let Some(own) = &model.tool_calling {
        lay_over(&mut text, own);
    }
    text
}

/// The presets of a provider.
fn of_provider(model: &ModelText, provider: ProviderName) -> Vec<&'static str> {
    let known = provider.known();
    if known.speech != Speech::Chat {
        return Vec::new();
    }
    let mut names = vec!["openai_compatible_reliability"];
    let base_url = model.base_url.as_deref().unwrap_or(known.base_url);
    let host = base_url.split("//").nth(1).unwrap_or_default();
    let host = host.split(['/', ':']).next().unwrap_or_default().to_lowercase();
    let hosts = ["openrouter.ai", "api.openai.com", "volces.com"];
    if hosts.iter().any(|known| host == *known || host.ends_with(&format!(".{known}"))) {
        names.push("sequential_tool_calls");
    }
    if provider == ProviderName::Mistral {
        names.push("strict_chat_template");
    }
    names
}

/// The presets of a model. What is for the messages of one dialect is not given to another.
fn of_model(model: &str, provider: ProviderName) -> Vec<&'static str> {
    let chat = provider.known().speech == Speech::Chat;
    let rows = BY_MODEL.iter().filter(|(glob, _)| chat && is_any(model, [*glob]));
    rows.map(|(_, preset)| *preset).collect()
}

/// Whether a model's name fits one of these patterns.
fn is_any<'a>(model: &str, globs: impl IntoIterator<Item = &'a str>) -> bool {
    let model = model.trim().to_lowercase();
    let bare = model.split(':').next().unwrap_or_default();
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let names = [model.clone(), bare.to_owned(), last(&model), last(bare)];
    globs.into_iter().any(|glob| names.iter().any(|name| fits(glob, name)))
}

/// Whether a text fits a pattern in which `*` stands for anything.
fn fits(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Lays one text over another: lists are united in order, `request_overrides` are merged key by
/// key, and of everything else the later one wins.
fn lay_over(below: &mut ToolCallingText, above: &ToolCallingText) {
    // Every key is named, so that none that comes later is forgotten.
    let ToolCallingText {
        tool_use_mode,
        tool_failure_policy,
        allow_unreliable,
        max_tool_args_bytes,
        max_tool_output_bytes,
        result_format,
        tool_protocol,
        max_turns,
        max_tool_calls_per_turn,
        tool_choice,
        fallback_retry_count,
        tool_allowlist,
        tool_denylist,
        fix_empty_final,
        fix_empty_final_user_text,
        fix_empty_final_disable_tools,
        request_overrides,
        message_transforms,
        tool_transforms,
        response_transforms,
        tool_call_transforms,
        tool_result_transforms,
    } = below;
    later(tool_use_mode, &above.tool_use_mode);
    later(tool_failure_policy, &above.tool_failure_policy);
    later(allow_unreliable, &above.allow_unreliable);
    later(max_tool_args_bytes, &above.max_tool_args_bytes);
    later(max_tool_output_bytes, &above.max_tool_output_bytes);
    later(result_format, &above.result_format);
    later(tool_protocol, &above.tool_protocol);
    later(max_turns, &above.max_turns);
    later(max_tool_calls_per_turn, &above.max_tool_calls_per_turn);
    later(tool_choice, &above.tool_choice);
    later(fallback_retry_count, &above.fallback_retry_count);
    later(fix_empty_final, &above.fix_empty_final);
    later(fix_empty_final_user_text, &above.fix_empty_final_user_text);
    later(fix_empty_final_disable_tools, &above.fix_empty_final_disable_tools);
    crate::json::lay_over(request_overrides, &above.request_overrides);
    *tool_allowlist = allow(tool_allowlist.take(), above.tool_allowlist.as_ref());
    for (list, above) in [
        (tool_denylist, &above.tool_denylist),
        (message_transforms, &above.message_transforms),
        (tool_transforms, &above.tool_transforms),
        (response_transforms, &above.response_transforms),
        (tool_call_transforms, &above.tool_call_transforms),
        (tool_result_transforms, &above.tool_result_transforms),
    ] {
        *list = union(list.take(), above.as_ref());
    }
}

fn later<T: Clone>(below: &mut Option<T>, above: &Option<T>) {
    if above.is_some() {
        below.clone_from(above);
    }
}

/// An empty list clears what came before and allows none; `all` clears it and filters nothing.
fn allow(below: Option<NamesText>, above: Option<&NamesText>) -> Option<NamesText> {
    let Some(names) = above else { return below };
    let all = |names: &NamesText| names.names() == [ALL];
    if names.names().is_empty() || all(names) || below.as_ref().is_some_and(all) {
        return Some(names.clone());
    }
    union(below, above)
}

/// Both lists in order, each name once.
fn union(below: Option<NamesText>, above: Option<&NamesText>) -> Option<NamesText> {
    let Some(above) = above else { return below };
    let mut names: Vec<String> = Vec::new();
    let both = below.iter().chain([above]).flat_map(|names| names.names());
    for name in both {
        if !names.iter().any(|known| canonical(known) == canonical(name)) {
            names.push(name.to_owned());
        }
    }
    Some(NamesText::List(names))
}

#[cfg(test)]
mod tests;
