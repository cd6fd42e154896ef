//! Decides how a call ends: committed with its changes, or rolled back with nothing left behind.

use std::collections::BTreeSet;
use std::mem::take;
use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Envelope, Trouble};
use toolgate_kernel::event::{
    Attached, CallAdmitted, CallSettled, Change, Event, FileChange, Kept, Outcome, ProjectEvent,
    StreamId,
};
use toolgate_kernel::fold::Progress;
use toolgate_kernel::gate::{Call, meant_action};
use toolgate_kernel::json::{Room, weigh};
use toolgate_kernel::key::{Access, Key, Touched};
use toolgate_kernel::names::{CallId, Family, ToolName};
use toolgate_kernel::policy::{SEEN_FAMILY, seen_key};
use toolgate_kernel::receipt::SettledCall;
use toolgate_kernel::section::{FILE_FAMILY, Home};
use toolgate_kernel::tool::Effect;

use super::redact::{redact_fault, redact_output};
use super::{DriveFault, Driver};
use crate::crash_point;
use crate::execute::Executed;
use crate::picture::Picture;
use crate::port::{Fault, FilesFault, Output, Parts, Placed, StageTag, StoreFault};
use crate::runtime::SHARED_TRIES;
use crate::transaction::{Ran, StagedFile, file_key};
use crate::versions::Lookup;

/// How a call ended, before it is written down.
#[derive(Clone)]
pub(super) struct Ended {
    outcome: Outcome,
    message: String,
    data: Value,
    message_only: bool,
    warnings: Vec<String>,
    errors: Vec<Trouble>,
    /// The whole answer, where it is too long to be shown. Most are not.
    kept: Option<Box<(Kept, Vec<u8>)>>,
    parts: Option<Arc<Parts>>,
}

/// How the settlement of a call goes on.
enum Settling {
    /// It is in line.
    Alone(Due),
    /// It takes a turn at what sessions share.
    Shared(Box<Ended>),
}

/// What must not wait once a settlement is in line.
struct Due {
    /// Changes of the project, which are appended together with it.
    project: Vec<Change>,
    /// Families into which untrusted content may have been written, and that were not known for it.
    marked: Vec<Family>,
    /// Whether it is appended at once.
    at_once: bool,
    /// Whether files are put in their places after that.
    placing: bool,
}

impl Ended {
    pub(super) fn failed(errors: Vec<Trouble>) -> Self {
        let message = errors.first().map(|first| first.message.clone()).unwrap_or_default();
        Self {
            outcome: Outcome::Failed,
            message,
            data: Value::Null,
            message_only: false,
            warnings: Vec::new(),
            errors,
            kept: None,
            parts: None,
        }
    }

    pub(super) fn unknown(trouble: Trouble) -> Self {
        Self { outcome: Outcome::Unknown, ..Self::failed(vec![trouble]) }
    }

    /// The outcome of a call whose answer was lost, with what is known besides.
    pub(super) fn lost(known: Self) -> Self {
        let message = "The call may or may not have taken effect: its answer was lost. \
                       Check before you do it again.";
        let mut lost = Self::unknown(Trouble::new(Code::OUTCOME_UNKNOWN, message));
        lost.errors.extend(known.errors);
        lost.data = known.data;
        lost
    }

    fn done(output: Output) -> Self {
        Self {
            outcome: Outcome::Done,
            message: output.message,
            data: output.data,
            message_only: output.message_only,
            warnings: output.warnings,
            errors: Vec::new(),
            kept: None,
            parts: output.parts,
        }
    }
}

impl Driver {
    /// Settles a call that ran. A failed one leaves nothing behind but its record.
    pub(super) async fn settle(
        &mut self,
        mut ran: Box<Ran>,
        executed: Executed,
    ) -> Result<(), DriveFault> {
        match self.begin_settling(&mut ran, executed)? {
            Settling::Alone(due) => self.bring_home(&ran, due).await,
            Settling::Shared(mut ended) => self.commit_shared(&mut ran, &mut ended).await,
        }
    }

