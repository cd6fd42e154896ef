//! Decides what becomes of the calls that are open when a session goes on.

use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::Answer;
use toolgate_kernel::fold::{Counted, OpenCall, Progress, World};
use toolgate_kernel::gate::{Refusal, readmit};
use toolgate_kernel::names::CallId;
use toolgate_kernel::next::is_lifted;
use toolgate_kernel::tool::Effect;

use super::supply::SupplyOutcome;
use super::{Answered, DriveFault, Driver};
use crate::execute::Cancel;

/// Milliseconds for which the server of a call that has to be sent again is tried: one that went down
/// with us is often just starting.
const RESEND_MS_MAX: u64 = 15_000;

/// Between two looks whether it is there. Each may start a program.
const RESEND_LOOK: Duration = Duration::from_secs(1);

/// A look whether the server of a call that has to be sent again is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It takes as long as for any other call: a program may be slow to start.
    First,
    /// It is made after a while, and ends with the time for which the server is tried.
    Next,
}

/// What came of a look.
pub(super) enum Found {
    Told(SupplyOutcome),
    /// Nothing in the time for which the server is tried.
    Late,
    /// Everybody is cut off.
    CutOff,
}

/// Looks whether a server is there.
pub(super) async fn look_for(
    supplied: BoxFuture<'static, SupplyOutcome>,
    look: Look,
    until: Instant,
    cancel: &Cancel,
) -> Found {
    let looking = async {
        if look == Look::First {
            return Found::Told(supplied.await);
        }
        tokio::time::sleep(RESEND_LOOK).await;
        tokio::time::timeout_at(until, supplied).await.map_or(Found::Late, Found::Told)
    };
    tokio::select! {
        biased;
        found = looking => found,
        () = cancel.cancelled() => Found::CutOff,
    }
}

impl Driver {
    /// Brings every open call to its end: after a resume, those a crash interrupted. The tools from
    /// outside that they may need are there first, because a call of one may have to be sent again.
    pub async fn settle_open(&mut self) -> Result<(), DriveFault> {
        self.enter()?;
        self.tick();
        self.resupply_open(&[]).await?;
        self.settle_received().await
    }

    /// The same where callers without a model loop made calls and left: what was not begun is not
    /// begun now (ADR 0027). Tells what came of the calls that were open.
    pub async fn settle_forsaken(&mut self) -> Result<Vec<(CallId, Answered)>, DriveFault> {
        let session = self.session();
        self.refuse_forsaken().await?;
        self.settle_open().await?;
        let results = take(&mut self.results).into_iter();
        Ok(results.filter(|(call, _)| session.open.get(call).is_some()).collect())
    }

    /// The same without those that have to be sent again, which may take a while: they are sent
    /// beside the next calls.
    pub async fn settle_forsaken_but_unsent(&mut self) -> Result<(), DriveFault> {
        self.refuse_forsaken().await?;
        let unsent = self.unsent();
        self.resupply_open(&unsent).await?;
        self.settle_all_but(&unsent).await?;
        self.results.clear();
        Ok(())
    }

    /// Asks for the tools from outside that open calls may need, all but some.
    async fn resupply_open(&mut self, kept: &[CallId]) -> Result<(), DriveFault> {
        let needs = |open: &&Arc<OpenCall>| may_run(open) && !kept.contains(&open.raw.id);
        let open = self.session.open.iter().filter(needs);
        let (calls, names): (Vec<CallId>, Vec<String>) =
            open.map(|open| (open.raw.id, open.raw.name.clone())).unzip();
        if names.is_empty() {
            return Ok(());
        }
        let (until, cancel) = (self.resend_until(), self.cancel.clone());
        let mut look = Look::First;
        while let Some((phase, supplied)) = self.supplied_again(names.clone()) {
            let Found::Told(told) = look_for(supplied, look, until, &cancel).await else { break };
            self.tick();
            let supplied = self.take_supplied(phase, told);
            let mut begun = calls.iter().filter(|call| self.is_begun(**call));
            let waits = match &supplied {
                Ok(()) => begun.any(|call| self.is_down(*call)),
                // The phase requires a server that is down.
                Err(DriveFault::Supply(_)) => begun.next().is_some(),
                Err(_) => false,
            };
            if !waits || tokio::time::Instant::now() >= until {
                return supplied;
            }
            look = Look::Next;
        }
        Ok(())
    }

