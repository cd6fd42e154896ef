//! Decides how an MCP server lets in only who has a token, and how the authorization server beside
//! it misbehaves: one way at a time. Every question is written down.

use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use toolgate_kernel::digest::{Digest, unhex};

use super::http::{Request, answer, respond};
use super::{Era, Mode, Server};

/// The ways to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    /// It keeps to the specification.
    None,
    /// Its challenge points to this address.
    Challenge(&'static str),
    /// Its metadata are about another server.
    OtherResource,
    /// Its authorization server is this one.
    Issuer(&'static str),
    /// The authorization server says that it is another one.
    OtherIssuer,
    /// The page to open is this one.
    Page(&'static str),
    /// Codes go to this address.
    TokenAt(&'static str),
    /// Clients register at this address.
    RegisterAt(&'static str),
    /// It knows no PKCE.
    NoPkce,
    /// It knows only the weak PKCE.
    WeakPkce,
    /// It registers another address for answers.
    OtherRedirect,
    /// It lets nobody register.
    NoRegistration,
    /// Its challenge says nothing, and its authorization server is one of OpenID.
    Plain,
    /// Its documents are elsewhere.
    Redirects,
    /// Tokens are over after so many seconds.
    Lives(u64),
    /// The tools want a scope that is not named before.
    WantsScope,
    /// It repeats everything that it was sent in its errors.
    Echoes,
}

/// A server that lets in only who has a token, with its authorization server.
pub struct Guarded {
    /// Where it is.
    pub port: u16,
    twist: Twist,
    server: Arc<Server>,
    state: Mutex<State>,
    connections: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The token and the scopes that hold.
    access: Option<(String, String)>,
    refresh: Option<String>,
    /// What the person was asked.
    asked: Vec<(String, String)>,
    /// The requests, as they came: method, path and body.
    seen: Vec<String>,
    /// The headers of all requests.
    headers: Vec<String>,
    made: u32,
}

impl Guarded {
    /// Starts one; it serves as long as the process lives.
    pub fn start(twist: Twist) -> std::io::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let guarded = Arc::new(Self {
            port,
            twist,
            server: Arc::new(Server::new(Mode::Normal, Era::Modern, false, None)),
            state: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let serving = Arc::clone(&guarded);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let serving = Arc::clone(&serving);
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Ok(guarded)
    }

    /// The address of the MCP server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The name of the authorization server.
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/auth", self.port)
    }

    /// The requests so far whose method and path begin so.
    pub fn seen(&self, beginning: &str) -> Vec<String> {
        let state = self.state();
        state.seen.iter().filter(|seen| seen.starts_with(beginning)).cloned().collect()
    }

    /// Everything that was ever sent here.
    pub fn everything(&self) -> String {
        let state = self.state();
        format!("{}\n{}", state.seen.join("\n"), state.headers.join("\n"))
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Takes the token back, as somebody does who revokes it; the refresh token too, if wanted.
    pub fn revoke(&self, refresh: bool) {
        let mut state = self.state();
        state.access = None;
        if refresh {
            state.refresh = None;
        }
    }

    /// The tokens that hold.
    pub fn tokens(&self) -> Vec<String> {
        let state = self.state();
        let access = state.access.iter().map(|(token, _)| token.clone());
        access.chain(state.refresh.clone()).collect()
    }

    /// What the person does: opens the address and says yes. The query of the answer.
    pub fn consent(&self, address: &str) -> String {
        let query = address.split_once('?').map_or("", |(_, query)| query);
        let asked = pairs(query);
        let state = value(&asked, "state");
        self.state().asked = asked;
        format!("code=the-code&state={state}&iss={}", percent(&self.issuer()))
    }

    /// What the person was asked, by name.
    pub fn asked(&self, name: &str) -> String {
        value(&self.state().asked, name)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(mut write) = stream.try_clone() else { return };
        let mut read = BufReader::new(stream);
        while let Some(request) = Request::read(&mut read) {
            if !self.answer(&request, &mut write) {
                return;
            }
        }
    }

    fn answer(&self, request: &Request, write: &mut TcpStream) -> bool {
        {
            let mut state = self.state();
            state.seen.push(format!("{} {} {}", request.method, request.path, request.body));
            state.headers.extend(request.headers.iter().map(|(name, it)| format!("{name}: {it}")));
        }
        let well_known = request.path.starts_with("/.well-known/");
        if well_known && self.twist == Twist::Redirects {
            return respond(write, "302 Found", "location: http://127.0.0.1:1/\r\n", "");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => say(write, &self.resource()),
            ("GET", "/.well-known/oauth-authorization-server/auth")
                if self.twist != Twist::Plain =>
            {
                say(write, &self.about())
            }
            ("GET", "/auth/.well-known/openid-configuration") => say(write, &self.about()),
            ("POST", "/register") => self.register(request, write),
            ("POST", "/token") => self.token(request, write),
            (_, "/mcp") => self.mcp(request, write),
            _ => respond(write, "404 Not Found", "", ""),
        }
    }

    fn resource(&self) -> Value {
        let issuer = match self.twist {
            Twist::Issuer(issuer) => issuer.to_owned(),
            _ => self.issuer(),
        };
        let resource = match self.twist {
            Twist::OtherResource => "http://127.0.0.1:1/mcp".to_owned(),
            _ => self.url(),
        };
        json!({ "resource": resource, "authorization_servers": [issuer], "scopes_supported": ["tools:read"] })
    }

    fn about(&self) -> Value {
        let at = |path: &str| format!("http://127.0.0.1:{}/{path}", self.port);
        let mut about = json!({
            "issuer": self.issuer(),
            "authorization_endpoint": at("authorize"),
            "token_endpoint": at("token"),
            "registration_endpoint": at("register"),
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": true,
            "authorization_response_iss_parameter_supported": true,
            "scopes_supported": ["tools:read", "tools:write", "offline_access"],
        });
        let (key, instead) = match self.twist {
            Twist::OtherIssuer => ("issuer", json!("https://evil.example")),
            Twist::Page(page) => ("authorization_endpoint", json!(page)),
            Twist::TokenAt(place) => ("token_endpoint", json!(place)),
            Twist::RegisterAt(place) => ("registration_endpoint", json!(place)),
            Twist::NoPkce => ("code_challenge_methods_supported", Value::Null),
            Twist::WeakPkce => ("code_challenge_methods_supported", json!(["plain"])),
            Twist::NoRegistration => ("registration_endpoint", Value::Null),
            _ => return about,
        };
        set(&mut about, key, instead);
        about
    }

    fn register(&self, request: &Request, write: &mut TcpStream) -> bool {
        let mut about: Value = serde_json::from_str(&request.body).unwrap_or_default();
        set(&mut about, "client_id", json!("registered"));
        if self.twist == Twist::OtherRedirect {
            let redirect = about.pointer("/redirect_uris/0").and_then(Value::as_str);
            let redirect = redirect.unwrap_or_default().to_owned();
            let other = redirect.replace("127.0.0.1", "127.0.0.1.evil.example");
            set(&mut about, "redirect_uris", json!([other]));
        }
        say(write, &about)
    }

    fn token(&self, request: &Request, write: &mut TcpStream) -> bool {
        let given = pairs(&request.body);
        let mut state = self.state();
        let verifier = Digest::of(value(&given, "code_verifier").as_bytes()).to_string();
        let verifier = unhex::<32>(&verifier).map(|bytes| base64(&bytes)).unwrap_or_default();
        let same = |name: &str| value(&given, name) == value(&state.asked, name);
        let fine = value(&given, "resource") == self.url()
            && match value(&given, "grant_type").as_str() {
                "authorization_code" => {
                    value(&given, "code") == "the-code"
                        && same("redirect_uri")
                        && verifier == value(&state.asked, "code_challenge")
                }
                "refresh_token" => Some(value(&given, "refresh_token")) == state.refresh,
                _ => false,
            };
        if !fine || self.twist == Twist::Echoes {
            let error = json!({ "error": "invalid_grant", "error_description": request.body });
            let kind = "content-type: application/json\r\n";
            return respond(write, "400 Bad Request", kind, &error.to_string());
        }
        state.made += 1;
        let (access, refresh) =
            (format!("canary-access-{}", state.made), format!("canary-refresh-{}", state.made));
        let scope = value(&state.asked, "scope");
        state.access = Some((access.clone(), scope.clone()));
        state.refresh = Some(refresh.clone());
        drop(state);
        let life = if let Twist::Lives(seconds) = self.twist { seconds } else { 3_600 };
        say(
            write,
            &json!({ "access_token": access, "token_type": "bearer", "expires_in": life,
                     "refresh_token": refresh, "scope": scope }),
        )
    }

    fn mcp(&self, request: &Request, write: &mut TcpStream) -> bool {
        let given = request.header("authorization").and_then(|it| it.strip_prefix("Bearer "));
        let held = self.state().access.clone();
        let scope = held.as_ref().filter(|(token, _)| Some(token.as_str()) == given);
        let Some((_, scope)) = scope else {
            let place =
                format!("http://127.0.0.1:{}/.well-known/oauth-protected-resource/mcp", self.port);
            let place = if let Twist::Challenge(place) = self.twist { place } else { &place };
            let named = format!("www-authenticate: Bearer resource_metadata=\"{place}\"\r\n");
            let silent = self.twist == Twist::Plain;
            let challenge = if silent { "www-authenticate: Bearer\r\n" } else { &named };
            return respond(write, "401 Unauthorized", challenge, "");
        };
        if self.twist == Twist::WantsScope
            && request.body.contains("tools/call")
            && !scope.contains("tools:write")
        {
            let challenge =
                "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"tools:write\"\r\n";
            return respond(write, "403 Forbidden", challenge, "");
        }
        answer(&self.server, request, write)
    }
}

fn set(about: &mut Value, key: &str, value: Value) {
    if let Some(fields) = about.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

fn say(write: &mut TcpStream, value: &Value) -> bool {
    respond(write, "200 OK", "content-type: application/json\r\n", &value.to_string())
}

fn value(pairs: &[(String, String)], name: &str) -> String {
    let found = pairs.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), plain(value))).collect()
}

fn plain(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let two = [bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)];
            let two = std::str::from_utf8(&two).unwrap_or_default();
            out.push(u8::from_str_radix(two, 16).unwrap_or(b'?'));
        } else {
            out.push(byte);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The alphabet of addresses, without padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        let number = number << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            let letter = (number >> (18 - 6 * place)) & 63;
            let letter = usize::try_from(letter).ok().and_then(|at| LETTERS.get(at));
            out.push(char::from(*letter.unwrap_or(&b'?')));
        }
    }
    out
}