    /// Puts the settlement in line, unless it takes a turn at what sessions share.
    fn begin_settling(
        &mut self,
        ran: &mut Ran,
        executed: Executed,
    ) -> Result<Settling, DriveFault> {
        let mut ended = self.ended(ran, executed);
        if ended.outcome != Outcome::Done {
            ran.staged.forget();
        }
        if self.shares(ran, &ended) {
            return Ok(Settling::Shared(Box::new(ended)));
        }
        self.stage(ran, &mut ended);
        self.put_in_line(ran, &mut ended).map(Settling::Alone)
    }

    /// How a call ended.
    fn ended(&self, ran: &Ran, executed: Executed) -> Ended {
        let reached_world = ran.call.spec().effect.needs_intent();
        let mut ended = match executed {
            Executed::Answered(answer) => match *answer {
                Ok(mut output) => {
                    redact_output(&self.runtime.redactor, &mut output);
                    self.checked(ran, output)
                }
                Err(mut fault) => {
                    redact_fault(&self.runtime.redactor, &mut fault);
                    match fault.lost && reached_world {
                        true => Ended::lost(self.bounded(fault)),
                        false => self.bounded(fault),
                    }
                }
            },
            Executed::CutOff(trouble) if reached_world => {
                let message = "The call was cut off and may or may not have taken effect. \
                               Check before you do it again.";
                let mut ended = Ended::unknown(Trouble::new(Code::OUTCOME_UNKNOWN, message));
                ended.errors.push(*trouble);
                ended
            }
            Executed::CutOff(trouble) => Ended::failed(vec![*trouble]),
        };
        if !ran.call.warnings().is_empty() {
            ended.warnings.splice(0..0, ran.call.warnings().iter().cloned());
        }
        ended
    }

    /// Settles a call that did not run.
    pub(super) fn settle_ended(&mut self, id: CallId, ended: Ended) -> Result<(), DriveFault> {
        let Some(admitted) = self.admitted(id).cloned() else { return Ok(()) };
        let started = self.session.open.get(&id).map(|open| &open.progress);
        let mut ended = match started {
            // An earlier try may have reached the world, whatever keeps a new one from it.
            Some(Progress::Started(_)) if ended.outcome == Outcome::Failed => Ended::lost(ended),
            _ => ended,
        };
        let settled = self.settled(id, &admitted.tool, admitted.args_hash, &mut ended);
        self.note(&Actor::System, Event::CallSettled(settled))
    }

    /// What the log says of an admitted call that is still open.
    pub(super) fn admitted(&self, id: CallId) -> Option<&Arc<CallAdmitted>> {
        self.session.open.get(&id)?.progress.admitted()
    }

    /// The answer, unless it has another type than declared or is too long.
    fn checked(&self, ran: &Ran, output: Output) -> Ended {
        let spec = ran.call.spec();
        let reached_world = spec.effect.needs_intent();
        if let Err(misfits) = spec.check_output(&output.data) {
            let what = misfits.first().map(ToString::to_string).unwrap_or_default();
            let ran =
                if reached_world { " The tool ran; check before you call it again." } else { "" };
            let message =
                format!("The tool's answer does not have the declared type: {what}.{ran}");
            let trouble = Trouble::new(Code::TOOL_OUTPUT_INVALID, message);
            // What reached the world is done, whatever its answer looks like.
            let outcome = if reached_world { Outcome::Done } else { Outcome::Failed };
            return Ended { outcome, ..Ended::failed(vec![trouble]) };
        }
        let limits = &self.crew.agent.limits;
        let outcome = if reached_world { Outcome::Done } else { Outcome::Failed };
        let bytes_max = usize::try_from(limits.result_kept_bytes_max).unwrap_or(usize::MAX);
        // Plain values stand inside of the last level that may be nested.
        let depth_max = usize::try_from(limits.result_depth_max).map_or(usize::MAX, |max| max + 1);
        let room = Room { bytes_max, depth_max, ..Room::default() };
        if let Err(reason) = weigh(&output.data, &room) {
            let message = format!(
                "The answer is too large to be written ({reason}: {}). Ask for a smaller part.",
                reason.told(&room)
            );
            let trouble = Trouble::new(Code::TOOL_OUTPUT_TOO_LARGE, message);
            return Ended { outcome, ..Ended::failed(vec![trouble]) };
        }
        let ended = Ended::done(output);
        let mut text = String::new();
        if !ended.data.is_null() {
            text = serde_json::to_string(&ended.data).unwrap_or_default();
        }
        let warnings: usize = ended.warnings.iter().map(String::len).sum();
        let bytes = text.len() + ended.message.len() + warnings;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes <= limits.result_bytes_max {
            return ended;
        }
        let (max, hash) = (limits.result_bytes_max, Digest::of(text.as_bytes()));
        let message = format!(
            "The answer has {bytes} bytes; at most {max} are shown. Ask for a smaller part."
        );
        let trouble = Trouble::new(Code::TOOL_OUTPUT_TOO_LARGE, message);
        let kept = (bytes <= limits.result_kept_bytes_max).then(|| {
            let bytes = u64::try_from(text.len()).unwrap_or(0);
            Box::new((Kept { hash, bytes }, text.into_bytes()))
        });
        Ended { outcome, kept, ..Ended::failed(vec![trouble]) }
    }

