//! The whole authorization of an MCP server, and the cases of `mcp.oauth` that concern a client.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::hidden::Hidden;
use toolgate_kernel::time::Timestamp;
use toolgate_mcp::client::oauth::{
    Chance, Keeper, Login, OauthFault, OauthPlan, Pen, Permit, Permits, Request,
};
use toolgate_mcp::client::{
    Bounds, CallFault, HttpKind, Reach, Registry, RemoteCall, ServerFault, ServerPlan,
};
use toolgate_runtime::port::Clock;
use toolgate_testkit::mcp::{Guarded, Twist};

use crate::mcp_stage::{after, name, registry, until};

const REDIRECT: &str = "http://127.0.0.1:4000/callback";

/// A permit that is kept in memory, whether somebody has its pen, and whether it is locked: then
/// nothing can be put in.
#[derive(Default, Clone)]
struct Drawer(Arc<Mutex<Option<String>>>, Arc<AtomicBool>, Arc<AtomicBool>);

impl Permits for Drawer {
    fn load(&self) -> Option<Permit> {
        self.0.lock().unwrap().as_deref().and_then(Permit::read)
    }

    fn save(&self, permit: &Permit) {
        if !self.2.load(Ordering::SeqCst) {
            *self.0.lock().unwrap() = Some(permit.written());
        }
    }

    fn pen(&self) -> Option<Pen> {
        let taken = self.1.swap(true, Ordering::SeqCst);
        (!taken).then(|| Box::new(DrawerPen(Arc::clone(&self.1))) as Pen)
    }
}

struct DrawerPen(Arc<AtomicBool>);

impl Drop for DrawerPen {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[derive(Default, Clone)]
struct Hands(Arc<AtomicI64>);

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

struct Stage {
    guarded: Arc<Guarded>,
    http: Arc<Transport>,
    drawer: Drawer,
    hands: Hands,
}

impl Stage {
    fn new(twist: Twist) -> Self {
        let http = Arc::new(Transport::new(Roots::default()));
        let guarded = Guarded::start(twist).unwrap();
        Self { guarded, http, drawer: Drawer::default(), hands: Hands::default() }
    }

    fn plan(&self, url: &str) -> ServerPlan {
        let (permits, clock) = (Box::new(self.drawer.clone()), Arc::new(self.hands.clone()));
        let keeper = Keeper::new(url, Arc::clone(&self.http), permits, clock);
        let reach = Reach::Http {
            url: url.to_owned(),
            headers: vec![],
            bearer: None,
            keeper: Some(Arc::new(keeper)),
            kind: HttpKind::Streamable,
        };
        let bounds = Bounds { backoff_ms: 1, failures_max: 100, ..Bounds::default() };
        ServerPlan { name: name(), reach, connect_ms_max: 5_000, call_ms_max: 5_000, bounds }
    }

    fn registry(&self) -> Registry {
        registry(vec![self.plan(&self.guarded.url())])
    }

    async fn begin(&self, plan: &OauthPlan) -> Result<Login, OauthFault> {
        let kept = self.drawer.load();
        let server = self.plan(&self.guarded.url());
        let request = Request { server: &server, plan, redirect: REDIRECT, before: kept.as_ref() };
        Login::begin(&self.http, request, Chance { state: [7; 32], verifier: [8; 32] }).await
    }

    async fn finish(&self, login: &Login, query: &str) -> Result<Permit, OauthFault> {
        login.finish(&self.http, query, self.hands.now()).await
    }

    /// The whole way: the person says yes, and the permit is kept.
    async fn log_in(&self) {
        let login = self.begin(&OauthPlan::default()).await.unwrap();
        let permit = self.finish(&login, &self.guarded.consent(login.address())).await.unwrap();
        self.drawer.save(&permit);
    }

