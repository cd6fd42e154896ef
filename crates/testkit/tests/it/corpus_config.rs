//! `config.yaml`: what is refused, and how it is told. Nothing of a bad file is loaded.
//!
//! The cases are written in another grammar; [`translated`] says each of them in ours.

use std::panic::{AssertUnwindSafe, catch_unwind};

use toolgate_kernel::config::{Checked, Finding, Mistake, Severity, read};
use toolgate_kernel::names::SectionName;
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::SpecDraft;
use toolgate_testkit::corpus::{Case, Corpus, Outcome};

const RULE: &str = "  - name: no-shell\n    rule: {tools: [shell], deny: 'true', message: No.}\n";

/// The case in our own grammar, and the mistake that must be told with these words.
fn translated(case: &Case) -> (Vec<u8>, Option<(Mistake, &'static str)>) {
    let text = case.text().unwrap_or_default();
    let models = || text.replace("providers:", "models:").replacen("{", "{model: m, ", 1);
    let (yaml, mistake) = match case.id.as_str() {
        "CFG-002" => (text, Some((Mistake::DuplicateKey, "`review`"))),
        "CFG-003" => (
            "policies:\n  - rule: {tools: [shell], deny: 'true', deny: 'false', message: No.}\n"
                .to_owned(),
            Some((Mistake::DuplicateKey, "`deny`")),
        ),
        "CFG-004" => (format!("polices:\n{RULE}"), Some((Mistake::UnknownKey, "`policies`"))),
        "CFG-005" => (text, Some((Mistake::BadName, "`no`"))),
        "CFG-007" => {
            (text.replace("tool_timeout", "call_ms_max"), Some((Mistake::OutOfRange, "at least 1")))
        }
        "CFG-011" => (
            text.replace("tool_timeout", "call_ms_max"),
            Some((Mistake::WrongType, "every limit is finite")),
        ),
        "CFG-012" => (text, Some((Mistake::Tag, "python/object"))),
        "CFG-013" => (text, Some((Mistake::SecondDocument, "second document"))),
        "CFG-014" => (text, Some((Mistake::Empty, "packs"))),
        "CFG-015" => {
            let bytes = case.generate.as_ref().unwrap().bytes().unwrap();
            return (bytes, Some((Mistake::Encoding, "byte 20")));
        }
        "CFG-016" => (format!("\u{feff}policies:\n{RULE}"), None),
        "CFG-017" => {
            (text.replace("  - deny: shell\n", RULE), Some((Mistake::UnknownKey, "U+043E")))
        }
        "CFG-018" => (text, Some((Mistake::UnknownName, "`does_not_exist`"))),
        "CFG-019" => (
            text.replace("start_phase", "default_phase"),
            Some((Mistake::UnknownName, "default_phase")),
        ),
        "CFG-020" => (text, Some((Mistake::Wildcard, "leave `tools:` out"))),
        "CFG-021" | "CFG-022" => (models(), None),
        "CFG-023" => (models(), Some((Mistake::Model, "only secrets may name variables"))),
        "CFG-025" => (text, Some((Mistake::UnknownKey, "`server`"))),
        "CFG-026" => {
            let command = text.split("command: ").nth(1).unwrap().trim_end().trim_end_matches('}');
            let yaml = format!("mcp_servers:\n  x: {{command: {command}}}\n");
            (yaml, Some((Mistake::Server, "no shell is used")))
        }
        other => panic!("{other} has no translation"),
    };
    (yaml.into_bytes(), mistake)
}

/// Where we decide otherwise than the corpus, with the reason.
const DECIDED: &[(&str, Outcome, &str)] = &[
    ("CFG-021", Outcome::Accept, "a literal key is taken and shown nowhere (the case allows both)"),
    (
        "CFG-022",
        Outcome::Accept,
        "a reference is followed where the key is needed, not at load; a variable that is missing \
         is an error there, and nothing is sent",
    ),
];

fn sections() -> Vec<Section> {
    let mut section = Section::new(SectionName::parse("tools").unwrap());
    for name in ["read", "delete_all", "shell"] {
        let spec = SpecDraft::new(name, "A tool.").group(name).build().unwrap();
        section.tools.push(spec.into());
    }
    vec![section]
}

fn play(case: &Case) -> Outcome {
    let (bytes, mistake) = translated(case);
    let checked = read(&bytes).check(sections());
    everywhere(case, &checked);
    let errors: Vec<&Finding> =
        checked.findings.iter().filter(|f| f.severity == Severity::Error).collect();
    let Some((code, words)) = mistake else {
        assert!(errors.is_empty(), "{}: {errors:?}", case.id);
        return loaded(case, &checked);
    };
    let told = |finding: &&Finding| {
        let text = format!("{} {}", finding.message, finding.help.as_deref().unwrap_or_default());
        finding.code == code && text.contains(words)
    };
    assert!(errors.iter().any(told), "{}: {errors:?}", case.id);
    assert!(checked.agent().is_none(), "{}: half loaded", case.id);
    Outcome::RejectAtLoad
}

/// What must hold of a file that is taken.
fn loaded(case: &Case, checked: &Checked) -> Outcome {
    let agent = checked.agent().unwrap();
    match case.id.as_str() {
        // The rule is in force although the file begins with a mark.
        "CFG-016" => {
            let at = agent.toolset.find("shell").unwrap();
            let policies = &agent.toolset.entries()[at].policies;
            assert_eq!(policies.first().unwrap().name().as_str(), "no-shell");
        }
        // Where the key is needed and its variable is not there, nothing is sent.
        "CFG-022" => {
            let key = checked.text.models.values().find_map(|model| model.api_key.clone()).unwrap();
            let refused = key.resolve(|_| None).unwrap_err().to_string();
            assert!(refused.contains("NOT_SET"), "{refused}");
        }
        _ => {}
    }
    Outcome::Accept
}

/// No secret is in anything that is shown, kept or printed.
fn everywhere(case: &Case, checked: &Checked) {
    let findings = format!("{:?}", checked.findings);
    let written = serde_json::to_string(&checked.text).unwrap();
    let debugged = format!("{:?}", checked.text);
    for shown in [&findings, &written, &debugged, &checked.source().to_owned()] {
        assert!(!shown.contains("CANARY"), "{}: {shown}", case.id);
    }
}

#[test]
fn every_case_about_configurations_comes_out_as_it_must() {
    let corpus = Corpus::read().unwrap();
    let (mut played, mut wrong) = (0, Vec::new());
    for case in corpus.of("config.yaml") {
        played += 1;
        let decided = DECIDED.iter().find(|(id, ..)| *id == case.id);
        let expected = decided.map_or(case.expect.outcome, |(_, outcome, _)| *outcome);
        match catch_unwind(AssertUnwindSafe(|| play(case))) {
            Ok(outcome) if outcome == expected => {}
            Ok(outcome) => wrong.push(format!("{}: {outcome:?}, not {expected:?}", case.id)),
            Err(_) => wrong.push(format!("{}: broke down, see above", case.id)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(played, corpus.counts["config.yaml"]);
}
