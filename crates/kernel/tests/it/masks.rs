//! Which tools a phase grants: groups, single tools, allow and deny lists, all in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_kernel::agent::{Agent, AgentDraft, AgentRefusal};
use toolgate_kernel::config::{AgentText, ConfigRefusal};
use toolgate_kernel::phase::{Grant, Phase};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};

use crate::support::{built, group, phase, section, tool};

fn grouped(name: &str, group: &str) -> Arc<ToolSpec> {
    built(SpecDraft::new(name, "A tool.").group(group))
}

/// Five tools in three groups, one of them with an alias.
fn sections() -> Vec<Section> {
    let write = SpecDraft::new("write_note", "A tool.").group("notes").alias("put_note");
    vec![
        section("notes", vec![grouped("read_note", "notes"), built(write)]),
        section("web", vec![grouped("fetch", "web"), grouped("search", "web")]),
        section("plan", vec![grouped("plan", "planning")]),
    ]
}

struct Row {
    about: &'static str,
    /// Groups, include, exclude; absent for a phase that grants everything.
    grant: Option<(&'static [&'static str], &'static [&'static str], &'static [&'static str])>,
    groups: &'static [(&'static str, &'static [&'static str])],
    allow: Option<&'static [&'static str]>,
    deny: &'static [&'static str],
    granted: &'static [&'static str],
}

const ALL: &[&str] = &["read_note", "write_note", "fetch", "search", "plan"];
const PLAIN: Row =
    Row { about: "", grant: None, groups: &[], allow: None, deny: &[], granted: ALL };

const ROWS: &[Row] = &[
    Row { about: "no grant grants everything", ..PLAIN },
    Row {
        about: "an empty grant grants nothing",
        grant: Some((&[], &[], &[])),
        granted: &[],
        ..PLAIN
    },
    Row {
        about: "a group, in declaration order",
        grant: Some((&["web", "notes"], &[], &[])),
        granted: &["read_note", "write_note", "fetch", "search"],
        ..PLAIN
    },
    Row {
        about: "a group and a single tool",
        grant: Some((&["web"], &["plan"], &[])),
        granted: &["fetch", "search", "plan"],
        ..PLAIN
    },
    Row {
        about: "exclude beats the group",
        grant: Some((&["web"], &[], &["search"])),
        granted: &["fetch"],
        ..PLAIN
    },
    Row {
        about: "exclude beats include",
        grant: Some((&[], &["fetch", "plan"], &["fetch"])),
        granted: &["plan"],
        ..PLAIN
    },
    Row {
        about: "an alias names its tool in every list",
        grant: Some((&["notes"], &["put_note"], &["put_note"])),
        granted: &["read_note"],
        ..PLAIN
    },
    Row {
        about: "named twice is granted once",
        grant: Some((&["web", "web"], &["fetch", "fetch"], &[])),
        granted: &["fetch", "search"],
        ..PLAIN
    },
    Row {
        about: "allow narrows",
        allow: Some(&["plan", "fetch"]),
        granted: &["fetch", "plan"],
        ..PLAIN
    },
    Row { about: "allow [] allows none", allow: Some(&[]), granted: &[], ..PLAIN },
    Row {
        about: "allow adds nothing to a phase",
        grant: Some((&["web"], &[], &[])),
        allow: Some(&["plan", "fetch"]),
        granted: &["fetch"],
        ..PLAIN
    },
    Row {
        about: "deny takes away from everything",
        deny: &["fetch", "put_note"],
        granted: &["read_note", "search", "plan"],
        ..PLAIN
    },
    Row {
        about: "deny beats include and allow",
        grant: Some((&[], &["fetch", "plan"], &[])),
        allow: Some(&["fetch", "plan"]),
        deny: &["fetch"],
        granted: &["plan"],
        ..PLAIN
    },
    Row {
        about: "a group of the user replaces the default of that name",
        grant: Some((&["web"], &[], &[])),
        groups: &[("web", &["plan", "read_note"])],
        granted: &["read_note", "plan"],
        ..PLAIN
    },
    Row {
        about: "a group of the user may be empty",
        grant: Some((&["web"], &[], &[])),
        groups: &[("web", &[])],
        granted: &[],
        ..PLAIN
    },
    Row {
        about: "a new group of the user",
        grant: Some((&["quick"], &[], &[])),
        groups: &[("quick", &["search"])],
        granted: &["search"],
        ..PLAIN
    },
];

fn draft(row: &Row) -> AgentDraft {
    let tools = |names: &[&str]| names.iter().map(|name| tool(name)).collect::<Vec<_>>();
    let mut draft = AgentDraft::new("masked", sections());
    if let Some((groups, include, exclude)) = row.grant {
        draft.phases[0].grant = Grant::Some {
            groups: groups.iter().map(|name| group(name)).collect(),
            servers: Vec::new(),
            include: tools(include),
            exclude: tools(exclude),
        };
    }
    draft.groups = row
        .groups
        .iter()
        .map(|(name, list)| (group(name), tools(list)))
        .collect::<BTreeMap<_, _>>();
    draft.allow = row.allow.map(tools);
    draft.deny = tools(row.deny);
    draft
}

