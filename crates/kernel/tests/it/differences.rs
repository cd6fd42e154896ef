//! How two configurations differ, and how the text of one is kept: readable, and without secrets.

use proptest::prelude::*;
use toolgate_kernel::config::{AgentText, ConfigDifference, Secret, Severity, masked_text, read};

use crate::support::cases;

fn text(yaml: &str) -> AgentText {
    let reading = read(yaml.as_bytes());
    assert!(reading.findings.is_empty(), "{yaml}: {:?}", reading.findings);
    reading.text
}

fn lines(before: &str, after: &str) -> Vec<String> {
    let found = ConfigDifference::between(&text(before), &text(after)).to_string();
    found.lines().map(str::to_owned).collect()
}

const RULES: &str = "policies:
  - rule: {tools: [pay], ask: 'amount > 10', message: a}
  - name: two
    limit: {tools: [pay], per: turn, max: 3}
";

/// Before, after, and the lines of the difference.
const DIFFERENCES: &[(&str, &str, &[&str])] = &[
    ("packs: [notes]", "packs: [notes] # A comment.\n", &[]),
    ("packs: [notes]", "packs: [notes]\nsettings: {auto_pilot: true}", &[]),
    ("name: a", "name: b", &[r#"~ name: "a" → "b""#]),
    ("deny: [a, b]", "deny: [a]", &[r#"- deny: "b""#]),
    ("deny: [a]", "deny: [a, b, c]", &[r#"+ deny: "b""#, r#"+ deny: "c""#]),
    ("deny: [a, b]", "deny: [b, a]", &[r#"~ deny: ["a","b"] → ["b","a"]"#]),
    ("packs: [notes]", "allow: []\npacks: [notes]", &["+ allow: []"]),
    (
        "packs: [notes]",
        "limits: {call_ms_max: 5}\npacks: [notes]",
        &["~ limits.call_ms_max: 60000 → 5"],
    ),
    (
        "packs: [notes]",
        "packs: [notes]\nmcp_servers: {github: {command: npx, args: [-y, x], env: {GITHUB_TOKEN: 'env:GITHUB_TOKEN', PAT: CANARY}}}",
        &[
            r#"+ mcp_servers.github: args ["-y","x"], command "npx", env.GITHUB_TOKEN "env:GITHUB_TOKEN", env.PAT "***", transport "stdio""#,
        ],
    ),
    (
        "mcp_servers: {a: {command: npx, args: [--token, CANARY]}}",
        "mcp_servers: {a: {command: sh, args: [--token, CANARY2]}}",
        &[
            r#"~ mcp_servers.a.command: "npx" → "sh""#,
            r#"~ mcp_servers.a.args: ["--token","***"] (another value)"#,
        ],
    ),
    (
        "mcp_servers: {a: {command: x, env: {A: 'env:B', C: CANARY, D: 'https://good.example', E: e}}}",
        "mcp_servers: {a: {command: x, env: {A: 'env:F', C: CANARY2, D: 'https://evil.example'}}}",
        &[
            r#"~ mcp_servers.a.env.A: "env:B" → "env:F""#,
            r#"~ mcp_servers.a.env.C: "***" (another value)"#,
            r#"~ mcp_servers.a.env.D: "https://good.example" → "https://evil.example""#,
            r#"- mcp_servers.a.env.E: "***""#,
        ],
    ),
    (
        "models: {a: {model: b, api_key: CANARY}}",
        "models: {a: {model: b, api_key: 'env:K'}}",
        &[r#"~ models.a.api_key: "literal" → "env:K""#],
    ),
    ("models: {a: {model: b, api_key: CANARY}}", "models: {a: {model: b, api_key: CANARY2}}", &[]),
    (
        "models: {a: {model: b, options: {api_key: CANARY}}}",
        "models: {a: {model: b, options: {api_key: CANARY2, user_key: 5}}}",
        &[
            r#"~ models.a.options.api_key: "***" (another value)"#,
            r#"+ models.a.options.user_key: "***""#,
        ],
    ),
    (
        "web: {searxng_url: 'http://ada:CANARY@a.example/x'}",
        "web: {searxng_url: 'http://ada:CANARY@b.example/x?key=CANARY'}",
        &[r#"~ web.searxng_url: "http://***@a.example/x" → "http://***@b.example/x?***""#],
    ),
    (
        "phases: {A: {}, B: {}}",
        "phases: {A: {tools: [x]}, B: {}}",
        &[r#"+ phases.A.tools: groups ["x"]"#],
    ),
];

#[test]
fn differences_are_told_key_by_key() {
    for (before, after, wanted) in DIFFERENCES {
        assert_eq!(lines(before, after), *wanted, "{before}\n{after}");
    }
}

#[test]
fn rules_are_compared_one_by_one() {
    let weaker = RULES.replace("amount > 10", "amount > 1000");
    let wanted = r#"~ policies[0].rule.ask: "amount > 10" → "amount > 1000""#;
    assert_eq!(lines(RULES, &weaker), [wanted]);
    // One that is taken out or put in front is not a change of all that follow.
    let second = "policies:\n  - name: two\n    limit: {tools: [pay], per: turn, max: 3}\n";
    let rule = r#"rule.ask "amount > 10", rule.message "a", rule.tools ["pay"]"#;
    assert_eq!(lines(RULES, second), [format!("- policies[0]: {rule}")]);
    assert_eq!(lines(second, RULES), [format!("+ policies[0]: {rule}")]);
    // Those of one name are compared wherever they stand.
    let raised = second.replace("max: 3", "max: 30");
    let told = lines(RULES, &raised);
    assert_eq!(told, [format!("- policies[0]: {rule}"), "~ policies[0].limit.max: 3 → 30".into()]);
}

#[test]
fn differences_are_bounded_and_show_where_they_begin() {
    let long = "x".repeat(5_000);
    let told = lines(
        &format!("system_prompt: '{long} before {long}'"),
        &format!("system_prompt: '{long} after {long}'"),
    );
    assert_eq!(told.len(), 1);
    assert!(told[0].len() < 400 && told[0].contains(" before x") && told[0].contains(" after x"));
    let many: String = (0..1_000).map(|n| format!("  - a{n}\n")).collect();
    let of = |key: &str| (format!("{key}:\n  - a\n"), format!("{key}:\n  - a\n{many}"));
    // What is allowed is never left off: the change that matters could hide behind others.
    let (before, after) = of("deny");
    assert_eq!(lines(&before, &after).len(), 1_000);
    let rules =
        |text: &str| format!("phases:\n  P:\n    rules:\n{}", text.replace("  - ", "      - "));
    let told = lines(&rules("  - a\n"), &rules(&format!("  - a\n{many}")));
    assert_eq!((told.len(), told[200].as_str()), (201, "… and 800 more"));
}

/// A file and the text that is kept of it.
const KEPT: &[(&str, &str)] = &[
    ("settings: {api_key: CANARY-12} # CANARY-12\n", "settings: {api_key: \"***\"} # ***\n"),
    (
        "settings:\n  api_key: 'CANARY-12'\n  model: a\n",
        "settings:\n  api_key: \"***\"\n  model: a\n",
    ),
    ("settings: {api_key: \"env:KEY\"}\n", "settings: {api_key: \"env:KEY\"}\n"),
    ("settings: {api_key: }\n", "settings: {api_key: }\n"),
    ("settings: {api_key: ~}\n", "settings: {api_key: ~}\n"),
    (
        "models: {a: {model: b, headers: {A: 'Bearer CANARY-12', B: 'Bearer ${KEY}'}}}\n",
        "models: {a: {model: b, headers: {A: \"***\", B: \"***${KEY}\"}}}\n",
    ),
    // The same secret elsewhere: as a value, inside of one, as an anchor's alias.
    (
        "settings: {api_key: CANARY-12}\nname: CANARY-12\ndescription: not CANARY-12!\n",
        "settings: {api_key: \"***\"}\nname: \"***\"\ndescription: \"not ***!\"\n",
    ),
    (
        "settings: {api_key: &key CANARY-12}\nmodels: {a: {model: b, api_key: *key}}\n",
        "settings: {api_key: &key \"***\"}\nmodels: {a: {model: b, api_key: \"***\"}}\n",
    ),
    // A word of the form itself stays where it is one.
    (
        "models: {a: {provider: openrouter, model: b, api_key: openrouter}} # CANARY-12\nsettings: {api_key: CANARY-12}\n",
        "models: {a: {provider: openrouter, model: b, api_key: \"***\"}} # ***\nsettings: {api_key: \"***\"}\n",
    ),
    ("settings: {api_key: settings}\n", "settings: {api_key: \"***\"}\n"),
    // A short one is masked in its place only.
    ("settings: {api_key: abc}\nname: abc\n", "settings: {api_key: \"***\"}\nname: abc\n"),
    (
        "mcp_servers:\n  auth: {command: x, env: {HOST: api.example, PORT: '8080'}, effects: {token: read}}\n",
        "mcp_servers:\n  auth: {command: x, env: {HOST: \"***\", PORT: \"***\"}, effects: {token: read}}\n",
    ),
    (
        "web: {searxng_url: 'http://ada:CANARY-12@a.example/x'} # CANARY-12\n",
        "web: {searxng_url: \"http://***@a.example/x\"} # ***\n",
    ),
    (
        "models: {a: {model: b, options: {x_key: CANARY-12}}}\n",
        "models: {a: {model: b, options: {x_key: \"***\"}}}\n",
    ),
    (
        "system_prompt: |\n  Secret agents write.\n  token abc\n",
        "system_prompt: |\n  Secret agents write.\n  token abc\n",
    ),
];

#[test]
fn the_kept_text_has_no_secret_and_can_be_read() {
    for (file, wanted) in KEPT {
        let kept = masked_text(file.as_bytes()).unwrap();
        assert_eq!(kept, *wanted);
        let again = read(kept.as_bytes());
        assert!(!again.refused(), "{kept}: {:?}", again.findings);
    }
    assert_eq!(masked_text(b"a: [b"), None);
    assert_eq!(masked_text(b"\xff"), None);
}

/// Secrets in every form of YAML; where one cannot be written over, the text is JSON.
#[test]
fn secrets_in_any_form_are_masked() {
    for file in [
        "settings:\n  api_key: |\n    CANARY-12\n    CANARY-34\n  model: a\n",
        "settings:\n  api_key: >-\n    CANARY-12\n    CANARY-34\n  model: a\n",
        "settings:\n  api_key: CANARY-12\n    CANARY-34\n  model: a\n",
        "settings:\n  api_key: \"CANARY\\x2d12\"\n  model: a # CANARY-12\n",
        "settings:\n  api_key: 'it''s CANARY-12'\n  model: a\n",
        "settings:\n  ? api_key\n  : CANARY-12\n  model: a\n",
        "settings:\n  api_key: !!str CANARY-12\n  model: a\n",
        "settings: {api_key: CANARY-12, model: a}\ntool_groups: {CANARY-12: [a]}\n",
        "{\"settings\": {\"api_key\": \"CANARY-12\", \"model\": \"a\"}}",
        "settings:\n  model: CANARY-12\n  api_key: CANARY-12\n",
        "settings:\n  model: >\n    a CANARY-12\n    b\n  api_key: CANARY-12\n",
    ] {
        let kept = masked_text(file.as_bytes()).unwrap();
        assert!(!kept.contains("CANARY"), "{file}\n{kept}");
        let again = read(kept.as_bytes());
        let text = &again.text;
        assert_eq!(text.settings.api_key, Some(Secret::new("***")), "{file}\n{kept}");
        assert!(text.settings.model.is_some(), "{file}\n{kept}");
    }
}

/// What is kept differs from the file in literal secrets only.
#[test]
fn the_kept_text_says_the_same() {
    let document = include_str!("../data/document_000.yaml");
    let kept = masked_text(document.as_bytes()).unwrap();
    assert!(!kept.contains("\"lm-studio\"") && kept.contains('#'), "{kept}");
    let (before, after) = (read(document.as_bytes()), read(kept.as_bytes()));
    assert!(after.findings.iter().all(|finding| finding.severity != Severity::Error));
    let difference = ConfigDifference::between(&before.text, &after.text);
    assert_eq!(difference.changes, []);
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_secret_is_kept(secret in "[ -~]{8,20}", quoted in any::<bool>()) {
        let literal = secret.trim();
        prop_assume!(literal.len() >= 8 && !literal.contains("***"));
        prop_assume!(!["env:", "file:"].iter().any(|kind| secret.starts_with(kind)));
        prop_assume!(!secret.contains("${"));
        let written = match quoted {
            true => serde_json::to_string(&secret).unwrap(),
            false => format!("'{}'", secret.replace('\'', "''")),
        };
        let file = format!(
            "# {secret}\nsettings: {{api_key: {written}}}\nsystem_prompt: |\n  Say {secret}.\n",
        );
        let kept = masked_text(file.as_bytes()).unwrap();
        prop_assert!(!kept.contains(literal), "{}", kept);
        let again = read(kept.as_bytes());
        prop_assert!(!again.refused(), "{}", kept);
        prop_assert_eq!(again.text.settings.api_key, Some(Secret::new("***")));
    }
}
