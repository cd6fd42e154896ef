//! What a person might decide when they did: what they became since changes nothing of it, and a date
//! that is put back gives them nothing.

use toolgate_kernel::actor::Actor;
use toolgate_kernel::approval::DecisionSigner;
use toolgate_kernel::decision::{Decided, Role};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Answer, Conversation, Decision, Delegation, Event, InboxEvent, ProjectEvent, RawCall, Record,
    Said, Saw, StreamId,
};
use toolgate_kernel::fold::{ENROLMENTS_MAX, Session};
use toolgate_kernel::names::{CallId, SessionId, ToolName, ToolPattern};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::log::ReadFault;
use toolgate_runtime::port::{Clock, Store};
use toolgate_runtime::{InboxWord, SayFault, Signer};
use toolgate_testkit::forgery::{TestLog, answer, fact, signed};

fn session_id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

fn inbox() -> StreamId {
    StreamId::Inbox(session_id())
}

fn bob() -> Actor {
    Actor::Human("bob".into())
}

fn user() -> Actor {
    Actor::ClientUser("editor".into())
}

async fn with_bob() -> TestLog {
    TestLog::with_bob(Role::Approver, &[]).await.unwrap()
}

/// Bob gets another role.
async fn becomes(log: &TestLog, role: Role) -> Result<(), SayFault> {
    let (key, name, tools) = (log.bob.key(), "bob".to_owned(), Vec::new());
    let enrolled = ProjectEvent::PersonEnrolled { key, name, role, tools };
    log.decide(Some(log.ada.as_ref()), enrolled).await
}

async fn revoke(log: &TestLog) {
    let revoked = ProjectEvent::PersonRevoked { key: log.bob.key(), reason: "lost".into() };
    log.decide(Some(log.ada.as_ref()), revoked).await.unwrap();
}

/// What a session that heard nothing so far would hear.
async fn unheard(log: &TestLog) -> Result<Vec<InboxWord>, ReadFault> {
    log.runtime().unheard(&Session::new(session_id())).await
}

async fn problems(log: &TestLog) -> Vec<String> {
    log.found().await.unwrap().1
}

async fn is_found(log: &TestLog, what: &str) {
    let problems = problems(log).await;
    assert!(problems.iter().any(|said| said.contains(what)), "{what}: {problems:?}");
}

async fn is_not_heard(log: &TestLog, what: &str) {
    is_found(log, what).await;
    assert!(matches!(unheard(log).await, Err(ReadFault::Unfounded { .. })), "{what} is heard");
}

/// Who signed the word that waits to be heard, as the session would write it down.
async fn signer(log: &TestLog) -> Option<DecisionSigner> {
    let word = unheard(log).await.unwrap().into_iter().next().unwrap();
    let Event::Heard { signer, .. } = word.heard() else { panic!("it is heard") };
    signer
}

#[tokio::test]
async fn another_role_leaves_what_was_decided_before_as_it_is() {
    let log = with_bob().await;
    log.decide(Some(log.bob.as_ref()), fact("facts:b").unwrap()).await.unwrap();
    log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await.unwrap();
    let by_bob = DecisionSigner { key: log.bob.key(), role: Role::Approver };
    for role in [Role::Viewer, Role::Owner] {
        becomes(&log, role).await.unwrap();
        assert_eq!(signer(&log).await, Some(by_bob), "{role}");
        assert_eq!(problems(&log).await, Vec::<String>::new(), "{role}");
    }
    becomes(&log, Role::Viewer).await.unwrap();
    let refused =
        log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
}

#[tokio::test]
async fn a_word_of_a_person_who_was_revoked_since_is_no_dead_end() {
    let log = with_bob().await;
    log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await.unwrap();
    revoke(&log).await;
    assert_eq!(unheard(&log).await.unwrap().len(), 1);
    assert_eq!(problems(&log).await, Vec::<String>::new());
    // Enrolled again, the key is good from there on.
    becomes(&log, Role::Approver).await.unwrap();
    log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await.unwrap();
    assert_eq!(unheard(&log).await.unwrap().len(), 2);
    assert_eq!(problems(&log).await, Vec::<String>::new());
}

/// A record of an inbox that somebody with Bob's key and the key of the host writes.
async fn forge_word(log: &TestLog, saw: Option<Saw>) {
    let (at, event) = (log.clock.now(), InboxEvent::Spoken { said: answer(None).unwrap() });
    let what = event.decision(&inbox(), &bob()).unwrap();
    let decision = signed(&log.bob, log.statement(&log.bob, Role::Approver, what));
    let decision = Some(Box::new(decision));
    let record = |seq| Record { seq, at, actor: bob(), epoch: 0, saw, event, decision };
    log.forge(inbox(), record).await.unwrap();
}

