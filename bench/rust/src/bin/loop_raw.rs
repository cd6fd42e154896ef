//! Part A, the limit: one hyper connection per worker, history as written bytes, typed replies.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use perf::{block, drive, url};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    message: Message<'a>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
struct AddArgs {
    a: i64,
    b: i64,
}

/// The request up to the first message; `]}` closes it.
const HEAD: &str = concat!(
    r#"{"model":"mock","tools":[{"type":"function","function":{"name":"add","#,
    r#""description":"Add two integers.","parameters":{"type":"object","#,
    r#""properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}}],"#,
    r#""messages":[{"role":"user","content":"go"}"#,
);

type Sender = http1::SendRequest<Full<Bytes>>;

async fn connect(host: &str) -> Sender {
    let stream = tokio::net::TcpStream::connect(host).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    sender
}

async fn one(url: String, pool: Arc<Mutex<Vec<Sender>>>) -> String {
    let uri: hyper::Uri = format!("{url}/chat/completions").parse().unwrap();
    let host = uri.authority().unwrap().as_str().to_owned();
    let path = uri.path().to_owned();
    let pooled = pool.lock().unwrap().pop();
    let mut sender = match pooled {
        Some(sender) => sender,
        None => connect(&host).await,
    };
    let mut history = Vec::with_capacity(4096);
    history.extend_from_slice(HEAD.as_bytes());
    loop {
        let bytes = post(&mut sender, &host, &path, &history).await;
        let reply: Reply = serde_json::from_slice(&bytes).unwrap();
        let message = &reply.choices[0].message;
        if message.tool_calls.is_empty() {
            pool.lock().unwrap().push(sender);
            return message.content.as_ref().unwrap().to_string();
        }
        for call in &message.tool_calls {
            record(&mut history, call);
        }
    }
}

async fn post(sender: &mut Sender, host: &str, path: &str, history: &[u8]) -> Bytes {
    let mut body = Vec::with_capacity(history.len() + 2);
    body.extend_from_slice(history);
    body.extend_from_slice(b"]}");
    let request = hyper::Request::post(path)
        .header("host", host)
        .header("content-type", "application/json")
        .header("authorization", "Bearer x")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Runs the tool and appends the call and its result to the history.
fn record(history: &mut Vec<u8>, call: &ToolCall<'_>) {
    let args: AddArgs = serde_json::from_str(&call.function.arguments).unwrap();
    write!(
        history,
        concat!(
            r#",{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","#,
            r#""type":"function","function":{{"name":"add","arguments":{arguments}}}}}]}},"#,
            r#"{{"role":"tool","tool_call_id":"{id}","content":"{sum}"}}"#,
        ),
        id = call.id,
        arguments = serde_json::to_string(&call.function.arguments).unwrap(),
        sum = args.a + args.b,
    )
    .unwrap();
}

fn main() {
    let url = url();
    block(async move {
        let pool = Arc::new(Mutex::new(vec![]));
        drive(move || one(url.clone(), pool.clone())).await
    })
}
