//! Which changes of the project are words and which are decisions: only a person's words about issues
//! need no signature.

use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::Decided;
use toolgate_kernel::event::{Change, ProjectEvent, StreamId};
use toolgate_kernel::key::Key;

fn put(key: &str) -> Change {
    Change::Put { key: Key::parse(key).unwrap(), value: json!(1), v: 1 }
}

#[test]
fn only_a_persons_words_about_issues_are_unsigned() {
    let ada = Actor::human("ada");
    let agent = Actor::Agent("chief".into());
    let (client, system) = (Actor::Client("mcp".into()), Actor::System);
    let user = Actor::ClientUser("mcp".into());
    let model = Actor::Model("m".into());
    let words = || vec![put("issues"), put("issue:1")];
    let remove = Change::Remove { key: Key::parse("issue:2").unwrap() };
    for (about, author, changes, is_signed) in [
        ("a person's word", &ada, words(), false),
        ("a person's word that makes room", &ada, [words(), vec![remove]].concat(), false),
        ("an agent outside a call", &agent, words(), true),
        ("a client", &client, words(), true),
        ("the user of a client", &user, words(), true),
        ("a model", &model, words(), true),
        ("toolgate itself", &system, words(), true),
        ("another family", &ada, vec![put("note:a")], true),
        ("another family beside", &ada, [words(), vec![put("note:a")]].concat(), true),
        ("facts beside", &ada, [words(), vec![put("facts")]].concat(), true),
        ("everything anew", &ada, [words(), vec![Change::Clear {}]].concat(), true),
        ("a family that begins alike", &ada, vec![put("issue_note:1")], true),
    ] {
        let reason = String::new();
        let changed = ProjectEvent::ProjectChanged { changes, session: None, call: None, reason };
        let decision = changed.decision(&StreamId::Project, author);
        assert_eq!(decision.is_some(), is_signed, "{about}");
    }
}
