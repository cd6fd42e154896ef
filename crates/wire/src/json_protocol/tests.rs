//! Every form of a reply, by the cases of the acceptance list, and replies of any kind.

use imbl::Vector;
use proptest::prelude::{any, proptest};
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::RawCall;
use toolgate_kernel::fold::{Told, Turn};
use toolgate_kernel::limits::Limits;
use toolgate_kernel::names::CallId;
use toolgate_kernel::render::{ResultFormat, render};
use toolgate_kernel::tool::SpecDraft;

use super::*;

const NONCE: &str = "0123456789abcdef0123456789abcdef";

fn parsed(expected: ExpectedReply, reply: &str) -> String {
    let reply = reply.replace("{nonce}", NONCE);
    match parse_reply(&reply, expected, NONCE, &["file_locator", "look"], &Limits::default()) {
        Ok(ProtocolReply::Call(call)) => format!("call {} {}", call.tool, Value::Object(call.args)),
        Ok(ProtocolReply::Final) => "final".to_owned(),
        Ok(ProtocolReply::Words(words)) => format!("words {words}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_reply_is_a_call_words_or_refused() {
    use ExpectedReply::{Answer, Call, CallOrWords, Decision};
    let call = r#"{"tool":"look","args":{"a":1},"nonce":"{nonce}"}"#;
    let cases: &[(ExpectedReply, &str, &str)] = &[
        // C1: the right nonce.
        (CallOrWords, call, r#"call look {"a":1}"#),
        (Call, call, r#"call look {"a":1}"#),
        (Decision, call, r#"call look {"a":1}"#),
        // C2 and C3 are the gate's: any name and any arguments get there.
        (CallOrWords, r#"{"tool":"no such","args":{},"nonce":"{nonce}"}"#, "call no such {}"),
        // C4: another field of the envelope.
        (
            CallOrWords,
            r#"{"tool":"look","args":{},"nonce":"{nonce}","why":"x"}"#,
            "TOOL_CALL_INVALID_FORMAT (unknown-field:why)",
        ),
        // C5: JSON that ends too early, or is none.
        (CallOrWords, r#"{"tool":"look","args":{}"#, "TOOL_CALL_INVALID_FORMAT (json)"),
        (CallOrWords, r#"{"tool":"look","args":{"#, "TOOL_CALL_INVALID_FORMAT (unterminated-json)"),
        (CallOrWords, "{tool: look}", "TOOL_CALL_INVALID_FORMAT (json)"),
        (
            CallOrWords,
            r#"{"tool":"a","tool":"b","args":{},"nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (json: repeated",
        ),
        // C6: two objects.
        (CallOrWords, &format!("{call}\n{call}"), "TOOL_CALL_MULTIPLE (one object per reply)"),
        (CallOrWords, &format!("{call}, {call}"), "TOOL_CALL_MULTIPLE (one object per reply)"),
        // C7 and C14: a wrong nonce, one of an earlier request, none.
        (
            CallOrWords,
            r#"{"tool":"look","args":{},"nonce":"00000000000000000000000000000000"}"#,
            "TOOL_CALL_NONCE_INVALID (nonce-wrong)",
        ),
        (CallOrWords, r#"{"tool":"look","args":{}}"#, "TOOL_CALL_NONCE_INVALID (nonce-missing)"),
        (
            CallOrWords,
            r#"{"tool":"look","args":{},"nonce":7}"#,
            "TOOL_CALL_INVALID_FORMAT (wrong-type:nonce)",
        ),
        // C8: a call printed as words.
        (CallOrWords, "file_locator(x)", "TOOL_CALL_INVALID_FORMAT (printed-call:file_locator)"),
        (CallOrWords, "I outlook(ed) it.", "words I outlook(ed) it."),
        (CallOrWords, &format!("I will call {call}"), "TOOL_CALL_INVALID_FORMAT (printed-call)"),
        (CallOrWords, "The \"tool\": a hammer.", "words The \"tool\": a hammer."),
        // C9: a fence alone is taken, a fence with prose is no call.
        (CallOrWords, &format!("```json\n{call}\n```"), r#"call look {"a":1}"#),
        (CallOrWords, &format!("```\n{call}\n```\n"), r#"call look {"a":1}"#),
        (
            CallOrWords,
            &format!("Here:\n```json\n{call}\n```"),
            "TOOL_CALL_INVALID_FORMAT (printed-call)",
        ),
        (CallOrWords, "```rust\nfn main() {}\n```", "words ```rust\nfn main() {}\n```"),
        // What nobody sees at the edges, and thoughts.
        (CallOrWords, &format!("\u{feff}\u{200b}{call}\u{200b}\n"), r#"call look {"a":1}"#),
        (CallOrWords, &format!("<think>{{\"tool\":1}}</think>\n{call}"), r#"call look {"a":1}"#),
        (CallOrWords, &format!("I look.</think>{call}"), r#"call look {"a":1}"#),
        (CallOrWords, "<think>and on and on", "words "),
        // Types of the fields.
        (
            CallOrWords,
            r#"{"tool":" ","args":{},"nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (blank-tool)",
        ),
        (
            CallOrWords,
            r#"{"tool":1,"args":{},"nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (wrong-type:tool)",
        ),
        (
            CallOrWords,
            r#"{"tool":"look","args":"{}","nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (wrong-type:args)",
        ),
        (
            CallOrWords,
            r#"{"tool":"look","nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (missing-field:args)",
        ),
        (
            CallOrWords,
            r#"{"args":{},"nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (missing-field:tool)",
        ),
        // Decisions.
        (Decision, r#"{"action":"final","nonce":"{nonce}"}"#, "final"),
        (
            Decision,
            r#"{"action":"tool","tool":"look","args":{},"nonce":"{nonce}"}"#,
            "call look {}",
        ),
        (Decision, r#"{"action":"final"}"#, "TOOL_CALL_NONCE_INVALID (nonce-missing)"),
        (
            Decision,
            r#"{"action":"stop","nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (unknown-action)",
        ),
        (
            Decision,
            r#"{"action":"final","tool":"look","nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (unknown-field:tool)",
        ),
        (Decision, "I know it.", "TOOL_CALL_INVALID_FORMAT (decision-expected)"),
        (
            CallOrWords,
            r#"{"action":"final","nonce":"{nonce}"}"#,
            "TOOL_CALL_INVALID_FORMAT (unknown-field:action)",
        ),
        (Call, "I know it.", "TOOL_CALL_INVALID_FORMAT (call-expected)"),
        // Answers.
        (Answer, "It is late.", "words It is late."),
        (Answer, call, "TOOL_CALL_INVALID_FORMAT (json-for-answer)"),
        (Answer, "{}", "TOOL_CALL_INVALID_FORMAT (json-for-answer)"),
        (CallOrWords, "", "words "),
    ];
    for (expected, reply, told) in cases {
        let said = parsed(*expected, reply);
        // The words of the JSON reader are its own.
        let fits = said == *told
            || (told.contains("(json") && said.starts_with("TOOL_CALL_INVALID_FORMAT (json"));
        assert!(fits, "{expected:?} {reply}: {said}, not {told}");
    }
}

proptest! {
    /// Whatever a model writes: no panic, and no call without the nonce.
    #[test]
    fn no_reply_breaks_the_parser(reply in any::<String>(), tail in "[{}\":,a-z `]{0,40}") {
        for expected in [ExpectedReply::CallOrWords, ExpectedReply::Decision, ExpectedReply::Answer] {
            for reply in [reply.clone(), format!("{{{tail}"), format!("{{\"tool\":\"look\",\"args\":{{}}{tail}}}")] {
                let said = parsed(expected, &reply);
                assert!(!said.starts_with("call") && said != "final", "{reply}: {said}");
            }
        }
    }
}

/// Case C20: a long result is an excerpt with its length and hash. The protocol comes last, with the
/// schemas and the nonce; earlier nonces are not repeated.
#[test]
fn a_request_has_calls_and_results_as_words_and_the_protocol_last() {
    let tool = Arc::new(SpecDraft::new("look", "Looks.").build().unwrap());
    let mut plan = Plan::alone("s", "i", vec![tool]);
    let long = "x".repeat(9_000);
    let envelope = Envelope::answer("look", long.clone(), Value::Null, vec![]);
    let whole = Told { envelope: Arc::new(envelope), message_only: false };
    let sha256 = Digest::of(render(&whole, ResultFormat::Text).as_bytes()).to_string();
    let call = RawCall { id: CallId(1), name: "look".into(), args: "{}".into(), alias: None };
    plan.result_format = ResultFormat::Text;
    plan.turns.push_back(Arc::new(Turn {
        number: 1,
        notes: Vector::new(),
        images: Vector::new(),
        text: "".into(),
        calls: vec![Arc::new(call)].into(),
        told: [(CallId(1), Arc::new(whole))].into_iter().collect(),
        finish: Finish::Calls,
        native: None,
    }));
    assert_eq!(super::expected(&plan), ExpectedReply::Decision);
    let asked = super::render::text_plan(&plan, ExpectedReply::Decision, NONCE);
    assert!(asked.tools.is_empty() && asked.every.is_empty());
    let said = &asked.turns[0];
    assert!(said.calls.is_empty() && said.text.contains("\"nonce\":\"<used>\""), "{}", said.text);
    let [results, protocol] = asked.feedback.as_slice() else { panic!("{:?}", asked.feedback) };
    assert!(results.contains("[truncated: 9000 characters, sha256=") && results.len() < 8_300);
    assert!(results.contains(&sha256), "{sha256}");
    assert!(protocol.contains(NONCE) && protocol.contains("- look: Looks."), "{protocol}");
    let shape = super::render::call_shape(&plan.tools, &Choice::Required, NONCE).unwrap();
    assert_eq!(shape.schema["properties"]["nonce"]["const"], NONCE);
    plan.tools.clear();
    assert_eq!(super::expected(&plan), ExpectedReply::Answer);
    let asked = super::render::text_plan(&plan, ExpectedReply::Answer, NONCE);
    assert!(!asked.feedback.iter().any(|text| text.contains(NONCE)));
}
