//! Decides whether a log is what was written: every chain, head, receipt and cross-reference.

mod decisions;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Envelope;
use toolgate_kernel::event::{
    Event, Forked, InboxEvent, ProjectEvent, Record, Said, Saw, StreamId,
};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::{CallId, SessionId, ToolName};
use toolgate_kernel::receipt::SettledCall;
use toolgate_kernel::tree::{LogId, TreeHead};

use self::decisions::InboxRecord;
use crate::authority::{check_project, is_signed};
use crate::checkpoint;
use crate::fork::misfit;
use crate::log::{PAGE_ROWS, Tip};
use crate::port::{Checkpoint, IntegrityProblem, Row, Store, StoreFault, StreamHead};

/// What was found in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Streams, with how many records each has.
    pub streams: BTreeMap<String, u64>,
    /// Everything that is not as it was written, in order.
    pub problems: Vec<Problem>,
}

/// One thing that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The stream; `log` when it concerns all of them.
    pub stream: String,
    /// The record; zero when it concerns the stream as a whole.
    pub seq: u64,
    /// What is wrong.
    pub what: Cow<'static, str>,
}

/// Reads everything and checks it. It changes nothing.
pub async fn verify(store: &dyn Store) -> Result<Report, StoreFault> {
    let mut check = Check {
        log: store.log_id(),
        report: Report::default(),
        project: Vec::new(),
        inboxes: BTreeMap::new(),
        statements: BTreeSet::new(),
        fold: Project::default(),
        sealed: Vec::new(),
        forks: Vec::new(),
    };
    match store.integrity().await {
        Ok(problems) => {
            for IntegrityProblem { stream, seq, what } in problems {
                check.problem_of(stream, seq, what);
            }
        }
        Err(StoreFault::Damaged(what)) => check.problem_of("log".to_owned(), 0, what),
        Err(fault) => return Err(fault),
    }
    let heads = match store.heads().await {
        Err(StoreFault::Damaged(_)) => {
            check.problem_of("log".to_owned(), 0, "the list of streams cannot be read");
            return Ok(check.report);
        }
        heads => heads?,
    };
    let mut present = BTreeSet::new();
    // The project first, then inboxes, because sessions refer to both.
    for wanted in [0, 2, 1] {
        for head in heads.iter().filter(|head| rank(&head.stream) == wanted) {
            present.insert(head.stream.clone());
            check.stream(store, head).await?;
        }
    }
    check.sealed(store).await?;
    check.restores(store).await?;
    check.forks(store).await?;
    check.lost(&present);
    Ok(check.report)
}

fn rank(stream: &StreamId) -> u8 {
    match stream {
        StreamId::Project => 0,
        StreamId::Session(_) => 1,
        StreamId::Inbox(_) => 2,
    }
}

struct Check {
    report: Report,
    /// Chain hash of every project record, and the sessions it says were opened.
    project: Vec<(Digest, Option<SessionId>)>,
    /// What is known of every inbox record, by session.
    inboxes: BTreeMap<SessionId, Vec<InboxRecord>>,
    /// The statements that stand in inboxes and sessions.
    statements: BTreeSet<Digest>,
    log: LogId,
    /// The project as far as it was read.
    fold: Project,
    /// Heads that people saw when they decided, each with the record that says so.
    sealed: Vec<(StreamId, u64, TreeHead)>,
    /// Sessions that were forked, each with the record that says so.
    forks: Vec<(StreamId, u64, Box<Forked>)>,
}

