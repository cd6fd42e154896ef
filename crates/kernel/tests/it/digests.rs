//! Every key of a configuration belongs to exactly one digest, and every change of it is seen there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::config::{AgentText, COSMETIC, ConfigDigests, Severity, read};
use toolgate_kernel::section::Section;

use crate::support::{built, section};
use toolgate_kernel::tool::SpecDraft;

const REACH: &[&str] = &["reach"];
const GATE: &[&str] = &["gate"];
const REST: &[&str] = &["rest"];

fn sections() -> Vec<Section> {
    vec![section(
        "notes",
        ["read_notes", "write_notes"]
            .map(|name| built(SpecDraft::new(name, "A tool.").group("notes")))
            .to_vec(),
    )]
}

/// The digests of a file that can be used.
fn digests(yaml: &str) -> ConfigDigests {
    let checked = read(yaml.as_bytes()).check(sections());
    let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error);
    assert_eq!(errors.collect::<Vec<_>>(), Vec::<&_>::new(), "{yaml}");
    ConfigDigests::of(&checked.text, checked.agent().unwrap())
}

fn changed(before: &ConfigDigests, after: &ConfigDigests) -> Vec<&'static str> {
    let parts = [
        ("reach", before.reach != after.reach),
        ("gate", before.gate != after.gate),
        ("rest", before.rest != after.rest),
    ];
    parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

/// A configuration with a place for every key. It is only read, never used: a policy has one kind.
fn base() -> Value {
    json!({
        "agents": {"one": {}},
        "mcp_servers": {"one": {"oauth": {}, "labels": {"one": {}}}},
        "models": {"one": {"tool_calling": {}}},
        "directives": {"types": {"one": {}}},
        "phases": {"one": {"transitions": [{"to": "one"}]}},
        "policies": [{
            "read_before_write": {},
            "limit": {"tools": [], "per": "turn", "max": 1},
            "rate": {"tools": [], "max": 1, "window_ms": 1},
            "rule": {"tools": [], "message": "", "match": [{"args": {}}], "not_match": [{"args": {}}]},
        }],
    })
}

