//! Decides how the fake reads requests and writes answers: by hand, so that it can break off anywhere.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of a request that are taken.
const REQUEST_BYTES_MAX: usize = 64 << 20;

/// A request as it came.
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// One connection.
pub(super) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request; nothing when the other side went away.
    pub(super) async fn request(&mut self) -> io::Result<Option<Asked>> {
        loop {
            if let Some((asked, used)) = parse(&self.buffer) {
                self.buffer.drain(..used);
                return Ok(Some(asked));
            }
            if self.buffer.len() > REQUEST_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut room = [0; 16 << 10];
            let read = self.stream.read(&mut room).await?;
            if read == 0 {
                return Ok(None);
            }
            self.buffer.extend_from_slice(room.get(..read).unwrap_or_default());
        }
    }

    pub(super) async fn json(&mut self, status: u16, body: &Value) -> io::Result<()> {
        self.page(status, "application/json", &[], body.to_string().as_bytes()).await
    }

    pub(super) async fn page(
        &mut self,
        status: u16,
        kind: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        self.write(&[head.as_bytes(), body].concat()).await
    }

    /// Events, each as soon as it is due.
    pub(super) async fn stream(&mut self, events: &[String], token_ms: u64) -> io::Result<()> {
        self.begin().await?;
        for event in events {
            self.chunk(event.as_bytes()).await?;
            if token_ms > 0 {
                tokio::time::sleep(Duration::from_millis(token_ms)).await;
            }
        }
        self.write(b"0\r\n\r\n").await
    }

    /// A part of an answer, and then the end: of the body as HTTP has it, or of the connection.
    pub(super) async fn part(&mut self, part: &[u8], sse: bool, ends: bool) -> io::Result<()> {
        let kind = if sse { "text/event-stream" } else { "application/json" };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        self.write(head.as_bytes()).await?;
        if !part.is_empty() {
            self.chunk(part).await?;
        }
        if ends {
            return self.write(b"0\r\n\r\n").await;
        }
        self.stream.shutdown().await?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// The head of a stream, and then nothing.
    pub(super) async fn head_only(&mut self) -> io::Result<()> {
        self.begin().await?;
        std::future::pending().await
    }

    /// The same bytes again and again, often enough to seem alive.
    pub(super) async fn drip(&mut self, bytes: &str) -> io::Result<()> {
        self.begin().await?;
        loop {
            self.chunk(bytes.as_bytes()).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn begin(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        self.write(head.as_bytes()).await
    }

    async fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let size = format!("{:x}\r\n", bytes.len());
        self.write(&[size.as_bytes(), bytes, b"\r\n"].concat()).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

/// A request, when it is there as a whole, and how many bytes it has.
fn parse(buffer: &[u8]) -> Option<(Asked, usize)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(buffer.get(..end)?).into_owned();
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let body = buffer.get(end + 4..end + 4 + length)?.to_vec();
    Some((Asked { path, headers, body }, end + 4 + length))
}
