//! Part C, the MCP load client: times `tools/call` over HTTP or over a child's stdio.
//!
//! `mcpload http URL CONC CALLS TOOL` or `mcpload stdio CONC CALLS TOOL -- cmd args…`.
//! Prints `{"calls","calls_s","p50_us","p99_us","mean_us","cpu_us_call"}`; the CPU is the client's.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{},"clientInfo":{"name":"load","version":"1"}}}"#,
);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn call(tool: &str, id: usize) -> String {
    format!(
        concat!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","#,
            r#""params":{{"name":"{tool}","arguments":{{"text":"hello-{id}"}}}}}}"#,
        ),
        id = id,
        tool = tool,
    )
}

/// Panics unless the reply to call `id` echoes its text and is not an error.
fn check(reply: &[u8], id: usize) {
    let echoed = memmem::find(reply, format!("hello-{id}").as_bytes()).is_some();
    let failed = memmem::find(reply, b"\"isError\":true").is_some();
    assert!(echoed && !failed, "{}", String::from_utf8_lossy(reply));
}

fn report(mut latencies_us: Vec<f64>, wall: f64, cpu: f64) {
    latencies_us.sort_by(|a, b| a.total_cmp(b));
    let calls = latencies_us.len();
    let quantile = |q: f64| latencies_us[((calls as f64 * q) as usize).min(calls - 1)];
    println!(
        concat!(
            r#"{{"calls":{calls},"calls_s":{rate:.0},"p50_us":{p50:.1},"p99_us":{p99:.1},"#,
            r#""mean_us":{mean:.1},"cpu_us_call":{cpu:.1}}}"#,
        ),
        calls = calls,
        rate = calls as f64 / wall,
        p50 = quantile(0.5),
        p99 = quantile(0.99),
        mean = latencies_us.iter().sum::<f64>() / calls as f64,
        cpu = cpu * 1e6 / calls as f64,
    );
}

type Sender = http1::SendRequest<Full<Bytes>>;

/// One initialized MCP session over one kept-alive connection.
struct HttpClient {
    sender: Sender,
    host: String,
    path: String,
    session: Option<String>,
}

impl HttpClient {
    async fn open(url: &str) -> HttpClient {
        let uri: hyper::Uri = url.parse().unwrap();
        let host = uri.authority().unwrap().to_string();
        let sender = Self::dial(&host).await;
        let mut client = HttpClient { sender, host, path: uri.path().into(), session: None };
        let (reply, session) = client.post(INITIALIZE.into()).await;
        let greeted = memmem::find(&reply, b"serverInfo").is_some();
        assert!(greeted, "{}", String::from_utf8_lossy(&reply));
        client.session = session;
        client.post(INITIALIZED.into()).await;
        client
    }

    async fn dial(host: &str) -> Sender {
        let stream = TcpStream::connect(host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        sender
    }

    /// Returns the reply's body and the session it named; dials again if the peer hung up.
    async fn post(&mut self, body: String) -> (Bytes, Option<String>) {
        if self.sender.ready().await.is_err() {
            self.sender = Self::dial(&self.host).await;
            self.sender.ready().await.unwrap();
        }
        let mut request = hyper::Request::post(&self.path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-06-18");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let session = response.headers().get("mcp-session-id");
        let session = session.map(|id| id.to_str().unwrap().to_string());
        (response.into_body().collect().await.unwrap().to_bytes(), session)
    }
}

async fn load_http(url: &str, conc: usize, calls: usize, tool: &str) {
    let mut clients = vec![];
    for _ in 0..conc {
        clients.push(HttpClient::open(url).await);
    }
    let warm = (calls / 10).max(20) / conc + 1;
    for client in &mut clients {
        for id in 1..=warm {
            let (reply, _) = client.post(call(tool, id)).await;
            check(&reply, id);
        }
    }
    let (wall_start, cpu_start) = (Instant::now(), perf::cpu());
    let workers: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(worker, client)| {
            let first_id = 1000 + worker * calls;
            tokio::spawn(time_calls(client, tool.to_string(), first_id, calls / conc))
        })
        .collect();
    let mut latencies_us = vec![];
    for worker in workers {
        latencies_us.extend(worker.await.unwrap());
    }
    report(latencies_us, wall_start.elapsed().as_secs_f64(), perf::cpu() - cpu_start);
}

async fn time_calls(
    mut client: HttpClient,
    tool: String,
    first_id: usize,
    calls: usize,
) -> Vec<f64> {
    let mut latencies_us = vec![];
    for id in first_id..first_id + calls {
        let start = Instant::now();
        let (reply, _) = client.post(call(&tool, id)).await;
        latencies_us.push(start.elapsed().as_secs_f64() * 1e6);
        check(&reply, id);
    }
    latencies_us
}

async fn load_stdio(command: &[String], conc: usize, calls: usize, tool: &str) {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::with_capacity(1 << 16, child.stdout.take().unwrap()).lines();
    input.write_all(format!("{INITIALIZE}\n").as_bytes()).await.unwrap();
    output.next_line().await.unwrap().unwrap();
    input.write_all(format!("{INITIALIZED}\n").as_bytes()).await.unwrap();

    let warm = (calls / 10).max(20);
    let total = calls + warm;
    let (mut next, mut done) = (1, 0);
    let mut latencies_us = vec![];
    let mut in_flight: HashMap<usize, Instant> = HashMap::new();
    let (mut wall_start, mut cpu_start) = (Instant::now(), perf::cpu());
    while done < total {
        while in_flight.len() < conc && next <= total {
            in_flight.insert(next, Instant::now());
            input.write_all(format!("{}\n", call(tool, next)).as_bytes()).await.unwrap();
            next += 1;
        }
        let line = output.next_line().await.unwrap().expect("closed");
        let Some(start) = echoed_id(&line).and_then(|id| in_flight.remove(&id)) else { continue };
        done += 1;
        if done > warm {
            latencies_us.push(start.elapsed().as_secs_f64() * 1e6);
        } else if done == warm {
            (wall_start, cpu_start) = (Instant::now(), perf::cpu());
        }
    }
    report(latencies_us, wall_start.elapsed().as_secs_f64(), perf::cpu() - cpu_start);
    child.kill().await.ok();
}

/// The id in a line's `hello-<id>`; `None` for lines that answer no call.
fn echoed_id(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("hello-")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(digits.parse().unwrap())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize| args[i].parse::<usize>().unwrap();
    if args[1] == "http" {
        load_http(&args[2], number(3), number(4), &args[5]).await;
    } else {
        // args[5] is the `--` before the command.
        load_stdio(&args[6..], number(2), number(3), &args[4]).await;
    }
}
