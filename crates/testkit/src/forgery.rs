//! Writes records as somebody with the host key could, and says which of them are believed. Used by
//! tests and to see that seeded bugs are caught.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::credential::{PersonKey, Signature};
use toolgate_kernel::decision::{
    AllowanceTerms, Decided, DecisionKind, DecisionRef, DecisionStatement, Role, SignedDecision,
};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Answer, Basis, Change, Decision, Event, ProjectEvent, Record, Said, Saw, StreamId, Written,
};
use toolgate_kernel::fold::{Allowance, Progress, Session, shown};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{CallId, PolicyName, SessionId, ToolName, ToolPattern};
use toolgate_kernel::pin::{Definition, Pinned, Ruling};
use toolgate_kernel::time::Timestamp;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::{Append, Batch, Checkpoint, Clock, Rows, Store, StreamHead};
use toolgate_runtime::verify::verify;
use toolgate_runtime::{Author, MemoryStore, Runtime, SayFault, Signer, checkpoint_body};

use crate::clock::FakeClock;
use crate::ledger::Ledger;
use crate::scenario::Scenario;
use crate::signer::TestSigner;
use crate::stage::Stage;

/// A log in memory with its people.
pub struct TestLog {
    /// The log.
    pub store: Arc<MemoryStore>,
    /// Its clock.
    pub clock: Arc<FakeClock>,
    /// The first person who decides something.
    pub ada: Arc<TestSigner>,
    /// Somebody else.
    pub bob: Arc<TestSigner>,
}

impl TestLog {
    /// An empty one.
    pub fn new() -> Result<Self> {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(FakeClock::default()));
        Ok(Self { store, clock, ada: TestSigner::new("ada")?, bob: TestSigner::new("bob")? })
    }

    /// One in which Ada has decided something, so that she is enrolled.
    pub async fn founded() -> Result<Self> {
        let log = Self::new()?;
        log.decide(Some(log.ada.as_ref()), fact("facts:a")?).await?;
        Ok(log)
    }

    /// The same, in which Bob is enrolled in a role too.
    pub async fn with_bob(role: Role, tools: &[&str]) -> Result<Self> {
        let log = Self::founded().await?;
        let tools = tools.iter().map(|name| ToolPattern::parse(name)).collect::<Result<_, _>>()?;
        let (key, name) = (log.bob.key(), "bob".to_owned());
        let enrolled = ProjectEvent::PersonEnrolled { key, name, role, tools };
        log.decide(Some(log.ada.as_ref()), enrolled).await?;
        Ok(log)
    }

    /// A process that works on the log.
    pub fn runtime(&self) -> Runtime {
        Runtime::new(self.store.clone(), self.clock.clone())
    }

    /// Somebody called Ada decides something, with or without a key.
    pub async fn decide(
        &self,
        signer: Option<&dyn Signer>,
        event: ProjectEvent,
    ) -> Result<(), SayFault> {
        let ada = Actor::Human("ada".into());
        let author = match signer {
            Some(signer) => Author::person(&ada, signer),
            None => (&ada).into(),
        };
        self.runtime().decide(author, |_| Ok::<_, SayFault>((vec![event.clone()], ()))).await
    }

    /// A statement as the person's process would make it.
    pub fn statement(&self, by: &TestSigner, role: Role, what: DecisionKind) -> DecisionStatement {
        let at = self.clock.now();
        DecisionStatement {
            log: self.store.log_id(),
            head: None,
            by: by.key(),
            role,
            at,
            expires: at.plus_ms(3_600_000),
            nonce: by.nonce(),
            shown: Digest::ZERO,
            what,
        }
    }

    /// Writes a record, whatever it says.
    pub async fn forge<E: Written>(
        &self,
        stream: StreamId,
        record: impl FnOnce(u64) -> Record<E>,
    ) -> Result<()> {
        let head = self.store.head(&stream).await?;
        let mut tip = head.map_or(Tip::START, |head| Tip { seq: head.seq, hash: head.link });
        let (after, mut rows) = (tip.seq, Rows::default());
        tip.add(&record(after + 1), &mut rows)?;
        let head = StreamHead { stream, seq: tip.seq, link: tip.hash };
        let batch = Batch { epoch: None, after, rows, head };
        Ok(self.store.append(Append { batches: vec![batch], blobs: Vec::new() }).await?)
    }

    /// Writes a record of the project in Ada's name.
    pub async fn forge_project(
        &self,
        event: ProjectEvent,
        decision: Option<SignedDecision>,
    ) -> Result<()> {
        let (at, actor) = (self.clock.now(), Actor::Human("ada".into()));
        let decision = decision.map(Box::new);
        let record = |seq| Record { seq, at, actor, epoch: 0, saw: None, event, decision };
        self.forge(StreamId::Project, record).await
    }

    /// What the reader of the project says, and what `verify` finds.
    pub async fn found(&self) -> Result<(Option<String>, Vec<String>)> {
        let read = self.runtime().catch_up().await.err().map(|fault| fault.to_string());
        let report = verify(self.store.as_ref()).await?;
        Ok((read, report.problems.iter().map(|problem| problem.what.to_string()).collect()))
    }
}

