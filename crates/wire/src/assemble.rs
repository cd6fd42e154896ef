//! Decides how a request body is put together: from bytes that were written before, and what is new.
//!
//! A transcript only grows, so what was written once is copied and never written again. The result
//! is byte for byte what `Dialect::encode` gives.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use toolgate_kernel::fold::Turn;
use toolgate_kernel::plan::{Choice, OutputShape, Plan};
use toolgate_kernel::tool::ToolSpec;

use crate::dialect::rules::{Rule, Transcript};
use crate::dialect::{Dialect, Frame, Options};

/// A request that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The path after the base address.
    pub path: Arc<str>,
    /// The body.
    pub body: Bytes,
}

/// What is kept of one session between its requests.
#[derive(Default)]
pub struct Page {
    written: Option<Written>,
    framed: Option<Framed>,
}

/// The messages so far, as bytes with commas between them.
struct Written {
    iteration: u64,
    system: Arc<str>,
    input: Arc<str>,
    bytes: Vec<u8>,
    /// What the rules have seen of it, and the first one that it breaks.
    transcript: Transcript,
    broken: Option<&'static Rule>,
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
    /// A transcript with calls in it needs definitions, even when none may be called.
    called: bool,
    /// After calls of another model, a model may not be asked to think.
    thoughtless: bool,
    path: Arc<str>,
    body: Map<String, Value>,
    /// The body up to its first message: `{"model":"m",…,"messages":[`.
    head: Vec<u8>,
}

impl Page {
    /// The request for a plan, or the rule of its dialect that it breaks. The page belongs to one
    /// dialect with one set of options.
    pub fn request(
        &mut self,
        dialect: Dialect,
        plan: &Plan,
        options: &Options,
    ) -> Result<Prepared, &'static Rule> {
        let thoughtless = dialect.thoughtless(plan, options);
        let fits = |framed: &Framed| framed.thoughtless == thoughtless && framed.fits(plan);
        let framed = match self.framed.take().filter(fits) {
            Some(framed) => framed,
            None => Framed::new(dialect.frame(plan, options), plan, thoughtless),
        };
        let mut written = match self.written.take().filter(|written| written.grows_to(plan)) {
            Some(written) => written,
            None => Written::new(dialect, plan, options),
        };
        written.grow(dialect, plan, options);
        let closing = dialect.closing(plan, options);
        let broken = written.broken.or_else(|| written.transcript.end(&closing, &framed.body));
        let mut body = Vec::with_capacity(framed.head.len() + written.bytes.len() + 1024);
        body.extend_from_slice(&framed.head);
        body.extend_from_slice(&written.bytes);
        append(&mut body, &closing, written.bytes.is_empty());
        body.extend_from_slice(b"]}");
        let path = Arc::clone(&framed.path);
        (self.framed, self.written) = (Some(framed), Some(written));
        match broken {
            Some(rule) => Err(rule),
            None => Ok(Prepared { path, body: body.into() }),
        }
    }
}

impl Written {
    fn new(dialect: Dialect, plan: &Plan, options: &Options) -> Self {
        let (mut bytes, mut transcript) = (Vec::new(), Transcript::new(dialect));
        let opening = dialect.opening(plan, options);
        append(&mut bytes, &opening, true);
        Self {
            iteration: plan.iteration,
            system: Arc::clone(&plan.system),
            input: Arc::clone(&plan.input),
            bytes,
            broken: transcript.add(&opening),
            transcript,
            turns: 0,
            last: None,
        }
    }

    /// Writes the turns that are new.
    fn grow(&mut self, dialect: Dialect, plan: &Plan, options: &Options) {
        for turn in plan.turns.iter().skip(self.turns) {
            let messages = dialect.turn(self.last.as_deref(), turn, plan, options);
            let first = self.bytes.is_empty();
            append(&mut self.bytes, &messages, first);
            self.broken = self.broken.or_else(|| self.transcript.add(&messages));
            self.turns += 1;
            self.last = Some(Arc::clone(turn));
        }
    }

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
    fn new(frame: Frame, plan: &Plan, thoughtless: bool) -> Self {
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
            called: called(plan),
            thoughtless,
            path: path.into(),
            body,
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
            && self.called == called(plan)
            && same_text(&self.system, &plan.system)
    }
}

