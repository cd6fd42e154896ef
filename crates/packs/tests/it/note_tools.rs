//! Notes: any JSON under a key, with errors that say what there is (1.5, R15, R16).

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;

use crate::room::Room;

#[tokio::test]
async fn every_json_value_is_kept_as_it_is() {
    let mut room = Room::open().await;
    let table = [
        ("object", json!({ "b": 1, "a": [null] }), "object (2 keys)"),
        ("empty object", json!({}), "object (0 keys)"),
        ("array", json!([1, "2"]), "array (2 items)"),
        ("string", json!(" two\nwords "), "string (2 words)"),
        ("empty", json!(""), "string (0 words)"),
        ("number as text", json!("3"), "string (1 words)"),
        ("boolean", json!(false), "boolean"),
        ("number", json!(1.5), "number"),
        ("null", Value::Null, "null"),
    ];
    for (key, data, _) in &table {
        let (message, _) = room.works("write_notes", json!({ "key": key, "data": data })).await;
        assert_eq!(message, format!("wrote notes key '{key}'"));
        assert_eq!(room.works("read_notes", json!({ "key": key })).await.1, *data, "{key}");
    }
    let (message, hints) = room.works("list_notes", json!({})).await;
    assert_eq!(message, "9 notes.");
    for (key, _, hint) in table {
        assert_eq!(hints[key], hint, "{key}");
    }
}

#[tokio::test]
async fn a_missing_note_lists_the_keys() {
    let mut room = Room::open().await;
    let none = "notes key 'x' not found. There are no notes yet.";
    for tool in ["read_notes", "delete_notes"] {
        let (code, message, path, allowed) = room.fails(tool, json!({ "key": "x" })).await;
        assert_eq!((code, message.as_str()), (Code::TOOL_FAILED, none));
        assert_eq!((path.as_deref(), allowed), (Some("key"), Some(vec![])));
    }
    for key in ["b", "a", "note:with:colons"] {
        room.works("write_notes", json!({ "key": key, "data": 1 })).await;
    }
    let (_, message, _, allowed) = room.fails("read_notes", json!({ "key": "A" })).await;
    assert_eq!(message, "notes key 'A' not found. Use one of the keys that are listed.");
    assert_eq!(allowed.unwrap(), ["a", "b", "note:with:colons"]);
    for number in 0..60 {
        room.works("write_notes", json!({ "key": format!("k{number}"), "data": 1 })).await;
    }
    let (_, message, _, allowed) = room.fails("read_notes", json!({ "key": "z" })).await;
    assert!(message.ends_with("There are 13 more than are listed."), "{message}");
    assert_eq!(allowed.unwrap().len(), 50);
    assert!(room.variable("keys_text").ends_with(" and 13 more"));
}

#[tokio::test]
async fn what_cannot_be_a_key_is_refused() {
    let mut room = Room::open().await;
    let table = [
        (json!(""), "must not be blank"),
        (json!(" \t"), "must not be blank"),
        (json!("a\u{7}b"), "U+0007"),
        (json!("a\nb"), "U+000A"),
        (json!("a\u{202e}b"), "U+202E"),
        (json!("x".repeat(201)), "201 characters"),
        (json!("水".repeat(200)), "600 bytes"),
        (json!(null), "key"),
    ];
    for (key, reason) in table {
        for tool in ["read_notes", "write_notes", "delete_notes"] {
            let mut args = json!({ "key": key });
            if tool == "write_notes" {
                args["data"] = json!(1);
            }
            let (code, message, ..) = room.fails(tool, args).await;
            assert_eq!(code, Code::ARGUMENTS_INVALID, "{tool} {message}");
            assert!(message.contains(reason), "{tool}: {message}");
        }
    }
    for key in ["x".repeat(200), "é".repeat(200)] {
        room.works("write_notes", json!({ "key": key, "data": 1 })).await;
    }
}

/// A missing value is a mistake, not null: the mistake must not be hidden from the model.
#[tokio::test]
async fn a_value_must_be_given() {
    let mut room = Room::open().await;
    let (code, message, ..) = room.fails("write_notes", json!({ "key": "a" })).await;
    assert_eq!((code, message.as_str()), (Code::ARGUMENTS_INVALID, "data: is required"));
    room.works("write_notes", json!({ "name": "a", "value": [1] })).await;
    assert_eq!(room.works("read_notes", json!({ "note_key": "a" })).await.1, json!([1]));
}

#[tokio::test]
async fn a_deleted_note_is_gone() {
    let mut room = Room::open().await;
    assert_eq!(room.variable("keys_text"), "none");
    for key in ["b", "a"] {
        room.works("write_notes", json!({ "key": key, "data": null })).await;
    }
    assert_eq!(room.variable("keys_text"), "a, b");
    let (message, _) = room.works("delete_notes", json!({ "key": "b" })).await;
    assert_eq!(message, "deleted notes key 'b'");
    room.fails("delete_notes", json!({ "key": "b" })).await;
    assert_eq!(
        room.works("list_notes", json!({})).await,
        ("1 note.".into(), json!({ "a": "null" }))
    );
}
