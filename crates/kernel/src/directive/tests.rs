//! The ladder (T35), the parser (T36), the validator (T37) and the changes of a draft (T38).

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn directives() -> Directives {
    let schema = json!({
        "type": "object",
        "properties": {"title": {"type": "string"}, "times": {"type": "integer"}},
        "required": ["title"],
    });
    let mut form = DirectiveType::new("ui.show_form", Some(schema)).unwrap();
    form.about = "Shows a form.".to_owned();
    form.aliases = vec!["show form".to_owned(), "form".to_owned()];
    let toast = DirectiveType::new("toast", None).unwrap();
    let mut patch = DirectiveType::new("patch_draft", None).unwrap();
    patch.patch = true;
    Directives::new(vec![form, toast, patch], Vec::new(), 1).unwrap()
}

/// T36: the object is found in tags, fences and prose; otherwise a code says why not.
#[test]
fn the_object_is_found_wherever_a_model_puts_it() {
    let object = "{\"assistant_text\": \"a } b\", \"directives\": []}";
    for text in [
        object.to_owned(),
        format!("  {object}\n"),
        format!("```json\n{object}\n```"),
        format!("Here it is:\n```\n{object}\n```\nDone."),
        format!("<directives>{object}</directives>"),
        format!("Sure.\n<json>\n```json\n{object}\n```\n</json>"),
        format!("Of course: {object} Anything else?"),
    ] {
        let found = parse(&text).unwrap_or_else(|refused| panic!("{text}: {refused:?}"));
        assert_eq!(found["assistant_text"], "a } b", "{text}");
    }
    for (text, code) in [
        ("", "EMPTY"),
        (" \n ", "EMPTY"),
        ("<directives></directives>", "EMPTY"),
        ("Hello.", "INVALID_JSON"),
        ("{\"assistant_text\": ", "INVALID_JSON"),
        ("{\"a\":1,\"a\":2}", "INVALID_JSON"),
        ("[1, 2]", "NOT_OBJECT"),
        ("\"text\"", "NOT_OBJECT"),
    ] {
        assert_eq!(parse(text).unwrap_err().code, code, "{text}");
    }
    let long = "x".repeat(REPLY_BYTES_MAX + 1);
    let refused = parse(&long).unwrap_err();
    assert_eq!((refused.code, refused.sample.len()), ("TOO_LARGE", 200));
}

/// T37: keys and types in any spelling; what is not good is dropped, with the reason.
#[test]
fn directives_are_read_in_any_spelling_and_bad_ones_are_dropped() {
    let good = json!({"title": "T"});
    let rows = [
        (json!({"type": "ui.show_form", "payload": good}), Ok("ui.show_form")),
        (json!({"Type": "UI-Show-Form", "PAYLOAD": good}), Ok("ui.show_form")),
        (json!({"type": " show_form ", "payload": good}), Ok("ui.show_form")),
        (json!({"type": "form", "payload": {"title": "T", "times": "3"}}), Ok("ui.show_form")),
        (json!({"type": "toast", "payload": {"any": [1]}}), Ok("toast")),
        (json!("toast"), Err("DIRECTIVE_NOT_OBJECT")),
        (json!({"payload": {}}), Err("MISSING_TYPE")),
        (json!({"type": " ", "payload": {}}), Err("MISSING_TYPE")),
        (json!({"type": 3, "payload": {}}), Err("MISSING_TYPE")),
        (json!({"type": "explode", "payload": {}}), Err("UNKNOWN_DIRECTIVE_TYPE")),
        (json!({"type": "toast"}), Err("MISSING_PAYLOAD")),
        (json!({"type": "toast", "payload": "text"}), Err("MISSING_PAYLOAD")),
        (json!({"type": "form", "payload": {}}), Err("PAYLOAD_INVALID")),
        (json!({"type": "form", "payload": {"title": "T", "more": 1}}), Err("PAYLOAD_INVALID")),
        (json!({"type": "patch_draft", "payload": {}}), Err("MISSING_OPS")),
        (
            json!({"type": "patch_draft", "payload": {"ops": [{"path": "/facts/x", "value": 1}]}}),
            Err("INVALID_PATCH_PATH"),
        ),
    ];
    let directives = directives();
    for (written, expected) in rows {
        let reply = json!({"Assistant Text": "hi", "directives": [written]});
        let envelope = directives.read(reply.as_object().unwrap()).unwrap();
        assert_eq!(envelope.assistant_text, "hi");
        match expected {
            Ok(kind) => assert_eq!(envelope.directives[0].kind, kind, "{written}"),
            Err(code) => {
                assert!(envelope.directives.is_empty(), "{written}");
                assert_eq!((&*envelope.warnings[0].code, envelope.warnings[0].index), (code, 0));
            }
        }
    }
    for (reply, code) in [
        (json!({"directives": []}), "MISSING_ASSISTANT_TEXT"),
        (json!({"assistant_text": null, "directives": []}), "MISSING_ASSISTANT_TEXT"),
        (json!({"assistant_text": ""}), "MISSING_DIRECTIVES"),
        (json!({"assistant_text": "", "directives": {}}), "MISSING_DIRECTIVES"),
    ] {
        assert_eq!(directives.read(reply.as_object().unwrap()).unwrap_err().0, code);
    }
}

