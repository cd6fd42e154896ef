//! Runs the program of a server: without a shell or our terminal, isolated, in a group of its own, with
//! the environment it is given, and gone with all that it started soon after its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::fault::{ServerFault, shown};
use super::plan::ProgramSandbox;
use super::strays::{self, MARK, Mark, Stray};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::redact::Redactor;
use toolgate_sandbox::{
    Denial, IsolationLevel, PreparedProgram, ProgramStart, SandboxError, SandboxPolicy, Starter,
    explain_denial,
};

/// How long a program may take to end by itself once its input is closed.
const LEAVE: Duration = Duration::from_millis(1_500);
/// How long it may take after it was told to end.
const TERM: Duration = Duration::from_secs(1);
/// How often what was left behind is looked for: it may start more while it is ended.
const SWEEPS_MAX: u32 = 8;
const SWEEP_STEP: Duration = Duration::from_millis(20);
/// How long is waited for the last words of a program that ended.
const SETTLE_STEP: Duration = Duration::from_millis(5);
const SETTLE_STEPS: u32 = 60;
/// Characters of its last words that a message quotes.
const WORDS_CHARS_MAX: usize = 300;

/// What a program wrote to its error output: the last bytes of it.
#[derive(Clone, Default)]
pub(super) struct Words {
    kept: Arc<Mutex<VecDeque<u8>>>,
    /// Whether nothing more will come.
    over: Arc<AtomicBool>,
    /// Removes what must not be quoted.
    redactor: Redactor,
}

/// A running program and everything it started. Dropping it ends all of it at once.
pub(super) struct Program {
    child: Child,
    group: Option<Pid>,
    mark: Mark,
    pub(super) words: Words,
    /// How isolated it is.
    pub(super) isolation: IsolationLevel,
    /// What its starter enforced.
    pub(super) policy: SandboxPolicy,
}

/// What is started, and how.
pub(super) struct Launch<'a> {
    pub(super) program: &'a Path,
    pub(super) args: &'a [String],
    pub(super) env: &'a BTreeMap<String, Hidden>,
    pub(super) cwd: &'a Path,
    pub(super) sandbox: Option<&'a ProgramSandbox>,
}

/// A command without its environment, and how isolated its program will be.
struct IsolatedCommand {
    command: Command,
    isolation: IsolationLevel,
    policy: SandboxPolicy,
}

impl Launch<'_> {
    /// The command, without its environment.
    fn command(&self) -> Result<IsolatedCommand, ServerFault> {
        let Some(sandbox) = self.sandbox else {
            let mut command = Command::new(self.program);
            // A group of its own: a signal reaches its children, and Ctrl-C here does not reach it.
            command.process_group(0).args(self.args).current_dir(self.cwd);
            let isolation = IsolationLevel::None("it was started without a sandbox".to_owned());
            return Ok(IsolatedCommand { command, isolation, policy: SandboxPolicy::default() });
        };
        let start = ProgramStart {
            program: self.program,
            args: self.args,
            cwd: self.cwd,
            path: self.env.get("PATH").map(Hidden::reveal),
        };
        let refused = |error: SandboxError| ServerFault::NotStarted(error.to_string());
        let prepared = sandbox.prepare(&start).map_err(refused)?;
        // The starter could not say in our words that there is no such program.
        let prepared = prepared.ok_or_else(|| self.not_started(ErrorKind::NotFound))?;
        let PreparedProgram { program, policy, level } = prepared;
        let mut command = Command::new(sandbox.starter.path());
        // The starter makes the group together with the session.
        command.args(Starter::arguments(&policy, &program).map_err(refused)?);
        command.args(self.args).current_dir(self.cwd);
        Ok(IsolatedCommand { command, isolation: level, policy })
    }

    fn not_started(&self, why: ErrorKind) -> ServerFault {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let why = if why != ErrorKind::NotFound {
            why.to_string()
        } else if self.cwd.is_dir() {
            "it was not found; look at `command` and at PATH".to_owned()
        } else {
            "the folder of `cwd` is not there".to_owned()
        };
        ServerFault::NotStarted(format!("{}: {why}", shown(&name, 100)))
    }
}

