//! What may be registered as a tool: names, descriptions, examples, and who may stand together.

use std::error::Error;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::names::{ServerName, ToolName};
use toolgate_kernel::section::{FamilySpec, Home, Section, Toolset, ToolsetRefusal};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal, ToolSpec};

use crate::support::{built, family, phase, plain, section};

fn named(name: &str) -> Result<ToolSpec, SpecRefusal> {
    SpecDraft::new(name, "A tool.").build()
}

/// A refusal with everything behind it, as it is printed at the edge.
fn told(refusal: &SpecRefusal) -> String {
    let source = refusal.source().map(ToString::to_string).unwrap_or_default();
    format!("{refusal}: {source}")
}

/// W1.
#[test]
fn only_legal_names_are_registered() {
    for name in ["a", "_", "-", "9", "read_file", "a-b_c9", &"x".repeat(64)] {
        assert_eq!(named(name).unwrap().name.as_str(), name);
    }
    let bad =
        ["", " ", "Bad Name", "read ", " read", "read\n", "Read", "réad", "rеad", "a.b", "a/b"];
    for name in bad.into_iter().chain([&*"x".repeat(65), "a:b", "mcp:s:t", "re\u{200b}ad"]) {
        let refusal = named(name).unwrap_err();
        assert!(matches!(refusal, SpecRefusal::Name { .. }), "{name:?}: {refusal}");
        assert!(told(&refusal).contains("1 to 64 characters from a-z"), "{}", told(&refusal));
    }
}

/// W1 for every other name a tool brings along.
#[test]
fn aliases_and_groups_are_names_too() {
    for bad in ["", "Bad Name", "read ", &"x".repeat(65)] {
        let alias = SpecDraft::new("read", "A tool.").alias(bad).build();
        assert!(matches!(alias, Err(SpecRefusal::Name { .. })), "{bad:?}");
        let group = SpecDraft::new("read", "A tool.").group(bad).build();
        assert!(matches!(group, Err(SpecRefusal::Name { .. })), "{bad:?}");
    }
}

/// W2: counted in characters of any script (ASCII-only descriptions are superseded by the design).
#[test]
fn a_description_has_1_to_200_characters() {
    for letter in ["x", "é", "あ", "🙂", "ع"] {
        for (count, legal) in [(0, false), (1, true), (199, true), (200, true), (201, false)] {
            let about = letter.repeat(count);
            let spec = SpecDraft::new("read", &about).build();
            assert_eq!(spec.is_ok(), legal, "{count} times {letter}");
            if let Err(SpecRefusal::About { chars, .. }) = spec {
                assert_eq!(chars, count);
            }
            let padded = SpecDraft::new("read", &format!(" \n{about}\t")).build();
            assert_eq!(padded.is_ok(), legal, "blanks around {count} times {letter}");
            assert!(padded.is_err() || padded.unwrap().about == about, "blanks are cut off");
        }
    }
    assert!(SpecDraft::new("read", " \t\n ").build().is_err());
}

fn refusal(sections: &[Section]) -> Option<ToolsetRefusal> {
    Toolset::build(sections, &[]).err()
}

fn aliased(name: &str, alias: &str) -> Arc<ToolSpec> {
    built(SpecDraft::new(name, "A tool.").alias(alias))
}

/// W3: one name, one tool, wherever it was declared.
#[test]
fn no_name_is_given_twice() {
    let taken = [
        ("two sections", vec![section("a", vec![plain("x")]), section("b", vec![plain("x")])]),
        ("one section", vec![section("a", vec![plain("x"), plain("x")])]),
        (
            "alias of a tool",
            vec![section("a", vec![plain("x")]), section("b", vec![aliased("y", "x")])],
        ),
        (
            "tool of an alias",
            vec![section("a", vec![aliased("y", "x")]), section("b", vec![plain("x")])],
        ),
        ("two aliases", vec![section("a", vec![aliased("y", "x"), aliased("z", "x")])]),
        ("its own alias", vec![section("a", vec![aliased("x", "x")])]),
    ];
    for (about, sections) in taken {
        let refused = refusal(&sections);
        let Some(ToolsetRefusal::NameTaken { name, first, second }) = refused else {
            panic!("{about}: {refused:?}")
        };
        assert_eq!(name.as_str(), "x", "{about}");
        assert_eq!(first.as_str(), "a", "{about}");
        assert_eq!(second, sections.last().unwrap().name, "{about}");
    }
    assert_eq!(refusal(&[section("a", vec![plain("x")]), section("b", vec![plain("y")])]), None);
    let twice = [section("a", vec![plain("x")]), section("a", vec![plain("y")])];
    assert!(matches!(refusal(&twice), Some(ToolsetRefusal::SectionTwice(_))));
}