/// A change of the facts by hand.
pub fn fact(name: &str) -> Result<ProjectEvent> {
    Ok(ProjectEvent::ProjectChanged {
        changes: vec![Change::Put { key: Key::parse(name)?, value: 1.into(), v: 1 }],
        session: None,
        call: None,
        reason: "by hand".into(),
    })
}

/// What has to be signed for an event of the project.
pub fn kind_of(event: &ProjectEvent) -> Result<DecisionKind> {
    let kind = event.decision(&StreamId::Project, &Actor::Human("ada".into()));
    kind.context("nothing has to be signed for it")
}

/// A statement with a signature that fits.
pub fn signed(by: &TestSigner, statement: DecisionStatement) -> SignedDecision {
    let signature = by.sign(&statement.signed_bytes());
    SignedDecision { statement, signature }
}

/// What was decided about a definition of a server's tool.
pub fn pinned(tool: &str, about: &str, ruling: Ruling) -> Result<Pinned> {
    let definition = Definition {
        title: None,
        about: about.to_owned(),
        input: json!({"type": "object"}),
        output: None,
        annotations: serde_json::Value::Null,
    };
    Ok(Pinned { tool: ToolName::parse(tool)?, ruling, definition, why: vec![] })
}

/// A yes to a call of `mcp:bank:pay`.
pub fn answer(delegation: Option<u64>) -> Result<Said> {
    let (tool, args_hash) = (ToolName::parse("mcp:bank:pay")?, Digest::of_json(&json!({})));
    let decision = Decision::new(CallId(1), tool, None, args_hash, Answer::Approve);
    Ok(Said::Answer(Box::new(Decision { delegation, ..decision })))
}

/// Every forgery that is believed; none should be.
pub async fn believed_forgeries() -> Result<Vec<&'static str>> {
    let mut believed = Vec::new();
    // A signature that is not one of the statement.
    let log = TestLog::founded().await?;
    let statement = log.statement(&log.ada, Role::Owner, kind_of(&fact("facts:b")?)?);
    let decision = SignedDecision { statement, signature: Signature([7; 64]) };
    log.forge_project(fact("facts:b")?, Some(decision)).await?;
    believed.extend(log.found().await?.0.is_none().then_some("a signature that does not fit"));
    // A key that was revoked.
    let log = TestLog::with_bob(Role::Approver, &[]).await?;
    let revoked = ProjectEvent::PersonRevoked { key: log.bob.key(), reason: String::new() };
    log.decide(Some(log.ada.as_ref()), revoked).await?;
    let statement = log.statement(&log.bob, Role::Approver, kind_of(&fact("facts:b")?)?);
    log.forge_project(fact("facts:b")?, Some(signed(&log.bob, statement))).await?;
    believed.extend(log.found().await?.0.is_none().then_some("a key that was revoked"));
    // The user of a client, without a delegation.
    let log = TestLog::founded().await?;
    let (session, user) = (SessionId::parse("s1")?, Actor::ClientUser("editor".into()));
    let said = log.runtime().say(&session, &user, answer(None)?).await;
    believed.extend(said.is_ok().then_some("an answer of a client's user without a delegation"));
    // A definition that is said to be the first one.
    let log = TestLog::founded().await?;
    for about in ["good", "evil"] {
        let pinned = pinned("mcp:a:b", about, Ruling::FirstSeen)?;
        log.forge_project(ProjectEvent::ToolPinned(Box::new(pinned)), None).await?;
    }
    let project = log.runtime().catch_up().await?;
    let pin = project.pins.get(&ToolName::parse("mcp:a:b")?);
    let live = pin.and_then(|pin| pin.live.as_ref()).map(|live| live.about.as_str());
    believed.extend((live != Some("good")).then_some("a second first definition"));
    believed.extend(forged_admission(Forged::Approval)?);
    believed.extend(forged_admission(Forged::OtherRule)?);
    believed.extend(forged_checkpoint().await?);
    believed.extend(forgetful_checkpoint().await?);
    believed.extend(other_project().await?);
    Ok(believed)
}

