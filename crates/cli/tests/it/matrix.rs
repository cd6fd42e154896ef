//! Every tool × every phase × every way in: exactly the granted cells reach the world.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use toolgate_testkit::mcp::Mode;

use crate::mcp::{Server, made};
use crate::servers::Web;
use crate::support::Desk;

const PHASES: &[&str] = &["WEB", "ONE", "OWN", "BOTH", "NONE"];

/// Each tool as its caller writes it, with the phases that grant it.
const TOOLS: &[(&str, &[&str])] = &[
    ("mcp__x__echo", &["WEB", "ONE", "BOTH"]),
    ("mcp__x__write", &["WEB", "BOTH"]),
    ("mcp__x__env", &["WEB", "BOTH"]),
    ("mcp__z__echo", &["BOTH"]),
    ("mcp__z__env", &["BOTH"]),
    ("mcp__z__write", &[]),
    ("write_file", &["OWN", "BOTH"]),
];

/// A phase leads to the next, so that none of them ends a run.
fn config(x: &Web, y: &Web, first: &str) -> String {
    let tools = [
        "{mcp: [x]}",
        "{mcp: [x/echo]}",
        "{include: [write_file]}",
        "{mcp: [x, z], include: [write_file], exclude: ['mcp:z:write']}",
        "{}",
    ];
    let following = PHASES.iter().cycle().skip(1);
    let phases: Vec<String> = PHASES
        .iter()
        .zip(tools)
        .zip(following)
        .map(|((phase, tools), to)| format!("  {phase}: {{tools: {tools}, transitions: [{to}]}}"))
        .collect();
    format!(
        "packs: [files]\ndefault_phase: {first}\nmcp_servers:\n  x: {{url: '{}'}}\n  \
         z: {{url: '{}'}}\nphases:\n{}\n",
        x.url,
        y.url,
        phases.join("\n")
    )
}

/// A cell: the way in, the phase that holds, the tool.
type Cell = (String, String, String);

/// Arguments by which a call is known in the world.
fn args(way: &str, phase: &str, tool: &str) -> Value {
    let mark = format!("{way}.{phase}.{tool}");
    match tool {
        "write_file" => json!({ "path": format!("world/{mark}"), "content": "x" }),
        _ => json!({ "text": mark }),
    }
}

/// What really happened: the servers' ledgers, and the files that are there.
fn world(desk: &Desk, servers: &[&Web]) -> BTreeSet<Cell> {
    let mut marks: Vec<String> = Vec::new();
    for line in servers.iter().flat_map(|web| web.calls()) {
        let json = line.splitn(3, ' ').nth(2).and_then(|rest| rest.rsplit_once(' ')).unwrap().0;
        let args: Value = serde_json::from_str(json).unwrap();
        marks.push(args["text"].as_str().unwrap().to_owned());
    }
    let files = std::fs::read_dir(desk.project().join("world")).into_iter().flatten();
    marks.extend(files.map(|file| file.unwrap().file_name().into_string().unwrap()));
    let cells = marks.iter().map(|mark| {
        let mut parts = mark.splitn(3, '.').map(str::to_owned);
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    });
    let cells: Vec<Cell> = cells.collect();
    let once: BTreeSet<Cell> = cells.iter().cloned().collect();
    assert_eq!(once.len(), cells.len(), "nothing happened twice: {cells:?}");
    once
}

/// One reply of a model that calls every tool.
fn by_the_model(desk: &Desk, phase: &str) {
    let call =
        |(tool, _): &(&str, &[&str])| json!({ "tool": tool, "args": args("model", phase, tool) });
    let calls: Vec<Value> = TOOLS.iter().map(call).collect();
    let script = json!({ "replies": [{ "calls": calls }, { "text": "Done." }] });
    desk.write("s.yaml", &script.to_string());
    let ran = desk.run(&["run", "x", "--new", "--model", "script:s.yaml"]);
    assert!(ran.out.contains("Done."), "{phase}: {}{}", ran.out, ran.err);
}

fn by_call(desk: &Desk, phase: &str) {
    for (tool, phases) in TOOLS {
        let text = args("call", phase, tool).to_string();
        let ran = desk.run(&["call", tool, &text, "--phase", phase, "--json"]);
        let granted = phases.contains(&phase);
        assert_eq!(ran.code, i32::from(!granted), "{tool} in {phase}: {}{}", ran.out, ran.err);
    }
}

