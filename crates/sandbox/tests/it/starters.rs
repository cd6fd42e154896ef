//! What the starter and the parent refuse, and what a start costs.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use toolgate_sandbox::{
    IsolationLevel, KernelSupport, ProgramStart, SandboxMode, SandboxPolicy, SandboxRequest,
    Starter,
};

use crate::stage::{Stage, is_supported, on};

/// Starts a shell behind arguments of the starter; its exit code and what was said.
fn started(policy: &str) -> (i32, String) {
    let mut command = Command::new(Starter::find().unwrap().path());
    let good = Starter::arguments(&SandboxPolicy::default(), "/bin/true".as_ref()).unwrap();
    command.arg(&good[0]).arg(policy).arg("/bin/true");
    let ran = command.output().unwrap();
    (ran.status.code().unwrap_or(-1), String::from_utf8_lossy(&ran.stderr).into_owned())
}

pub(crate) fn broken() {
    let good = Starter::arguments(&SandboxPolicy::default(), "/bin/true".as_ref()).unwrap();
    let good = good[1].to_str().unwrap();
    assert_eq!(started(good), (0, String::new()));
    let newest = good.replace("\"landlock_abi\":0", "\"landlock_abi\":10");
    for policy in ["", "{}", "off", &good[1..], &newest] {
        let (code, err) = started(policy);
        assert_eq!(code, 126, "{policy}: {err}");
        assert!(err.starts_with("error: the program is not started: "), "{policy}: {err}");
    }
    // Nothing is executed either when the program or the policy is missing.
    for missing in [1, 2] {
        let ran = Command::new(Starter::find().unwrap().path())
            .args(["__start-program", good].iter().take(missing))
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(126));
    }
}

pub(crate) fn inherited() {
    let stage = Stage::new();
    let key = std::fs::File::open(stage.at("me/.config/toolgate/host.key")).unwrap();
    // A copy that is not closed when a program is executed.
    let copy = rustix::io::fcntl_dupfd_cloexec(&key, 100).unwrap();
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
    let attempts = ["descriptors".to_owned()];
    let mut request = stage.request();
    request.mode = SandboxMode::Auto;
    let told = stage.attempt(&request, &attempts);
    assert!(told["descriptors"].starts_with("refused"), "{told:?}");
}

pub(crate) fn refused() {
    let stage = Stage::new();
    symlink(stage.at("me/.ssh"), stage.at("me/work/docs")).unwrap();
    let here = KernelSupport { landlock_abi: 6, seccomp: true };
    let nothing = KernelSupport::default();
    let program = PathBuf::from("/bin/true");
    let start =
        ProgramStart { program: &program, args: &[], cwd: &stage.at("me/work"), path: None };
    let with = |change: fn(&mut SandboxRequest)| {
        let mut request = stage.request();
        change(&mut request);
        request
    };
    for (request, support, words) in [
        (with(|_| {}), nothing, "`enforce`, and this system cannot isolate it"),
        (with(|r| r.read = vec!["nowhere".into()]), here, "which is not there"),
        (with(|r| r.read = vec!["docs".into()]), here, "leads out of the project"),
        (with(|r| r.read = vec!["../../elsewhere".into()]), here, "leads out of the project"),
        (with(|r| r.write = vec![".toolgate".into()]), here, "belongs to toolgate"),
        (
            with(|r| r.read = vec!["~/.config/toolgate/host.key".into()]),
            here,
            "belongs to toolgate",
        ),
        (with(|r| r.read = vec!["secrets/token".into()]), here, "belongs to toolgate"),
    ] {
        let refused = request.prepare(&start, support).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let auto = with(|request| request.mode = SandboxMode::Auto).prepare(&start, nothing).unwrap();
    let auto = auto.unwrap();
    assert!(matches!(auto.level, IsolationLevel::None(_)), "{:?}", auto.level);
    assert_eq!(auto.policy.landlock_abi, 0);
    let off = with(|request| request.mode = SandboxMode::Off).prepare(&start, here).unwrap();
    assert!(matches!(off.unwrap().level, IsolationLevel::None(why) if why.contains("off")));
    std::fs::hard_link(stage.at("me/work/.toolgate/log.db"), stage.at("me/work/src/log")).unwrap();
    let refused = stage.request().prepare(&start, here).unwrap_err().to_string();
    assert!(refused.contains("hard link"), "{refused}");
    let absent = PathBuf::from("no-such-program");
    let absent = ProgramStart { program: &absent, ..start };
    std::fs::remove_file(stage.at("me/work/src/log")).unwrap();
    assert_eq!(stage.request().prepare(&absent, here), Ok(None));
}

/// A program that may write a folder replaces a path among its own arguments by a link, and starts again.
pub(crate) fn planted() {
    let stage = Stage::new();
    let here = KernelSupport { landlock_abi: 6, seccomp: true };
    let work = stage.at("me/work");
    std::fs::create_dir(work.join("data")).unwrap();
    let mut request = stage.request();
    request.write = vec!["data".into()];
    let program = PathBuf::from("/bin/true");
    for (target, link) in [("me/.ssh", "data/db"), ("me", "data/db"), ("me/work/src", "data/db")] {
        symlink(stage.at(target), work.join(link)).unwrap();
        for arg in [link.to_owned(), format!("--db={link}"), work.join(link).display().to_string()]
        {
            let args = [arg];
            let start = ProgramStart { program: &program, args: &args, cwd: &work, path: None };
            let granted = |request: &SandboxRequest| {
                let prepared = request.prepare(&start, here).unwrap().unwrap();
                let paths = prepared.policy.paths.iter().map(|grant| grant.path.clone());
                let (led_to, ssh) = (stage.at(target), stage.at("me/.ssh"));
                paths.filter(|path| *path == led_to || path.starts_with(&ssh)).count()
            };
            let mut alone = request.clone();
            alone.read = Vec::new();
            assert_eq!(granted(&alone), 0, "{target} by {args:?}");
        }
        // A grant of its own is refused where a link stands in its place.
        let mut inner = request.clone();
        inner.write = vec!["data".into(), link.into()];
        let start = ProgramStart { program: &program, args: &[], cwd: &work, path: None };
        assert!(inner.prepare(&start, here).is_err(), "{target}");
        std::fs::remove_file(work.join(link)).unwrap();
    }
    let inside = stage.at("me/.config/toolgate/mcp-tokens");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("t"), "token").unwrap();
    std::fs::hard_link(inside.join("t"), work.join("data/t")).unwrap();
    let start = ProgramStart { program: &program, args: &[], cwd: &work, path: None };
    let refused = request.prepare(&start, here).unwrap_err().to_string();
    assert!(refused.contains("hard link"), "{refused}");
}

