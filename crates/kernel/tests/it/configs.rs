//! A configuration file is read whole or not at all, and every mistake in it is told in its place.

use proptest::prelude::*;
use toolgate_kernel::config::{Checked, Chosen, Finding, Mistake, PackName, Severity, read};
use toolgate_kernel::section::{Section, Variable};

use crate::support::{built, cases, section};
use toolgate_kernel::tool::SpecDraft;

const DOCUMENT: &str = include_str!("../data/document_000.yaml");

const TOOLS: &[(&str, &[&str])] = &[
    ("notes", &["list_notes", "read_notes", "write_notes", "delete_notes"]),
    (
        "manuscript_read",
        &[
            "get_manuscript_info",
            "read_manuscript_section",
            "read_manuscript_tail",
            "search_manuscript",
        ],
    ),
    (
        "manuscript_write",
        &["append_to_manuscript", "create_section", "replace_section", "delete_section"],
    ),
    ("phase", &["change_phase"]),
];

/// The writer's tools by name, without what they do.
fn sections() -> Vec<Section> {
    let made = TOOLS.iter().map(|(group, tools)| {
        let spec = |name: &&str| built(SpecDraft::new(name, "A tool.").group(group));
        section(group, tools.iter().map(spec).collect())
    });
    let mut sections: Vec<Section> = made.collect();
    let variable = Variable { name: "total_words", show: |_| String::new() };
    sections[0].variables.push(variable);
    sections
}

fn checked(yaml: &str) -> Checked {
    read(yaml.as_bytes()).check(sections())
}

fn errors(checked: &Checked) -> Vec<&Finding> {
    checked.findings.iter().filter(|f| f.severity == Severity::Error).collect()
}

/// The text that a finding marks.
fn marked<'a>(checked: &'a Checked, finding: &Finding) -> &'a str {
    let span = finding.span.unwrap();
    &checked.source()[span.start..span.end]
}

#[test]
fn the_configuration_of_document_000_loads_unchanged() {
    let checked = checked(DOCUMENT);
    assert_eq!(checked.findings, []);
    assert_eq!(checked.text.settings.model.as_deref(), Some("qwen3.5-27b-heretic"));
    assert!(!checked.source().contains("\"lm-studio\""), "the key is blanked");
    let agent = checked.agent().unwrap();
    let granted: Vec<usize> =
        agent.phases().map(|phase| agent.visible(&phase.name, None).count()).collect();
    assert_eq!(granted, [5, 5, 9, 13, 12, 9]);
    assert_eq!(agent.first_phase().unwrap().name.as_str(), "CHARACTER_CREATION");
}

/// What follows from a pack that could not be read is not told; everything else is.
#[test]
fn a_bad_pack_hides_no_other_mistake() {
    let yaml = "packs: [notes, manuskript]\nsystem_prompt: '{totl_words} {total_words}'\n\
                deny: [raed_notes, create_section]\n\
                tool_calling: {tool_choice: create_section}\n\
                phases:\n  A: {tools: [nots, manuscript_write, manuskript, +no_such_tool], \
                transitions: [{to: B, when: 'project.nots.size() > 0'}]}\n  B: {}\n";
    let every = sections();
    let notes = every.iter().filter(|section| section.name.as_str() == "notes").cloned();
    let notes = notes.map(|section| Section { variables: vec![], ..section }).collect();
    let checked = read(yaml.as_bytes()).among(&every).check(notes);
    let told: Vec<&str> = errors(&checked).iter().map(|f| marked(&checked, f)).collect();
    let expected = ["manuskript", "{totl_words}", "raed_notes", "nots", "+no_such_tool"];
    assert_eq!(told, [&expected[..], &["'project.nots.size() > 0'"]].concat(), "{told:?}");
}

/// What a pack has that is not enabled is told with the name of the pack.
#[test]
fn a_pack_that_is_missing_is_named() {
    let yaml = "packs: [notes]\nphases:\n  A: {tools: [notes, phase, +create_section], \
                transitions: [B]}\n  B: {tools: [manuscript_read]}\n";
    let every = sections();
    let notes = every.iter().filter(|section| section.name.as_str() == "notes").cloned().collect();
    let checked = read(yaml.as_bytes()).among(&every).check(notes);
    let help = |finding: &&Finding| finding.help.clone().unwrap_or_default();
    let told: Vec<String> = errors(&checked).iter().map(help).collect();
    let pack = |name: &str| format!("the pack `{name}` has it: add it to `packs:`");
    assert_eq!(told, [pack("phase"), pack("manuscript_write"), pack("manuscript_read")]);
}

