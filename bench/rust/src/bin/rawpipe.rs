//! Part C, the gateway limit over pipes: forwards JSON-RPC lines to HTTP and reads only the envelope.
//!
//! `rawpipe UPSTREAM_HOST:PORT`; all calls are in flight at once, each on a connection of its own.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client};
use hyper_util::rt::TokioIo;
use perf::Envelope;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

type Sender = client::conn::http1::SendRequest<Full<Bytes>>;

/// The upstream and the connections to it that nobody uses.
struct Upstream {
    host: String,
    idle: Mutex<Vec<Sender>>,
}

impl Upstream {
    async fn connection(&self) -> Sender {
        let idle = self.idle.lock().unwrap().pop();
        if let Some(mut sender) = idle
            && sender.ready().await.is_ok()
        {
            return sender;
        }
        let stream = TcpStream::connect(&self.host).await.unwrap();
        stream.set_nodelay(true).ok();
        let handshake = client::conn::http1::handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        sender
    }

    /// The answer to one message; a notification has none.
    async fn forward(&self, line: String) -> Bytes {
        // The least any gateway must do: know which method and which tool is meant.
        let _ = serde_json::from_str::<Envelope>(&line).is_ok_and(|call| call.params.is_some());
        let request = Request::post("/mcp")
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18")
            .body(Full::new(line.into()))
            .unwrap();
        let mut sender = self.connection().await;
        let response = sender.send_request(request).await.unwrap();
        let answer = response.into_body().collect().await.unwrap().to_bytes();
        self.idle.lock().unwrap().push(sender);
        answer
    }
}

/// Writes the answers, those that are ready together in one go.
async fn write(mut output: pipe::Sender, mut answers: mpsc::UnboundedReceiver<Bytes>) {
    let (mut ready, mut lines) = (Vec::new(), Vec::new());
    while answers.recv_many(&mut ready, 64).await > 0 {
        for answer in ready.drain(..) {
            lines.extend_from_slice(&answer);
            lines.push(b'\n');
        }
        output.write_all(&lines).await.unwrap();
        lines.clear();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let host = std::env::args().nth(1).unwrap();
    let input = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0").unwrap();
    let output = pipe::OpenOptions::new().open_sender("/proc/self/fd/1").unwrap();
    let (sender, answers) = mpsc::unbounded_channel();
    let writing = tokio::spawn(write(output, answers));
    let upstream = Arc::new(Upstream { host, idle: Mutex::default() });
    let mut lines = BufReader::with_capacity(1 << 16, input).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let (upstream, sender) = (upstream.clone(), sender.clone());
        tokio::spawn(async move {
            let answer = upstream.forward(line).await;
            if !answer.is_empty() {
                sender.send(answer).unwrap();
            }
        });
    }
    drop(sender);
    writing.await.unwrap();
}
