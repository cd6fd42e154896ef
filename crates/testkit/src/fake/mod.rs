//! A fake provider: a server on this computer that speaks four dialects strictly, plays a script,
//! and fails on demand. It shares no code with the crate that it is made to test.

mod anthropic;
mod chat;
mod check;
mod fault;
mod gemini;
mod http;
mod responses;
mod said;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use toolgate_wire::script::ScriptText;

pub use fault::{Bend, FAULTS, Fault};
use http::{Asked, Line};
use said::Said;

/// What the fake plays.
#[derive(Debug, Clone, Default)]
pub struct Play {
    /// The replies, one per request that was answered.
    pub script: ScriptText,
    /// What goes wrong with the first requests, in order; the last one goes on if `for_ever`.
    pub faults: Vec<Fault>,
    /// Whether the last fault goes on for ever.
    pub for_ever: bool,
    /// The key that requests must carry; any or none when there is none.
    pub key: Option<String>,
    /// Milliseconds before the first byte of an answer.
    pub delay_ms: u64,
    /// Milliseconds between two pieces of a stream.
    pub token_ms: u64,
    /// Whether chat completions are as strict as Mistral's: the order of roles, and ids.
    pub strict: bool,
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The path with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null when it was no JSON.
    pub body: Value,
    /// Why a provider would refuse it.
    pub refusal: Option<String>,
}

/// A fake provider that is running.
pub struct Fake {
    port: u16,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

struct State {
    play: Play,
    faults: Mutex<VecDeque<Fault>>,
    seen: Mutex<Vec<Seen>>,
    /// Replies that were given.
    given: AtomicUsize,
    connections: AtomicUsize,
    /// An answer that is being cut, so that every cut is of the same one.
    whole: Mutex<Option<String>>,
    /// The last body, so that the part that is the same again counts as cached.
    last: Mutex<Vec<u8>>,
}

/// A dialect as the fake speaks it.
struct Tongue {
    /// Why a provider would refuse a request.
    check: fn(&Asked, &Value) -> Result<(), String>,
    /// A whole answer.
    plain: fn(&Said) -> Value,
    /// The same as events of a stream.
    events: fn(&Said) -> Vec<String>,
    /// An error: its status, its code, its words.
    error: fn(u16, &str, &str) -> Value,
    /// An error inside a stream.
    error_event: fn(&str, &str) -> String,
    /// What the person said first.
    input: fn(&Value) -> String,
    /// How the reasons to stop are written.
    words: &'static [(Bend, &'static str)],
}

fn tongue(path: &str) -> Option<&'static Tongue> {
    let path = path.split('?').next().unwrap_or(path);
    if path.ends_with("/chat/completions") {
        Some(&chat::TONGUE)
    } else if path.ends_with("/responses") {
        Some(&responses::TONGUE)
    } else if path.ends_with("/messages") {
        Some(&anthropic::TONGUE)
    } else if path.contains("/models/") {
        Some(&gemini::TONGUE)
    } else {
        None
    }
}

impl Fake {
    /// Starts a fake on a free port of this computer.
    pub async fn start(play: Play) -> io::Result<Self> {
        Self::start_at(play, 0).await
    }

    /// Starts a fake on a port of this computer.
    pub async fn start_at(play: Play, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let port = listener.local_addr()?.port();
        let faults = Mutex::new(play.faults.iter().cloned().collect());
        let state = Arc::new(State {
            play,
            faults,
            seen: Mutex::default(),
            given: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            whole: Mutex::default(),
            last: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&state)));
        Ok(Self { port, state, serving })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is: `http://127.0.0.1:PORT`, with a path behind it.
    pub fn base_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.state.seen).clone()
    }

    /// Connections that were opened so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Serves until the process ends.
    pub async fn wait(mut self) {
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        state.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(converse(stream, Arc::clone(&state)));
    }
}

/// One connection, request after request.
async fn converse(stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let mut line = Line::new(stream);
    while let Ok(Some(asked)) = line.request().await {
        let fault = state.next_fault();
        if state.answer(&mut line, &asked, &fault).await.is_err() {
            return;
        }
    }
}

impl State {
    fn next_fault(&self) -> Fault {
        let mut faults = lock(&self.faults);
        match (faults.len(), self.play.for_ever) {
            (1, true) => faults.front().cloned().unwrap_or_default(),
            _ => faults.pop_front().unwrap_or_default(),
        }
    }

