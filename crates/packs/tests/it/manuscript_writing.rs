//! Writing the manuscript: state and file change together, and nothing can forge structure.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::key::Key;
use toolgate_kernel::names::PolicyName;
use toolgate_kernel::policy::{OwnWrites, ReadBeforeWrite, ReadScope};

use crate::room::Room;

#[tokio::test]
async fn the_file_follows_every_call() {
    let mut room = Room::open().await;
    let one = "<!-- SECTION: One -->\na b\n<!-- END SECTION: One -->\n";
    let table = [
        ("create_section", json!({ "name": "One", "content": "\na b\n\n" }), "created section 'One' (2 words)", one.to_owned()),
        ("append_to_manuscript", json!({ "content": "\n\nfree\n" }), "appended 1 word (total: 3)", format!("{one}\nfree\n")),
        ("append_to_manuscript", json!({ "text": "more words" }), "appended 2 words (total: 5)", format!("{one}\nfree\n\nmore words\n")),
        ("create_section", json!({ "section_name": "Two", "text": "" }), "created section 'Two' (0 words)", format!("{one}\nfree\n\nmore words\n\n<!-- SECTION: Two -->\n\n<!-- END SECTION: Two -->\n")),
        // In place, and with its tail (the original lost what came after).
        ("replace_section", json!({ "name": "One", "content": "longer\n\nthan before" }), "replaced section 'One' (3 words)", "<!-- SECTION: One -->\nlonger\n\nthan before\n<!-- END SECTION: One -->\n\nfree\n\nmore words\n\n<!-- SECTION: Two -->\n\n<!-- END SECTION: Two -->\n".to_owned()),
        ("replace_section", json!({ "name": "One", "content": "a b" }), "replaced section 'One' (2 words)", format!("{one}\nfree\n\nmore words\n\n<!-- SECTION: Two -->\n\n<!-- END SECTION: Two -->\n")),
        ("delete_section", json!({ "section": "Two" }), "deleted section 'Two'", format!("{one}\nfree\n\nmore words\n")),
        ("delete_section", json!({ "name": "One" }), "deleted section 'One'", "free\n\nmore words\n".to_owned()),
    ];
    for (tool, args, message, file) in table {
        assert_eq!(room.works(tool, args).await.0, message);
        assert_eq!(room.file("manuscript.md"), Some(file.clone()), "{message}");
        let project = room.runtime.project().0;
        let kept = project.state.get(&Key::parse("manuscript").unwrap()).unwrap().value();
        assert_eq!(kept["file"], json!(Digest::of(file.as_bytes())));
    }
}

/// R18, and the errors of replace and delete.
#[tokio::test]
async fn names_must_be_free_or_there() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a"), ("Two", "b")]).await;
    let both = Some(vec!["One".to_owned(), "Two".to_owned()]);
    let args = json!({ "name": "One", "content": "x" });
    let (code, message, _, allowed) = room.fails("create_section", args).await;
    assert_eq!((code, allowed), (Code::TOOL_FAILED, both.clone()));
    assert!(message.starts_with("section 'One' already exists. Replace it"), "{message}");
    for (tool, args) in [
        ("replace_section", json!({ "name": "Three", "content": "x" })),
        ("delete_section", json!({ "name": "Three" })),
    ] {
        let (code, message, path, allowed) = room.fails(tool, args).await;
        assert_eq!(
            (code, path.as_deref(), allowed),
            (Code::TOOL_FAILED, Some("name"), both.clone())
        );
        assert!(message.starts_with("section 'Three' not found. "), "{message}");
    }
    assert_eq!(room.file("manuscript.md").unwrap().matches("<!-- SECTION: One -->").count(), 1);
}

#[tokio::test]
async fn nothing_forges_structure() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a")]).await;
    for content in [
        "x\n<!-- END SECTION: One -->\ny",
        "<!--section:B-->",
        "in a line <!-- START Chapter : 1 --> too",
        "<!-- end beat -->",
        "<!-- <!-- SECTION: B -->",
    ] {
        for (tool, args) in [
            ("append_to_manuscript", json!({ "content": content })),
            ("create_section", json!({ "name": "N", "content": content })),
            ("replace_section", json!({ "name": "One", "content": content })),
            (
                "add_beat",
                json!({ "storyline": "s", "chapter": "c", "beat": "b", "content": content }),
            ),
        ] {
            let (code, message, path, _) = room.fails(tool, args).await;
            assert_eq!((code, path.as_deref()), (Code::ARGUMENTS_INVALID, Some("content")));
            assert!(message.starts_with("content: contains the marker <!--"), "{message}");
        }
    }
    // Other comments are text.
    room.sections(&[("Two", "<!-- a note --> and <!-- SECTION A -->")]).await;
    let bad = ["", "  ", "a\nb", "a --> b", "a <!-- b", "a\u{200b}b", "a\u{7}b", &"x".repeat(201)];
    for name in bad {
        for tool in ["create_section", "replace_section"] {
            let (code, _, path, _) =
                room.fails(tool, json!({ "name": name, "content": "x" })).await;
            assert_eq!(
                (code, path.as_deref()),
                (Code::ARGUMENTS_INVALID, Some("name")),
                "{name:?}"
            );
        }
    }
    let (code, ..) = room.fails("append_to_manuscript", json!({ "content": " \n " })).await;
    assert_eq!(code, Code::ARGUMENTS_INVALID);
}

/// Read-before-write concerns the section. The file that shows it is nobody's to read first.
#[tokio::test]
async fn a_section_must_be_read_before_it_is_replaced() {
    let policy = ReadBeforeWrite::new(
        PolicyName::parse("read_before_write").unwrap(),
        BTreeSet::new(),
        ReadScope::Session,
        OwnWrites::Unread,
    );
    let mut room = Room::under(vec![Arc::new(policy)]).await;
    room.sections(&[("One", "a"), ("Two", "b")]).await;
    room.works("append_to_manuscript", json!({ "content": "free" })).await;
    let replace = json!({ "name": "One", "content": "x" });
    for (tool, args) in
        [("replace_section", replace.clone()), ("delete_section", json!({ "name": "One" }))]
    {
        let (code, message, ..) = room.fails(tool, args).await;
        assert_eq!(code, Code::POLICY_DENIED);
        assert!(message.contains("Section 'One' must be read"), "{message}");
    }
    room.works("read_manuscript_section", json!({ "section_name": "One" })).await;
    room.works("replace_section", replace).await;
    // Another tool that writes a file still has to read it.
    room.write("a.md", "x");
    let (code, ..) = room.fails("write_file", json!({ "path": "a.md", "content": "y" })).await;
    assert_eq!(code, Code::POLICY_DENIED);
    room.works("read_file", json!({ "path": "a.md" })).await;
    room.works("write_file", json!({ "path": "a.md", "content": "y" })).await;
}

/// An edit is an operation on one block: the others keep their versions.
#[tokio::test]
async fn one_edit_changes_one_block() {
    let mut room = Room::open().await;
    room.sections(&[("One", "a"), ("Two", "b"), ("Three", "c")]).await;
    let before = room.runtime.project().0;
    room.works("replace_section", json!({ "name": "Two", "content": "x" })).await;
    let after = room.runtime.project().0;
    for (name, same) in [("One", true), ("Two", false), ("Three", true)] {
        let key = Key::parse(&format!("section:{name}")).unwrap();
        assert_eq!(before.state.version(&key) == after.state.version(&key), same, "{name}");
    }
}
