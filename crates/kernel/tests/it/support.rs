//! What the tables share: short ways to write names, tools and sections, and a desk to judge at.

use std::sync::Arc;

use proptest::prelude::ProptestConfig;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::approval::DecisionSigner;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::Role;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Conversation, Decision, Event, RawCall, Record, Said};
use toolgate_kernel::fold::{Counted, Project, Session, World};
use toolgate_kernel::gate::{Call, Judgement, Refusal, admit, prepare};
use toolgate_kernel::key::{Key, Touched};
use toolgate_kernel::names::{
    CallId, Family, GroupName, PhaseName, PolicyName, SectionName, SessionId, ToolName,
};
use toolgate_kernel::section::Section;
use toolgate_kernel::time::Timestamp;
use toolgate_kernel::tool::{SpecDraft, ToolSpec};

/// Properties write no files: a failure is told in full and becomes a row of a table.
/// `PROPTEST_CASES` asks for more of them.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    let cases = asked.unwrap_or(count);
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

pub(crate) fn tool(name: &str) -> ToolName {
    ToolName::parse(name).unwrap()
}

pub(crate) fn group(name: &str) -> GroupName {
    GroupName::parse(name).unwrap()
}

pub(crate) fn phase(name: &str) -> PhaseName {
    PhaseName::parse(name).unwrap()
}

pub(crate) fn policy(name: &str) -> PolicyName {
    PolicyName::parse(name).unwrap()
}

pub(crate) fn family(name: &str) -> Family {
    Family::parse(name).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

pub(crate) fn session_id() -> SessionId {
    SessionId::parse("s1").unwrap()
}

pub(crate) fn human() -> Actor {
    Actor::Human("ada".into())
}

/// A tool without arguments.
pub(crate) fn plain(name: &str) -> Arc<ToolSpec> {
    built(SpecDraft::new(name, "A tool."))
}

pub(crate) fn built(draft: SpecDraft) -> Arc<ToolSpec> {
    Arc::new(draft.build().unwrap())
}

pub(crate) fn section(name: &str, tools: Vec<Arc<ToolSpec>>) -> Section {
    Section { tools, ..Section::new(SectionName::parse(name).unwrap()) }
}

/// A session that is open under an agent, where calls can be received and judged.
pub(crate) struct Desk {
    pub(crate) agent: Agent,
    pub(crate) session: Session,
    pub(crate) project: Project,
}

impl Desk {
    pub(crate) fn new(draft: AgentDraft) -> Self {
        let agent = Agent::build(draft).unwrap();
        let mut desk =
            Self { agent, session: Session::new(session_id()), project: Project::default() };
        let phase = desk.agent.first_phase().unwrap().name.clone();
        desk.note(
            &human(),
            Event::Opened {
                session: session_id(),
                title: String::new(),
                images: Vec::new(),
                chat: false,
                agent: None,
                conversation: Conversation::Direct,
                starter: None,
            },
        );
        let config = desk.agent.fingerprint;
        desk.note(
            &Actor::System,
            Event::ConfigBound { config, program: "1".into(), phase, file: None },
        );
        desk
    }

    /// Takes in one more event, as a driver would.
    pub(crate) fn note(&mut self, actor: &Actor, event: Event) {
        self.note_at(Timestamp(1_000), actor, event);
    }

    /// The same at a moment.
    pub(crate) fn note_at(&mut self, at: Timestamp, actor: &Actor, event: Event) {
        let (seq, epoch) = (self.session.seq + 1, 1);
        let record =
            Record { seq, at, actor: actor.clone(), epoch, saw: None, event, decision: None };
        let bytes = record.encode().unwrap();
        self.session.apply(&Record::decode(&bytes).unwrap());
    }

    /// Takes in what somebody said, as the next record of the inbox.
    pub(crate) fn hear(&mut self, actor: &Actor, said: Said) {
        self.hear_at(Timestamp(1_000), actor, said);
    }

    /// The same at a moment.
    pub(crate) fn hear_at(&mut self, at: Timestamp, actor: &Actor, said: Said) {
        let signer = DecisionSigner { key: PersonKey([7; 32]), role: Role::Approver };
        let signer = Some(signer).filter(|_| actor.is_human());
        self.hear_at_from(at, actor, said, signer);
    }

    /// Takes in what somebody said, with a signer that the record names.
    pub(crate) fn hear_signed(
        &mut self,
        actor: &Actor,
        said: Said,
        signer: Option<DecisionSigner>,
    ) {
        self.hear_at_from(Timestamp(1_000), actor, said, signer);
    }

    fn hear_at_from(
        &mut self,
        at: Timestamp,
        actor: &Actor,
        said: Said,
        signer: Option<DecisionSigner>,
    ) {
        let inbox = self.session.inbox + 1;
        let hash = Digest::of(&inbox.to_be_bytes());
        self.note_at(at, actor, Event::Heard { inbox, hash, said, statement: None, signer });
    }

    /// A call as a caller without a model writes it.
    pub(crate) fn receive(&mut self, name: &str, args: &str) -> CallId {
        let id = CallId(self.session.next_call);
        let call = RawCall { id, name: name.to_owned(), args: args.to_owned(), alias: None };
        let actor = Actor::Client("test".into());
        self.note(&actor, Event::CallReceived { call: call.into(), of: None });
        id
    }

    pub(crate) fn prepare(&self, id: CallId) -> Result<Box<Call>, Refusal> {
        let open = self.session.open.get(&id).unwrap();
        prepare(&self.agent, &self.session, &self.project.pins, open)
    }

    pub(crate) fn world(&self) -> World<'_> {
        World {
            session: &self.session,
            project: &self.project,
            toolset: &self.agent.toolset,
            now: Timestamp(1_000),
            counted: Counted::NotYet,
        }
    }

    pub(crate) fn admit(&self, id: CallId) -> Judgement {
        self.admit_touching(id, Vec::new())
    }

    pub(crate) fn admit_touching(&self, id: CallId, touched: Vec<Touched>) -> Judgement {
        admit(&self.agent, &self.world(), self.prepare(id).unwrap(), touched)
    }

    pub(crate) fn args_hash(&self, id: CallId) -> Digest {
        self.prepare(id).unwrap().args_hash()
    }
}

/// An answer to the question about a call.
pub(crate) fn answered(
    call: CallId,
    name: &str,
    frame: Option<Digest>,
    args_hash: Digest,
    answer: Answer,
) -> Decision {
    Decision::new(call, tool(name), frame, args_hash, answer)
}
