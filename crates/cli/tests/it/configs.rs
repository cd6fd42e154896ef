//! `check`, `init`, `tools`: a configuration is diagnosed, drawn and written.

use serde_json::Value;

use crate::support::{Desk, repository};

const DATA: &str = "crates/cli/tests/data/mistakes";

/// Each file of mistakes as `check` shows it. `UPDATE=1` rewrites what is expected.
#[test]
fn mistakes_are_shown_as_a_compiler_shows_them() {
    let desk = Desk::new();
    let folder = repository().join(DATA);
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    assert!(files.len() > 10, "{files:?}");
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::copy(&path, desk.project().join(&name)).unwrap();
        let ran = desk.run(&["check", &name]);
        assert_eq!((ran.code, ran.err.as_str()), (2, ""), "{name}");
        assert!(!ran.out.contains("CANARY"), "{name}: {}", ran.out);
        for line in ran.out.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        let golden = path.with_extension("txt");
        if std::env::var("UPDATE").is_ok() {
            std::fs::write(&golden, &ran.out).unwrap();
        }
        let kept = std::fs::read_to_string(&golden).unwrap_or_default();
        assert!(kept == ran.out, "{name}: run UPDATE=1 cargo test -p toolgate\n{}", ran.out);
        let ran = desk.run(&["check", &name, "--json"]);
        let lines: Vec<Value> =
            ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!ran.out.contains("CANARY"), "{name}: {}", ran.out);
        let (summary, findings) = lines.split_last().unwrap();
        assert_eq!(summary["kind"], "summary");
        assert!(findings.iter().any(|line| line["severity"] == "error"), "{name}");
        assert!(findings.iter().all(|line| line["file"] == name.as_str()), "{name}");
    }
}

/// Whatever uses a configuration refuses one that is wrong, in the same words.
/// A folder that is not there has no configuration, not even the built-in one.
#[test]
fn a_project_that_is_not_there_is_not_checked() {
    let desk = Desk::new();
    for args in [&["check"] as &[&str], &["tools"], &["explain", "list_notes"]] {
        let ran = desk.run(&[args, &["--project", "nowhere"]].concat());
        assert!(ran.code == 2 && ran.err.contains("nowhere is not a folder"), "{}", ran.err);
    }
}

#[test]
fn a_pack_that_is_not_enabled_is_named() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [notes]\nphases: {A: {tools: [notes, files_read]}}\n");
    let ran = desk.run(&["check"]);
    assert!(ran.out.contains("the pack `files` has it"), "{}{}", ran.out, ran.err);
}

/// A condition on an argument that does not exist would deny every call.
#[test]
fn an_argument_that_no_tool_of_a_rule_has_is_told() {
    let desk = Desk::new();
    let rule = |condition: &str| {
        let tools = "tools: [create_section, append_to_manuscript]";
        let rule = format!("{{{tools}, deny: '{condition}', message: No.}}");
        desk.write("toolgate.yaml", &format!("policies: [{{name: a, rule: {rule}}}]\n"));
        desk.ok(&["check"])
    };
    let told = rule("words(args.contnt) > 8 || session.args.other");
    assert!(told.contains("warning[unknown_name]"), "{told}");
    assert!(told.contains("did you mean content?") && !told.contains("other`"), "{told}");
    // One of the tools has it.
    assert!(!rule("has(args.name) || words(args.content) > 8").contains("warning"));
}

#[test]
fn nothing_is_half_loaded() {
    let desk = Desk::new();
    desk.write("toolgate.yaml", "packs: [planning]\npolices: []\n");
    for args in [&["run", "x"][..], &["call", "planning_read_plan"], &["tools"]] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains("error[unknown_key]"), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("did you mean `policies`?"), "{args:?}: {}", ran.err);
    }
    assert!(!desk.project().join(".toolgate").exists(), "nothing was begun");
}

