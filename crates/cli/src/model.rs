//! Decides which model is asked, from what is written down, and looks its key up.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use toolgate_http::{Patience, Plain};
use toolgate_kernel::agent::Agent;
use toolgate_kernel::calling::ToolProtocol;
use toolgate_kernel::config::{
    AgentText, CacheText, Chosen, ChosenModel, Known, OUTPUT_KEYS, ProviderName, Secret, Speech,
};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::json::lay_over;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::plan::Plan;
use toolgate_runtime::Directing;
use toolgate_runtime::port::Provider;
use toolgate_wire::dialect::{Capabilities, Dialect, Options, ReplyBounds};
use toolgate_wire::json_protocol::JsonToolModel;
use toolgate_wire::model::{Exchange, ModelSpec};
use toolgate_wire::script::Script;
use toolgate_wire::transform::Transforms;
use toolgate_wire::{BreakerRules, Retries};

use crate::console::tell;
use crate::environment;
use crate::host::SystemClock;
use crate::project::bounded;
use crate::redaction::{hidden, redactor};
use crate::trust::TrustedAccess;

/// The script that plays the model when none is configured.
const OWN_SCRIPT: &str = include_str!("../demo/story.yaml");

/// How a log calls the model that plays it.
pub(crate) const DEMO: &str = "script:demo";

/// The last phase of the agent that the shipped script is for.
const OWN_LAST_PHASE: &str = "READY_FOR_HUMAN";

/// Who plays the model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Played {
    /// The shipped script, because no model is configured.
    ByTheDemo,
    /// The one that was asked for.
    AsAsked,
}

/// Refuses pictures for a model that is said to see none.
pub(crate) fn shows_pictures(text: &AgentText) -> Result<()> {
    match text.chosen()? {
        Chosen::Model(model) if model.text.capabilities.images == Some(false) => bail!(
            "{} sees no pictures: its capabilities say images: false. Name another model, leave \
             the picture out, or write images: true if that is wrong",
            model.name
        ),
        Chosen::Model(_) | Chosen::Script(_) | Chosen::None => Ok(()),
    }
}

/// The model of a run.
pub(crate) fn provider(
    access: &TrustedAccess,
    text: &AgentText,
    agent: &Agent,
) -> Result<(Arc<dyn Provider>, Played)> {
    let (own, played) = spoken(access, text, agent)?;
    if agent.tool_calling.protocol == ToolProtocol::Native {
        return Ok((own, played));
    }
    let nonce = |_: &Plan| {
        let bytes = environment::random::<16>().ok()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    };
    Ok((Arc::new(JsonToolModel::new(own, agent.limits.clone(), nonce)), played))
}

/// The same as its provider speaks.
fn spoken(
    access: &TrustedAccess,
    text: &AgentText,
    agent: &Agent,
) -> Result<(Arc<dyn Provider>, Played)> {
    match text.chosen()? {
        Chosen::None => {
            let names: Vec<&str> = text.models.keys().map(String::as_str).collect();
            ensure!(
                names.is_empty(),
                "there are several models, {}: say which one with --model, or with \
                 `settings.model`",
                names.join(", ")
            );
            Ok((Arc::new(demo(agent)?), Played::ByTheDemo))
        }
        Chosen::Script(file) => {
            let own: Arc<dyn Provider> = Arc::new(script(&file)?);
            let Some(directives) = &text.directives else { return Ok((own, Played::AsAsked)) };
            let directing =
                Directing::new(Arc::clone(&own), own, directives.build()?, Arc::new(SystemClock));
            Ok((Arc::new(directing), Played::AsAsked))
        }
        Chosen::Model(model) => {
            if let Some(told) = text.meant_as_it_is(&model) {
                tell(&told);
            }
            let (exchange, mut spec) = (exchange(&text.limits)?, spec(access, text, &model)?);
            let own: Arc<dyn Provider> = Arc::new(exchange.model(&spec)?);
            let Some(directives) = &text.directives else { return Ok((own, Played::AsAsked)) };
            let above = &directives.request_overrides;
            lay_over(&mut spec.options.request_overrides, above);
            for other in &mut spec.fallback {
                lay_over(&mut other.options.request_overrides, above);
            }
            let formed = Arc::new(exchange.model(&spec)?);
            let directing = Directing::new(own, formed, directives.build()?, Arc::new(SystemClock));
            Ok((Arc::new(directing), Played::AsAsked))
        }
    }
}

