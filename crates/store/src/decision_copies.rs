//! Keeps copies of people's decisions outside the project, beside the anchor of the log, so that
//! those which take permission away are not lost with a part of the log.
//!
//! A copy is written before the commit of its record, while no other process can commit. One of a
//! record that was not committed after all does no harm: the person signed it. A copy in a place that
//! an earlier one has, or before it, drops that one: the log went on from there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{ProjectEvent, Record};

/// Bytes of one copy; a longer record is only named.
const COPY_BYTES_MAX: usize = 256 << 10;

/// Bytes of all copies of one log. Beyond that the oldest are dropped.
const COPIES_BYTES_MAX: u64 = 4 << 20;

/// Hex digits of the digest that a copy begins with.
const DIGEST_BYTES: usize = 64;

/// What the bytes of a record with a decision have in them.
const MARK: &[u8] = b"\"decision\":";

/// The families of state whose changes are copied. Other state is not authority.
const COPIED_FAMILIES: &[&str] = &["locks"];

/// The copies of the decisions of one log.
#[derive(Debug, Clone)]
pub(crate) struct DecisionCopies {
    path: PathBuf,
}

/// A record of the project stream with a person's decision.
#[derive(Debug, Clone, PartialEq)]
pub struct CopiedDecision {
    /// Its place in the project stream.
    pub seq: u64,
    /// Chain hash up to and with it.
    pub link: Digest,
    /// The record; absent where it is too long to be kept, or was dropped with all before it.
    pub record: Option<Record<ProjectEvent>>,
}

/// A copy as it is written.
#[derive(Serialize, Deserialize)]
struct StoredCopy {
    seq: u64,
    link: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<Value>,
}

impl DecisionCopies {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Whether copies were ever begun.
    pub(crate) fn exist(&self) -> bool {
        self.path.exists()
    }

    /// Adds records that are about to be committed, as far as they are decisions that are copied.
    pub(crate) fn add<'a>(
        &self,
        rows: impl Iterator<Item = (u64, Digest, &'a [u8])>,
    ) -> io::Result<()> {
        let lines: Vec<String> =
            rows.filter(|(.., bytes)| is_copied(bytes)).filter_map(line).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let mut file = self.open()?;
        let before = file.metadata()?.len();
        let added = lines.concat();
        let bytes = before.saturating_add(u64::try_from(added.len()).unwrap_or(u64::MAX));
        if bytes > COPIES_BYTES_MAX {
            return self.rewrite(&added);
        }
        // What a crash left unfinished is ended first.
        let added = if before > 0 { format!("\n{added}") } else { added };
        file.write_all(added.as_bytes())?;
        file.sync_data()
    }

    /// Begins the copies of a log that has none yet.
    pub(crate) fn begin<'a>(
        &self,
        rows: impl Iterator<Item = (u64, Digest, &'a [u8])>,
    ) -> io::Result<()> {
        self.open()?;
        self.add(rows)
    }

    /// The copies that still count, in the order of the log.
    pub(crate) fn read(&self) -> io::Result<Vec<CopiedDecision>> {
        let text = self.text()?;
        let copies = stored(&text).into_iter().map(|(copy, _)| {
            let bytes = copy.record.and_then(|record| serde_json::to_vec(&record).ok());
            let record = bytes.and_then(|bytes| Record::decode(&bytes).ok());
            CopiedDecision { seq: copy.seq, link: copy.link, record }
        });
        Ok(copies.collect())
    }

    fn text(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => {
                file?.take(2 * COPIES_BYTES_MAX).read_to_end(&mut bytes)?;
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }

    /// Writes the newest half anew, with what was dropped as one line before it.
    fn rewrite(&self, added: &str) -> io::Result<()> {
        let text = format!("{}\n{added}", self.text()?);
        let mut copies = stored(&text);
        let (mut kept, mut from) = (0, copies.len());
        for (at, (_, line)) in copies.iter().enumerate().rev() {
            kept += line.len() + 1;
            if u64::try_from(kept).unwrap_or(u64::MAX) > COPIES_BYTES_MAX / 2 {
                break;
            }
            from = at;
        }
        let newest = copies.split_off(from);
        let dropped = copies.pop().and_then(|(copy, _)| {
            line_of(&StoredCopy { seq: copy.seq, link: copy.link, record: None })
        });
        let mut text = dropped.unwrap_or_default();
        for (_, line) in &newest {
            text.push_str(line);
            text.push('\n');
        }
        let folder = self.path.parent().unwrap_or(std::path::Path::new("."));
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(text.as_bytes())?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.path)?;
        Ok(())
    }
}

/// Whether a record is a decision that is copied.
fn is_copied(bytes: &[u8]) -> bool {
    // Nearly every record of a project is none, and every commit looks.
    if !bytes.windows(MARK.len()).any(|window| window == MARK) {
        return false;
    }
    let Ok(record) = Record::<ProjectEvent>::decode(bytes) else { return false };
    match (&record.decision, &record.event) {
        (None, _) => false,
        (Some(_), ProjectEvent::ProjectChanged { changes, .. }) => changes.iter().any(|change| {
            change.key().is_none_or(|key| COPIED_FAMILIES.contains(&key.family().as_str()))
        }),
        (Some(_), _) => true,
    }
}

