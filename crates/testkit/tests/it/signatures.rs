//! What only a person may decide counts with a signed decision of a person who may decide it. Each
//! row forges records as somebody with the host key could, and is found by the reader and by `verify`.

use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::{DecisionKind, Nonce, Role, SignedDecision};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Delegation, InboxEvent, ProjectEvent, Record, StreamId};
use toolgate_kernel::names::{SessionId, ToolName, ToolPattern};
use toolgate_kernel::pin::Ruling;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tree::LogId;
use toolgate_runtime::port::Clock;
use toolgate_runtime::{SayFault, Signer};
use toolgate_testkit::forgery::{
    SeenProject, TestLog, believed_forgeries, session_of_another_project, signed,
};
use toolgate_testkit::signer::TestSigner;

/// A signer that signs something else than it is given.
struct WrongSigner(Arc<TestSigner>);

impl Signer for WrongSigner {
    fn key(&self) -> PersonKey {
        self.0.key()
    }

    fn sign(&self, _: &[u8]) -> Signature {
        self.0.sign(b"anything")
    }

    fn nonce(&self) -> Nonce {
        self.0.nonce()
    }
}

fn fact(name: &str) -> ProjectEvent {
    toolgate_testkit::forgery::fact(name).unwrap()
}

fn kind_of(event: &ProjectEvent) -> DecisionKind {
    toolgate_testkit::forgery::kind_of(event).unwrap()
}

fn pin(tool: &str, about: &str, ruling: Ruling) -> ProjectEvent {
    ProjectEvent::ToolPinned(Box::new(
        toolgate_testkit::forgery::pinned(tool, about, ruling).unwrap(),
    ))
}

fn answer(delegation: Option<u64>) -> toolgate_kernel::event::Said {
    toolgate_testkit::forgery::answer(delegation).unwrap()
}

async fn founded() -> TestLog {
    TestLog::founded().await.unwrap()
}

async fn forge(log: &TestLog, event: ProjectEvent, decision: Option<SignedDecision>) {
    log.forge_project(event, decision).await.unwrap();
}

async fn is_refused(log: &TestLog, what: &str) {
    let (read, problems) = log.found().await.unwrap();
    assert!(read.is_some_and(|said| said.contains("does not count")), "{what} was read");
    assert!(problems.iter().any(|said| said.contains(what)), "{what}: {problems:?}");
}

async fn is_sound(log: &TestLog) {
    assert_eq!(log.found().await.unwrap(), (None, Vec::new()));
}

#[tokio::test]
async fn no_forgery_is_believed() {
    assert_eq!(believed_forgeries().await.unwrap(), Vec::<&str>::new());
}

/// Somebody with the host key cuts the project off, or lets a session say that it saw less of it, so
/// that a revoked key counts again.
#[tokio::test]
async fn a_session_does_not_go_on_in_another_project_than_it_saw() {
    for (seen, what) in [
        (SeenProject::Other, "a session saw another record here"),
        (SeenProject::Longer, "a session saw another record here"),
        (SeenProject::Shorter, "the record saw less of the project than the ones before it"),
    ] {
        let (opened, found) = session_of_another_project(seen).await.unwrap();
        let said = opened.unwrap_or_default();
        assert!(said.contains("a project with another history"), "{seen:?}: {said}");
        assert_eq!(found, [what], "{seen:?}");
    }
}

#[tokio::test]
async fn the_first_key_enrols_itself_and_no_other_counts() {
    let log = founded().await;
    let people = log.runtime().catch_up().await.unwrap().people.clone();
    assert_eq!(people.get(&log.ada.key()).unwrap().role, Role::Owner);
    log.decide(Some(log.ada.as_ref()), fact("facts:b")).await.unwrap();
    let stranger = log.decide(Some(log.bob.as_ref()), fact("facts:c")).await;
    assert!(matches!(stranger, Err(SayFault::Stranger)), "{stranger:?}");
    let unsigned = log.decide(None, fact("facts:c")).await;
    assert!(matches!(unsigned, Err(SayFault::Unsigned)), "{unsigned:?}");
    is_sound(&log).await;
}

/// Somebody who makes another person known first, and decided nothing before, is the owner all the same.
#[tokio::test]
async fn the_first_decision_may_enrol_another_person() {
    let log = TestLog::new().unwrap();
    let (key, name) = (log.bob.key(), "bob".to_owned());
    let (role, tools) = (Role::Approver, Vec::new());
    let bob = ProjectEvent::PersonEnrolled { key, name, role, tools };
    log.decide(Some(log.ada.as_ref()), bob).await.unwrap();
    let people = log.runtime().catch_up().await.unwrap().people.clone();
    assert_eq!(people.get(&log.ada.key()).unwrap().role, Role::Owner);
    assert_eq!(people.get(&log.bob.key()).unwrap().role, Role::Approver);
    is_sound(&log).await;
}

