//! `toolgate issues` as a person uses it at the terminal, beside an agent that uses the tool.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Desk;
use crate::terminal::{Seen, typing};

/// A project with issues.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [issues]\n");
    desk
}

/// A person at a terminal, who is asked nothing.
fn person(desk: &Desk, args: &[&str]) -> Seen {
    let mut command = desk.command();
    command.arg("issues").args(args);
    typing(command, &[], || {})
}

fn listed(desk: &Desk, args: &[&str]) -> Vec<Value> {
    let lines = desk.ok(&[&["issues", "list", "--json"], args].concat());
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn people_and_agents_share_issues_and_no_key_is_asked_for() {
    let desk = desk();
    assert!(desk.ok(&["issues", "list"]).contains("There is no such issue."));
    let open = json!({"action": "open", "title": "Ferry \u{202e}time", "assigned_to": "user"});
    desk.ok(&["call", "issues", &open.to_string()]);
    let args =
        ["open", "Who is Tomas", "--body", "He is new.", "--tag", "cast", "--priority", "high"];
    let seen = person(&desk, &args);
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("#2  open  Who is Tomas  [cast]"), "{}", seen.screen);
    assert!(!desk.home().join(".config/toolgate/person.key").exists(), "no key is made");
    let list = desk.ok(&["issues", "list"]);
    assert!(list.contains("#1  waiting-on-user"), "{list}");
    assert!(!list.contains('\u{202e}') && list.contains("time"), "{list}");
    assert_eq!(person(&desk, &["comment", "1", "At \u{1b}[2Jnoon."]).code, 0);
    let shown = desk.ok(&["issues", "show", "1"]);
    assert!(shown.contains("human:") && shown.contains("noon."), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert_eq!(listed(&desk, &["--status", "waiting-on-user"]), Vec::<Value>::new());
    assert_eq!(person(&desk, &["assign", "2", "editor"]).code, 0);
    assert_eq!(listed(&desk, &["--assigned-to", "EDITOR"])[0]["id"], 2);
    assert_eq!(person(&desk, &["assign", "2", "--none"]).code, 0);
    assert_eq!(person(&desk, &["close", "1"]).code, 0);
    let again = person(&desk, &["close", "1"]);
    assert_eq!(again.code, 1);
    assert!(again.screen.contains("issue 1 is closed"), "{}", again.screen);
    assert_eq!(listed(&desk, &[]).len(), 1);
    assert_eq!(listed(&desk, &["--status", "all"]).len(), 2);
    assert_eq!(person(&desk, &["open", "--again", "1"]).code, 0);
    assert_eq!(listed(&desk, &[]).len(), 2);
    let proposal = person(&desk, &["open", "[Tool Proposal] x"]);
    assert_eq!(proposal.code, 1, "{}", proposal.screen);
    let show = json!({"action": "show", "id": 1}).to_string();
    assert!(desk.ok(&["call", "issues", &show]).contains("noon."));
    desk.ok(&["verify"]);
}

#[test]
fn a_pipe_says_nothing() {
    let desk = desk();
    desk.ok(&["call", "issues", r#"{"action": "open", "title": "x"}"#]);
    let acts: [&[&str]; 5] = [
        &["open", "y"],
        &["open", "--again", "1"],
        &["comment", "1", "Hm.", "--json"],
        &["assign", "1", "user"],
        &["close", "1"],
    ];
    for act in acts {
        let mut command = desk.command();
        let command = command.arg("issues").args(act).stdin(Stdio::null());
        let told = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(told.status.code(), Some(3), "{act:?}");
    }
    let all = listed(&desk, &["--status", "all"]);
    assert_eq!((all.len(), all[0]["comments"].as_array().unwrap().len()), (1, 0));
    assert_eq!(desk.run(&["issues", "show", "7"]).code, 1);
    assert_eq!(desk.run(&["issues", "open"]).code, 2);
}
