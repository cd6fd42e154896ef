//! A misbehaving MCP server and the registry that must bear it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::names::ServerName;
use toolgate_mcp::client::{
    Answered, Bounds, CallFault, Found, HttpKind, Listed, Reach, Registry, RemoteCall, Respondent,
    ServerFault, ServerPlan,
};

/// The program.
pub(crate) const FAKE: &str = env!("CARGO_BIN_EXE_toolgate-fake-mcp");

/// Milliseconds of a call in these tests.
pub(crate) const CALL_MS: u64 = 1_500;

/// A server, and what it wrote down.
pub(crate) struct Stage {
    pub(crate) registry: Registry,
    pub(crate) dir: tempfile::TempDir,
    /// A server over HTTP is no child of the registry.
    server: Option<Running>,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn name() -> ServerName {
    ServerName::parse("fake").unwrap()
}

fn arguments(dir: &tempfile::TempDir, words: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    args.push("--ledger".to_owned());
    args.push(dir.path().join("ledger").display().to_string());
    args
}

fn plan(reach: Reach, bounds: Bounds, call_ms_max: u64) -> ServerPlan {
    ServerPlan { name: name(), reach, connect_ms_max: 8_000, call_ms_max, bounds }
}

pub(crate) fn registry(plans: Vec<ServerPlan>) -> Registry {
    Registry::new(plans, Arc::new(Transport::new(Roots::default())))
}

impl Stage {
    /// A program that is started with these words.
    pub(crate) fn piped(words: &[&str]) -> Self {
        Self::piped_with(words, Bounds { backoff_ms: 10, ..Bounds::default() })
    }

    pub(crate) fn piped_with(words: &[&str], bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let args = arguments(&dir, words);
        Self::program(dir, FAKE.into(), args, bounds)
    }

    /// A program whose answers are so large that making them takes a while.
    pub(crate) fn patient(words: &[&str], bounds: Bounds) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let args = arguments(&dir, words);
        Self::started(dir, FAKE.into(), args, bounds, 20_000)
    }

    pub(crate) fn program(
        dir: tempfile::TempDir,
        program: PathBuf,
        args: Vec<String>,
        bounds: Bounds,
    ) -> Self {
        Self::started(dir, program, args, bounds, CALL_MS)
    }

    fn started(
        dir: tempfile::TempDir,
        program: PathBuf,
        args: Vec<String>,
        bounds: Bounds,
        call_ms: u64,
    ) -> Self {
        let env = BTreeMap::from([
            ("API_KEY".to_owned(), Hidden::new("hunter2-very-secret")),
            ("CONFIGURED".to_owned(), Hidden::new("yes")),
        ]);
        let cwd = dir.path().to_owned();
        let reach = Reach::Stdio { program, args, env, cwd, sandbox: None };
        Self { registry: registry(vec![plan(reach, bounds, call_ms)]), dir, server: None }
    }

    /// A server over HTTP.
    pub(crate) fn web(words: &[&str], path: &str, kind: HttpKind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut args = arguments(&dir, words);
        args.extend(["--port".to_owned(), "0".to_owned()]);
        let mut child =
            Command::new(FAKE).args(args).stdout(Stdio::piped()).spawn().map(Running).unwrap();
        let mut address = String::new();
        let stdout = child.0.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut address).unwrap();
        let url = format!("{}{path}", address.trim());
        let reach = Reach::Http { url, headers: vec![], bearer: None, keeper: None, kind };
        let bounds = Bounds { backoff_ms: 10, ..Bounds::default() };
        // A server on a busy machine may take long to make a large answer.
        let large = words.contains(&"result-bomb");
        let call_ms = if large { 20_000 } else { CALL_MS };
        Self { registry: registry(vec![plan(reach, bounds, call_ms)]), dir, server: Some(child) }
    }

    /// The same, with somebody who answers the server's questions to a person.
    pub(crate) fn answered_by(self, respondent: &Arc<dyn Respondent>) -> Self {
        Self { registry: self.registry.answered_by(respondent), ..self }
    }

    pub(crate) async fn tools(&self) -> Result<Arc<Listed>, ServerFault> {
        self.registry.tools(&name()).await
    }

    pub(crate) async fn call(&self, tool: &str, text: &str) -> Result<Answered, CallFault> {
        self.call_as(tool, text, None).await
    }

    /// The same for a tool that was looked at before.
    pub(crate) async fn call_known(
        &self,
        known: &Found,
        text: &str,
    ) -> Result<Answered, CallFault> {
        self.call_as(&known.name, text, Some(known)).await
    }

    async fn call_as(
        &self,
        tool: &str,
        text: &str,
        known: Option<&Found>,
    ) -> Result<Answered, CallFault> {
        let args = serde_json::json!({ "text": text }).to_string();
        let asked = RemoteCall { tool, args: &args, known, key: Some("key-1") };
        self.registry.call(&name(), asked, after(60_000)).await
    }

    /// Waits until a server over HTTP that ends itself is gone: its socket outlives its last answer.
    pub(crate) async fn wait_for_the_end(&self) {
        let id = self.server.as_ref().unwrap().0.id().to_string();
        assert!(until(10_000, || !lives(&id)).await, "the server is still there");
        // That its connections are closed is heard by whoever waits a moment.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    /// What the server wrote down, by its first word.
    pub(crate) fn ledger(&self, first: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("ledger")).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(first)).map(str::to_owned).collect()
    }

    pub(crate) async fn counts(&self) -> [u64; 3] {
        self.registry.counts(&name()).await.unwrap()
    }
}

pub(crate) fn after(ms: u64) -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_millis(ms)
}

/// What an answer says.
pub(crate) fn said(answered: &Answered) -> String {
    let value: serde_json::Value = serde_json::from_str(&answered.text).unwrap();
    value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// Whether a process is there, and no zombie.
pub(crate) fn lives(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Waits until something holds.
pub(crate) async fn until(ms: u64, holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(ms) {
        if holds() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holds()
}
