//! Decides how a request that is not served is answered: JSON-RPC code, HTTP status, words.

use serde_json::{Value, json};

use super::revision::Revision;

/// The kinds of refusal that the protocol knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcCode {
    /// Not JSON.
    Parse,
    /// Not a message.
    InvalidRequest,
    /// No such method.
    MethodNotFound,
    /// Params that do not fit.
    InvalidParams,
    /// Something broke on this side.
    Internal,
    /// No such resource, in the words of the revisions up to 2025-11-25.
    ResourceNotFound,
    /// Headers and body say different things.
    HeaderMismatch,
    /// The client lacks a capability that this needs.
    MissingCapability,
    /// A revision that is not spoken here.
    UnsupportedVersion,
}

impl RpcCode {
    /// The number on the wire.
    pub fn number(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::ResourceNotFound => -32002,
            Self::HeaderMismatch => -32020,
            Self::MissingCapability => -32021,
            Self::UnsupportedVersion => -32022,
        }
    }
}

/// A request that is not served.
#[derive(Debug, Clone, PartialEq)]
pub struct Refused {
    /// The kind.
    pub code: RpcCode,
    /// One sentence.
    pub message: String,
    /// What a program can make use of.
    pub data: Value,
    /// Whether the request itself was malformed, which is an HTTP matter too.
    pub malformed: bool,
}

impl Refused {
    /// A refusal in words.
    pub fn new(code: RpcCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null, malformed: false }
    }

    /// The same with something a program can use.
    pub fn with(mut self, data: Value) -> Self {
        self.data = data;
        self
    }

    /// The same, said of the form of the request.
    pub(crate) fn malformed(mut self) -> Self {
        self.malformed = true;
        self
    }

    /// No such method.
    pub fn method(method: &str) -> Self {
        let method: String = method.chars().take(80).collect();
        Self::new(RpcCode::MethodNotFound, format!("There is no method {method:?} here."))
    }

    /// Params that do not fit.
    pub fn params(message: impl Into<String>) -> Self {
        Self::new(RpcCode::InvalidParams, message)
    }

    /// The server stops before it could answer.
    pub(crate) fn stopping() -> Self {
        Self::new(RpcCode::Internal, "The server is stopping; ask again when it is back.")
    }

    /// A revision that is not spoken here.
    pub(crate) fn version(requested: &str) -> Self {
        let requested: String = requested.chars().take(80).collect();
        let supported: Vec<&str> = Revision::ALL.iter().map(|known| known.as_str()).collect();
        Self::new(RpcCode::UnsupportedVersion, "Unsupported protocol version")
            .with(json!({ "supported": supported, "requested": requested }))
    }

    /// Headers and body say different things.
    pub(crate) fn header(message: impl Into<String>) -> Self {
        Self::new(RpcCode::HeaderMismatch, format!("Header mismatch: {}", message.into()))
    }

    /// A resource that is not there, as each revision says it.
    pub fn resource(uri: &str, revision: Revision) -> Self {
        let code =
            if revision.modern() { RpcCode::InvalidParams } else { RpcCode::ResourceNotFound };
        let uri: String = uri.chars().take(200).collect();
        Self::new(code, "Resource not found").with(json!({ "uri": uri }))
    }

    pub(crate) fn to_json(&self) -> String {
        let mut error = json!({ "code": self.code.number(), "message": self.message });
        if let Some(error) = error.as_object_mut().filter(|_| !self.data.is_null()) {
            error.insert("data".to_owned(), self.data.clone());
        }
        error.to_string()
    }

    /// The HTTP status beside it. Clients of the older revisions look at the body alone.
    pub(crate) fn status(&self, modern: bool) -> hyper::StatusCode {
        use hyper::StatusCode;
        match self.code {
            RpcCode::Parse
            | RpcCode::InvalidRequest
            | RpcCode::HeaderMismatch
            | RpcCode::MissingCapability
            | RpcCode::UnsupportedVersion => StatusCode::BAD_REQUEST,
            RpcCode::InvalidParams if self.malformed => StatusCode::BAD_REQUEST,
            RpcCode::MethodNotFound if modern => StatusCode::NOT_FOUND,
            RpcCode::MethodNotFound
            | RpcCode::InvalidParams
            | RpcCode::Internal
            | RpcCode::ResourceNotFound => StatusCode::OK,
        }
    }
}