impl Check {
    async fn stream(&mut self, store: &dyn Store, head: &StreamHead) -> Result<(), StoreFault> {
        let stream = &head.stream;
        let mut session = SessionCheck::default();
        let kept = match store.checkpoint(stream).await {
            // What is wrong with it was found beside the records.
            Err(StoreFault::Damaged(_)) => None,
            kept => kept?,
        };
        let mut replay = Replay::of(stream);
        let mut tip = Tip::START;
        let mut expected = 1;
        let mut page = PAGE_ROWS;
        loop {
            let rows = match store.read(stream, expected, page).await {
                // One of many: row by row it is found which.
                Err(StoreFault::Damaged(_)) if page > 1 => {
                    page = 1;
                    continue;
                }
                Err(StoreFault::Damaged(_)) => {
                    self.problem(stream, expected, "what is stored from here on cannot be read");
                    self.report.streams.insert(stream.to_string(), tip.seq);
                    return Ok(());
                }
                rows => rows?,
            };
            for row in &rows {
                if row.seq != expected {
                    self.problem(stream, expected, "the record is missing");
                } else if tip.follow(row).is_none() {
                    self.problem(stream, row.seq, "the record is not the one that was written");
                }
                let before = tip.hash;
                // Go on from what is stored, so that one wound is reported once.
                tip = Tip { seq: row.seq, hash: row.hash };
                expected = row.seq.saturating_add(1);
                self.record(stream, row, before, &mut session);
                self.signed(store, stream, &mut session).await?;
                self.kept(store, stream, row.seq, &mut session).await?;
                if let Some(kept) = kept.as_ref().filter(|kept| kept.seq >= row.seq) {
                    replay.apply(row);
                    if kept.seq == row.seq && (kept.hash != row.hash || !replay.agrees(kept)) {
                        self.problem(stream, row.seq, "the checkpoint is of another history");
                    }
                }
            }
            if rows.len() < page {
                break;
            }
        }
        self.epoch(store, stream, session.epoch).await?;
        if kept.as_ref().is_some_and(|kept| kept.seq > head.seq) {
            self.problem(stream, head.seq, "the checkpoint has seen later records");
        }
        if tip.seq < head.seq {
            self.problem(stream, tip.seq.saturating_add(1), "the records from here on are cut off");
        } else if tip.seq > head.seq {
            self.problem(
                stream,
                head.seq.saturating_add(1),
                "there are records after the signed head",
            );
        } else if tip.hash != head.link {
            self.problem(stream, head.seq, "the signed head is of another history");
        }
        self.report.streams.insert(stream.to_string(), tip.seq);
        Ok(())
    }

    fn record(&mut self, stream: &StreamId, row: &Row, before: Digest, session: &mut SessionCheck) {
        let sound = match stream {
            StreamId::Project => match Record::<ProjectEvent>::decode(&row.bytes) {
                Ok(record) => {
                    self.seals(stream, &record);
                    self.decided(stream, row.seq, check_project(self.log, &self.fold, &record));
                    self.pin(stream, &record);
                    if record.seq == self.fold.seq.saturating_add(1) {
                        self.fold.apply(&record);
                    }
                    let opened = match record.event {
                        ProjectEvent::SessionOpened { session } => Some(session),
                        ProjectEvent::ProjectOpened { .. }
                        | ProjectEvent::PersonEnrolled { .. }
                        | ProjectEvent::PersonRevoked { .. }
                        | ProjectEvent::ConfigTrusted { .. }
                        | ProjectEvent::ClientDelegated(_)
                        | ProjectEvent::FamiliesMarked { .. }
                        | ProjectEvent::FamiliesCleared { .. }
                        | ProjectEvent::DelegationEnded { .. }
                        | ProjectEvent::LogRestored { .. }
                        | ProjectEvent::DelegationUsed { .. }
                        | ProjectEvent::ProjectConfigured { .. }
                        | ProjectEvent::ToolPinned(_)
                        | ProjectEvent::CatalogueDecided(_)
                        | ProjectEvent::ProjectChanged { .. } => None,
                    };
                    self.project.push((row.hash, opened));
                    record.seq == row.seq
                }
                Err(_) => false,
            },
            StreamId::Inbox(id) => {
                let record = Record::<InboxEvent>::decode(&row.bytes).ok();
                let sound = record.as_ref().is_some_and(|record| record.seq == row.seq);
                if let Some(record) = &record {
                    self.seals(stream, record);
                    self.saw(record.saw);
                }
                let known = InboxRecord { hash: row.hash, said: Digest::ZERO };
                self.inboxes.entry(id.clone()).or_default().push(known);
                session.word = record.map(Box::new);
                sound
            }
            StreamId::Session(id) => match Record::<Event>::decode(&row.bytes) {
                Ok(record) => {
                    session.seen = record.saw.or(session.seen);
                    self.seals(stream, &record);
                    session.signed = is_signed(&record, stream).then(|| Box::new(record.clone()));
                    self.session_record(stream, id, before, &record, session);
                    record.seq == row.seq
                }
                Err(_) => false,
            },
        };
        if !sound {
            self.problem(stream, row.seq, "the record cannot be read in this place");
        }
    }