impl Program {
    /// Starts a program; it is spoken to over the two ends.
    pub(super) fn start(
        launch: &Launch<'_>,
        stderr_bytes_max: usize,
        redactor: &Redactor,
    ) -> Result<(Self, ChildStdin, ChildStdout), ServerFault> {
        let IsolatedCommand { mut command, isolation, policy } = launch.command()?;
        command.env_clear();
        let (mark, mut outer) = (Mark::new(), None);
        for (name, value) in launch.env {
            if name == MARK {
                outer = Some(value);
            } else {
                command.env(name, value.reveal());
            }
        }
        command.env(MARK, mark.beside(outer.map(Hidden::reveal)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        let failed = |error: std::io::Error| launch.not_started(error.kind());
        let mut child = command.spawn().map_err(failed)?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let words = Words { redactor: redactor.clone(), ..Words::default() };
        if let Some(stderr) = child.stderr.take() {
            // It ends with the pipe, which every process of the group has; they are all ended.
            tokio::spawn(words.clone().keep(stderr, stderr_bytes_max));
        }
        let program = Self { child, group, mark, words, isolation, policy };
        match (stdin, stdout) {
            (Some(stdin), Some(stdout)) => Ok((program, stdin, stdout)),
            _ => Err(ServerFault::NotStarted("it has no input or output".to_owned())),
        }
    }

    /// Says what its sandbox probably refused, where it failed before its first message.
    pub(super) fn explain(&self, fault: ServerFault) -> ServerFault {
        let (ServerFault::Ended(words) | ServerFault::TimedOut { words, .. }) = &fault else {
            return fault;
        };
        match explain_denial(&self.words.all(), &self.policy) {
            Some(Denial { what, advice }) => {
                let what = shown(&what, WORDS_CHARS_MAX);
                let advice = shown(&advice, WORDS_CHARS_MAX);
                ServerFault::Denied { what, advice, words: words.clone() }
            }
            None => fault,
        }
    }

    /// Ends the program, whose input is closed already, and everything it started: it may leave by
    /// itself, then it is told, then it is made to.
    pub(super) async fn stop(mut self) {
        // While it is there its descendants can be told, also those that hide their mark.
        let mut strays = self.descendants();
        let left = tokio::time::timeout(LEAVE, self.child.wait()).await.is_ok();
        strays.extend(self.descendants());
        strays.extend(self.mark.carriers());
        // Those it left behind are in its group still, or carry its mark.
        self.signal(Signal::TERM);
        strays.iter().for_each(|stray| stray.signal(Signal::TERM));
        if !left {
            let _ = tokio::time::timeout(TERM, self.child.wait()).await;
        } else if self.has_survivors() || strays.iter().any(|stray| stray.lives()) {
            tokio::time::sleep(TERM).await;
        }
        self.signal(Signal::KILL);
        for _ in 0..SWEEPS_MAX {
            strays.extend(self.mark.carriers());
            strays.retain(|stray| stray.lives());
            if strays.is_empty() {
                break;
            }
            strays.iter().for_each(|stray| stray.signal(Signal::KILL));
            tokio::time::sleep(SWEEP_STEP).await;
        }
        let _ = tokio::time::timeout(TERM, self.child.wait()).await;
        self.group = None;
    }

    /// What it started, as long as its number is its own.
    fn descendants(&self) -> BTreeSet<Stray> {
        let ours = self.child.id().and(self.group);
        ours.map(strays::descendants).unwrap_or_default()
    }

    fn has_survivors(&self) -> bool {
        self.group.is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // Nobody left to hear it is as good.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing is left of one that was stopped.
        if self.group.is_none() {
            return;
        }
        let strays = self.descendants();
        self.signal(Signal::KILL);
        let strays = strays.into_iter().chain(self.mark.carriers());
        strays.for_each(|stray| stray.signal(Signal::KILL));
    }
}

impl Words {
    /// Reads without end, so that the program never waits for a reader, and keeps the last bytes.
    async fn keep(self, mut stderr: ChildStderr, bytes_max: usize) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(buffer.iter().take(count));
            let surplus = kept.len().saturating_sub(bytes_max);
            kept.drain(..surplus);
        }
        self.over.store(true, Ordering::Release);
    }

    /// Waits a moment for the last words of a program that ended.
    pub(super) async fn settle(&self) {
        for _ in 0..SETTLE_STEPS {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            tokio::time::sleep(SETTLE_STEP).await;
        }
    }

    /// All that is kept.
    pub(super) fn all(&self) -> String {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        // The first of these bytes may be within a secret.
        self.redactor.redact_error(&String::from_utf8_lossy(&bytes))
    }

    /// The end of it, for a message.
    pub(super) fn last(&self) -> String {
        let all = self.all();
        let skipped = all.chars().count().saturating_sub(WORDS_CHARS_MAX);
        let last: String = all.chars().skip(skipped).collect();
        shown(&last, WORDS_CHARS_MAX)
    }
}
