//! Decides what a server may ask of us: whether we are there, and nothing else.

// Servers of older revisions ask for these still, and are refused.
#![expect(deprecated)]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult,
    ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};

/// Who a server talks to. It offers no model, no person and no files: a server that asks for one
/// is refused.
pub(super) struct Guest;

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
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(refused("a question to a person"))
    }

    fn get_info(&self) -> ClientConfig {
        let about = Implementation::new(NAME, env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), about)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
