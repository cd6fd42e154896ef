//! Decides what the web is in tests: names and addresses of our own, servers on this computer behind
//! them, and every connection counted.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolgate_http::{Network, Waiting};

/// The address that names lead to by themselves.
pub const PUBLIC: &str = "93.184.216.34";

/// Milliseconds after which a name is found that is found slowly.
const SLOW_MS: u64 = 60_000;

/// What a server says to a request.
#[derive(Debug, Clone)]
pub enum Said {
    /// These bytes, and then it closes.
    Bytes(Vec<u8>),
    /// These bytes, then the second again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, one in so many milliseconds.
    Drip(Vec<u8>, u64),
}

impl Said {
    /// An answer of a kind with a body.
    pub fn page(kind: &str, body: &[u8]) -> Self {
        Self::status("200 OK", &[("content-type", kind)], body)
    }

    /// An answer with a status, headers and a body.
    pub fn status(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut all = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(name, value)| all.push_str(&format!("{name}: {value}\r\n")));
        all.push_str("\r\n");
        Self::Bytes([all.as_bytes(), body].concat())
    }

    /// An answer that points elsewhere.
    pub fn redirect(status: &str, to: &str) -> Self {
        Self::status(status, &[("location", to)], b"")
    }
}

/// What a name leads to, lookup by lookup; the last answer stays.
type Answers = VecDeque<Vec<IpAddr>>;

#[derive(Default)]
struct Seen {
    names: BTreeMap<String, Answers>,
    slow: Vec<String>,
    lookups: Vec<String>,
    connections: Vec<SocketAddr>,
    requests: Vec<String>,
    /// The servers behind addresses: plain, and those of TLS.
    plain: Option<SocketAddr>,
    secure: Option<SocketAddr>,
}

/// A web of our own.
#[derive(Default)]
pub struct FakeWeb {
    seen: Mutex<Seen>,
}

impl FakeWeb {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name leads to these, answer after answer; the last one stays.
    pub fn name(&self, host: &str, answers: &[&[&str]]) {
        let parse = |list: &&[&str]| list.iter().filter_map(|text| text.parse().ok()).collect();
        self.seen().names.insert(host.to_owned(), answers.iter().map(parse).collect());
    }

    /// A name is found after a minute.
    pub fn slow(&self, host: &str) {
        self.seen().slow.push(host.to_owned());
    }

    /// Connections to port 443 and 8443 lead to this server from now on.
    pub fn secure(&self, server: SocketAddr) {
        self.seen().secure = Some(server);
    }

    /// All other connections lead to this server from now on.
    pub fn plain(&self, server: SocketAddr) {
        self.seen().plain = Some(server);
    }

    /// The names that were looked up, in order.
    pub fn lookups(&self) -> Vec<String> {
        self.seen().lookups.clone()
    }

    /// The addresses that were connected to, in order.
    pub fn connections(&self) -> Vec<SocketAddr> {
        self.seen().connections.clone()
    }

    /// The heads of the requests that came, in order.
    pub fn requests(&self) -> Vec<String> {
        self.seen().requests.clone()
    }

    /// Serves whoever connects: what is said follows from the head of the request.
    pub async fn serve(
        self: &Arc<Self>,
        say: impl Fn(&str) -> Said + Send + Sync + 'static,
    ) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        self.plain(address);
        let (web, say) = (Arc::clone(self), Arc::new(say));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (web, say) = (Arc::clone(&web), Arc::clone(&say));
                tokio::spawn(async move { web.answer(stream, say.as_ref()).await });
            }
        });
        Ok(address)
    }

    /// Reads one request and says what follows from it, over any stream.
    pub async fn answer<S>(&self, mut stream: S, say: &(dyn Fn(&str) -> Said + Send + Sync))
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    {
        let (mut head, mut buffer) = (Vec::new(), [0; 4_096]);
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => head.extend(buffer.iter().take(count)),
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        self.seen().requests.push(head.clone());
        match say(&head) {
            Said::Bytes(bytes) => drop(stream.write_all(&bytes).await),
            Said::Endless(bytes, again) => {
                let mut going = stream.write_all(&bytes).await.is_ok();
                while going {
                    going = stream.write_all(&again).await.is_ok();
                }
            }
            Said::Drip(bytes, ms) => {
                for byte in bytes {
                    if stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                }
            }
        }
        drop(stream.flush().await);
    }
}

impl Network for FakeWeb {
    fn look_up<'a>(&'a self, host: &'a str, port: u16) -> Waiting<'a, Vec<SocketAddr>> {
        Box::pin(async move {
            let (slow, found) = {
                let mut seen = self.seen();
                seen.lookups.push(host.to_owned());
                let answers = seen.names.get_mut(host);
                let found = answers.and_then(|answers| match answers.len() {
                    0 | 1 => answers.front().cloned(),
                    _ => answers.pop_front(),
                });
                (seen.slow.iter().any(|slow| slow == host), found)
            };
            if slow {
                tokio::time::sleep(Duration::from_millis(SLOW_MS)).await;
            }
            let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
        })
    }

    fn connect(&self, address: SocketAddr) -> Waiting<'_, TcpStream> {
        let server = {
            let mut seen = self.seen();
            seen.connections.push(address);
            let secure = [443, 8443].contains(&address.port());
            if secure { seen.secure } else { seen.plain }
        };
        Box::pin(async move {
            match server {
                Some(server) => TcpStream::connect(server).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}
