//! Decides what a board is, which one a word means, and how many revisions are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::names::Family;
use toolgate_runtime::Transaction;
use toolgate_runtime::port::Fault;

use super::{ACTIVE, BOARD, REVISION, WHOLE};
use crate::domain::{check_length, given, key};
use crate::text::{LISTED_MAX, check_name};

pub(super) const NAME_CHARS_MAX: usize = 100;
const SUMMARY_CHARS_MAX: usize = 250;
const CONTENT_CHARS_MAX: usize = 100_000;
/// A content longer than this is warned of.
const CONTENT_CHARS_MANY: usize = 10_000;
/// Boards there may be, deleted ones among them.
const BOARDS_MAX: u64 = 100;
/// Earlier contents that are kept of each board.
const REVISIONS_KEPT: u64 = 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Board {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) summary: String,
    pub(super) content: Option<String>,
    pub(super) revision: u64,
    /// When the content was written.
    pub(super) written_at: String,
    pub(super) created_at: String,
    pub(super) updated_at: String,
    pub(super) deleted_at: Option<String>,
}

/// What is kept of all boards together. An undo takes nothing of it back.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Whole {
    last: u64,
    changes: u64,
    /// The last revision that each board ever had, by its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    revisions: BTreeMap<String, u64>,
}

/// A content as it was before another one took its place.
#[derive(Serialize, Deserialize)]
pub(super) struct Revision {
    pub(super) revision: u64,
    pub(super) content: Option<String>,
    pub(super) written_at: String,
}

impl Board {
    /// A new board in its first revision.
    pub(super) fn new(
        tx: &mut Transaction,
        name: String,
        summary: String,
        content: Option<String>,
    ) -> Result<Self, Fault> {
        check_length("content", content.as_deref().unwrap_or_default(), CONTENT_CHARS_MAX)?;
        let mut whole: Whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
        whole.last += 1;
        if u64::try_from(all(tx)?.len()).unwrap_or(u64::MAX) >= BOARDS_MAX {
            let message =
                format!("There are {BOARDS_MAX} boards, deleted ones among them. Use one of them.");
            return Err(Fault::failed(message));
        }
        tx.put(&key(WHOLE)?, &whole)?;
        let now = tx.now().to_string();
        Ok(Self {
            id: format!("b{}", whole.last),
            name,
            summary,
            content: content.filter(|content| !content.is_empty()),
            revision: 1,
            written_at: now.clone(),
            created_at: now.clone(),
            updated_at: now,
            deleted_at: None,
        })
    }

    /// Gives it another content. Only a content that differs is a new revision.
    pub(super) fn write(&mut self, tx: &mut Transaction, content: String) -> Result<(), Fault> {
        check_length("content", &content, CONTENT_CHARS_MAX)?;
        let content = Some(content).filter(|content| !content.is_empty());
        if content == self.content {
            return Ok(());
        }
        let now = tx.now().to_string();
        let (content, written_at) =
            (std::mem::replace(&mut self.content, content), self.written_at.clone());
        let before = Revision { revision: self.revision, content, written_at };
        tx.put(&key(&format!("{REVISION}:{}/{}", self.id, self.revision))?, &before)?;
        let mut whole: Whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
        // A number that was given out stays with what it named, though that was undone.
        let last = whole.revisions.get(&self.id).copied().unwrap_or_default().max(self.revision);
        let kept_from = |revision: u64| revision.saturating_sub(REVISIONS_KEPT);
        for old in kept_from(self.revision)..kept_from(last + 1) {
            tx.remove(&key(&format!("{REVISION}:{}/{old}", self.id))?)?;
        }
        (self.revision, self.written_at) = (last + 1, now);
        whole.revisions.insert(self.id.clone(), self.revision);
        tx.put(&key(WHOLE)?, &whole)
    }

    /// The earlier contents that are kept, newest first.
    pub(super) fn revisions(&self, tx: &Transaction) -> Result<Vec<Revision>, Fault> {
        let mut kept = Vec::new();
        for revision in (self.revision.saturating_sub(REVISIONS_KEPT)..self.revision).rev() {
            kept.extend(tx.load(&key(&format!("{REVISION}:{}/{revision}", self.id))?)?);
        }
        Ok(kept)
    }

    pub(super) fn keep(&self, tx: &mut Transaction) -> Result<(), Fault> {
        let mut whole: Whole = tx.load(&key(WHOLE)?)?.unwrap_or_default();
        whole.changes += 1;
        tx.put(&key(WHOLE)?, &whole)?;
        tx.put(&key(&format!("{BOARD}:{}", self.id))?, self)
    }

    pub(super) fn chars(&self) -> usize {
        self.content.as_ref().map_or(0, |content| content.chars().count())
    }

    /// The board with everything it says.
    pub(super) fn whole(&self, tx: &Transaction) -> Result<Value, Fault> {
        let mut shown = self.outline(tx)?;
        let chars = self.chars();
        let warning = (chars > CONTENT_CHARS_MANY)
            .then(|| format!("The content has {chars} characters. Shorten it to what matters."));
        if let Value::Object(shown) = &mut shown {
            shown.insert("content".to_owned(), self.content.clone().into());
            shown.insert("warning".to_owned(), warning.into());
        }
        Ok(shown)
    }