    async fn refusal(&self) -> OauthFault {
        match self.begin(&OauthPlan::default()).await {
            Ok(login) => panic!("it went on to {}", login.address()),
            Err(fault) => fault,
        }
    }
}

async fn call(registry: &Registry) -> Result<(), CallFault> {
    let asked = RemoteCall { tool: "echo", args: r#"{"text":"x"}"#, known: None, key: None };
    registry.call(&name(), asked, after(10_000)).await.map(drop)
}

#[tokio::test]
async fn a_login_from_the_challenge_to_a_call() {
    let stage = Stage::new(Twist::None);
    let registry = stage.registry();
    let fault = registry.tools(&name()).await.unwrap_err();
    let told = fault.to_string();
    assert_eq!(told, "it asks for authorization: run `toolgate mcp login fake`");
    stage.log_in().await;
    assert!(!registry.tools(&name()).await.unwrap().tools.is_empty());
    call(&registry).await.unwrap();
    let guarded = &stage.guarded;
    for (key, wanted) in [
        ("response_type", "code"),
        ("client_id", "registered"),
        ("redirect_uri", REDIRECT),
        ("code_challenge_method", "S256"),
        ("resource", &guarded.url()),
        ("scope", "tools:read offline_access"),
    ] {
        assert_eq!(guarded.asked(key), wanted, "{key}");
    }
    assert_eq!((guarded.seen("POST /register").len(), guarded.seen("POST /token").len()), (1, 1));
    // What is kept shows nothing of itself.
    let permit = stage.drawer.load().unwrap();
    let shown = format!("{permit:?} {:?}", stage.plan(&guarded.url()));
    assert!(!shown.contains("canary"), "{shown}");
    assert!(permit.is_renewable() && permit.issuer() == guarded.issuer());
}

#[tokio::test]
async fn documents_are_found_at_the_known_places_and_by_openid() {
    let stage = Stage::new(Twist::Plain);
    stage.log_in().await;
    call(&stage.registry()).await.unwrap();
    let asked = stage.guarded.seen("GET");
    let paths: Vec<&str> = asked.iter().filter_map(|seen| seen.split(' ').nth(1)).collect();
    let wanted = [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server/auth",
        "/.well-known/openid-configuration/auth",
        "/auth/.well-known/openid-configuration",
    ];
    assert_eq!(paths, wanted);
}

#[tokio::test]
async fn a_client_is_known_by_its_id_its_document_or_by_registering() {
    let stage = Stage::new(Twist::None);
    let known = OauthPlan {
        client_id: Some("known".to_owned()),
        client_secret: Some(Hidden::new("canary secret")),
        scopes: vec!["tools:write".to_owned()],
        ..OauthPlan::default()
    };
    let login = stage.begin(&known).await.unwrap();
    stage.finish(&login, &stage.guarded.consent(login.address())).await.unwrap();
    assert_eq!(stage.guarded.asked("client_id"), "known");
    assert_eq!(stage.guarded.asked("scope"), "tools:write");
    // The secret is in a header, and neither in an address nor in a body.
    let everything = stage.guarded.everything();
    assert!(everything.contains("authorization: Basic ") && !login.address().contains("canary"));
    assert!(!stage.guarded.seen("POST /token").concat().contains("canary"));
    let url = "https://client.example/toolgate.json".to_owned();
    let document = OauthPlan { client_metadata_url: Some(url.clone()), ..OauthPlan::default() };
    let login = stage.begin(&document).await.unwrap();
    stage.guarded.consent(login.address());
    assert_eq!(stage.guarded.asked("client_id"), url);
    assert_eq!(stage.guarded.seen("POST /register").len(), 0);
    let closed = Stage::new(Twist::NoRegistration);
    assert_eq!(closed.refusal().await, OauthFault::NoRegistration);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_is_over_and_when_it_is_refused() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    call(&registry).await.unwrap();
    let tokens = |stage: &Stage| stage.guarded.seen("POST /token").len();
    assert_eq!(tokens(&stage), 1);
    // A minute before its end.
    stage.hands.0.store(541_000, Ordering::SeqCst);
    call(&registry).await.unwrap();
    assert_eq!(tokens(&stage), 2);
    assert!(stage.drawer.load().unwrap().written().contains("canary-refresh-2"));
    // The server takes it back: it is renewed once, and the call is made.
    stage.guarded.revoke(false);
    call(&registry).await.unwrap();
    assert_eq!(tokens(&stage), 3);
    // Another process renewed it: that one is used, and nothing is asked.
    let other = stage.registry();
    stage.guarded.revoke(false);
    call(&other).await.unwrap();
    call(&registry).await.unwrap();
    assert_eq!(tokens(&stage), 4);
    // Everything is taken back: a person is told what to do, and one renewal is tried.
    stage.guarded.revoke(true);
    let told = call(&registry).await.unwrap_err().to_string();
    assert!(told.contains("toolgate mcp login fake") && !told.contains("canary"), "{told}");
    assert_eq!(tokens(&stage), 5);
    // A new login is heard of without a new start.
    stage.log_in().await;
    call(&registry).await.unwrap();
}

/// What a login gave does not come out of the server again, also after it was renewed.
#[tokio::test]
async fn tokens_that_a_server_repeats_are_covered() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    let mut tokens = Vec::new();
    for now in [0, 541_000] {
        stage.hands.0.store(now, Ordering::SeqCst);
        call(&registry).await.unwrap();
        let written = stage.drawer.load().unwrap().written();
        let written: serde_json::Value = serde_json::from_str(&written).unwrap();
        for token in ["access_token", "refresh_token"] {
            tokens.push(written[token].as_str().unwrap().to_owned());
        }
        let said = format!("{{\"text\":\"{}\"}}", tokens.join(" "));
        let asked = RemoteCall { tool: "echo", args: &said, known: None, key: None };
        let text = registry.call(&name(), asked, after(10_000)).await.unwrap().text;
        assert!(text.contains("***") && !text.contains("canary"), "{text}");
    }
    assert_ne!(tokens[0], tokens[2], "it was renewed");
}

/// Whoever stops waiting for a call does not lose the token that came meanwhile.
#[tokio::test]
async fn a_renewal_that_nobody_waits_for_is_kept() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    call(&registry).await.unwrap();
    stage.hands.0.store(541_000, Ordering::SeqCst);
    // Asked once is enough to begin.
    assert!(call(&registry).now_or_never().is_none());
    let kept = || stage.drawer.load().unwrap().written().contains("canary-refresh-2");
    assert!(until(5_000, kept).await, "the new token is lost");
    call(&registry).await.unwrap();
    assert_eq!(stage.guarded.seen("POST /token").len(), 2);
}