/// What is wrong in the second of two policies of one name is told where it stands.
#[test]
fn policies_of_one_name_are_told_apart() {
    let yaml = "policies:\n  - {name: a, limit: {tools: [write_notes], per: turn, max: 1}}\n  \
                - {name: a, sequential: {write_notes: [raed_notes]}}\n";
    let checked = checked(yaml);
    let told: Vec<&str> = errors(&checked).iter().map(|f| marked(&checked, f)).collect();
    assert_eq!(told, ["a", "raed_notes"]);
}

/// A rule without its message is looked at all the same.
#[test]
fn a_missing_message_hides_no_other_mistake() {
    let yaml = "policies:\n  - name: a\n    rule:\n      tools: [creat_section]\n      \
                deny: 'nope(args)'\n      mesage: No.\n";
    let checked = checked(yaml);
    let told: Vec<Mistake> = errors(&checked).iter().map(|finding| finding.code).collect();
    assert!(told.contains(&Mistake::MissingKey) && told.contains(&Mistake::UnknownKey), "{told:?}");
    assert!(told.contains(&Mistake::Condition), "{told:?}");
}

/// One mistake each: its kind, what is marked, and a word of what is told.
const MISTAKES: &[(&str, Mistake, &str, &str)] = &[
    (
        "phases: {A: {transitions: [{to: B, when: \"project.nots.size() > 0\"}]}, B: {}}",
        Mistake::UnknownName,
        "\"project.nots.size() > 0\"",
        "state family `nots`",
    ),
    (
        "phases: {A: {transitions: [{to: B, when: \"has(facts.x)\"}]}, B: {}}",
        Mistake::UnknownName,
        "\"has(facts.x)\"",
        "workspace",
    ),
    (
        "phases: {A: {transitions: [{to: B, when: \"1\"}]}, B: {}}",
        Mistake::Condition,
        "\"1\"",
        "not a boolean",
    ),
    ("phases: {A: {tool: [notes]}}", Mistake::UnknownKey, "tool", "`tools`"),
    ("name: a\nname: b", Mistake::DuplicateKey, "name", "twice"),
    ("allow: read_notes", Mistake::WrongType, "read_notes", "a list of tool names"),
    ("allow: [Read]", Mistake::BadName, "Read", "not legal"),
    ("allow: [WriteNotes]", Mistake::BadName, "WriteNotes", "such as `write_notes`"),
    (
        "phases: {A: {tools: {include: [+read_notes]}}}",
        Mistake::BadName,
        "+read_notes",
        "such as `read_notes`",
    ),
    ("phases: {MY PLAN: {}}", Mistake::BadName, "MY PLAN", "such as `MY_PLAN`"),
    ("phases: {A: {tools: [Notes]}}", Mistake::BadName, "Notes", "did you mean `notes`"),
    ("default_phase: plan\nphases: {PLAN: {}}", Mistake::UnknownName, "plan", "`PLAN`"),
    ("default_phase: draft\nphases: {PLAN: {}}", Mistake::UnknownName, "draft", "there is PLAN"),
    ("mcp_servers: {web: {transport: sdio, command: npx}}", Mistake::NotAllowed, "sdio", "`stdio`"),
    (
        "policies:\n  - {name: a, sequential: {write_notes: [read_notes]}}\n  - {name: a, limit: \
         {tools: [write_notes], per: turn, max: 1}}",
        Mistake::Policy,
        "a",
        "two policies `a`",
    ),
    ("deny: [raed_notes]", Mistake::UnknownName, "raed_notes", "`read_notes`"),
    ("phases: {A: {tools: [nots]}}", Mistake::UnknownName, "nots", "`notes`"),
    ("phases: {A: {tools: [+read_note]}}", Mistake::UnknownName, "+read_note", "`read_notes`"),
    ("phases: {A: {tools: [read_notes]}}", Mistake::UnknownName, "read_notes", "`+read_notes`"),
    ("phases: {A: {tools: {include: ['*']}}}", Mistake::Wildcard, "'*'", "leave `tools:` out"),
    ("phases: {a.b: {transitions: [a.c]}}", Mistake::UnknownName, "a.c", "`a.b`"),
    ("default_phase: B\nphases: {A: {}}", Mistake::UnknownName, "B", "default_phase"),
    ("phases: {A: {transitions: [A]}, B: {}}", Mistake::NoWayOut, "transitions", "itself"),
    ("system_prompt: 'x {phaze}'", Mistake::UnknownWord, "{phaze}", "`{phase}`"),
    ("system_prompt: |\n  {total_word}\n", Mistake::UnknownWord, "{total_word}", "total_words"),
    ("packs: [note]", Mistake::NotAllowed, "note", "`notes`"),
    ("memory: {core_percent_min: 0}", Mistake::OutOfRange, "0", "from 1 to 100"),
    ("memory: {core_percent_min: 101}", Mistake::OutOfRange, "101", "from 1 to 100"),
    ("limits: {call_ms_max: 0}", Mistake::OutOfRange, "0", "at least 1"),
    ("limits: {max_tool_args_bytes: 0}", Mistake::OutOfRange, "0", "at least 1"),
    ("settings: {summary_max_chars: 0}", Mistake::OutOfRange, "0", "at least 1"),
    ("budget: {input_tokens_max: 0}", Mistake::OutOfRange, "0", "at least 1"),
    (
        "phases: {A: {transitions: [{to: B, when: 'nope.x'}]}, B: {}}",
        Mistake::Condition,
        "'nope.x'",
        "way to B",
    ),
    (
        "phases: {A: {tools: {groups: [notes], required: [create_section]}}}",
        Mistake::Required,
        "create_section",
        "does not grant",
    ),
    ("policies: [{}]", Mistake::Policy, "{}", "exactly one"),
    (
        "policies: [{limit: {tools: [write_nots], per: turn, max: 1}}]",
        Mistake::UnknownName,
        "write_nots",
        "`write_notes`",
    ),
    ("phases: {A: {tools: {mcp: [web]}}}", Mistake::UnknownName, "web", "mcp_servers"),
    (
        "mcp_servers: {web: {command: npx, env: {LD_PRELOAD: ./a.so}}}",
        Mistake::Server,
        "LD_PRELOAD",
        "loader_env: true",
    ),
    (
        "mcp_servers: {web: {command: npx, env: {A: b, node_options: x}, loader_env: false}}",
        Mistake::Server,
        "node_options",
        "loader_env: true",
    ),
    (
        "phases: {A: {transitions: [{to: B, otherwise: Not yet.}]}, B: {}}",
        Mistake::Condition,
        "otherwise",
        "no `when`",
    ),
    (
        "tool_calling: {tool_denylist: [write_nots]}",
        Mistake::UnknownName,
        "write_nots",
        "`write_notes`",
    ),
    (
        "tool_calling: {tool_allowlist: 'read_notes, read_note'}",
        Mistake::UnknownName,
        "read_note",
        "`read_notes`",
    ),
    ("tool_calling: {tool_allowlist: [Read]}", Mistake::BadName, "Read", "not legal"),
    ("tool_calling: {tool_allowlist: [read_notes, all]}", Mistake::UnknownName, "all", "no tool"),
    ("tool_calling: {tool_denylist: all}", Mistake::UnknownName, "all", "tool_denylist"),
    ("tool_calling: {tool_use_mode: enforced}", Mistake::Model, "enforced", "allow_unreliable"),
    (
        "settings: {model: m}\nmodels: {m: {model: x, tool_calling: {tool_use_mode: enforced}}}",
        Mistake::Model,
        "enforced",
        "doctor --probe",
    ),
    ("settings: {model: gpt-5}", Mistake::Model, "gpt-5", "provider:model"),
    ("settings: {model: 'anthropc:claude'}", Mistake::Model, "'anthropc:claude'", "anthropic?"),
    ("settings: {model: 'gemini:'}", Mistake::Model, "'gemini:'", "no model"),
    ("models: {a: {model: x, fallback: b}}", Mistake::UnknownName, "b", "no other model"),
    ("models: {a: {model: x, fallback: a}}", Mistake::UnknownName, "a", "stands in for itself"),
    (
        "settings: {model: a}\nmodels:\n  a: {model: x, fallback: b}\n  b: {model: y, \
         tool_calling: {tool_denylist: read_notes}}",
        Mistake::Model,
        "b",
        "cannot stand in",
    ),
    (
        "settings: {model: a}\nmodels:\n  a: {model: x, fallback: b}\n  b: {model: y, \
         tool_calling: {max_tool_args_bytes: 5}}",
        Mistake::Model,
        "b",
        "its max_tool_args_bytes is 5, and 200000 would hold",
    ),
    (
        "settings: {model: a}\nmodels:\n  a: {model: x, fallback: b, tool_calling: \
         {max_tool_calls_per_turn: 2}}\n  b: {model: y, tool_calling: {max_tool_calls_per_turn: 1}}",
        Mistake::Model,
        "b",
        "its max_tool_calls_per_turn is 1, and 2 would hold",
    ),
    (
        "settings: {model: c}\nmodels:\n  a: {model: x, fallback: b}\n  b: {model: y, \
         tool_calling: {tool_choice: required}}\n  c: {model: z}",
        Mistake::Model,
        "b",
        "its tool_choice would not hold",
    ),
    (
        "models:\n  a: {model: x, fallback: b}\n  b: {model: y, tool_calling: {result_format: text}}",
        Mistake::Model,
        "b",
        "its result_format would not hold",
    ),
    (
        "settings: {model: a}\ntool_calling: {result_format: text}\nmodels:\n  a: {model: x, fallback: \
         b}\n  b: {model: y, tool_calling: {result_format: envelope}}",
        Mistake::Model,
        "b",
        "its result_format would not hold",
    ),
    (
        "models:\n  a: {model: x, fallback: b}\n  b: {model: y, tool_calling: {fix_empty_final: \
         false}}",
        Mistake::Model,
        "b",
        "its fix_empty_final would not hold",
    ),
    (
        "models:\n  a: {model: x, fallback: b, tool_calling: {fallback_retry_count: 1}}\n  b: {model: \
         y, tool_calling: {fallback_retry_count: 2}}",
        Mistake::Model,
        "b",
        "its fallback_retry_count would not hold",
    ),
    (
        "settings: {model: a}\nmodels:\n  a: {model: x}\n  b: {model: y, tool_calling: {tool_denylist: \
         [write_nots]}}",
        Mistake::UnknownName,
        "write_nots",
        "`write_notes`",
    ),
    (
        "settings: {model: a}\nmodels:\n  a: {model: x}\n  b: {model: y, tool_calling: {max_turns: 0}}",
        Mistake::OutOfRange,
        "0",
        "at least 1",
    ),
    (
        "models:\n  a: {model: x}\n  b: {model: y, tool_calling: {tool_choice: lst_notes}}",
        Mistake::UnknownName,
        "lst_notes",
        "list_notes",
    ),
    ("models: {m: {model: x, api_prefix: 'v1?a=b'}}", Mistake::Model, "'v1?a=b'", "no path"),
    ("models: {m: {model: x, api_prefix: ../..}}", Mistake::Model, "../..", "no path"),
    (
        "models: {m: {model: x, base_url: 'https://x.example:99999/v1'}}",
        Mistake::Model,
        "'https://x.example:99999/v1'",
        "no host",
    ),
    ("models: {m: {model: 'openai:'}}", Mistake::Model, "m", "has no name"),
    ("models: {m: {provider: gemini, model: a/../b}}", Mistake::Model, "a/../b", "in an address"),
    ("models: {'': {model: x}}", Mistake::BadName, "''", "no name for a model"),
    ("models: {'script:x': {model: x}}", Mistake::BadName, "'script:x'", "never find"),
    (
        "models: {m: {model: x, headers: {'bad name': y}}}",
        Mistake::Model,
        "'bad name'",
        "no name of a header",
    ),
    (
        "models: {m: {model: x, headers: {x-a: \"b\\r\\nx-c: d\"}}}",
        Mistake::Model,
        "*************",
        "cannot be sent in a header",
    ),
    ("models: {m: {model: x, headers: {Host: y}}}", Mistake::Model, "Host", "not yours to set"),
    ("models: {m: {model: x, headers: {x-a: y, X-A: z}}}", Mistake::Model, "X-A", "twice"),
    (
        "mcp_servers: {s: {url: 'https://x.example/mcp', headers: {Mcp-Session-Id: z}}}",
        Mistake::Server,
        "Mcp-Session-Id",
        "not yours to set",
    ),
    (
        "mcp_servers: {s: {url: 'https://x.example/mcp', headers: {'x y': z}}}",
        Mistake::Server,
        "'x y'",
        "no name of a header",
    ),
    (
        "models: {m: {model: x, options: {max_tokens: many}}}",
        Mistake::OutOfRange,
        "many",
        "no whole number",
    ),
    ("models: {m: {model: x, options: {max_tokens: 0}}}", Mistake::OutOfRange, "0", "no limit"),
    (
        "models: {m: {model: x, max_output_tokens: 9, options: {max_tokens: 8}}}",
        Mistake::OutOfRange,
        "8",
        "in one place",
    ),
    (
        "models: {m: {model: x, tool_calling: {tool_choice: lst_notes}}}",
        Mistake::UnknownName,
        "lst_notes",
        "list_notes",
    ),
    (
        "models: {m: {model: x, tool_calling: {fix_empty_final_user_text: ' '}}}",
        Mistake::WrongType,
        "' '",
        "blank",
    ),
    (
        "models: {m: {provider: anthropic, model: x, max_output_tokens: 1000, options: {thinking: \
         {type: enabled, budget_tokens: 2000}}}}",
        Mistake::OutOfRange,
        "2000",
        "`max_output_tokens`",
    ),
    (
        "tool_calling: {request_overrides: {thinking: {type: enabled, budget_tokens: 3000}}}\n\
         models: {m: {provider: anthropic, model: x, options: {max_tokens: 3000}}}",
        Mistake::OutOfRange,
        "3000",
        "room for 3000",
    ),
    (
        "settings: {model: a}\ntool_calling: {tool_use_mode: enforced}\nmodels:\n  a: {model: x, \
         fallback: b, tool_calling_reliable: true}\n  b: {model: y}",
        Mistake::Model,
        "y",
        "stands in is not marked",
    ),
    ("tool_calling: {tool_choice: lst_notes}", Mistake::UnknownName, "lst_notes", "list_notes"),
    (
        "tool_calling: {tool_choice: {type: function, function: {name: lst_notes}}}",
        Mistake::UnknownName,
        "tool_choice",
        "list_notes",
    ),
    (
        "tool_calling: {tool_choice: list_notes, tool_denylist: list_notes}",
        Mistake::UnknownName,
        "list_notes",
        "tool_denylist",
    ),
    ("tool_calling: {fallback_retry_count: 11}", Mistake::OutOfRange, "11", "at most 10"),
    ("models: {m: {model: x, reply_ms_max: 9999999}}", Mistake::OutOfRange, "9999999", "at most"),
    ("models: {m: {model: x, max_output_tokens: 0}}", Mistake::OutOfRange, "0", "no limit"),
    ("tool_calling: {tool_choice: Nobody!}", Mistake::BadName, "Nobody!", "tool_choice"),
    ("tool_calling: {fix_empty_final_user_text: ' '}", Mistake::WrongType, "' '", "blank"),
    ("tool_calling: {max_turns: 0}", Mistake::OutOfRange, "0", "at least 1"),
    ("tool_calling: {max_tool_args_bytes: 0}", Mistake::OutOfRange, "0", "at least 1"),
    ("tool_calling: {max_tool_output_bytes: 99999999999}", Mistake::OutOfRange, "99999999999", ""),
    (
        "limits: {args_bytes_max: 200000}\ntool_calling: {max_tool_args_bytes: 10}",
        Mistake::OutOfRange,
        "10",
        "in one place",
    ),
    (
        "limits: {max_tool_output_bytes: 20}\ntool_calling: {max_tool_output_bytes: 10}",
        Mistake::OutOfRange,
        "10",
        "in one place",
    ),
    ("settings: {base_url: localhost}", Mistake::Model, "localhost", "http://"),
    (
        "settings: {base_url: 'https://x.example/v1?api-version=1'}",
        Mistake::Model,
        "'https://x.example/v1?api-version=1'",
        "no query",
    ),
    (
        "models: {m: {model: x, base_url: 'http://8.8.8.8/v1'}}",
        Mistake::Model,
        "'http://8.8.8.8/v1'",
        "would send what is secret in clear text",
    ),
    ("settings: {api_key: '${'}", Mistake::Secret, "****", "env:NAME"),
];