fn line((seq, link, bytes): (u64, Digest, &[u8])) -> Option<String> {
    let fits = bytes.len() <= COPY_BYTES_MAX;
    let record = if fits { serde_json::from_slice(bytes).ok() } else { None };
    line_of(&StoredCopy { seq, link, record })
}

fn line_of(copy: &StoredCopy) -> Option<String> {
    let json = serde_json::to_string(copy).ok()?;
    Some(format!("{} {json}\n", Digest::of(json.as_bytes())))
}

/// The copies that still count, each with its line. A damaged line is none.
fn stored(text: &str) -> Vec<(StoredCopy, &str)> {
    let mut copies: Vec<(StoredCopy, &str)> = Vec::new();
    for line in text.lines() {
        let Some((digest, json)) = line.split_at_checked(DIGEST_BYTES) else { continue };
        let json = json.trim_start();
        if Digest::of(json.as_bytes()).to_string() != digest {
            continue;
        }
        let Ok(copy) = serde_json::from_str::<StoredCopy>(json) else { continue };
        while copies.last().is_some_and(|(earlier, _)| earlier.seq >= copy.seq) {
            copies.pop();
        }
        copies.push((copy, line));
    }
    copies
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(seq: u64, event: &serde_json::Value) -> Vec<u8> {
        let statement = json!({
            "log": "00000000000000000000000000000000", "by": "11".repeat(32), "role": "owner",
            "at": 0, "expires": 0, "nonce": "22".repeat(16), "shown": "33".repeat(32),
            "what": {"kind": "end_delegation", "delegation": 1},
        });
        let decision = json!({"statement": statement, "signature": "44".repeat(64)});
        let record = json!({
            "seq": seq, "at": 0, "actor": "human:ada", "epoch": 0, "event": event,
            "decision": decision,
        });
        serde_json::to_vec(&record).unwrap()
    }

    fn ended(seq: u64) -> Vec<u8> {
        row(seq, &json!({"kind": "delegation_ended", "delegation": seq}))
    }

    fn copies() -> (tempfile::TempDir, DecisionCopies) {
        let folder = tempfile::tempdir().unwrap();
        let copies = DecisionCopies::at(folder.path().join("copies"));
        (folder, copies)
    }

    fn add(copies: &DecisionCopies, seq: u64, bytes: &[u8]) {
        copies.add(std::iter::once((seq, Digest::of(bytes), bytes))).unwrap();
    }

    fn places(copies: &DecisionCopies) -> Vec<u64> {
        copies.read().unwrap().iter().map(|copy| copy.seq).collect()
    }

    #[test]
    fn decisions_are_copied_and_other_records_are_not() {
        let (_folder, copies) = copies();
        add(
            &copies,
            1,
            br#"{"seq":1,"at":0,"actor":"system","epoch":0,"event":{"kind":"project_opened"}}"#,
        );
        let put = |key: &str| {
            let put = json!({"op": "put", "key": key, "value": {}, "v": 1});
            json!({"kind": "project_changed", "changes": [put], "reason": ""})
        };
        add(&copies, 2, &row(2, &put("facts:a")));
        assert!(!copies.exist(), "nothing was to be copied");
        add(&copies, 3, &row(3, &put("locks")));
        add(&copies, 4, &ended(4));
        assert_eq!(places(&copies), [3, 4]);
        assert!(copies.read().unwrap().iter().all(|copy| copy.record.is_some()));
    }

    #[test]
    fn where_the_log_went_on_from_an_earlier_place_the_later_copies_are_dropped() {
        let (_folder, copies) = copies();
        for seq in [3, 5, 9, 5, 6] {
            add(&copies, seq, &ended(seq));
        }
        assert_eq!(places(&copies), [3, 5, 6]);
    }

    #[test]
    fn a_line_that_was_not_finished_is_passed_over() {
        let (_folder, copies) = copies();
        add(&copies, 3, &ended(3));
        let mut text = std::fs::read_to_string(&copies.path).unwrap();
        text.push_str(&text.clone()[..100]);
        std::fs::write(&copies.path, text).unwrap();
        add(&copies, 4, &ended(4));
        assert_eq!(places(&copies), [3, 4]);
    }

    #[test]
    fn copies_are_bounded_and_say_what_was_dropped() {
        let (_folder, copies) = copies();
        let long = |seq: u64, bytes: usize| {
            let reason = "x".repeat(bytes);
            row(seq, &json!({"kind": "person_revoked", "key": "11".repeat(32), "reason": reason}))
        };
        for seq in 1..=60 {
            add(&copies, seq, &long(seq, 100_000));
        }
        assert!(std::fs::metadata(&copies.path).unwrap().len() <= COPIES_BYTES_MAX);
        let all = copies.read().unwrap();
        assert_eq!(all.last().map(|copy| copy.seq), Some(60));
        let (first, rest) = all.split_first().unwrap();
        assert!(first.record.is_none() && rest.iter().all(|copy| copy.record.is_some()));
        assert_eq!(first.seq + 1, rest[0].seq, "it names the last one that was dropped");
        add(&copies, 61, &long(61, COPY_BYTES_MAX));
        assert_eq!(copies.read().unwrap().last().unwrap().record, None, "too long");
    }
}