    /// The board as a list shows it.
    pub(super) fn outline(&self, tx: &Transaction) -> Result<Value, Fault> {
        let active = active(tx)?.is_some_and(|board| board.id == self.id);
        Ok(json!({
            "id": self.id,
            "name": self.name,
            "summary": self.summary,
            "revision": self.revision,
            "characters": self.chars(),
            "active": active,
            "updated_at": self.updated_at,
            "deleted_at": self.deleted_at,
        }))
    }
}

/// Every board, deleted ones too, in the order in which they were made.
pub(super) fn all(tx: &Transaction) -> Result<Vec<Board>, Fault> {
    let family = Family::parse(BOARD).map_err(|refusal| Fault::failed(refusal.to_string()))?;
    let mut boards = Vec::new();
    for (name, _) in tx.list(&family)? {
        boards.extend(tx.load::<Board>(&key(&format!("{BOARD}:{name}"))?)?);
    }
    boards.sort_by_key(|board| (board.id.len(), board.id.clone()));
    Ok(boards)
}

/// The board that is active in this session. One that was deleted since is not.
pub(super) fn active(tx: &Transaction) -> Result<Option<Board>, Fault> {
    let Some(id) = tx.load::<String>(&key(ACTIVE)?)? else { return Ok(None) };
    let board: Option<Board> = tx.load(&key(&format!("{BOARD}:{id}"))?)?;
    Ok(board.filter(|board| board.deleted_at.is_none()))
}

/// Makes a board the active one, unless another is.
pub(super) fn link(tx: &mut Transaction, board: &Board) -> Result<(), Fault> {
    if active(tx)?.is_some() {
        return Ok(());
    }
    tx.put(&key(ACTIVE)?, &board.id)
}

/// The board that a word means: by id, by name, by name in any case, by a part of its name. In a
/// part, `-` stands for anything. What names a deleted board exactly means no other one.
pub(super) fn find(tx: &Transaction, word: &str, deleted: bool) -> Result<Board, Fault> {
    let boards = all(tx)?;
    let lower = word.to_lowercase();
    let by_id = |board: &Board| board.id == word;
    let by_name = |board: &Board| board.name == word;
    let any_case = |board: &Board| board.name.to_lowercase() == lower;
    let in_part = |board: &Board| has_part(&board.name.to_lowercase(), &lower);
    let levels: [&dyn Fn(&Board) -> bool; 4] = [&by_id, &by_name, &any_case, &in_part];
    let refused = |message: String| {
        let known = boards.iter().filter(|board| board.deleted_at.is_some() == deleted);
        let known = known.take(LISTED_MAX).map(|board| board.name.clone()).collect();
        Fault::failed(message).at("board").allowing(known).with("board", word)
    };
    for fits in levels {
        let (wanted, others): (Vec<&Board>, Vec<&Board>) = boards
            .iter()
            .filter(|board| fits(board))
            .partition(|board| board.deleted_at.is_some() == deleted);
        match (wanted.as_slice(), others.first()) {
            ([board], _) => return Ok(Board::clone(board)),
            ([_, _, ..], _) => {
                let names: Vec<&str> = wanted.iter().map(|board| board.name.as_str()).collect();
                let message = format!("'{word}' can mean {}. Say which", names.join(", "));
                return Err(refused(message));
            }
            ([], Some(other)) if !deleted => {
                return Err(refused(format!(
                    "Board '{}' is deleted. Restore it first",
                    other.name
                )));
            }
            ([], Some(other)) => {
                return Err(refused(format!("Board '{}' is not deleted", other.name)));
            }
            ([], None) => {}
        }
    }
    Err(refused(format!("Board '{word}' not found")))
}

/// Whether the pieces of a word between its dashes stand in a name, in this order.
fn has_part(name: &str, word: &str) -> bool {
    let mut rest = name;
    word.split('-').all(|piece| match rest.split_once(piece) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// Refuses a name that another board has.
pub(super) fn check_free(tx: &Transaction, board: Option<&str>, name: &str) -> Result<(), Fault> {
    let lower = name.to_lowercase();
    let taken = all(tx)?.into_iter().find(|other| {
        other.deleted_at.is_none()
            && Some(other.id.as_str()) != board
            && other.name.to_lowercase() == lower
    });
    match taken {
        None => Ok(()),
        Some(_) => Err(Fault::failed(format!("Name '{name}' has already been taken"))
            .at("name")
            .with("field", "name")),
    }
}

pub(super) fn checked_name(text: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(name) = given(text) else { return Ok(None) };
    check_name("name", name)?;
    check_length("name", name, NAME_CHARS_MAX)?;
    Ok(Some(name.to_owned()))
}

pub(super) fn checked_summary(text: Option<&str>) -> Result<Option<String>, Fault> {
    let Some(summary) = given(text) else { return Ok(None) };
    check_length("summary", summary, SUMMARY_CHARS_MAX)?;
    Ok(Some(summary.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::has_part;

    #[test]
    fn a_dash_stands_for_anything() {
        for (name, word, expected) in [
            ("project roadmap 2026", "roadmap", true),
            ("project roadmap 2026", "project-2026", true),
            ("project roadmap 2026", "2026-project", false),
            ("a-b", "a-b", true),
            ("ab", "a-b", true),
            ("über alles", "ü-s", true),
            ("x", "y", false),
            ("x", "-", true),
        ] {
            assert_eq!(has_part(name, word), expected, "{name} {word}");
        }
    }
}
