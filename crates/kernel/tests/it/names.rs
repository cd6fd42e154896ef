//! Names mean one thing each: what a grammar allows is kept as written, the rest is refused.

use proptest::prelude::*;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::StreamId;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PhaseName, SessionId, ToolName, nearest};

use crate::support::cases;

/// What the published pattern says, written another way than the parser does.
fn legal_id(text: &str) -> bool {
    regex::Regex::new("^[a-z0-9_-]{1,64}$").unwrap().is_match(text)
}

fn legal_word(text: &str) -> bool {
    regex::Regex::new("^[A-Za-z0-9_.-]{1,64}$").unwrap().is_match(text)
}

/// Texts near the grammar: mostly legal characters, some that look like them, some blanks.
fn near_names() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        8 => "[a-z0-9_-]{1,12}",
        1 => "[A-Z. /:]",
        1 => prop::sample::select(vec!["е", "\u{200b}", "\u{ad}", "\n", "\0", "é", "ａ", "\u{202e}"])
            .prop_map(str::to_owned),
    ];
    prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_name_is_legal_exactly_when_its_pattern_says_so(text in near_names()) {
        prop_assert_eq!(ToolName::parse(&text).is_ok(), legal_id(&text));
        prop_assert_eq!(PhaseName::parse(&text).is_ok(), legal_word(&text));
        let read = serde_json::from_value::<ToolName>(text.clone().into());
        prop_assert_eq!(read.is_ok(), legal_id(&text));
    }

    #[test]
    fn a_legal_name_is_kept_byte_for_byte(text in "[a-z0-9_-]{1,64}") {
        let name = ToolName::parse(&text).unwrap();
        prop_assert_eq!(name.as_str(), &text);
        prop_assert_eq!(name.to_string(), text.clone());
        prop_assert_eq!(serde_json::to_value(&name).unwrap(), text);
    }

    #[test]
    fn any_text_is_refused_in_bounded_words(text in any::<String>()) {
        if let Err(refusal) = ToolName::parse(&text) {
            prop_assert!(refusal.to_string().len() < 2_000);
        }
    }

    #[test]
    fn call_ids_round_trip(number in any::<u64>()) {
        let id = CallId(number);
        let text = serde_json::to_value(id).unwrap();
        prop_assert_eq!(&text, &serde_json::Value::String(id.to_string()));
        prop_assert_eq!(serde_json::from_value::<CallId>(text).unwrap(), id);
    }

    #[test]
    fn keys_round_trip(family in "[a-z0-9_-]{1,8}", name in "[^\\p{C}]{0,20}") {
        let text = if name.is_empty() { family } else { format!("{family}:{name}") };
        let key = Key::parse(&text).unwrap();
        prop_assert_eq!(key.to_string(), text.clone());
        let read: Key = serde_json::from_value(serde_json::to_value(&key).unwrap()).unwrap();
        prop_assert_eq!(read, key);
    }

    #[test]
    fn actors_round_trip(
        kind in "human|file|client_user|agent|model|client",
        label in "[a-z0-9._-]{1,32}",
        name in "[^\\p{C}]{1,20}",
    ) {
        let text = if kind == "human" { format!("human:{label}") } else { format!("{kind}:{name}") };
        let actor = Actor::try_from(text.clone()).unwrap();
        prop_assert_eq!(actor.to_string(), text.clone());
        prop_assert_eq!(actor.is_human(), kind == "human");
        prop_assert_eq!(serde_json::to_value(&actor).unwrap(), text);
    }

    #[test]
    fn no_other_text_is_an_actor(text in any::<String>()) {
        let kinds = ["human:", "file:", "client_user:", "agent:", "model:", "client:"];
        let known = text == "system" || kinds.iter().any(|kind| text.starts_with(kind));
        prop_assert!(known || Actor::try_from(text).is_err());
    }

    #[test]
    fn the_suggestion_is_one_of_the_legal_names(
        wrong in any::<String>(),
        legal in prop::collection::vec("[a-z_]{1,12}", 0..6),
    ) {
        let near = nearest(&wrong, legal.iter().map(String::as_str));
        prop_assert!(near.is_none_or(|near| legal.iter().any(|name| name == near)));
    }

    #[test]
    fn a_slip_of_one_key_is_understood(name in "[a-z_]{4,20}", at in any::<prop::sample::Index>()) {
        let at = at.index(name.len());
        let slip: String =
            name.chars().enumerate().map(|(i, c)| if i == at { '#' } else { c }).collect();
        prop_assert_eq!(nearest(&slip, [name.as_str()]), Some(name.as_str()));
    }
}

#[test]
fn lengths_end_at_64() {
    for (length, legal) in [(0, false), (1, true), (64, true), (65, false)] {
        assert_eq!(ToolName::parse(&"a".repeat(length)).is_ok(), legal, "{length}");
    }
}

#[test]
fn what_is_no_call_id_is_refused() {
    for text in ["", "c", "17", "C17", "c+1", "c-1", "c 1", "c1 ", "c18446744073709551616", "c１"]
    {
        assert!(CallId::try_from(text.to_owned()).is_err(), "{text:?}");
    }
}

#[test]
fn streams_round_trip_and_nothing_else_is_one() {
    let id = SessionId::parse("s-1").unwrap();
    for stream in [StreamId::Project, StreamId::Session(id.clone()), StreamId::Inbox(id)] {
        assert_eq!(StreamId::parse(&stream.to_string()), Some(stream));
    }
    for text in ["", "project/x", "session", "session/", "session/A", "inbox/a/b", "other/x"] {
        assert_eq!(StreamId::parse(text), None, "{text:?}");
    }
}