#[test]
fn no_family_is_kept_twice_and_none_of_ours_is_taken() {
    let keeping = |name: &str, families: &[&str]| Section {
        families: families
            .iter()
            .map(|name| FamilySpec::new(family(name), Home::Session))
            .collect(),
        ..section(name, Vec::new())
    };
    assert_eq!(refusal(&[keeping("a", &["note"]), keeping("b", &["book"])]), None);
    for sections in [
        vec![keeping("a", &["note"]), keeping("b", &["note"])],
        vec![keeping("a", &["note", "note"])],
        vec![keeping("a", &["file"])],
        vec![keeping("a", &["seen"])],
    ] {
        assert!(matches!(refusal(&sections), Some(ToolsetRefusal::FamilyTaken { .. })));
    }
}

/// A section that is switched off is not there: its tools, names, families and texts are free.
#[test]
fn a_disabled_section_brings_nothing() {
    let attic = Section {
        enabled: false,
        text: "Old words.".into(),
        families: vec![FamilySpec::new(family("note"), Home::Session)],
        ..section("attic", vec![plain("x"), plain("old")])
    };
    let desk = Section {
        text: "New words.".into(),
        families: vec![FamilySpec::new(family("note"), Home::Project)],
        ..section("desk", vec![plain("x")])
    };
    let set = Toolset::build(&[attic.clone(), desk], &[]).unwrap();
    assert_eq!(set.entries().len(), 1);
    assert_eq!(set.find("old"), None);
    assert_eq!(set.texts(), ["New words."]);
    assert_eq!(set.family(&family("note")).unwrap().home, Home::Project);
    let agent = Agent::build(AgentDraft::new("empty", vec![attic])).unwrap();
    assert_eq!(agent.visible(&phase("main"), None).count(), 0);
}

#[test]
fn tools_stand_in_the_order_they_were_declared() {
    let sections = vec![
        section("z", vec![plain("m"), plain("a")]),
        section("a", vec![plain("z"), plain("b")]),
    ];
    let agent = Agent::build(AgentDraft::new("ordered", sections)).unwrap();
    let names: Vec<_> =
        agent.visible(&phase("main"), None).map(|entry| entry.spec.name.as_str()).collect();
    assert_eq!(names, ["m", "a", "z", "b"]);
    let homes: Vec<_> =
        agent.toolset.entries().iter().map(|entry| entry.section.as_str()).collect();
    assert_eq!(homes, ["z", "z", "a", "a"]);
}

fn trip() -> SpecDraft {
    SpecDraft::new("plan_trip", "Plans.")
        .params_schema(json!({
            "type": "object", "required": ["days"],
            "properties": {"days": {"type": "integer"}, "mode": {"enum": ["walk", "train"]}},
        }))
        .returns_schema(json!({
            "type": "array",
            "items": {"type": "object", "required": ["stop"], "properties": {"stop": {"type": "string"}}},
        }))
        .argument_alias("days", "howLong")
}

/// W4: an example is exactly of the declared types; nothing in it may need coercing.
#[test]
fn examples_are_of_the_declared_types() {
    let (input, output) = (json!({"days": 3, "mode": "walk"}), json!([{"stop": "Chur"}]));
    assert!(trip().example("Three days.", input.clone(), output.clone()).build().is_ok());
    assert!(trip().example("Nothing found.", json!({"days": 1}), json!([])).build().is_ok());
    let bad_inputs = [
        (json!({"days": "three"}), "days"),
        (json!({"days": "3"}), "write it as"),
        (json!({"days": 3.0}), "write it as"),
        (json!({"howLong": 3}), "write it as"),
        (json!({}), "days: is required"),
        (json!({"days": 3, "colour": "red"}), "colour"),
        (json!({"days": 3, "mode": "fly"}), "walk, train"),
        (json!(null), "an object"),
        (json!([3]), "an object"),
        (json!("3 days"), "an object"),
    ];
    for (bad, words) in bad_inputs {
        check_example(trip().example("Bad.", bad.clone(), output.clone()), "params", words, &bad);
    }
    let bad_outputs = [
        (json!(null), "a list"),
        (json!({"stop": "Chur"}), "a list"),
        (json!(["Chur"]), "[0]"),
        (json!([{"stop": "Chur"}, {"stop": 7}]), "[1].stop"),
        (json!([{"stop": "Chur"}, {}]), "[1].stop: is required"),
        (json!([{"stop": "Chur", "beds": 2}]), "[0].beds"),
    ];
    for (bad, words) in bad_outputs {
        check_example(trip().example("Bad.", input.clone(), bad.clone()), "result", words, &bad);
    }
}