/// What renews a token can be used once: of several processes one renews, and the others wait for it.
#[tokio::test]
async fn processes_that_share_a_permit_renew_it_one_after_the_other() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let processes = [(); 4].map(|()| stage.registry());
    for registry in &processes {
        call(registry).await.unwrap();
    }
    for (at, tokens) in [(601_000, 2), (1_300_000, 3)] {
        stage.hands.0.store(at, Ordering::SeqCst);
        for made in join_all(processes.iter().map(call)).await {
            made.unwrap();
        }
        assert_eq!(stage.guarded.seen("POST /token").len(), tokens);
    }
}

/// What renews a token can be used once, also where the new one cannot be written down.
#[tokio::test]
async fn a_token_that_cannot_be_kept_is_renewed_all_the_same() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    call(&registry).await.unwrap();
    stage.drawer.2.store(true, Ordering::SeqCst);
    for (at, tokens) in [(601_000, 2), (1_300_000, 3), (2_000_000, 4)] {
        stage.hands.0.store(at, Ordering::SeqCst);
        call(&registry).await.unwrap();
        assert_eq!(stage.guarded.seen("POST /token").len(), tokens);
    }
}

/// A login that is good and cannot be renewed just now is not called over.
#[tokio::test]
async fn nobody_is_sent_to_log_in_where_that_would_not_help() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    call(&registry).await.unwrap();
    let kept = stage.drawer.load().unwrap().written();
    let own = format!("http://127.0.0.1:{}/token", stage.guarded.port);
    assert!(kept.contains(&own), "{kept}");
    *stage.drawer.0.lock().unwrap() = Some(kept.replace(&own, "http://127.0.0.1:1/token"));
    // The server does not take it any more, or it is over.
    stage.guarded.revoke(false);
    for at in [1_000, 601_000] {
        stage.hands.0.store(at, Ordering::SeqCst);
        let fault = call(&registry).await.unwrap_err();
        assert!(matches!(fault, CallFault::NotSent(_)), "{fault}");
        assert!(!fault.to_string().contains("mcp login"), "{fault}");
    }
    // When it can be asked again, the call is made; somebody was just told that it cannot.
    *stage.drawer.0.lock().unwrap() = Some(kept);
    assert!(matches!(call(&registry).await, Err(CallFault::NotSent(_))));
    stage.hands.0.store(612_000, Ordering::SeqCst);
    call(&registry).await.unwrap();
}