    /// The troubles a tool reports, unless they are too long to be shown.
    fn bounded(&self, fault: Fault) -> Ended {
        let Fault { errors, data, .. } = fault;
        let max = self.crew.agent.limits.result_bytes_max;
        let bytes = serde_json::to_string(&(&errors, &data)).map_or(usize::MAX, |text| text.len());
        if u64::try_from(bytes).unwrap_or(u64::MAX) <= max {
            let data = if data.is_empty() { Value::Null } else { Value::Object(data) };
            return Ended { data, ..Ended::failed(errors) };
        }
        let message = format!("The tool failed, with {bytes} bytes of errors; at most {max} fit.");
        Ended::failed(vec![Trouble::new(Code::TOOL_OUTPUT_TOO_LARGE, message)])
    }

    /// What the data of a domain tool's error is.
    fn error_data(&self, call: CallId, tool: &ToolName, ended: &Ended) -> Option<Value> {
        if ended.errors.is_empty() {
            return None;
        }
        let toolset = &self.crew.agent.toolset;
        let entry = toolset.entries().get(toolset.find(tool.as_str())?)?;
        let domain = entry.spec.domain.as_ref()?;
        let open = self.session.open.get(&call);
        let named = open.and_then(|open| meant_action(&self.crew.agent, &open.raw));
        Some(domain.error(named.as_deref(), &ended.errors, &ended.data))
    }

    /// Writes a settlement down, with its receipt.
    fn settled(
        &mut self,
        call: CallId,
        tool: &ToolName,
        args_hash: Digest,
        ended: &mut Ended,
    ) -> CallSettled {
        let data = self.error_data(call, tool, ended);
        let mut envelope = Envelope {
            ok: ended.errors.is_empty(),
            tool: tool.as_str().to_owned(),
            message: take(&mut ended.message),
            data: data.unwrap_or_else(|| ended.data.take()),
            warnings: take(&mut ended.warnings),
            errors: take(&mut ended.errors),
            receipt: None,
        };
        let (link_before, args_hash) = (self.tip.hash, &args_hash);
        let settled = SettledCall { link_before, call, tool, args_hash, envelope: &envelope };
        envelope.receipt = Some(settled.receipt());
        let kept = ended.kept.take().map(|kept| {
            let (kept, bytes) = *kept;
            self.pending.blobs.push((kept.hash, bytes));
            kept
        });
        let attached = ended.parts.as_deref().map(|parts| self.attached(call, parts));
        CallSettled {
            call,
            outcome: ended.outcome,
            envelope: Arc::new(envelope),
            message_only: ended.message_only,
            changes: Vec::new(),
            files: Vec::new(),
            touched: Vec::new(),
            notices: Vec::new(),
            kept,
            attached: attached.unwrap_or_default(),
            spent: None,
        }
    }