    /// Until when the server of a call that has to be sent again is tried.
    pub(super) fn resend_until(&self) -> Instant {
        let ms = RESEND_MS_MAX.min(self.crew.agent.limits.call_ms_max);
        let now = tokio::time::Instant::now();
        now.checked_add(Duration::from_millis(ms)).unwrap_or(now)
    }

    fn is_begun(&self, call: CallId) -> bool {
        let open = self.session.open.get(&call);
        open.is_some_and(|open| matches!(open.progress, Progress::Started(_)))
    }

    /// Whether an admitted call cannot be made only because its server is down.
    pub(super) fn is_down(&self, call: CallId) -> bool {
        let (project, _) = self.runtime.project();
        let world = World { counted: Counted::Already, ..self.world(&project) };
        let refused = readmit(&self.crew.agent, &world, call).err();
        refused.is_some_and(|it| it.errors.iter().any(|it| it.code == Code::TOOL_UNAVAILABLE))
    }

    /// Calls of callers without a model loop that were begun and have to be sent again.
    pub fn unsent(&self) -> Vec<CallId> {
        let is_unsent = |open: &&Arc<OpenCall>| {
            let begun = matches!(open.progress, Progress::Started(_));
            begun && open.turn.is_none() && open.of.is_none() && may_run(open)
        };
        self.session.open.iter().filter(is_unsent).map(|open| open.raw.id).collect()
    }

    /// Refuses what callers without a model loop did not see begun. What they had to wait for a
    /// person's yes to waits on, and none of it needs the tools themselves.
    async fn refuse_forsaken(&mut self) -> Result<(), DriveFault> {
        self.enter()?;
        self.tick();
        let session = self.session();
        for open in session.open.iter().filter(|open| open.turn.is_none()) {
            // A model's call that waited, made anew after a person's yes: the model is told of it.
            if open.of.is_some() {
                continue;
            }
            match &open.progress {
                Progress::Answered(said) if said.answer == Answer::Deny => {
                    self.refuse(&open.raw, &Refusal::by_person(&said.note))?;
                }
                Progress::Asked(question) if !is_lifted(&session, &open.progress) => {
                    self.put_aside(open, &question.reason)?;
                }
                Progress::Received | Progress::Answered(_) | Progress::Asked(_) => {
                    self.refuse(&open.raw, &Refusal::forsaken())?;
                }
                Progress::Admitted(_) => {
                    self.settle_failed(open.raw.id, vec![Refusal::interrupted()])?;
                }
                // It may have reached the world.
                Progress::Started(_) => {}
            }
        }
        self.flush().await
    }
}

