//! Decides what text the model is shown of a result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope::Envelope;
use crate::fold::Told;

/// How results are written for the model.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ResultFormat {
    /// The compact JSON envelope.
    #[default]
    Envelope,
    /// Message, blank line, data. Errors are the envelope all the same.
    Text,
}

impl ResultFormat {
    /// The format as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Envelope => "envelope",
            Self::Text => "text",
        }
    }
}

/// The text of a result.
pub fn render(told: &Told, format: ResultFormat) -> String {
    let envelope = &told.envelope;
    if !envelope.ok {
        return envelope.to_json();
    }
    match format {
        ResultFormat::Envelope if told.message_only => {
            Envelope { data: Value::Null, ..Envelope::clone(envelope) }.to_json()
        }
        ResultFormat::Envelope => envelope.to_json(),
        ResultFormat::Text if told.message_only => envelope.message.clone(),
        ResultFormat::Text => match (envelope.message.as_str(), plain(&envelope.data)) {
            (message, data) if data.is_empty() => message.to_owned(),
            ("", data) => data,
            (message, data) => format!("{message}\n\n{data}"),
        },
    }
}

/// Data as plain text: text as it is, records as JSON, a list with text in it by paragraphs.
fn plain(data: &Value) -> String {
    match data {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().any(Value::is_string) => {
            items.iter().map(plain).collect::<Vec<_>>().join("\n\n")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => data.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Code, Trouble};
    use serde_json::json;

    fn text(message: &str, data: Value) -> String {
        let envelope = Envelope::answer("t", message.to_owned(), data, Vec::new());
        render(&Told { envelope: envelope.into(), message_only: false }, ResultFormat::Text)
    }

    /// W33 among others: items of a list that read differently come one by one.
    #[test]
    fn text_is_message_blank_line_data() {
        assert_eq!(text("Done.", json!({"n":1,"x":null})), "Done.\n\n{\"n\":1,\"x\":null}");
        assert_eq!(text("", json!([1, {"a":2}])), "[1,{\"a\":2}]");
        assert_eq!(text("", json!(["one", {"a":2}])), "one\n\n{\"a\":2}");
        assert_eq!(text("", json!([])), "[]");
        assert_eq!(text("Only this.", Value::Null), "Only this.");
        assert_eq!(text("", json!("é")), "é");
    }

    #[test]
    fn what_is_kept_from_the_model_is_not_shown_and_errors_are_whole() {
        let envelope = Envelope::answer("t", "Stored.".into(), json!({"secret": 1}), Vec::new());
        let told = Told { envelope: envelope.into(), message_only: true };
        assert_eq!(render(&told, ResultFormat::Text), "Stored.");
        assert!(!render(&told, ResultFormat::Envelope).contains("secret"));
        let envelope = Envelope::trouble("t", vec![Trouble::new(Code::TOOL_FAILED, "no")]);
        let told = Told { envelope: envelope.into(), message_only: false };
        assert!(render(&told, ResultFormat::Text).contains("TOOL_FAILED"));
    }
}