fn visible(agent: &Agent, name: &str) -> Vec<String> {
    agent.visible(&phase(name), None).map(|entry| entry.spec.name.to_string()).collect()
}

#[test]
fn grants_resolve_by_the_table() {
    for row in ROWS {
        let agent = Agent::build(draft(row)).unwrap_or_else(|e| panic!("{}: {e}", row.about));
        assert_eq!(visible(&agent, "main"), row.granted, "{}", row.about);
        // What is shown and what may be called are one list.
        for (at, entry) in agent.toolset.entries().iter().enumerate() {
            let shown = row.granted.contains(&entry.spec.name.as_str());
            assert_eq!(
                agent.grants(&phase("main"), at, None),
                shown,
                "{}: {}",
                row.about,
                entry.spec.name
            );
        }
        assert_eq!(visible(&agent, "elsewhere"), [""; 0], "{}: no such phase", row.about);
    }
}

#[test]
fn phases_grant_apart_from_each_other() {
    let mut draft = AgentDraft::new("masked", sections());
    let only = |name: &str, group_name: &str| Phase {
        grant: Grant::Some {
            groups: vec![group(group_name)],
            servers: vec![],
            include: vec![],
            exclude: vec![],
        },
        ..Phase::new(phase(name))
    };
    draft.phases = vec![only("A", "web"), only("B", "planning"), Phase::new(phase("C"))];
    draft.deny = vec![tool("search")];
    let agent = Agent::build(draft).unwrap();
    assert_eq!(visible(&agent, "A"), ["fetch"]);
    assert_eq!(visible(&agent, "B"), ["plan"]);
    assert_eq!(visible(&agent, "C"), ["read_note", "write_note", "fetch", "plan"]);
    assert_eq!(agent.first_phase().unwrap().name, phase("A"));
}

