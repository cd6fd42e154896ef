//! Decides which providers are known by name: how they speak, where they are, and where their key
//! is looked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CapabilitiesText;

/// How a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
}

/// A provider by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderName {
    /// OpenAI, chat completions; with `base_url` every server that is compatible with them.
    Openai,
    /// OpenAI, the Responses interface.
    OpenaiResponses,
    /// Anthropic, Messages.
    Anthropic,
    /// Google, Gemini.
    Gemini,
    /// OpenRouter.
    Openrouter,
    /// DeepSeek.
    Deepseek,
    /// Mistral.
    Mistral,
    /// Groq.
    Groq,
    /// LM Studio on this machine.
    Lmstudio,
    /// Ollama on this machine.
    Ollama,
    /// llama.cpp on this machine.
    Llamacpp,
    /// vLLM on this machine.
    Vllm,
}

/// What is known of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub provider: ProviderName,
    /// The name as it is written.
    pub name: &'static str,
    /// How it speaks.
    pub speech: Speech,
    /// Where it is reached when nothing else is said.
    pub base_url: &'static str,
    /// What comes between the address and the endpoint, unless it is already there.
    pub api_prefix: &'static str,
    /// The variable its key is looked for in; only for its own address.
    pub key_variable: Option<&'static str>,
}

macro_rules! known {
    ($($provider:ident $name:literal $speech:ident $url:literal $prefix:literal $key:expr;)*) => {
        /// Every provider that is known by name, in the order of the docs.
        pub const PROVIDERS: &[Known] = &[$(Known {
            provider: ProviderName::$provider,
            name: $name,
            speech: Speech::$speech,
            base_url: $url,
            api_prefix: $prefix,
            key_variable: $key,
        }),*];
    };
}

known! {
    Openai "openai" Chat "https://api.openai.com" "/v1" Some("OPENAI_API_KEY");
    OpenaiResponses "openai_responses" Responses "https://api.openai.com" "/v1" Some("OPENAI_API_KEY");
    Anthropic "anthropic" Anthropic "https://api.anthropic.com" "/v1" Some("ANTHROPIC_API_KEY");
    Gemini "gemini" Gemini "https://generativelanguage.googleapis.com" "/v1beta" Some("GEMINI_API_KEY");
    Openrouter "openrouter" Chat "https://openrouter.ai/api" "/v1" Some("OPENROUTER_API_KEY");
    Deepseek "deepseek" Chat "https://api.deepseek.com" "/v1" Some("DEEPSEEK_API_KEY");
    Mistral "mistral" Chat "https://api.mistral.ai" "/v1" Some("MISTRAL_API_KEY");
    Groq "groq" Chat "https://api.groq.com/openai" "/v1" Some("GROQ_API_KEY");
    Lmstudio "lmstudio" Chat "http://127.0.0.1:1234" "/v1" None;
    Ollama "ollama" Chat "http://127.0.0.1:11434" "/v1" None;
    Llamacpp "llamacpp" Chat "http://127.0.0.1:8080" "/v1" None;
    Vllm "vllm" Chat "http://127.0.0.1:8000" "/v1" None;
}

impl ProviderName {
    /// What it can do with a model, where nothing else is said.
    pub fn capabilities(self, model: &str) -> CapabilitiesText {
        let family = |name: &str| model.starts_with(name);
        // A server nothing is known of calls tools and writes JSON, and promises no schema.
        let (json_schema, json_object, parallel) = match self {
            Self::Openai | Self::OpenaiResponses => (true, true, true),
            Self::Anthropic => (true, false, true),
            Self::Gemini => (true, true, false),
            Self::Openrouter if family("openai/") || family("minimax/") => (false, false, true),
            Self::Openrouter if family("anthropic/") => (false, true, true),
            Self::Openrouter => (true, true, true),
            Self::Mistral | Self::Groq => (true, true, true),
            Self::Lmstudio | Self::Llamacpp | Self::Vllm | Self::Ollama => (true, false, false),
            Self::Deepseek => (false, true, false),
        };
        CapabilitiesText {
            tools: Some(true),
            images: Some(true),
            streaming: Some(true),
            json_schema: Some(json_schema),
            json_object: Some(json_object),
            parallel_tool_calls: Some(parallel),
            context_window_tokens: None,
        }
    }

    /// What is known of it.
    pub fn known(self) -> &'static Known {
        // Every name has its row; a test sees to it.
        PROVIDERS.iter().find(|known| known.provider == self).unwrap_or(&OPENAI)
    }

    /// The provider of a name as it is written.
    pub fn parse(name: &str) -> Option<Self> {
        PROVIDERS.iter().find(|known| known.name == name).map(|known| known.provider)
    }
}

const OPENAI: Known = match PROVIDERS {
    [first, ..] => *first,
    [] => panic!("there are providers"),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_row() {
        let schema = schemars::schema_for!(ProviderName).to_value().to_string();
        for known in PROVIDERS {
            assert!(schema.contains(&format!("\"{}\"", known.name)), "{}", known.name);
            assert_eq!(known.provider.known().name, known.name);
            assert_eq!(serde_json::to_value(known.provider).unwrap(), known.name);
        }
        assert_eq!(schema.matches("\"const\"").count(), PROVIDERS.len());
    }
}
