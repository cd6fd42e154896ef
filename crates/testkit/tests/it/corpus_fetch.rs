//! `fetch.url` and `fetch.response`: every case is played through the whole gate on a web of our own,
//! with connections counted.

use std::time::Duration;

use serde_json::{Value, json};
use toolgate_kernel::envelope::Envelope;
use toolgate_testkit::corpus::{Case, Corpus, Outcome};
use toolgate_testkit::web::{PUBLIC, Said};

use crate::corpus_bench::panics;
use crate::provider::block_on;
use crate::web_stage::WebStage;

/// Where we decided otherwise than the corpus, with the reason.
const DECIDED: &[(&str, Outcome, &str)] = &[
    (
        "FRS-001",
        Outcome::Reject,
        "nothing packed is asked for, so what is packed is refused before a byte of it is read",
    ),
    ("FRS-003", Outcome::Bounded, "what is no text is refused before a byte of it is read"),
    ("FRS-018", Outcome::Reject, "a page that wants a password is an error, and none is offered"),
    (
        "URL-081",
        Outcome::Accept,
        "the name is looked up once: the public address that was looked at is the one that is \
         reached, and the second answer is never asked for",
    ),
    (
        "URL-091",
        Outcome::Accept,
        "the target is looked up once, as every page is; the second answer is never asked for",
    ),
];

fn expected(case: &Case) -> Outcome {
    let decided = DECIDED.iter().find(|(id, ..)| *id == case.id);
    match (decided, case.expect.outcome) {
        (Some((_, outcome, _)), _) => *outcome,
        (None, Outcome::FailTurn) => Outcome::Reject,
        (None, outcome) => outcome,
    }
}

fn code(told: &Envelope) -> &str {
    told.code().map_or("", |code| code.as_str())
}

fn page(text: &str) -> Said {
    Said::page("text/plain", text.as_bytes())
}

/// The lines of a request's head.
fn sent(stage: &WebStage) -> String {
    stage.web.requests().concat().to_lowercase()
}

/// What came of a call.
fn came(told: &Envelope) -> Outcome {
    assert_eq!(told.ok, told.data["type"] != "error", "{}", told.to_json());
    match code(told) {
        "" if told.data["truncated"] == true => Outcome::Bounded,
        "" => Outcome::Accept,
        "WEB_TIMED_OUT" | "WEB_NO_TEXT" => Outcome::Bounded,
        _ => Outcome::Reject,
    }
}

/// One address, on a web where every public name leads to one server.
async fn url(case: &Case) -> Outcome {
    let text = case.text().unwrap();
    match case.category.as_str() {
        "redirect" | "redirect-auth" => return redirect(case, &text).await,
        "proxy-env" | "alt-svc" => return ignored().await,
        _ => {}
    }
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    own.set_nonblocking(true).unwrap();
    let text = text.replace("$OWN_BIND", &own.local_addr().unwrap().to_string());
    let mut stage = WebStage::new(json!({}), |_| page("hello")).await;
    let many: Vec<String> =
        (0..4_000).map(|at| format!("93.184.{}.{}", at / 250, at % 250)).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let web = &stage.web;
    web.name("a-10-0-0-1.test", &[&["10.0.0.1"]]);
    web.name("mixed.test", &[&[PUBLIC, "127.0.0.1"]]);
    web.name("rebind.test", &[&[PUBLIC], &["127.0.0.1"]]);
    web.name("cname.test", &[&["169.254.169.254"]]);
    web.name("169.254.169.254.nip.io", &[&["169.254.169.254"]]);
    web.name("many.test", &[&many]);
    web.name("slowdns.test", &[&[PUBLIC]]);
    web.slow("slowdns.test");
    for name in ["localhost", "intranet", "db.internal", "127.0.0.1"] {
        web.name(name, &[&["127.0.0.1"]]);
    }
    let literal = if case.category.starts_with("dns-") {
        text.split(' ').next().unwrap_or_default()
    } else {
        &text
    };
    let told = stage.fetch(literal).await;
    assert!(own.accept().is_err(), "{}: our own server was reached", case.id);
    let outcome = came(&told);
    let count = stage.web.connections().len();
    match case.category.as_str() {
        // Of very many addresses a few are looked at, and one is reached.
        "dns-many" => {
            assert_eq!((outcome, count), (Outcome::Accept, 1), "{}", told.to_json());
            return Outcome::Bounded;
        }
        "dns-rebind" => {
            assert_eq!(stage.web.lookups(), ["rebind.test"], "{}", case.id);
            assert_eq!(stage.web.connections()[0].ip().to_string(), PUBLIC);
        }
        "fragment" if outcome == Outcome::Accept => {
            assert!(sent(&stage).contains("host: example.com\r\n"), "{}", sent(&stage));
            assert!(!sent(&stage).contains('#'), "{}", sent(&stage));
        }
        "control-ok" => assert!(told.data["url"].as_str().unwrap().contains("xn--bcher-kva")),
        _ => {}
    }
    if case.category == "length" {
        // As large as that it is no argument of any tool; a shorter one is no address.
        assert_eq!(code(&told), "ARGUMENTS_TOO_LARGE");
        let told = stage.fetch(text.get(..10_000).unwrap()).await;
        assert_eq!(code(&told), "URL_INVALID", "{}", told.to_json());
        return outcome;
    }
    if outcome == Outcome::Reject {
        assert!(["URL_BLOCKED", "URL_INVALID"].contains(&code(&told)), "{}", told.to_json());
        assert!(!told.to_json().contains("CANARY"), "{}", told.to_json());
        for inside in ["169.254.169.254\"", "10.0.0.1\"", "93.184"] {
            assert!(!told.message.contains(inside), "{}", told.message);
        }
    }
    assert!(stage.forbidden().is_empty(), "{}: {:?}", case.id, stage.forbidden());
    assert_eq!(count, usize::from(outcome == Outcome::Accept), "{}: {}", case.id, told.to_json());
    outcome
}

