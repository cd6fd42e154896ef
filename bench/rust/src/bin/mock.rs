//! Part A, the scripted model: an OpenAI-compatible server that never thinks.
//!
//! `POST /n/<N>/v1/chat/completions`, or `/n/<N>/d/<ms>/v1/…` to answer after a delay. A request
//! with k tool results is answered with the call `add{a:k,b:k+1}` until k is N, then with `Done.`.
//! `GET /stats` gives and clears `{"requests","finals","bad"}`; `bad` counts wrong tool results.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpListener;

static REQUESTS: AtomicU64 = AtomicU64::new(0);
static FINALS: AtomicU64 = AtomicU64::new(0);
static BAD: AtomicU64 = AtomicU64::new(0);

const USAGE: &str = r#""usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}"#;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    if path == "/stats" {
        return Ok(Response::new(Full::new(take_stats().into())));
    }
    let (turns, delay_ms) = script(&path);
    let responses_api = path.ends_with("/responses");
    let body = request.into_body().collect().await?.to_bytes();
    REQUESTS.fetch_add(1, Relaxed);
    let (done, last) = if responses_api { call_outputs(&body) } else { tool_messages(&body) };
    if done > 0 {
        let (from, to) = (last.saturating_sub(200), (last + 300).min(body.len()));
        if !has_number(&body[from..to], 2 * (done - 1) + 1) {
            BAD.fetch_add(1, Relaxed);
        }
    }
    if done >= turns {
        FINALS.fetch_add(1, Relaxed);
    }
    if delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }
    let (content_type, text) = if responses_api {
        ("application/json", response_object(done, turns))
    } else if wants_stream(&body) {
        ("text/event-stream", chat_events(done, turns))
    } else {
        ("application/json", chat_completion(done, turns))
    };
    let response = Response::builder().header("content-type", content_type);
    Ok(response.body(Full::new(text.into())).unwrap())
}

fn take_stats() -> String {
    format!(
        "{{\"requests\":{},\"finals\":{},\"bad\":{}}}",
        REQUESTS.swap(0, Relaxed),
        FINALS.swap(0, Relaxed),
        BAD.swap(0, Relaxed),
    )
}

/// The number of tool calls and the delay that a path asks for.
fn script(path: &str) -> (usize, u64) {
    let (mut turns, mut delay_ms) = (10, 0);
    let mut parts = path.split('/').skip(1);
    while let Some(part) = parts.next() {
        match part {
            "n" => turns = parts.next().and_then(|text| text.parse().ok()).unwrap_or(10),
            "d" => delay_ms = parts.next().and_then(|text| text.parse().ok()).unwrap_or(0),
            _ => break,
        }
    }
    (turns, delay_ms)
}

