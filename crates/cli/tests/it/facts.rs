//! `toolgate facts` as a person uses it at the terminal, and as nobody else can.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::mcp::{Server, made};
use crate::support::{Desk, Ran};
use crate::terminal::{Seen, typing};

/// A project with a workspace.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [workspace, files]\n");
    desk
}

fn propose(desk: &Desk, path: &str, value: &Value) {
    propose_for(desk, path, value, "It says so.");
}

fn propose_for(desk: &Desk, path: &str, value: &Value, reason: &str) {
    let args = json!({"path": path, "value": value, "reason": reason}).to_string();
    desk.ok(&["call", "facts_propose", &args]);
}

/// How a word is asked for.
const ASKED: &str = "or leave to change nothing:";

/// A person at a terminal, who types one word whenever asked, and the first time no passphrase.
fn person(desk: &Desk, args: &[&str], word: &str) -> Seen {
    let mut command = desk.command();
    command.args(args);
    let mut answers = vec![(ASKED, word)];
    let has_key = desk.home().join(".config/toolgate/person.key").exists();
    if args.get(1) != Some(&word) {
        answers.extend([("That is neither word", word); 2]);
    } else if !has_key {
        answers.push(("press Enter for none:", ""));
    }
    typing(command, &answers, || {})
}

fn listed(desk: &Desk) -> Vec<Value> {
    let lines = desk.ok(&["facts", "list", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The facts as a reader has them, with their etag.
fn facts(desk: &Desk) -> (Value, Value) {
    let out = desk.ok(&["call", "state_get", r#"{"select":["/facts"]}"#, "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    (told["data"]["etags"]["facts"].clone(), told["data"]["values"]["/facts"].clone())
}

#[test]
fn a_person_commits_what_is_shown_and_only_once() {
    let desk = desk();
    assert!(desk.ok(&["facts", "list"]).contains("Nothing waits for your word."));
    propose_for(&desk, "/facts/city", &json!("Lis\u{202e}bon"), "The \u{200b}letter.");
    let listed_one = desk.ok(&["facts", "list"]);
    assert!(listed_one.contains("p1  /facts/city"), "{listed_one}");
    let seen = person(&desk, &["facts", "commit", "p1"], "commit");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    for line in [
        "p1  /facts/city",
        "  - (nothing)",
        "  + \"Lis<U+202E>bon\"",
        "  because: The <U+200B>letter.",
        "  proposed by client:cli, call c1 of session ",
        "p1  /facts/city committed.",
        "The facts have etag 1.",
    ] {
        assert!(seen.screen.contains(line), "{line:?} is missing:\n{}", seen.screen);
    }
    assert_eq!(facts(&desk), (json!(1), json!({"city": "Lis\u{202e}bon"})));
    let again = desk.run(&["facts", "commit", "p1"]);
    assert_eq!(again.code, 1);
    assert!(
        again.err.contains("p1 was decided or undone already; nothing was changed"),
        "{}",
        again.err
    );
    let never = desk.run(&["facts", "commit", "p7"]);
    assert_eq!(never.code, 1, "{}", never.err);
    let wrong = desk.run(&["facts", "commit", "P1"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    desk.ok(&["verify"]);
}

#[test]
fn without_the_word_nothing_changes() {
    let desk = desk();
    propose(&desk, "/facts/city", &json!("Lisbon"));
    for word in ["", "yes", "y", "COMMIT", "commit p1", "reject"] {
        let seen = person(&desk, &["facts", "commit", "p1"], word);
        assert_eq!(seen.code, 1, "{word}: {}", seen.screen);
        assert!(seen.screen.contains("nothing was changed"), "{}", seen.screen);
    }
    let mut command = desk.command();
    command.args(["facts", "commit", "p1"]);
    let seen = typing(command, &[(ASKED, "leave")], || {});
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert_eq!(facts(&desk), (json!(0), json!({})));
    // A slip of the hand is asked about again.
    let mut command = desk.command();
    command.args(["facts", "lock", "/facts/b", "--reason", "It is\u{a0}so."]);
    let answers = [(ASKED, "y"), ("That is neither word", "lock"), ("Enter for none:", "")];
    let seen = typing(command, &answers, || {});
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("your reason: It is<U+00A0>so."), "{}", seen.screen);
    let mut listed = listed(&desk);
    assert_eq!(listed.pop().unwrap()["what"], "lock");
    assert_eq!(listed.len(), 1, "it still waits");
    assert_eq!((&listed[0]["what"], &listed[0]["new"]), (&json!("proposal"), &json!("Lisbon")));
}

/// A pipe is nobody, whatever comes through it and whatever the environment says.
#[test]
fn a_pipe_decides_nothing() {
    let desk = desk();
    propose(&desk, "/facts/city", &json!("Lisbon"));
    let acts: [&[&str]; 4] = [
        &["facts", "commit", "p1"],
        &["facts", "reject", "p1"],
        &["facts", "lock", "/facts/city"],
        &["facts", "commit", "p1", "--json"],
    ];
    for args in acts {
        let mut command = desk.command();
        command
            .args(args)
            .env("TOOLGATE_YES", "1")
            .env("TOOLGATE_AUTO_PILOT", "true")
            .env("CI", "1");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let words = format!("{}\nyes\n", args[1]);
        // It may be gone before it reads.
        drop(std::io::Write::write_all(child.stdin.as_mut().unwrap(), words.as_bytes()));
        let told = child.wait_with_output().unwrap();
        assert_eq!(told.status.code(), Some(3), "{args:?}");
        let said = String::from_utf8_lossy(&told.stderr) + String::from_utf8_lossy(&told.stdout);
        assert!(said.contains("nobody is at a terminal here; nothing was changed"), "{said}");
    }
    for flag in ["--yes", "--force", "--confirm"] {
        assert_eq!(desk.run(&["facts", "commit", "p1", flag]).code, 2, "{flag} does not exist");
    }
    assert_eq!(facts(&desk), (json!(0), json!({})));
    assert_eq!(listed(&desk).len(), 1);
}

#[test]
fn what_is_skipped_is_reported() {
    let desk = desk();
    for (path, value) in [("/facts/a", 1), ("/facts/b", 2), ("/facts/a", 3)] {
        propose(&desk, path, &json!(value));
    }
    let seen = person(&desk, &["facts", "lock", "/facts/b", "--reason", "It is decided."], "lock");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("/facts/b, and what is below it, is held as it is."));
    let list = desk.ok(&["facts", "list"]);
    assert!(list.contains("Locked:\n  /facts/b  It is decided."), "{list}");
    let seen = person(&desk, &["facts", "commit", "p1", "p2", "p3"], "commit");
    assert_eq!(seen.code, 1, "not all of it was done: {}", seen.screen);
    for line in [
        "p1  /facts/a committed.",
        "p2  /facts/b is skipped: locked. /facts/b is locked",
        "p3  /facts/a is skipped: conflicting. p1 changes the same fact; commit one of them",
    ] {
        assert!(seen.screen.contains(line), "{line:?} is missing:\n{}", seen.screen);
    }
    assert_eq!(facts(&desk), (json!(1), json!({"a": 1})));
    // Where nothing can change, nobody is asked.
    let Ran { code, out, .. } = desk.run(&["facts", "commit", "p2", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, told["skipped"][0]["why"].as_str()), (1, Some("locked")), "{out}");
    let seen = person(&desk, &["facts", "unlock", "/facts/b"], "unlock");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert_eq!(person(&desk, &["facts", "commit", "p2"], "commit").code, 0);
    assert_eq!(facts(&desk), (json!(2), json!({"a": 1, "b": 2})));
    for (args, words) in [
        (["facts", "unlock", "/facts/b"], "/facts/b is not locked"),
        (["facts", "lock", "/ui_state/x"], "Begin with /facts/ or /draft/"),
    ] {
        let told = desk.run(&args);
        assert!(told.code != 0 && told.err.contains(words), "{args:?}: {}", told.err);
    }
}

#[test]
fn a_rejection_leaves_the_fact_and_takes_the_proposal() {
    let desk = desk();
    propose(&desk, "/facts/city", &json!("Lisbon"));
    let args = ["facts", "reject", "p1", "--reason", "A forgery.", "--json"];
    let seen = person(&desk, &args, "reject");
    assert_eq!(seen.code, 0, "{}", seen.screen);
    assert!(seen.screen.contains("This is taken away, and the fact stays as it is."));
    assert!(seen.screen.contains("your reason: A forgery."), "{}", seen.screen);
    assert!(seen.screen.contains(r#"{"act":"reject""#), "{}", seen.screen);
    assert_eq!(facts(&desk), (json!(0), json!({})));
    assert!(listed(&desk).is_empty());
}

/// What was decided while a person looked is looked at again.
#[test]
fn what_changed_while_a_person_looked_is_not_committed() {
    let desk = desk();
    propose(&desk, "/facts/city", &json!("Lisbon"));
    propose(&desk, "/facts/city", &json!("Porto"));
    let mut command = desk.command();
    command.args(["facts", "commit", "p1"]);
    let seen = typing(command, &[(ASKED, "commit")], || {
        assert_eq!(person(&desk, &["facts", "commit", "p2"], "commit").code, 0);
    });
    assert_eq!(seen.code, 1, "{}", seen.screen);
    assert!(seen.screen.contains("changed while you were looking at it"), "{}", seen.screen);
    assert_eq!(facts(&desk), (json!(1), json!({"city": "Porto"})));
}

#[test]
fn a_fact_has_a_history_with_who_and_why() {
    let desk = desk();
    for value in ["Lisbon", "Porto"] {
        propose_for(&desk, "/facts/city", &json!(value), &format!("{value}, says the letter."));
    }
    assert_eq!(person(&desk, &["facts", "commit", "p1"], "commit").code, 0);
    // The second one was proposed before the first was committed.
    let stale = desk.run(&["facts", "show", "p2"]);
    assert!(stale.out.contains("  + \"Porto\"\n"), "{}", stale.out);
    assert!(stale.out.contains("  It would be skipped, conflicting: "), "{}", stale.out);
    propose_for(&desk, "/facts/city", &json!("Porto"), "A stamp.");
    assert!(desk.ok(&["facts", "show", "p3"]).contains("  - \"Lisbon\"\n  + \"Porto\"\n"));
    assert_eq!(person(&desk, &["facts", "commit", "p3"], "commit").code, 0);
    let told = desk.ok(&["facts", "show", "/facts/city"]);
    for line in [
        "/facts/city\n  \"Porto\"\n",
        "  changed by human:ada: facts commit p1",
        "  + \"Lisbon\"\n  p1: Lisbon, says the letter.\n  proposed by client:cli, call c1",
        "  changed by human:ada: facts commit p3",
        "  - \"Lisbon\"\n  + \"Porto\"\n  p3: A stamp.",
    ] {
        assert!(told.contains(line), "{line:?} is missing:\n{told}");
    }
    let told: Value = serde_json::from_str(&desk.ok(&["facts", "show", "city", "--json"])).unwrap();
    assert_eq!((&told["value"], told["history"].as_array().unwrap().len()), (&json!("Porto"), 2));
    let none = desk.run(&["facts", "show", "/facts/nothing"]);
    assert_eq!(none.code, 1, "{}", none.err);
}

/// No way in offers anything that writes facts, and what is called anyway does not run.
#[test]
fn no_way_in_commits_a_fact() {
    let desk = desk();
    propose(&desk, "/facts/city", &json!("Lisbon"));
    let log = desk.project().join(".toolgate");
    let names = ["facts_commit", "commit_fact", "facts_reject", "facts_lock", "facts.commit"];
    let args = r#"{"proposal":"p1","proposal_id":"p1","user_confirmed":true}"#;
    // The list of tools, and `call`.
    let tools = desk.ok(&["tools", "--json"]);
    for name in names {
        assert!(!tools.contains(name), "{tools}");
        let told = desk.run(&["call", name, args, "--json"]);
        assert!(told.code != 0 && told.out.contains("\"code\":\"TOOL_"), "{name}: {}", told.out);
    }
    // A model.
    let calls: Vec<Value> = names.iter().map(|name| json!({"tool": name, "raw": args})).collect();
    let script = json!({"replies": [{"calls": calls}, {"text": "Done."}]});
    desk.write("s.yaml", &script.to_string());
    let run = desk.run(&["run", "x", "--model", "script:s.yaml", "--json"]);
    assert_eq!(run.out.matches("\"kind\":\"call_refused\"").count(), names.len(), "{}", run.out);
    assert!(!run.out.contains("\"kind\":\"call_admitted\""), "{}", run.out);
    // A client of MCP.
    let (_, token) = made(&desk, &[]);
    let server = Server::start(&desk, &[]);
    let (status, list) = server.post(&token, "tools/list", json!({}));
    assert!(status == 200 && list.contains("facts_propose"), "{list}");
    for name in names {
        assert!(!list.contains(name), "{list}");
        let params = json!({"name": name, "arguments": {"proposal": "p1"}});
        let (_, told) = server.post(&token, "tools/call", params);
        assert!(told.contains("TOOL_") || told.contains("error"), "{told}");
    }
    drop(server);
    // A tool that writes files does not reach the log, and cannot make one up.
    for path in [".toolgate/log.db", ".toolgate/facts.json", "toolgate.yaml"] {
        let args = json!({"path": path, "content": "x"}).to_string();
        assert_ne!(desk.run(&["call", "write_file", &args]).code, 0, "{path}");
    }
    assert!(log.join("log.db").exists());
    assert_eq!(facts(&desk), (json!(0), json!({})));
    desk.ok(&["verify"]);
}

/// A directive that changes the draft is a call of `state_patch`, and passes the gate.
#[test]
fn a_directive_reaches_the_draft_through_the_gate() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "packs: [workspace]\ndirectives:\n  types:\n    patch_draft: {description: Changes the \
         draft., patch: true}\n  modes: [prompt_only]\n",
    );
    let said = |ops: Value| {
        let payload = json!({ "ops": ops });
        let directives = json!([{"type": "patch_draft", "payload": payload}]);
        json!({"text": json!({"assistant_text": "Ok.", "directives": directives}).to_string()})
    };
    let end = json!({"text": json!({"assistant_text": "Done.", "directives": []}).to_string()});
    let replies = [
        said(json!([{"op": "add", "path": "title", "value": "The keeper"}])),
        said(json!([{"op": "set", "path": "/facts/title", "value": "The keeper"}])),
        end,
    ];
    desk.write("s.yaml", &json!({ "replies": replies }).to_string());
    let run = desk.run(&["run", "x", "--model", "script:s.yaml", "--json"]);
    assert!(run.out.contains("INVALID_PATCH_PATH"), "{}{}", run.out, run.err);
    assert_eq!(run.out.matches("\"kind\":\"call_admitted\"").count(), 1, "{}", run.out);
    let out = desk.ok(&["call", "state_get", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["data"]["values"]["/draft"], json!({"title": "The keeper"}));
    assert_eq!(told["data"]["values"]["/facts"], json!({}));
}
