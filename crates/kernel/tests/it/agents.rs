//! Agents that take part in conversations: what may be written of them, and what they may use.

use toolgate_kernel::config::{Checked, Mistake, Severity, read};
use toolgate_kernel::event::{Conversation, Event};
use toolgate_kernel::fold::Project;
use toolgate_kernel::names::{AgentId, PhaseName, SectionName};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::SpecDraft;

fn checked(yaml: &str) -> Checked {
    let mut section = Section::new(SectionName::parse("lamp").unwrap());
    for name in ["look", "paint"] {
        section.tools.push(SpecDraft::new(name, "Does it.").build().unwrap().into());
    }
    read(format!("packs: []\n{yaml}").as_bytes()).check(vec![section])
}

#[test]
fn every_mistake_is_told_in_its_place() {
    for (yaml, code, place, word) in [
        ("agents: {ada: {nmae: Ada}}", Mistake::UnknownKey, "nmae", "`name`"),
        ("agents: {ada: {tools: [look]}}", Mistake::UnknownKey, "tools", "enabled_tools"),
        ("agents: {Ada: {}}", Mistake::BadName, "Ada", "not legal"),
        ("agents: {ada: {name: ' '}}", Mistake::Agent, "' '", "name is blank"),
        ("agents: {ada: {name: \"A\\u200bda\"}}", Mistake::Agent, "\"A\\u200bda\"", "U+200B"),
        ("agents: {ada: {}, bob: {name: ADA}}", Mistake::Agent, "ADA", "taken by the agent ada"),
        ("agents: {ada: {name: Bob}, bob: {}}", Mistake::Agent, "bob", "taken by the agent ada"),
        (
            "agents: {ada: {name: Ann}, bob: {name: ada}}",
            Mistake::Agent,
            "ada",
            "taken by the agent ada",
        ),
        (
            "agents: {ada: {enabled_tools: [lok]}}",
            Mistake::UnknownName,
            "lok",
            "enabled_tools of agent ada: there is no tool `lok`",
        ),
        ("agents: {ada: {enabled_tools: look}}", Mistake::WrongType, "look", "expected a list"),
        (
            "models: {small: {model: 'ollama:s'}}\nagents: {ada: {model: smal}}",
            Mistake::UnknownName,
            "smal",
            "no model `smal`",
        ),
        (
            "self_authoring: {reviewer: nobody}",
            Mistake::Model,
            "nobody",
            "nothing says where the model",
        ),
        ("self_authoring: {reviewr: x}", Mistake::UnknownKey, "reviewr", "`reviewer`"),
    ] {
        let checked = checked(yaml);
        let errors: Vec<_> =
            checked.findings.iter().filter(|f| f.severity == Severity::Error).collect();
        let [finding] = errors.as_slice() else { panic!("{yaml}: {:?}", checked.findings) };
        let span = finding.span.unwrap();
        assert_eq!(finding.code, code, "{yaml}: {finding:?}");
        assert_eq!(&checked.source()[span.start..span.end], place, "{yaml}");
        let told = format!("{} {}", finding.message, finding.help.clone().unwrap_or_default());
        assert!(told.contains(word), "{yaml}: {told}");
        assert!(checked.agent().is_none());
    }
    let idle = checked("self_authoring: {}");
    assert_eq!(idle.findings.len(), 1, "{:?}", idle.findings);
    assert_eq!(idle.findings[0].code, Mistake::Idle);
}

#[test]
fn an_agent_uses_what_is_enabled_for_it_and_nobody_else_is_held_back() {
    let checked =
        checked("agents: {ada: {enabled_tools: [look]}, bob: {}, eve: {enabled_tools: []}}");
    let agent = checked.agent().unwrap();
    let main = PhaseName::parse("main").unwrap();
    for (who, tools) in [
        (None, &["look", "paint"][..]),
        (Some("ada"), &["look"]),
        (Some("bob"), &["look", "paint"]),
        (Some("eve"), &[]),
        // One that is not declared may use nothing.
        (Some("gone"), &[]),
    ] {
        let who = who.map(|who| AgentId::parse(who).unwrap());
        let shown: Vec<&str> =
            agent.visible(&main, who.as_ref()).map(|entry| entry.spec.name.as_str()).collect();
        assert_eq!(shown, tools);
        let every = agent.every_for(who.as_ref());
        assert_eq!(every.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), tools);
        for (at, entry) in agent.toolset.entries().iter().enumerate() {
            let shown = tools.contains(&entry.spec.name.as_str());
            assert_eq!(agent.grants(&main, at, who.as_ref()), shown, "{who:?} {}", entry.spec.name);
        }
    }
}

#[test]
fn an_agent_is_meant_by_its_key_or_by_its_name() {
    let checked = checked("agents: {ada: {name: Sage}, bob: {name: Ann Lee}}");
    let (agent, project) = (checked.agent().unwrap(), Project::default());
    for (text, id) in [("ada", "ada"), (" SAGE ", "ada"), ("ann lee", "bob")] {
        assert_eq!(agent.meant(&project, text).unwrap().as_str(), id);
    }
    let told = agent.meant(&project, "eve").unwrap_err().to_string();
    assert_eq!(told, "there is no agent \"eve\"; there is ada, bob");
}

/// A change of who somebody is at first is a change of the configuration.
#[test]
fn agents_are_part_of_the_fingerprint() {
    let print = |yaml: &str| checked(yaml).agent().unwrap().fingerprint;
    let plain = print("name: x");
    let one = print("name: x\nagents: {ada: {}}");
    assert_ne!(plain, one);
    assert_ne!(one, print("name: x\nagents: {ada: {system_prompt: Be kind.}}"));
}

#[test]
fn a_log_of_yesterday_says_nothing_of_agents() {
    let old = r#"{"kind":"opened","session":"s1","title":"t"}"#;
    let event: Event = serde_json::from_str(old).unwrap();
    let Event::Opened { agent, conversation, .. } = &event else { panic!("{event:?}") };
    assert_eq!((agent, *conversation), (&None, Conversation::Direct));
    assert_eq!(serde_json::to_string(&event).unwrap(), old);
}