    /// What the log says of the parts of an answer. The bytes are kept of pictures that a model is
    /// shown, so that the next request can be put together again; whoever else asked has them.
    fn attached(&mut self, call: CallId, parts: &Parts) -> Vec<Attached> {
        let limits = &self.crew.agent.limits;
        let modelled = self.session.open.get(&call).is_some_and(|open| open.turn.is_some());
        let mut room = if modelled { limits.pictures_max } else { 0 };
        let mut all = Vec::new();
        for part in &parts.list {
            let Some(mut attached) = part.attached.clone() else { continue };
            let bytes = part.picture.as_ref().filter(|_| room > 0);
            let picture = bytes.and_then(|bytes| Picture::read(bytes.clone(), limits).ok());
            if let Some((image, bytes)) = picture.map(Picture::into_parts) {
                room -= 1;
                attached.media_type = Some(image.media_type);
                attached.shown = true;
                self.pending.blobs.push((image.hash, bytes));
            }
            all.push(attached);
        }
        all
    }

    /// Commits what sessions share, one session after the other. One append has it all: settlement,
    /// session changes, project changes, phase, files.
    async fn commit_shared(&mut self, ran: &mut Ran, ended: &mut Ended) -> Result<(), DriveFault> {
        let runtime = Arc::clone(&self.runtime);
        self.flush().await?;
        // Project appends of this process take turns, so that a version that was compared is
        // still the version when the append happens. Other processes are noticed by the store.
        let turn = runtime.project_turn.lock().await;
        let before = self.session();
        for again in 0..SHARED_TRIES {
            // The store tells when somebody else was first; until then what is known is the news.
            if again > 0 {
                runtime.catch_up().await?;
            }
            self.stage(ran, ended);
            match self.write(ran, &mut ended.clone()).await {
                Err(DriveFault::Store(StoreFault::Moved { stream: StreamId::Project, .. })) => {
                    self.rewind(&before);
                }
                done => {
                    drop(turn);
                    return done;
                }
            }
        }
        let message = "Others kept changing the project. Try again later.";
        self.discard_files(ran);
        give_up(ran, ended, Trouble::new(Code::COMMIT_CONFLICT, message));
        // Without its footprint there is nothing left for the project to remember.
        ran.after.clear();
        let done = self.write(ran, ended).await;
        drop(turn);
        done
    }

    fn shares(&self, ran: &Ran, ended: &Ended) -> bool {
        let remembers = self.crew.agent.remember_reads && ended.outcome == Outcome::Done;
        let reads = || ran.touched.iter().any(|touched| self.remembered(touched).is_some());
        !ran.staged.project.is_empty() || !ran.staged.files.is_empty() || (remembers && reads())
    }

    /// Stages the files of a call, unless somebody else was first or they cannot be staged.
    fn stage(&self, ran: &mut Ran, ended: &mut Ended) {
        if let Some(key) = self.conflict(ran) {
            let message =
                format!("{key} was changed by somebody else meanwhile. Read it again, then retry.");
            self.discard_files(ran);
            give_up(ran, ended, Trouble::new(Code::COMMIT_CONFLICT, message));
        }
        if ran.staged.phase.is_some() && ran.phase != self.session.phase {
            // The way that was looked at leads from another phase than this one.
            let message = "The phase moved meanwhile. Look where you are, then retry.";
            self.discard_files(ran);
            give_up(ran, ended, Trouble::new(Code::COMMIT_CONFLICT, message));
        }
        if let Err(fault) = self.stage_files(ran) {
            self.discard_files(ran);
            give_up(ran, ended, Trouble::new(Code::TOOL_FAILED, fault.to_string()));
        }
    }

    /// Settles at once, with everything that must not wait.
    async fn write(&mut self, ran: &Ran, ended: &mut Ended) -> Result<(), DriveFault> {
        let due = self.put_in_line(ran, ended)?;
        self.bring_home(ran, due).await
    }