#[test]
fn every_mistake_is_told_in_its_place() {
    for (yaml, code, place, word) in MISTAKES {
        let checked = checked(yaml);
        let errors = errors(&checked);
        let [finding] = errors.as_slice() else { panic!("{yaml}: {errors:?}") };
        assert_eq!(finding.code, *code, "{yaml}: {finding:?}");
        assert_eq!(marked(&checked, finding), *place, "{yaml}: {finding:?}");
        let told = format!("{} {}", finding.message, finding.help.as_deref().unwrap_or_default());
        assert!(told.contains(word), "{yaml}: {told}");
        assert!(checked.agent().is_none(), "{yaml}: half loaded");
    }
}

/// Things that are loaded and worth a word.
const REMARKS: &[(&str, Mistake, Severity)] = &[
    ("phases: {A: {}, B: {}}", Mistake::UnreachablePhase, Severity::Warning),
    (
        "policies: [{rule: {tools: [write_notes], deny: 'args.x > 1', message: No.}}]",
        Mistake::UnknownName,
        Severity::Warning,
    ),
    (
        "phases: {A: {transitions: [B], tools: [notes]}, B: {}}",
        Mistake::NoPhaseTool,
        Severity::Warning,
    ),
    (
        "phases: {A: {tools: [notes], guide: Use create_section.}}",
        Mistake::UngrantedTool,
        Severity::Warning,
    ),
    (
        "phases: {A: {transitions: [B]}, B: {transitions: [A]}}",
        Mistake::NoWayOut,
        Severity::Warning,
    ),
    ("system_prompt: Hi.\nphases: {A: {rules: [x]}}", Mistake::RulesAppended, Severity::Note),
];

