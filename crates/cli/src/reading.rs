//! Decides how a log is read to look at it: folded from its beginning, whoever wrote it.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::event::{Event, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::SessionId;
use toolgate_runtime::Runtime;
use toolgate_runtime::drive::unknown_restore;
use toolgate_runtime::log::{ReadFault, Tip, read_from, read_signed};
use toolgate_runtime::port::Store;

use crate::host::SystemClock;
use crate::project::Log;

/// A session as its log has it.
pub(crate) struct Read {
    pub(crate) session: Session,
    pub(crate) records: Vec<Record<Event>>,
    /// Where the log ends.
    pub(crate) tip: Tip,
}

/// The project.
pub(crate) async fn project(store: &dyn Store) -> Result<Project> {
    let mut project = Project::default();
    let apply = |record: Record<ProjectEvent>, _: &_| project.apply(&record);
    read_from(store, &StreamId::Project, Tip::START, apply).await?;
    Ok(project)
}

/// A session with its records.
pub(crate) async fn records(store: &dyn Store, id: &SessionId) -> Result<Read> {
    let mut records = Vec::new();
    let (session, tip) = fold(store, id, |record| records.push(record)).await?;
    Ok(Read { session, records, tip })
}

/// A session with its records, and whether they end where the signed head says. Others may add to it
/// meanwhile.
pub(crate) async fn signed(
    log: &Log,
    id: &SessionId,
) -> Result<(Session, Vec<Record<Event>>, bool)> {
    let (mut session, mut records) = (Session::new(id.clone()), Vec::new());
    let each = |record: Record<Event>, _: &_| {
        session.apply(&record);
        records.push(record);
    };
    let stream = StreamId::Session(id.clone());
    let end = read_signed(log.store.as_ref(), &stream, Tip::START, each).await;
    let is_signed = match end {
        Ok(_) => true,
        Err(ReadFault::Unsigned { .. }) => false,
        Err(fault) => return Err(fault.into()),
    };
    ensure!(!records.is_empty(), absent(id));
    Ok((session, records, is_signed))
}

/// Forks of forks that are followed back.
const FORKS_MAX: usize = 100;

/// The records of a session, and before them those of the sessions it was forked from, as far as
/// they count.
pub(crate) async fn history(store: &dyn Store, id: &SessionId) -> Result<Vec<Record<Event>>> {
    let mut parts = vec![records(store, id).await?.records];
    while let Some(part) = parts.last_mut()
        && let Some(Event::Forked(forked)) = part.get(1).map(|record| &record.event)
    {
        let from = forked.from.clone();
        // It began as the other one did.
        part.remove(0);
        let mut before = records(store, &from.session).await?.records;
        before.retain(|record| record.seq <= from.seq);
        parts.push(before);
        ensure!(parts.len() <= FORKS_MAX, "{id} is a fork of more than {FORKS_MAX} forks");
    }
    Ok(parts.into_iter().rev().flatten().collect())
}

/// A session alone.
pub(crate) async fn session(store: &dyn Store, id: &SessionId) -> Result<Session> {
    Ok(fold(store, id, drop).await?.0)
}

/// A session as it will be when somebody drives it on: with what lies in its inbox.
pub(crate) async fn caught_up(log: &Log, id: &SessionId) -> Result<Session> {
    caught_up_in(log, &project(log.store.as_ref()).await?, id).await
}

/// The same in a project that was read already.
pub(crate) async fn caught_up_in(log: &Log, project: &Project, id: &SessionId) -> Result<Session> {
    let mut session = session(log.store.as_ref(), id).await?;
    let runtime = Runtime::new(Arc::clone(&log.store), Arc::new(SystemClock));
    for word in runtime.unheard(&session).await? {
        let (seq, at, actor) = (session.seq + 1, word.record.at, word.record.actor.clone());
        let event = word.heard();
        session.apply(&Record { seq, at, actor, epoch: 0, saw: None, event, decision: None });
    }
    // What was decided before the log was restored does not count any more.
    if let Some(restore) = unknown_restore(project, session.restored) {
        let (seq, at, epoch) = (session.seq + 1, session.last_at, session.epoch);
        let (actor, event) = (Actor::System, Event::LogRestored { restore });
        session.apply(&Record { seq, at, actor, epoch, saw: None, event, decision: None });
    }
    Ok(session)
}

async fn fold(
    store: &dyn Store,
    id: &SessionId,
    mut each: impl FnMut(Record<Event>),
) -> Result<(Session, Tip)> {
    let mut session = Session::new(id.clone());
    let stream = StreamId::Session(id.clone());
    let tip = read_from(store, &stream, Tip::START, |record, _| {
        session.apply(&record);
        each(record);
    })
    .await?;
    if tip.seq == 0 {
        bail!(absent(id));
    }
    Ok((session, tip))
}

fn absent(id: &SessionId) -> String {
    format!("there is no session {id}; `toolgate sessions list` shows those there are")
}