/// `http://pub.test/r -> 302 http://169.254.169.254/`, told and followed.
async fn redirect(case: &Case, text: &str) -> Outcome {
    let (from, to) = text.split_once(" -> ").unwrap();
    let from = if from.starts_with("http") { from } else { "http://pub.test/r" };
    let mut words = to.split(' ');
    let (status, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let target = if target == "other" { "http://other.test/".to_owned() } else { target };
    let mut outcomes = Vec::new();
    for follow in [false, true] {
        let (status, target) = (status.clone(), target.clone());
        let say = move |head: &str| {
            if head.starts_with("GET /r ") {
                Said::redirect(&format!("{status} Elsewhere"), &target)
            } else {
                page("end")
            }
        };
        let mut stage = WebStage::new(json!({ "web": { "follow_redirects": follow } }), say).await;
        stage.web.name("rebind.test", &[&[PUBLIC], &["127.0.0.1"]]);
        let told = stage.fetch(from).await;
        outcomes.push(came(&told));
        assert!(stage.forbidden().is_empty(), "{}: {:?}", case.id, stage.forbidden());
        if !told.ok {
            assert!(["URL_BLOCKED", "URL_INVALID"].contains(&code(&told)), "{}", told.to_json());
            assert_eq!(stage.web.connections().len(), 1, "{}", case.id);
            assert!(!told.message.contains("169.254"), "{}", told.message);
        } else {
            let lookups = stage.web.lookups();
            let twice = lookups.iter().filter(|name| *name == "rebind.test").count();
            assert!(twice <= 1, "{}: {lookups:?}", case.id);
        }
        let sent = sent(&stage);
        assert!(!sent.contains("authorization") && !sent.contains("cookie"), "{sent}");
    }
    assert_eq!(outcomes[0], outcomes[1], "{}", case.id);
    // There is no credential that could be sent on.
    if case.category == "redirect-auth" { Outcome::Inert } else { outcomes[0] }
}

/// URL-096 and URL-097: neither a proxy nor another service that a server names is used. Proxies of
/// the environment are shown by the binary itself.
async fn ignored() -> Outcome {
    let say = |_: &str| {
        let headers = [("content-type", "text/plain"), ("alt-svc", "h2=\"127.0.0.1:443\"")];
        Said::status("200 OK", &headers, b"hello")
    };
    let mut stage = WebStage::new(json!({}), say).await;
    for _ in 0..2 {
        assert!(stage.fetch("http://pub.test/").await.ok);
    }
    assert_eq!(stage.web.connections(), [format!("{PUBLIC}:80").parse().unwrap(); 2]);
    Outcome::Inert
}

/// What a server says for a case.
fn said(case: &Case) -> Said {
    let html = |body: &str| Said::page("text/html", body.as_bytes());
    let text = case.text().unwrap_or_default();
    match case.category.as_str() {
        "gzip-bomb" => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n".to_vec();
            Said::Endless(head, vec![0; 64 << 10])
        }
        "zip-quine" => Said::page("application/zip", b"PK\x03\x04"),
        "slow-headers" => Said::Drip(b"HTTP/1.1 200 OK\r\n".to_vec(), 5_000),
        "header-bomb" => {
            let headers: String = (0..10_000).map(|at| format!("x-{at}: y\r\n")).collect();
            Said::Bytes(format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes())
        }
        "length-lie" if text.contains("closes") => {
            Said::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n0123456789".to_vec())
        }
        "length-lie" => {
            // Without a length nothing but our own bound ends it.
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n".to_vec();
            Said::Endless(head, vec![b'a'; 64 << 10])
        }
        "charset" => {
            Said::page("text/html; charset=utf-7", b"<p>+ADw-script+AD4- caf\xc3\xa9 \xff</p>")
        }
        "binary" => Said::page("text/plain", b"\x7fELF\x02\x01\x01\x00\x00\x00"),
        "tag-chars" => html("<p>a\u{e0053}\u{e0059}\u{e0053}b&#xE0041;</p>"),
        "set-cookie" => {
            Said::status("200 OK", &[("set-cookie", "sid=1"), ("content-type", "text/plain")], b"x")
        }
        "status-401" => {
            Said::status("401 Unauthorized", &[("www-authenticate", "Basic realm=x")], b"no")
        }
        "html-hidden" | "svg-xxe" => html(&text),
        other => panic!("no answer is staged for {other}"),
    }
}