    /// Puts one settlement in line, which takes over how the call ended, and says what must not wait.
    fn put_in_line(&mut self, ran: &Ran, ended: &mut Ended) -> Result<Due, DriveFault> {
        let call = &ran.call;
        let id = call.id();
        let parts = ended.parts.clone();
        let mut settled = self.settled(id, &call.spec().name, call.args_hash(), ended);
        let mut project = Vec::new();
        settled.notices = ran.staged.aside.notices.clone();
        settled.spent = ran.staged.aside.spent;
        if settled.outcome == Outcome::Done {
            settled.touched = ran.after.clone();
            if self.floor.is_some() {
                // What was changed beside a slow read was read in a form that is gone.
                settled.touched.retain(|t| t.access == Access::Write || self.is_current(t));
            }
            settled.changes = ran.staged.session.clone();
            settled.files = file_changes(ran);
            settled.notices.extend_from_slice(&ran.staged.notices);
            project = ran.staged.project.clone();
            if self.crew.agent.remember_reads {
                project.extend(settled.touched.iter().filter_map(|t| self.remembered(t)));
            }
        }
        let marked = self.newly_marked(call, &project, !settled.files.is_empty());
        let placing = !settled.files.is_empty();
        self.keep_replaced(&mut settled.files);
        self.note(&Actor::System, Event::CallSettled(settled))?;
        if let Some((_, result)) = self.results.last_mut().filter(|(last, _)| *last == id) {
            result.parts = parts;
        }
        if let Some((phase, reason)) = ran.staged.phase.clone() {
            let from = self.session.phase.clone().unwrap_or_else(|| phase.clone());
            self.note(call.actor(), Event::PhaseEntered { phase, from, reason, call: Some(id) })?;
        }
        let at_once = placing || call.spec().effect.needs_intent();
        Ok(Due { project, marked, at_once, placing })
    }

    /// Appends what must not wait, and puts files in their places.
    async fn bring_home(&mut self, ran: &Ran, due: Due) -> Result<(), DriveFault> {
        let (call, id) = (&ran.call, ran.call.id());
        crash_point!("before_settlement");
        let session = self.session.id.clone();
        let mut events = Vec::new();
        if !due.marked.is_empty() {
            let (families, session) = (due.marked, session.clone());
            events.push(ProjectEvent::FamiliesMarked { families, session, call: id });
        }
        if !due.project.is_empty() {
            events.push(ProjectEvent::ProjectChanged {
                changes: due.project,
                session: Some(session),
                call: Some(id),
                reason: call.spec().name.to_string(),
            });
        }
        if !events.is_empty() {
            self.append_with_project(call.actor(), events).await?;
        } else if due.at_once {
            self.flush().await?;
        }
        crash_point!("after_settlement");
        if !due.placing {
            return Ok(());
        }
        // What the call wrote is in the state; a person's file must not undo it.
        let wrote: Vec<Key> = ran.staged.project.iter().filter_map(Change::key).cloned().collect();
        self.place_all(id, file_changes(ran), &wrote).await
    }

    /// The first key whose content is no longer what the call began with. Of a call that only
    /// reached the world nothing is left that could conflict.
    fn conflict(&self, ran: &Ran) -> Option<Key> {
        let effect = ran.call.spec().effect;
        if effect == Effect::Read || (effect.needs_intent() && ran.staged.is_empty()) {
            return None;
        }
        let moved = |touched: &&Touched| !self.is_current(touched);
        ran.touched.iter().find(moved).map(|touched| touched.key.clone())
    }

    /// Whether the content of a key is still what was touched.
    fn is_current(&self, touched: &Touched) -> bool {
        let (project, _) = self.runtime.project();
        let lookup = Lookup {
            agent: &self.crew.agent,
            session: &self.session,
            project: &project,
            files: self.runtime.files.as_ref(),
        };
        lookup.version(&touched.key) == Ok(touched.version)
    }

    /// The families that a call writes, where untrusted content may have influenced what it writes, but
    /// for those that are known for it.
    fn newly_marked(&self, call: &Call, project: &[Change], writes_files: bool) -> Vec<Family> {
        let labels = self.admitted(call.id()).and_then(|admitted| admitted.labels.as_deref());
        let reads_untrusted = labels.is_some_and(|labels| labels.untrusted);
        let seen = self.session.flow.seen_by(call.origin());
        if !reads_untrusted && seen.untrusted().is_none() {
            return Vec::new();
        }
        let files = writes_files.then(|| Family::parse(FILE_FAMILY).ok()).flatten();
        let keys = project.iter().filter_map(Change::key);
        let written: BTreeSet<Family> = keys.map(|key| key.family().clone()).chain(files).collect();
        let known = &self.runtime.project().0.untrusted;
        let is_new =
            |family: &Family| !known.contains_key(family) && family.as_str() != SEEN_FAMILY;
        written.into_iter().filter(is_new).collect()
    }

