//! What is refused and what works inside, as tables.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::process::Command;

use toolgate_sandbox::{HomeAccess, NetworkAccess, PathAccess, PathGrant, SandboxPolicy};

use crate::attempts::DETACHED;
use crate::stage::{Stage, is_supported, on};

/// Everything a program must not reach when nothing is configured.
fn hostile_attempts(stage: &Stage) -> Vec<String> {
    let mut attempts = Vec::new();
    for file in [
        "me/.config/toolgate/host.key",
        "me/.local/state/toolgate/heads/log",
        "me/.local/state/toolgate/homes/other/file",
        "me/.ssh/id",
        "me/work/.toolgate/log.db",
        "me/work/toolgate.yaml",
        "me/work/secrets/token",
        "elsewhere/file",
    ] {
        let verbs = ["read", "write", "empty", "remove", "rename", "link", "follow"];
        attempts.extend(verbs.map(|verb| on(verb, &stage.at(file))));
    }
    for file in ["me/work/readme", "me/work/src/main"] {
        let verbs = ["write", "empty", "remove", "rename"];
        attempts.extend(verbs.map(|verb| on(verb, &stage.at(file))));
    }
    for file in ["me/new", "me/work/new", "me/work/.toolgate/new", "me/.config/toolgate/new"] {
        attempts.push(on("create", &stage.at(file)));
    }
    attempts.push("create /tmp/toolgate-sandbox-test".to_owned());
    attempts
        .extend(["list /tmp", "list /dev/pts", "read /dev/tty", "write /dev/tty"].map(Into::into));
    attempts.extend(["read /etc/shadow", "write /etc/hosts", "create /usr/new"].map(Into::into));
    let parent = std::process::id();
    for place in ["fd", "root", "cwd", "task"] {
        attempts.push(format!("list /proc/{parent}/{place}"));
    }
    for place in ["mem", "environ", "maps", "cmdline", "status"] {
        attempts.push(format!("read /proc/{parent}/{place}"));
    }
    attempts.push(format!("signal {parent}"));
    attempts.push(format!("trace {parent}"));
    attempts.push(format!("limit {parent}"));
    attempts.push(on("unix", &stage.at("me/work/src/service.sock")));
    attempts.push(format!("abstract {}", stage.abstract_name));
    attempts.extend(["pair datagram", "mount", "namespace", "terminal"].map(Into::into));
    // Packets, the host of a virtual machine, and the cryptography of the kernel.
    attempts.extend(["family 17", "family 40", "family 38"].map(Into::into));
    let capabilities = ["sys_ptrace", "sys_admin", "perfmon"];
    attempts.extend(capabilities.map(|name| format!("capability {name}")));
    attempts
}

fn expect(outcomes: &BTreeMap<String, String>, attempts: &[String], outcome: &str) {
    for attempt in attempts {
        let found = outcomes.get(attempt).map_or("nothing", String::as_str);
        assert!(found.starts_with(outcome), "{attempt}: {found}; expected: {outcome}");
    }
}

pub(crate) fn hostile() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let attempts = hostile_attempts(&stage);
    expect(&stage.attempt(&stage.request(), &attempts), &attempts, "refused");
    // The home of the user, and everything around what is protected, open no way to it either.
    let mut request = stage.request();
    (request.home, request.read) = (HomeAccess::Shared, vec![stage.at("me"), stage.at("")]);
    request.write = vec![stage.at("me/work")];
    let own = |attempt: &&String| {
        ["toolgate", "token", "/proc/", "signal", "unix", "capability"]
            .iter()
            .any(|word| attempt.contains(word))
    };
    let attempts: Vec<String> = attempts.iter().filter(own).cloned().collect();
    expect(&stage.attempt(&request, &attempts), &attempts, "refused");
    for file in
        ["me/work/.toolgate/log.db", "me/.config/toolgate/host.key", "me/work/toolgate.yaml"]
    {
        assert!(std::fs::read(stage.at(file)).is_ok_and(|bytes| !bytes.is_empty()), "{file}");
    }
}

pub(crate) fn detached() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let attempts = hostile_attempts(&stage);
    let all: Vec<String> = [DETACHED.to_owned()].into_iter().chain(attempts.clone()).collect();
    expect(&stage.attempt(&stage.request(), &all), &attempts, "refused");
}