/// How many tool results a chat request holds, and where the last one is; spaced JSON counts too.
fn tool_messages(body: &[u8]) -> (usize, usize) {
    let compact = occurrences(body, br#""role":"tool""#);
    if compact.0 > 0 { compact } else { occurrences(body, br#""role": "tool""#) }
}

/// The same for a Responses API request.
fn call_outputs(body: &[u8]) -> (usize, usize) {
    occurrences(body, br#""function_call_output""#)
}

fn occurrences(body: &[u8], pattern: &[u8]) -> (usize, usize) {
    let (mut count, mut last) = (0, 0);
    for position in memmem::find_iter(body, pattern) {
        count += 1;
        last = position;
    }
    (count, last)
}

/// Whether `number` stands in the text by itself, not as part of a longer number.
fn has_number(text: &[u8], number: usize) -> bool {
    let digits = number.to_string();
    memmem::find_iter(text, digits.as_bytes()).any(|start| {
        let end = start + digits.len();
        (start == 0 || !text[start - 1].is_ascii_digit())
            && (end >= text.len() || !text[end].is_ascii_digit())
    })
}

fn wants_stream(body: &[u8]) -> bool {
    memmem::find(body, br#""stream":true"#).is_some()
        || memmem::find(body, br#""stream": true"#).is_some()
}

fn chat_completion(done: usize, turns: usize) -> String {
    if done >= turns {
        return format!(
            concat!(
                r#"{{"id":"c{k}","object":"chat.completion","created":1700000000,"#,
                r#""model":"mock","choices":[{{"index":0,"message":{{"role":"assistant","#,
                r#""content":"Done."}},"finish_reason":"stop"}}],{usage}}}"#,
            ),
            k = done,
            usage = USAGE,
        );
    }
    format!(
        concat!(
            r#"{{"id":"c{k}","object":"chat.completion","created":1700000000,"#,
            r#""model":"mock","choices":[{{"index":0,"message":{{"role":"assistant","#,
            r#""content":null,"tool_calls":[{{"id":"call_{k}","type":"function","#,
            r#""function":{{"name":"add","arguments":"{{\"a\":{k},\"b\":{next}}}"}}}}]}},"#,
            r#""finish_reason":"tool_calls"}}],{usage}}}"#,
        ),
        k = done,
        next = done + 1,
        usage = USAGE,
    )
}

/// The reply as server-sent events: the arguments arrive in five parts, the usage last.
fn chat_events(done: usize, turns: usize) -> String {
    let mut text = String::with_capacity(2048);
    if done >= turns {
        push_event(&mut text, done, r#"{"role":"assistant","content":""}"#, "null");
        push_event(&mut text, done, r#"{"content":"Do"}"#, "null");
        push_event(&mut text, done, r#"{"content":"ne."}"#, "null");
        push_event(&mut text, done, "{}", "\"stop\"");
    } else {
        push_call_events(&mut text, done);
    }
    text += &format!(
        concat!(
            r#"data: {{"id":"c{k}","object":"chat.completion.chunk","created":1700000000,"#,
            r#""model":"mock","choices":[],{usage}}}"#,
            "\n\ndata: [DONE]\n\n",
        ),
        k = done,
        usage = USAGE,
    );
    text
}

fn push_call_events(text: &mut String, done: usize) {
    let opening = format!(
        concat!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"index":0,"id":"call_{k}","#,
            r#""type":"function","function":{{"name":"add","arguments":""}}}}]}}"#,
        ),
        k = done,
    );
    push_event(text, done, &opening, "null");
    let (first, second) = (done.to_string(), (done + 1).to_string());
    for part in [r#"{\"a\":"#, &first, r#",\"b\":"#, &second, "}"] {
        let delta =
            format!(r#"{{"tool_calls":[{{"index":0,"function":{{"arguments":"{part}"}}}}]}}"#);
        push_event(text, done, &delta, "null");
    }
    push_event(text, done, "{}", "\"tool_calls\"");
}

fn push_event(text: &mut String, done: usize, delta: &str, finish_reason: &str) {
    *text += &format!(
        concat!(
            r#"data: {{"id":"c{k}","object":"chat.completion.chunk","created":1700000000,"#,
            r#""model":"mock","choices":[{{"index":0,"delta":{delta},"#,
            r#""finish_reason":{finish_reason}}}]}}"#,
            "\n\n",
        ),
        k = done,
        delta = delta,
        finish_reason = finish_reason,
    );
}

/// The Responses API shape, the only one weakincentives 0.24 speaks.
fn response_object(done: usize, turns: usize) -> String {
    let output = if done >= turns {
        concat!(
            r#"{"type":"message","id":"m","role":"assistant","status":"completed","#,
            r#""content":[{"type":"output_text","text":"Done.","annotations":[]}]}"#,
        )
        .to_string()
    } else {
        format!(
            concat!(
                r#"{{"type":"function_call","id":"fc_{k}","call_id":"call_{k}","name":"add","#,
                r#""arguments":"{{\"a\":{k},\"b\":{next}}}","status":"completed"}}"#,
            ),
            k = done,
            next = done + 1,
        )
    };
    format!(
        concat!(
            r#"{{"id":"r{k}","object":"response","created_at":1700000000,"model":"mock","#,
            r#""status":"completed","output":[{output}],"parallel_tool_calls":true,"#,
            r#""tool_choice":"auto","tools":[],"usage":{{"input_tokens":10,"output_tokens":5,"#,
            r#""total_tokens":15,"input_tokens_details":{{"cached_tokens":0}},"#,
            r#""output_tokens_details":{{"reasoning_tokens":0}}}}}}"#,
        ),
        k = done,
        output = output,
    )
}

async fn serve(port: &str) {
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).ok();
        tokio::spawn(async move {
            let server = http1::Builder::new();
            let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

fn main() {
    let port = std::env::args().nth(1).unwrap_or("9100".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(serve(&port))
}