#[tokio::test]
async fn forged_decisions_are_refused_by_the_reader_and_found() {
    let change = || fact("facts:b");
    // Nothing is signed.
    let log = founded().await;
    forge(&log, change(), None).await;
    is_refused(&log, "without their signature").await;
    // The signature is of something else.
    let log = founded().await;
    let wrong = WrongSigner(log.ada.clone());
    let statement = log.statement(&log.ada, Role::Owner, kind_of(&change()));
    let signature = wrong.sign(&statement.signed_bytes());
    forge(&log, change(), Some(SignedDecision { statement, signature })).await;
    is_refused(&log, "whose signature does not fit").await;
    // It was signed for another change.
    let log = founded().await;
    let statement = log.statement(&log.ada, Role::Owner, kind_of(&fact("facts:other")));
    forge(&log, change(), Some(signed(&log.ada, statement))).await;
    is_refused(&log, "signed for something else").await;
    // It was signed for another log.
    let log = founded().await;
    let mut statement = log.statement(&log.ada, Role::Owner, kind_of(&change()));
    statement.log = LogId::from_bytes([9; 16]);
    forge(&log, change(), Some(signed(&log.ada, statement))).await;
    is_refused(&log, "signed for another log").await;
    // A stranger signed it.
    let log = founded().await;
    let statement = log.statement(&log.bob, Role::Owner, kind_of(&change()));
    forge(&log, change(), Some(signed(&log.bob, statement))).await;
    is_refused(&log, "was not enrolled").await;
    // It is too old, or lasts too long.
    for (at, expires) in [(-7_200_000, -3_600_000), (0, 7_200_000), (600_000, 4_200_000)] {
        let log = founded().await;
        let mut statement = log.statement(&log.ada, Role::Owner, kind_of(&change()));
        let now = statement.at.0;
        (statement.at, statement.expires) = (Timestamp(now + at), Timestamp(now + expires));
        forge(&log, change(), Some(signed(&log.ada, statement))).await;
        is_refused(&log, "too old, or signed later").await;
    }
    // It was used before.
    let log = founded().await;
    let statement = log.statement(&log.ada, Role::Owner, kind_of(&change()));
    let decision = signed(&log.ada, statement);
    forge(&log, change(), Some(decision.clone())).await;
    is_sound(&log).await;
    forge(&log, change(), Some(decision)).await;
    is_refused(&log, "used before").await;
}

/// A person who enrols themselves where one is known already is nobody, and neither is one who
/// decides before the first enrolment.
#[tokio::test]
async fn a_second_first_person_and_a_backdated_decision_do_not_count() {
    let log = founded().await;
    let (key, name, role) = (log.bob.key(), "bob".to_owned(), Role::Owner);
    let event = ProjectEvent::PersonEnrolled { key, name: name.clone(), role, tools: vec![] };
    let statement = log.statement(&log.bob, role, DecisionKind::Bootstrap { key, name });
    forge(&log, event, Some(signed(&log.bob, statement))).await;
    is_refused(&log, "signed for something else").await;

    let log = TestLog::new().unwrap();
    forge(&log, ProjectEvent::ProjectOpened { restarted_from: None }, None).await;
    let change = fact("facts:a");
    let statement = log.statement(&log.ada, Role::Owner, kind_of(&change));
    forge(&log, change, Some(signed(&log.ada, statement))).await;
    is_refused(&log, "was not enrolled").await;
}

#[tokio::test]
async fn a_role_and_a_scope_bound_what_a_key_decides() {
    let log = TestLog::with_bob(Role::Viewer, &[]).await.unwrap();
    let refused = log.decide(Some(log.bob.as_ref()), fact("facts:b")).await;
    assert!(
        matches!(refused, Err(SayFault::NotAllowed(Role::Viewer, Role::Approver))),
        "{refused:?}"
    );
    // A statement in a role that the key does not have.
    let change = fact("facts:b");
    let statement = log.statement(&log.bob, Role::Owner, kind_of(&change));
    forge(&log, change, Some(signed(&log.bob, statement))).await;
    is_refused(&log, "may not decide this").await;

    let log = TestLog::with_bob(Role::Approver, &["mcp:bank:*"]).await.unwrap();
    // A limit to some tools is one for what is about no tool, too.
    let refused = log.decide(Some(log.bob.as_ref()), fact("facts:b")).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
    let zero = Digest::ZERO;
    let owner_only = ProjectEvent::ConfigTrusted { reach: zero, gate: zero, text: zero };
    let refused = log.decide(Some(log.bob.as_ref()), owner_only).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
    let pin = |tool| pin(tool, "x", Ruling::Accepted);
    log.decide(Some(log.bob.as_ref()), pin("mcp:bank:pay")).await.unwrap();
    let refused = log.decide(Some(log.bob.as_ref()), pin("mcp:mail:send")).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
    is_sound(&log).await;
}

