//! Parses `sandbox:` of an MCP server: what its program may open and connect to (ADR 0030).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::loader::is_loader_variable;

/// What the program of a server may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// What happens where the system cannot isolate the program.
    pub mode: SandboxModeConfig,
    /// What it may read, beside the system and its own installation: paths in the project, absolute
    /// paths, or paths that begin with `~/`.
    pub read: Vec<String>,
    /// What it may change, beside its own home.
    pub write: Vec<String>,
    /// What it may connect to: `all`, `none`, or a list of TCP ports.
    pub network: NetworkConfig,
    /// Which home it sees.
    pub home: HomeConfig,
    /// Whether it may use Unix sockets, such as that of Docker.
    pub unix_sockets: bool,
    /// Variables of your environment that it is given beside the usual ones.
    pub pass_env: Vec<String>,
}

/// What happens where the system cannot isolate a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxModeConfig {
    /// It is isolated as far as possible, and you are told.
    #[default]
    Auto,
    /// It is not started.
    Enforce,
    /// It is never isolated.
    Off,
}

/// What a program may connect to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NetworkConfig {
    /// Everything or nothing.
    Word(NetworkWord),
    /// These TCP ports. UDP is not limited.
    Ports(Vec<u16>),
}

/// Everything or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkWord {
    /// Everything.
    All,
    /// Nothing.
    None,
}

/// Which home a program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HomeConfig {
    /// A folder of its own, which it may change.
    #[default]
    Private,
    /// Yours, to read, without toolgate's own folders.
    Shared,
}

/// Authorities and proxies, without which nothing is downloaded in many networks.
const PASSED_BY_DEFAULT: &[&str] = &[
    "ALL_PROXY",
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Entries of a list at most.
const ENTRIES_MAX: usize = 64;

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            mode: SandboxModeConfig::Auto,
            read: vec![".".to_owned()],
            write: Vec::new(),
            network: NetworkConfig::Word(NetworkWord::All),
            home: HomeConfig::Private,
            unix_sockets: false,
            pass_env: PASSED_BY_DEFAULT.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// The key it concerns, what is wrong, what to write.
type Problem = (&'static str, &'static str, &'static str);

impl SandboxConfig {
    /// What is wrong with it, by key.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        for (key, paths) in [("sandbox/read", &self.read), ("sandbox/write", &self.write)] {
            if !paths.iter().all(|path| is_path(path)) {
                let help =
                    "write `docs`, `/srv/data` or `~/data`: no other user's home, no variables";
                found.push((key, "a path is one line, and `~` stands alone or before `/`", help));
            }
            if paths.len() > ENTRIES_MAX {
                found.push((key, "there are more than 64 paths", "name the folders around them"));
            }
        }
        if let NetworkConfig::Ports(ports) = &self.network {
            if ports.contains(&0) {
                let help = "write ports such as [443], or `none`";
                found.push(("sandbox/network", "0 is no port", help));
            }
            if ports.is_empty() {
                let help = "write `network: none`";
                found.push(("sandbox/network", "a list of ports names at least one", help));
            }
            if ports.len() > ENTRIES_MAX {
                found.push(("sandbox/network", "there are more than 64 ports", "write `all`"));
            }
        }
        let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        if !self.pass_env.iter().all(is_name) {
            let help = "write names alone: [HTTPS_PROXY]; values belong under `env:`";
            found.push(("sandbox/pass_env", "a variable has a name without `=`", help));
        }
        if self.pass_env.len() > ENTRIES_MAX {
            found.push(("sandbox/pass_env", "there are more than 64 names", "name fewer"));
        }
        found
    }

    /// The variables of `pass_env` that make a program load other code.
    pub(super) fn loader_variables(&self) -> impl Iterator<Item = &str> {
        self.pass_env.iter().map(String::as_str).filter(|name| is_loader_variable(name))
    }

    /// The entries of `write` that mean the project as a whole, which holds toolgate's own files.
    pub(super) fn writes_project(&self) -> impl Iterator<Item = &str> {
        let parts = |path: &str| path.split('/').filter(|part| !part.is_empty()).all(|p| p == ".");
        let is_top = move |path: &&str| !path.starts_with('/') && parts(path);
        self.write.iter().map(String::as_str).filter(is_top)
    }
}

fn is_path(path: &str) -> bool {
    let tilde = !path.starts_with('~') || path == "~" || path.starts_with("~/");
    !path.is_empty() && !path.contains(['\0', '\n']) && tilde
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_cannot_mean_is_refused() {
        for (text, key) in [
            (r#"{}"#, None),
            (r#"{"read":["docs","/srv","~/x","~"],"write":[],"network":[443]}"#, None),
            (r#"{"network":"none","home":"shared","mode":"off"}"#, None),
            (r#"{"read":[""]}"#, Some("sandbox/read")),
            (r#"{"write":["~other/x"]}"#, Some("sandbox/write")),
            (r#"{"network":[0]}"#, Some("sandbox/network")),
            (r#"{"network":[]}"#, Some("sandbox/network")),
            (r#"{"pass_env":["A=b"]}"#, Some("sandbox/pass_env")),
        ] {
            let config: SandboxConfig = serde_json::from_str(text).unwrap();
            let found: Vec<_> = config.problems().into_iter().map(|(key, ..)| key).collect();
            assert_eq!(found.first().copied(), key, "{text}");
        }
        for text in [r#"{"network":"some"}"#, r#"{"network":[70000]}"#, r#"{"mode":"maybe"}"#] {
            assert!(serde_json::from_str::<SandboxConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let config: SandboxConfig = serde_json::from_str("{}").unwrap();
        assert_eq!(config, SandboxConfig::default());
        assert_eq!((config.read, config.write), (vec![".".to_owned()], Vec::new()));
        assert!(config.pass_env.contains(&"SSL_CERT_FILE".to_owned()));
    }
}