#[test]
fn payloads_are_coerced_and_changes_brought_into_one_form() {
    let reply = json!({"assistant_text": "", "directives": [
        {"type": "form", "payload": {"title": "T", "times": "3"}},
        {"type": "patch-draft", "payload": {"Ops": "{\"path\": \"foo\", \"value\": 1}"}},
    ]});
    let envelope = directives().read(reply.as_object().unwrap()).unwrap();
    let payloads: Vec<Value> =
        envelope.directives.iter().map(|d| Value::Object(d.payload.clone())).collect();
    let ops = json!({"ops": [{"op": "set", "path": "/draft/foo", "value": 1}]});
    assert_eq!(payloads, [json!({"title": "T", "times": 3}), ops]);
}

#[test]
fn without_types_any_type_passes() {
    let any = Directives::new(Vec::new(), Vec::new(), 1).unwrap();
    let reply = json!({"assistant_text": "", "directives": [{"type": "X-y", "payload": {}}]});
    assert_eq!(any.read(reply.as_object().unwrap()).unwrap().directives[0].kind, "X-y");
    assert!(
        any.schema()["properties"]["directives"]["items"]["properties"]["type"]
            .get("enum")
            .is_none()
    );
}

#[test]
fn the_schema_takes_what_is_declared_and_can_be_enforced() {
    let schema = directives().schema();
    let kind = &schema["properties"]["directives"]["items"]["properties"]["type"];
    assert_eq!(kind["enum"], json!(["ui.show_form", "toast", "patch_draft"]));
    assert!(Shape::compile(&schema).is_ok());
}

#[test]
fn a_type_of_changes_is_told_with_its_form() {
    let told = directives().instructions(Mode::PromptOnly);
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("\"ops\"")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(lines[0].starts_with("- patch_draft Payload: {\"ops\": [{\"op\": \"set\", \"path\""));
    for word in ["delete", "append", "insert", "index", "/draft/", "/ui_state/"] {
        assert!(lines[0].contains(word), "{word}: {told}");
    }
    // The form that is told is one that is taken.
    let end = lines[0].find(", where").unwrap();
    let form: Value =
        serde_json::from_str(&lines[0]["- patch_draft Payload: ".len()..end]).unwrap();
    assert_eq!(patch_ops(&form).unwrap()[0].path, "/draft/title");
}