/// Whoever cannot connect because the token is being renewed, here or by another process, is told so.
#[tokio::test]
async fn a_renewal_that_takes_too_long_is_told_as_the_cause() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    stage.hands.0.store(601_000, Ordering::SeqCst);
    let _pen = stage.drawer.pen().unwrap();
    let plan = ServerPlan { connect_ms_max: 300, ..stage.plan(&stage.guarded.url()) };
    let told = call(&registry(vec![plan])).await.unwrap_err().to_string();
    assert!(told.contains("renewing the token"), "{told}");
}

/// Whoever logs out is not logged in again by a program that still runs.
#[tokio::test]
async fn a_permit_that_was_thrown_away_does_not_come_back() {
    let stage = Stage::new(Twist::Lives(600));
    stage.log_in().await;
    let registry = stage.registry();
    call(&registry).await.unwrap();
    *stage.drawer.0.lock().unwrap() = None;
    stage.hands.0.store(541_000, Ordering::SeqCst);
    let told = call(&registry).await.unwrap_err().to_string();
    assert!(told.contains("toolgate mcp login fake"), "{told}");
    assert!(stage.drawer.load().is_none());
    assert_eq!(stage.guarded.seen("POST /token").len(), 1);
}

#[tokio::test]
async fn a_token_goes_to_the_server_it_is_for_and_to_no_other() {
    let (stage, other) = (Stage::new(Twist::None), Stage::new(Twist::None));
    stage.log_in().await;
    // The same drawer, and another address: as if a file had been moved.
    let moved = Stage { drawer: stage.drawer.clone(), ..other };
    assert!(moved.registry().tools(&name()).await.is_err());
    assert!(!moved.guarded.everything().contains("canary"));
}

#[tokio::test]
async fn rights_that_are_missing_are_told_and_asked_for_at_the_next_login() {
    let stage = Stage::new(Twist::WantsScope);
    stage.log_in().await;
    let registry = stage.registry();
    let CallFault::NotSent(fault) = call(&registry).await.unwrap_err() else { panic!() };
    let wanted = ServerFault::WantsMore { server: name(), scopes: "tools:write".to_owned() };
    assert_eq!(fault, wanted);
    let login = stage.begin(&OauthPlan::default()).await.unwrap();
    let permit = stage.finish(&login, &stage.guarded.consent(login.address())).await.unwrap();
    stage.drawer.save(&permit);
    assert_eq!(stage.guarded.asked("scope"), "tools:read offline_access tools:write");
    // The new rights are heard of without a new start, and nothing is missed any more.
    call(&registry).await.unwrap();
    assert!(stage.drawer.load().unwrap().written().contains("\"missed\":[]"));
}

