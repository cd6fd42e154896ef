//! Decides how the misbehaving server speaks over HTTP with server-sent events, as of 2024-11-05.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::channel;

use serde_json::Value;

use super::http::{Request, begin_stream, event, respond};
use super::{Mode, Server};

/// The stream over which all answers go.
pub(super) fn stream(server: &Arc<Server>, write: &mut TcpStream) -> bool {
    use std::io::Write;
    let (sender, receiver) = channel();
    if let Ok(mut listeners) = server.listeners.lock() {
        listeners.push(sender);
    }
    let endpoint = match server.mode {
        Mode::EndpointElsewhere => "http://169.254.169.254/",
        _ => "/messages?id=1",
    };
    begin_stream(write);
    if server.mode == Mode::LateEndpoint {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    server.record("stream opened");
    let _ = write.write_all(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes());
    while let Ok(text) = receiver.recv() {
        event(write, &text);
        if server.mode == Mode::CutStream && text.contains("\"cut\"") {
            return false;
        }
    }
    false
}

/// A message; its answer goes over the stream.
pub(super) fn post(server: &Arc<Server>, request: &Request, write: &mut TcpStream) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(&request.body) else {
        return respond(write, "400 Bad Request", "", "");
    };
    let answered = respond(write, "202 Accepted", "", "");
    let calls = message.get("method").and_then(Value::as_str) == Some("tools/call");
    // What is said next over this connection is heard, whatever becomes of this.
    let server = Arc::clone(server);
    let hearing = std::thread::spawn(move || {
        server.hear(&message, &mut |text| server.announce(text));
        if calls && server.mode == Mode::CutStream {
            server.announce("\"cut\"");
        }
    });
    // Everything but a call is done in order.
    if !calls {
        let _ = hearing.join();
    }
    answered
}
