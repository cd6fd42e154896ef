//! The pattern of domain tools: every answer has a type, every error says what is allowed, and what
//! is counted per reply is counted from the log.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::envelope::Code;
use toolgate_kernel::limits::Limits;
use toolgate_kernel::tool::{Effect, SpecRefusal};
use toolgate_packs::domain::{Domain, answer, earlier};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Pack, Transaction};

use crate::den::Den;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What is looked for.
    query: Option<String>,
    /// How many.
    count: Option<u64>,
}

const SEARCHES_MAX: usize = 2;

fn library(effect: Effect) -> Pack {
    Domain::new("library", "Looks for books.")
        .action("search", "Finds books.", &["query"], search)
        .action("odd", "Answers in another way.", &[], odd)
        .waiting_action("sleep", "Takes its time.", &[], |_, _: Params| {
            Box::pin(async {
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
                answer("slept", "", &Value::Null)
            })
        })
        .absent("order", "Set library.shop.")
        .fields(&["title", "author"])
        .effect(effect)
        .pack("", |_| Ok(Vec::new()))
        .unwrap()
}

fn search(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let query = params.query.unwrap_or_default();
    if earlier(tx, "search") >= SEARCHES_MAX {
        return Err(Fault::failed("Search limit reached").with("query", query));
    }
    if query == "nothing" {
        return Err(Fault::failed("Nothing found.").with("query", query));
    }
    answer("search_results", "", &json!({ "query": query, "count": params.count }))
}

fn odd(_: &mut Transaction, params: Params) -> Result<Output, Fault> {
    match params.query.as_deref() {
        Some("panic") => panic!("on purpose"),
        Some("list") => answer("odd", "", &json!([1])),
        _ => Ok(Output::message("no data at all")),
    }
}

fn error(fields: Value) -> Value {
    let mut whole = json!({ "type": "error" });
    whole.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    whole
}

#[tokio::test]
async fn every_error_has_a_type_and_says_what_is_allowed() {
    let mut den = Den::under(
        &[library(Effect::Staged)],
        Vec::new(),
        Limits { call_ms_max: 5, ..Limits::default() },
    )
    .await;
    let (actions, fields) = (json!(["search", "odd", "sleep"]), json!(["title", "author"]));
    let wrong = |message: &str, action: Value, required: Option<&str>| {
        let mut told = json!({ "error": message, "action": action });
        if let Some(required) = required {
            told["required_param"] = required.into();
        }
        told["allowed_actions"] = actions.clone();
        told["allowed_fields"] = fields.clone();
        (Code::ARGUMENTS_INVALID, error(told))
    };
    let failed = |code, told| (code, error(told));
    for (args, told) in [
        (
            json!({ "action": "burn", "extra": 1 }),
            wrong("Invalid action 'burn'", Value::Null, None),
        ),
        (json!({}), wrong("action is required", Value::Null, Some("action"))),
        (
            json!({ "action": "order" }),
            wrong("Action 'order' is not available. Set library.shop.", Value::Null, None),
        ),
        (
            json!({ "action": "search", "query": "  " }),
            wrong("query is required for search action", json!("search"), Some("query")),
        ),
        (
            json!({ "action": "search", "query": "nothing" }),
            failed(
                Code::TOOL_FAILED,
                json!({ "error": "Nothing found.", "action": "search", "query": "nothing" }),
            ),
        ),
        (
            json!({ "action": "odd", "query": "panic" }),
            failed(
                Code::TOOL_PANICKED,
                json!({ "error": "The tool broke down. Try other arguments or another tool.", "action": "odd" }),
            ),
        ),
        (
            json!({ "action": "odd", "query": "list" }),
            failed(
                Code::TOOL_FAILED,
                json!({ "error": "The answer of a domain tool is an object.", "action": "odd" }),
            ),
        ),
        (
            json!({ "action": "sleep" }),
            failed(
                Code::TOOL_TIMED_OUT,
                json!({ "error": "The tool did not answer within 5 ms.", "action": "sleep" }),
            ),
        ),
    ] {
        assert_eq!(den.fails("library", args).await, told);
    }
    // What the gate itself finds wrong is told in the same form.
    for args in [
        json!({ "action": "search", "query": "x", "extra": 1 }),
        json!({ "action": "search", "query": "x", "count": "many" }),
        json!({ "action": "search", "query": ["x"] }),
    ] {
        let (code, data) = den.fails("library", args).await;
        assert_eq!((code, &data["action"]), (Code::ARGUMENTS_INVALID, &json!("search")));
        assert_eq!((&data["allowed_actions"], &data["allowed_fields"]), (&actions, &fields));
    }
    // An answer without a type is none.
    let (code, _) = den.fails("library", json!({ "action": "odd" })).await;
    assert_eq!(code, Code::TOOL_OUTPUT_INVALID);
    let found = den.works("library", json!({ "action": "search", "query": "sea" })).await;
    assert_eq!(found, json!({ "type": "search_results", "query": "sea", "count": null }));
}