fn called(plan: &Plan) -> bool {
    plan.turns.iter().any(|turn| !turn.calls.is_empty())
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

#[cfg(test)]
mod tests {
    use toolgate_kernel::config::Transform;
    use toolgate_kernel::event::{Finish, Note, NoteKind, Usage};
    use toolgate_runtime::port::{Reply, ReplyCall};

    use super::*;
    use crate::dialect::sample;
    use crate::transform::Transforms;

    /// What a strict server wants of a whole transcript.
    const STRICT: &[Transform] = &[Transform::AlternateRoles, Transform::ShortIds];

    /// A plan that grows turn by turn: words, one call, two calls, a call that fails, words again.
    fn growing() -> Vec<Plan> {
        let call = |name: &str, args: &str, id: &str| ReplyCall {
            alias: Some(id.to_owned()),
            name: name.to_owned(),
            args: args.to_owned(),
        };
        let replies = [
            (
                "Let me see.",
                vec![call("read_file", r#"{"path":"a.md"}"#, "call_1")],
                &["Go on."][..],
            ),
            (
                "",
                vec![
                    call("read_file", r#"{"path":"ä \"b\""}"#, "call_2"),
                    call("3d_view", r#"{"path":"c"}"#, "call_3"),
                ],
                &[],
            ),
            ("Hm.", vec![call("nobody", "{broken", "call_4")], &["One.", "Two."]),
        ];
        let mut plan = sample::plan();
        sample::with_picture(&mut plan);
        let mut plans = vec![plan.clone()];
        for (text, calls, notes) in replies {
            let finish = Finish::Calls;
            let reply = Reply::new(text, calls, finish, Usage::default());
            sample::answered(&mut plan, reply, notes);
            plans.push(plan.clone());
        }
        // The last request says something of its own, and shows one tool less.
        plan.feedback = vec!["And now?".into()];
        plan.notes = vec![Note { about: NoteKind::Phase, text: "Another phase.".into() }];
        plan.tools.pop();
        plans.push(plan);
        plans
    }

    #[test]
    fn what_is_put_together_is_what_encoding_gives() {
        for dialect in Dialect::ALL {
            for (stream, transforms) in [(false, &[][..]), (true, &[]), (true, STRICT)] {
                let names = transforms.iter().map(|transform| (transform.kind(), transform.name()));
                let transforms = Transforms::parse(names).unwrap();
                let options = Options { stream, transforms, ..sample::options("m") };
                let mut page = Page::default();
                for plan in growing() {
                    let whole = dialect.encode(&plan, &options);
                    let wanted = serde_json::to_string(&whole.body).unwrap();
                    let kept = page.written.as_ref().map_or(0, |written| written.turns);
                    let request = page.request(dialect, &plan, &options).unwrap();
                    assert_eq!(std::str::from_utf8(&request.body).unwrap(), wanted, "{dialect:?}");
                    assert_eq!(*request.path, *whole.path);
                    // And the same from nothing.
                    let fresh = Page::default().request(dialect, &plan, &options).unwrap();
                    assert_eq!(fresh, request);
                    assert!(kept == 0 || kept + 1 >= plan.turns.len(), "what was written is kept");
                }
            }
        }
    }

    #[test]
    fn another_iteration_another_system_and_other_turns_begin_anew() {
        let options = sample::options("m");
        for dialect in Dialect::ALL {
            let mut page = Page::default();
            let plans = growing();
            page.request(dialect, &plans[3], &options).unwrap();
            let mut other = plans[3].clone();
            other.iteration += 1;
            other.input = "Go on.".into();
            let mut system = plans[3].clone();
            system.system = "Be long.".into();
            let mut shorter = plans[3].clone();
            shorter.turns.pop_back();
            let mut replaced = plans[3].clone();
            let last = replaced.turns.pop_back().unwrap();
            replaced
                .turns
                .push_back(Arc::new(Turn { text: "Otherwise.".into(), ..(*last).clone() }));
            for plan in [other, system, shorter, replaced] {
                let request = page.request(dialect, &plan, &options).unwrap();
                let wanted = serde_json::to_vec(&dialect.encode(&plan, &options).body).unwrap();
                assert_eq!(request.body, wanted, "{dialect:?}");
                page.request(dialect, &plans[3], &options).unwrap();
            }
        }
    }

    /// A dialect that defines tools only where the transcript has calls must see the first one.
    #[test]
    fn the_first_call_of_a_transcript_is_seen_where_no_tool_is_shown() {
        let options = sample::options("m");
        for dialect in Dialect::ALL {
            let mut page = Page::default();
            let mut plans = growing();
            plans[1].tools.clear();
            plans[0].tools.clear();
            for plan in &plans[..2] {
                let request = page.request(dialect, plan, &options).unwrap();
                let wanted = serde_json::to_vec(&dialect.encode(plan, &options).body).unwrap();
                assert_eq!(request.body, wanted, "{dialect:?}");
            }
        }
    }

    #[test]
    fn a_broken_rule_is_told_and_stays_broken() {
        let options = sample::options("m");
        let mut plan = growing().remove(2);
        let last = plan.turns.pop_back().unwrap();
        plan.turns.push_back(Arc::new(Turn { told: Default::default(), ..(*last).clone() }));
        for dialect in Dialect::ALL {
            let mut page = Page::default();
            for _ in 0..2 {
                assert!(page.request(dialect, &plan, &options).is_err(), "{dialect:?}");
            }
        }
    }
}
