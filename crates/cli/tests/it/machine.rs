//! What an administrator says in `/etc/toolgate/policy.yaml`: policies that govern every project, and how many
//! owners must trust a configuration. Each program runs with an `/etc` of its own.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

use toolgate_testkit::mcp::Mode;

use crate::servers::Web;
use crate::support::{Desk, Ran};
use crate::terminal::{trusting, typing};

/// A machine with a policy.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// Nothing where this user cannot have an `/etc` of their own.
    fn with(policy: &str) -> Option<Self> {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let copied = Command::new("cp").args(["-a", "/etc/."]).arg(machine.etc()).output().unwrap();
        let own = machine.etc().join("toolgate");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("policy.yaml"), policy).unwrap();
        let mut probe = machine.wrapped(&Command::new("true"));
        let works = copied.status.success() && probe.status().is_ok_and(|ended| ended.success());
        if !works {
            println!("skipped: this user cannot have an /etc of their own");
        }
        works.then_some(machine)
    }

    fn etc(&self) -> PathBuf {
        self.folder.path().join("etc")
    }

    /// The same command on this machine.
    fn wrapped(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("unshare");
        wrapped.args(["-m", "--propagation", "private", "sh", "-c"]);
        wrapped.arg("mount --bind \"$0\" /etc && exec \"$@\"").arg(self.etc());
        wrapped.arg(command.get_program()).args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder).env_clear();
        }
        for (name, value) in command.get_envs() {
            wrapped.env(name, value.unwrap_or_default());
        }
        wrapped.env("PATH", std::env::var_os("PATH").unwrap());
        wrapped
    }

    fn command(&self, desk: &Desk, args: &[&str]) -> Command {
        let mut command = desk.command();
        command.args(args);
        self.wrapped(&command)
    }

    fn run(&self, desk: &Desk, args: &[&str]) -> Ran {
        let ran = self.command(desk, args).output().unwrap();
        Ran {
            code: ran.status.code().unwrap_or(-1),
            out: String::from_utf8(ran.stdout).unwrap(),
            err: String::from_utf8(ran.stderr).unwrap(),
        }
    }
}

const WRITE: [&str; 4] = ["call", "write_notes", r#"{"key":"a","data":1}"#, "--json"];

#[test]
fn a_policy_of_the_machine_governs_every_project() {
    let policy = "policies:\n  - name: no-notes\n    rule: {tools: [write_notes, 'mcp:bank:pay'], deny: \
                  'true', message: Not on this machine.}\n";
    let Some(machine) = Machine::with(policy) else { return };
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\n");
    let ran = machine.run(&desk, &WRITE);
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("Not on this machine."), "{}", ran.out);
    let told = machine.run(&desk, &["explain", WRITE[1], WRITE[2]]);
    assert!(told.out.contains("machine-no-notes"), "{}", told.out);
    assert_eq!(machine.run(&desk, &["call", "list_notes"]).code, 0);
    // The file says nothing of it, so its digest is the one of every machine.
    let here = machine.run(&desk, &["trust", "--print"]);
    assert_eq!((here.code, here.out), (0, desk.ok(&["trust", "--print"])));
    assert_eq!(desk.run(&WRITE).code, 0);
    // A rule of the file cannot make it weaker.
    let allow = "packs: [notes]\npolicies: [{name: machine-no-notes, rule: {tools: [write_notes], deny: \
                 'false', message: a}}]\n";
    desk.write("toolgate.yaml", allow);
    let ran = machine.run(&desk, &WRITE);
    assert!(ran.code != 0, "{}{}", ran.out, ran.err);
}

