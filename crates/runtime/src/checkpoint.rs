//! Decides when a fold may be taken as it was kept, so that reading need not start at the beginning.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toolgate_kernel::event::StreamId;

use crate::log::Tip;
use crate::port::{Checkpoint, Store, StoreFault};

/// Records that are read anew before a checkpoint is worth its room.
const RECORDS_MIN: u64 = 1_000;

/// A fold with the program that folded it; another program may fold otherwise.
#[derive(Serialize, Deserialize)]
struct Body<F> {
    program: String,
    fold: F,
}

/// Counts the shapes that folds have had within one version of the program. Raise it when a fold has
/// another field or another meaning: what was kept before is then read anew, and not held against
/// the log.
const SHAPE: u16 = 6;

fn program() -> String {
    format!("{} {SHAPE}", env!("CARGO_PKG_VERSION"))
}

/// The fold as it was kept, when it is of this program and of this very history. The store vouches that
/// a signed head covers it.
///
/// Anything else is not a fault: the log is the truth, and it is read from its beginning.
pub(crate) async fn load<F: DeserializeOwned>(
    store: &dyn Store,
    stream: &StreamId,
) -> Result<Option<(F, Tip)>, StoreFault> {
    let Some(kept) = store.checkpoint(stream).await? else { return Ok(None) };
    let rows = store.read(stream, kept.seq, 1).await?;
    if rows.first().is_none_or(|row| row.seq != kept.seq || row.hash != kept.hash) {
        return Ok(None);
    }
    let body: Option<Body<F>> = serde_json::from_slice(&kept.body).ok();
    let fold = body.filter(|body| body.program == program()).map(|body| body.fold);
    Ok(fold.map(|fold| (fold, Tip { seq: kept.seq, hash: kept.hash })))
}

/// Whether a checkpoint says what its place in the log says. One of another program is not asked.
pub(crate) fn agrees<F: Serialize>(kept: &Checkpoint, fold: &F) -> bool {
    let body: Option<Body<serde_json::Value>> = serde_json::from_slice(&kept.body).ok();
    let Some(body) = body else { return false };
    body.program != program() || serde_json::to_value(fold).is_ok_and(|fold| fold == body.fold)
}

/// A fold as it is kept.
pub fn checkpoint_body<F: Serialize>(fold: &F) -> Option<Vec<u8>> {
    serde_json::to_vec(&Body { program: program(), fold }).ok()
}

/// Keeps a fold, when enough was read since the last time.
pub(crate) async fn save<F: Serialize>(
    store: &dyn Store,
    stream: &StreamId,
    fold: &F,
    (from, to): (Tip, Tip),
) -> Result<(), StoreFault> {
    if to.seq.saturating_sub(from.seq) < RECORDS_MIN {
        return Ok(());
    }
    let Some(body) = checkpoint_body(fold) else { return Ok(()) };
    let (stream, seq, hash) = (stream.clone(), to.seq, to.hash);
    store.save_checkpoint(Checkpoint { stream, seq, hash, body }).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolgate_kernel::digest::Digest;
    use toolgate_kernel::fold::{Project, Session};
    use toolgate_kernel::names::SessionId;

    use super::*;

    /// Forgetting to raise `SHAPE` would make `verify` take an old checkpoint for a forgery.
    #[test]
    fn a_fold_with_another_field_has_another_shape() {
        let session = Session::new(SessionId::parse("s").unwrap());
        let folds = [serde_json::to_value(session), serde_json::to_value(Project::default())];
        let fields: Vec<String> = folds
            .into_iter()
            .flat_map(|fold| fold.unwrap().as_object().unwrap().keys().cloned().collect::<Vec<_>>())
            .collect();
        let told = "a fold has another field: raise SHAPE, and write the new digest here";
        assert_eq!(Digest::of(fields.join(" ").as_bytes()).short(), "218c9fa205dd", "{told}");
    }

    /// A fold of before a field was added says less than the log, and is no forgery.
    #[test]
    fn what_an_earlier_program_kept_is_not_held_against_the_log() {
        let stream = StreamId::Project;
        let whole = json!({ "seq": 1, "enrolled": { "seq": 1, "at": 0 } });
        let kept = |program: &str, fold: Value| {
            let body = serde_json::to_vec(&Body { program: program.to_owned(), fold }).unwrap();
            let hash = Digest::of(b"one");
            Checkpoint { stream: stream.clone(), seq: 1, hash, body }
        };
        assert!(agrees(&kept(env!("CARGO_PKG_VERSION"), json!({ "seq": 1 })), &whole));
        assert!(agrees(&kept(&program(), whole.clone()), &whole));
        assert!(!agrees(&kept(&program(), json!({ "seq": 1 })), &whole));
    }
}