/// Whoever is refused is told so at once, also while another process changes the permit. What was
/// missed is written down when that one is done.
#[tokio::test]
async fn a_refusal_waits_for_nobody_who_changes_the_permit() {
    let stage = Stage::new(Twist::WantsScope);
    stage.log_in().await;
    let registry = stage.registry();
    let missed = || stage.drawer.load().unwrap().written().contains("\"missed\":[\"tools:write\"]");
    for is_known in [false, true] {
        let pen = stage.drawer.pen().unwrap();
        let called = tokio::time::timeout(Duration::from_secs(10), call(&registry)).await;
        let fault = called.expect("nobody is waited for").unwrap_err();
        assert!(matches!(fault, CallFault::NotSent(ServerFault::WantsMore { .. })), "{fault}");
        assert_eq!(missed(), is_known);
        drop(pen);
        assert!(until(5_000, missed).await);
    }
}

/// MOA-001: what a server names leads nowhere but to the internet.
#[tokio::test]
async fn no_address_that_a_server_names_leads_into_a_private_network() {
    let victim = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = victim.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&count);
    std::thread::spawn(move || {
        for _ in victim.incoming() {
            counting.fetch_add(1, Ordering::SeqCst);
        }
    });
    let own = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let addresses = [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/latest/meta-data/",
        own(format!("http://0.0.0.0:{port}/")),
        own(format!("https://0.0.0.0:{port}/")),
        own(format!("https://[::]:{port}/")),
        own(format!("https://0:{port}/")),
        own(format!("https://2130706433:{port}/")),
        own(format!("https://0x7f.1:{port}/")),
        own(format!("https://127.1:{port}/")),
        "https://10.0.0.1/",
        "https://[fd00::1]/",
        "file:///etc/passwd",
        "javascript:fetch('//evil')",
    ];
    for address in addresses {
        let twists = [
            Twist::Challenge(address),
            Twist::Issuer(address),
            Twist::TokenAt(address),
            Twist::RegisterAt(address),
        ];
        for twist in twists {
            let stage = Stage::new(twist);
            // An address that cannot be asked is refused as late as when it is asked.
            match stage.begin(&OauthPlan::default()).await {
                Err(fault) => assert!(
                    matches!(fault, OauthFault::Address { .. } | OauthFault::Unreachable { .. }),
                    "{twist:?}: {fault}"
                ),
                Ok(login) => {
                    let answer = stage.guarded.consent(login.address());
                    assert!(stage.finish(&login, &answer).await.is_err(), "{twist:?}");
                }
            }
            assert_eq!(stage.guarded.seen("POST /token").len(), 0, "{twist:?}");
        }
    }
    assert_eq!(count.load(Ordering::SeqCst), 0, "connections to what must not be reached");
}

/// MOA-003 and MOA-005: what a person opens is an address of the web, and nothing that a shell reads.
#[tokio::test]
async fn the_page_to_open_is_of_the_web_and_inert() {
    for page in [
        "javascript:fetch('//evil')",
        "data:text/html,<script>",
        "file:///etc/passwd",
        "http://evil.example/",
        "vbscript:x",
    ] {
        let stage = Stage::new(Twist::Page(page));
        let fault = stage.refusal().await;
        assert!(matches!(fault, OauthFault::Address { .. }), "{page}: {fault}");
        assert_eq!(stage.guarded.seen("POST /register").len(), 0, "{page}: nobody registers");
    }
    let stage = Stage::new(Twist::Page("https://x/$(calc.exe)?a=`id`&b=|whoami"));
    let login = stage.begin(&OauthPlan::default()).await.unwrap();
    assert!(login.address().starts_with("https://x/%24%28calc.exe%29?a=%60id%60&b=%7Cwhoami&"));
    assert!(!login.address().contains(['$', '`', '|', '(', ')', ' ', '\'', '"', ';']));
}

