//! Decides what must be known of a server before it is reached: where it is, and how much of it is
//! borne.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::ServerName;
use toolgate_kernel::seeded::{Bug, seeded};

use super::fault::ServerFault;
use super::oauth::{self, Keeper};
use super::strays::MARK;
use toolgate_sandbox::{
    KernelSupport, PreparedProgram, ProgramStart, SandboxError, SandboxRequest, Starter,
};

/// A server as it is configured. Secrets are looked up already.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub reach: Reach,
    /// Milliseconds until it is connected and has told what it can.
    pub connect_ms_max: u64,
    /// Milliseconds of one call; nothing the server says makes it longer.
    pub call_ms_max: u64,
    /// How much of it is borne.
    pub bounds: Bounds,
}

impl ServerPlan {
    /// Why there is no connection when its time is over.
    pub(super) fn late(&self) -> ServerFault {
        let ms = self.connect_ms_max;
        match &self.reach {
            Reach::Http { keeper: Some(keeper), .. } if keeper.is_renewing() => {
                oauth::late(ms).into()
            }
            Reach::Http { .. } | Reach::Stdio { .. } | Reach::Nowhere { .. } => {
                ServerFault::TimedOut { what: "connecting", ms, words: String::new() }
            }
        }
    }
}

/// How the program of a server is isolated.
#[derive(Debug, Clone)]
pub struct ProgramSandbox {
    /// What enforces it and becomes the program.
    pub starter: Starter,
    /// What the program is granted.
    pub request: SandboxRequest,
    /// What the kernel can enforce.
    pub support: KernelSupport,
}

impl ProgramSandbox {
    /// Makes a policy for a start. `None` where there is no such program.
    pub fn prepare(
        &self,
        start: &ProgramStart<'_>,
    ) -> Result<Option<PreparedProgram>, SandboxError> {
        if seeded(Bug::KeyFolderGranted) {
            let request = SandboxRequest { protected: Vec::new(), ..self.request.clone() };
            return request.prepare(start, self.support);
        }
        self.request.prepare(start, self.support)
    }
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Reach {
    /// A program of ours, spoken to over its input and output.
    Stdio {
        /// The program; no shell reads it.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment: [`inherited`] and what is configured.
        env: BTreeMap<String, Hidden>,
        /// Where it runs.
        cwd: PathBuf,
        /// How it is isolated. Without it the program can do what its user can, and type into our
        /// terminal; only tests start one so.
        sandbox: Option<Box<ProgramSandbox>>,
    },
    /// A server somewhere else.
    Http {
        /// Its address.
        url: String,
        /// Headers that every request has.
        headers: Vec<(String, Hidden)>,
        /// The token that every request has.
        bearer: Option<Hidden>,
        /// Where the token of a login is, for a server without one of its own.
        keeper: Option<Arc<Keeper>>,
        /// Which of the two transports it speaks.
        kind: HttpKind,
    },
    /// Something is missing here without which it is not reached, such as a secret.
    Nowhere {
        /// What, in words for people.
        why: String,
    },
}

/// Which transport a server speaks over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpKind {
    /// The newer one, and the older where the server does not know it.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with server-sent events, as of 2024-11-05.
    Sse,
}

/// How much of a server is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Lines that are no message, before the server counts as broken.
    pub noise_max: u64,
    /// Bytes of its error output that are kept: the last ones.
    pub stderr_bytes_max: usize,
    /// Tools that it may have.
    pub tools_max: usize,
    /// Pages its list may have.
    pub pages_max: usize,
    /// Milliseconds between two readings of its list.
    pub refresh_ms_min: u64,
    /// Failures in a row, after which it is left alone.
    pub failures_max: u32,
    /// Milliseconds for which it is left alone then; one more failure, and it is so again.
    pub left_ms: u64,
    /// Milliseconds before it is tried again after the first failure; each further failure doubles it.
    pub backoff_ms: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self::of(&Limits::default())
    }
}

impl Bounds {
    /// The bounds that a configuration sets.
    pub fn of(limits: &Limits) -> Self {
        let count = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            message_bytes_max: count(limits.mcp_message_bytes_max),
            stderr_bytes_max: count(limits.mcp_stderr_bytes_max),
            tools_max: count(limits.mcp_tools_max),
            pages_max: count(limits.mcp_pages_max),
            failures_max: u32::try_from(limits.mcp_failures_max).unwrap_or(u32::MAX),
            left_ms: limits.mcp_rest_ms_max,
            noise_max: 100,
            refresh_ms_min: 5_000,
            backoff_ms: 500,
        }
    }
}

/// What of our own environment a program may know: where programs and files are, and how people
/// here write. Keys and tokens are not among it; a server that needs one is given it by its
/// configuration.
pub fn inherited<'a>(
    ours: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, Hidden> {
    const NAMES: &[&str] = &["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "LOGNAME", "TZ"];
    // Where we are the program of another toolgate, what we start is its too.
    let allowed = |name: &str| NAMES.contains(&name) || name == MARK || name.starts_with("LC_");
    let named = ours.into_iter().filter(|(name, _)| allowed(name));
    named.map(|(name, value)| (name.to_owned(), Hidden::open(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_inherits_what_is_on_the_list_and_nothing_else() {
        let ours = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("OPENAI_API_KEY", "canary"),
            ("LD_PRELOAD", "x.so"),
            ("SHELL", "/bin/sh"),
            ("path", "no"),
        ];
        let names: Vec<String> = inherited(ours).into_keys().collect();
        assert_eq!(names, ["LC_ALL", "PATH"]);
    }

    #[test]
    fn bounds_are_those_of_the_configuration() {
        let limits = Limits { mcp_message_bytes_max: 7, mcp_failures_max: 2, ..Limits::default() };
        let bounds = Bounds::of(&limits);
        assert_eq!((bounds.message_bytes_max, bounds.failures_max), (7, 2));
        assert_eq!(
            Bounds { message_bytes_max: 4 << 20, failures_max: 5, ..bounds },
            Bounds::default()
        );
    }
}