/// Keys that change nothing, where they stand, and how bad that is.
const IDLE: &[(&str, &str, Severity)] = &[
    ("tool_calling: {request_overrides: {tools: [], top_k: 1}}", "tools", Severity::Warning),
    ("tool_calling: {request_overrides: {system: Hi.}}", "system", Severity::Warning),
    (
        "tool_calling: {request_overrides: {function_call: none}}",
        "function_call",
        Severity::Warning,
    ),
    (
        "tool_calling: {request_overrides: {text: {format: {}, verbosity: low}}}",
        "format",
        Severity::Warning,
    ),
    (
        "models: {m: {provider: gemini, model: x, tool_calling: {request_overrides: \
         {generationConfig: {responseMimeType: x}}}}}",
        "responseMimeType",
        Severity::Warning,
    ),
    (
        "models: {m: {provider: gemini, model: x}}\ntool_calling: {request_overrides: {top_p: 1}}",
        "top_p",
        Severity::Warning,
    ),
    (
        "settings: {model: 'ollama:x'}\nmodels: {m: {provider: ollama, model: x}}",
        "'ollama:x'",
        Severity::Note,
    ),
    (
        "models: {m: {provider: openai, model: x, tool_calling: {request_overrides: {stream: true}}}}",
        "stream",
        Severity::Warning,
    ),
    (
        "models: {m: {provider: openai, model: x, options: {messages: [], temperature: 1}}}",
        "messages",
        Severity::Warning,
    ),
    ("models: {m: {provider: anthropic, model: x, cache: preserve}}", "preserve", Severity::Note),
    ("models: {m: {provider: ollama, model: x, cache: preserve}}", "preserve", Severity::Note),
    (
        "models: {m: {provider: gemini, model: x, tool_calling: {request_overrides: \
         {parallel_tool_calls: true}}}}",
        "parallel_tool_calls",
        Severity::Note,
    ),
    (
        "tool_calling: {request_overrides: {parallel_tool_calls: false}}\nmodels: {m: {provider: \
         openai, model: x, capabilities: {parallel_tool_calls: false}}}",
        "parallel_tool_calls",
        Severity::Note,
    ),
    (
        "models:\n  a: {model: x, fallback: b}\n  b: {model: y, fallback: c}\n  c: {model: z, \
         fallback: b}\n",
        "b",
        Severity::Note,
    ),
    (
        "models: {m: {model: x, base_url: 'http://api.example.com/v1'}}",
        "'http://api.example.com/v1'",
        Severity::Warning,
    ),
    (
        "models: {m: {model: x, base_url: 'https://a.example/v1/chat/completions'}}",
        "'https://a.example/v1/chat/completions'",
        Severity::Warning,
    ),
    (
        "settings: {model: m}\nlimits: {turn_calls_max: 4}\nmodels: {m: {provider: ollama, model: x, \
         tool_calling: {request_overrides: {parallel_tool_calls: false}}}}",
        "turn_calls_max",
        Severity::Note,
    ),
    ("limits: {turn_calls_max: 4, reply_calls_max: 3}", "reply_calls_max", Severity::Warning),
    ("limits: {reply_calls_max: 31}", "reply_calls_max", Severity::Warning),
    (
        "settings: {model: m}\nlimits: {reply_calls_max: 40}\nmodels: {m: {provider: ollama, \
         model: x, tool_calling: {max_tool_calls_per_turn: 41}}}",
        "reply_calls_max",
        Severity::Warning,
    ),
];

