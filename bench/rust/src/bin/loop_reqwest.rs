//! Part A, plain Rust: reqwest and a `Value` history written out anew each turn, plain or streamed.

use futures::StreamExt;
use perf::{block, drive, stream, url};
use serde_json::{Value, json};

/// What one reply asked for; an empty `id` means that `content` is the final text.
#[derive(Default)]
struct Reply {
    content: String,
    id: String,
    args: String,
}

fn tools() -> Value {
    json!([{"type": "function", "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    }}])
}

async fn one(client: reqwest::Client, url: String, streamed: bool) -> String {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    let tools = tools();
    loop {
        let mut request = json!({"model": "mock", "messages": &messages, "tools": &tools});
        if streamed {
            request["stream"] = true.into();
        }
        let post = client.post(format!("{url}/chat/completions")).bearer_auth("x").json(&request);
        let response = post.send().await.unwrap();
        let reply = if streamed { read_events(response).await } else { read_whole(response).await };
        let Reply { content, id, args } = reply;
        if id.is_empty() {
            return content;
        }
        let parsed: Value = serde_json::from_str(&args).unwrap();
        let sum = parsed["a"].as_i64().unwrap() + parsed["b"].as_i64().unwrap();
        let function = json!({"name": "add", "arguments": args});
        let call = json!({"id": id, "type": "function", "function": function});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": sum.to_string()}));
    }
}

async fn read_whole(response: reqwest::Response) -> Reply {
    let mut reply = Reply::default();
    let body: Value = response.json().await.unwrap();
    let message = &body["choices"][0]["message"];
    if let Some(text) = message["content"].as_str() {
        reply.content += text;
    }
    let call = &message["tool_calls"][0];
    if let Some(id) = call["id"].as_str() {
        reply.id = id.into();
        reply.args = call["function"]["arguments"].as_str().unwrap().into();
    }
    reply
}

async fn read_events(response: reqwest::Response) -> Reply {
    let mut reply = Reply::default();
    let mut chunks = response.bytes_stream();
    let mut buffer: Vec<u8> = vec![];
    while let Some(chunk) = chunks.next().await {
        buffer.extend_from_slice(&chunk.unwrap());
        while let Some(end) = memchr::memmem::find(&buffer, b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            let data = &event["data: ".len()..end];
            if data != b"[DONE]" {
                reply.take_delta(data);
            }
        }
    }
    reply
}

impl Reply {
    fn take_delta(&mut self, data: &[u8]) {
        let event: Value = serde_json::from_slice(data).unwrap();
        let delta = &event["choices"][0]["delta"];
        if let Some(text) = delta["content"].as_str() {
            self.content += text;
        }
        let call = &delta["tool_calls"][0];
        if let Some(id) = call["id"].as_str() {
            self.id = id.into();
        }
        if let Some(part) = call["function"]["arguments"].as_str() {
            self.args += part;
        }
    }
}

fn main() {
    let (url, streamed) = (url(), stream());
    block(async move {
        let client = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build().unwrap();
        drive(move || one(client.clone(), url.clone(), streamed)).await
    })
}