/// A model by its name, to be asked beside a run.
pub(crate) fn by_name(
    access: &TrustedAccess,
    text: &AgentText,
    name: &str,
) -> Result<Arc<dyn Provider>> {
    match text.chosen_by_name(name)? {
        Chosen::None => bail!("no model is named"),
        Chosen::Script(file) => Ok(Arc::new(script(&file)?)),
        Chosen::Model(model) => {
            let spec = spec(access, text, &model)?;
            Ok(Arc::new(exchange(&text.limits)?.model(&spec)?))
        }
    }
}

fn demo(agent: &Agent) -> Result<Script> {
    let mut phases = agent.phases();
    ensure!(
        phases.any(|phase| phase.name.as_str() == OWN_LAST_PHASE),
        "no model is configured, and the shipped script is for the built-in writer only. Name a \
         model: --model ollama:qwen3, or --model script:FILE (docs/models.md)"
    );
    Ok(Script::parse("demo", OWN_SCRIPT)?)
}

pub(crate) fn script(file: &str) -> Result<Script> {
    let yaml = bounded(Path::new(file)).with_context(|| format!("{file} cannot be read"))?;
    let yaml = String::from_utf8(yaml).with_context(|| format!("{file} is not UTF-8"))?;
    Ok(Script::parse(file, &yaml)?)
}

/// What all models of this process share.
pub(crate) fn exchange(limits: &Limits) -> Result<Exchange> {
    let seed = u64::from_le_bytes(environment::random()?);
    let rules = BreakerRules::within(limits);
    Ok(Exchange::new(environment::roots()?, Arc::new(SystemClock), seed, rules))
}

/// A model as data, with its key looked up. Nothing is sent.
pub(crate) fn spec(
    access: &TrustedAccess,
    text: &AgentText,
    model: &ChosenModel,
) -> Result<ModelSpec> {
    let mut spec = alone(access, text, model)?;
    for other in text.fallbacks(model)? {
        spec.fallback.push(alone(access, text, &other)?);
    }
    Ok(spec)
}

fn alone(access: &TrustedAccess, text: &AgentText, model: &ChosenModel) -> Result<ModelSpec> {
    let known = model.provider.known();
    let base_url = model.text.base_url.as_deref().unwrap_or(known.base_url);
    let name = text.name_in_log(model);
    let mut spec = ModelSpec::new(&name, dialect(known), base_url, &model.text.model);
    spec.api_prefix = Some(model.text.api_prefix.as_deref().unwrap_or(known.api_prefix).to_owned());
    spec.key = key(access, model)?;
    let header = |(name, secret): (&String, &Secret)| -> Result<(String, Hidden)> {
        Ok((name.clone(), hidden(name, secret, &access.look_up(secret)?)))
    };
    spec.headers = model.text.headers.iter().map(header).collect::<Result<_>>()?;
    spec.options = options(text, model)?;
    spec.patience = patience(text, model);
    spec.retries = Retries::within(&text.limits);
    // A turn has room for the one request that somebody gave so long.
    let request_ms = spec.patience.request_ms_max.unwrap_or(0);
    spec.turn_ms_max = text.limits.turn_ms_max.max(request_ms);
    spec.bounds = ReplyBounds::from(&text.limits);
    spec.redactor = redactor();
    // It is held to that also where it stands in.
    spec.calls_max = model.calling.one_at_a_time().then_some(1);
    if model.text.allow_plain_http == Some(true) {
        spec.plain = Plain::Anywhere;
    }
    Ok(spec)
}

fn dialect(known: &Known) -> Dialect {
    match known.speech {
        Speech::Chat => Dialect::Chat,
        Speech::Responses => Dialect::Responses,
        Speech::Anthropic => Dialect::Anthropic,
        Speech::Gemini => Dialect::Gemini,
    }
}

