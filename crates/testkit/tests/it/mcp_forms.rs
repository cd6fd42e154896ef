//! Servers that ask a person something, and a program that brings somebody who answers.

use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, ready};
use serde_json::{Map, Value, json};
use toolgate_mcp::client::{CallFault, Form, HttpKind, Respondent};

use crate::mcp_stage::{Stage, said};

/// Writes the same into every form, or says no, and keeps the questions.
struct Clerk(bool, Mutex<Vec<String>>);

impl Respondent for Clerk {
    fn fill<'a>(&'a self, form: &'a Form) -> BoxFuture<'a, Option<Map<String, Value>>> {
        assert_eq!(form.schema["properties"]["name"]["type"], "string");
        self.1.lock().unwrap().push(format!("{}: {}", form.server, form.message));
        let filled = Map::from_iter([("name".to_owned(), json!("ada"))]);
        Box::pin(ready(self.0.then_some(filled)))
    }
}

fn clerk(yes: bool) -> (Arc<Clerk>, Arc<dyn Respondent>) {
    let clerk = Arc::new(Clerk(yes, Mutex::default()));
    let respondent: Arc<dyn Respondent> = Arc::clone(&clerk) as _;
    (clerk, respondent)
}

/// Over pipes and over HTTP; models and files are refused all the same.
#[tokio::test]
async fn a_question_of_an_older_server_is_answered_by_whom_the_program_brings() {
    let words = ["--mode", "asks-back"];
    for stage in [Stage::piped(&words), Stage::web(&words, "/mcp", HttpKind::Auto)] {
        let (clerk, respondent) = clerk(true);
        let stage = stage.answered_by(&respondent);
        stage.call("echo", "name").await.unwrap();
        assert_eq!(stage.ledger("elicitation"), ["elicitation/create GRANTED"]);
        assert_eq!(stage.ledger("sampling"), ["sampling/createMessage refused"]);
        assert_eq!(stage.ledger("roots"), ["roots/list refused"]);
        assert_eq!(*clerk.1.lock().unwrap(), ["fake: your name"]);
    }
}

#[tokio::test]
async fn a_call_that_needs_input_goes_on_with_it_in_a_few_rounds_at_most() {
    let words = ["--mode", "input-required", "--era", "modern"];
    for web in [false, true] {
        let (_, yes) = clerk(true);
        let stage = || match web {
            true => Stage::web(&words, "/mcp", HttpKind::Auto),
            false => Stage::piped(&words),
        };
        let answered = stage().answered_by(&yes);
        assert_eq!(said(&answered.call("echo", "name").await.unwrap()), "\"name\"");
        assert_eq!(answered.ledger("call").len(), 2);
        let fault = answered.call("echo", "endless").await.unwrap_err();
        assert_eq!(fault, CallFault::WantsInput("more and more input"));
        assert_eq!(answered.ledger("call").len(), 2 + 5);
        // Whoever says no is not asked for ever either.
        let (clerk, no) = clerk(false);
        let refused = stage().answered_by(&no);
        assert!(matches!(refused.call("echo", "name").await, Err(CallFault::WantsInput(_))));
        assert_eq!(clerk.1.lock().unwrap().len(), 5);
    }
}

/// MWR-008: a secret is asked of nobody, whoever would answer.
#[tokio::test]
async fn a_question_for_a_secret_reaches_nobody() {
    for web in [false, true] {
        let stage = |words: &[&str]| match web {
            true => Stage::web(words, "/mcp", HttpKind::Auto),
            false => Stage::piped(words),
        };
        let (clerk, yes) = clerk(true);
        let older = stage(&["--mode", "asks-back"]).answered_by(&yes);
        older.call("echo", "x").await.unwrap();
        assert_eq!(older.ledger("elicitation"), ["elicitation/create refused"]);
        let newest = stage(&["--mode", "input-required", "--era", "modern"]).answered_by(&yes);
        let fault = newest.call("echo", "x").await.unwrap_err();
        assert_eq!(fault, CallFault::WantsInput("a secret"));
        assert_eq!(newest.ledger("call").len(), 1);
        assert!(clerk.1.lock().unwrap().is_empty());
    }
}