/// What gets through when one layer is missing, so that a refusal above says something of it.
pub(crate) fn layers() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let request = stage.request();
    let whole = stage.prepared(&request).policy;
    let root = rustix::process::getuid().is_root();
    let environ = [format!("read /proc/{}/environ", std::process::id())];
    let files = [
        on("read", &stage.at("me/.config/toolgate/host.key")),
        on("follow", &stage.at("me/.ssh/id")),
        on("link", &stage.at("me/work/.toolgate/log.db")),
        on("write", &stage.at("me/work/toolgate.yaml")),
        "list /tmp".to_owned(),
        format!("list /proc/{}/fd", std::process::id()),
        format!("signal {}", std::process::id()),
    ];
    let calls = [on("unix", &stage.at("me/work/src/service.sock")), "pair datagram".to_owned()];
    // Landlock alone does not keep root from the environment of other processes.
    let without_drop = SandboxPolicy {
        drop_privileges: false,
        paths: [&whole.paths[..], &[readable("/proc")]].concat(),
        ..whole.clone()
    };
    let without_files = SandboxPolicy { landlock_abi: 0, ..whole.clone() };
    let without_filter = SandboxPolicy { filter_calls: false, ..whole };
    let with_drop = SandboxPolicy { drop_privileges: true, ..without_drop.clone() };
    let mut table = vec![(without_files, &files[..], "done"), (without_filter, &calls[..], "done")];
    table.push((with_drop, &environ[..], "refused"));
    table.extend(root.then_some((without_drop, &environ[..], "done")));
    for (policy, attempts, outcome) in table {
        expect(&stage.attempt_under(&policy, &request, attempts), attempts, outcome);
    }
}

fn readable(path: &str) -> PathGrant {
    PathGrant { path: path.into(), access: PathAccess::Read }
}

/// The same tests by a user who has no privileges to begin with.
pub(crate) fn as_another_user() {
    const NOBODY: u32 = 65_534;
    if !rustix::process::getuid().is_root() || !is_supported() {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "a_hostile_program",
        "a_detached_child",
        "what_is_granted",
        "network_is",
        "a_hidden",
    ]);
    command.uid(NOBODY).gid(NOBODY).current_dir("/").env("TMPDIR", "/tmp");
    match command.output() {
        Ok(ran) => {
            let (out, err) =
                (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            assert!(ran.status.success() && out.matches("... ok").count() == 5, "{out}{err}");
        }
        Err(error) => println!("skipped: another user cannot execute this binary ({error})"),
    }
}

pub(crate) fn granted() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let mut request = stage.request();
    request.write = vec!["out".into()];
    let own = request.private_folder.clone();
    let attempts = [
        on("read", &stage.at("me/work/readme")),
        on("read", &stage.at("me/work/src/main")),
        on("list", &stage.at("me/work")),
        on("write", &stage.at("me/work/out/old")),
        on("create", &stage.at("me/work/out/new")),
        on("rename", &stage.at("me/work/out/new")),
        on("remove", &stage.at("me/work/out/old")),
        on("create", &own.join("file")),
        on("create", &own.join("tmp/file")),
        "read /etc/passwd".to_owned(),
        "read /proc/self/status".to_owned(),
        "read /proc/meminfo".to_owned(),
        "write /dev/null".to_owned(),
        "read /dev/urandom".to_owned(),
        "execute /bin/true".to_owned(),
        "pair stream".to_owned(),
        "family 2".to_owned(),
        "family 10".to_owned(),
        "family 16".to_owned(),
        format!("tcp {}", stage.tcp.local_addr().unwrap().port()),
        format!("udp {}", stage.udp.local_addr().unwrap().port()),
    ];
    expect(&stage.attempt(&request, &attempts), &attempts, "done");
    request.home = HomeAccess::Shared;
    let shared = [on("read", &stage.at("me/.ssh/id"))];
    expect(&stage.attempt(&request, &shared), &shared, "done");
}

pub(crate) fn network() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |listener: &std::net::TcpListener| listener.local_addr().unwrap().port();
    let (open, closed) = (format!("tcp {}", port(&stage.tcp)), format!("tcp {}", port(&other)));
    let udp = format!("udp {}", stage.udp.local_addr().unwrap().port());
    let netlink = "family 16".to_owned();
    let attempts = [open, closed, udp, netlink];
    for (access, outcomes) in [
        (NetworkAccess::All, ["done"; 4]),
        (NetworkAccess::None, ["refused"; 4]),
        (NetworkAccess::Ports(vec![port(&stage.tcp)]), ["done", "refused", "done", "done"]),
        (NetworkAccess::Ports(Vec::new()), ["refused", "refused", "done", "done"]),
    ] {
        let mut request = stage.request();
        request.network = access.clone();
        let found = stage.attempt(&request, &attempts);
        for (attempt, outcome) in attempts.iter().zip(outcomes) {
            let told = &found[attempt];
            assert!(told.starts_with(outcome), "{access:?} {attempt}: {told}");
        }
    }
}

pub(crate) fn unix_sockets() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let mut request = stage.request();
    (request.unix_sockets, request.write) = (true, vec!["src".into()]);
    let attempts = [
        on("unix", &stage.at("me/work/src/service.sock")),
        "pair datagram".to_owned(),
        format!("abstract {}", stage.abstract_name),
    ];
    let found = stage.attempt(&request, &attempts);
    expect(&found, &attempts[..2], "done");
    expect(&found, &attempts[2..], "refused");
}