/// A client over pipes, of an older revision: its list is that of the phase.
fn over_pipes(desk: &Desk, phase: &str) {
    let mut command = desk.command();
    command.args(["mcp", "--session", "pipes", "--phase", phase]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": { "name": "test", "version": "0" } });
    let mut requests = vec![("initialize", hello), ("tools/list", json!({}))];
    for (tool, _) in TOOLS {
        requests
            .push(("tools/call", json!({ "name": tool, "arguments": args("pipes", phase, tool) })));
    }
    for (id, (method, params)) in requests.iter().enumerate() {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let ran = child.wait_with_output().unwrap();
    let out = String::from_utf8(ran.stdout).unwrap();
    let answer = |id: usize| -> Value {
        let answers = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        answers
            .into_iter()
            .find(|answer| answer["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {out}"))
    };
    let listed = answer(1)["result"]["tools"].clone();
    let listed: BTreeSet<&str> =
        listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let granted = TOOLS.iter().filter(|(_, phases)| phases.contains(&phase)).map(|(tool, _)| *tool);
    assert_eq!(listed, granted.collect(), "the list in {phase}");
    for (at, (tool, phases)) in TOOLS.iter().enumerate() {
        let failed = answer(at + 2)["result"]["isError"].clone();
        assert_eq!(failed, !phases.contains(&phase), "{tool} in {phase}: {out}");
    }
}

/// Every tool that some phase grants, which is what a client of the newest revision is shown.
fn ever() -> BTreeSet<&'static str> {
    TOOLS.iter().filter(|(_, phases)| !phases.is_empty()).map(|(tool, _)| *tool).collect()
}

/// The address of every phase, while the session is in one of them, and the one for all.
fn over_http(desk: &Desk, token: &str, now: &str) {
    let server = Server::start(desk, &["--session", "http", "--phase", now]);
    for phase in PHASES {
        for (tool, phases) in TOOLS {
            let way = if *phase == now { "http" } else { "astray" };
            let params = json!({ "name": tool, "arguments": args(way, phase, tool) });
            let (status, body) =
                server.post_to(&format!("/mcp/phase/{phase}"), token, "tools/call", params);
            assert_eq!(status, 200, "{body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            let granted = *phase == now && phases.contains(phase);
            assert_eq!(answer["result"]["isError"], !granted, "{tool} at {phase} in {now}: {body}");
        }
    }
    let (_, body) = server.post(token, "tools/list", json!({}));
    let answer: Value = serde_json::from_str(&body).unwrap();
    let listed = answer["result"]["tools"].as_array().unwrap();
    let listed: BTreeSet<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(listed, ever(), "the list of the newest revision in {now}");
    for (tool, phases) in TOOLS {
        let params = json!({ "name": tool, "arguments": args("newest", now, tool) });
        let (_, body) = server.post(token, "tools/call", params);
        let answer: Value = serde_json::from_str(&body).unwrap();
        let granted = phases.contains(&now);
        assert_eq!(answer["result"]["isError"], !granted, "{tool} in {now}: {body}");
        assert!(granted || !body.contains("properties"), "a refusal shows no schema: {body}");
    }
}

/// How many calls of a session were refused, as its log says.
fn refused(desk: &Desk, session: &str) -> usize {
    desk.ok(&["sessions", "export", session]).matches("\"call_refused\"").count()
}

#[test]
fn exactly_the_granted_cells_reach_the_world() {
    let desk = Desk::new();
    let (x, y) = (Web::new(&desk, "x", Mode::Normal), Web::new(&desk, "y", Mode::Normal));
    desk.write("toolgate.yaml", &config(&x, &y, PHASES[0]));
    let (_, token) = made(&desk, &["--session", "http"]);
    for phase in PHASES {
        desk.write("toolgate.yaml", &config(&x, &y, phase));
        by_the_model(&desk, phase);
        by_call(&desk, phase);
        over_pipes(&desk, phase);
        over_http(&desk, &token, phase);
    }
    let mut granted: BTreeSet<Cell> = BTreeSet::new();
    for way in ["model", "call", "pipes", "http", "newest"] {
        for (tool, phases) in TOOLS {
            let cells = phases.iter().map(|phase| (way.into(), (*phase).into(), (*tool).into()));
            granted.extend(cells);
        }
    }
    assert_eq!(world(&desk, &[&x, &y]), granted);
    // Every other cell is in the log as refused.
    let (phases, granted) = (PHASES.len(), granted.len() / 5);
    let cells = phases * TOOLS.len();
    assert_eq!(refused(&desk, "pipes"), cells - granted);
    assert_eq!(refused(&desk, "http"), (cells * phases - granted) + (cells - granted));
    desk.ok(&["verify"]);
}
