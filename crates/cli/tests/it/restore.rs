//! Restored backups of a log: who may go on from one, what is made again, and what counts no more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use toolgate_testkit::mcp::Mode;

use crate::rollback::copy_folder;
use crate::servers::Web;
use crate::support::Desk;
use crate::terminal::{APPROVE, Seen, killed, typing};

/// No passphrase is chosen the first time.
const FIRST: (&str, &str) = ("press Enter for none:", "");
/// How a word is asked for.
const ASKED: &str = "or leave to change nothing:";
/// Goes on from a restored log: `{code}` becomes the code that the card shows.
const RESTORE: (&str, &str) = ("to change nothing:", "restore {code}");
const WRITE: [&str; 3] = ["call", "mcp:x:write", r#"{"text": "Dear all"}"#];

/// A project of Ada, its owner, with an approver, and a server that is asked about.
struct Project {
    desk: Desk,
    web: Web,
    backup: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        let desk = Desk::new();
        let web = Web::new(&desk, "x", Mode::Normal);
        desk.write(
            "toolgate.yaml",
            &format!(
                "packs: [notes, workspace]\nmcp_servers:\n  x: {{url: '{}'}}\nphases:\n  main: {{tools: \
                 {{mcp: [x], groups: [notes]}}}}\npolicies:\n  - name: careful\n    rule: {{tools: \
                 ['mcp:x:write'], ask: 'true', message: It leaves the house.}}\n",
                web.url
            ),
        );
        let project = Self { desk, web, backup: tempfile::tempdir().unwrap() };
        let seen = project.types(&["init", "--enrol"], &[FIRST]);
        assert_eq!(seen.code, 0, "{}", seen.screen);
        project.enrol("bob", "approver");
        project
    }

    fn enrol(&self, name: &str, role: &str) {
        let key = self.types(&["--person", name, "people", "key"], &[FIRST]).screen;
        let key = key.lines().map(str::trim).find(|line| line.len() == 64).unwrap().to_owned();
        let enrol = ["people", "enrol", &key, "--name", name, "--role", role];
        self.ok(&enrol, &[(ASKED, "enrol")]);
    }

    fn types(&self, args: &[&str], answers: &[(&str, &str)]) -> Seen {
        let mut command = self.desk.command();
        command.args(args);
        typing(command, answers, || {})
    }

    fn ok(&self, args: &[&str], answers: &[(&str, &str)]) -> String {
        let seen = self.types(args, answers);
        assert_eq!(seen.code, 0, "{args:?}\n{}", seen.screen);
        seen.screen
    }

    fn home(&self) -> PathBuf {
        self.desk.project().join(".toolgate")
    }

    /// Keeps the log as it is now.
    fn back_up(&self) {
        let kept = self.backup.path().join("kept");
        drop(std::fs::remove_dir_all(&kept));
        copy_folder(&self.home(), &kept);
    }

    /// Puts the log back as it was then.
    fn restore(&self) {
        std::fs::remove_dir_all(self.home()).unwrap();
        copy_folder(&self.backup.path().join("kept"), &self.home());
        let ran = self.desk.run(&["call", "list_notes"]);
        assert!(ran.code == 74 && ran.err.contains("an older copy"), "{}{}", ran.out, ran.err);
        assert!(ran.err.contains("toolgate log accept-restore"), "{}", ran.err);
    }

    fn accept(&self) -> String {
        self.ok(&["log", "accept-restore"], &[RESTORE])
    }

    fn put_off(&self) -> String {
        let ran = self.desk.run(&[&WRITE[..], &["--json"]].concat());
        assert!(ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
        self.waiting().pop().unwrap()
    }

    /// The calls that wait for a person.
    fn waiting(&self) -> Vec<String> {
        let listed = self.desk.ok(&["approvals", "list", "--json"]);
        let rows = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter_map(|row| Some(row["call"].as_str()?.to_owned())).collect()
    }

    fn people(&self) -> Vec<Value> {
        let listed = self.desk.ok(&["people", "list", "--json"]);
        listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn person(&self, name: &str) -> Value {
        self.people().into_iter().find(|one| one["name"] == name).unwrap()
    }

    /// What is remembered of the log outside.
    fn heads(&self) -> PathBuf {
        self.desk.home().join(".local/state/toolgate/heads")
    }
}

/// A text as one line.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn verified(desk: &Desk) -> Value {
    serde_json::from_str(&desk.ok(&["verify", "--json"])).unwrap()
}

#[test]
fn an_owner_accepts_a_restored_log_and_lost_restrictions_come_back() {
    let project = Project::new();
    let desk = &project.desk;
    project.enrol("eve", "approver");
    desk.ok(&["call", "write_notes", r#"{"key":"a","data":1}"#]);
    project.back_up();
    let before = desk.ok(&["log", "head"]);
    project.ok(&["people", "revoke", "bob", "--reason", "left"], &[(ASKED, "revoke")]);
    let eve = project.person("eve")["key"].as_str().unwrap().to_owned();
    let demote = ["people", "enrol", &eve, "--name", "eve", "--role", "runner"];
    project.ok(&demote, &[(ASKED, "enrol")]);
    project.ok(&["facts", "lock", "/facts/city"], &[(ASKED, "lock")]);
    project.enrol("dan", "approver");
    desk.ok(&["call", "write_notes", r#"{"key":"b","data":2}"#]);
    let lost = desk.ok(&["log", "head"]);
    desk.ok(&["call", "write_notes", r#"{"key":"c","data":3}"#]);
    let newest = desk.ok(&["log", "head"]);
    project.restore();
    assert_eq!(desk.run(&["verify"]).code, 1);

    // Without a terminal; a person who is no owner; another word than the one with the code.
    assert_eq!(desk.run(&["log", "accept-restore"]).code, 3);
    for (who, told) in [("bob", "your key is approver in it"), ("zoe", "no person's key here")] {
        let seen = project.types(&["--person", who, "log", "accept-restore"], &[]);
        assert_ne!(seen.code, 0, "{}", seen.screen);
        assert!(seen.screen.contains("only an owner"), "{}", seen.screen);
        assert!(flat(&seen.screen).contains(told), "{}", seen.screen);
    }
    let asked = RESTORE.0;
    let page = ("or type leave:", "");
    let wrong = [
        page,
        (asked, "restore"),
        ("To go on from it", "yes"),
        ("To go on from it", "restore XXXX"),
    ];
    let seen = project.types(&["log", "accept-restore"], &wrong);
    assert!(seen.code == 1 && seen.screen.contains("Nothing was changed"), "{}", seen.screen);
    assert_eq!(desk.run(&["call", "list_notes"]).code, 74);

    let card = project.ok(&["log", "accept-restore"], &[page, RESTORE]);
    for line in [
        "Decisions that are lost (4):",
        "ada: revoked the key",
        "ada: enrolled eve as runner",
        "ada: changed locks",
        "ada: enrolled dan as approver",
        "revokes the key",
        "eve is no more than runner",
        "locks what was locked",
    ] {
        assert!(card.contains(line), "{line:?} is missing:\n{card}");
    }
    // What took permission away is there again; what gave it is not.
    assert!(project.person("bob")["revoked"].is_u64(), "{:?}", project.people());
    assert_eq!(project.person("eve")["role"], "runner");
    assert_eq!(project.people().iter().filter(|one| one["name"] == "dan").count(), 0);
    let locked = project.types(&["facts", "lock", "/facts/city"], &[]);
    assert!(locked.screen.contains("locked already"), "{}", locked.screen);
    let notes = desk.ok(&["call", "list_notes", "--json"]);
    assert!(notes.contains("\"a\"") && !notes.contains("\"b\""), "{notes}");

    let shown = verified(desk);
    assert_eq!(shown["anchored"], shown["commits"], "{shown}");
    assert_eq!(shown["restores"].as_array().unwrap().len(), 1, "{shown}");
    // Heads of before and of what is given up are accounted for, and no other.
    for head in [&before, &lost, &newest] {
        desk.write("head.txt", head);
        desk.ok(&["verify", "--against", "head.txt"]);
    }
    let history = desk.ok(&["approvals", "history"]);
    assert!(history.contains("accepted a restored log"), "{history}");
    // There is nothing to accept any more, and the same backup is refused anew.
    let seen = project.types(&["log", "accept-restore"], &[]);
    assert!(seen.screen.contains("There is nothing to accept"), "{}", seen.screen);
    project.restore();
    project.ok(&["log", "accept-restore"], &[page, RESTORE]);
    assert_eq!(verified(desk)["restores"].as_array().unwrap().len(), 1);
    assert!(project.person("bob")["revoked"].is_u64(), "{:?}", project.people());
}

#[test]
fn an_owner_who_was_revoked_in_the_lost_part_accepts_nothing() {
    let project = Project::new();
    project.enrol("eve", "owner");
    project.back_up();
    project.ok(&["people", "revoke", "eve", "--reason", "left"], &[(ASKED, "revoke")]);
    project.restore();
    let seen = project.types(&["--person", "eve", "log", "accept-restore"], &[]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    let told = "your key is owner in it, and not enrolled after what is lost";
    assert!(flat(&seen.screen).contains(told), "{}", seen.screen);
    project.accept();
    assert!(project.person("eve")["revoked"].is_u64());
}

/// Row 7: the approved call ran once, and does not run again from an older state.
#[test]
fn what_was_asked_and_allowed_before_a_restore_counts_no_more() {
    let project = Project::new();
    let (desk, web) = (&project.desk, &project.web);
    let first = project.put_off();
    project.ok(&["approvals", "approve", &first, "--always"], &[APPROVE]);
    desk.ok(&WRITE);
    assert_eq!(web.calls().len(), 2, "{:?}", web.calls());
    project.ok(
        &["approvals", "delegate", "ide", "--tools", "mcp:x:*", "--for", "7d"],
        &[(ASKED, "delegate")],
    );
    assert!(desk.ok(&["approvals", "list"]).contains("ide"));
    project.back_up();
    desk.ok(&WRITE);
    assert_eq!(web.calls().len(), 3);
    project.restore();
    project.accept();
    // The "always" is gone: it is asked again.
    let second = project.put_off();
    assert_eq!(web.calls().len(), 3);
    let listed = desk.ok(&["approvals", "list"]);
    assert!(!listed.contains("ide"), "{listed}");
    project.back_up();
    project.ok(&["approvals", "approve", &second], &[APPROVE]);
    assert_eq!(web.calls().len(), 4);
    // The question of before waits no more, and an answer to it does nothing.
    project.restore();
    project.accept();
    assert_eq!(project.waiting(), Vec::<String>::new());
    let seen = project.types(&["approvals", "approve", &second], &[]);
    assert_ne!(seen.code, 0, "{}", seen.screen);
    desk.ok(&["call", "list_notes"]);
    assert_eq!(web.calls().len(), 4, "{:?}", web.calls());
    // A new call is another one to the server, though it has an id that was used before.
    let third = project.put_off();
    project.ok(&["approvals", "approve", &third], &[APPROVE]);
    assert_eq!(web.calls().len(), 5);
    let log: Value = serde_json::from_str(&desk.ok(&["sessions", "export", "call"])).unwrap();
    let events = log["records"].as_array().unwrap().iter().map(|record| &record["event"]);
    let keys: Vec<&str> = events.filter_map(|event| event["key"].as_str()).collect();
    assert_eq!(keys.last().unwrap().matches('/').count(), 2, "{keys:?}");
    desk.ok(&["verify"]);
}

/// A thief who kept what a person signed in the lost part cannot use it in the restored log.
#[test]
fn a_decision_from_the_lost_part_is_not_used_again() {
    let project = Project::new();
    let desk = &project.desk;
    let call = project.put_off();
    project.back_up();
    project.ok(&["approvals", "approve", &call], &[APPROVE]);
    let answered = rows(&project.home(), "inbox/call");
    project.restore();
    project.accept();
    assert!(rows(&project.home(), "inbox/call").is_empty());
    crate::forgery::append_rows(desk, "inbox/call", &answered);
    let ran = desk.run(&["verify"]);
    assert!(ran.code == 1 && ran.out.contains("was given up"), "{}{:?}", ran.out, texts(&answered));
    // Whether it is looked at or not, the call does not run again.
    assert_ne!(desk.run(&WRITE).code, 0);
    assert_eq!(project.web.calls().len(), 1);
}

fn texts(rows: &[Vec<u8>]) -> Vec<String> {
    rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect()
}

fn rows(home: &Path, stream: &str) -> Vec<Vec<u8>> {
    let connection = rusqlite::Connection::open(home.join("log.db")).unwrap();
    let mut all = connection
        .prepare(
            "SELECT bytes FROM records WHERE stream = (SELECT id FROM streams WHERE stream = ?1) \
             ORDER BY seq",
        )
        .unwrap();
    let rows = all.query_map([stream], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Only the restore that an owner signed counts: a record of one alone is refused, and named.
#[test]
fn a_restore_that_nobody_signed_is_found() {
    let project = Project::new();
    let desk = &project.desk;
    let head: Value = serde_json::from_str(&desk.ok(&["log", "head", "--json"])).unwrap();
    let (size, root) = (head["size"].as_u64().unwrap(), head["root"].clone());
    let event = serde_json::json!({
        "kind": "log_restored", "seen": {"size": size + 9, "root": "00".repeat(32)},
        "now": {"size": size, "root": root},
    });
    let record = |seq: u64| {
        serde_json::to_vec(&serde_json::json!({
            "seq": seq, "at": 4_000_000_000_000_u64, "actor": "human:ada", "epoch": 0, "event": event,
        }))
        .unwrap()
    };
    let seq = u64::try_from(rows(&project.home(), "project").len()).unwrap() + 1;
    crate::forgery::append_rows(desk, "project", &[record(seq)]);
    assert_eq!(desk.run(&["call", "list_notes"]).code, 74);
    let ran = desk.run(&["verify"]);
    assert!(ran.code == 1 && ran.out.contains("without their signature"), "{}", ran.out);
}

/// Killed at any moment, the log is refused as before or accepted as a whole.
#[test]
fn a_kill_while_a_restore_is_accepted_leaves_one_state_or_the_other() {
    for ms in [0, 5, 10, 20, 40, 80] {
        let project = Project::new();
        let desk = &project.desk;
        project.back_up();
        project.ok(&["people", "revoke", "bob", "--reason", "left"], &[(ASKED, "revoke")]);
        project.restore();
        let mut command = desk.command();
        command.args(["log", "accept-restore"]);
        killed(command, &[RESTORE], "", Duration::from_millis(ms));
        let ran = desk.run(&["call", "list_notes"]);
        if ran.code != 0 {
            let refused = ran.code == 74 && ran.err.contains("accept-restore");
            assert!(refused, "{ms} ms: {}{}", ran.out, ran.err);
            let report = desk.run(&["verify", "--json"]).out;
            let report: Value = serde_json::from_str(&report).unwrap();
            // What was signed already is not asked again.
            let is_signed = report["restores"].as_array().is_some_and(|all| !all.is_empty());
            let answers = if is_signed { &[][..] } else { &[RESTORE] };
            project.ok(&["log", "accept-restore"], answers);
        }
        desk.ok(&["call", "list_notes"]);
        assert_eq!(verified(desk)["restores"].as_array().unwrap().len(), 1, "{ms} ms");
        assert!(project.person("bob")["revoked"].is_u64(), "{ms} ms");
    }
}

/// The moment between the commit and what is remembered of it.
#[test]
fn a_restore_that_was_signed_and_not_remembered_is_taken_up() {
    let project = Project::new();
    let desk = &project.desk;
    project.back_up();
    for key in ["a", "b", "c"] {
        desk.ok(&["call", "write_notes", &format!(r#"{{"key":"{key}","data":1}}"#)]);
    }
    project.restore();
    let kept = tempfile::tempdir().unwrap();
    copy_folder(&project.heads(), kept.path());
    project.accept();
    // As it was when the commit was there and nothing else.
    copy_folder(kept.path(), &project.heads());
    let ran = desk.run(&["call", "list_notes"]);
    assert_eq!(ran.code, 74, "{}{}", ran.out, ran.err);
    let told = project.ok(&["log", "accept-restore"], &[]);
    assert!(told.contains("was signed before"), "{told}");
    desk.ok(&["call", "list_notes"]);
    desk.ok(&["verify"]);
}

#[test]
fn copies_of_decisions_are_kept_beside_the_anchor_for_this_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::new();
    let files: Vec<PathBuf> =
        std::fs::read_dir(project.heads()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let copies = files.iter().find(|file| file.extension().is_some_and(|it| it == "decisions"));
    let copies = copies.expect("the copies");
    assert_eq!(std::fs::metadata(copies).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(copies).unwrap();
    assert!(text.contains("person_enrolled") && !text.contains("session_opened"), "{text}");
    // Lost copies are made again from the log, so that nothing depends on the order of losses.
    std::fs::remove_file(copies).unwrap();
    project.desk.ok(&["call", "list_notes"]);
    assert_eq!(std::fs::read_to_string(copies).unwrap().matches("person_enrolled").count(), 2);
}