#[test]
fn types_that_do_not_go_together_are_refused() {
    let kind = |name: &str| DirectiveType::new(name, None).unwrap();
    let twice = Directives::new(vec![kind("a.b"), kind("A-B")], Vec::new(), 1);
    assert!(matches!(twice, Err(DirectiveRefusal::Twice { .. })));
    let mut aliased = kind("a");
    aliased.aliases = vec!["A".to_owned(), "b".to_owned()];
    assert!(Directives::new(vec![aliased], Vec::new(), 1).is_ok());
    let modes = vec![Mode::PromptOnly, Mode::PromptOnly];
    assert!(matches!(
        Directives::new(Vec::new(), modes, 1),
        Err(DirectiveRefusal::ModeTwice(Mode::PromptOnly))
    ));
    assert!(matches!(DirectiveType::new(" .", None), Err(DirectiveRefusal::Nameless)));
    let bad = DirectiveType::new("x", Some(json!({"type": "object", "not": {}})));
    assert!(matches!(bad, Err(DirectiveRefusal::Schema { .. })));
    let list = DirectiveType::new("x", Some(json!({"type": "array"})));
    assert!(matches!(list, Err(DirectiveRefusal::NoObject { .. })));
}

/// T38: aliases, inference, relative paths, prefixes, codes.
#[test]
fn changes_are_read_in_the_spellings_that_models_use() {
    let set = |path: &str| Ok(json!([{"op": "set", "path": path, "value": 1}]));
    let delete = |path: &str| Ok(json!([{"op": "delete", "path": path}]));
    let one = |op: &str, path: &str| json!({"ops": [{"op": op, "path": path, "value": 1}]});
    let rows = [
        (one("set", "/draft/a"), set("/draft/a")),
        (one("add", "/draft/a"), set("/draft/a")),
        (one(" Replace ", "/ui_state/a"), set("/ui_state/a")),
        (one("remove", "/draft/a"), delete("/draft/a")),
        (one("rm", "/draft/a"), delete("/draft/a")),
        (one("push", "/draft/a"), Ok(json!([{"op": "append", "path": "/draft/a", "value": 1}]))),
        (json!({"ops": [{"path": "/draft/a", "value": 1}]}), set("/draft/a")),
        (json!({"ops": [{"path": "/draft/a"}]}), delete("/draft/a")),
        (json!({"ops": [{"op": null, "path": "a/b", "value": 1}]}), set("/draft/a/b")),
        (json!({"ops": [{"path": "draft/a", "value": 1}]}), set("/draft/a")),
        (json!({"ops": {"path": "a", "value": 1}}), set("/draft/a")),
        (json!({"path": "a", "value": 1}), set("/draft/a")),
        (json!([{"path": "a", "value": 1}]), set("/draft/a")),
        (json!({"ops": "[{\"path\": \"a\", \"value\": 1}]"}), set("/draft/a")),
        (json!("{\"path\": \"a\", \"value\": 1}"), set("/draft/a")),
        (
            json!({"ops": [{"op": "set", "path": "a", "value": null}]}),
            Ok(json!([{"op": "set", "path": "/draft/a", "value": null}])),
        ),
        (
            json!({"ops": [{"op": "insert", "path": "a", "value": 1, "index": "2"}]}),
            Ok(json!([{"op": "insert", "path": "/draft/a", "value": 1, "index": 2}])),
        ),
        (json!({}), Err("MISSING_OPS")),
        (json!({"ops": []}), Err("MISSING_OPS")),
        (json!({"ops": "not json"}), Err("MISSING_OPS")),
        (json!(null), Err("MISSING_OPS")),
        (json!({"ops": [3]}), Err("INVALID_PATCH_OP")),
        (one("merge", "/draft/a"), Err("INVALID_PATCH_OP")),
        (json!({"ops": [{"op": 3, "path": "a"}]}), Err("INVALID_PATCH_OP")),
        (one("set", "/facts/a"), Err("INVALID_PATCH_PATH")),
        (one("set", "/draft/"), Err("INVALID_PATCH_PATH")),
        (one("set", "/draft"), Err("INVALID_PATCH_PATH")),
        (one("set", ""), Err("INVALID_PATCH_PATH")),
        (json!({"ops": [{"op": "set", "value": 1}]}), Err("INVALID_PATCH_PATH")),
        (json!({"ops": [{"op": "set", "path": "a"}]}), Err("MISSING_PATCH_VALUE")),
        (json!({"ops": [{"op": "append", "path": "a"}]}), Err("MISSING_PATCH_VALUE")),
        (one("insert", "a"), Err("INVALID_PATCH_INDEX")),
        (
            json!({"ops": [{"op": "insert", "path": "a", "value": 1, "index": -1}]}),
            Err("INVALID_PATCH_INDEX"),
        ),
        // One that is no good, and none is taken.
        (json!({"ops": [{"path": "a"}, {"op": "merge", "path": "b"}]}), Err("INVALID_PATCH_OP")),
    ];
    for (payload, expected) in rows {
        let found = patch_ops(&payload)
            .map(|ops| serde_json::to_value(ops).unwrap())
            .map_err(|problem| problem.code);
        assert_eq!(found, expected, "{payload}");
    }
}

