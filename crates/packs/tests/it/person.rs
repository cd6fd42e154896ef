//! A person edits `manuscript.md`: never overwritten, taken in, and left as it is until a call writes.

use serde_json::json;
use toolgate_kernel::envelope::Code;

use crate::meddle::Meddling;
use crate::room::Room;

#[tokio::test]
async fn a_persons_words_are_taken_in_and_never_overwritten() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a"), ("Two", "b")]).await;
    let edited = "Foreword\n\n<!--start section: One-->\nmy own words\n<!-- END SECTION: One -->\n<!-- SECTION: New -->\nn";
    room.write("manuscript.md", edited);
    // Taken in: the state says what the file says, and the file is as the person left it.
    for (name, text) in [("One", "my own words"), ("New", "n")] {
        let args = json!({ "section_name": name });
        assert_eq!(room.works("read_manuscript_section", args).await.1, text);
    }
    assert_eq!(room.file("manuscript.md").as_deref(), Some(edited));
    room.fails("read_manuscript_section", json!({ "section_name": "Two" })).await;
    assert_eq!(room.works("read_manuscript_tail", json!({})).await.1, "Foreword my own words n");
    // The next call that writes gives the file its usual form.
    room.works("replace_section", json!({ "name": "New", "content": "m" })).await;
    assert_eq!(
        room.file("manuscript.md").unwrap(),
        "Foreword\n\n<!-- SECTION: One -->\nmy own words\n<!-- END SECTION: One -->\n\n\
         <!-- SECTION: New -->\nm\n<!-- END SECTION: New -->\n"
    );
}

/// What cannot be taken in stays as it is, whatever is called.
#[tokio::test]
async fn a_file_that_is_no_text_is_left_alone() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    room.write("manuscript.md", [0xff, 0xfe, 0x00]);
    for (tool, args) in [
        ("append_to_manuscript", json!({ "content": "x" })),
        ("create_section", json!({ "name": "N", "content": "x" })),
        ("replace_section", json!({ "name": "One", "content": "x" })),
        ("delete_section", json!({ "name": "One" })),
        ("add_beat", json!({ "storyline": "s", "chapter": "c", "beat": "b", "content": "x" })),
    ] {
        assert_eq!(room.fails(tool, args).await.0, Code::COMMIT_CONFLICT, "{tool}");
    }
    assert_eq!(std::fs::read(room.path("manuscript.md")).unwrap(), [0xff, 0xfe, 0x00]);
}

/// An edit that keeps length and nearly the moment is seen too.
#[tokio::test]
async fn an_edit_right_after_a_call_is_seen() {
    let mut room = Room::open().await;
    for round in 0..20 {
        let name = format!("S{round}");
        room.works("create_section", json!({ "name": name, "content": "abc" })).await;
        let file = room.file("manuscript.md").unwrap();
        room.write("manuscript.md", file.replace("abc", "xyz"));
        room.works("append_to_manuscript", json!({ "content": "x" })).await;
        let file = room.file("manuscript.md").unwrap();
        assert!(file.contains("xyz") && !file.contains("abc"), "{file}");
    }
}

#[tokio::test]
async fn a_file_that_was_there_before_is_a_persons() {
    let mut room = Room::open().await;
    room.write("manuscript.md", "Once upon a time.\n");
    room.works("create_section", json!({ "name": "A", "content": "x" })).await;
    assert!(
        room.file("manuscript.md").unwrap().starts_with("Once upon a time.\n\n<!-- SECTION: A")
    );
}

#[tokio::test]
async fn a_file_that_is_gone_is_written_anew() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    let before = room.file("manuscript.md");
    std::fs::remove_file(room.path("manuscript.md")).unwrap();
    room.works("get_manuscript_info", json!({})).await;
    assert_eq!(room.file("manuscript.md"), before);
}

/// What a model writes must not pass for a person's words.
#[tokio::test]
async fn the_file_tools_do_not_write_it() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    for path in ["manuscript.md", "./Manuscript.MD", "x/../manuscript.md", "manuscript.md. ."] {
        for (tool, args) in [
            ("write_file", json!({ "path": path, "content": "x" })),
            ("edit_file", json!({ "path": path, "old_text": "a", "new_text": "b" })),
        ] {
            let (code, message, ..) = room.fails(tool, args).await;
            assert_eq!(code, Code::ARGUMENTS_INVALID);
            assert!(message.contains("kept by other tools"), "{message}");
        }
    }
    room.works("read_file", json!({ "path": "manuscript.md" })).await;
}

/// A link inside the project is no other way to it either.
#[tokio::test]
async fn no_link_leads_the_file_tools_to_it() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    std::os::unix::fs::symlink(".", room.path("self")).unwrap();
    std::fs::hard_link(room.path("manuscript.md"), room.path("twin.md")).unwrap();
    for path in ["self/manuscript.md", "twin.md"] {
        room.fails("write_file", json!({ "path": path, "content": "x" })).await;
    }
}

/// A person saves at the very moment a call is settled: both are kept, and the file is the person's.
#[tokio::test]
async fn an_edit_at_the_same_moment_undoes_nothing_that_was_acknowledged() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    let edited = "<!-- SECTION: One -->\nby hand\n<!-- END SECTION: One -->\n";
    *room.next.lock().unwrap() = Some(Meddling::Edit(edited.into()));
    room.works("create_section", json!({ "name": "Two", "content": "b" })).await;
    assert_eq!(room.file("manuscript.md").as_deref(), Some(edited));
    let told = room.works("read_manuscript_section", json!({ "section_name": "Two" })).await;
    assert_eq!(told.1, "b", "what was acknowledged is there");
    room.works("append_to_manuscript", json!({ "content": "c" })).await;
    let file = room.file("manuscript.md").unwrap();
    for words in ["by hand", "SECTION: Two", "\nb\n", "\nc\n"] {
        assert!(file.contains(words), "{words}: {file}");
    }
}

/// A file that cannot be put in place is put there later; meanwhile it is nobody's edit.
#[tokio::test]
async fn a_copy_that_waits_for_its_place_is_no_edit() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    *room.next.lock().unwrap() = Some(Meddling::Refuse);
    room.works("create_section", json!({ "name": "Two", "content": "b" })).await;
    let two = json!({ "section_name": "Two" });
    assert_eq!(room.works("read_manuscript_section", two.clone()).await.1, "b");
    assert!(!room.file("manuscript.md").unwrap().contains("Two"));
    // Nothing is written over a file that is behind.
    let late = room.fails("append_to_manuscript", json!({ "content": "c" })).await;
    assert_eq!(late.0, Code::COMMIT_CONFLICT);
    *room.next.lock().unwrap() = None;
    room.works("append_to_manuscript", json!({ "content": "c" })).await;
    assert_eq!(room.works("read_manuscript_section", two).await.1, "b");
    let file = room.file("manuscript.md").unwrap();
    assert!(file.contains("Two") && file.contains("\nc\n"), "{file}");
    // Going back to the version before is an edit like any other.
    room.write("manuscript.md", file.replace("\nc\n", ""));
    let info = room.works("read_manuscript_tail", json!({})).await;
    assert_eq!(info.1, "a b");
}