/// Two values for keys whose type alone does not say which values they take.
const EXAMPLES: &[(&str, &str, &str)] = &[
    // Literal secrets are all the same.
    ("settings.api_key", r#""env:ONE""#, r#""env:TWO""#),
    ("models.*.api_key", r#""file:one""#, r#""file:two""#),
    ("models.*.headers", r#"{"One": "a"}"#, r#"{"Two": "a"}"#),
    ("mcp_servers.*.env", r#"{"ONE": "${ONE}"}"#, r#"{"ONE": "${TWO}"}"#),
    ("mcp_servers.*.headers", r#"{"One": "a ${ONE}"}"#, r#"{"One": "a ${TWO}"}"#),
    ("mcp_servers.*.auth", r#""env:ONE""#, r#""literal""#),
    ("mcp_servers.*.oauth.client_secret", r#""env:ONE""#, r#""file:ONE""#),
    ("tool_groups", r#"{"one": ["two"]}"#, r#"{"one": ["three"]}"#),
    ("budget.total_tokens_max", "5", r#""none""#),
    ("policies.*.sequential", r#"{"one": ["two"]}"#, r#"{"one": ["two", "three"]}"#),
];

/// A key of the schema: its path, and two values for it.
struct Leaf {
    path: String,
    values: (Value, Value),
}

/// Every key of the schema that holds a value and not only other keys.
fn leaves() -> Vec<Leaf> {
    let schema = schemars::schema_for!(AgentText).to_value();
    let mut found = Vec::new();
    walk(&schema, &schema, "", &mut found);
    found
}

fn walk(root: &Value, form: &Value, path: &str, found: &mut Vec<Leaf>) {
    let inside = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let leaf = |one: Value, two: Value| Leaf { path: path.to_owned(), values: (one, two) };
    if let Some((_, one, two)) = EXAMPLES.iter().find(|(key, ..)| *key == path) {
        let example = |text| serde_json::from_str(text).unwrap();
        return found.push(leaf(example(one), example(two)));
    }
    if let Some(name) = form["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).unwrap();
        return walk(root, target, path, found);
    }
    let words = form["oneOf"].as_array().map(|forms| forms.iter().map(|form| &form["const"]));
    let words: Vec<Value> = words.into_iter().flatten().cloned().collect();
    if let Some(first) = words.first().filter(|word| word.is_string()) {
        return found.push(leaf(first.clone(), words.last().unwrap().clone()));
    }
    for form in form["anyOf"].as_array().into_iter().flatten() {
        if form["type"] != "null" {
            walk(root, form, path, found);
        }
    }
    if form["anyOf"].is_array() {
        return;
    }
    if let Some(properties) = form["properties"].as_object() {
        return properties.iter().for_each(|(key, form)| walk(root, form, &inside(key), found));
    }
    let others = form["patternProperties"].as_object().and_then(|forms| forms.values().next());
    let others =
        others.or_else(|| form.get("additionalProperties").filter(|form| form.is_object()));
    if let Some(others) = others {
        return walk(root, others, &inside("*"), found);
    }
    let kinds = form["type"].as_array().map_or(std::slice::from_ref(&form["type"]), Vec::as_slice);
    let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
    found.push(match kinds.iter().find(|kind| **kind != "null") {
        Some(&"boolean") => leaf(json!(true), json!(false)),
        Some(&"integer") => leaf(json!(3), json!(4)),
        Some(&"string") => leaf(json!("one"), json!("two")),
        Some(&"object") => leaf(json!({"one": 1}), json!({"one": 2})),
        Some(&"array") => return walk(root, &form["items"], &inside("*"), found),
        other => panic!("{path} has no example: {other:?}, {form}"),
    });
}

/// The base with a value at a path; a `*` is the first entry there.
fn with(path: &str, value: &Value) -> Value {
    let mut whole = base();
    let mut here = &mut whole;
    for step in path.split('.') {
        here = match (step, here) {
            ("*", Value::Array(items)) => {
                if items.is_empty() {
                    items.push(Value::Null);
                }
                &mut items[0]
            }
            ("*", here @ Value::Null) => {
                // A list or a map: what fits is tried by the caller.
                *here = json!([null]);
                &mut here[0]
            }
            ("*", here) => &mut here["one"],
            (key, here) => &mut here[key],
        };
    }
    *here = value.clone();
    whole
}

/// The same as a configuration, with a map in place of a list where only that can be read.
fn text_with(path: &str, value: &Value) -> AgentText {
    let list = with(path, value);
    serde_json::from_value(list.clone()).unwrap_or_else(|first| {
        let Some(outer) = path.strip_suffix(".*") else { panic!("{path}: {first}") };
        let map = with(outer, &json!({"one": value}));
        serde_json::from_value(map).unwrap_or_else(|second| {
            panic!("{path} needs a row in EXAMPLES: {first}, {second}: {list}")
        })
    })
}

/// A new key gets its place here: `UPDATE=1` writes the list of which digest holds which key.
#[test]
fn every_key_changes_exactly_one_digest() {
    let agent = Agent::build(AgentDraft::new("one", sections())).unwrap();
    let mut parts: BTreeMap<String, &'static str> = BTreeMap::new();
    let all = leaves();
    assert!(all.len() > 180, "only {} keys were found", all.len());
    for Leaf { path, values } in &all {
        let one = ConfigDigests::of(&text_with(path, &values.0), &agent);
        let two = ConfigDigests::of(&text_with(path, &values.1), &agent);
        match (changed(&one, &two).as_slice(), COSMETIC.contains(&path.as_str())) {
            ([part], false) => assert!(parts.insert(path.clone(), part).is_none_or(|p| p == *part)),
            ([], true) => {}
            (found, _) => panic!("{path} changes {found:?}"),
        }
    }
    let mut listed = String::new();
    parts.iter().for_each(|(path, part)| writeln!(listed, "{part} {path}").unwrap());
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/digest_parts.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &listed).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap();
    let only = |one: &str, other: &str| -> Vec<String> {
        let other: BTreeSet<&str> = other.lines().collect();
        one.lines().filter(|line| !other.contains(line)).map(str::to_owned).collect()
    };
    let differences = (only(&listed, &kept), only(&kept, &listed));
    assert_eq!(differences, (vec![], vec![]), "look at it, then UPDATE=1");
}

const FILE: &str = r#"
packs: [notes]
web: {searxng_url: "http://localhost:8888"}
models:
  writer: {provider: ollama, model: qwen3, options: {temperature: 0.5}}
mcp_servers:
  bank:
    command: npx
    args: ["-y", "bank-server"]
    env: {TOKEN: "env:BANK_TOKEN", API_HOST: api.bank.example, PIN_SECRET: abcd}
    effects: {balance: read}
agents:
  ada: {enabled_tools: [read_notes]}
policies:
  - rule: {tools: ["mcp:bank:pay"], ask: "args.amount > 10", message: "A payment."}
  - limit: {tools: ["mcp:bank:pay"], per: session, max: 3}
  - rule: {tools: ["mcp:bank:close"], deny: "true", message: "Never."}
deny: ["mcp:bank:wipe"]
phases:
  PLAN: {tools: {groups: [notes], mcp: [bank], exclude: [write_notes]}, transitions: [ACT]}
  ACT: {guide: "Be kind."}
"#;

/// What stands in the file, what is written in its place, and the digests that must change.
const EDITS: &[(&str, &str, &str, &[&str])] = &[
    (
        "an ask rule is removed",
        "  - rule: {tools: [\"mcp:bank:pay\"], ask: \"args.amount > 10\", message: \"A payment.\"}\n",
        "",
        GATE,
    ),
    ("an ask rule is weakened", "amount > 10", "amount > 1000", GATE),
    ("the message of a rule", "A payment.", "A small one.", GATE),
    ("a limit is raised", "max: 3", "max: 300", GATE),
    (
        "a limit is removed",
        "  - limit: {tools: [\"mcp:bank:pay\"], per: session, max: 3}\n",
        "",
        GATE,
    ),
    ("a deny rule over a server's tool", "deny: \"true\"", "deny: \"false\"", GATE),
    ("a tool is denied no more", "deny: [\"mcp:bank:wipe\"]", "deny: []", GATE),
    ("an effect", "balance: read", "balance: read, pay: read", GATE),
    ("the command of a server", "command: npx", "command: bunx", REACH),
    ("the arguments of a server", "bank-server", "bank-server@2", REACH),
    ("a variable is taken from elsewhere", "env:BANK_TOKEN", "env:AWS_SECRET", REACH),
    ("a plain variable of a program", "api.bank.example", "api.evil.example", REACH),
    ("a variable more", "{TOKEN:", "{A: b, TOKEN:", REACH),
    ("a new server", "mcp_servers:\n", "mcp_servers:\n  more: {command: sh}\n", &["reach", "gate"]),
    ("a phase excludes less", "exclude: [write_notes]", "exclude: []", GATE),
    ("the tools of an agent", "[read_notes]", "[read_notes, write_notes]", GATE),
    ("the provider", "provider: ollama", "provider: openai", REACH),
    ("the model", "qwen3", "qwen4", REACH),
    ("the address of the search", "localhost:8888", "search.example", REACH),
    ("redirects are followed", "{searxng_url:", "{follow_redirects: true, searxng_url:", REACH),
    (
        "an address of a model",
        "model: qwen3",
        "model: qwen3, base_url: \"https://x.example\"",
        REACH,
    ),
    ("an option of the provider", "temperature: 0.5", "temperature: 0.5, plugins: [web]", REACH),
    ("the pack of the files", "packs: [notes]", "packs: [notes, files]", GATE),
    ("a call limit", "packs:", "limits: {call_ms_max: 1}\npacks:", GATE),
    ("another first phase", "packs:", "default_phase: ACT\npacks:", GATE),
    (
        "the order of rules",
        "policies:\n",
        "policies:\n  - rule: {tools: [read_notes], deny: \"false\", message: a}\n",
        GATE,
    ),
    ("sampling", "temperature: 0.5", "temperature: 0.6", REST),
    ("a prompt", "Be kind.", "Be brief.", REST),
    ("a budget", "packs:", "budget: {total_tokens_max: 5}\npacks:", REST),
    ("a setting", "packs:", "settings: {auto_pilot: false}\npacks:", REST),
    ("a literal secret", "PIN_SECRET: abcd", "PIN_SECRET: efgh", &[]),
    ("a comment", "packs:", "# Why.\npacks:", &[]),
    (
        "a default written out",
        "packs:",
        "settings: {auto_pilot: true}\nversion: \"1.0\"\npacks:",
        &[],
    ),
    ("the default phase written out", "packs:", "default_phase: PLAN\npacks:", &[]),
    ("the transport written out", "command: npx", "command: npx\n    transport: stdio", &[]),
    (
        "the address of the provider",
        "model: qwen3",
        "model: qwen3, base_url: \"http://127.0.0.1:11434\"",
        &[],
    ),
    ("quotes", "command: npx", "\"command\": 'npx'", &[]),
    ("a transition written out", "transitions: [ACT]", "transitions: [{to: ACT}]", &[]),
    (
        "the order of keys",
        "{provider: ollama, model: qwen3,",
        "{model: qwen3, provider: ollama,",
        &[],
    ),
    (
        "the order of variables",
        "{TOKEN: \"env:BANK_TOKEN\", API_HOST: api.bank.example,",
        "{API_HOST: api.bank.example, TOKEN: \"env:BANK_TOKEN\",",
        &[],
    ),
];

#[test]
fn every_edit_changes_the_digest_it_should() {
    let before = digests(FILE);
    for (about, from, to, wanted) in EDITS {
        assert!(FILE.contains(from), "{about}: {from}");
        let after = digests(&FILE.replacen(from, to, 1));
        assert_eq!(changed(&before, &after), *wanted, "{about}");
        let trusted = wanted.contains(&"reach") || wanted.contains(&"gate");
        assert_eq!(before.trust_digest() != after.trust_digest(), trusted, "{about}");
    }
}

#[test]
fn order_counts_where_it_has_a_meaning() {
    let order = |one: &str, two: &str| {
        let rule = |name: &str| {
            format!("  - rule: {{tools: [read_notes], deny: 'false', message: {name}}}\n")
        };
        digests(&format!("packs: [notes]\npolicies:\n{}{}", rule(one), rule(two)))
    };
    assert_eq!(changed(&order("a", "b"), &order("b", "a")), GATE);
    // A session starts in the first phase, so the first one counts; the order of others does not.
    let phases = |names: [&str; 3]| {
        let mut yaml = "packs: [notes]\nphases:\n".to_owned();
        names
            .iter()
            .for_each(|name| writeln!(yaml, "  {name}: {{transitions: [A, B, C]}}").unwrap());
        digests(&yaml)
    };
    assert_eq!(changed(&phases(["A", "B", "C"]), &phases(["B", "A", "C"])), GATE);
    assert_eq!(changed(&phases(["A", "B", "C"]), &phases(["A", "C", "B"])), [""; 0]);
}

/// The versions of the program's own tools are part of the gate, those of servers are pinned.
#[test]
fn another_version_of_a_built_in_tool_changes_the_gate() {
    let of = |sections: Vec<Section>| {
        let checked = read(b"packs: [notes]\n").check(sections);
        ConfigDigests::of(&checked.text, checked.agent().unwrap())
    };
    let mut other = sections();
    other[0].tools[1] = built(SpecDraft::new("write_notes", "A tool that does more."));
    assert_eq!(changed(&of(sections()), &of(other)), GATE);
}

/// Digests that an operator wrote down must hold on every machine.
#[test]
fn the_digests_of_a_file_are_these() {
    let found = digests(FILE);
    let shown = [found.reach, found.gate, found.rest, found.trust_digest()].map(|d| d.short());
    assert_eq!(shown, ["40e9e47dbab4", "4595efd57538", "25b080815e0e", "f69f0fcab819"]);
}
