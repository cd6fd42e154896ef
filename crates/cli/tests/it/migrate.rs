//! `migrate`: names of tools are written otherwise, and everything around them stays; and what the
//! web tool says by way of the binary.

use serde_json::Value;

use crate::support::Desk;

const OLD: &str = "\
# Mine.
packs: [web]
settings: {api_key: sk-CANARY-1234567890}
phases:
  look:  # around
    tools:
      include:
        - WebSearchTool  # finds
        - WebFetchTool
policies:
  - rule: {tools: [WebFetchTool], deny: 'false', message: No.}
";

const NEW: &str = "\
# Mine.
packs: [web]
settings: {api_key: sk-CANARY-1234567890}
phases:
  look:  # around
    tools:
      include:
        - web  # finds
policies:
  - rule: {tools: [web], deny: 'false', message: No.}
";

fn read(desk: &Desk) -> String {
    std::fs::read_to_string(desk.project().join("toolgate.yaml")).unwrap()
}

#[test]
fn names_are_shown_first_and_written_then_and_taken_back() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", OLD);
    let shown = desk.ok(&["migrate", "--dry-run"]);
    assert_eq!(read(&desk), OLD, "nothing is written");
    assert!(shown.contains("-   8         - WebSearchTool  # finds"), "{shown}");
    assert!(shown.contains("+   8         - web  # finds"), "{shown}");
    assert!(shown.contains("3 names would be changed; nothing is written."), "{shown}");
    let json: Value = serde_json::from_str(&desk.ok(&["migrate", "--json"])).unwrap();
    assert_eq!((&json["changed"], &json["written"]), (&true.into(), &true.into()));
    assert_eq!(
        json["renamed"][1],
        serde_json::json!({"line": 9, "from": "WebFetchTool", "to": []})
    );
    assert_eq!(read(&desk), NEW);
    assert!(desk.ok(&["migrate"]).contains("nothing to change"));
    let back = desk.ok(&["migrate", "--reverse"]);
    assert!(
        read(&desk).contains("        - WebSearchTool\n        - WebFetchTool  # finds\n"),
        "{back}"
    );
    assert!(read(&desk).contains("tools: [WebSearchTool, WebFetchTool]"), "{back}");
    assert!(![shown, back].concat().contains("CANARY"));
    let leftovers = std::fs::read_dir(desk.project()).unwrap();
    assert_eq!(leftovers.count(), 1, "no temporary file stays");
}

#[test]
fn what_takes_a_person_is_left_and_told() {
    let desk = Desk::new();
    let two = "policies:\n  - sequential: {WebFetchTool: [a], WebSearchTool: [b]}\n";
    desk.write("toolgate.yaml", two);
    let ran = desk.run(&["migrate"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains("line 2: WebFetchTool stays"), "{}", ran.out);
    assert_eq!(read(&desk), two);
    desk.write("toolgate.yaml", "allow: [");
    desk.write("other.yaml", "allow: [WebFetchTool]\n");
    let ran = desk.run(&["migrate", "other.yaml", "toolgate.yaml"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(ran.err.contains("this is not YAML"), "{}", ran.err);
    let other = std::fs::read_to_string(desk.project().join("other.yaml")).unwrap();
    assert_eq!(other, "allow: [WebFetchTool]\n", "nothing is written before all were read");
    assert_eq!(Desk::new().run(&["migrate"]).code, 2, "there is nothing to migrate");
}

/// A former name works and is told; a policy by a former name holds.
#[test]
fn former_names_still_lead_to_their_tool() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", &OLD.replace("deny: 'false'", "deny: 'true'"));
    let checked = desk.ok(&["check"]);
    assert_eq!(checked.matches("warning[former_name]").count(), 3, "{checked}");
    assert!(checked.contains("`WebSearchTool` is a former name of the tool `web`"), "{checked}");
    assert!(checked.contains("toolgate migrate"), "{checked}");
    let args = r#"{"action": "fetch", "url": "http://127.0.0.1/"}"#;
    for name in ["web", "WebFetchTool"] {
        let ran = desk.run(&["call", name, args, "--json"]);
        assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);
        assert!(ran.out.contains("POLICY_DENIED"), "{name}: {}", ran.out);
    }
}

/// URL-096 and P17 from outside: nothing on this computer is reached, and no proxy is used.
#[test]
fn nothing_on_this_computer_is_reached() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [web]\nweb: {follow_redirects: true}\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = format!("http://127.0.0.1:{port}");
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://nowhere.invalid/".to_owned(),
    ] {
        let args = serde_json::json!({ "action": "fetch", "url": url }).to_string();
        let mut command = desk.command();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
            command.env(name, &proxy);
        }
        let ran = command.args(["call", "web", &args, "--json"]).output().unwrap();
        let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(
            (&told["ok"], &told["data"]["type"]),
            (&false.into(), &"error".into()),
            "{told}"
        );
    }
    assert!(listener.accept().is_err(), "somebody was connected to");
}

#[test]
fn a_configuration_of_the_web_is_checked() {
    let desk = Desk::new();
    desk.write(
        "toolgate.yaml",
        "packs: [notes]\nweb: {searxng_url: 'http://a:b@x/?q', searches_max: 0, pages_max: 101}\n",
    );
    let ran = desk.run(&["check"]);
    assert_eq!(ran.code, 2);
    for words in
        ["searches_max is 0", "pages_max is 101: at most 100", "error[server]", "warning[idle]"]
    {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}
