//! Decides how a log is read to look at it: folded from its beginning, whoever wrote it.

use anyhow::{Result, bail};
use toolgate_kernel::event::{Event, ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::names::SessionId;
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;

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

/// A session alone.
pub(crate) async fn session(store: &dyn Store, id: &SessionId) -> Result<Session> {
    Ok(fold(store, id, drop).await?.0)
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
        bail!("there is no session {id}; `toolgate sessions list` shows those there are");
    }
    Ok((session, tip))
}
