//! Decides how the misbehaving server speaks over streamable HTTP, strictly: sessions, versions and
//! headers are checked as a real one would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use super::{Era, Mode, Server, events};

const SESSION: &str = "session-1";

/// A request, as far as it matters here.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn read(from: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let mut parts = line.split_whitespace();
        let (method, path) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line).ok().filter(|count| *count > 0)?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: String::new() };
        let length: usize =
            request.header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        request.body = String::from_utf8(body).ok()?;
        Some(request)
    }
}

/// Serves for ever.
pub fn serve(server: &Arc<Server>, listener: &TcpListener) {
    for stream in listener.incoming() {
        let (Ok(stream), server) = (stream, Arc::clone(server)) else { continue };
        std::thread::spawn(move || {
            let Ok(mut write) = stream.try_clone() else { return };
            let mut read = BufReader::new(stream);
            while let Some(request) = Request::read(&mut read) {
                if !answer(&server, &request, &mut write) {
                    return;
                }
            }
        });
    }
}

/// Answers a request; `false` where the connection ends with it.
pub(super) fn answer(server: &Arc<Server>, request: &Request, write: &mut TcpStream) -> bool {
    if server.mode == Mode::Unauthorized {
        let challenge = "www-authenticate: Bearer resource_metadata=\"http://169.254.169.254/latest/meta-data/\"\r\n";
        return respond(write, "401 Unauthorized", challenge, "");
    }
    let path = request.path.split('?').next().unwrap_or_default();
    match (request.method.as_str(), path) {
        ("POST", "/mcp") => post(server, request, write),
        ("GET", "/mcp") if request.header("last-event-id") == Some("7") => {
            begin_stream(write);
            let kept = server.kept.lock().ok().and_then(|mut kept| kept.take());
            event(write, &kept.unwrap_or_default());
            false
        }
        ("GET", "/mcp") if server.era == Era::Legacy => stream(server, write),
        ("DELETE", "/mcp") => {
            server.record("session ended");
            respond(write, "204 No Content", "", "")
        }
        ("GET", "/sse") => events::stream(server, write),
        ("POST", "/messages") => events::post(server, request, write),
        _ => respond(write, "405 Method Not Allowed", "", ""),
    }
}

pub(super) fn respond(write: &mut TcpStream, status: &str, headers: &str, body: &str) -> bool {
    // Written at once, so that no half of it waits for a word that the other half arrived.
    let whole =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    write.write_all(whole.as_bytes()).is_ok()
}

pub(super) fn begin_stream(write: &mut TcpStream) -> bool {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    write.write_all(head.as_bytes()).is_ok()
}

fn post(server: &Arc<Server>, request: &Request, write: &mut TcpStream) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(&request.body) else {
        return respond(write, "400 Bad Request", "", "");
    };
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    if let Some(refusal) = refusal(server, request, &message, method) {
        let (status, code, words) = refusal;
        let id = message.get("id").cloned().unwrap_or_default();
        let body = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}});
        return respond(write, status, "content-type: application/json\r\n", &body.to_string());
    }
    if method == "subscriptions/listen" {
        begin_stream(write);
        server.record("listen");
        server.hear(&message, &mut |text| event(write, text));
        let first = server.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1;
        return !(first && server.mode == Mode::CutListen) && listen(server, write);
    }
    if method == "tools/call" && server.mode == Mode::ForbidsCalls {
        server.hear(&message, &mut |_| {});
        let text = message.pointer("/params/arguments/text").and_then(Value::as_str);
        let status = if text == Some("401") { "401 Unauthorized" } else { "403 Forbidden" };
        return respond(write, status, "", "");
    }
    if method == "tools/call" && server.mode == Mode::CutStream {
        server.hear(&message, &mut |_| {});
        begin_stream(write);
        event(write, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        return false;
    }
    if method == "tools/call"
        && server.mode == Mode::Forgets
        && server.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1
    {
        server.hear(&message, &mut |_| {});
        let id = match message.pointer("/params/arguments/text").and_then(Value::as_str) {
            Some("told") => message.get("id").cloned(),
            _ => None,
        };
        let error = json!({"code": -32001, "message": "no such session"});
        let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
        return respond(write, "404 Not Found", "content-type: application/json\r\n", &body);
    }
    if method == "tools/call" && server.mode == Mode::Resumes {
        server.hear(&message, &mut |text| {
            if let Ok(mut kept) = server.kept.lock() {
                *kept = Some(text.to_owned());
            }
        });
        begin_stream(write);
        let _ = write.write_all(b"id: 7\nretry: 50\ndata: \n\n");
        return false;
    }
    if (server.streams || server.mode == Mode::AsksBack) && message.get("id").is_some() {
        let session = if method == "initialize" { "mcp-session-id: session-1\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{session}connection: close\r\n\r\n"
        );
        let _ = write.write_all(head.as_bytes());
        server.hear(&message, &mut |text| event(write, text));
        return false;
    }
    let mut said = Vec::new();
    server.hear(&message, &mut |text| said.push(text.to_owned()));
    let session = if method == "initialize" { "mcp-session-id: session-1\r\n" } else { "" };
    match said.last() {
        None => respond(write, "202 Accepted", "", ""),
        Some(last) => {
            let headers = format!("content-type: application/json\r\n{session}");
            respond(write, "200 OK", &headers, last)
        }
    }
}

/// What is wrong with a request, if anything is.
fn refusal(
    server: &Server,
    request: &Request,
    message: &Value,
    method: &str,
) -> Option<(&'static str, i64, &'static str)> {
    let accept = request.header("accept").unwrap_or_default();
    if !accept.contains("application/json") || !accept.contains("text/event-stream") {
        return Some(("406 Not Acceptable", -32600, "accept both"));
    }
    if server.era == Era::Modern {
        let name = message.pointer("/params/name").and_then(Value::as_str);
        let version = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        if message.get("id").is_some()
            && (request.header("mcp-method") != Some(method) || request.header("mcp-name") != name)
        {
            return Some(("400 Bad Request", -32020, "HeaderMismatch"));
        }
        if message.get("id").is_some() && version.and_then(Value::as_str) != Some("2026-07-28") {
            return Some(("400 Bad Request", -32602, "no version in _meta"));
        }
        return None;
    }
    match (method, request.header("mcp-session-id")) {
        ("server/discover", _) => Some(("400 Bad Request", -32600, "no session")),
        ("initialize", _) | (_, Some(SESSION)) => None,
        (_, Some(_)) => Some(("404 Not Found", -32001, "no such session")),
        (_, None) => Some(("400 Bad Request", -32600, "no session")),
    }
}

/// The stream of notifications.
fn stream(server: &Arc<Server>, write: &mut TcpStream) -> bool {
    server.record("stream opened");
    begin_stream(write) && listen(server, write)
}

fn listen(server: &Arc<Server>, write: &mut TcpStream) -> bool {
    let (sender, receiver) = channel();
    if let Ok(mut listeners) = server.listeners.lock() {
        listeners.push(sender);
    }
    while let Ok(text) = receiver.recv() {
        event(write, &text);
    }
    false
}

pub(super) fn event(write: &mut TcpStream, text: &str) {
    let _ = write.write_all(format!("event: message\ndata: {text}\n\n").as_bytes());
}
