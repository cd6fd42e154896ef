//! `toolgate mcp login` and `logout`: a person lets us use an MCP server. The address is printed and
//! nothing is started; the answer is waited for on this computer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolgate_http::Transport;
use toolgate_kernel::config::{AgentText, ServerText};
use toolgate_kernel::names::ServerName;
use toolgate_mcp::client::oauth::{Chance, Login, OauthFault, Permit, Request};
use toolgate_runtime::port::Clock;

use crate::console;
use crate::environment::{self, Flags};
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::permits::PermitFile;
use crate::project::{Place, block_on};
use crate::servers;
use crate::trust::{TrustedAccess, TrustedCrew};

/// Bytes of the head of a request that are read.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How long a browser may take to say what it wants.
const HEAD: Duration = Duration::from_secs(5);

/// Where the answer comes.
const PATH: &str = "/callback";

pub(super) fn login(place: &Place, name: &str, wait: u64) -> Result<Exit> {
    let TrustedCrew { text, access, .. } = block_on(place.trusted_crew(&Flags::default()))?;
    let (name, server) = named(&text, name)?;
    let url = server.url.as_deref().context("a program is not logged in to; use `env:`")?;
    if server.auth.is_some() {
        bail!("{name} has a token under `auth:`; take it out to log in");
    }
    let file = PermitFile::of(&place.folder, url)?;
    block_on(async {
        let permit = asked(&access, name, server, &file, wait).await?;
        file.keep(&permit)?;
        let until = match permit.over() {
            _ if permit.is_renewable() => ", and the token is renewed by itself".to_owned(),
            Some(over) => format!(" until {over}"),
            None => String::new(),
        };
        console::say(&format!("Logged in to {name}{until}."));
        Ok(Exit::Done)
    })
}

pub(super) fn logout(place: &Place, name: &str) -> Result<Exit> {
    let text = place.crew_with(&Flags::default())?.1;
    let (name, server) = named(&text, name)?;
    let url = server.url.as_deref().context("a program is not logged in to")?;
    let was = PermitFile::of(&place.folder, url)?.forget()?;
    console::say(&if was {
        format!(
            "The token of {name} is forgotten. The server may still honour it until it is over."
        )
    } else {
        format!("There is no token of {name}.")
    });
    Ok(Exit::Done)
}

fn named<'a>(text: &'a AgentText, name: &str) -> Result<(&'a ServerName, &'a ServerText)> {
    text.mcp_servers.get_key_value(name).with_context(|| {
        let known: Vec<&str> = text.mcp_servers.keys().map(|name| name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("there is no MCP server {name:?}; the configured ones are: {known}")
    })
}

/// Asks the person, and waits for the answer.
async fn asked(
    access: &TrustedAccess,
    name: &ServerName,
    server: &ServerText,
    file: &PermitFile,
    wait: u64,
) -> Result<Permit> {
    let http = Arc::new(Transport::new(environment::roots()?));
    let port = server.oauth.as_ref().and_then(|oauth| oauth.callback_port).unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.with_context(|| format!("port {port} cannot be listened on"))?;
    let redirect = format!("http://127.0.0.1:{}{PATH}", listener.local_addr()?.port());
    let before = file.kept().ok().flatten();
    let request = Request {
        server: &servers::plan(access, name, server, &http)?,
        plan: &servers::oauth(access, server)?,
        redirect: &redirect,
        before: before.as_ref(),
    };
    let chance = Chance { state: environment::random()?, verifier: environment::random()? };
    let login = Login::begin(&http, request, chance).await;
    let login = login.with_context(|| format!("MCP server {name}"))?;
    console::say("Open this address in a browser on this computer:");
    console::say(login.address());
    console::hint(&format!("Waiting {wait} s for the answer. Ctrl-C stops."));
    let heard = tokio::time::timeout(Duration::from_secs(wait), answer(&listener, &login, &http));
    let heard = heard.await.map_err(|_| NobodyAnswered(wait))?;
    heard.with_context(|| format!("MCP server {name}"))
}

/// A login that nobody answered in so many seconds.
#[derive(Debug)]
pub(crate) struct NobodyAnswered(u64);

impl std::error::Error for NobodyAnswered {}

impl std::fmt::Display for NobodyAnswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nobody answered in {} s; nothing was changed", self.0)
    }
}

/// Waits for the answer to our question. Whatever else comes is told so, and changes nothing.
async fn answer(
    listener: &TcpListener,
    login: &Login,
    http: &Transport,
) -> Result<Permit, OauthFault> {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(query) = asked_for(&mut stream).await else {
            page(&mut stream, "404 Not Found", "There is nothing here.").await;
            continue;
        };
        match login.finish(http, &query, SystemClock.now()).await {
            Err(OauthFault::NotOurs) => {
                page(&mut stream, "400 Bad Request", "This answer belongs to another login.").await;
            }
            Err(fault) => {
                let words = "The login failed. The terminal says why.";
                page(&mut stream, "400 Bad Request", words).await;
                return Err(fault);
            }
            Ok(permit) => {
                page(
                    &mut stream,
                    "200 OK",
                    "The login went through; the terminal says the rest. This page can be closed.",
                )
                .await;
                return Ok(permit);
            }
        }
    }
}

/// The query of a request to our address; nothing where it is anything else.
async fn asked_for(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let reading = async {
        let mut bytes = [0; 1_024];
        while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut bytes).await {
                Ok(count) if count > 0 => head.extend(bytes.iter().take(count)),
                Ok(_) | Err(_) => return,
            }
        }
    };
    tokio::time::timeout(HEAD, reading).await.ok()?;
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?')?;
    (method == "GET" && path == PATH).then(|| query.to_owned())
}

async fn page(stream: &mut TcpStream, status: &str, words: &str) {
    let body =
        format!("<!doctype html><meta charset=utf-8><title>toolgate</title><p>{words}</p>\n");
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         content-security-policy: default-src 'none'\r\nreferrer-policy: no-referrer\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let writing = async {
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    let _ = tokio::time::timeout(HEAD, writing).await;
}