/// What a forged admission rests on.
#[derive(Clone, Copy)]
enum Forged {
    /// An answer that is not there.
    Approval,
    /// An allowance that was given for another rule of the same name.
    OtherRule,
}

/// Whether a record that says that a call was approved is taken at its word.
fn forged_admission(forged: Forged) -> Result<Option<&'static str>> {
    let mut session = Session::new(SessionId::parse("forged")?);
    let frame = Digest::of(b"the rule that asked");
    let other = Digest::of(b"another rule");
    let args_hash = Digest::of_json(&json!({}));
    let call = |id: &str| json!({"kind": "call_received", "call": {"id": id, "name": "pay", "args": "{}"}});
    let mut events = vec![("client:test", call("c1"))];
    let (basis, seq) = match forged {
        Forged::Approval => ("answer", 1),
        Forged::OtherRule => {
            let asked = json!({"kind": "call_asked", "call": "c1", "tool": "pay", "frame": frame,
                "args_hash": args_hash, "policy": "careful", "reason": ""});
            let said = json!({"what": "answer", "call": "c1", "tool": "pay", "answer": "approve",
                "shown": shown(Some(frame), args_hash), "args_hash": args_hash, "allow": {"until": 1_000, "uses_max": 9}});
            let heard = json!({"kind": "heard", "inbox": 1, "hash": Digest::ZERO, "said": said,
                "signer": {"key": PersonKey([7; 32]), "role": "owner"}});
            events.extend([("system", asked), ("human:ada", heard), ("client:test", call("c2"))]);
            ("allowance", 1)
        }
    };
    let number = if matches!(forged, Forged::Approval) { 1 } else { 2 };
    let id = CallId(number).to_string();
    let decision = json!({"stream": "inbox/forged", "seq": seq, "hash": Digest::ZERO});
    events.push((
        "system",
        json!({"kind": "call_admitted", "call": id, "tool": "pay", "version": "0".repeat(16),
            "effect": "external", "args_hash": args_hash, "basis": {basis: decision}, "frame": other}),
    ));
    for (seq, (actor, event)) in events.into_iter().enumerate() {
        let record = json!({"seq": seq + 1, "at": 0, "actor": actor, "epoch": 1, "event": event});
        session.apply(&Record::<Event>::decode(record.to_string().as_bytes())?);
    }
    let open = session.open.get(&CallId(number)).context("the call is open")?;
    let Progress::Admitted(admitted) = &open.progress else { return Ok(None) };
    Ok((admitted.basis != Basis::Rules).then_some(match forged {
        Forged::Approval => "a forged admission",
        Forged::OtherRule => "an allowance for another rule of the same name",
    }))
}

/// A stage on which nothing was done yet.
fn empty_stage(store: &Arc<MemoryStore>, folder: &Path) -> Result<Stage> {
    let scenario: Scenario = serde_saphyr::from_str("about: forged records\n")?;
    let stage = Stage::new(scenario, store.clone(), folder, Ledger::default())?;
    stage.map_err(|refused| anyhow::anyhow!("{}", refused.0))
}

/// How the project that a session saw was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeenProject {
    /// It had another record in that place.
    Other,
    /// It had more records than there are.
    Longer,
    /// The session says that it saw less than before, so that keys revoked since count again.
    Shorter,
}

