//! Decides which model a run uses, from what is written in several places.

use super::model::LimitKey;
use super::provider::{PROVIDERS, ProviderName, Speech};
use super::{AgentText, ModelText, SettingsText, ToolCallingText, ToolUseMode};
use crate::names::nearest;

/// A model that was chosen, with everything that is written of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Chosen {
    /// Nothing is said of a model.
    None,
    /// A file plays it.
    Script(String),
    /// A model at a provider.
    Model(Box<ChosenModel>),
}

/// A model at a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenModel {
    /// The name it has under `models`, or `provider:model`, as it was asked for.
    pub name: String,
    /// How it is reached, and what is sent to it.
    pub text: ModelText,
    /// The provider.
    pub provider: ProviderName,
    /// How it is asked to call tools: presets, what is said for all models, and for this one.
    pub calling: ToolCallingText,
}

impl ChosenModel {
    /// Who runs it, and how it is called there: `provider:model`.
    pub fn served(&self) -> String {
        format!("{}:{}", self.provider.known().name, self.text.model)
    }

    /// Whether `parallel_tool_calls` goes into its requests. What its capabilities say holds, then
    /// what somebody wrote in `request_overrides`, where the dialect has such a key.
    pub fn sends_parallel_tool_calls(&self, text: &AgentText) -> bool {
        let key = "parallel_tool_calls";
        let written = [&self.text.tool_calling, &text.tool_calling].into_iter().flatten();
        let written = written.map(|calling| &calling.request_overrides);
        let asked = written.into_iter().any(|overrides| overrides.contains_key(key));
        let has_key = match self.provider.known().speech {
            Speech::Chat | Speech::Responses => true,
            Speech::Anthropic | Speech::Gemini => false,
        };
        match self.text.capabilities.parallel_tool_calls {
            Some(said) => said,
            None if asked && has_key => true,
            None => self.provider.capabilities(&self.text.model).parallel_tool_calls == Some(true),
        }
    }
}

/// A model that cannot be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceRefusal {
    /// There is neither such a model nor such a provider.
    #[error(
        "nothing says where the model {name:?} is reached: write provider:model, such as \
         ollama:qwen3, declare it under `models`, or give `base_url`{}",
        suggest(near)
    )]
    Unknown {
        /// What was written.
        name: String,
        /// The nearest name there is.
        near: Option<String>,
    },
    /// A model that stands in is held back otherwise than the one it stands in for.
    #[error(
        "the model {fallback:?} cannot stand in for {name:?}: it is allowed other tools. Give both \
         the same lists and the same use of tools"
    )]
    Fallback {
        /// The model.
        name: String,
        /// The one that stands in.
        fallback: String,
    },
    /// Where a declared model is reached is said with it, and so is its key.
    #[error(
        "{key} is not for the model {name:?}, which is declared under `models`: write it there, or \
         name the model as provider:model"
    )]
    Declared {
        /// The model.
        name: String,
        /// The setting that would be ignored.
        key: &'static str,
    },
    /// A model that stands in has a limit of its own, which would not hold.
    #[error(
        "the model {fallback:?} cannot stand in for {name:?}: its {key} is {given}, and {holds} would \
         hold. Write it once for all models, under `tool_calling`"
    )]
    FallbackLimit {
        /// The model.
        name: String,
        /// The one that stands in.
        fallback: String,
        /// The limit.
        key: &'static str,
        /// What is written for the one that stands in.
        given: u64,
        /// What holds for the run.
        holds: u64,
    },
    /// A model that stands in has a setting of its own, which would not hold.
    #[error(
        "the model {fallback:?} cannot stand in for {name:?}: its {key} would not hold, because a \
         run has one, whoever answers. Write it once for all models, under `tool_calling`"
    )]
    FallbackSetting {
        /// The model.
        name: String,
        /// The one that stands in.
        fallback: String,
        /// The setting.
        key: &'static str,
    },
    /// A provider without a model.
    #[error("{0:?} names a provider and no model; write {0}MODEL")]
    Nameless(String),
}

fn suggest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