#[test]
fn what_is_sound_is_drawn() {
    let desk = Desk::new();
    let document = repository().join("crates/kernel/tests/data/document_000.yaml");
    let out = desk.ok(&["check", document.to_str().unwrap()]);
    for line in [
        "    write_notes              ●  ●  ●  ●  ●  ●",
        "    create_section           ·  ·  ·  ●  ·  ·",
        "  ■ READY_FOR_HUMAN  ends the run",
        "      ↺ REVISION",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let out = desk.ok(&["check", "--json"]);
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(summary["phases"].as_array().unwrap().len(), 6);
    // Thirteen of the writer, sixteen core tools, and two about the catalogue.
    assert_eq!(summary["tools"].as_array().unwrap().len(), 31);
    assert_eq!(summary["errors"], 0);
}

/// The examples of the docs are sound.
#[test]
fn the_documented_examples_are_sound() {
    let page = std::fs::read_to_string(repository().join("docs/configuration.md")).unwrap();
    let examples: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 2, "{examples:?}");
    let desk = Desk::new();
    for example in examples {
        desk.write("toolgate.yaml", example);
        desk.ok(&["check"]);
    }
}

#[test]
fn init_writes_what_check_finds_sound_and_never_over_a_file() {
    for template in ["novel", "minimal", "files"] {
        let desk = Desk::new();
        let out = desk.ok(&["init", "--template", template]);
        assert!(out.lines().count() <= 4, "{out}");
        if template == "minimal" {
            // What it says to do works.
            let out = desk.ok(&["run", "why", "--model", "script:hello.yaml"]);
            assert!(out.contains("✓ Completed."), "{out}");
        }
        let out = desk.ok(&["check"]);
        assert!(out.contains("✓ toolgate.yaml can be used.\n"), "{template}: {out}");
        desk.write("toolgate.yaml", "name: mine\n");
        let again = desk.run(&["init", "--template", template]);
        assert_eq!(again.code, 2, "{}", again.err);
        let kept = std::fs::read_to_string(desk.project().join("toolgate.yaml")).unwrap();
        assert_eq!(kept, "name: mine\n");
        desk.ok(&["init", "--template", template, "--force"]);
        desk.ok(&["check"]);
    }
}

/// The template with files asks before it writes what other programs run, in every spelling that leads
/// there, and before nothing else.
#[test]
fn the_template_with_files_asks_before_files_that_others_run() {
    let desk = Desk::new();
    desk.ok(&["init", "--template", "files"]);
    let write = |path: &str| {
        let args = serde_json::json!({"path": path, "content": "x"}).to_string();
        desk.run(&["call", "write_file", &args, "--json"])
    };
    for path in [
        ".github/workflows/ci.yml",
        "./.GitHub/dependabot.yml",
        "vendor/lib/.github/x",
        ".envrc",
        "a/../.envrc",
        "sub/.ENVRC",
        ".gitmodules",
        "Makefile",
        "src/makefile",
        "GNUmakefile",
    ] {
        let ran = write(path);
        assert_eq!(ran.code, 1, "{path}: {}{}", ran.out, ran.err);
        assert!(ran.out.contains("APPROVAL_PENDING"), "{path}: {}", ran.out);
    }
    let edit = r#"{"path":"Makefile","old_text":"a","new_text":"b"}"#;
    let ran = desk.run(&["call", "edit_file", edit, "--json", "--session", "edit"]);
    assert!(ran.out.contains("APPROVAL_PENDING"), "{}{}", ran.out, ran.err);
    for path in ["notes.md", "makefiles.md", "github/x", "envrc.txt"] {
        let ran = write(path);
        assert_eq!(ran.code, 0, "{path}: {}{}", ran.out, ran.err);
    }
    for path in [".github", ".envrc", ".gitmodules", "Makefile", "GNUmakefile"] {
        assert!(!desk.project().join(path).exists(), "{path} was written");
    }
}

#[test]
fn tools_are_listed_with_the_phases_that_grant_them() {
    let desk = Desk::new();
    let out = desk.ok(&["tools"]);
    assert!(out.contains("  change_phase                 staged     1 2 3 4 5\n"), "{out}");
    let lines = desk.ok(&["tools", "--phase", "READY_FOR_HUMAN", "--json"]);
    let tools: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tools.len(), 6, "{lines}");
    assert!(tools.iter().all(|tool| tool["effect"] == "read"), "{lines}");
    assert_eq!(desk.run(&["tools", "--phase", "NOWHERE"]).code, 2);
}