/// A session that says it saw another project than the one that is there, and what becomes of it: what
/// opening it says, and what `verify` finds.
pub async fn session_of_another_project(
    seen: SeenProject,
) -> Result<(Option<String>, Vec<String>)> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(MemoryStore::new());
    let stage = empty_stage(&store, folder.path())?;
    drop(stage.open_session().await?);
    let stream = stage.stream();
    // A record that a session may have seen, and one before it.
    let marked = ProjectEvent::FamiliesMarked {
        families: Vec::new(),
        session: SessionId::parse("s1")?,
        call: CallId(1),
    };
    let runtime = Runtime::new(store.clone(), Arc::new(FakeClock::default()));
    let decide = |_: &_| Ok::<_, SayFault>((vec![marked.clone()], ()));
    runtime.decide(&Actor::System, decide).await?;
    let project = store.head(&StreamId::Project).await?.context("the project is there")?;
    let mut last = None;
    let end = read_from::<Event>(store.as_ref(), &stream, Tip::START, |record, _| {
        last = Some(record);
    });
    let mut tip = end.await?;
    let record = last.context("the session has records")?;
    let first = store.read(&StreamId::Project, 1, 1).await?;
    let first = first.first().context("the project has a record")?.hash;
    let newest = Saw { seq: project.seq, hash: project.link };
    let saws = match seen {
        SeenProject::Other => vec![Saw { hash: Digest::of(b"another"), ..newest }],
        SeenProject::Longer => vec![Saw { seq: project.seq + 5, hash: Digest::of(b"another") }],
        SeenProject::Shorter => vec![newest, Saw { seq: 1, hash: first }],
    };
    let (after, mut rows) = (tip.seq, Rows::default());
    for saw in saws {
        tip.add(&Record { seq: tip.seq + 1, saw: Some(saw), ..record.clone() }, &mut rows)?;
    }
    let head = StreamHead { stream: stream.clone(), seq: tip.seq, link: tip.hash };
    let batch = Batch { epoch: None, after, rows, head };
    store.append(Append { batches: vec![batch], blobs: Vec::new() }).await?;
    let opened = stage.open_session().await.err().map(|error| format!("{error:#}"));
    let report = verify(store.as_ref()).await?;
    let found = report.problems.iter().map(|problem| problem.what.to_string()).collect();
    Ok((opened, found))
}

/// Whether a session goes on though the project is not the one that it saw.
async fn other_project() -> Result<Option<&'static str>> {
    for seen in [SeenProject::Other, SeenProject::Longer, SeenProject::Shorter] {
        if session_of_another_project(seen).await?.0.is_none() {
            return Ok(Some("another project than the one that was seen"));
        }
    }
    Ok(None)
}

/// Whether a kept fold lets calls run because it says that a person allowed them.
async fn forged_checkpoint() -> Result<Option<&'static str>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(MemoryStore::new());
    let stage = empty_stage(&store, folder.path())?;
    let driver = stage.open_session().await?;
    let mut session = driver.session().as_ref().clone();
    drop(driver);
    let stream = stage.stream();
    let decision = DecisionRef { stream: stream.clone(), seq: 1, hash: Digest::ZERO };
    session.allowances.push_back(Arc::new(Allowance {
        tool: ToolName::parse("pay")?,
        policy: PolicyName::parse("careful")?,
        frame: Some(Digest::ZERO),
        terms: AllowanceTerms { until: Timestamp(i64::MAX), uses_max: 9 },
        uses: 0,
        decision,
        who: Actor::Human("ada".into()),
        since: Timestamp(0),
    }));
    let head = store.head(&stream).await?.context("the session is there")?;
    let body = checkpoint_body(&session).context("a fold can be kept")?;
    store.save_checkpoint(Checkpoint { stream, seq: head.seq, hash: head.link, body }).await?;
    let driver = stage.open_session().await?;
    let believed = !driver.session().allowances.is_empty();
    Ok(believed.then_some("an allowance of a kept fold"))
}

/// Whether a kept fold that forgets what was read and answered is used where people decide.
async fn forgetful_checkpoint() -> Result<Option<&'static str>> {
    let (folder, log) = (tempfile::tempdir()?, TestLog::founded().await?);
    let scenario: Scenario = serde_saphyr::from_str("about: a forgetful checkpoint\n")?;
    let stage = Stage::new(scenario, log.store.clone(), folder.path(), Ledger::default())?;
    let stage = stage.map_err(|refused| anyhow::anyhow!("{}", refused.0))?;
    let driver = stage.open_session().await?;
    let mut session = driver.session().as_ref().clone();
    drop(driver);
    session.title = "what the log does not say".into();
    let stream = stage.stream();
    let head = log.store.head(&stream).await?.context("the session is there")?;
    let body = checkpoint_body(&session).context("a fold can be kept")?;
    log.store.save_checkpoint(Checkpoint { stream, seq: head.seq, hash: head.link, body }).await?;
    let driver = stage.open_session().await?;
    let believed = driver.session().title == session.title;
    Ok(believed.then_some("a kept fold in a project where people decide"))
}