    async fn answer(&self, line: &mut Line, asked: &Asked, fault: &Fault) -> io::Result<()> {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
        if asked.path.ends_with("/models") {
            return self.list(line, asked).await;
        }
        let Some(tongue) = tongue(&asked.path) else {
            return line
                .json(404, &json!({"error": {"message": "there is no such address"}}))
                .await;
        };
        let refusal = self.refusal(tongue, asked, &body);
        self.note(asked, &body, &refusal);
        if let Some((status, code, words)) = refusal {
            return line.json(status, &(tongue.error)(status, code, &words)).await;
        }
        if self.play.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(self.play.delay_ms)).await;
        }
        let streams = check::streams(asked, &body);
        match fault {
            Fault::None => self.reply(line, tongue, asked, &body, None).await,
            Fault::Bent(bend @ (Bend::ErrorEvent | Bend::FailedCallEvent)) => {
                let (status, code) = match *bend == Bend::FailedCallEvent {
                    true => (400, "tool_use_failed"),
                    false => (529, "overloaded_error"),
                };
                if !streams {
                    return line.json(200, &(tongue.error)(status, code, "try later")).await;
                }
                let mut events = (tongue.events)(&self.said(tongue, asked, &body));
                events.truncate(2);
                events.push((tongue.error_event)(code, "try later"));
                line.stream(&events, 0).await
            }
            Fault::Bent(bend) => self.reply(line, tongue, asked, &body, Some(*bend)).await,
            Fault::CutAt(offset) | Fault::EndAt(offset) => {
                let rendered = || {
                    let said = self.said(tongue, asked, &body);
                    match streams {
                        true => (tongue.events)(&said).concat(),
                        false => (tongue.plain)(&said).to_string(),
                    }
                };
                let whole = lock(&self.whole).get_or_insert_with(rendered).clone();
                let part = whole.as_bytes().get(..*offset).unwrap_or(whole.as_bytes());
                line.part(part, streams, matches!(fault, Fault::EndAt(_))).await
            }
            Fault::Status { status, headers, code, words } => {
                let error = (tongue.error)(*status, code, words).to_string();
                line.page(*status, "application/json", headers, error.as_bytes()).await
            }
            Fault::Page { status, kind, body } => line.page(*status, kind, &[], body).await,
            Fault::Redirect(to) => {
                let headers = [("location".to_owned(), to.clone())];
                line.page(302, "text/plain", &headers, b"").await
            }
            Fault::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Fault::Silence => std::future::pending().await,
            Fault::Stall => line.head_only().await,
            Fault::Drip => line.drip("x").await,
            Fault::Pings => line.drip(": ping\n\n").await,
        }
    }

    /// The models it has.
    async fn list(&self, line: &mut Line, asked: &Asked) -> io::Result<()> {
        if self.play.key.as_deref().is_some_and(|key| !check::carries(asked, key)) {
            let words = "this key is not known";
            return line.json(401, &(chat::TONGUE.error)(401, "authentication_error", words)).await;
        }
        let model =
            |id: &str| json!({"id": id, "object": "model", "created": 0, "owned_by": "fake"});
        line.json(200, &json!({"object": "list", "data": [model("fake-1"), model("fake-2")]})).await
    }

    fn refusal(
        &self,
        tongue: &Tongue,
        asked: &Asked,
        body: &Value,
    ) -> Option<(u16, &'static str, String)> {
        if let Some(key) = &self.play.key
            && !check::carries(asked, key)
        {
            return Some((401, "authentication_error", "this key is not known".to_owned()));
        }
        let strictly = |()| match self.play.strict && asked.path.ends_with("/chat/completions") {
            true => chat::strict(body),
            false => Ok(()),
        };
        let refused = (tongue.check)(asked, body).and_then(strictly).err()?;
        Some((400, "invalid_request_error", refused))
    }

    fn note(&self, asked: &Asked, body: &Value, refusal: &Option<(u16, &'static str, String)>) {
        lock(&self.seen).push(Seen {
            path: asked.path.clone(),
            headers: asked.headers.clone(),
            body: body.clone(),
            refusal: refusal.as_ref().map(|(_, _, words)| words.clone()),
        });
    }

    /// What the script says to this request.
    fn said(&self, tongue: &Tongue, asked: &Asked, body: &Value) -> Said {
        let number = self.given.load(Ordering::SeqCst);
        let input = (tongue.input)(body);
        let model = check::model(asked, body);
        let mut said = Said::of(&self.play.script, number, &input, &model);
        said.count(&asked.body, &mut lock(&self.last));
        said
    }

    async fn reply(
        &self,
        line: &mut Line,
        tongue: &Tongue,
        asked: &Asked,
        body: &Value,
        bend: Option<Bend>,
    ) -> io::Result<()> {
        let mut said = self.said(tongue, asked, body);
        // A reply that nobody can use is asked for again.
        if bend.is_none_or(Bend::is_usable) {
            self.given.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(reason) = said.fails.take() {
            return line.json(500, &(tongue.error)(500, "server_error", &reason)).await;
        }
        if let Some(bend) = bend {
            let word = tongue.words.iter().find(|(of, _)| *of == bend);
            said.bend(bend, word.map(|(_, word)| *word));
        }
        if bend == Some(Bend::EventsAsJson) {
            let events = (tongue.events)(&said).concat();
            return line.page(200, "application/json", &[], events.as_bytes()).await;
        }
        match check::streams(asked, body) {
            true => line.stream(&(tongue.events)(&said), self.play.token_ms).await,
            false => line.json(200, &(tongue.plain)(&said)).await,
        }
    }
}