/// Command line over file over environment.
#[test]
fn the_nearest_place_wins() {
    let desk = Desk::new();
    let model = |file: &str, variable: &str, flag: Option<&str>| {
        desk.write("toolgate.yaml", &format!("packs: [planning]\n{file}"));
        let mut command = desk.command();
        command.env("TOOLGATE_MODEL", variable).args(["run", "x", "--new"]);
        if let Some(flag) = flag {
            command.args(["--model", flag]);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let named = |(code, err): (Option<i32>, String), name: &str| {
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(name), "{name}: {err}");
    };
    named(model("", "from-environment", None), "from-environment");
    named(model("settings: {model: from-file}\n", "from-environment", None), "from-file");
    named(model("settings: {model: from-file}\n", "", Some("from-flag")), "from-flag");
}

#[test]
fn a_bad_variable_is_named() {
    let desk = Desk::new();
    for (name, value) in [
        ("TOOLGATE_MAX_CONTEXT_TOKENS", "0"),
        ("TOOLGATE_SUMMARY_MAX_CHARS", "many"),
        ("TOOLGATE_AUTO_PILOT", "perhaps"),
    ] {
        let output = desk.command().env(name, value).arg("check").output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(name), "{err}");
    }
}

/// What an operator writes down must hold in another folder, for another user, whatever the
/// environment says.
#[test]
fn digests_are_of_the_file_alone() {
    let file = "packs: [notes]\nsettings: {model: local}\nmcp_servers:\n  github: {command: npx, args: \
                [-y, server-github], env: {GITHUB_TOKEN: 'env:GITHUB_TOKEN', PASSWORD: CANARY}}\n";
    let digests = |base_url: &str| {
        let desk = Desk::new();
        desk.write("toolgate.yaml", file);
        let mut command = desk.command();
        command.env("TOOLGATE_BASE_URL", base_url).env("TOOLGATE_AUTO_PILOT", "false");
        let output = command.args(["check", "--digests", "--json"]).output().unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert!(!out.contains("CANARY"), "{out}");
        let lines = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut found: Vec<Value> = lines.filter(|line| line["kind"] == "digests").collect();
        assert_eq!(found.len(), 1, "{out}");
        found.remove(0)
    };
    let one = digests("http://localhost:1");
    assert_eq!(one, digests("https://elsewhere.example"));
    for key in ["trust", "reach", "gate", "rest"] {
        let digest = one[key].as_str().unwrap();
        assert!(digest.len() == 71 && digest.starts_with("sha256:"), "{digest}");
    }
    let reason = &one["reasons"][0];
    assert_eq!(reason["key"], "mcp_servers.github.command");
    let told =
        "server github starts the program npx -y server-github; given GITHUB_TOKEN, PASSWORD";
    assert_eq!(reason["reason"], told);
}

#[test]
fn check_prints_digests_and_what_needs_trust() {
    let desk = Desk::new();
    let harmless = desk.ok(&["check", "--digests"]);
    assert!(harmless.contains("Nothing in it needs a person's trust."), "{harmless}");
    let trust = harmless.lines().find(|line| line.starts_with("trust  sha256:"));
    assert_eq!(trust.map(str::len), Some(78), "{harmless}");
    desk.write("toolgate.yaml", "packs: [notes]\nweb: {searxng_url: 'https://s.example'}\n");
    let out = desk.ok(&["check", "--digests"]);
    let told =
        "It needs a person's trust:\n  web.searxng_url: searches the web at https://s.example\n";
    assert!(out.contains(told), "{out}");
    // A file that cannot be used has none.
    desk.write("toolgate.yaml", "polices: []\n");
    let ran = desk.run(&["check", "--digests"]);
    assert!(ran.code == 2 && !ran.out.contains("sha256:"), "{}", ran.out);
    let ran = desk.run(&["check", "--digests", "--json"]);
    assert!(ran.code == 2 && !ran.out.contains("sha256:"), "{}", ran.out);
}