/// The key of a model. One that lies in the environment goes to its own provider and nowhere
/// else: an address in a file must not draw it away.
fn key(access: &TrustedAccess, model: &ChosenModel) -> Result<Option<Hidden>> {
    if let Some(secret) = &model.text.api_key {
        let found = access.look_up(secret);
        return Ok(Some(Hidden::new(found.with_context(|| format!("model {}", model.name))?)));
    }
    let Some(variable) = own_variable(model) else { return Ok(None) };
    match environment::text(variable)? {
        Some(key) => Ok(Some(Hidden::new(key))),
        // Its headers may hold another way in.
        None if !model.text.headers.is_empty() => Ok(None),
        None => bail!(
            "model {} needs a key: set {variable}, or write `api_key: env:NAME` for it under \
             `models` (docs/models.md)",
            model.name
        ),
    }
}

/// The variable that holds the key of a model's provider, where the model is at its own address.
pub(crate) fn own_variable(model: &ChosenModel) -> Option<&'static str> {
    let known = model.provider.known();
    known.key_variable.filter(|_| at_home(model, known))
}

/// Whether a model is at its provider's own address.
fn at_home(model: &ChosenModel, known: &Known) -> bool {
    model.text.base_url.as_deref().is_none_or(|url| origin(url) == origin(known.base_url))
}

/// The part of an address that says whom it reaches; nothing when it hides that.
fn origin(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    if host.contains(['@', '\\']) {
        return None;
    }
    let host = host.strip_suffix(":443").unwrap_or(host);
    Some((scheme.to_ascii_lowercase(), host.to_ascii_lowercase()))
}

fn options(agent: &AgentText, model: &ChosenModel) -> Result<Options> {
    let text = &model.text;
    let mut request_overrides = model.calling.request_overrides.clone();
    // It is sent only beside tools, and only where the provider knows it or somebody wrote it.
    let parallel_tool_calls =
        request_overrides.get("parallel_tool_calls").and_then(serde_json::Value::as_bool);
    if parallel_tool_calls.is_some() {
        request_overrides.shift_remove("parallel_tool_calls");
    }
    let known = model.provider.known();
    let mut can = model.provider.capabilities(&text.model);
    if model.provider == ProviderName::Openai && !at_home(model, known) {
        // A server nothing is known of promises no schema.
        can.json_schema = Some(false);
    }
    let can = text.capabilities.or(can);
    let yes = |flag: Option<bool>| flag.unwrap_or(false);
    let mut sampling = text.options.clone();
    // One place for the bound of a reply, so that it can be raised when a reply was cut off.
    for key in OUTPUT_KEYS {
        sampling.shift_remove(*key);
    }
    Ok(Options {
        model: text.model.clone(),
        sampling,
        request_overrides,
        stream: text.stream.unwrap_or(true),
        output_tokens_max: text.output_tokens_max(),
        preserve_cache: text.cache == Some(CacheText::Preserve),
        parallel_tool_calls,
        capabilities: Capabilities {
            tools: yes(can.tools),
            images: yes(can.images),
            json_schema: yes(can.json_schema),
            json_object: yes(can.json_object),
            parallel_tool_calls: model.sends_parallel_tool_calls(agent),
            streaming: yes(can.streaming),
        },
        transforms: Transforms::of(&model.calling)?,
    })
}

fn patience(text: &AgentText, model: &ChosenModel) -> Patience {
    let own = Patience::default();
    let limit = text.limits.reply_ms_max;
    // The default depends on where the server is, so only what somebody wrote counts.
    let written = Some(limit).filter(|limit| *limit != Limits::default().reply_ms_max);
    Patience {
        connect_ms_max: model.text.connect_ms_max.unwrap_or(own.connect_ms_max),
        first_byte_ms_max: model.text.first_byte_ms_max,
        idle_ms_max: model.text.idle_ms_max,
        request_ms_max: model.text.reply_ms_max.or(written),
        ..own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_goes_to_its_own_provider_and_to_no_look_alike() {
        for (url, own) in [
            ("https://api.openai.com", true),
            ("https://api.openai.com/v1", true),
            ("HTTPS://API.openai.com:443/v1", true),
            ("https://api.openai.com.evil.example/v1", false),
            ("https://api.openai.com@evil.example/v1", false),
            ("https://api.openai.com\\@evil.example", false),
            ("http://api.openai.com/v1", false),
            ("https://api.openai.com:8443/v1", false),
            ("api.openai.com", false),
        ] {
            assert_eq!(origin(url) == origin("https://api.openai.com"), own, "{url}");
        }
    }
}