#[test]
fn what_changes_nothing_is_told_where_it_stands() {
    for (yaml, place, severity) in IDLE {
        let checked = checked(yaml);
        let found: Vec<_> = checked.findings.iter().filter(|f| f.severity == *severity).collect();
        let [finding] = found.as_slice() else { panic!("{yaml}: {:?}", checked.findings) };
        assert_eq!((finding.code, marked(&checked, finding)), (Mistake::Model, *place), "{yaml}");
        assert!(checked.agent().is_some(), "{yaml}: {:?}", checked.findings);
    }
    for yaml in [
        "models: {m: {provider: gemini, model: x, cache: preserve}}",
        "models: {m: {provider: openai_responses, model: x, cache: preserve}}",
        "models: {m: {provider: anthropic, model: x, tool_calling: {request_overrides: \
         {parallel_tool_calls: false}}}}",
        "models: {m: {provider: ollama, model: x, tool_calling: {request_overrides: \
         {parallel_tool_calls: true}}}}",
        "models: {m: {model: x, base_url: 'http://8.8.8.8/v1', allow_plain_http: true}}",
        "settings: {model: m}\nlimits: {turn_calls_max: 4}\nmodels: {m: {provider: ollama, model: x}}",
        "limits: {turn_calls_max: 4, reply_calls_max: 4}",
        "settings: {model: m}\nlimits: {reply_calls_max: 3}\nmodels: {m: {provider: openai, model: \
         x, tool_calling: {request_overrides: {parallel_tool_calls: false}}}}",
    ] {
        assert_eq!(checked(yaml).findings, [], "{yaml}");
    }
}

