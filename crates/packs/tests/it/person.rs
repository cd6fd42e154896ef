//! A person edits `manuscript.md`: never overwritten, taken in, and left as it is until a call writes.

use serde_json::json;
use toolgate_kernel::envelope::Code;

use crate::room::Room;

const CHANGED: &str =
    "manuscript.md was changed by a person and is being taken in. Read it again, then retry.";

#[tokio::test]
async fn a_persons_words_are_never_overwritten() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a"), ("Two", "b")]).await;
    let edited = "Foreword\n\n<!--start section: One-->\nmy own words\n<!-- END SECTION: One -->\n<!-- SECTION: New -->\nn";
    room.write("manuscript.md", edited);
    for (tool, args) in [
        ("append_to_manuscript", json!({ "content": "x" })),
        ("create_section", json!({ "name": "N", "content": "x" })),
        ("replace_section", json!({ "name": "One", "content": "x" })),
        ("delete_section", json!({ "name": "One" })),
        ("add_beat", json!({ "storyline": "s", "chapter": "c", "beat": "b", "content": "x" })),
    ] {
        let (code, message, ..) = room.fails(tool, args).await;
        assert_eq!((code, message.as_str()), (Code::COMMIT_CONFLICT, CHANGED), "{tool}");
    }
    // Taken in: the state says what the file says, and the file is as the person left it.
    room.works("take_in", json!({})).await;
    assert_eq!(room.file("manuscript.md").as_deref(), Some(edited));
    for (name, text) in [("One", "my own words"), ("New", "n")] {
        let args = json!({ "section_name": name });
        assert_eq!(room.works("read_manuscript_section", args).await.1, text);
    }
    room.fails("read_manuscript_section", json!({ "section_name": "Two" })).await;
    assert_eq!(room.works("read_manuscript_tail", json!({})).await.1, "Foreword my own words n");
    // The next call that writes gives the file its usual form.
    room.works("replace_section", json!({ "name": "New", "content": "m" })).await;
    assert_eq!(
        room.file("manuscript.md").unwrap(),
        "Foreword\n\n<!-- SECTION: One -->\nmy own words\n<!-- END SECTION: One -->\n\n\
         <!-- SECTION: New -->\nm\n<!-- END SECTION: New -->\n"
    );
    assert_eq!(room.works("take_in", json!({})).await.0, "0");
}

/// An edit that keeps length and nearly the moment is seen too.
#[tokio::test]
async fn an_edit_right_after_a_call_is_seen() {
    let mut room = Room::open().await;
    for round in 0..20 {
        room.works("create_section", json!({ "name": format!("S{round}"), "content": "abc" }))
            .await;
        let file = room.file("manuscript.md").unwrap();
        room.write("manuscript.md", file.replace("abc", "xyz"));
        let (code, ..) = room.fails("append_to_manuscript", json!({ "content": "x" })).await;
        assert_eq!(code, Code::COMMIT_CONFLICT);
        room.works("take_in", json!({})).await;
    }
}

#[tokio::test]
async fn a_file_that_was_there_before_is_a_persons() {
    let mut room = Room::open().await;
    room.write("manuscript.md", "Once upon a time.\n");
    let (code, ..) = room.fails("create_section", json!({ "name": "A", "content": "x" })).await;
    assert_eq!(code, Code::COMMIT_CONFLICT);
    room.works("take_in", json!({})).await;
    room.works("create_section", json!({ "name": "A", "content": "x" })).await;
    assert!(
        room.file("manuscript.md").unwrap().starts_with("Once upon a time.\n\n<!-- SECTION: A")
    );
}

#[tokio::test]
async fn a_file_that_is_gone_is_written_anew() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    std::fs::remove_file(room.path("manuscript.md")).unwrap();
    let (_, message, ..) = room.fails("take_in", json!({})).await;
    assert_eq!(message, "manuscript.md was removed; the manuscript itself is still there.");
    room.works("append_to_manuscript", json!({ "content": "b" })).await;
    assert!(room.file("manuscript.md").unwrap().contains("\na\n"));
}

/// What a model writes must not pass for a person's words.
#[tokio::test]
async fn the_file_tools_do_not_write_it() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    for path in ["manuscript.md", "./Manuscript.MD", "x/../manuscript.md"] {
        for (tool, args) in [
            ("write_file", json!({ "path": path, "content": "x" })),
            ("edit_file", json!({ "path": path, "old_text": "a", "new_text": "b" })),
        ] {
            let (code, message, ..) = room.fails(tool, args).await;
            assert_eq!(code, Code::TOOL_FAILED);
            assert!(message.contains("only they write it"), "{message}");
        }
    }
    room.works("read_file", json!({ "path": "manuscript.md" })).await;
}