    /// What the project remembers of a read. A session's own state is nobody else's business.
    fn remembered(&self, touched: &Touched) -> Option<Change> {
        let family = self.crew.agent.toolset.family(touched.key.family());
        let shared = family.is_some_and(|family| family.home != Home::Session);
        let version = touched.version.filter(|_| shared && touched.access == Access::Read)?;
        let key = seen_key(&touched.key)?;
        Some(Change::Put { key, value: Value::String(version.to_string()), v: 1 })
    }

    fn stage_files(&self, ran: &Ran) -> Result<(), FilesFault> {
        for (at, (path, file)) in ran.staged.files.iter().enumerate() {
            let tag = self.tag(ran, at);
            let content = file.content.as_ref().map(|content| content.as_slice());
            self.runtime.files.stage(&tag, path, content.zip(file.version))?;
            crash_point!("after_stage");
        }
        Ok(())
    }

    /// Forgets what was staged. What cannot be removed now is removed by the next resume.
    fn discard_files(&self, ran: &Ran) {
        for at in 0..ran.staged.files.len() {
            drop(self.runtime.files.discard(&self.tag(ran, at)));
        }
    }

    fn tag(&self, ran: &Ran, at: usize) -> StageTag {
        StageTag { session: self.session.id.clone(), call: ran.call.id(), at }
    }

    /// Puts staged copies in place. `wrote` are the keys that were written with them.
    pub(super) async fn place_all(
        &mut self,
        call: CallId,
        files: Vec<FileChange>,
        wrote: &[Key],
    ) -> Result<(), DriveFault> {
        for (at, change) in files.into_iter().enumerate() {
            let tag = StageTag { session: self.session.id.clone(), call, at };
            let placed = self.runtime.files.place(&tag, &change.path, change.old, change.new);
            crash_point!("after_place");
            let told = match placed {
                Ok(Placed::Done) => continue,
                Ok(Placed::Conflict { found }) => {
                    let unplaced = self.unplaced.entry(change.path.clone()).or_default();
                    unplaced.extend(wrote.iter().cloned());
                    drop(self.runtime.files.set_aside(&tag));
                    conflicted(call, change.path, found)
                }
                // It is tried again before the next step, and at the next start.
                Err(fault) => {
                    let note = format!("{fault}. What {call} wrote is kept and put there later.");
                    let (path, call) = (change.path, Some(call));
                    Event::FileConflicted { call, path, found: change.old, note }
                }
            };
            self.note(&Actor::System, told)?;
            self.flush().await?;
        }
        Ok(())
    }
}

/// Drops what a call staged. A staged call fails by that; what reached the world stays settled.
fn give_up(ran: &mut Ran, ended: &mut Ended, trouble: Trouble) {
    if ended.outcome != Outcome::Done {
        return;
    }
    ran.staged.forget();
    if ran.call.spec().effect.needs_intent() {
        let message = trouble.message;
        ended
            .warnings
            .push(format!("The call took effect, but what it staged here was dropped: {message}"));
    } else {
        *ended = Ended::failed(vec![trouble]);
    }
}

/// What the log says of a file that somebody else was quicker with.
pub(super) fn conflicted(call: CallId, path: String, found: Option<Digest>) -> Event {
    let note = format!(
        "{path} was changed by somebody else at the same moment. It was left as it is; look at it \
         before you go on."
    );
    Event::FileConflicted { call: Some(call), path, found, note }
}

fn file_changes(ran: &Ran) -> Vec<FileChange> {
    let change = |(path, file): (&String, &StagedFile)| {
        let key = file_key(path).ok();
        let old = ran.touched.iter().find(|touched| Some(&touched.key) == key.as_ref());
        FileChange {
            path: path.clone(),
            old: old.and_then(|touched| touched.version),
            new: file.version,
            kept: false,
        }
    };
    ran.staged.files.iter().map(change).collect()
}
