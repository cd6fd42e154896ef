//! Decides what a server may ask of us: whether we are there, and a person only where a program
//! brings one.

// Servers of older revisions ask for these still, and are refused.
#![expect(deprecated)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::Value;
use toolgate_kernel::names::ServerName;

use super::form::{Answerer, Form};

/// Who a server talks to. It offers no model and no files, and no person unless somebody answers
/// for one: a server that asks is refused.
#[derive(Clone)]
pub(super) struct Guest {
    pub(super) answerer: Answerer,
    /// The server.
    pub(super) server: ServerName,
    /// Milliseconds for an answer.
    pub(super) answer_ms_max: u64,
}

/// How we are called.
pub(super) const NAME: &str = "toolgate";

fn refused(what: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("{what} is not offered here"), None)
}

impl ClientHandler for Guest {
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(refused("sampling"))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(refused("a list of roots"))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let no = || refused("a question to a person");
        let respondent = self.answerer.as_ref().ok_or_else(no)?;
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = params
        else {
            return Err(no());
        };
        let schema = serde_json::to_value(requested_schema).map_err(|_| no())?;
        let form = Form { server: self.server.clone(), message, schema };
        if form.wants_a_secret() {
            return Err(refused("a question for a secret"));
        }
        let within = std::time::Duration::from_millis(self.answer_ms_max);
        let filled = tokio::time::timeout(within, respondent.fill(&form)).await;
        Ok(match filled.ok().flatten() {
            Some(content) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
            }
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }

    fn get_info(&self) -> ClientConfig {
        let about = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        if self.answerer.is_some() {
            let forms = ElicitationCapability::new().with_form(FormElicitationCapability::new());
            capabilities.elicitation = Some(forms);
        }
        ClientConfig::new(capabilities, about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
