//! Decides what a person is advised to do about a model that does not answer as it should.

use toolgate_kernel::config::{AgentText, ChosenModel, ProviderName, SecretPart, pasted};
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::ProviderFault;

use crate::{environment, model};

/// What helps with a model that calls no tools.
pub(crate) const CALLS_NOTHING: &str = "If it prints calls as text, write `presets: [printed_tool_calls]` for it. If its server has a \
     switch for tool calls, turn it on (llama.cpp: --jinja).";

/// What helps with a model that calls tools, and not as it is asked to.
pub(crate) const CALLS_WRONGLY: &str =
    "Try a lower `temperature` in its `options`, or a larger model.";

/// What to do about a fault, in a sentence.
pub(crate) fn remedy(
    fault: &ProviderFault,
    text: &AgentText,
    chosen: &ChosenModel,
) -> Option<String> {
    let known = chosen.provider.known();
    let address = chosen.text.base_url.as_deref().unwrap_or(known.base_url);
    Some(match fault.kind {
        FaultKind::Unreachable => {
            let start = match chosen.provider {
                ProviderName::Ollama => " Start it with: ollama serve",
                ProviderName::Lmstudio => " Turn its server on in the developer tab.",
                ProviderName::Llamacpp => " Start it with: llama-server --jinja -m MODEL.gguf",
                ProviderName::Openai
                | ProviderName::OpenaiResponses
                | ProviderName::Anthropic
                | ProviderName::Gemini
                | ProviderName::Openrouter
                | ProviderName::Deepseek
                | ProviderName::Mistral
                | ProviderName::Groq
                | ProviderName::Vllm => "",
            };
            format!("Nothing answers at {address}. Is the server running, and the address right?{start}")
        }
        FaultKind::Unauthorized => match key_place(text, chosen) {
            Some(place) => format!("The key is not accepted. Look at {place}."),
            None => {
                let own = known.key_variable;
                let why = own.map(|own| format!(": {own} goes to {} only", known.base_url));
                let how = match text.models.contains_key(&chosen.name) {
                    true => format!("Write `api_key: env:NAME` in `models.{}`.", chosen.name),
                    false => "Set TOOLGATE_API_KEY, or write `api_key: env:NAME` in `settings`.".to_owned(),
                };
                format!("No key was sent{}. {how}", why.unwrap_or_default())
            }
        },
        FaultKind::Billing => "Look at the account: there is no credit, or a limit is reached.".to_owned(),
        FaultKind::NotFound => match pasted(address) {
            Some((base, endpoint)) => {
                format!("`base_url` ends with {endpoint}, which toolgate adds itself. Write {base}")
            }
            None => format!(
                "The server does not know {:?}. Look at `model`, `base_url` and `api_prefix`.",
                chosen.text.model
            ),
        },
        FaultKind::BadRequest => "The server does not take the request. If it knows no tools, write \
                                  `capabilities: {tools: false}` for the model."
            .to_owned(),
        FaultKind::RateLimited | FaultKind::Overloaded => "Try again later.".to_owned(),
        FaultKind::TimedOut => {
            "It may still be loading the model. Try again, or give it more time: `first_byte_ms_max` \
             until it begins, `idle_ms_max` between two pieces, `reply_ms_max` in all."
                .to_owned()
        }
        FaultKind::Tls => "The server's certificate is not trusted. Set TOOLGATE_CA_FILE for an authority of your own.".to_owned(),
        FaultKind::CutOff => {
            "The server ended the connection before its answer was whole. Look at its log: one that \
             runs out of memory does that. Behind a proxy, try `stream: false`."
                .to_owned()
        }
        FaultKind::Unreadable | FaultKind::UnknownFinish => {
            "This is not what the dialect says. Is `provider` right? Try `stream: false`.".to_owned()
        }
        FaultKind::Truncated => {
            "It had no room for a whole call. Raise its `max_output_tokens`, or the context its server \
             gives it."
                .to_owned()
        }
        FaultKind::TooLarge => {
            "Its context is too small for one short question with a tool. Raise it at its server."
                .to_owned()
        }
        FaultKind::Filtered => {
            "Its provider kept the answer back. Look at the provider's safety settings.".to_owned()
        }
        FaultKind::MalformedCall | FaultKind::NoCalls => CALLS_NOTHING.to_owned(),
        // What is seen says what to do.
        FaultKind::Redirected
        | FaultKind::CircuitOpen
        | FaultKind::ToolCallRejected
        | FaultKind::ToolRequired
        | FaultKind::EvidenceRejected
        | FaultKind::Stopped
        | FaultKind::Unusable => return None,
    })
}

/// Headers in which servers look for a key.
const KEY_HEADERS: &[&str] = &["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Where the key of a model was taken from; nothing when none was sent.
fn key_place(text: &AgentText, chosen: &ChosenModel) -> Option<String> {
    let Some(secret) = &chosen.text.api_key else {
        let set = |name: &&str| matches!(environment::text(name), Ok(Some(_)));
        let own = model::own_variable(chosen).filter(set);
        let is_key = |name: &String| KEY_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        let headers = chosen.text.headers.keys().any(is_key).then_some("its `headers`");
        return own.or(headers).map(str::to_owned);
    };
    let parts = secret.parts().unwrap_or_default();
    let places: Vec<String> = parts
        .iter()
        .filter_map(|part| match part {
            SecretPart::Variable(name) => Some((*name).to_owned()),
            SecretPart::File(path) => Some(format!("the file {path}")),
            SecretPart::Word(_) => None,
        })
        .collect();
    let lies_around =
        || environment::settings().is_ok_and(|here| here.api_key.as_ref() == Some(secret));
    Some(match places.is_empty() {
        false => places.join(" and "),
        true if text.models.contains_key(&chosen.name) => {
            format!("`models.{}.api_key`", chosen.name)
        }
        true if lies_around() => "TOOLGATE_API_KEY".to_owned(),
        true => "`settings.api_key`".to_owned(),
    })
}