/// Another program that may write there could put a link in the place of a granted path, after the
/// parent looked and before the starter opens it.
pub(crate) fn swapped() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let request = stage.request();
    let prepared = stage.prepared(&request);
    std::fs::rename(stage.at("me/work/src"), stage.at("me/work/was")).unwrap();
    symlink(stage.at("me/.config/toolgate"), stage.at("me/work/src")).unwrap();
    let arguments = Starter::arguments(&prepared.policy, &prepared.program).unwrap();
    let key = on("read", &stage.at("me/.config/toolgate/host.key"));
    let ran = Command::new(Starter::find().unwrap().path())
        .args(arguments)
        .arg(crate::attempts::ATTEMPT)
        .arg(&key)
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(out.starts_with(&format!("{key}: refused")), "{out}");
}

/// A start takes a few milliseconds more. The bound is wide: other tests run at the same time.
#[allow(clippy::disallowed_methods)]
pub(crate) fn cost() {
    if !is_supported() {
        return;
    }
    let stage = Stage::new();
    let best = |mode| -> Duration {
        let request = SandboxRequest { mode, ..stage.request() };
        let once = || {
            let began = std::time::Instant::now();
            let prepared = stage.prepared(&request);
            let arguments = Starter::arguments(&prepared.policy, "/bin/true".as_ref()).unwrap();
            let mut command = Command::new(Starter::find().unwrap().path());
            command.args(arguments).stdin(Stdio::null());
            assert!(command.status().unwrap().success());
            began.elapsed()
        };
        (0..10).map(|_| once()).min().unwrap()
    };
    let (with, without) = (best(SandboxMode::Enforce), best(SandboxMode::Off));
    println!("a start takes {with:?} with the sandbox and {without:?} without");
    assert!(with < without + Duration::from_millis(100), "{with:?} {without:?}");
}

/// Without any sandbox: a program of the same user that was started before everything else.
pub(crate) fn hidden() {
    let environ = format!("/proc/{}/environ", std::process::id());
    let read = || Command::new("/bin/cat").arg(&environ).output().unwrap().status.success();
    assert!(read(), "it can be read before");
    toolgate_sandbox::hide_process().unwrap();
    if rustix::process::getuid().is_root() {
        println!("skipped: root may look into every process");
    } else {
        assert!(!read(), "it cannot be read any more");
    }
    // The starter is still found.
    let good = Starter::arguments(&SandboxPolicy::default(), "/bin/true".as_ref()).unwrap();
    assert_eq!(started(good[1].to_str().unwrap()), (0, String::new()));
}
