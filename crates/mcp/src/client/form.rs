//! Decides what a server's question to a person is, and how it is answered. Nobody is asked unless a
//! program brings somebody who answers, and then for forms alone.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::fault::CallFault;

/// Questions of one round.
const QUESTIONS_MAX: usize = 8;

/// What a server wants to know of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// The question, in the server's words.
    pub message: String,
    /// The fields of the answer, as a JSON Schema.
    pub schema: Value,
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
        let form = form(request).ok_or_else(|| refused("input that nobody here gives"))?;
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
fn form(request: &Value) -> Option<Form> {
    let params = request.get("params")?;
    let is_form = params.get("mode").is_none_or(|mode| mode == "form");
    let asks = request.get("method")? == "elicitation/create" && is_form;
    let message = params.get("message")?.as_str()?.to_owned();
    let schema = params.get("requestedSchema")?.clone();
    asks.then_some(Form { message, schema })
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
            form(&json!({ "method": method, "params": params })).is_some()
        };
        assert!(asked("elicitation/create", json!({})));
        assert!(asked("elicitation/create", json!({ "mode": "form" })));
        assert!(!asked("elicitation/create", json!({ "mode": "url", "url": "https://x" })));
        assert!(!asked("elicitation/create", json!({ "message": 1 })));
        assert!(!asked("sampling/createMessage", json!({})));
        assert!(form(&Value::Null).is_none());
    }
}
