//! Decides how a server that another one named is asked: within seconds and bounds, without
//! redirects, and only where the guard lets us.

use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;
use toolgate_http::{Asking, HttpFault, Patience, Transport, Verb, after};

use super::address::Endpoint;
use super::fault::OauthFault;

/// Milliseconds for one question.
const ASK_MS_MAX: u64 = 15_000;

/// Bytes of one answer.
const ANSWER_BYTES_MAX: u64 = 256 << 10;

/// What came back.
pub(super) struct Exchanged {
    pub(super) what: &'static str,
    pub(super) status: u16,
    body: Bytes,
}

/// What is sent.
pub(super) enum Sent<'a> {
    /// Nothing: a question.
    Nothing,
    /// JSON.
    Json(String),
    /// A form, and who we are where that goes into a header.
    Form(String, Option<&'a HeaderValue>),
}

/// Asks.
pub(super) async fn ask(
    http: &Transport,
    endpoint: &Endpoint,
    sent: Sent<'_>,
) -> Result<Exchanged, OauthFault> {
    let what = endpoint.what;
    let unusable = |_| OauthFault::Address { what, why: "its host is no name" };
    let host = HeaderValue::from_str(&endpoint.origin.to_string()).map_err(unusable)?;
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let kind = |kind| HeaderValue::from_static(kind);
    let (verb, body) = match sent {
        Sent::Nothing => (Verb::Get, Bytes::new()),
        Sent::Json(text) => {
            headers.insert(CONTENT_TYPE, kind("application/json"));
            (Verb::PostOnce, text.into())
        }
        Sent::Form(text, who) => {
            headers.insert(CONTENT_TYPE, kind("application/x-www-form-urlencoded"));
            if let Some(who) = who {
                headers.insert(AUTHORIZATION, who.clone());
            }
            (Verb::PostOnce, text.into())
        }
    };
    let patience = Patience {
        request_ms_max: Some(ASK_MS_MAX),
        answer_bytes_max: ANSWER_BYTES_MAX,
        ..Patience::default()
    };
    let deadline = after(tokio::time::Instant::now(), ASK_MS_MAX);
    let asking = Asking { uri: &endpoint.uri, headers: &headers, body, deadline };
    let server = http.server(endpoint.origin.clone());
    let told = async {
        let mut answer = server.send_as(verb, &asking, &patience).await?;
        Ok((answer.status, answer.whole().await?))
    };
    let (status, body) = told.await.map_err(|fault: HttpFault| match fault {
        HttpFault::Redirected { .. } => OauthFault::Redirected { what },
        HttpFault::Forbidden { .. } => {
            OauthFault::Address { what, why: "its name does not lead to the internet" }
        }
        fault @ (HttpFault::NoAddress { .. }
        | HttpFault::Unreachable { .. }
        | HttpFault::Tls { .. }
        | HttpFault::NoTls { .. }
        | HttpFault::OnlyTls { .. }
        | HttpFault::NoRoots { .. }
        | HttpFault::ClearText { .. }
        | HttpFault::Unready { .. }
        | HttpFault::TimedOut { .. }
        | HttpFault::CutOff
        | HttpFault::TooLarge { .. }
        | HttpFault::Unreadable(_)) => OauthFault::Unreachable { what, fault },
    })?;
    Ok(Exchanged { what, status, body })
}

impl Exchanged {
    /// The answer, if it is one.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, OauthFault> {
        if !(200..300).contains(&self.status) {
            return Err(OauthFault::Status { what: self.what, status: self.status });
        }
        self.body()
    }

    /// What came, whatever the status.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, OauthFault> {
        let why = "it is not the JSON that it should be";
        let unreadable = |_| OauthFault::Unreadable { what: self.what, why };
        serde_json::from_slice(&self.body).map_err(unreadable)
    }
}
