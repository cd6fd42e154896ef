//! Tools of MCP servers are listed and checked from what the log has seen; nobody is asked.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::Value;
use toolgate_testkit::mcp::Mode;

use crate::servers::Web;
use crate::support::Desk;
use crate::terminal::typing;

fn config(url: &str) -> String {
    format!(
        "packs: [notes, phase]\nmcp_servers:\n  x: {{url: '{url}', effects: {{echo: read, ecko: read}}}}\n\
         policies: [{{limit: {{tools: ['mcp:x:wirte'], max: 3, per: session}}}}]\nphases:\n  \
         PX: {{tools: {{mcp: [x], groups: [notes, phase], exclude: ['mcp:x:gone', 'mcp:x:env']}}, \
         transitions: [ONE]}}\n  ONE: {{tools: {{mcp: [x/echo, x/later]}}}}\n"
    )
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn tool<'a>(tools: &'a [Value], name: &str) -> &'a Value {
    tools.iter().find(|tool| tool["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn nobody_is_asked_and_what_was_not_seen_is_told() {
    let desk = Desk::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    desk.write("toolgate.yaml", &config(&format!("http://{}/mcp", listener.local_addr().unwrap())));
    let checked = desk.ok(&["check"]);
    assert!(checked.contains("x was not connected to yet"), "{checked}");
    assert!(checked.contains("can be used: 1 note."), "{checked}");
    assert!(checked.contains("mcp:x:later           ○  ○"), "{checked}");
    let listed = desk.ok(&["tools"]);
    assert!(listed.contains("MCP server x: not seen yet; connect once"), "{listed}");
    let tools = lines(&desk.ok(&["tools", "--json", "--phase", "ONE"]));
    assert_eq!(tools.len(), 2, "{tools:?}");
    assert_eq!(tool(&tools, "mcp:x:later")["state"], "not_seen");
    assert!(!desk.project().join(".toolgate").exists(), "looking makes no log");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody connected");
}

#[test]
fn what_was_seen_is_listed_with_how_it_stands() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Change);
    desk.write("toolgate.yaml", &config(&web.url));
    desk.ok(&["tools", "--connect"]);
    let asked = std::fs::read_to_string(&web.ledger).unwrap();
    let tools = lines(&desk.ok(&["tools", "--json"]));
    let echo = tool(&tools, "mcp:x:echo");
    assert_eq!((&echo["wire"], &echo["effect"]), (&"mcp__x__echo".into(), &"read".into()));
    assert_eq!((&echo["state"], &echo["group"]), (&"ready".into(), &"mcp".into()));
    assert_eq!(echo["phases"], serde_json::json!(["PX", "ONE"]));
    assert_eq!(tool(&tools, "mcp:x:write")["effect"], "external");
    assert_eq!(tool(&tools, "mcp:x:env")["phases"], serde_json::json!([]));
    assert_eq!(tool(&tools, "mcp:x:later")["state"], "not_seen");
    assert_eq!(tool(&tools, "list_notes")["state"], Value::Null, "our own have none");
    let checked = desk.ok(&["check"]);
    for (name, help) in
        [("ecko", "`echo`"), ("wirte", "`write`"), ("gone", "toolgate tools"), ("later", "tools")]
    {
        let told = format!("the MCP server x never offered a tool `{name}`");
        let after = checked.split(&told).nth(1).unwrap_or_default();
        let help_line = after.lines().find(|line| line.contains("= help:")).unwrap_or_default();
        assert!(help_line.contains(help), "{name}: {checked}");
    }
    assert!(checked.contains("can be used: 4 warnings."), "{checked}");
    assert_eq!(std::fs::read_to_string(&web.ledger).unwrap(), asked, "nobody was asked again");

    for _ in 0..3 {
        desk.run(&["call", "mcp:x:echo", r#"{"text": "hello"}"#]);
    }
    let listed = desk.ok(&["tools"]);
    let held = "      mcp__x__echo · held back; see: toolgate mcp pins diff mcp:x:echo\n";
    assert!(listed.contains(held), "{listed}");
    assert!(listed.contains("      mcp__x__write · ready\n"), "{listed}");
    assert!(listed.contains("mcp__x__later · its server never offered it\n"), "{listed}");
    assert!(!listed.contains("PASS PRIVATE"), "{listed}");
    let tools = desk.ok(&["tools", "--json"]);
    let held = &tool(&lines(&tools), "mcp:x:echo").clone();
    assert_eq!(held["state"], "held");
    assert!(held["why"].as_str().unwrap().contains("toolgate mcp pins diff mcp:x:echo"), "{held}");
    assert!(!tools.contains("PASS PRIVATE"), "{tools}");
    let checked = desk.ok(&["check"]);
    assert!(checked.contains("mcp:x:echo            ○  ○"), "{checked}");
    for line in listed.lines().chain(checked.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// What was held and came back is believed again, and what is gone is not ready.
#[test]
fn what_came_back_and_what_is_gone_is_told() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Wander);
    desk.write(
        "toolgate.yaml",
        &format!(
            "packs: []\nmcp_servers: {{x: {{url: '{}'}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
            web.url
        ),
    );
    let call = |tool: &str| desk.run(&["call", tool, r#"{"text": "a"}"#]).code;
    assert_eq!((call("mcp:x:write"), call("mcp:x:write"), call("mcp:x:echo")), (0, 0, 1));
    let pins = desk.ok(&["mcp", "pins", "list"]);
    assert!(
        pins.contains("changed   mcp:x:echo") && pins.contains("believed  mcp:x:env"),
        "{pins}"
    );
    let told = desk.run(&["explain", "mcp__x__echo"]);
    assert!(told.out.contains("is held") && told.code == 1, "{}", told.out);
    assert_eq!((call("mcp:x:write"), call("mcp:x:write"), call("mcp:x:echo")), (0, 0, 0));
    let pins = desk.ok(&["mcp", "pins", "list"]);
    assert!(
        pins.contains("believed  mcp:x:echo") && pins.contains("gone      mcp:x:env"),
        "{pins}"
    );
    let tools = lines(&desk.ok(&["tools", "--json"]));
    assert_eq!(tool(&tools, "mcp:x:echo")["state"], "ready");
    assert_eq!(tool(&tools, "mcp:x:env")["state"], "gone");
    desk.ok(&["verify"]);
}

/// What a person rejected is rejected and not gone, whoever asks; the same person can change that.
#[test]
fn what_a_person_rejected_is_told_as_that() {
    let desk = Desk::new();
    let use_server = |web: &Web| {
        let yaml = format!(
            "packs: []\nmcp_servers: {{x: {{url: '{}'}}}}\nphases: {{A: {{tools: {{mcp: [x]}}}}}}\n",
            web.url
        );
        desk.write("toolgate.yaml", &yaml);
    };
    use_server(&Web::new(&desk, "x", Mode::Change));
    let call = |tool: &str| desk.run(&["call", tool, r#"{"text": "a"}"#, "--json"]);
    let decide = |word: &str| {
        let mut command = desk.command();
        command.args(["mcp", "pins", word, "mcp:x:echo"]);
        let mut answers = vec![("or leave to change nothing:", word)];
        if !desk.home().join(".config/toolgate/person.key").exists() {
            answers.push(("press Enter for none:", ""));
        }
        let seen = typing(command, &answers, || {});
        assert_eq!(seen.code, 0, "{}", seen.screen);
        seen.screen
    };
    for _ in 0..3 {
        call("mcp:x:echo");
    }
    decide("reject");
    let how = "toolgate mcp pins accept mcp:x:echo";
    // Also once the server was asked again.
    for _ in 0..2 {
        let pins = desk.ok(&["mcp", "pins", "list"]);
        assert!(pins.contains("rejected  mcp:x:echo"), "{pins}");
        assert!(pins.contains("by human:ada") && pins.contains(how), "{pins}");
        let row = lines(&desk.ok(&["mcp", "pins", "list", "--json"]));
        let row = row.iter().find(|row| row["tool"] == "mcp:x:echo").unwrap();
        assert_eq!((&row["state"], &row["by"]), (&"rejected".into(), &"human:ada".into()), "{row}");
        let in_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed = in_one_line(&desk.ok(&["tools"]));
        assert!(listed.contains("rejected by human:ada") && listed.contains(how), "{listed}");
        assert!(!listed.contains("does not offer it any more"), "{listed}");
        let tools = lines(&desk.ok(&["tools", "--json"]));
        assert_eq!(tool(&tools, "mcp:x:echo")["state"], "rejected");
        let told = desk.run(&["explain", "mcp:x:echo"]);
        assert_eq!(told.code, 1);
        let words = in_one_line(&(told.out + &told.err));
        assert!(words.contains("rejected by human:ada") && words.contains(how), "{words}");
        assert!(!words.contains("No tool is named"), "{words}");
        let ran = call("mcp:x:echo");
        let told: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, &told["errors"][0]["code"]), (1, &"TOOL_HELD".into()), "{told}");
        assert!(told.to_string().contains(how), "{told}");
        assert!(!listed.contains("PRIVATE") && !told.to_string().contains("PRIVATE"));
    }
    assert!(desk.run(&["mcp", "pins", "reject", "mcp:x:echo"]).err.contains("rejected already"));
    // The believed one comes back, and after it the rejected one: it is there to be decided again.
    use_server(&Web::new(&desk, "again", Mode::Change));
    let codes: Vec<i32> = (0..3).map(|_| call("mcp:x:echo").code).collect();
    assert_eq!(codes, [0, 0, 1]);
    let pins = desk.ok(&["mcp", "pins", "list"]);
    assert!(pins.contains("changed   mcp:x:echo"), "{pins}");
    assert!(pins.contains("a person rejected it before"), "{pins}");
    decide("reject");
    let shown = desk.ok(&["mcp", "pins", "diff", "mcp:x:echo"]);
    assert!(shown.contains("was rejected by human:ada") && shown.contains("+   PASS"), "{shown}");
    decide("accept");
    assert!(desk.ok(&["mcp", "pins", "list"]).contains("believed  mcp:x:echo"));
    assert_eq!(call("mcp:x:echo").code, 0);
    desk.ok(&["verify"]);
}

/// A call of a server's tool is explained from what was seen, and such a tool may be chosen.
#[test]
fn tools_of_servers_are_explained_and_chosen() {
    let desk = Desk::new();
    let web = Web::new(&desk, "x", Mode::Normal);
    let yaml = |choice: &str| {
        format!(
            "packs: []\nmcp_servers: {{x: {{url: '{}', short_names: true}}}}\n\
             tool_calling: {{tool_choice: '{choice}'}}\n\
             phases: {{A: {{tools: {{mcp: [x]}}, transitions: [B]}}, B: {{tools: {{}}}}}}\n",
            web.url
        )
    };
    desk.write("toolgate.yaml", &yaml("auto"));
    let told = desk.run(&["explain", "mcp:x:echo", r#"{"text": "a"}"#]);
    assert!(told.code == 1 && told.out.contains("No tool is named"), "{}", told.out);
    desk.ok(&["tools", "--connect"]);
    let asked = std::fs::read_to_string(&web.ledger).unwrap();
    for name in ["mcp:x:echo", "mcp__x__echo", "echo"] {
        let told = desk.ok(&["explain", name, r#"{"text": "a"}"#]);
        assert!(told.contains("It would run.") && told.contains("unknown"), "{told}");
        assert_eq!(desk.run(&["explain", name, r#"{"text": 5}"#, "--phase", "B"]).code, 1);
        desk.write("toolgate.yaml", &yaml(name));
        desk.ok(&["check"]);
    }
    let told = desk.run(&["explain", "echo", r#"{"txet": "a"}"#]);
    assert!(told.code == 1 && told.out.contains("⊘ validate"), "{}", told.out);
    desk.write("toolgate.yaml", &yaml("mcp:y:echo"));
    assert!(desk.run(&["check"]).out.contains("no tool is named"), "its server is not configured");
    assert_eq!(std::fs::read_to_string(&web.ledger).unwrap(), asked, "nobody was asked");
}
