//! Decides which models a server says it has.

use bytes::Bytes;
use serde_json::Value;
use toolgate_kernel::event::FaultKind;
use toolgate_runtime::port::ProviderFault;

use super::{Exchange, ModelSpec, Seat};
use toolgate_http::{Asking, after};

/// Names that are listed.
const NAMES_MAX: usize = 200;

impl Exchange {
    /// The models a server lists, in its order.
    pub async fn listed(&self, spec: &ModelSpec) -> Result<Vec<String>, ProviderFault> {
        let unusable = |refusal: super::ModelRefusal| {
            ProviderFault::new(FaultKind::Unusable, refusal.to_string())
        };
        self.seat(spec).map_err(unusable)?.listed(spec.turn_ms_max).await
    }
}

impl Seat {
    async fn listed(&self, ms: u64) -> Result<Vec<String>, ProviderFault> {
        let asking = Asking {
            uri: &self.endpoint.uri("/models"),
            headers: &self.endpoint.headers,
            body: Bytes::new(),
            deadline: after(tokio::time::Instant::now(), ms),
        };
        let sent = self.endpoint.server.send(&asking, &self.patience).await;
        let mut answer = sent.map_err(|fault| self.broken(&fault, "").fault(Vec::new()))?;
        if answer.status != 200 {
            return Err(self.refused(&mut answer).await.fault(Vec::new()));
        }
        let body = answer.whole().await;
        let body = body.map_err(|fault| self.broken(&fault, "").fault(Vec::new()))?;
        let none = || ProviderFault::new(FaultKind::Unreadable, "its list of models is no JSON");
        let mut list = serde_json::from_slice(&body).map_err(|_| none())?;
        self.endpoint.redactor.redact_value(&mut list);
        Ok(names(&list))
    }
}

/// The names in a list of models, whichever dialect it is of.
fn names(list: &Value) -> Vec<String> {
    let of = |key| list.get(key).and_then(Value::as_array);
    let models = of("data").or_else(|| of("models")).map(Vec::as_slice).unwrap_or_default();
    let name = |model: &Value| {
        let name = model.get("id").or_else(|| model.get("name"))?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).chars().take(200).collect())
    };
    models.iter().filter_map(name).take(NAMES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_dialect_lists_its_models() {
        assert_eq!(names(&json!({"data": [{"id": "a"}, {"id": "b"}, {}]})), ["a", "b"]);
        assert_eq!(names(&json!({"models": [{"name": "models/gemini-x"}]})), ["gemini-x"]);
        assert!(names(&json!([])).is_empty());
    }
}