fn check_example(draft: SpecDraft, wanted: &str, words: &str, value: &Value) {
    let refusal = draft.build().unwrap_err();
    let SpecRefusal::Example { side, at, .. } = &refusal else { panic!("{value}: {refusal}") };
    assert_eq!((*side, *at), (wanted, 1), "{value}");
    assert!(refusal.to_string().contains(words), "{value}: {refusal}");
}

#[test]
fn the_second_example_is_checked_like_the_first() {
    let draft = trip().example("Good.", json!({"days": 3}), json!([])).example(
        "Bad.",
        json!({"days": true}),
        json!([]),
    );
    let refusal = draft.build().unwrap_err();
    assert!(matches!(refusal, SpecRefusal::Example { at: 2, side: "params", .. }), "{refusal}");
}

/// W2 for examples.
#[test]
fn an_example_is_described_like_a_tool() {
    let described = |about: &str| trip().example(about, json!({"days": 3}), json!([])).build();
    assert!(described(&"あ".repeat(200)).is_ok());
    for (about, count) in [("あ".repeat(201), 201), (String::new(), 0), ("  ".to_owned(), 0)] {
        let refusal = described(&about).unwrap_err();
        let SpecRefusal::About { of, chars, .. } = refusal else { panic!("{refusal}") };
        assert_eq!((of.as_str(), chars), ("example 1", count));
    }
}

/// Arguments are a record; what is no record cannot be asked for.
#[test]
fn parameters_are_a_record() {
    for schema in [
        json!({"type": "string"}),
        json!({"type": "array", "items": {"type": "object", "properties": {}}}),
        json!({"type": ["object", "null"], "properties": {}}),
        json!({"properties": {"a": {"type": "string"}}}),
        json!({}),
        json!(true),
        json!(null),
    ] {
        let refused = SpecDraft::new("read", "A tool.").params_schema(schema.clone()).build();
        assert!(matches!(refused, Err(SpecRefusal::NotARecord { .. })), "{schema}");
    }
}

/// Whatever is part of a tool's contract is part of its version.
#[test]
fn a_version_changes_with_the_contract() {
    let base = || {
        SpecDraft::new("read", "A tool.").params_schema(json!({
            "type": "object", "properties": {"path": {"type": "string"}},
        }))
    };
    let versions = [
        base(),
        SpecDraft::new("reed", "A tool.").params_schema(base().build().unwrap().input),
        SpecDraft::new("read", "Another tool.").params_schema(base().build().unwrap().input),
        SpecDraft::new("read", "A tool."),
        base().returns_schema(json!({"type": "string"})),
        base().effect(toolgate_kernel::tool::Effect::External),
        base().group("other"),
        base().alias("look"),
        base().argument_alias("path", "file"),
        base().path_argument("path", None),
        base().path_argument("path", Some("/workspace")),
        base().example("One.", json!({}), json!(null)),
        base().locked(),
    ]
    .map(|draft| draft.build().unwrap().version);
    for (at, version) in versions.iter().enumerate() {
        assert_eq!(versions.iter().filter(|other| *other == version).count(), 1, "row {at}");
    }
    assert_eq!(base().build().unwrap().version, versions[0]);
}

/// Only a person commits facts or approves; no tool may look as if it did.
#[test]
fn no_tool_has_the_name_of_a_persons_act() {
    for name in ["facts_commit", "approve", "approvals_list", "trust", "facts-commit", "appr0ve"] {
        let refused = |draft: SpecDraft| {
            let told = draft.build().map(drop).unwrap_err().to_string();
            assert!(told.contains("is reserved"), "{name}: {told}");
        };
        refused(SpecDraft::new(name, "A tool."));
        refused(SpecDraft::new("harmless", "A tool.").alias(name));
        refused(SpecDraft::new(&format!("mcp__web__{name}"), "A tool."));
        let server = ServerName::parse("web").unwrap();
        let remote = ToolName::remote(&server, name).unwrap();
        refused(SpecDraft::of_server(remote, "A tool."));
        let harmless = ToolName::remote(&server, "harmless").unwrap();
        refused(SpecDraft::of_server(harmless, "A tool.").shown_as(name));
    }
    assert!(SpecDraft::new("facts_propose", "A tool.").build().is_ok());
}
