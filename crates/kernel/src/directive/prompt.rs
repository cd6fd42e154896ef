//! Decides what a model is told about directives, and what it is told when its reply was no good.

use super::patch::PATCH_FORM;
use super::{Directives, Mode};

impl Directives {
    /// What a request says besides the words of the person: the form of the reply, and the types.
    pub fn instructions(&self, mode: Mode) -> String {
        let only = match mode {
            Mode::JsonSchema => "",
            Mode::JsonObject | Mode::PromptOnly => " and nothing else, no code fence,",
        };
        // A provider that cannot enforce the schema does not send it, so the words say it all.
        let mut text = format!(
            "Answer with one JSON object{only} in this form:\n{{\"assistant_text\": \"what the \
             person reads\", \"directives\": [{{\"type\": \"a type\", \"payload\": {{}}}}]}}"
        );
        text.push_str("\nUse an empty list of directives when none is needed.");
        if self.types().is_empty() {
            return text;
        }
        text.push_str("\nThe types of directives:");
        for known in self.types() {
            text.push_str(&format!("\n- {}", known.name));
            if !known.about.is_empty() {
                text.push_str(&format!(": {}", known.about));
            }
            if known.patch {
                text.push_str(&format!(" Payload: {PATCH_FORM}"));
            }
            if let Some(schema) = &known.schema {
                text.push_str(&format!(" Payload: {schema}"));
            }
        }
        text
    }
}

/// What a model is told after a reply that was no good.
pub(super) fn repair(code: &str, problems: &[String]) -> String {
    let mut text = format!("Your last answer cannot be used ({code}).");
    for problem in problems.iter().take(5) {
        let problem: String = problem.chars().take(300).collect();
        text.push_str(&format!("\n- {problem}"));
    }
    text.push_str("\nAnswer again with the whole JSON object only: no words around it, no fence.");
    text
}
