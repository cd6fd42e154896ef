//! Decides how a request body is put together: from bytes that were written before, and what is new.
//!
//! A transcript only grows, so what was written once is copied and never written again. The result
//! is byte for byte what `Dialect::encode` gives.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan};
use toolgate_kernel::tool::ToolSpec;

use crate::dialect::{Dialect, Frame, Options};

/// A request that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The path after the base address.
    pub(crate) path: Arc<str>,
    /// The body.
    pub(crate) body: Bytes,
}

/// What is kept of one session between its requests.
#[derive(Default)]
pub(crate) struct Page {
    written: Option<Written>,
    framed: Option<Framed>,
}

/// The messages so far, as bytes with commas between them.
struct Written {
    iteration: u64,
    system: Arc<str>,
    input: Arc<str>,
    bytes: Vec<u8>,
    /// How many turns are in it, and the last of them.
    turns: usize,
    last: Option<Arc<Turn>>,
}

/// Everything but the messages, and what it was made for.
struct Framed {
    system: Arc<str>,
    tools: Vec<Arc<ToolSpec>>,
    every: Arc<[Arc<ToolSpec>]>,
    choice: Choice,
    shape: Option<Arc<OutputShape>>,
    path: Arc<str>,
    /// The body up to its first message: `{"model":"m",…,"messages":[`.
    head: Vec<u8>,
}

impl Page {
    /// The request for a plan. The page belongs to one dialect with one set of options.
    pub(crate) fn request(&mut self, dialect: Dialect, plan: &Plan, options: &Options) -> Prepared {
        if !self.framed.as_ref().is_some_and(|framed| framed.fits(plan)) {
            self.framed = Some(Framed::new(dialect.frame(plan, options), plan));
        }
        self.write(dialect, plan, options);
        let (Some(framed), Some(written)) = (&self.framed, &self.written) else {
            return Prepared { path: "".into(), body: Bytes::new() };
        };
        let closing = dialect.closing(plan, options);
        let room = framed.head.len() + written.bytes.len() + 1024;
        let mut body = Vec::with_capacity(room);
        body.extend_from_slice(&framed.head);
        body.extend_from_slice(&written.bytes);
        append(&mut body, &closing, written.bytes.is_empty());
        body.extend_from_slice(b"]}");
        Prepared { path: Arc::clone(&framed.path), body: body.into() }
    }

    /// Writes what is new of the transcript.
    fn write(&mut self, dialect: Dialect, plan: &Plan, options: &Options) {
        if !self.written.as_ref().is_some_and(|written| written.grows_to(plan)) {
            let mut bytes = Vec::new();
            append(&mut bytes, &dialect.opening(plan, options), true);
            self.written = Some(Written {
                iteration: plan.iteration,
                system: Arc::clone(&plan.system),
                input: Arc::clone(&plan.input),
                bytes,
                turns: 0,
                last: None,
            });
        }
        let Some(written) = &mut self.written else { return };
        for turn in plan.turns.iter().skip(written.turns) {
            let messages = dialect.turn(written.last.as_deref(), turn, plan, options);
            let first = written.bytes.is_empty();
            append(&mut written.bytes, &messages, first);
            written.turns += 1;
            written.last = Some(Arc::clone(turn));
        }
    }
}

impl Written {
    /// Whether a plan begins with what is written. A turn that was sent never changes, so looking
    /// at the last one is enough.
    fn grows_to(&self, plan: &Plan) -> bool {
        let last = self.turns.checked_sub(1).and_then(|at| plan.turns.get(at));
        let same_last = match (&self.last, last) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_last
            && self.iteration == plan.iteration
            && same_text(&self.system, &plan.system)
            && same_text(&self.input, &plan.input)
    }
}

impl Framed {
    fn new(frame: Frame, plan: &Plan) -> Self {
        let Frame { path, key, body } = frame;
        // Neither a map of JSON values nor a text can fail to be written.
        let mut head = serde_json::to_vec(&body).unwrap_or_default();
        head.pop();
        if !body.is_empty() {
            head.push(b',');
        }
        head.push(b'"');
        head.extend_from_slice(key.as_bytes());
        head.extend_from_slice(b"\":[");
        Self {
            system: Arc::clone(&plan.system),
            tools: plan.tools.clone(),
            every: Arc::clone(&plan.every),
            choice: plan.choice.clone(),
            shape: plan.shape.clone(),
            path: path.into(),
            head,
        }
    }

    fn fits(&self, plan: &Plan) -> bool {
        let tools = self.tools.len() == plan.tools.len()
            && self.tools.iter().zip(&plan.tools).all(|(mine, theirs)| Arc::ptr_eq(mine, theirs));
        let shape = match (&self.shape, &plan.shape) {
            (None, None) => true,
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (Some(_), None) | (None, Some(_)) => false,
        };
        tools
            && shape
            && Arc::ptr_eq(&self.every, &plan.every)
            && self.choice == plan.choice
            && same_text(&self.system, &plan.system)
    }
}

fn same_text(mine: &Arc<str>, theirs: &Arc<str>) -> bool {
    Arc::ptr_eq(mine, theirs) || mine == theirs
}

/// Writes messages after others, a comma between each two.
fn append(bytes: &mut Vec<u8>, messages: &[Value], mut first: bool) {
    for message in messages {
        if !first {
            bytes.push(b',');
        }
        first = false;
        let _ = serde_json::to_writer(&mut *bytes, message);
    }
}