/// What a phase writes of its tools, and which it grants: beside `notes`, two tools of the server
/// `web` and one of the server `maps`.
const REMOTE: &[(&str, &[&str])] = &[
    (r#"null"#, &["read_note", "write_note"]),
    (r#"{}"#, &[]),
    (r#"{"mcp":["web"]}"#, &["mcp:web:search", "mcp:web:Fetch.Page"]),
    (r#"{"mcp":["maps"]}"#, &["mcp:maps:search"]),
    (r#"{"mcp":["web/search"]}"#, &["mcp:web:search"]),
    (
        r#"{"mcp":["web","maps"],"exclude":["mcp:web:search"]}"#,
        &["mcp:web:Fetch.Page", "mcp:maps:search"],
    ),
    (r#"{"groups":["mine"]}"#, &["read_note", "mcp:maps:search"]),
    (r#"{"include":["mcp:maps:search"]}"#, &["mcp:maps:search"]),
    (r#"{"include":["mcp:maps:not_there_yet"]}"#, &[]),
    (r#"{"include":["mcp__web__search"]}"#, &["mcp:web:search"]),
    (r#"["notes","+mcp:web:search"]"#, &["read_note", "write_note", "mcp:web:search"]),
];

#[test]
fn tools_of_servers_are_granted_by_name_only() {
    for (tools, granted) in REMOTE {
        let text = format!(
            r#"{{"mcp_servers":{{"web":{{"url":"http://x"}},"maps":{{"url":"http://x"}}}},
            "tool_groups":{{"mine":["read_note","mcp:maps:search"]}},
            "phases":{{"main":{{"tools":{tools}}}}}}}"#
        );
        let text = text.replace(r#"{"tools":null}"#, "{}");
        let text: AgentText = serde_json::from_str(&text).unwrap();
        let mut sections = sections();
        sections.truncate(1);
        let of_server = |name: &&str| built(SpecDraft::of_server(tool(name), "A tool."));
        let remote = |names: &[&str]| names.iter().map(of_server).collect();
        sections.push(section("mcp-web", remote(&["mcp:web:search", "mcp:web:Fetch.Page"])));
        sections.push(section("mcp-maps", remote(&["mcp:maps:search"])));
        let with = text.clone().build(sections.clone()).unwrap();
        assert_eq!(visible(&with, "main"), *granted, "{tools}");
        sections.truncate(1);
        let without = text.build(sections);
        let fingerprint = without.map(|agent| agent.fingerprint);
        // A name on the wire is known once the server was asked.
        if !tools.contains("mcp__") {
            let same = fingerprint.as_ref().unwrap() == &with.fingerprint;
            assert!(same, "{tools}: what a server offers is nobody's configuration");
        }
    }
}

/// What is written down, and the refusal it earns.
const REFUSED: &[(&str, &str)] = &[
    (
        r#"{"phases":{"A":{"tools":{"groups":["webb"]}}}}"#,
        r#"phase A: no group is named "webb"; did you mean web?"#,
    ),
    (
        r#"{"phases":{"A":{"tools":{"groups":["nowhere"]}}}}"#,
        r#"phase A: no group is named "nowhere""#,
    ),
    (
        r#"{"phases":{"A":{"tools":{"include":["raed_note"]}}}}"#,
        r#"phase A: no tool is named "raed_note"; did you mean read_note?"#,
    ),
    (
        r#"{"phases":{"A":{"tools":{"exclude":["serch"]}}}}"#,
        r#"phase A: no tool is named "serch"; did you mean search?"#,
    ),
    (r#"{"allow":["fetsh"]}"#, r#"allow list: no tool is named "fetsh"; did you mean fetch?"#),
    (r#"{"deny":["fetsh"]}"#, r#"deny list: no tool is named "fetsh"; did you mean fetch?"#),
    (
        r#"{"tool_groups":{"quick":["fetsh"]},"phases":{"A":{"tools":{"groups":["quick"]}}}}"#,
        r#"group quick: no tool is named "fetsh"; did you mean fetch?"#,
    ),
    (
        r#"{"tool_groups":{"quick":["fetsh"]}}"#,
        r#"group quick: no tool is named "fetsh"; did you mean fetch?"#,
    ),
    (
        r#"{"phases":{"DRAFT":{"transitions":["PUBLSH"]},"PUBLISH":{}}}"#,
        r#"transitions of phase DRAFT: no phase is named "PUBLSH"; did you mean PUBLISH?"#,
    ),
    (r#"{"phases":{"A":{}},"default_phase":"B"}"#, "there is no phase B"),
];

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    for (text, message) in REFUSED {
        let config: AgentText = serde_json::from_str(text).unwrap();
        let refused = config.build(sections()).err().map(|refusal| refusal.to_string());
        assert!(
            refused.as_ref().is_some_and(|refused| refused.contains(message)),
            "{text}: {refused:?}"
        );
    }
}

/// A policy that names a tool or family that is not there would watch nothing.
const UNWATCHED: &[(&str, &str)] = &[
    (r#"{"rule":{"tools":["fetsh"],"deny":"true","message":"No."}}"#, "fetch"),
    (r#"{"sequential":{"fetsh":["plan"]}}"#, "fetch"),
    (r#"{"sequential":{"fetch":["plann"]}}"#, "plan"),
    (r#"{"limit":{"tools":["fetch","serch"],"per":"turn","max":1}}"#, "search"),
    (r#"{"rate":{"tools":["serch"],"max":1,"window_ms":1000}}"#, "search"),
    (r#"{"read_before_write":{"families":["fil"]}}"#, "file"),
    // Another name of a tool would watch nothing either.
    (r#"{"rule":{"tools":["put_note"],"deny":"true","message":"No."}}"#, "write_note"),
    (r#"{"limit":{"tools":["put_note"],"per":"turn","max":1}}"#, "write_note"),
    (r#"{"sequential":{"put_note":["plan"]}}"#, "write_note"),
    (r#"{"sequential":{"plan":["put_note"]}}"#, "write_note"),
];

#[test]
fn a_policy_that_names_nothing_there_is_refused() {
    for (policy, near) in UNWATCHED {
        let config: AgentText =
            serde_json::from_str(&format!(r#"{{"policies":[{policy}]}}"#)).unwrap();
        let refused = config.build(sections()).err().map(|refusal| refusal.to_string());
        let named =
            refused.as_ref().is_some_and(|text| text.contains(&format!("did you mean {near}?")));
        assert!(named, "{policy}: {refused:?}");
    }
}

#[test]
fn names_given_twice_are_refused() {
    let mut twice = AgentDraft::new("masked", sections());
    twice.phases = vec![Phase::new(phase("A")), Phase::new(phase("A"))];
    assert_eq!(Agent::build(twice).err(), Some(AgentRefusal::PhaseTwice(phase("A"))));
    let mut none = AgentDraft::new("masked", sections());
    none.phases = Vec::new();
    assert_eq!(Agent::build(none).err(), Some(AgentRefusal::NoPhase));
}

/// A configuration with an unknown key says nothing at all.
#[test]
fn unknown_keys_are_refused() {
    for text in [
        r#"{"allows":["fetch"]}"#,
        r#"{"phases":{"A":{"tool":{}}}}"#,
        r#"{"phases":{"A":{"tools":{"group":["web"]}}}}"#,
        r#"{"policies":[{"rules":{}}]}"#,
        r#"{"limits":{"call_ms":1}}"#,
    ] {
        assert!(serde_json::from_str::<AgentText>(text).is_err(), "{text}");
    }
    for text in [
        r#"{"policies":[{}]}"#,
        r#"{"policies":[{"sequential":{},"limit":{"tools":[],"per":"turn","max":1}}]}"#,
    ] {
        let built = serde_json::from_str::<AgentText>(text).unwrap().build(sections());
        assert!(matches!(built, Err(ConfigRefusal::Policy(_))), "{text}");
    }
}

/// The fingerprint covers what is enforced, so that a changed mask is a changed configuration.
#[test]
fn every_mask_is_in_the_fingerprint() {
    let prints: Vec<_> =
        ROWS.iter().map(|row| (row, Agent::build(draft(row)).unwrap().fingerprint)).collect();
    for (row, print) in &prints {
        for (other, twin) in &prints {
            let same = row.granted == other.granted;
            assert!(same || print != twin, "{} and {}", row.about, other.about);
        }
    }
}