#[test]
fn what_is_only_worth_a_word_is_loaded() {
    for (yaml, code, severity) in REMARKS {
        let checked = checked(yaml);
        let found = |f: &Finding| f.code == *code && f.severity == *severity;
        assert!(checked.findings.iter().any(found), "{yaml}: {:?}", checked.findings);
        assert!(checked.agent().is_some(), "{yaml}: {:?}", checked.findings);
    }
}

/// What tool calling holds back is held back, wherever else the same is said.
#[test]
fn what_tool_calling_holds_back_is_not_granted() {
    const ALLOW: &str = "allow: [read_notes, write_notes]";
    let rows: &[(&str, &str, &[&str])] = &[
        (ALLOW, "tool_allowlist: [read_notes, list_notes]", &["read_notes"]),
        (ALLOW, "tool_allowlist: 'read_notes, list_notes'", &["read_notes"]),
        (ALLOW, "tool_allowlist: all", &["read_notes", "write_notes"]),
        (ALLOW, "tool_allowlist: []", &[]),
        (ALLOW, "tool_allowlist: ''", &[]),
        (ALLOW, "tool_denylist: write_notes", &["read_notes"]),
        ("deny: [list_notes]", "tool_use_mode: disabled", &[]),
        (
            "deny: [list_notes]\npacks: [notes]",
            "tool_denylist: [write_notes]\n  tool_allowlist: [list_notes, read_notes, write_notes]",
            &["read_notes"],
        ),
    ];
    for (own, calling, expected) in rows {
        let yaml = format!("{own}\ntool_calling:\n  {calling}\n");
        let checked = checked(&yaml);
        assert!(errors(&checked).is_empty(), "{yaml}: {:?}", checked.findings);
        for agent in [checked.agent().unwrap(), &checked.text.clone().build(sections()).unwrap()] {
            let phase = &agent.first_phase().unwrap().name;
            let granted: Vec<&str> =
                agent.visible(phase, None).map(|entry| entry.spec.name.as_str()).collect();
            assert_eq!(granted, *expected, "{yaml}");
        }
    }
}