const GOOD: &str = r#"{"assistant_text": "Hi.", "directives": [{"type": "toast", "payload": {}}]}"#;

fn said(text: &str) -> Outcome {
    Outcome::Replied { text: text.to_owned(), calls: 0, elapsed_ms: 10 }
}

fn http(status: u16, reason: &str) -> Outcome {
    Outcome::Fault { status: Some(status), reason: reason.to_owned(), elapsed_ms: 5 }
}

/// Plays outcomes and tells the steps: `mode attempt code`, and how it ended.
fn play(means: Means, outcomes: Vec<Outcome>, objects_to: &str) -> (Vec<String>, Next) {
    let mut ladder = Ladder::new(Arc::new(directives()), means);
    let mut next = ladder.start();
    let mut outcomes = outcomes.into_iter();
    while let Next::Ask(ask) = &next {
        assert_eq!(ask.shape.is_some(), ask.mode != Mode::PromptOnly);
        let Some(outcome) = outcomes.next() else { break };
        next = ladder.next(outcome, |envelope| {
            let wrong = envelope.assistant_text == objects_to;
            if wrong { vec!["say it kindly".to_owned()] } else { Vec::new() }
        });
    }
    let tried = match &next {
        Next::Done(done) => done.tried.clone(),
        Next::Failed(failed) => failed.tried.clone(),
        Next::Ask(_) => panic!("it goes on"),
    };
    assert_eq!(outcomes.count(), 0, "nothing is asked after the end");
    let step = |tried: &Tried| {
        let code = tried.code.as_deref().unwrap_or("ok");
        let flag = if tried.structured_output_unsupported { " unsupported" } else { "" };
        format!("{} {} {code}{flag}", tried.mode, tried.attempt)
    };
    (tried.iter().map(step).collect(), next)
}

/// T35: what follows what.
#[test]
fn the_ladder_goes_from_mode_to_mode_with_one_repair_each() {
    let all = Means { json_schema: true, json_object: true };
    let object = Means { json_schema: false, json_object: true };
    let none = Means { json_schema: false, json_object: false };
    let called = Outcome::Replied { text: GOOD.to_owned(), calls: 1, elapsed_ms: 1 };
    let rude = r#"{"assistant_text": "No.", "directives": []}"#;
    let rows: Vec<(Means, Vec<Outcome>, bool, Vec<&str>)> = vec![
        (all, vec![said(GOOD)], true, vec!["json_schema 1 ok"]),
        (
            all,
            vec![http(400, "response_format is not supported"), http(422, "no"), said(GOOD)],
            true,
            vec![
                "json_schema 1 HTTP_ERROR unsupported",
                "json_object 1 HTTP_ERROR",
                "prompt_only 1 ok",
            ],
        ),
        (
            all,
            vec![said("Hello."), said(GOOD)],
            true,
            vec!["json_schema 1 INVALID_JSON", "json_schema 2 ok"],
        ),
        (
            all,
            vec![said(rude), said(GOOD)],
            true,
            vec!["json_schema 1 ASSERTION_FAILED", "json_schema 2 ok"],
        ),
        (
            all,
            vec![called.clone(), said(GOOD)],
            true,
            vec!["json_schema 1 TOOL_CALLS_PRESENT", "json_schema 2 ok"],
        ),
        (
            object,
            vec![said("{}"), said("{\"assistant_text\": \"\"}"), said(GOOD)],
            true,
            vec![
                "json_schema 0 CAPABILITY_UNSUPPORTED",
                "json_object 1 MISSING_ASSISTANT_TEXT",
                "json_object 2 MISSING_DIRECTIVES",
                "prompt_only 1 ok",
            ],
        ),
        (
            none,
            vec![said("one"), said("two")],
            false,
            vec![
                "json_schema 0 CAPABILITY_UNSUPPORTED",
                "json_object 0 CAPABILITY_UNSUPPORTED",
                "prompt_only 1 INVALID_JSON",
                "prompt_only 2 INVALID_JSON",
            ],
        ),
        (
            all,
            vec![http(500, ""), http(500, ""), http(500, "")],
            false,
            vec![
                "json_schema 1 HTTP_ERROR",
                "json_object 1 HTTP_ERROR",
                "prompt_only 1 HTTP_ERROR",
            ],
        ),
    ];
    for (means, outcomes, good, expected) in rows {
        let (steps, end) = play(means, outcomes, "No.");
        assert_eq!(steps, expected);
        assert_eq!(matches!(end, Next::Done(_)), good, "{expected:?}");
    }
}

