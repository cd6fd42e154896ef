//! Folds as properties: state is what its changes say, live, replayed, exported or read again.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Change, Event, Finish, ProjectEvent, Record, Usage};
use toolgate_kernel::fold::{Project, Session, State};
use toolgate_kernel::key::Key;
use toolgate_kernel::time::Timestamp;

use crate::json::any_json;
use crate::support::{cases, human, key, session_id};

/// Few keys, so that changes meet: two families, one of them with its single entry.
fn any_key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec!["note:a", "note:b", "plan", "book:ü c"]).prop_map(key)
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (any_key(), any_json(), 1..4_u16).prop_map(|(key, value, v)| Change::Put { key, value, v }),
        4 => (any_key(), any_json(), 1..4_u16)
            .prop_map(|(key, value, v)| Change::Push { key, value, v }),
        2 => any_key().prop_map(|key| Change::Remove { key }),
        1 => Just(Change::Clear {}),
    ]
}

fn any_changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(any_change(), 0..24)
}

/// The changes that can be made one after the other, and the state they lead to.
fn made(changes: Vec<Change>) -> (Vec<Change>, State) {
    let mut state = State::default();
    let made = changes.into_iter().filter(|change| state.apply(change).is_ok()).collect();
    (made, state)
}

fn record<E>(seq: u64, event: E) -> Record<E> {
    Record { seq, at: Timestamp(0), actor: human(), epoch: 1, saw: None, event, decision: None }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn an_export_restores_the_state_that_was_built_step_by_step(changes in any_changes()) {
        let (_, state) = made(changes);
        prop_assert_eq!(State::import(&state.export()), Some(state.clone()));
        // An export is JSON that somebody keeps in a file and reads again (W27).
        let text = state.export().to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(State::import(&read), Some(state));
    }

    #[test]
    fn a_change_that_is_refused_changes_nothing(changes in any_changes()) {
        let mut state = State::default();
        for change in &changes {
            let before = state.clone();
            let was_value = change.key().and_then(|key| state.get(key)).is_some_and(|slot| slot.as_one().is_some());
            let refused = state.apply(change).is_err();
            prop_assert_eq!(refused, was_value && matches!(change, Change::Push { .. }));
            prop_assert!(!refused || state == before);
        }
    }

    #[test]
    fn a_version_stands_for_the_content_and_not_for_its_history(changes in any_changes()) {
        let (_, state) = made(changes);
        let again = State::import(&state.export()).unwrap();
        for (family, shelf) in state.shelves() {
            for (name, slot) in shelf.iter() {
                let twin = again.shelf(family.as_str()).and_then(|shelf| shelf.get(name)).unwrap();
                prop_assert_eq!(twin.version(), slot.version());
                prop_assert_eq!(twin.value(), slot.value());
            }
        }
    }

    /// Memory follows the log: what was applied live is what the stored bytes say.
    #[test]
    fn replaying_the_stored_bytes_gives_the_live_state(changes in any_changes()) {
        let (changes, state) = made(changes);
        let (mut live, mut replayed) = (Session::new(session_id()), Session::new(session_id()));
        for (seq, change) in (1..).zip(changes) {
            let event = Event::StateChanged { changes: vec![change], reason: "test".into() };
            let record = record(seq, event);
            replayed.apply(&Record::decode(&record.encode().unwrap()).unwrap());
            live.apply(&record);
        }
        prop_assert_eq!(&live.state, &state);
        prop_assert_eq!(&replayed, &live);
        prop_assert_eq!(replayed.export().1, live.export().1);
    }

    #[test]
    fn the_project_follows_the_same_changes(changes in any_changes()) {
        let (changes, state) = made(changes);
        let event =
            ProjectEvent::ProjectChanged { changes, session: None, call: None, reason: "test".into() };
        let record = record(1, event);
        let (mut live, mut replayed) = (Project::default(), Project::default());
        live.apply(&record);
        replayed.apply(&Record::decode(&record.encode().unwrap()).unwrap());
        prop_assert_eq!(&live.state, &state);
        prop_assert_eq!(replayed, live);
    }
}

/// W27: an export that says something else than we write is refused as a whole.
#[test]
fn an_altered_export_is_refused() {
    let mut state = State::default();
    for change in [
        Change::Put { key: key("note:a"), value: json!({"n": 1}), v: 2 },
        Change::Push { key: key("log"), value: json!("first"), v: 1 },
    ] {
        state.apply(&change).unwrap();
    }
    let good = json!({"log": {"v": 1, "items": ["first"]}, "note:a": {"v": 2, "value": {"n": 1}}});
    assert_eq!(state.export(), good);
    assert_eq!(State::import(&good), Some(state));
    let altered = [
        json!([]),
        json!("note"),
        json!({"note:a": 1}),
        json!({"note:a": {"value": 1}}),
        json!({"note:a": {"v": "2", "value": 1}}),
        json!({"note:a": {"v": 2.0, "value": 1}}),
        json!({"note:a": {"v": -1, "value": 1}}),
        json!({"note:a": {"v": 65_536, "value": 1}}),
        json!({"note:a": {"v": null, "value": 1}}),
        json!({"note:a": {"v": 1}}),
        json!({"note:a": {"v": 1, "value": 1, "items": [1]}}),
        json!({"note:a": {"v": 1, "items": "first"}}),
        json!({"note:a": {"v": 1, "items": {"0": "first"}}}),
        json!({"Note:a": {"v": 1, "value": 1}}),
        json!({"": {"v": 1, "value": 1}}),
        json!({"log": {"v": 1, "items": ["first"]}, "note:a": {"v": [], "value": 1}}),
    ];
    for export in altered {
        assert_eq!(State::import(&export), None, "{export}");
    }
}

/// A provider says what a reply cost; no number it can say breaks the fold or wraps around.
#[test]
fn usage_beyond_all_bounds_stays_at_the_bound() {
    let mut session = Session::new(session_id());
    for seq in 1..=3 {
        let (input_tokens, output_tokens) = (u64::MAX, u64::MAX);
        let usage = Usage { input_tokens, output_tokens, cached_tokens: 7, ..Usage::default() };
        let event = Event::ModelReplied {
            turn: seq,
            text: String::new(),
            calls: Vec::new(),
            finish: Finish::Stop,
            usage,
            last_usage: None,
            native: None,
            repairs: Vec::new(),
            directed: None,
            attempts: Vec::new(),
            calls_max: None,
            evidence: None,
        };
        session.apply(&Record { actor: Actor::Model("m".into()), ..record(seq, event) });
    }
    assert_eq!(session.usage.input_tokens, u64::MAX);
    assert_eq!(session.usage.output_tokens, u64::MAX);
    assert_eq!(session.usage.cached_tokens, 21);
}