/// A list with nothing after the colon was meant to hold something back.
#[test]
fn a_list_that_is_left_blank_is_never_no_list() {
    for yaml in [
        "allow:\n",
        "deny:\n",
        "tool_calling:\n  tool_allowlist:\n",
        "tool_calling:\n  tool_denylist:\n",
    ] {
        let checked = checked(yaml);
        assert!(checked.agent().is_none(), "{yaml}: {:?}", checked.findings);
    }
}

#[test]
fn limits_of_tool_calling_are_the_limits() {
    let yaml = "tool_calling: {max_tool_args_bytes: 10, max_tool_output_bytes: 20}";
    let checked = checked(yaml);
    let limits = &checked.agent().unwrap().limits;
    assert_eq!((limits.args_bytes_max, limits.result_bytes_max), (10, 20));
}

/// What is fine has no word about it.
#[test]
fn what_is_fine_is_quiet() {
    for yaml in [
        "name: x",
        "\u{feff}name: x\r\n",
        "version: \"1.0\"",
        "limits: {max_tool_args_bytes: 100}",
        "limits: {args_bytes_max: 100}\ntool_calling: {max_tool_args_bytes: 100}",
        "tool_calling: {tool_use_mode: relaxed, tool_allowlist: all}",
        "tool_calling: {tool_denylist: 'write_notes, delete_notes'}",
        "phases: {A: {tools: }}",
        "phases: {\"no\": {tools: {}}}",
        "phases: {A: {tools: [notes, +create_section, -write_notes]}}",
        "name: &n x\ndescription: *n",
        "system_prompt: '{\"json\": {{stays}}} {phase_rules}'",
        "policies: [{rule: {tools: [write_notes], deny: 'phase == \"args.x\"', message: No.}}]",
        // What is said for all models is no setting of the one that stands in.
        "settings: {model: a}\ntool_calling: {result_format: text}\nmodels:\n  a: {model: x, fallback: \
         b, tool_calling: {result_format: envelope}}\n  b: {model: y}",
        "settings: {model: a}\ntool_calling: {max_turns: 5}\nmodels:\n  a: {model: x, fallback: b, \
         tool_calling: {max_turns: 7}}\n  b: {model: y}",
    ] {
        let checked = checked(yaml);
        assert_eq!(checked.findings, [], "{yaml}");
        assert!(checked.agent().is_some(), "{yaml}");
    }
}