async fn saw(log: &TestLog, seq: u64) -> Option<Saw> {
    let rows = log.store.read(&StreamId::Project, seq, 1).await.unwrap();
    Some(Saw { seq, hash: rows[0].hash })
}

#[tokio::test]
async fn a_revoked_key_signs_nothing_into_the_time_before() {
    let log = with_bob().await;
    let before = log.runtime().catch_up().await.unwrap().seq;
    revoke(&log).await;
    forge_word(&log, saw(&log, before).await).await;
    is_not_heard(&log, "another moment of the project").await;

    let log = with_bob().await;
    revoke(&log).await;
    let now = log.runtime().catch_up().await.unwrap().seq;
    forge_word(&log, saw(&log, now).await).await;
    is_not_heard(&log, "was revoked").await;

    let log = with_bob().await;
    forge_word(&log, None).await;
    is_not_heard(&log, "was not enrolled").await;
}

/// Writes records of a session as somebody with the key of the host can.
async fn forge_session(log: &TestLog, actor: &Actor, event: Event, saw: Option<Saw>) {
    let (at, actor) = (log.clock.now(), actor.clone());
    let record = |seq| Record { seq, at, actor, epoch: 0, saw, event, decision: None };
    log.forge(StreamId::Session(session_id()), record).await.unwrap();
}

async fn opened(log: &TestLog) {
    let event = ProjectEvent::SessionOpened { session: session_id() };
    log.forge_project(event, None).await.unwrap();
    let opened = Event::Opened {
        session: session_id(),
        title: String::new(),
        images: Vec::new(),
        chat: false,
        agent: None,
        conversation: Conversation::Direct,
        starter: None,
    };
    let seq = log.runtime().catch_up().await.unwrap().seq;
    forge_session(log, &Actor::System, opened, saw(log, seq).await).await;
}

fn call(id: u64) -> Event {
    let (name, args) = ("pay".to_owned(), "{}".to_owned());
    let call = RawCall { id: CallId(id), name, args, alias: None };
    Event::CallReceived { call: call.into(), of: None }
}

#[tokio::test]
async fn a_session_does_not_see_less_of_the_project_later() {
    let log = with_bob().await;
    opened(&log).await;
    forge_session(&log, &Actor::System, call(1), saw(&log, 1).await).await;
    is_found(&log, "saw less of the project").await;
}

#[tokio::test]
async fn a_number_of_a_call_and_a_place_of_an_inbox_come_once() {
    let log = with_bob().await;
    opened(&log).await;
    for _ in 0..2 {
        forge_session(&log, &Actor::System, call(1), None).await;
    }
    is_found(&log, "the number of an earlier one").await;

    let log = with_bob().await;
    opened(&log).await;
    log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await.unwrap();
    let word = unheard(&log).await.unwrap().into_iter().next().unwrap().heard();
    forge_session(&log, &bob(), word.clone(), None).await;
    assert_eq!(problems(&log).await, Vec::<String>::new());
    forge_session(&log, &bob(), word, None).await;
    is_found(&log, "is not the next record of its inbox").await;
}

#[tokio::test]
async fn a_statement_that_stands_twice_in_an_inbox_is_found() {
    let log = with_bob().await;
    log.runtime().say(&session_id(), log.bob.author(&bob()), answer(None).unwrap()).await.unwrap();
    let word = unheard(&log).await.unwrap().into_iter().next().unwrap().record;
    log.forge(inbox(), |seq| Record { seq, ..word }).await.unwrap();
    is_found(&log, "used before").await;
}

/// A log in which the user of a client may answer for a minute.
async fn delegated() -> TestLog {
    let log = with_bob().await;
    let until = log.clock.now().plus_ms(60_000);
    let tools = vec![ToolPattern::parse("mcp:bank:*").unwrap()];
    let terms = Delegation { client: "editor".into(), tools, until, answers_max: 9 };
    let given = ProjectEvent::ClientDelegated(Box::new(terms));
    log.decide(Some(log.ada.as_ref()), given).await.unwrap();
    log
}

/// An answer of the user that somebody with the key of the host writes.
async fn forge_answer(log: &TestLog, said: Said) {
    let (at, event, actor) = (log.clock.now(), InboxEvent::Spoken { said }, user());
    let now = log.runtime().catch_up().await.unwrap().seq;
    let saw = saw(log, now).await;
    let record = |seq| Record { seq, at, actor, epoch: 0, saw, event, decision: None };
    log.forge(inbox(), record).await.unwrap();
}

