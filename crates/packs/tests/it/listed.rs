//! What is registered: names, groups, effects and true examples; and the page that lists them.

use serde_json::json;
use toolgate_kernel::config::{AgentText, IssuesConfig, MemoryText, WebText};
use toolgate_kernel::tool::Effect::{External, Read, Staged};
use toolgate_packs::issues::issues;
use toolgate_packs::manuscript::{ManuscriptTools, manuscript};
use toolgate_packs::memory::memory;
use toolgate_packs::self_authoring::self_authoring;
use toolgate_packs::tasks::tasks;
use toolgate_packs::web::web;
use toolgate_packs::whiteboard::whiteboard;
use toolgate_runtime::Pack;

use crate::room::{Room, packs};

#[test]
fn every_tool_has_its_group_and_effect() {
    let mut all = Vec::new();
    for pack in packs() {
        for spec in &pack.section.tools {
            all.push((spec.group.to_string(), spec.name.to_string(), spec.effect));
            assert!(!spec.examples.is_empty(), "{}", spec.name);
        }
    }
    let all: Vec<_> =
        all.iter().map(|(group, name, effect)| (group.as_str(), name.as_str(), *effect)).collect();
    let expected = [
        ("notes", "list_notes", Read),
        ("notes", "read_notes", Read),
        ("notes", "write_notes", Staged),
        ("notes", "delete_notes", Staged),
        ("manuscript_read", "get_manuscript_info", Read),
        ("manuscript_read", "read_manuscript_section", Read),
        ("manuscript_read", "read_manuscript_tail", Read),
        ("manuscript_read", "search_manuscript", Read),
        ("manuscript_write", "append_to_manuscript", Staged),
        ("manuscript_write", "create_section", Staged),
        ("manuscript_write", "replace_section", Staged),
        ("manuscript_write", "delete_section", Staged),
        ("beats", "add_beat", Staged),
        ("beats", "append_to_beat", Staged),
        ("beats", "update_beat", Staged),
        ("beats", "read_beat", Read),
        ("phase", "change_phase", Staged),
        ("files_read", "list_files", Read),
        ("files_read", "read_file", Read),
        ("files_read", "search_files", Read),
        ("files_write", "write_file", Staged),
        ("files_write", "edit_file", Staged),
    ];
    assert_eq!(all, expected);
}

#[test]
fn the_tools_of_the_manuscript_are_chosen() {
    for (read, write, beats, count) in [
        (false, false, false, 0),
        (true, false, false, 4),
        (false, true, false, 4),
        (true, true, true, 12),
    ] {
        let pack = manuscript(ManuscriptTools { read, write, beats }).unwrap();
        assert_eq!(pack.section.tools.len(), count);
        assert!(pack.section.projection.is_some() && pack.section.families.len() == 3);
    }
}

/// Examples are run in an order in which they make sense, and give what they show.
#[tokio::test]
async fn every_example_does_what_it_shows() {
    let mut room = Room::open().await;
    let specs: Vec<_> = packs().into_iter().flat_map(|pack| pack.section.tools).collect();
    let order = [
        "write_notes",
        "list_notes",
        "read_notes",
        "delete_notes",
        "create_section",
        "get_manuscript_info",
        "read_manuscript_section",
        "read_manuscript_tail",
        "search_manuscript",
        "replace_section",
        "delete_section",
        "append_to_manuscript",
        "add_beat",
        "append_to_beat",
        "update_beat",
        "read_beat",
        "write_file",
        "read_file",
        "search_files",
        "edit_file",
    ];
    for name in order {
        let spec = specs.iter().find(|spec| spec.name.as_str() == name).unwrap();
        for example in &spec.examples {
            // The search of the files would find the manuscript as well.
            let mut input = example.input.clone();
            if name == "search_files" {
                input["under"] = json!("ideas");
            }
            let (_, data) = room.works(name, input).await;
            assert_eq!(data, example.output, "{name}");
        }
    }
}

/// The page says of every tool what the tool says of itself.
#[test]
fn the_page_lists_every_tool() {
    let page = include_str!("../../../../docs/packs.md");
    let mut missing = Vec::new();
    let listed = || packs().into_iter().chain(domains());
    for pack in listed() {
        for spec in &pack.section.tools {
            let fields = spec.input["properties"].as_object().unwrap().keys();
            let fields: Vec<&str> = fields.map(String::as_str).collect();
            let (name, group, about) = (&spec.name, &spec.group, &spec.about);
            let row = format!("| `{name}` | `{group}` | {} | {about} |", code(&fields));
            missing.extend((!page.contains(&row)).then_some(row));
        }
    }
    assert!(missing.is_empty(), "docs/packs.md lacks:\n{}", missing.join("\n"));
    for pack in listed() {
        for variable in &pack.section.variables {
            assert!(page.contains(&format!("`{{{}}}`", variable.name)), "{}", variable.name);
        }
        for family in &pack.section.families {
            assert!(page.contains(&format!("`{}", family.name)), "{}", family.name);
        }
    }
}

fn domains() -> [Pack; 6] {
    let memory = memory(MemoryText::default()).unwrap();
    let own = self_authoring(&AgentText::default()).unwrap();
    let issues = issues(&IssuesConfig::default()).unwrap();
    let web = web(&WebText::default()).unwrap();
    [tasks().unwrap(), issues, whiteboard().unwrap(), memory, web, own]
}

/// Domain tools stage their changes, but for the web, and have examples; the examples are of their types.
#[test]
fn every_domain_has_its_group() {
    let domains = domains();
    let specs = domains.iter().flat_map(|pack| &pack.section.tools);
    let all: Vec<_> = specs
        .map(|spec| {
            // What leaves this computer cannot be taken back.
            let effect = if spec.name.as_str() == "web" { External } else { Staged };
            assert!(!spec.examples.is_empty() && spec.effect == effect && spec.domain.is_some());
            (spec.group.as_str(), spec.name.as_str())
        })
        .collect();
    let expected = [
        ("tasks", "tasks"),
        ("issues", "issues"),
        ("whiteboard", "whiteboard"),
        ("memory", "memory"),
        ("memory", "refinement"),
        ("web", "web"),
        ("self_authoring", "self_authoring"),
    ];
    assert_eq!(all, expected);
}

fn code(fields: &[&str]) -> String {
    if fields.is_empty() {
        return "none".to_owned();
    }
    fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ")
}