/// Whether something of an open call may still run: what may have reached the world and does not
/// know our key is not sent again.
fn may_run(open: &OpenCall) -> bool {
    let started = matches!(open.progress, Progress::Started(_));
    !started || open.progress.admitted().is_none_or(|it| it.effect != Effect::External)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use ring::signature::{Ed25519KeyPair, KeyPair};
    use serde_json::json;
    use toolgate_kernel::actor::Actor;
    use toolgate_kernel::agent::Agent;
    use toolgate_kernel::config::AgentText;
    use toolgate_kernel::credential::{PersonKey, Signature};
    use toolgate_kernel::decision::Nonce;
    use toolgate_kernel::digest::Digest;
    use toolgate_kernel::event::{Decision, Event, Said};
    use toolgate_kernel::names::{PhaseName, SectionName, SessionId, ToolName};
    use toolgate_kernel::section::Section;
    use toolgate_kernel::time::Timestamp;
    use toolgate_kernel::tool::SpecDraft;

    use super::*;
    use crate::memory::MemoryStore;
    use crate::port::{Clock, Output, Supplier, Supply, SupplyFault, Wanted};
    use crate::{Author, Crew, Nothing, Pack, Runtime, Signer, Toolbox, Transaction, tool};

    struct Noon;

    impl Clock for Noon {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
    }

    /// Servers that never say what they have.
    struct Never;

    impl Supplier for Never {
        fn supply<'a>(
            &'a self,
            _agent: &'a Agent,
            _phase: &'a PhaseName,
            _wanted: Wanted<'a>,
        ) -> BoxFuture<'a, Result<Option<Supply>, SupplyFault>> {
            Box::pin(std::future::pending())
        }
    }

    /// A required server that is there at the third look.
    struct Third(AtomicUsize);

    impl Supplier for Third {
        fn supply<'a>(
            &'a self,
            _agent: &'a Agent,
            phase: &'a PhaseName,
            _wanted: Wanted<'a>,
        ) -> BoxFuture<'a, Result<Option<Supply>, SupplyFault>> {
            let there = self.0.fetch_add(1, Ordering::SeqCst) >= 2;
            let lacks = || Err(SupplyFault::new(phase, "its server is down".to_owned()));
            Box::pin(std::future::ready(if there { Ok(None) } else { lacks() }))
        }
    }

    /// How far a call came before it was left.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Left {
        Received,
        Admitted,
        Started,
        Asked,
        SaidYes,
        SaidNo,
        MadeAfterAYes,
        OfAModel,
    }

    /// A person with a key.
    struct Ada;

    impl Ada {
        fn pair() -> Ed25519KeyPair {
            Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap()
        }
    }

    impl Signer for Ada {
        fn key(&self) -> PersonKey {
            PersonKey(Self::pair().public_key().as_ref().try_into().unwrap())
        }

        fn sign(&self, bytes: &[u8]) -> Signature {
            Signature(Self::pair().sign(bytes).as_ref().try_into().unwrap())
        }

        fn nonce(&self) -> Nonce {
            Nonce([0; 16])
        }
    }

    fn decision(call: CallId, frame: Option<Digest>, args_hash: Digest, answer: Answer) -> Said {
        let tool = ToolName::parse("act").unwrap();
        Said::Answer(Box::new(Decision::new(call, tool, frame, args_hash, answer)))
    }

    /// What comes of a call that was left so far, and how often it ran then.
    async fn settled(left: Left, effect: Effect) -> (Option<Code>, usize) {
        let ran = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ran);
        let run = move |_: &mut Transaction, _: Nothing| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Output::message("Done."))
        };
        let tool = tool(SpecDraft::new("act", "Acts.").effect(effect), run).unwrap();
        let pack = Pack::new(Section::new(SectionName::parse("tools").unwrap()), vec![tool]);
        let asks = matches!(left, Left::Asked | Left::SaidYes | Left::SaidNo | Left::MadeAfterAYes);
        let policies = match asks {
            true => json!([{ "rule": { "tools": ["act"], "ask": "true", "message": "Look." } }]),
            false => json!([]),
        };
        let text: AgentText = serde_json::from_value(json!({ "policies": policies })).unwrap();
        let agent = Arc::new(text.build(vec![pack.section.clone()]).unwrap());
        let crew = Crew::new(agent, Toolbox::of(&[pack]));
        let runtime = Arc::new(Runtime::new(Arc::new(MemoryStore::new()), Arc::new(Noon)));
        let (id, client) = (SessionId::parse("left").unwrap(), Actor::Client("a".into()));
        let opened = Driver::open(Arc::clone(&runtime), crew.clone(), id.clone(), &client, "");
        let mut driver = opened.await.unwrap();
        if left == Left::MadeAfterAYes {
            driver.call(&client, "act", "{}", None).await.unwrap();
            let (of, waiting) = driver.session.waiting.iter().next().unwrap();
            let yes = decision(*of, waiting.frame, waiting.args_hash, Answer::Approve);
            let ada = Actor::Human("ada".into());
            runtime.say(&id, Author::person(&ada, &Ada), yes).await.unwrap();
            driver.hear().await.unwrap();
        }
        let (name, args) = ("act".to_owned(), "{}".to_owned());
        let raw = driver.receive(&client, name, args, None).unwrap();
        let call = raw.id;
        if !matches!(left, Left::Received | Left::MadeAfterAYes | Left::OfAModel) {
            driver.judge(&[Arc::clone(&raw)]).await.unwrap();
        }
        if left == Left::Started {
            driver.note(&Actor::System, Event::CallStarted { call, key: "k".into() }).unwrap();
        }
        if let Left::SaidYes | Left::SaidNo = left {
            let answer = if left == Left::SaidYes { Answer::Approve } else { Answer::Deny };
            let open = driver.session.open.get(&call).cloned().unwrap();
            let Progress::Asked(question) = &open.progress else { panic!("{open:?}") };
            let said = decision(call, question.frame, question.args_hash, answer);
            driver.flush().await.unwrap();
            let ada = Actor::Human("ada".into());
            runtime.say(&id, Author::person(&ada, &Ada), said).await.unwrap();
            driver.hear().await.unwrap();
        }
        driver.flush().await.unwrap();
        if left == Left::OfAModel {
            let mut session = serde_json::to_value(&*driver.session).unwrap();
            session["open"][call.to_string()]["of"] = json!("c0");
            driver.session = Arc::new(serde_json::from_value(session).unwrap());
        } else {
            driver = Driver::resume(runtime, crew, id).await.unwrap();
        }
        // What is not run needs no server.
        let runs =
            left == Left::OfAModel || (left == Left::Started && effect == Effect::Idempotent);
        driver.crew.supplier = match (runs, left == Left::Started) {
            (false, _) => Some(Arc::new(Never) as Arc<dyn Supplier>),
            (true, true) => Some(Arc::new(Third(AtomicUsize::new(0)))),
            (true, false) => None,
        };
        let settling = tokio::time::timeout(Duration::from_secs(20), driver.settle_forsaken());
        let told = settling.await.expect("nobody is waited for").unwrap();
        assert!(driver.session().open.iter().next().is_none(), "{left:?}");
        let [(known, answered)] = told.as_slice() else { panic!("{left:?}") };
        assert_eq!(*known, call);
        (answered.envelope.code().cloned(), ran.load(Ordering::SeqCst))
    }

    #[test]
    fn what_a_client_did_not_see_begun_is_not_begun_later() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cancelled = || Some(Code::CALL_CANCELLED);
        for effect in [Effect::Read, Effect::Staged, Effect::Idempotent, Effect::External] {
            for (left, code, ran) in [
                (Left::Received, cancelled(), 0),
                (Left::Admitted, cancelled(), 0),
                (Left::Asked, Some(Code::APPROVAL_PENDING), 0),
                (Left::SaidYes, cancelled(), 0),
                (Left::SaidNo, Some(Code::APPROVAL_DENIED), 0),
                (Left::MadeAfterAYes, cancelled(), 0),
                (Left::OfAModel, None, 1),
            ] {
                assert_eq!(runtime.block_on(settled(left, effect)), (code, ran), "{left:?}");
            }
        }
        let unknown = runtime.block_on(settled(Left::Started, Effect::External));
        assert_eq!(unknown, (Some(Code::OUTCOME_UNKNOWN), 0));
        let again = runtime.block_on(settled(Left::Started, Effect::Idempotent));
        assert_eq!(again, (None, 1));
    }
}
