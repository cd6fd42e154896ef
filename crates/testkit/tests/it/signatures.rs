//! What only a person may say counts when it is signed with a key that the project knows.

use std::sync::Arc;

use ring::signature::{Ed25519KeyPair, KeyPair};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Change, Decision, ProjectEvent, Said};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, SessionId};
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Author, MemoryStore, Runtime, SayFault, Signer};
use toolgate_testkit::clock::FakeClock;

struct Hand(Ed25519KeyPair);

impl Hand {
    fn of(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }
}

impl Signer for Hand {
    fn key(&self) -> PersonKey {
        PersonKey(self.0.public_key().as_ref().try_into().unwrap())
    }

    fn sign(&self, words: &[u8]) -> Signature {
        Signature(self.0.sign(words).as_ref().try_into().unwrap())
    }
}

/// A hand that signs something else than it is given.
struct Scribbler(Hand);

impl Signer for Scribbler {
    fn key(&self) -> PersonKey {
        self.0.key()
    }

    fn sign(&self, _: &[u8]) -> Signature {
        self.0.sign(b"anything")
    }
}

struct Desk {
    store: Arc<MemoryStore>,
}

impl Desk {
    fn runtime(&self) -> Runtime {
        let clock = Arc::new(FakeClock::default());
        Runtime::new(self.store.clone(), clock)
    }

    async fn fact(&self, signer: Option<&dyn Signer>, name: &str) -> Result<(), SayFault> {
        let ada = Actor::Human("ada".into());
        let author = Author { actor: &ada, signer };
        let changed = ProjectEvent::ProjectChanged {
            changes: vec![Change::Put { key: Key::parse(name).unwrap(), value: 1.into(), v: 1 }],
            session: None,
            call: None,
            reason: "by hand".into(),
        };
        self.runtime().decide(author, |_| Ok::<_, SayFault>((vec![changed.clone()], ()))).await
    }

    async fn problems(&self) -> Vec<String> {
        let report = verify(self.store.as_ref()).await.unwrap();
        report.problems.iter().map(|problem| problem.what.to_string()).collect()
    }
}

fn desk() -> Desk {
    Desk { store: Arc::new(MemoryStore::new()) }
}

#[tokio::test]
async fn the_first_key_makes_itself_known_and_no_other_is_believed_then() {
    let desk = desk();
    let (ada, mallory) = (Hand::of(1), Hand::of(2));
    desk.fact(Some(&ada), "facts:a").await.unwrap();
    assert_eq!(desk.runtime().catch_up().await.unwrap().people.len(), 1);
    desk.fact(Some(&ada), "facts:b").await.unwrap();
    assert!(matches!(desk.fact(Some(&mallory), "facts:c").await, Err(SayFault::Stranger)));
    assert!(matches!(desk.fact(None, "facts:c").await, Err(SayFault::Unsigned)));
    let project = desk.runtime().catch_up().await.unwrap();
    assert!(project.state.get(&Key::parse("facts:b").unwrap()).is_some());
    assert!(project.state.get(&Key::parse("facts:c").unwrap()).is_none());
    assert!(desk.problems().await.is_empty());
}

#[tokio::test]
async fn a_bad_signature_stops_whoever_reads_it_and_verify_finds_it() {
    let desk = desk();
    desk.fact(Some(&Hand::of(1)), "facts:a").await.unwrap();
    desk.fact(Some(&Scribbler(Hand::of(1))), "facts:b").await.unwrap();
    let read = desk.runtime().catch_up().await;
    let fault = read.unwrap_err().to_string();
    assert!(fault.contains("a person's word without their signature"), "{fault}");
    assert_eq!(desk.problems().await, ["a person's word without their signature"]);
}

#[tokio::test]
async fn an_answer_from_elsewhere_must_be_signed_once_a_key_is_known() {
    let desk = desk();
    let (session, ada) = (SessionId::parse("s1").unwrap(), Actor::Human("ada".into()));
    let said = || {
        Said::Answer(Box::new(Decision {
            call: CallId(1),
            shown: Digest::ZERO,
            answer: Answer::Approve,
            note: String::new(),
            args: None,
            always: false,
        }))
    };
    desk.fact(Some(&Hand::of(1)), "facts:a").await.unwrap();
    let runtime = desk.runtime();
    let unsigned = runtime.say(&session, &ada, said()).await;
    assert!(matches!(unsigned, Err(SayFault::Unsigned)), "{unsigned:?}");
    let model = Actor::Model("m".into());
    assert!(runtime.say(&session, &model, said()).await.is_err(), "a model is no person");
    let hand = Hand::of(1);
    let author = Author { actor: &ada, signer: Some(&hand) };
    runtime.say(&session, author, said()).await.unwrap();
    assert!(desk.problems().await.is_empty());
}