impl AgentText {
    /// The model of a run.
    pub fn chosen(&self) -> Result<Chosen, ChoiceRefusal> {
        if let Some(name) = self.declared() {
            let SettingsText { base_url, api_key, .. } = &self.settings;
            let given = [("base_url", base_url.is_some()), ("api_key", api_key.is_some())];
            if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
                return Err(ChoiceRefusal::Declared { name: name.to_owned(), key });
            }
            return self.chosen_by_name(name);
        }
        self.named().map_or(Ok(Chosen::None), |name| self.chosen_by_name(name))
    }

    /// The model of a run by its name under `models`, where it has one.
    pub fn declared(&self) -> Option<&str> {
        match self.named() {
            None if self.models.len() == 1 => self.models.keys().next().map(String::as_str),
            None => None,
            Some(name) => self.models.get_key_value(name).map(|(name, _)| name.as_str()),
        }
    }

    fn named(&self) -> Option<&str> {
        self.settings.model.as_deref().map(str::trim).filter(|model| !model.is_empty())
    }

    /// A model by its name under `models`, or as provider:model, or as its server calls it.
    pub fn chosen_by_name(&self, name: &str) -> Result<Chosen, ChoiceRefusal> {
        if let Some(file) = name.strip_prefix("script:") {
            return Ok(Chosen::Script(file.to_owned()));
        }
        if let Some(text) = self.models.get(name) {
            let mut text = text.clone();
            // The name may say who the provider is, as elsewhere.
            if let (None, Some((provider, model))) = (text.provider, split(&text.model)) {
                (text.provider, text.model) = (Some(provider), model.to_owned());
            }
            return Ok(self.whole(name.to_owned(), text));
        }
        let settings = &self.settings;
        let text = match split(name) {
            Some((_, "")) => return Err(ChoiceRefusal::Nameless(name.to_owned())),
            Some((provider, model)) => ModelText {
                provider: Some(provider),
                model: model.to_owned(),
                ..ModelText::default()
            },
            None if settings.base_url.is_some() => {
                ModelText { model: name.to_owned(), ..ModelText::default() }
            }
            None => return Err(self.unknown(name)),
        };
        let (base_url, api_key) = (settings.base_url.clone(), settings.api_key.clone());
        Ok(self.whole(name.to_owned(), ModelText { base_url, api_key, ..text }))
    }

    /// The models that stand in for one, in order; each once.
    pub fn fallbacks(&self, model: &ChosenModel) -> Result<Vec<ChosenModel>, ChoiceRefusal> {
        let mut chain: Vec<ChosenModel> = Vec::new();
        let mut next = model.text.fallback.clone();
        while let Some(name) = next.take() {
            let known = |other: &ChosenModel| other.name == name;
            if name == model.name || chain.iter().any(known) {
                break;
            }
            let Chosen::Model(other) = self.chosen_by_name(&name)? else { break };
            // Tools are granted to the agent, whoever answers in the end.
            if other.calling.held_back() != model.calling.held_back() {
                let (name, fallback) = (model.name.clone(), other.name.clone());
                return Err(ChoiceRefusal::Fallback { name, fallback });
            }
            // What is said for all models is nobody's own.
            let own = other.text.tool_calling.clone().unwrap_or_default();
            if let Some((key, given, holds)) = self.other_limit(model, &own) {
                let (name, fallback) = (model.name.clone(), other.name.clone());
                return Err(ChoiceRefusal::FallbackLimit { name, fallback, key, given, holds });
            }
            if let Some(key) = model.calling.overrules(&other.calling, &own) {
                let (name, fallback) = (model.name.clone(), other.name.clone());
                return Err(ChoiceRefusal::FallbackSetting { name, fallback, key });
            }
            next.clone_from(&other.text.fallback);
            chain.push(*other);
        }
        Ok(chain)
    }

    /// A limit that one model says itself, otherwise than it holds for a run with another.
    fn other_limit(
        &self,
        model: &ChosenModel,
        own: &ToolCallingText,
    ) -> Option<(&'static str, u64, u64)> {
        let mut held = self.limits.clone();
        model.calling.build_limits(&mut held, &mut |_| {});
        own.limits().into_iter().find_map(|LimitKey { key, given, of, .. }| {
            let holds = *of(&mut held);
            given.filter(|given| *given != holds).map(|given| (key, given, holds))
        })
    }

    /// The name under which the log knows a model: `provider:model`, and its name under `models`
    /// after it where that alone would not tell which one it is.
    pub fn name_in_log(&self, model: &ChosenModel) -> String {
        let name = model.served();
        let declared = self.models.contains_key(&model.name) && model.name != name;
        let alone = self.declared_as(&name).into_iter().all(|other| other == model.name);
        if declared && !alone { format!("{name} ({})", model.name) } else { name }
    }

    /// The names under `models` of those that are this `provider:model`.
    pub fn declared_as(&self, served: &str) -> Vec<&str> {
        let names = self.models.keys().map(String::as_str);
        names
            .filter(|name| match self.chosen_by_name(name) {
                Ok(Chosen::Model(model)) => model.served() == served,
                Ok(Chosen::Script(_) | Chosen::None) | Err(_) => false,
            })
            .collect()
    }

    /// A word on a model that is asked as it is, though what is declared under `models` may be
    /// meant.
    pub fn meant_as_it_is(&self, model: &ChosenModel) -> Option<String> {
        let served = model.served();
        let declared = self.declared_as(&served);
        let undeclared = !self.models.contains_key(&model.name);
        (undeclared && !declared.is_empty()).then(|| {
            format!(
                "{served} is asked as it is: what is declared as {} does not hold for it. Use the \
                 declared name where that is meant",
                declared.join(", ")
            )
        })
    }

    fn whole(&self, name: String, text: ModelText) -> Chosen {
        let provider = text.provider.unwrap_or(ProviderName::Openai);
        let global = self.tool_calling.clone().unwrap_or_default();
        let mut calling = super::preset::effective(&global, &text, provider);
        // What is not sent must not be callable either.
        if text.capabilities.tools == Some(false) {
            calling.tool_use_mode = Some(ToolUseMode::Disabled);
        }
        Chosen::Model(Box::new(ChosenModel { name, text, provider, calling }))
    }

    fn unknown(&self, name: &str) -> ChoiceRefusal {
        let provider = name.split(':').next().unwrap_or_default();
        let known = PROVIDERS.iter().map(|known| known.name);
        let models = self.models.keys().map(String::as_str);
        let near = nearest(name, models).or_else(|| nearest(provider, known));
        ChoiceRefusal::Unknown { name: name.to_owned(), near: near.map(str::to_owned) }
    }
}

impl ModelText {
    /// The provider, which the name of the model may say too.
    pub(super) fn provider_or_default(&self) -> ProviderName {
        let named = || split(&self.model).map(|(provider, _)| provider);
        self.provider.or_else(named).unwrap_or(ProviderName::Openai)
    }
}

/// Provider and model of `provider:model`. A colon after something else is part of the name.
fn split(name: &str) -> Option<(ProviderName, &str)> {
    let (provider, model) = name.split_once(':')?;
    Some((ProviderName::parse(provider)?, model.trim()))
}