/// MOA-006: without PKCE there is no login, and nobody registers.
#[tokio::test]
async fn a_server_without_pkce_is_refused() {
    for twist in [Twist::NoPkce, Twist::WeakPkce] {
        let stage = Stage::new(twist);
        assert_eq!(stage.refusal().await, OauthFault::NoPkce);
        assert_eq!(stage.guarded.seen("POST").iter().filter(|s| !s.contains("/mcp")).count(), 0);
    }
}

/// MOA-007: a code that comes from somebody else is not redeemed.
#[tokio::test]
async fn an_answer_of_another_issuer_is_not_redeemed() {
    let stage = Stage::new(Twist::None);
    let login = stage.begin(&OauthPlan::default()).await.unwrap();
    let good = stage.guarded.consent(login.address());
    let (before, _) = good.split_once("&iss=").unwrap();
    for bad in [format!("{before}&iss=https%3A%2F%2Fevil.example"), before.to_owned()] {
        let fault = stage.finish(&login, &bad).await.unwrap_err();
        assert_eq!(fault, OauthFault::WrongSender, "{bad}");
    }
    let other = good.replace("state=", "state=x");
    assert_eq!(stage.finish(&login, &other).await.unwrap_err(), OauthFault::NotOurs);
    assert_eq!(stage.guarded.seen("POST /token").len(), 0);
    stage.finish(&login, &good).await.unwrap();
}

/// MOA-011: the address for answers is compared as a whole.
#[tokio::test]
async fn another_address_for_answers_is_refused() {
    let stage = Stage::new(Twist::OtherRedirect);
    assert_eq!(stage.refusal().await, OauthFault::OtherRedirect);
}

#[tokio::test]
async fn metadata_of_others_and_redirects_are_refused() {
    for (twist, wanted) in [
        (Twist::OtherResource, OauthFault::OtherResource),
        (Twist::OtherIssuer, OauthFault::OtherIssuer),
        (Twist::Redirects, OauthFault::Redirected { what: "protected resource metadata" }),
    ] {
        let stage = Stage::new(twist);
        assert_eq!(stage.refusal().await, wanted);
        assert_eq!(stage.guarded.seen("POST /register").len(), 0);
    }
}

#[tokio::test]
async fn an_error_that_repeats_what_it_was_sent_shows_none_of_it() {
    let stage = Stage::new(Twist::Echoes);
    let login = stage.begin(&OauthPlan::default()).await.unwrap();
    let fault = stage.finish(&login, &stage.guarded.consent(login.address())).await.unwrap_err();
    assert_eq!(fault, OauthFault::Denied("invalid_grant".to_owned()));
}

/// A client that was registered beforehand is shown to the server that knows it, and to no other.
#[tokio::test]
async fn a_known_client_is_not_shown_to_another_authorization_server() {
    let stage = Stage::new(Twist::None);
    let known = OauthPlan {
        client_id: Some("known".to_owned()),
        client_secret: Some(Hidden::new("canary secret")),
        ..OauthPlan::default()
    };
    let login = stage.begin(&known).await.unwrap();
    let permit = stage.finish(&login, &stage.guarded.consent(login.address())).await.unwrap();
    stage.drawer.save(&permit);
    assert!(stage.begin(&known).await.is_ok(), "the same one is no surprise");
    let elsewhere = permit.written().replace(permit.issuer(), "https://auth.example");
    let elsewhere = Permit::read(&elsewhere).unwrap();
    assert_eq!(elsewhere.issuer(), "https://auth.example");
    stage.drawer.save(&elsewhere);
    let fault = stage.begin(&known).await.err();
    assert_eq!(fault, Some(OauthFault::MovedIssuer));
    // Whoever registers does so anew there, and shows nothing of before.
    let login = stage.begin(&OauthPlan::default()).await.unwrap();
    assert!(login.address().contains("client_id=registered"), "{}", login.address());
}