    /// Whether the stored epoch is one that the records could have been written under. It only grows,
    /// and one that was set back would let a driver that was replaced write again.
    async fn epoch(
        &mut self,
        store: &dyn Store,
        stream: &StreamId,
        written: u64,
    ) -> Result<(), StoreFault> {
        let stored = match store.epoch(stream).await {
            Err(StoreFault::Damaged(_)) => {
                self.problem(stream, 0, "the epoch cannot be read");
                return Ok(());
            }
            stored => stored?,
        };
        let is_session = matches!(stream, StreamId::Session(_));
        if is_session && stored < written {
            self.problem(stream, 0, "the epoch was set back, below that of the records");
        } else if !is_session && stored != 0 {
            self.problem(stream, 0, "the epoch is not 0, though no driver owns this stream");
        }
        Ok(())
    }

    /// Whether what was kept aside is still there, and what it was: results, pictures, and what files
    /// said before a call changed them.
    async fn kept(
        &mut self,
        store: &dyn Store,
        stream: &StreamId,
        seq: u64,
        session: &mut SessionCheck,
    ) -> Result<(), StoreFault> {
        for (kept, must) in std::mem::take(&mut session.kept) {
            match store.blob(kept).await {
                Ok(Some(_)) => {}
                Ok(None) if !must => {}
                Ok(None) => self.problem(stream, seq, "what was kept aside is lost"),
                Err(StoreFault::Damaged(_)) => {
                    self.problem(stream, seq, "what was kept aside is another one");
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn session_record(
        &mut self,
        stream: &StreamId,
        id: &SessionId,
        before: Digest,
        record: &Record<Event>,
        session: &mut SessionCheck,
    ) {
        self.saw(record.saw);
        if let Event::Opened { session, .. } = &record.event
            && session != id
        {
            self.problem(stream, record.seq, "the record belongs to another session");
        }
        self.heard(id, record);
        if record.epoch < session.epoch {
            self.problem(stream, record.seq, "a driver that was replaced before wrote this record");
        }
        session.epoch = record.epoch;
        if let Event::Opened { images, .. }
        | Event::Heard { said: Said::Feedback { images, .. }, .. } = &record.event
        {
            session.must_keep(images.iter().map(|image| image.hash));
        }
        if let Event::ConfigBound { file: Some(file), .. } = &record.event {
            session.must_keep([file.text]);
        }
        if let Event::Forked(forked) = &record.event {
            self.forks.push((stream.clone(), record.seq, forked.clone()));
        }
        // One program wrote both, in one append.
        if let (Event::ConfigBound { program, .. }, Some((fork, seq, forked))) =
            (&record.event, self.forks.last())
            && (fork, seq.saturating_add(1)) == (stream, record.seq)
            && *program != forked.program
        {
            self.problem(stream, record.seq - 1, "another program than it says forked it");
        }
        self.authority(stream, id, record, session);
        if let Event::CallAdmitted(admitted) = &record.event {
            let call = (admitted.tool.clone(), admitted.args_hash);
            session.admitted.insert(admitted.call, call);
        }
        if let Event::CallSettled(settled) = &record.event {
            session.must_keep(settled.kept.map(|kept| kept.hash));
            let shown = settled.attached.iter().filter(|attached| attached.shown);
            session.must_keep(shown.map(|attached| attached.hash));
            // Older records do not say whether it was kept. Where it was, it must be what it was.
            let replaced = settled.files.iter().filter_map(|file| Some((file.old?, file.kept)));
            session.kept.extend(replaced);
            let admitted = session.admitted.remove(&settled.call);
            if !receipt_holds(before, settled.call, admitted, &settled.envelope) {
                self.problem(stream, record.seq, "the receipt does not fit the call");
            }
        }
    }

    /// Whether what a record saw of the project is what stands there.
    fn saw(&mut self, saw: Option<Saw>) {
        let at = |seq: u64| usize::try_from(seq.saturating_sub(1)).unwrap_or(usize::MAX);
        if let Some(saw) = saw
            && self.project.get(at(saw.seq)).map(|(hash, _)| *hash) != Some(saw.hash)
        {
            self.problem(&StreamId::Project, saw.seq, "a session saw another record here");
        }
    }

    /// Whether forks begin with what the sessions knew that they were forked from.
    async fn forks(&mut self, store: &dyn Store) -> Result<(), StoreFault> {
        for (stream, seq, forked) in std::mem::take(&mut self.forks) {
            if let Some(what) = misfit(store, &forked).await? {
                self.problem(&stream, seq, what);
            }
        }
        Ok(())
    }

    /// Streams that must exist and do not.
    fn lost(&mut self, present: &BTreeSet<StreamId>) {
        if present.is_empty() && self.report.problems.is_empty() {
            let what = "there is no record: none was written yet, or all were removed";
            self.problem(&StreamId::Project, 0, what);
        } else if !present.contains(&StreamId::Project) {
            self.problem(&StreamId::Project, 0, "the whole stream is lost");
        }
        let opened: Vec<SessionId> =
            self.project.iter().filter_map(|(_, opened)| opened.clone()).collect();
        for id in &opened {
            let stream = StreamId::Session(id.clone());
            if !present.contains(&stream) {
                self.problem(&stream, 0, "the whole stream is lost");
            }
        }
        for stream in present {
            if let StreamId::Session(id) = stream
                && !opened.contains(id)
            {
                self.problem(stream, 0, "the project does not know this session");
            }
        }
    }

    fn problem(&mut self, stream: &StreamId, seq: u64, what: &'static str) {
        self.problem_of(stream.to_string(), seq, what);
    }

    fn problem_of(&mut self, stream: String, seq: u64, what: impl Into<Cow<'static, str>>) {
        let problem = Problem { stream, seq, what: what.into() };
        if !self.report.problems.contains(&problem) {
            self.report.problems.push(problem);
        }
    }
}

/// The fold of a stream, for comparing with its checkpoint.
enum Replay {
    Project(Box<Project>),
    Session(Box<Session>),
    None,
}

impl Replay {
    fn of(stream: &StreamId) -> Self {
        match stream {
            StreamId::Project => Self::Project(Box::default()),
            StreamId::Session(id) => Self::Session(Box::new(Session::new(id.clone()))),
            StreamId::Inbox(_) => Self::None,
        }
    }

    /// Follows one record. What does not fit is reported elsewhere.
    fn apply(&mut self, row: &Row) {
        match self {
            Self::Project(project) => {
                if let Ok(record) = Record::<ProjectEvent>::decode(&row.bytes)
                    && record.seq == project.seq.saturating_add(1)
                {
                    project.apply(&record);
                }
            }
            Self::Session(session) => {
                if let Ok(record) = Record::<Event>::decode(&row.bytes)
                    && record.seq == session.seq.saturating_add(1)
                {
                    session.apply(&record);
                }
            }
            Self::None => {}
        }
    }

    fn agrees(&self, kept: &Checkpoint) -> bool {
        match self {
            Self::Project(project) => checkpoint::agrees(kept, project.as_ref()),
            Self::Session(session) => checkpoint::agrees(kept, session.as_ref()),
            Self::None => true,
        }
    }
}

/// What a session hears and from whom, as one hash.
fn heard_hash(who: &Actor, heard: &Event) -> Digest {
    serde_json::to_value((who, heard)).map_or(Digest::ZERO, |value| Digest::of_json(&value))
}

#[derive(Default)]
struct SessionCheck {
    /// The newest project head it saw so far.
    seen: Option<Saw>,
    /// The record at hand, where a person must have signed it.
    signed: Option<Box<Record<Event>>>,
    /// The record at hand, where it is one of an inbox.
    word: Option<Box<Record<InboxEvent>>>,
    admitted: BTreeMap<CallId, (ToolName, Digest)>,
    epoch: u64,
    /// What the record at hand says was kept aside, and whether it is known to have been.
    kept: Vec<(Digest, bool)>,
    /// What the records so far add up to.
    fold: Option<Session>,
}

impl SessionCheck {
    fn must_keep(&mut self, hashes: impl IntoIterator<Item = Digest>) {
        self.kept.extend(hashes.into_iter().map(|hash| (hash, true)));
    }
}

/// Whether the receipt of a settled call is the one that its content and place give.
fn receipt_holds(
    link_before: Digest,
    call: CallId,
    admitted: Option<(ToolName, Digest)>,
    envelope: &Envelope,
) -> bool {
    let Some((tool, args_hash)) = admitted else { return false };
    let (tool, args_hash) = (&tool, &args_hash);
    let settled = SettledCall { link_before, call, tool, args_hash, envelope };
    envelope.receipt == Some(settled.receipt())
}
