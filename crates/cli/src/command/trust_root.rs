//! Compares who may decide in a log with the keys that an auditor knows from elsewhere. Without that a log
//! that somebody made with keys of their own verifies as well.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Serialize;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::event::{ProjectEvent, Record, StreamId};
use toolgate_runtime::log::{Tip, read_from};
use toolgate_runtime::port::Store;

use crate::project::named;

/// People that a list has at most.
const PEOPLE_MAX: usize = 10_000;

/// What an auditor knows.
#[derive(Args)]
pub(crate) struct RootArgs {
    /// The key of the person who decided first in this log, as `toolgate people key` prints it.
    #[arg(long, value_name = "KEY", value_parser = person_key)]
    root: Option<PersonKey>,
    /// A file with the people who may be enrolled in this log: a name and a key on each line.
    #[arg(long, value_name = "FILE")]
    people: Option<PathBuf>,
}

/// Whose decisions all others rest on.
#[derive(Debug, Serialize)]
pub(crate) struct RootOfTrust {
    /// How the first owner is called in the log.
    pub(crate) name: String,
    /// The key of the first owner.
    pub(crate) key: PersonKey,
    /// What vouches for that key.
    pub(crate) basis: RootBasis,
}

/// What vouches for the key of the first owner.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RootBasis {
    /// `--root` or `--people` names it.
    Named(String),
    /// The log was in use here, and what is remembered of it includes that decision.
    SeenHere,
    /// Nothing does.
    Nothing,
}

/// The root of trust of a log, and what is wrong with it.
pub(crate) struct RootCheck {
    pub(crate) root: Option<RootOfTrust>,
    pub(crate) problems: Vec<RootProblem>,
}

/// A key that the auditor does not know, with the record of the project that enrolled it; zero where there is
/// none.
pub(crate) struct RootProblem {
    pub(crate) seq: u64,
    pub(crate) what: String,
}

/// Somebody who was enrolled.
struct EnrolmentRecord {
    seq: u64,
    name: String,
    key: PersonKey,
}

/// A person's key as it is printed.
fn person_key(text: &str) -> Result<PersonKey, String> {
    PersonKey::try_from(text.trim().to_owned())
        .map_err(|_| format!("{text:?} is not a key; `toolgate people key` prints one"))
}

impl RootArgs {
    /// Compares the people of a log. `is_known_here` says whether this log was in use here, and
    /// `remembered` is who decided first when it was.
    pub(crate) async fn check(
        &self,
        store: &dyn Store,
        is_known_here: bool,
        remembered: Option<PersonKey>,
    ) -> Result<RootCheck> {
        let people = self.people.as_deref().map(listed).transpose()?;
        let mut enrolled = Vec::new();
        let take = |record: Record<ProjectEvent>, _: &_| {
            if let ProjectEvent::PersonEnrolled { key, name, .. } = record.event {
                enrolled.push(EnrolmentRecord { seq: record.seq, name, key });
            }
        };
        // What cannot be read is in the report of the log already.
        drop(read_from(store, &StreamId::Project, Tip::START, take).await);
        let mut problems = Vec::new();
        if let Some((file, known)) = &people {
            let strangers = enrolled.iter().filter(|one| !known.contains(&one.key));
            problems.extend(strangers.map(|one| RootProblem {
                seq: one.seq,
                what: format!("{} was enrolled with a key that {file} does not name", one.name),
            }));
        }
        let first = enrolled.first();
        if let Some(root) = self.root
            && first.is_none_or(|first| first.key != root)
        {
            let seq = first.map_or(0, |first| first.seq);
            let what = match first {
                Some(_) => "the person who decided first has another key than --root says",
                None => "no person decided anything, and --root names one who did",
            };
            problems.push(RootProblem { seq, what: what.to_owned() });
        }
        if remembered.is_some() && remembered != first.map(|first| first.key) {
            let what = "another person decided first when this log was first seen here";
            let seq = first.map_or(0, |first| first.seq);
            problems.push(RootProblem { seq, what: what.to_owned() });
        }
        let is_listed = |key| people.as_ref().filter(|(_, known)| known.contains(key));
        let root = first.map(|first| {
            let basis = if self.root == Some(first.key) {
                RootBasis::Named("--root".to_owned())
            } else if let Some((file, _)) = is_listed(&first.key) {
                RootBasis::Named(file.clone())
            } else if is_known_here {
                RootBasis::SeenHere
            } else {
                RootBasis::Nothing
            };
            RootOfTrust { name: first.name.clone(), key: first.key, basis }
        });
        Ok(RootCheck { root, problems })
    }
}

impl RootOfTrust {
    /// What vouches for it, for people.
    pub(crate) fn line(&self) -> String {
        let basis = match &self.basis {
            RootBasis::Named(by) => format!("as {by} says"),
            RootBasis::SeenHere => "as it was seen here before".to_owned(),
            RootBasis::Nothing => {
                "and nothing here vouches for that key: compare it, or use --root".to_owned()
            }
        };
        format!("{} decided first, with the key {}…, {basis}.", self.name, self.key.short())
    }
}

/// The keys of a file, and how the file is called.
fn listed(path: &Path) -> Result<(String, Vec<PersonKey>)> {
    let (file, bytes) = named(path)?;
    let text = String::from_utf8(bytes).ok().with_context(|| format!("{file} is not a text"))?;
    let mut known = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let key = match (words.next(), words.next(), words.next()) {
            (Some(_), Some(key), None) => PersonKey::try_from(key.to_owned()).ok(),
            _ => None,
        };
        let Some(key) = key else {
            bail!(
                "{file}, line {}: write a name and a key, as `toolgate people key` prints it",
                at + 1
            )
        };
        ensure!(known.len() < PEOPLE_MAX, "{file} names more than {PEOPLE_MAX} people");
        known.push(key);
    }
    ensure!(!known.is_empty(), "{file} names nobody");
    Ok((file, known))
}