/// Whatever is off, the same file that is built without places is refused too, and the other way round.
fn agrees(yaml: &str) -> Result<(), TestCaseError> {
    let checked = checked(yaml);
    for finding in checked.findings.iter().filter_map(|finding| finding.span) {
        prop_assert!(finding.start <= finding.end && finding.end <= checked.source().len());
    }
    let usable = errors(&checked).is_empty();
    prop_assert_eq!(usable, checked.agent().is_some());
    if usable {
        prop_assert!(checked.text.clone().build(sections()).is_ok());
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_text_breaks_the_reader(text in "\\PC{0,200}") {
        agrees(&text)?;
    }

    #[test]
    fn no_yaml_like_text_breaks_the_reader(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "phases", "tools", ":", ": ", "\n", "\n  ", "\n    ", "- ", "[", "]", "{", "}",
                ", ", "&a ", "*a", "!!str ", "|\n", "\"", "'", "#", "notes", "0", ".inf", "~",
                "api_key", "settings", "---\n", "\t", "é", "\u{feff}", "transitions", "A", "when",
            ]),
            0..40,
        ),
    ) {
        agrees(&parts.concat())?;
    }

    /// A file that works, with a piece taken out, put in or changed somewhere.
    #[test]
    fn no_slip_of_the_hand_breaks_the_reader(
        at in any::<prop::sample::Index>(),
        gone in 0_usize..12,
        put in prop::sample::select(vec!["", "x", ":", "\n", " ", "- ", "{", "]", "\"", "0", "*"]),
    ) {
        let places: Vec<usize> = DOCUMENT.char_indices().map(|(at, _)| at).collect();
        let at = at.index(places.len());
        let end = places.get(at + gone).copied().unwrap_or(DOCUMENT.len());
        agrees(&format!("{}{put}{}", &DOCUMENT[..places[at]], &DOCUMENT[end..]))?;
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let checked = read(&bytes).check(sections());
        prop_assert_eq!(errors(&checked).is_empty(), checked.agent().is_some());
    }
}

/// The log names a model by its provider, and by its own name where that would not tell.
#[test]
fn of_two_that_are_one_model_the_log_says_which() {
    let yaml = "models:\n  a: {provider: ollama, model: x}\n  b: {model: 'ollama:x'}\n  \
                c: {provider: ollama, model: y}\n  'ollama:z': {provider: ollama, model: z}\n  \
                d: {provider: ollama, model: z}\n";
    let text = checked(yaml).text;
    for (name, logged) in [
        ("a", "ollama:x (a)"),
        ("b", "ollama:x (b)"),
        ("c", "ollama:y"),
        ("ollama:z", "ollama:z"),
        ("d", "ollama:z (d)"),
        ("ollama:x", "ollama:x"),
        ("ollama:q", "ollama:q"),
    ] {
        let Ok(Chosen::Model(model)) = text.chosen_by_name(name) else { panic!("{name}") };
        assert_eq!(text.name_in_log(&model), logged, "{name}");
        let asked_as_it_is = name == "ollama:x";
        assert_eq!(text.meant_as_it_is(&model).is_some(), asked_as_it_is, "{name}");
    }
}

/// Whoever answers must be able to read what is sent.
#[test]
fn the_smallest_window_of_a_chain_bounds_the_context() {
    let yaml = "models:\n  a: {model: x, fallback: b, capabilities: {context_window_tokens: 9000}}\n  \
                b: {model: y, capabilities: {context_window_tokens: 4000}}\nsettings: {model: a}\n";
    let checked = checked(yaml);
    assert_eq!(checked.agent().unwrap().settings.max_context_tokens, 4000);
}

/// A pack has one name: in a file, in the published schema and in what is told.
#[test]
fn a_pack_is_called_as_it_is_written() {
    for pack in PackName::ALL {
        assert_eq!(serde_json::to_value(pack).unwrap(), pack.as_str());
    }
    let schema = serde_json::to_value(schemars::schema_for!(PackName)).unwrap();
    let written: Vec<&str> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["const"].as_str().unwrap())
        .collect();
    let all: Vec<&str> = PackName::ALL.iter().map(|pack| pack.as_str()).collect();
    assert_eq!(all, written);
}

/// A permission names a policy: it must not pass to another one when the list is reordered.
#[test]
fn unnamed_policies_are_named_by_their_content() {
    let first = "  - rule: {tools: [read_notes], ask: 'true', message: First.}\n";
    let second = "  - limit: {tools: [read_notes], per: turn, max: 2}\n";
    let names = |entries: &[&str]| {
        let yaml = format!("packs: [notes]\npolicies:\n{}", entries.concat());
        let checked = checked(&yaml);
        assert_eq!(errors(&checked), Vec::<&Finding>::new(), "{yaml}");
        let toolset = &checked.agent().unwrap().toolset;
        let entry = &toolset.entries()[toolset.find("read_notes").unwrap()];
        entry.policies.iter().map(|policy| policy.name().to_string()).collect::<Vec<_>>()
    };
    let forwards = names(&[first, second]);
    assert!(forwards[0].len() == 13 && forwards[0].starts_with("rule-"), "{forwards:?}");
    assert!(forwards[1].len() == 14 && forwards[1].starts_with("limit-"), "{forwards:?}");
    let mut backwards = names(&[second, first]);
    backwards.reverse();
    assert_eq!(forwards, backwards);
    assert_ne!(forwards[..1], names(&[&first.replace("First", "Other")]));
    let twice = checked(&format!("packs: [notes]\npolicies:\n{first}{second}{first}"));
    let told = errors(&twice);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].message.starts_with("there are two policies `rule-"), "{told:?}");
}
