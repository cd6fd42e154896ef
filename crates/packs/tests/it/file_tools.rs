//! The file tools: listing, reading, searching, writing and editing what is in the folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::port::Clock;

use crate::room::Room;

#[tokio::test]
async fn files_are_listed_in_order_without_the_law() {
    let mut room = Room::open().await;
    assert_eq!(room.works("list_files", json!({})).await, ("0 files.".into(), json!([])));
    for path in [
        "b.md",
        "a/two.md",
        "a/b/three.md",
        "toolgate.yaml",
        ".toolgate/x",
        ".git/config",
        "a/.hidden",
    ] {
        room.write(path, "x");
    }
    std::fs::create_dir(room.path("empty")).unwrap();
    let all = json!([
        { "path": "a/b/three.md", "bytes": 1 }, { "path": "a/two.md", "bytes": 1 }, { "path": "b.md", "bytes": 1 },
    ]);
    assert_eq!(room.works("list_files", json!({})).await, ("3 files.".into(), all));
    let under = json!([{ "path": "a/b/three.md", "bytes": 1 }]);
    for path in ["a/b", "/a/b/", "./a//b", "a/b/three.md"] {
        assert_eq!(room.works("list_files", json!({ "under": path })).await.1, under, "{path}");
    }
    assert_eq!(room.works("list_files", json!({ "folder": "empty" })).await.1, json!([]));
    let (code, message, ..) = room.fails("list_files", json!({ "under": "none" })).await;
    assert_eq!(code, Code::TOOL_FAILED);
    assert!(message.starts_with("none does not exist."), "{message}");
    for number in 0..600 {
        room.write(&format!("many/{number:03}"), "");
    }
    let (message, files) = room.works("list_files", json!({ "under": "many" })).await;
    assert_eq!(message, "600 files; the first 500 are shown. Name a folder.");
    assert_eq!(files.as_array().unwrap().len(), 500);
}

#[tokio::test]
async fn lines_of_a_file_are_read() {
    let mut room = Room::open().await;
    room.write("a.md", "1\n2\n3\n4");
    let table = [
        (json!({}), "1\n2\n3\n4", "a.md: 4 lines."),
        (json!({ "start_line": 2 }), "2\n3\n4", "a.md: lines 2 to 4 of 4."),
        (json!({ "end_line": 2 }), "1\n2\n", "a.md: lines 1 to 2 of 4."),
        (json!({ "start_line": 2, "end_line": "3" }), "2\n3\n", "a.md: lines 2 to 3 of 4."),
        (json!({ "start_line": 4, "end_line": 99 }), "4", "a.md: lines 4 to 4 of 4."),
    ];
    for (mut args, text, message) in table {
        args["path"] = json!("./a.md");
        assert_eq!(room.works("read_file", args).await, (message.into(), json!(text)));
    }
    for (first, last) in [(0, 1), (5, 5), (3, 2)] {
        let args = json!({ "path": "a.md", "start_line": first, "end_line": last });
        let (code, message, ..) = room.fails("read_file", args).await;
        assert_eq!(code, Code::ARGUMENTS_INVALID);
        assert!(message.contains("a.md has 4 lines; ask for lines from 1 to 4"), "{message}");
    }
    room.write("large.md", "line\n".repeat(60_000));
    let (code, message, ..) = room.fails("read_file", json!({ "path": "large.md" })).await;
    assert_eq!(code, Code::TOOL_FAILED);
    assert!(message.starts_with("large.md has 60000 lines"), "{message}");
    let args = json!({ "path": "large.md", "start_line": 59_999 });
    assert_eq!(room.works("read_file", args).await.1, "line\nline\n");
    room.write("empty", "");
    assert_eq!(room.works("read_file", json!({ "path": "empty" })).await.1, "");
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let mut room = Room::open().await;
    let (_, message, _, near) = room.fails("read_file", json!({ "path": "x.md" })).await;
    assert_eq!(
        (message.as_str(), near),
        ("x.md does not exist. The folder has no files yet.", None)
    );
    for path in ["ideas/sea.md", "chapters/One.md", "other.txt"] {
        room.write(path, "x");
    }
    let table = [
        ("sea.md", Some(vec!["ideas/sea.md", "other.txt"])),
        ("ideas/see.md", Some(vec!["ideas/sea.md"])),
        ("chapters/one.MD", Some(vec!["chapters/One.md"])),
        ("ideas/sea.txt", Some(vec!["ideas/sea.md"])),
        ("nowhere/zzzzzzzz", None),
    ];
    for (path, near) in table {
        let (code, message, field, allowed) =
            room.fails("read_file", json!({ "path": path })).await;
        assert_eq!((code, field.as_deref()), (Code::TOOL_FAILED, Some("path")));
        assert!(message.starts_with(&format!("{path} does not exist.")), "{message}");
        let near = near.map(|near| near.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(allowed, near, "{path}");
    }
    room.write("image", b"\x89PNG\xff");
    let (_, message, ..) = room.fails("read_file", json!({ "path": "image" })).await;
    assert_eq!(message, "image is not UTF-8 text and cannot be shown.");
    room.fails("read_file", json!({ "path": "ideas" })).await;
}

#[tokio::test]
async fn a_search_goes_through_text_files() {
    let mut room = Room::open().await;
    room.write("a.md", "The sea\nwas calm\n");
    room.write("b/c.md", "no\nSEA here\nyes");
    room.write("image", b"sea \xff");
    room.write("toolgate.yaml", "sea");
    let (message, found) = room.works("search_files", json!({ "query": "sea" })).await;
    assert_eq!(message, "2 matching lines.");
    let expected = json!([
        { "path": "a.md", "line": 1, "context": "The sea" }, { "path": "b/c.md", "line": 2, "context": "SEA here" },
    ]);
    assert_eq!((&found["matches"], &found["count"]), (&expected, &json!(2)));
    assert_eq!(found["cut"], false);
    let args = json!({ "query": "sea", "under": "b", "context_lines": 1 });
    let (_, found) = room.works("search_files", args).await;
    assert_eq!(
        found["matches"],
        json!([{ "path": "b/c.md", "line": 2, "context": "no\nSEA here\nyes" }])
    );
    assert_eq!(room.works("search_files", json!({ "query": "whale" })).await.0, "No line matches.");
    // What follows the last line end is no line.
    assert_eq!(
        room.works("search_files", json!({ "query": "^", "under": "a.md" })).await.1["count"],
        2
    );
    room.fails("search_files", json!({ "query": "(" })).await;
    room.fails("search_files", json!({ "query": "x", "under": "none" })).await;
    room.write("big", "x".repeat((4 << 20) + 1));
    let envelope = room.call("search_files", json!({ "query": "whale" })).await;
    assert_eq!(envelope.warnings, ["Not all files were searched: name a folder with `under`."]);
}

/// A clock on which every look takes five seconds.
struct SlowClock(AtomicI64);

impl Clock for SlowClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(5_000, Ordering::SeqCst))
    }
}

