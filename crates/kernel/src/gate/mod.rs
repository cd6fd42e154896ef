//! Decides whether a call may run: parse, resolve, validate, judge. There is no other way in.
//!
//! An [`Admitted`] cannot be forged:
//!
//! ```compile_fail
//! use toolgate_kernel::gate::Admitted;
//! fn forge() -> Admitted {
//!     Admitted { call: todo!(), touched: vec![] }
//! }
//! ```
//!
//! nor copied, so it cannot be run twice:
//!
//! ```compile_fail
//! use toolgate_kernel::gate::Admitted;
//! fn twice(admitted: Admitted) -> (Admitted, Admitted) {
//!     (admitted.clone(), admitted)
//! }
//! ```

mod explain;
mod former;
mod judge;
mod labels;
mod parse;
mod refusal;
mod resolve;
mod validate;

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

pub use explain::{Explanation, Ruling, StageRuling, explain};
pub use former::meant_action;
pub use judge::{Judgement, Question, admit, confirm, readmit};
pub(crate) use labels::Destination;
pub use parse::mended;
pub use refusal::{Grounds, Refusal, action};
pub use resolve::{is_down, is_held};
pub use validate::fitting;

use crate::actor::Actor;
use crate::agent::Agent;
use crate::approval::ApprovalRequirement;
use crate::digest::Digest;
use crate::event::{Basis, CallAdmitted, RawCall};
use crate::flow::CallLabels;
use crate::fold::{CallOrigin, OpenCall, Session, World};
use crate::json::Document;
use crate::key::{Access, Key, Touched};
use crate::names::{CallId, PhaseName, ToolName};
use crate::pin::Pins;
use crate::request::OpenRequest;
use crate::tool::ToolSpec;

/// A call that is resolved and validated, and not yet judged.
#[derive(Debug)]
pub struct Call {
    id: CallId,
    spec: Arc<ToolSpec>,
    place: usize,
    args: Document,
    /// The same as a tree, for whoever asks.
    tree: OnceLock<Map<String, Value>>,
    args_hash: Digest,
    /// Whether aliases, coercions or repairs made the arguments differ from what was written.
    rewritten: bool,
    keys: Vec<(Access, Key)>,
    warnings: Vec<String>,
    actor: Actor,
    shown_in: PhaseName,
    from_model: bool,
    /// What it was admitted on; nothing before it was.
    judged: Option<Judged>,
}

impl Call {
    /// The call's id.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// The tool.
    pub fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    /// The place of its tool in the toolset.
    pub fn place(&self) -> usize {
        self.place
    }

    /// The arguments, as policies and the tool both see them.
    pub fn args(&self) -> &Document {
        &self.args
    }

    /// The same as a tree. It is grown when somebody asks for the first time.
    pub fn args_tree(&self) -> &Map<String, Value> {
        self.tree.get_or_init(|| self.args.to_map())
    }

    /// Hash of the arguments in canonical form.
    pub fn args_hash(&self) -> Digest {
        self.args_hash
    }

    /// What it touches, reads before writes.
    pub fn keys(&self) -> &[(Access, Key)] {
        &self.keys
    }

    /// Who made it.
    pub fn actor(&self) -> &Actor {
        &self.actor
    }

    /// When it was written.
    pub fn origin(&self) -> CallOrigin {
        if self.from_model { CallOrigin::LastReply } else { CallOrigin::Outside }
    }

    /// What was ignored or repaired on the way.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// A call that was judged and may run, once.
#[derive(Debug)]
pub struct Admitted {
    call: Box<Call>,
    touched: Vec<Touched>,
}

/// What an admission stands on. It is kept with the call, because an admission is handed on often.
#[derive(Debug)]
struct Judged {
    /// A person's yes to these very arguments.
    yes: Option<Yes>,
    circumstances: Circumstances,
    labels: Option<Box<CallLabels>>,
}

/// A person's yes, with what it is bound to beside the arguments. One that is bound to nothing covers
/// nothing.
#[derive(Debug, Clone)]
struct Yes {
    /// The tool that the person was asked about.
    tool: ToolName,
    basis: Basis,
    frame: Option<Digest>,
}

impl Yes {
    /// Whether it is for this question about this call. An allowance that was withdrawn or ended
    /// meanwhile is for none.
    fn covers(
        &self,
        call: &Call,
        world: &World<'_>,
        frame: Digest,
        requires: &ApprovalRequirement,
    ) -> bool {
        let (session, tool) = (world.session, &call.spec.name);
        let is_there = match &self.basis {
            Basis::Allowance(decision) => {
                session.still_allows(decision, tool, self.frame, world.now)
            }
            Basis::Rules | Basis::Answer(_) | Basis::Answers(_) | Basis::Delegation { .. } => true,
        };
        is_there
            && self.tool == *tool
            && session.satisfies(&self.basis, requires)
            && self.frame == Some(frame)
    }
}

/// What a judgement stood on. When it is the same at the start of the run, so is the judgement.
#[derive(Debug)]
struct Circumstances {
    config: Digest,
    phase: Option<PhaseName>,
    successes: u64,
    project: u64,
    request: Option<Arc<OpenRequest>>,
}

impl Circumstances {
    fn of(agent: &Agent, world: &World<'_>) -> Self {
        Self {
            config: agent.fingerprint,
            phase: world.session.phase.clone(),
            successes: world.session.successes,
            project: world.project.seq,
            request: world.session.request.clone(),
        }
    }

