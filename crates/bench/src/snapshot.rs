//! Measures one snapshot of session and project at growing sizes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use toolgate_kernel::event::Change;
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::SessionId;

use crate::meter::{ROUNDS, cpu, per_call};

const SNAPSHOTS: u32 = 1_000_000;

pub(crate) fn run() -> Result<()> {
    for keys in [10_u32, 1_000, 100_000] {
        let mut session = Session::new(SessionId::parse("bench")?);
        let mut project = Project::default();
        for at in 0..keys {
            let key = Key::parse(&format!("note:{at}"))?;
            let change =
                Change::Put { key, value: json!({ "text": "some words", "at": at }), v: 1 };
            session.state.apply(&change)?;
            project.state.apply(&change)?;
        }
        // What a transaction holds: both folds as they are, whatever happens afterwards.
        let (session, project) = (Arc::new(session), Arc::new(project));
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let before = cpu();
            for _ in 0..SNAPSHOTS {
                std::hint::black_box((Arc::clone(&session), Arc::clone(&project)));
            }
            best = best.min(cpu() - before);
        }
        println!("{{\"what\":\"snapshot\",\"keys\":{keys},\"ns\":{}}}", per_call(best, SNAPSHOTS));
        let copy = |best: Duration| best;
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let before = cpu();
            for _ in 0..SNAPSHOTS / 10 {
                std::hint::black_box((Session::clone(&session), Project::clone(&project)));
            }
            best = copy(best.min(cpu() - before));
        }
        let ns = per_call(best, SNAPSHOTS / 10);
        println!("{{\"what\":\"copy on first write\",\"keys\":{keys},\"ns\":{ns}}}");
    }
    Ok(())
}