/// Tools of servers come later than the file, and are governed as well.
#[test]
fn a_policy_of_the_machine_governs_tools_of_servers() {
    let policy = "policies:\n  - name: no-mail\n    rule: {tools: ['mcp:x:write'], deny: 'true', message: \
                  Not on this machine.}\n  - name: look\n    rule: {tools: ['mcp:x:echo'], ask: 'true', \
                  message: Look at it.}\n";
    let Some(machine) = Machine::with(policy) else { return };
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    let yaml = format!(
        "packs: []\nmcp_servers: {{x: {{url: '{}'}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
        web.url
    );
    desk.write("toolgate.yaml", &yaml);
    let ran = machine.run(&desk, &["call", "mcp:x:write", r#"{"text":"a"}"#, "--json"]);
    assert!(ran.code == 1 && ran.out.contains("Not on this machine."), "{}{}", ran.out, ran.err);
    let ran = machine.run(&desk, &["call", "mcp:x:echo", r#"{"text":"a"}"#, "--json"]);
    assert!(ran.code == 1 && ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
    assert_eq!(web.calls(), [""; 0]);
    let ran = machine.run(&desk, &["call", "mcp:x:env", "{}", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[test]
fn a_policy_that_cannot_be_used_stops_everything() {
    for policy in ["policies: [{rule: {}}]\n", "policis: []\n", "trust_count: 99\n"] {
        let Some(machine) = Machine::with(policy) else { return };
        let desk = Desk::new();
        desk.write("toolgate.yaml", "packs: [notes]\n");
        let ran = machine.run(&desk, &WRITE);
        assert_eq!(ran.code, 78, "{policy}: {}{}", ran.out, ran.err);
        assert!(
            ran.out.contains("cannot be used") || ran.err.contains("cannot be used"),
            "{}",
            ran.out
        );
        assert!(!desk.project().join(".toolgate").exists(), "{policy}");
    }
}

/// A machine that wants two owners: one is not enough, and no digest on the command line counts.
#[test]
fn a_machine_can_want_two_owners() {
    let Some(machine) = Machine::with("trust_count: 2\n") else { return };
    let desk = Desk::new();
    let seen = typing(
        {
            let mut command = desk.command();
            command.args(["init", "--enrol"]);
            command
        },
        &[("press Enter for none:", "")],
        || {},
    );
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let mut command = desk.command();
    command.args(["--person", "bob", "people", "key"]);
    let bob = typing(command, &[("press Enter for none:", "")], || {}).screen;
    let bob = bob.lines().find(|line| line.len() == 64).expect("a key").to_owned();
    let mut command = desk.command();
    command.args(["people", "enrol", &bob, "--name", "bob", "--role", "owner"]);
    let seen = typing(command, &[("leave to change nothing:", "enrol")], || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    std::fs::create_dir(desk.project().join("out")).unwrap();
    desk.write(
        "toolgate.yaml",
        "packs: [notes]\nmcp_servers:\n  x: {command: sh, args: ['-c', 'echo one >> out/ledger; exit 1'], \
         sandbox: {write: [out]}}\nphases: {A: {tools: {groups: [notes], mcp: [x]}}}\n",
    );
    let call = ["call", "list_notes", "--phase", "A"];
    let was_started = || desk.project().join("out/ledger").exists();
    let seen = trusting(machine.command(&desk, &["trust"]));
    assert!(seen.screen.contains("1 of the 2 owners"), "{} {}", seen.code, seen.screen);
    let ran = machine.run(&desk, &call);
    assert_eq!((ran.code, was_started()), (78, false), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("1 of the 2 owners"), "{}", ran.err);
    let digest = machine.run(&desk, &["trust", "--print"]).out.trim().to_owned();
    let ran = machine.run(&desk, &[&call[..], &["--trust", &digest]].concat());
    assert_eq!((ran.code, was_started()), (78, false), "{}{}", ran.out, ran.err);
    let seen = trusting(machine.command(&desk, &["--person", "bob", "trust"]));
    assert_eq!(seen.code, 0, "{}", seen.screen);
    let ran = machine.run(&desk, &call);
    assert_eq!((ran.code, was_started()), (0, true), "{}{}", ran.out, ran.err);
}
