//! Every tool × every phase × every way in: what is listed, what runs, and what the world saw.

use serde_json::{Value, json};

use crate::stage::{Ask, Stage, told};

const TOOLS: &[&str] =
    &["alpha", "beta", "nowhere", "common", "move_on", "slow", "record", "asked", "hide", "watch"];

/// What each phase grants, as the configuration says it.
fn granted(phase: &str) -> &'static [&'static str] {
    match phase {
        "A" => &["alpha", "common", "asked", "move_on", "record", "hide", "watch", "leave", "slow"],
        _ => &["beta", "common", "move_on"],
    }
}

/// Every tool that some phase grants, in the order they were declared.
const EVER: &[&str] =
    &["alpha", "beta", "common", "asked", "move_on", "record", "hide", "watch", "leave", "slow"];

#[derive(Clone, Copy, Debug)]
enum Entry {
    Older,
    Newest,
    Address(&'static str),
    BoundToken(&'static str),
}

const ENTRIES: &[Entry] = &[
    Entry::Older,
    Entry::Newest,
    Entry::Address("A"),
    Entry::Address("B"),
    Entry::BoundToken("A"),
    Entry::BoundToken("B"),
];

impl Entry {
    /// The phase that holds for this way in, when it holds for one only.
    fn phase(self) -> Option<&'static str> {
        match self {
            Self::Older | Self::Newest => None,
            Self::Address(phase) | Self::BoundToken(phase) => Some(phase),
        }
    }

    async fn ask(self, stage: &Stage, method: &str, params: Value) -> Ask {
        match self {
            Self::Older => {
                let ask = stage.visitor(&stage.token("older", None), "2025-11-25").await;
                ask.rpc(method, params)
            }
            Self::Newest => stage.ask(&stage.token("newest", None)).modern(method, params),
            Self::Address(phase) => {
                let ask =
                    stage.ask(&stage.token("newest", None)).at(&format!("/mcp/phase/{phase}"));
                ask.modern(method, params)
            }
            Self::BoundToken(phase) => {
                stage.ask(&stage.token("bound", Some(phase))).modern(method, params)
            }
        }
    }

    fn lists(self, now: &str) -> Vec<&'static str> {
        let order = |granted: &[&str]| {
            EVER.iter().copied().filter(|name| granted.contains(name)).collect::<Vec<_>>()
        };
        match (self, self.phase()) {
            (_, Some(own)) => order(granted(own)),
            (Self::Newest, None) => EVER.to_vec(),
            _ => order(granted(now)),
        }
    }
}

async fn listed(stage: &Stage, entry: Entry) -> Vec<String> {
    let got = entry.ask(stage, "tools/list", json!({})).await.send().await;
    let json = got.json();
    let tools = json["result"]["tools"].as_array().unwrap_or_else(|| panic!("{json}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn exactly_the_granted_cells_reach_the_world() {
    for now in ["A", "B"] {
        for entry in ENTRIES {
            let stage = Stage::new().await;
            if now == "B" {
                let params = json!({ "name": "move_on", "arguments": { "to": "B" } });
                Entry::Newest.ask(&stage, "tools/call", params).await.send().await;
            }
            assert_eq!(listed(&stage, *entry).await, entry.lists(now), "{entry:?} in {now}");
            for tool in TOOLS {
                // These wait, or move the session away; they have tests of their own.
                if matches!(*tool, "slow" | "watch" | "leave" | "move_on") {
                    continue;
                }
                let arguments = match *tool {
                    "common" | "asked" => json!({ "word": "yes" }),
                    _ => json!({}),
                };
                let before = stage.done().len();
                let params = json!({ "name": tool, "arguments": arguments });
                let got = entry.ask(&stage, "tools/call", params).await.send().await;
                let (failed, envelope) = told(&got);
                let here = entry.phase().is_none_or(|own| own == now);
                let may = here && granted(now).contains(tool);
                let runs = may && *tool != "asked";
                assert_eq!(!failed, runs, "{tool} by {entry:?} in {now}: {envelope}");
                let writes = usize::from(runs && !matches!(*tool, "record" | "hide"));
                assert_eq!(stage.done().len() - before, writes, "{tool} by {entry:?} in {now}");
                if !may {
                    let code = envelope["errors"][0]["code"].as_str().unwrap();
                    assert_eq!(code, "TOOL_NOT_GRANTED", "{tool} by {entry:?} in {now}");
                    // A refusal shows no schema.
                    assert!(!envelope.to_string().contains("properties"), "{envelope}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_to_the_newest_revision_says_which_phase_grants() {
    let stage = Stage::new().await;
    let call = json!({ "name": "beta", "arguments": {} });
    let got = Entry::Newest.ask(&stage, "tools/call", call.clone()).await.send().await;
    let (_, envelope) = told(&got);
    assert!(envelope["warnings"][0].as_str().unwrap().contains("granted in phase B"));
    // Where a phase is all there is, nothing is said of others.
    for entry in [Entry::Older, Entry::Address("A"), Entry::BoundToken("A")] {
        let got = entry.ask(&stage, "tools/call", call.clone()).await.send().await;
        assert!(told(&got).1.get("warnings").is_none(), "{entry:?}");
    }
    assert!(stage.done().is_empty());
}

#[tokio::test]
async fn what_a_token_cannot_reach_is_not_there() {
    let stage = Stage::new().await;
    let bound = stage.token("bound", Some("A"));
    let ask = stage.ask(&bound).at("/mcp/phase/B").modern("tools/list", json!({}));
    assert_eq!(ask.send().await.status, 404);
    let ask = stage.ask(&bound).at("/mcp/phase/A").modern("tools/list", json!({}));
    assert_eq!(ask.send().await.status, 200);
    for path in ["/mcp/phase/NOPE", "/mcp/phase/", "/mcpx", "/", "/mcp/phase/A/B", "/mcp/phase/%41"]
    {
        let ask = stage.ask(&stage.token("free", None)).at(path);
        assert_eq!(ask.modern("tools/list", json!({})).send().await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn lists_come_in_one_order_and_only_for_the_newest_do_they_stay() {
    let stage = Stage::new().await;
    let (older, newest) = (listed(&stage, Entry::Older).await, listed(&stage, Entry::Newest).await);
    assert_eq!(older, listed(&stage, Entry::Older).await);
    let to_b = json!({ "name": "move_on", "arguments": { "to": "B" } });
    let got = Entry::Newest.ask(&stage, "tools/call", to_b).await.send().await;
    assert!(!told(&got).0, "{}", got.body);
    assert_ne!(older, listed(&stage, Entry::Older).await);
    assert_eq!(newest, listed(&stage, Entry::Newest).await);
}
