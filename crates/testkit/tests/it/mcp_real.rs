//! Servers that nobody here wrote. They are installed outside: `TOOLGATE_REAL_MCP` names a folder
//! with `node_modules` and a Python environment `v`; without it these tests say that they skip.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolgate_kernel::names::ServerName;
use toolgate_kernel::pin::Definition;
use toolgate_mcp::client::{
    Bounds, HttpKind, Listed, Reach, Registry, RemoteCall, ServerPlan, inherited,
};
use toolgate_mcp::scan::{Scanned, scan};

use crate::mcp_stage::{after, registry, said};

/// The folder with the servers, or a word that the test is skipped.
fn folder(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("TOOLGATE_REAL_MCP").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED {test}: TOOLGATE_REAL_MCP names no folder with real servers");
    }
    folder
}

fn name() -> ServerName {
    ServerName::parse("real").unwrap()
}

fn registry_of(reach: Reach) -> Registry {
    let bounds = Bounds::default();
    let plan =
        ServerPlan { name: name(), reach, connect_ms_max: 60_000, call_ms_max: 30_000, bounds };
    registry(vec![plan])
}

fn program(folder: &Path, program: PathBuf, args: &[&str]) -> Registry {
    let ours: Vec<(String, String)> = std::env::vars().collect();
    let env: BTreeMap<_, _> =
        inherited(ours.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    registry_of(Reach::Stdio { program, args, env, cwd: folder.to_owned(), sandbox: None })
}

fn node(folder: &Path, package: &str, args: &[&str]) -> Registry {
    let script = script(folder, package);
    let all = [&[script.as_str()], args].concat();
    program(folder, "node".into(), &all)
}

fn script(folder: &Path, package: &str) -> String {
    let path = format!("node_modules/@modelcontextprotocol/{package}/dist/index.js");
    folder.join(path).display().to_string()
}

async fn listed(registry: &Registry) -> Arc<Listed> {
    let listed = registry.tools(&name()).await.unwrap();
    for tool in &listed.tools {
        let definition = Definition {
            title: tool.title.clone(),
            about: tool.about.clone().unwrap_or_default(),
            input: tool.input.clone(),
            output: tool.output.clone(),
            annotations: tool.annotations.clone(),
        };
        let scanned = scan(&tool.name, &definition, &Default::default());
        eprintln!("{} {}: {scanned:?}", listed.version, tool.name);
        assert!(!matches!(scanned, Scanned::Excluded(_)), "{}: {scanned:?}", tool.name);
    }
    listed
}

async fn call(registry: &Registry, tool: &str, args: Value) -> String {
    let args = args.to_string();
    let asked = RemoteCall { tool, args: &args, known: None, key: None };
    let answered = registry.call(&name(), asked, after(30_000)).await;
    let answered = answered.unwrap_or_else(|fault| panic!("{tool}: {fault}"));
    assert_eq!(answered.is_error, Some(false), "{tool}: {}", answered.text);
    said(&answered)
}

#[tokio::test]
async fn everything_is_reached_over_pipes() {
    let Some(folder) = folder("everything_is_reached_over_pipes") else { return };
    let registry = node(&folder, "server-everything", &["stdio"]);
    assert!(listed(&registry).await.tools.iter().any(|tool| tool.name == "echo"));
    assert_eq!(call(&registry, "echo", json!({"message": "hi"})).await, "Echo: hi");
    registry.close().await;
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn everything_is_reached_over_http_and_the_older_events() {
    let test = "everything_is_reached_over_http_and_the_older_events";
    let Some(folder) = folder(test) else { return };
    for (spoken, path, port, kind) in [
        ("streamableHttp", "/mcp", 39_101, HttpKind::Auto),
        ("sse", "/sse", 39_102, HttpKind::Auto),
        ("sse", "/sse", 39_103, HttpKind::Sse),
    ] {
        let mut command = Command::new("node");
        command.arg(script(&folder, "server-everything")).arg(spoken);
        command.env("PORT", port.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Running(command.spawn().unwrap());
        tokio::time::sleep(Duration::from_secs(4)).await;
        let url = format!("http://127.0.0.1:{port}{path}");
        let registry =
            registry_of(Reach::Http { url, headers: vec![], bearer: None, keeper: None, kind });
        assert!(listed(&registry).await.tools.len() > 3, "{spoken}");
        assert_eq!(call(&registry, "echo", json!({"message": "hi"})).await, "Echo: hi", "{spoken}");
        registry.close().await;
    }
}

#[tokio::test]
async fn files_and_memory_are_reached() {
    let Some(folder) = folder("files_and_memory_are_reached") else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "words").unwrap();
    let root = dir.path().display().to_string();
    let registry = node(&folder, "server-filesystem", &[&root]);
    listed(&registry).await;
    let path = dir.path().join("a.txt").display().to_string();
    assert_eq!(call(&registry, "read_text_file", json!({"path": path})).await, "words");
    registry.close().await;
    let registry = node(&folder, "server-memory", &[]);
    listed(&registry).await;
    assert!(call(&registry, "read_graph", json!({})).await.contains("entities"));
    registry.close().await;
}

#[tokio::test]
async fn servers_in_python_are_reached() {
    let Some(folder) = folder("servers_in_python_are_reached") else { return };
    let python = folder.join("v/bin/python");
    let registry = program(&folder, python.clone(), &["-m", "mcp_server_time"]);
    listed(&registry).await;
    let told = call(&registry, "get_current_time", json!({"timezone": "UTC"})).await;
    assert!(told.contains("UTC"), "{told}");
    registry.close().await;
    for module in ["mcp_server_fetch", "mcp_server_git"] {
        let registry = program(&folder, python.clone(), &["-m", module]);
        assert!(!listed(&registry).await.tools.is_empty(), "{module}");
        registry.close().await;
    }
}