#[tokio::test]
async fn an_answer_of_a_clients_user_carries_no_signature() {
    let log = delegated().await;
    log.runtime().say(&session_id(), &user(), answer(None).unwrap()).await.unwrap();
    assert_eq!(signer(&log).await, None);
    assert_eq!(problems(&log).await, Vec::<String>::new());
    let word = unheard(&log).await.unwrap().into_iter().next().unwrap().record;
    let InboxEvent::Spoken { said } = &word.event;
    let person = InboxEvent::Spoken { said: said.clone() };
    let what = person.decision(&inbox(), &bob()).unwrap();
    let decision = signed(&log.bob, log.statement(&log.bob, Role::Owner, what));
    let decision = Some(Box::new(decision));
    log.forge(inbox(), |seq| Record { seq, decision, ..word }).await.unwrap();
    is_not_heard(&log, "beside a record that needs none").await;
}

#[tokio::test]
async fn one_use_of_a_delegation_is_for_one_question() {
    let used = |log: &TestLog| {
        let said = answer(None).unwrap();
        let runtime = log.runtime();
        async move { runtime.say(&session_id(), &user(), said).await.unwrap() }
    };
    let tool = ToolName::parse("mcp:bank:close").unwrap();
    let other = Digest::of(b"other arguments");
    for row in 0..3 {
        let log = delegated().await;
        used(&log).await;
        let word = unheard(&log).await.unwrap().into_iter().next().unwrap().record;
        let InboxEvent::Spoken { said: Said::Answer(given) } = word.event else { panic!("said") };
        let forged = match row {
            0 => Decision { tool: tool.clone(), ..*given },
            1 => Decision { call: CallId(2), ..*given },
            _ => {
                let delegation = given.delegation;
                let given = Decision::new(given.call, given.tool, None, other, Answer::Approve);
                Decision { delegation, ..given }
            }
        };
        forge_answer(&log, Said::Answer(Box::new(forged))).await;
        is_not_heard(&log, "no delegation covers").await;
    }
}

#[tokio::test]
async fn a_delegation_does_not_last_longer_when_the_date_is_put_back() {
    let log = delegated().await;
    let began = log.clock.now();
    log.clock.pass_ms(120_000);
    log.decide(Some(log.ada.as_ref()), fact("facts:b").unwrap()).await.unwrap();
    let refused = log.runtime().say(&session_id(), &user(), answer(None).unwrap()).await;
    assert!(matches!(refused, Err(SayFault::NotDelegated(_))), "{refused:?}");
    let delegations = log.runtime().catch_up().await.unwrap().delegations.clone();
    let event = ProjectEvent::DelegationUsed {
        delegation: *delegations.keys().next().unwrap(),
        session: session_id(),
        call: CallId(1),
        tool: ToolName::parse("mcp:bank:pay").unwrap(),
        question: Digest::ZERO,
    };
    let (at, actor, decision) = (Timestamp(began.0 + 1), Actor::System, None);
    let record = |seq| Record { seq, at, actor, epoch: 0, saw: None, event, decision };
    log.forge(StreamId::Project, record).await.unwrap();
    is_found(&log, "no delegation covers").await;
    assert!(log.runtime().catch_up().await.is_err());
}

#[tokio::test]
async fn a_limit_to_some_tools_bounds_what_is_about_no_tool() {
    let log = TestLog::with_bob(Role::Owner, &["mcp:mail:*"]).await.unwrap();
    let (key, name) = (log.ada.key(), "ada".to_owned());
    let tools = Vec::new();
    for event in [
        fact("facts:b").unwrap(),
        ProjectEvent::FamiliesCleared { families: Vec::new(), reason: String::new() },
        ProjectEvent::ConfigTrusted { reach: Digest::ZERO, gate: Digest::ZERO, text: Digest::ZERO },
        ProjectEvent::PersonEnrolled { key, name, role: Role::Viewer, tools },
    ] {
        let refused = log.decide(Some(log.bob.as_ref()), event.clone()).await;
        assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{event:?}: {refused:?}");
    }
    let clear = Said::ClearTaint { reason: String::new(), seen: 1_000 };
    let refused = log.runtime().say(&session_id(), log.bob.author(&bob()), clear).await;
    assert!(matches!(refused, Err(SayFault::NotAllowed(..))), "{refused:?}");
}

#[tokio::test]
async fn the_role_of_a_key_changes_a_bounded_number_of_times() {
    let log = with_bob().await;
    for at in 0..ENROLMENTS_MAX {
        let role = if at % 2 == 0 { Role::Viewer } else { Role::Approver };
        becomes(&log, role).await.unwrap();
    }
    let refused = becomes(&log, Role::Viewer).await;
    assert!(matches!(refused, Err(SayFault::NotCounted(_))), "{refused:?}");
    assert_eq!(problems(&log).await, Vec::<String>::new());
}