async fn response(case: &Case) -> Outcome {
    let said = said(case);
    let mut stage = WebStage::new(json!({}), move |_| said.clone()).await;
    let before = stage.driver.session().export().1;
    let began = tokio::time::Instant::now();
    let told = stage.fetch("http://pub.test/page").await;
    assert!(began.elapsed() < Duration::from_secs(19), "{}: {:?}", case.id, began.elapsed());
    assert_eq!(stage.driver.session().export().1, before, "{}", case.id);
    // A page that is read is data and nothing else.
    let outcome = came(&told);
    let outcome = if outcome == Outcome::Accept { Outcome::Inert } else { outcome };
    let content = told.data["content"].as_str().unwrap_or_default();
    match case.category.as_str() {
        "charset" => assert_eq!(content, "+ADw-script+AD4- café \u{fffd}"),
        "html-hidden" => {
            assert_eq!((content, &told.data["untrusted"]), ("", &Value::Bool(true)));
            assert!(!stage.driver.session().turns.iter().any(|turn| turn.number > 0));
        }
        "tag-chars" => {
            assert_eq!(content, "ab");
            assert!(told.warnings.iter().any(|w| w.contains("nobody sees")), "{:?}", told.warnings);
        }
        "svg-xxe" => assert!(!told.to_json().contains("root:"), "{}", told.to_json()),
        "length-lie" if outcome == Outcome::Reject => assert!(content.is_empty()),
        "length-lie" => {
            assert_eq!(content.len(), 40_000);
            // A length that is too small ends the page there.
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n".to_vec();
            let short = Said::Endless(head, vec![b'b'; 64 << 10]);
            let mut stage = WebStage::new(json!({}), move |_| short.clone()).await;
            let told = stage.fetch("http://pub.test/short").await;
            assert_eq!(told.data["content"], "b".repeat(10), "{}", told.to_json());
        }
        "set-cookie" | "status-401" => {
            stage.fetch("http://pub.test/page").await;
            let sent = sent(&stage);
            assert!(!sent.contains("cookie") && !sent.contains("authorization"), "{sent}");
        }
        _ => {}
    }
    outcome
}

/// `CASE=URL-081` plays one case alone.
#[test]
fn every_address_and_every_answer_comes_out_as_it_must() {
    let corpus = Corpus::read().unwrap();
    let only = std::env::var("CASE").unwrap_or_default();
    let (mut played, mut wrong) = (0, Vec::new());
    for (surface, count) in [("fetch.url", 71), ("fetch.response", 13)] {
        assert_eq!(corpus.of(surface).count(), count, "{surface}");
        for case in corpus.of(surface).filter(|case| case.id.contains(&only)) {
            let before = panics();
            let outcome = block_on(async {
                if surface == "fetch.url" { url(case).await } else { response(case).await }
            });
            if outcome != expected(case) || panics() != before {
                wrong.push(format!(
                    "{} ({}): {outcome:?}, and it should be {:?}",
                    case.id,
                    case.category,
                    expected(case)
                ));
            }
            played += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!only.is_empty() || played == 84, "{played} cases were played");
}

/// A note on a case that does not exist, or that agrees with the corpus after all, misleads.
#[test]
fn every_decision_about_fetching_changes_a_case() {
    let corpus = Corpus::read().unwrap();
    for (id, outcome, reason) in DECIDED {
        let case = corpus.cases.iter().find(|case| case.id == *id).unwrap();
        assert_ne!(case.expect.outcome, *outcome, "{id}: {reason}");
        assert!(case.surface.starts_with("fetch."), "{id}");
    }
}