#[tokio::test]
async fn a_search_that_runs_out_of_time_answers_what_it_found() {
    let mut room = Room::at(Vec::new(), Arc::new(SlowClock(AtomicI64::new(0)))).await;
    for number in 0..50 {
        room.write(&format!("{number}.md"), "sea");
    }
    let envelope = room.call("search_files", json!({ "query": "sea" })).await;
    assert!(envelope.ok, "{:?}", envelope.errors);
    let (count, cut) = (envelope.data["count"].as_u64().unwrap(), &envelope.data["cut"]);
    assert!((1..50).contains(&count) && cut == &json!(true), "{count} {cut}");
    assert!(envelope.warnings[0].starts_with("Time was up"), "{:?}", envelope.warnings);
}

#[tokio::test]
async fn files_are_written_and_edited() {
    let mut room = Room::open().await;
    let steps = [
        (
            "write_file",
            json!({ "path": "d/a.md", "content": "one two\n" }),
            "created d/a.md (8 bytes)",
            "one two\n",
        ),
        (
            "write_file",
            json!({ "path": "/d/./a.md", "content": "a b a\n" }),
            "replaced d/a.md (6 bytes)",
            "a b a\n",
        ),
        (
            "edit_file",
            json!({ "path": "d/a.md", "old_text": "b", "new_text": "c" }),
            "replaced 1 occurrence in d/a.md",
            "a c a\n",
        ),
        (
            "edit_file",
            json!({ "path": "d/a.md", "old_text": "a", "new_text": "aa", "all": true }),
            "replaced 2 occurrences in d/a.md",
            "aa c aa\n",
        ),
        (
            "edit_file",
            json!({ "file": "d/a.md", "old_string": " c", "new_string": "" }),
            "replaced 1 occurrence in d/a.md",
            "aa aa\n",
        ),
    ];
    for (tool, args, message, text) in steps {
        assert_eq!(room.works(tool, args).await.0, message);
        assert_eq!(room.file("d/a.md").as_deref(), Some(text));
    }
    let table = [
        (
            "aa",
            "old_text occurs 2 times in d/a.md. Give more of the text around it, or set all to true.",
        ),
        ("x", "old_text does not occur in d/a.md. Read the file again and copy the text exactly."),
        ("", "old_text: must not be empty; write_file replaces a whole file."),
    ];
    for (old, message) in table {
        let args = json!({ "path": "d/a.md", "old_text": old, "new_text": "y" });
        assert_eq!(room.fails("edit_file", args).await.1, message);
    }
    let args = json!({ "path": "none.md", "old_text": "x", "new_text": "y" });
    assert!(room.fails("edit_file", args).await.1.starts_with("none.md does not exist."));
}