/// Also where reads run side by side, and where arguments had to be mended.
#[tokio::test]
async fn what_is_counted_per_reply_begins_anew_with_the_next() {
    let search = |query: &str| ("library", json!({ "action": "search", "query": query }));
    let fenced = ("library", json!("```json\n{\"action\":\"search\",\"query\":\"b\"}\n```"));
    for effect in [Effect::Read, Effect::Staged] {
        let mut den = Den::open(&[library(effect)]).await;
        let told = den
            .replies(vec![
                vec![search("nothing"), search(""), fenced.clone(), search("c"), search("d")],
                vec![search("e")],
            ])
            .await;
        let told: Vec<_> = told.iter().map(|envelope| envelope.data.clone()).collect();
        let limit = |query: &str| {
            error(json!({ "error": "Search limit reached", "action": "search", "query": query }))
        };
        let found =
            |query: &str| json!({ "type": "search_results", "query": query, "count": null });
        let nothing =
            error(json!({ "error": "Nothing found.", "action": "search", "query": "nothing" }));
        // The blank one was refused by the gate, and does not count.
        let blank = error(json!({
            "error": "query is required for search action",
            "action": "search",
            "required_param": "query",
            "allowed_actions": ["search", "odd", "sleep"],
            "allowed_fields": ["title", "author"],
        }));
        let expected = [nothing, blank, found("b"), limit("c"), limit("d"), found("e")];
        assert_eq!(told, expected, "{effect:?}");
    }
}

#[test]
fn a_domain_that_does_not_go_together_is_refused() {
    #[derive(Deserialize, JsonSchema)]
    struct Strict {
        #[expect(dead_code, reason = "only its schema counts")]
        query: String,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Named {
        #[expect(dead_code, reason = "only its schema counts")]
        action: Option<String>,
    }
    fn nothing<P>(_: &mut Transaction, _: P) -> Result<Output, Fault> {
        answer("nothing", "", &Value::Null)
    }
    let domain = || Domain::<Params>::new("d", "Does.");
    let unsound = [
        domain().tool(),
        domain().action("Go", "Goes.", &[], nothing).tool(),
        domain().action("go", " ", &[], nothing).tool(),
        domain().action("go", "Goes.", &["where"], nothing).tool(),
        domain().action("go", "Goes.", &[], nothing).action("go", "Again.", &[], nothing).tool(),
        Domain::<Strict>::new("d", "Does.").action("go", "Goes.", &[], nothing).tool(),
        Domain::<Named>::new("d", "Does.").action("go", "Goes.", &[], nothing).tool(),
    ];
    for tool in unsound {
        assert!(matches!(tool.map(drop), Err(SpecRefusal::Domain { .. })));
    }
    let tool = domain().action("go", "Goes.", &["query"], nothing).tool().unwrap();
    let fields = tool.spec().input["properties"].as_object().unwrap().keys();
    assert_eq!(fields.collect::<Vec<_>>(), ["action", "query", "count"]);
}