#[tokio::test]
async fn a_revoked_key_counts_for_what_came_before() {
    let log = TestLog::with_bob(Role::Approver, &[]).await.unwrap();
    log.decide(Some(log.bob.as_ref()), fact("facts:b")).await.unwrap();
    let revoked = ProjectEvent::PersonRevoked { key: log.bob.key(), reason: "lost".into() };
    log.decide(Some(log.ada.as_ref()), revoked).await.unwrap();
    is_sound(&log).await;
    let refused = log.decide(Some(log.bob.as_ref()), fact("facts:c")).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
    let change = fact("facts:c");
    let statement = log.statement(&log.bob, Role::Approver, kind_of(&change));
    forge(&log, change, Some(signed(&log.bob, statement))).await;
    is_refused(&log, "was revoked").await;
}

/// Two records that a server's definition is the first one and then the one that returns do not
/// replace what a person accepted.
#[tokio::test]
async fn a_definition_is_replaced_by_a_person_alone() {
    let log = founded().await;
    let pin = |about, ruling| pin("mcp:a:b", about, ruling);
    forge(&log, pin("good", Ruling::FirstSeen), None).await;
    is_sound(&log).await;
    forge(&log, pin("evil", Ruling::FirstSeen), None).await;
    forge(&log, pin("evil", Ruling::Returned), None).await;
    let project = log.runtime().catch_up().await.unwrap();
    let tool = ToolName::parse("mcp:a:b").unwrap();
    assert_eq!(project.pins.get(&tool).unwrap().live.as_ref().unwrap().about, "good");
    let problems = log.found().await.unwrap().1;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|said| said.contains("no person accepted it")), "{problems:?}");
}

#[tokio::test]
async fn an_answer_from_elsewhere_is_signed_by_an_enrolled_person() {
    let log = founded().await;
    let (session, ada) = (SessionId::parse("s1").unwrap(), Actor::Human("ada".into()));
    let runtime = log.runtime();
    let unsigned = runtime.say(&session, &ada, answer(None)).await;
    assert!(matches!(unsigned, Err(SayFault::Unsigned)), "{unsigned:?}");
    let stranger = runtime.say(&session, log.bob.author(&ada), answer(None)).await;
    assert!(matches!(stranger, Err(SayFault::Stranger)), "{stranger:?}");
    let model = Actor::Model("m".into());
    assert!(runtime.say(&session, &model, answer(None)).await.is_err(), "a model is no person");
    runtime.say(&session, log.ada.author(&ada), answer(None)).await.unwrap();
    is_sound(&log).await;
}

#[tokio::test]
async fn the_user_of_a_client_answers_within_a_delegation_alone() {
    let log = founded().await;
    let session = SessionId::parse("s1").unwrap();
    let (user, other) = (Actor::ClientUser("editor".into()), Actor::ClientUser("b".into()));
    let runtime = log.runtime();
    let refused = |said: Result<u64, SayFault>| {
        assert!(matches!(said, Err(SayFault::NotDelegated(_))), "{said:?}");
    };
    refused(runtime.say(&session, &user, answer(None)).await);
    let until = log.clock.now().plus_ms(60_000);
    let tools = vec![ToolPattern::parse("mcp:bank:*").unwrap()];
    let terms = Delegation { client: "editor".into(), tools, until, answers_max: 1 };
    let given = ProjectEvent::ClientDelegated(Box::new(terms.clone()));
    log.decide(Some(log.ada.as_ref()), given).await.unwrap();
    refused(runtime.say(&session, &other, answer(None)).await);
    runtime.say(&session, &user, answer(None)).await.unwrap();
    // It was for one answer.
    refused(runtime.say(&session, &user, answer(None)).await);
    is_sound(&log).await;
    let too_long = Delegation { until: log.clock.now().plus_ms(31 * 24 * 3_600_000), ..terms };
    let too_long = ProjectEvent::ClientDelegated(Box::new(too_long));
    let refused = log.decide(Some(log.ada.as_ref()), too_long).await;
    assert!(matches!(refused, Err(SayFault::Unbounded)), "{refused:?}");
    // Somebody with the host key writes an answer of theirs that was never counted.
    let (at, said) = (log.clock.now(), answer(Some(3)));
    let event = InboxEvent::Spoken { said };
    let record =
        |seq| Record { seq, at, actor: user.clone(), epoch: 0, saw: None, event, decision: None };
    log.forge(StreamId::Inbox(SessionId::parse("s2").unwrap()), record).await.unwrap();
    let problems = log.found().await.unwrap().1;
    assert!(problems.iter().any(|said| said.contains("no delegation covers")), "{problems:?}");
}