#[test]
fn a_ladder_without_a_possible_mode_fails_at_once() {
    let only = Directives::new(Vec::new(), vec![Mode::JsonSchema], 1).unwrap();
    let means = Means { json_schema: false, json_object: false };
    let Next::Failed(failed) = Ladder::new(Arc::new(only), means).start() else { panic!() };
    assert_eq!(failed.tried.len(), 1);
    assert_eq!(failed.tried[0].code.as_deref(), Some("CAPABILITY_UNSUPPORTED"));
    let (_, end) = play(means, vec![said("first"), said("last words")], "");
    let Next::Failed(failed) = end else { panic!() };
    let took: Vec<u64> = failed.tried.iter().map(|tried| tried.elapsed_ms).collect();
    assert_eq!(took, [0, 0, 10, 10]);
}

#[test]
fn a_repair_names_the_code_and_the_problems() {
    let means = Means { json_schema: true, json_object: true };
    let mut ladder = Ladder::new(Arc::new(directives()), means);
    ladder.start();
    let next = ladder.next(said(GOOD), |_| vec!["the toast has no words".to_owned()]);
    let Next::Ask(ask) = next else { panic!("{next:?}") };
    let repair = ask.repair.unwrap();
    assert!(repair.contains("ASSERTION_FAILED") && repair.contains("the toast has no words"));
    assert!(ask.instructions.contains("ui.show_form: Shows a form. Payload: {"));
}

proptest! {
    /// Whatever a model writes is told in a code, or read.
    #[test]
    fn nothing_a_model_writes_breaks_the_reader(
        words in prop::collection::vec(prop::sample::select(&[
            "{", "}", "[", "]", "\"", ":", ",", "assistant_text", "directives", "type", "payload",
            "\"assistant_text\":\"x\"", "\"directives\":[", "{\"type\":\"toast\",\"payload\":{}}",
            "```", "```json\n", "\n", "<directives>", "</directives>", "<json>", "é", "\\", "null",
        ][..]), 0..30)
    ) {
        if let Ok(object) = parse(&words.concat()) {
            drop(directives().read(&object));
        }
        drop(patch_ops(&Value::String(words.concat())));
    }
}

#[test]
fn the_words_of_a_reply_that_broke_off_are_those_for_a_person() {
    let whole = "Here:\n\"😀\" \\ it is.";
    let written = r#"{ "assistant_text" : "Here:\n\"\ud83d\ude00\" \\ it is.", "directives": [] }"#;
    for wrap in ["", "```json\n", "<directives>"] {
        let (mut before, reply) = (String::new(), format!("{wrap}{written}"));
        for end in 0..=reply.len() {
            let said = words_so_far(&reply[..end]);
            assert!(said.starts_with(&before) && whole.starts_with(&said), "{end}: {said}");
            before = said;
        }
        assert_eq!(before, whole);
    }
    for words in ["Just words.", "Use {this}.", "", "<b> \"assistant_text\": \"x\""] {
        assert_eq!(words_so_far(words), words);
    }
    assert_eq!(words_so_far(r#"{"directives": [], "assistant_text": nu"#), "");
}