    /// Whether nothing a judgement stands on has moved.
    fn still_hold(&self, agent: &Agent, world: &World<'_>) -> bool {
        let Self { config, phase, successes, project, request } = self;
        *config == agent.fingerprint
            && *phase == world.session.phase
            && *successes == world.session.successes
            && *project == world.project.seq
            && *request == world.session.request
    }
}

impl Admitted {
    fn new(
        mut call: Box<Call>,
        touched: Vec<Touched>,
        yes: Option<Yes>,
        circumstances: Circumstances,
        labels: Option<Box<CallLabels>>,
    ) -> Self {
        call.judged = Some(Judged { yes, circumstances, labels });
        Self { call, touched }
    }

    fn yes(&self) -> Option<Yes> {
        self.call.judged.as_ref().and_then(|judged| judged.yes.clone())
    }

    fn labels(&self) -> Option<Box<CallLabels>> {
        self.call.judged.as_ref().and_then(|judged| judged.labels.clone())
    }

    /// Whether nothing that it stands on has moved.
    fn still_holds(&self, agent: &Agent, world: &World<'_>) -> bool {
        let judged = self.call.judged.as_ref();
        judged.is_some_and(|judged| judged.circumstances.still_hold(agent, world))
    }

    /// The call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// What it touches, with the versions that were judged.
    pub fn touched(&self) -> &[Touched] {
        &self.touched
    }

    /// What the log says of the admission.
    pub fn event(&self) -> CallAdmitted {
        let call = &self.call;
        let (basis, frame) = self.yes().map_or((Basis::Rules, None), |yes| (yes.basis, yes.frame));
        CallAdmitted {
            call: call.id,
            tool: call.spec.name.clone(),
            version: call.spec.version.into(),
            effect: call.spec.effect,
            args: call.rewritten.then(|| Value::Object(call.args_tree().clone())),
            args_hash: call.args_hash,
            basis,
            frame,
            touches: self.touched.clone(),
            warnings: call.warnings.clone(),
            labels: self.labels(),
        }
    }

    /// Gives up the call to whoever runs it.
    pub fn into_parts(self) -> (Box<Call>, Vec<Touched>) {
        (self.call, self.touched)
    }
}

/// Parses, resolves and validates a call that was received.
pub fn prepare(
    agent: &Agent,
    session: &Session,
    pins: &Pins,
    open: &OpenCall,
) -> Result<Box<Call>, Refusal> {
    // A name that cannot be called is the first thing to put right, so it is reported first.
    let resolved = resolve::resolve(agent, session, pins, open)?;
    resolve::in_its_setting(agent, session, &resolved.spec)?;
    let parsed = parse::parse_for(&open.raw, &resolved.spec, &agent.limits)?;
    let parsed = former::translate(&open.raw, &resolved.spec, parsed)?;
    let mut call = validate::validate(resolved, parsed, open)?;
    if open.edited {
        // Whoever made the call is told that it ran with other arguments.
        let args = Value::Object(call.args_tree().clone());
        call.warnings.push(format!("A person changed the arguments; these count: {args}"));
    }
    validate::keeps_out(&agent.toolset, &call)?;
    Ok(call)
}

/// Refuses a model's call that is one too many, for its turn or for its iteration.
pub fn over_limit(agent: &Agent, session: &Session, raw: &RawCall) -> Option<Refusal> {
    judge::over_limit(agent, session, raw)
}
