//! Decides what a server's question to a person is, and how it is answered. Nobody is asked unless a
//! program brings somebody who answers, and then for forms alone.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use toolgate_kernel::names::ServerName;
use toolgate_kernel::prompt_text::plain_letters;

use super::fault::CallFault;

/// Questions of one round.
const QUESTIONS_MAX: usize = 8;

/// Words of what no form may ask for, without what stands between letters.
const SECRETS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "apikey",
    "secret",
    "credential",
    "privatekey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "refreshtoken",
    "seedphrase",
    "recoveryphrase",
    "securitycode",
];

/// What a server wants to know of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Who asks.
    pub server: ServerName,
    /// The question, in the server's words.
    pub message: String,
    /// The fields of the answer, as a JSON Schema.
    pub schema: Value,
}

impl Form {
    /// Whether it asks for what no server may have: by its words, or by the names of its fields,
    /// however they are written.
    pub(super) fn wants_a_secret(&self) -> bool {
        let words = plain_letters(&format!("{} {}", self.message, self.schema));
        let plain: String = words.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
        SECRETS.iter().any(|secret| plain.contains(secret))
    }
}

/// Somebody who fills in forms for a person. toolgate itself brings nobody.
pub trait Respondent: Send + Sync {
    /// What is written into the form; nothing where the person says no.
    fn fill<'a>(&'a self, form: &'a Form) -> BoxFuture<'a, Option<Map<String, Value>>>;
}

/// Who answers, if anybody.
pub(super) type Answerer = Option<Arc<dyn Respondent>>;

/// What a result says that is none yet: the questions by name, and what is given back unread.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wanted {
    #[serde(default)]
    input_requests: Map<String, Value>,
    #[serde(default)]
    request_state: Option<String>,
}

/// The answers to what a result wants, as members of the next request.
pub(super) async fn answers(
    answerer: &Answerer,
    server: &ServerName,
    wanted: Wanted,
    deadline: Instant,
) -> Result<String, CallFault> {
    let refused = |what| CallFault::WantsInput(what);
    let respondent = answerer.as_ref().ok_or_else(|| refused("input"))?;
    if wanted.input_requests.len() > QUESTIONS_MAX {
        return Err(refused("too much input"));
    }
    let mut responses = Map::new();
    for (name, request) in &wanted.input_requests {
        let form = form(server, request);
        let form = form.ok_or_else(|| refused("input that nobody here gives"))?;
        if form.wants_a_secret() {
            return Err(refused("a secret"));
        }
        let filled = tokio::time::timeout_at(deadline, respondent.fill(&form)).await;
        let answer = match filled.ok().flatten() {
            Some(content) => json!({ "action": "accept", "content": content }),
            None => json!({ "action": "decline" }),
        };
        responses.insert(name.clone(), answer);
    }
    let mut members = Map::from_iter([("inputResponses".to_owned(), Value::Object(responses))]);
    members.extend(wanted.request_state.map(|state| ("requestState".to_owned(), state.into())));
    let text = Value::Object(members).to_string();
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    Ok(inside.unwrap_or_default().to_owned())
}

/// The form of one question; nothing where it is no form.
fn form(server: &ServerName, request: &Value) -> Option<Form> {
    let params = request.get("params")?;
    let is_form = params.get("mode").is_none_or(|mode| mode == "form");
    let asks = request.get("method")? == "elicitation/create" && is_form;
    let message = params.get("message")?.as_str()?.to_owned();
    let schema = params.get("requestedSchema")?.clone();
    asks.then(|| Form { server: server.clone(), message, schema })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_answered_and_nothing_else() {
        let asked = |method: &str, more: Value| {
            let mut params = json!({ "message": "Who?", "requestedSchema": { "type": "object" } });
            if let (Some(params), Some(more)) = (params.as_object_mut(), more.as_object()) {
                params.extend(more.clone());
            }
            form(&server(), &json!({ "method": method, "params": params })).is_some()
        };
        assert!(asked("elicitation/create", json!({})));
        assert!(asked("elicitation/create", json!({ "mode": "form" })));
        assert!(!asked("elicitation/create", json!({ "mode": "url", "url": "https://x" })));
        assert!(!asked("elicitation/create", json!({ "message": 1 })));
        assert!(!asked("sampling/createMessage", json!({})));
        assert!(form(&server(), &Value::Null).is_none());
    }

    fn server() -> ServerName {
        ServerName::parse("x").unwrap()
    }

    #[test]
    fn no_form_asks_for_a_secret() {
        let wants = |message: &str, field: &str| {
            let schema = json!({ "type": "object", "properties": { field: { "type": "string" } } });
            Form { server: server(), message: message.to_owned(), schema }.wants_a_secret()
        };
        for (message, field) in [
            ("your API key", "x"),
            ("Y o u r  p a s s w o r d", "x"),
            ("yоur pаsswоrd", "x"),
            ("Please help.", "api_key"),
            ("Please help.", "accessToken"),
            ("The recovery phrase of your wallet?", "words"),
        ] {
            assert!(wants(message, field), "{message} {field}");
        }
        for (message, field) in [
            ("Your name?", "name"),
            ("How many tokens may it cost?", "tokens_max"),
            ("Which key of the piano?", "key"),
            ("Your address for letters?", "email"),
        ] {
            assert!(!wants(message, field), "{message} {field}");
        }
    }
}
