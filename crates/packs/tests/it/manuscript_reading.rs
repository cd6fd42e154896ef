//! Reading the manuscript: info, section, tail, search (1.5, R17, R21).

use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;

use crate::room::Room;

#[tokio::test]
async fn info_tells_everything_but_the_text() {
    let mut room = Room::open().await;
    let empty = json!({ "total_words": 0, "total_lines": 0, "section_count": 0, "sections": [] });
    assert_eq!(room.works("get_manuscript_info", json!({})).await.1, empty);
    assert_eq!(
        ["total_words", "section_count", "section_names"].map(|name| room.variable(name)),
        ["0", "0", "none"]
    );
    room.sections(&[("One", "a b\n\nc"), ("Two", "")]).await;
    room.works("append_to_manuscript", json!({ "content": "\n\nd e\nf\n" })).await;
    room.sections(&[("s/c/b", "g"), ("s/c/b2", "h"), ("s/d/b", "i")]).await;
    let (_, info) = room.works("get_manuscript_info", json!({})).await;
    assert_eq!(
        info,
        json!({
            "total_words": 9, "total_lines": 33, "section_count": 5,
            "sections": [
                { "name": "One", "words": 3, "line_range": [1, 5] },
                { "name": "Two", "words": 0, "line_range": [7, 9] },
                { "name": "s/c/b", "words": 1, "line_range": [16, 18] },
                { "name": "s/c/b2", "words": 1, "line_range": [20, 22] },
                { "name": "s/d/b", "words": 1, "line_range": [26, 28] },
            ],
        })
        .as_object()
        .map(|expected| {
            let mut expected = expected.clone();
            expected["total_lines"] = json!(room.file("manuscript.md").unwrap().lines().count());
            Value::Object(expected)
        })
        .unwrap()
    );
    let file = room.file("manuscript.md").unwrap();
    let lines: Vec<&str> = file.lines().collect();
    assert_eq!((lines[15], lines[27]), ("<!-- BEAT: b -->", "<!-- END BEAT: b -->"));
    assert_eq!(
        ["total_words", "section_count", "section_names"].map(|name| room.variable(name)),
        ["9", "5", "One, Two, s/c/b, s/c/b2, s/d/b"]
    );
}

#[tokio::test]
async fn a_section_is_read_by_its_name() {
    let mut room = Room::open().await;
    let (code, message, ..) =
        room.fails("read_manuscript_section", json!({ "section_name": "One" })).await;
    assert_eq!(code, Code::TOOL_FAILED);
    assert_eq!(
        message,
        "section 'One' not found. There are no sections yet; make one with create_section."
    );
    room.sections(&[("Two", "\n\nsecond\n\n"), ("One", "first")]).await;
    for args in
        [json!({ "section_name": " Two " }), json!({ "section": "Two" }), json!({ "name": "Two" })]
    {
        assert_eq!(room.works("read_manuscript_section", args).await.1, "second");
    }
    let (_, message, path, allowed) =
        room.fails("read_manuscript_section", json!({ "section_name": "two" })).await;
    assert_eq!(message, "section 'two' not found. Use one of the 2 sections that are listed.");
    assert_eq!(
        (path.as_deref(), allowed.unwrap()),
        (Some("section_name"), vec!["Two".into(), "One".into()])
    );
}

#[tokio::test]
async fn the_tail_has_the_last_words() {
    let mut room = Room::open().await;
    assert_eq!(room.works("read_manuscript_tail", json!({})).await.1, "");
    room.sections(&[("One", "a b"), ("Two", "  c\n\n\td ")]).await;
    room.works("append_to_manuscript", json!({ "content": "e" })).await;
    let table = [
        (json!({}), "a b c d e"),
        (json!({ "word_count": 3 }), "c d e"),
        (json!({ "word_count": 5 }), "a b c d e"),
        (json!({ "word_count": 50 }), "a b c d e"),
        (json!({ "word_count": 0 }), "e"),
        (json!({ "word_count": -7 }), "e"),
        (json!({ "words": "2" }), "d e"),
    ];
    for (args, expected) in table {
        assert_eq!(room.works("read_manuscript_tail", args.clone()).await.1, expected, "{args}");
    }
}

#[tokio::test]
async fn a_search_goes_line_by_line_in_any_case() {
    let mut room = Room::open().await;
    room.sections(&[("One", "The sea\nwas calm\n\nand the SEA\nslept")]).await;
    room.works("append_to_manuscript", json!({ "content": "no water" })).await;
    let table = [
        ("sea", vec![2, 5]),
        ("SEA$", vec![2, 5]),
        ("^the", vec![2]),
        (r"\bsea\s+was", vec![]),
        ("calm|water", vec![3, 9]),
        (r"\Aslept\z", vec![6]),
        ("SECTION", vec![]),
    ];
    for (query, lines) in table {
        let (_, found) = room.works("search_manuscript", json!({ "query": query })).await;
        let at: Vec<usize> = found["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| usize::try_from(m["line"].as_u64().unwrap()).unwrap())
            .collect();
        assert_eq!((at, &found["count"]), (lines.clone(), &json!(lines.len())), "{query}");
        let file = room.file("manuscript.md").unwrap();
        for (line, found) in lines.iter().zip(found["matches"].as_array().unwrap()) {
            let context = found["context"].as_str().unwrap();
            assert!(context.contains(file.lines().nth(line - 1).unwrap()), "{query}");
        }
    }
    for (lines, context) in [
        (0, "was calm"),
        (1, "The sea\nwas calm\n"),
        (99, "The sea\nwas calm\n\nand the SEA\nslept"),
    ] {
        let args = json!({ "query": "calm", "context_lines": lines });
        let (message, found) = room.works("search_manuscript", args).await;
        assert_eq!(message, "1 matching line.");
        assert_eq!(found["matches"][0]["context"], context);
        assert_eq!(found["matches"][0]["section"], "One");
    }
}

/// R17.
#[tokio::test]
async fn a_bad_pattern_is_an_answer_and_many_matches_are_counted() {
    let mut room = Room::open().await;
    for query in ["(", "[z-a]", "a{99999}{99999}", "(?<x", "\\"] {
        let (code, message, path, _) =
            room.fails("search_manuscript", json!({ "query": query })).await;
        assert_eq!((code, path.as_deref()), (Code::TOOL_FAILED, Some("query")), "{query}");
        assert!(message.starts_with("query: cannot be used: "), "{message}");
    }
    let text = vec!["a hit"; 25].join("\n");
    room.sections(&[("One", &text)]).await;
    let (message, found) = room.works("search_manuscript", json!({ "query": "HIT" })).await;
    assert_eq!(message, "25 matching lines; the first 20 are shown.");
    assert_eq!((found["matches"].as_array().unwrap().len(), &found["count"]), (20, &json!(25)));
    // Lines of any length leave an answer that can be shown.
    let long = vec![format!("{}hit{}", "é".repeat(1_500), "é".repeat(500)); 40].join("\n");
    room.sections(&[("Long", &long)]).await;
    let args = json!({ "query": "éhit", "context_lines": 10 });
    let (_, found) = room.works("search_manuscript", args).await;
    assert_eq!(found["count"], 40);
    assert!(found["matches"][0]["context"].as_str().unwrap().contains("éhité"));
}
