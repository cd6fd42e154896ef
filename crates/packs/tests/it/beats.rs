//! Storyline, chapter and beat: made in the right place, with the nested markers (1.6, defect 7).

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;

use crate::room::Room;

fn beat(storyline: &str, chapter: &str, beat: &str, content: &str) -> Value {
    json!({ "storyline": storyline, "chapter": chapter, "beat": beat, "content": content })
}

#[tokio::test]
async fn beats_go_to_the_end_of_their_chapter() {
    let mut room = Room::open().await;
    for (s, c, b) in
        [("S", "1", "a"), ("S", "2", "a"), ("T", "1", "a"), ("S", "1", "b"), ("S", "3", "a")]
    {
        let (message, _) = room.works("add_beat", beat(s, c, b, &format!("{s}{c}{b}"))).await;
        assert_eq!(message, format!("added beat '{s}/{c}/{b}' (1 word)"));
    }
    let expected = "\
<!-- STORYLINE: S -->
<!-- CHAPTER: 1 -->
<!-- BEAT: a -->
S1a
<!-- END BEAT: a -->

<!-- BEAT: b -->
S1b
<!-- END BEAT: b -->
<!-- END CHAPTER: 1 -->

<!-- CHAPTER: 2 -->
<!-- BEAT: a -->
S2a
<!-- END BEAT: a -->
<!-- END CHAPTER: 2 -->

<!-- CHAPTER: 3 -->
<!-- BEAT: a -->
S3a
<!-- END BEAT: a -->
<!-- END CHAPTER: 3 -->
<!-- END STORYLINE: S -->

<!-- STORYLINE: T -->
<!-- CHAPTER: 1 -->
<!-- BEAT: a -->
T1a
<!-- END BEAT: a -->
<!-- END CHAPTER: 1 -->
<!-- END STORYLINE: T -->
";
    assert_eq!(room.file("manuscript.md").unwrap(), expected);
}

/// Many beats in one place: others are moved when there is no room, and the order holds.
#[tokio::test]
async fn there_is_always_room_for_one_more() {
    let mut room = Room::open().await;
    room.works("add_beat", beat("S", "1", "b0", "x")).await;
    room.sections(&[("After", "x"), ("Last", "x")]).await;
    for number in 1..60 {
        room.works("add_beat", beat("S", "1", &format!("b{number}"), "x")).await;
    }
    let (_, info) = room.works("get_manuscript_info", json!({})).await;
    let names: Vec<&str> =
        info["sections"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    let mut expected: Vec<String> = (0..60).map(|number| format!("S/1/b{number}")).collect();
    expected.extend(["After".to_owned(), "Last".to_owned()]);
    assert_eq!(names, expected);
}

#[tokio::test]
async fn a_beat_is_read_updated_and_appended_to() {
    let mut room = Room::open().await;
    room.works("add_beat", beat("S", "1", "a", "first")).await;
    room.works("add_beat", beat("S", "1", "b", "the tail")).await;
    let steps = [
        (
            "append_to_beat",
            "second\n",
            "appended 1 word to beat 'S/1/a' (total: 2)",
            "first\n\nsecond",
        ),
        (
            "update_beat",
            "a much longer text",
            "updated beat 'S/1/a' (4 words)",
            "a much longer text",
        ),
        ("update_beat", "x", "updated beat 'S/1/a' (1 word)", "x"),
    ];
    for (tool, content, message, text) in steps {
        assert_eq!(room.works(tool, beat("S", "1", "a", content)).await.0, message);
        let name = json!({ "storyline": "S", "chapter": "1", "beat": "a" });
        assert_eq!(room.works("read_beat", name).await.1, text);
        let name = json!({ "section_name": "S/1/b" });
        assert_eq!(room.works("read_manuscript_section", name).await.1, "the tail");
    }
}

#[tokio::test]
async fn errors_list_every_beat() {
    let mut room = Room::open().await;
    let name = json!({ "storyline": "S", "chapter": "1", "beat": "z" });
    let (_, message, ..) = room.fails("read_beat", name.clone()).await;
    assert_eq!(message, "beat 'S/1/z' not found. There are no beats yet; make one with add_beat.");
    room.sections(&[("Plain", "x")]).await;
    for (c, b) in [("1", "a"), ("2", "b")] {
        room.works("add_beat", beat("S", c, b, "x")).await;
    }
    let all = Some(vec!["S/1/a".to_owned(), "S/2/b".to_owned()]);
    let calls = [
        ("read_beat", name),
        ("update_beat", beat("S", "1", "z", "x")),
        ("append_to_beat", beat("S", "3", "a", "x")),
        ("add_beat", beat("S", "1", "a", "x")),
    ];
    for (tool, args) in calls {
        let (code, _, path, allowed) = room.fails(tool, args).await;
        assert_eq!(
            (code, path.as_deref(), &allowed),
            (Code::TOOL_FAILED, Some("beat"), &all),
            "{tool}"
        );
    }
    for (s, c, b, field) in
        [("a/b", "c", "d", "storyline"), ("s", " ", "b", "chapter"), ("s", "c", "-->", "beat")]
    {
        let (code, _, path, _) = room.fails("add_beat", beat(s, c, b, "x")).await;
        assert_eq!((code, path.as_deref()), (Code::ARGUMENTS_INVALID, Some(field)));
    }
}
