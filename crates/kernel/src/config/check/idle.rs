//! Decides what is said of keys that are read and change nothing.

use serde_json::{Map, Value};

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::finding::quoted;
use crate::config::{CacheText, Chosen, Speech, ToolCallingText, reserved};
use crate::directive::PATCH_TOOL;

impl Desk<'_> {
    pub(super) fn idle(&self, found: &mut Vec<Finding>) {
        let text = self.text();
        let overrides = [Step::Key("tool_calling"), Step::Key("request_overrides")];
        if let Some(calling) = &text.tool_calling {
            self.reserved(&calling.request_overrides, &overrides, found);
        }
        for (name, model) in &text.models {
            let path = [Step::Key("models"), Step::Key(name.as_str())];
            let under = |keys: &[Step<'static>]| [&path[..], keys].concat();
            if let Some(calling) = &text.tool_calling {
                self.untranslated(name, &calling.request_overrides, &overrides, found);
            }
            if let Some(calling) = &model.tool_calling {
                self.reserved(&calling.request_overrides, &under(&overrides), found);
                self.untranslated(name, &calling.request_overrides, &under(&overrides), found);
            }
            self.reserved(&model.options, &under(&[Step::Key("options")]), found);
            if model.cache == Some(CacheText::Preserve) {
                self.preserved(name, &under(&[Step::Key("cache")]), found);
            }
        }
        self.parallel(found);
        self.one_at_a_time(found);
        self.refused_first(found);
        self.patches(found);
    }

    /// Directives that change state through a tool that no phase grants.
    fn patches(&self, found: &mut Vec<Finding>) {
        let (Some(directives), Some(agent)) = (&self.text().directives, self.agent()) else {
            return;
        };
        let known = agent.every.iter().any(|tool| tool.name.as_str() == PATCH_TOOL);
        for (name, _) in directives.types.iter().filter(|(_, kind)| kind.patch && !known) {
            let path = [Step::Key("directives"), Step::Key("types"), Step::Key(name.as_str())];
            let message = format!("patch: true changes nothing: no phase grants {PATCH_TOOL}");
            let finding = Finding::new(Severity::Warning, Mistake::Model, message);
            found.push(finding.at(self.key(&path)).help("leave it out, or bring such a tool"));
        }
    }

    /// Keys of a request that come from the plan, whatever is written.
    fn reserved(&self, given: &Map<String, Value>, path: &[Step<'_>], found: &mut Vec<Finding>) {
        for keys in reserved(given) {
            let key = keys.join(".");
            let message = format!("{} is not sent: toolgate writes it itself", quoted(&key));
            let finding = Finding::new(Severity::Warning, Mistake::Model, message);
            let keys: Vec<Step<'_>> = keys.into_iter().map(Step::Key).collect();
            let inside = [path, &keys].concat();
            found.push(finding.at(self.key(&inside)).help("leave it out"));
        }
    }

    /// Options under a name that this provider does not have. Only under `options` they get its own.
    fn untranslated(
        &self,
        name: &str,
        given: &Map<String, Value>,
        path: &[Step<'_>],
        found: &mut Vec<Finding>,
    ) {
        let Ok(Chosen::Model(model)) = self.text().chosen_by_name(name) else { return };
        let others: &[&str] = match model.provider.known().speech {
            Speech::Chat => &[],
            Speech::Responses => &["max_tokens", "max_completion_tokens", "reasoning_effort"],
            Speech::Anthropic => &["max_completion_tokens", "max_output_tokens", "stop"],
            Speech::Gemini => &[
                "max_completion_tokens",
                "max_output_tokens",
                "max_tokens",
                "seed",
                "stop",
                "temperature",
                "top_k",
                "top_p",
            ],
        };
        for key in given.keys().filter(|key| others.contains(&key.as_str())) {
            let message =
                format!("{} is sent as it is, and models.{name} does not know it", quoted(key));
            let finding = Finding::new(Severity::Warning, Mistake::Model, message);
            let inside = [path, &[Step::Key(key.as_str())]].concat();
            let help = "write it under `options` of the model, where it gets its provider's name";
            found.push(finding.at(self.key(&inside)).help(help));
        }
    }

    /// A cache that its provider offers no way to keep.
    fn preserved(&self, name: &str, path: &[Step<'_>], found: &mut Vec<Finding>) {
        let Ok(Chosen::Model(model)) = self.text().chosen_by_name(name) else { return };
        match model.provider.known().speech {
            Speech::Responses | Speech::Gemini => {}
            Speech::Chat | Speech::Anthropic => {
                let message = "cache: preserve changes nothing for this model: its provider cannot \
                               restrict tools without changing their list";
                let finding = Finding::new(Severity::Note, Mistake::Model, message);
                let help = "it holds for OpenAI Responses and Gemini; a phase change costs the \
                            cache here";
                found.push(finding.at(self.place(path)).help(help));
            }
        }
    }

    /// A switch that is not sent to the model it is meant for.
    fn parallel(&self, found: &mut Vec<Finding>) {
        let key = "parallel_tool_calls";
        for (name, model) in &self.text().models {
            let Ok(Chosen::Model(chosen)) = self.text().chosen_by_name(name) else { continue };
            let overrides = [Step::Key("tool_calling"), Step::Key("request_overrides")];
            let inside = [&overrides[..], &[Step::Key(key)]].concat();
            let own = [Step::Key("models"), Step::Key(name.as_str())];
            let said = |calling: &Option<ToolCallingText>| {
                let value = calling.as_ref().and_then(|own| own.request_overrides.get(key));
                value.and_then(Value::as_bool)
            };
            let (wanted, path) = match (said(&model.tool_calling), said(&self.text().tool_calling))
            {
                (Some(wanted), _) => (wanted, [&own[..], &inside].concat()),
                (None, Some(wanted)) => (wanted, inside),
                (None, None) => continue,
            };
            if chosen.sends_parallel_tool_calls(self.text()) {
                continue;
            }
            let message = match wanted {
                true => format!("{key} is not sent: this model has no such switch"),
                false => format!(
                    "{key} is not sent: this model has no such switch. One call of a turn is run \
                     all the same"
                ),
            };
            let finding = Finding::new(Severity::Note, Mistake::Model, message);
            let help = "if it has one, write `capabilities: {parallel_tool_calls: true}`";
            found.push(finding.at(self.key(&path)).help(help));
        }
    }

    /// A limit that gives way to a model that makes one call at a time.
    fn one_at_a_time(&self, found: &mut Vec<Finding>) {
        let Ok(Chosen::Model(model)) = self.text().chosen() else { return };
        let written = self.key(&[Step::Key("limits"), Step::Key("turn_calls_max")]);
        let limit = self.text().limits.turn_calls_max;
        if model.calling.one_at_a_time()
            && limit > 1
            && let Some(span) = written
        {
            let message = format!(
                "turn_calls_max: {limit} gives way to parallel_tool_calls: false of the model \
                 {}, so one call of a turn is run",
                model.name
            );
            let finding = Finding::new(Severity::Note, Mistake::Model, message);
            let help = "write `max_tool_calls_per_turn` under its `tool_calling` for another \
                        number";
            found.push(finding.at(span).help(help));
        }
    }

    /// A limit that is never reached, because a reply is refused before (ADR 0028).
    fn refused_first(&self, found: &mut Vec<Finding>) {
        let Some(limits) = self.agent().map(|agent| &agent.limits) else { return };
        let (reply, turn) = (limits.reply_calls_max, limits.turn_calls_max);
        if reply >= turn {
            return;
        }
        let written = |name| self.key(&[Step::Key("limits"), Step::Key(name)]);
        let message = format!(
            "reply_calls_max: {reply} is smaller than turn_calls_max: {turn}: a reply with more \
             than {reply} calls is refused as a whole, and none of them runs"
        );
        let finding = Finding::new(Severity::Warning, Mistake::Model, message);
        let help = format!("write `reply_calls_max: {turn}` or more, or a smaller turn_calls_max");
        let place = written("reply_calls_max").or_else(|| written("turn_calls_max"));
        found.push(finding.at(place).help(help));
    }
}
