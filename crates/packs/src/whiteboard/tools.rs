//! Decides what the actions of the whiteboard take and answer.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::Family;
use toolgate_kernel::section::{FamilySpec, Home};
use toolgate_kernel::tool::{ACTION, SpecRefusal};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Pack, Transaction};

use super::board::{Board, active, all, check_free, checked_name, checked_summary, find, link};
use super::{ACTIVE, BOARD, NAME, REVISION, WHOLE};
use crate::domain::{Domain, answer, fitting, given, key, whole_and_parts};
use crate::text::counted;

const TEXT: &str = "## Whiteboards\n\n\
    `whiteboard` keeps named texts that all conversations of the project share. One of them is the \
    active board of this conversation; an action without `board` means that one. `board` is an id, \
    a name or a part of a name.";

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// Which board: its id, its name or a part of it; the active one when left out.
    board: Option<String>,
    /// The name, at most 100 characters.
    name: Option<String>,
    /// What the board is for, at most 250 characters.
    summary: Option<String>,
    /// What it says, at most 100000 characters; an empty text clears it, leave it out to keep it.
    content: Option<String>,
    /// Number of an earlier revision whose content is wanted.
    revision: Option<u64>,
}

/// The tool `whiteboard`.
pub fn whiteboard() -> Result<Pack, SpecRefusal> {
    let about = "Shared whiteboards: create, update, get, list, delete, restore, list_deleted, \
                 set_active, revisions.";
    Domain::new(NAME, about)
        .action("create", "Makes a board.", &["name", "summary"], create)
        .action("update", "Changes name, summary or content.", &[], update)
        .action("get", "Shows a board.", &[], get)
        .action("list", "Lists the boards.", &[], list)
        .action("delete", "Puts a board away; it can be restored.", &["board"], delete)
        .action("restore", "Brings a deleted board back.", &["board"], restore)
        .action("list_deleted", "Lists the deleted boards.", &[], list_deleted)
        .action(
            "set_active",
            "Makes a board the active one; none when blank or 'none'.",
            &[],
            set_active,
        )
        .action(
            "revisions",
            "Lists earlier contents, or shows the one of a revision.",
            &[],
            revisions,
        )
        .reads(&["get", "list", "list_deleted", "revisions"])
        .touches(touches)
        .describe(|draft| {
            let input = json!({ "action": "set_active", "board": "none" });
            let output = json!({ "type": "active_board_cleared", "previous": null });
            draft.example("No board is active any more.", input, output)
        })
        .pack(TEXT, |_| {
            let mut families = whole_and_parts(WHOLE, &[BOARD, REVISION])?;
            families.push(FamilySpec::new(Family::parse(ACTIVE)?, Home::Session));
            Ok(families)
        })
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let (boards, active) = (Key::parse(WHOLE)?, Key::parse(ACTIVE)?);
    Ok(match args.text(ACTION) {
        Some("create" | "update" | "delete" | "restore") => {
            vec![(Access::Write, boards), (Access::Write, active)]
        }
        Some("get" | "set_active") => vec![(Access::Read, boards), (Access::Write, active)],
        _ => vec![(Access::Read, boards), (Access::Read, active)],
    })
}

fn create(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let name = checked_name(params.name.as_deref())?.unwrap_or_default();
    let summary = checked_summary(params.summary.as_deref())?.unwrap_or_default();
    check_free(tx, None, &name)?;
    let board = Board::new(tx, name, summary, params.content)?;
    board.keep(tx)?;
    link(tx, &board)?;
    answer("board_created", "", &board.whole(tx)?)
}

fn update(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut board = meant(tx, params.board.as_deref(), "update")?;
    let name = checked_name(params.name.as_deref())?;
    let summary = checked_summary(params.summary.as_deref())?;
    if name.is_none() && summary.is_none() && params.content.is_none() {
        let message = "name, summary or content is required for update action";
        return Err(Fault::invalid(message).with("required_param", "content"));
    }
    if let Some(name) = name {
        check_free(tx, Some(&board.id), &name)?;
        board.name = name;
    }
    board.summary = summary.unwrap_or(board.summary);
    if let Some(content) = params.content {
        board.write(tx, content)?;
    }
    board.updated_at = tx.now().to_string();
    board.keep(tx)?;
    link(tx, &board)?;
    answer("board_updated", "", &board.whole(tx)?)
}

fn get(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let board = meant(tx, params.board.as_deref(), "get")?;
    link(tx, &board)?;
    answer("board", "", &board.whole(tx)?)
}

fn list(tx: &mut Transaction, _: Params) -> Result<Output, Fault> {
    listed(tx, "board_list", false)
}

fn list_deleted(tx: &mut Transaction, _: Params) -> Result<Output, Fault> {
    listed(tx, "deleted_board_list", true)
}

fn listed(tx: &Transaction, kind: &str, deleted: bool) -> Result<Output, Fault> {
    let mut boards = all(tx)?;
    boards.retain(|board| board.deleted_at.is_some() == deleted);
    let outlines: Result<Vec<Value>, Fault> =
        boards.iter().map(|board| board.outline(tx)).collect();
    let (shown, _) = fitting(tx, outlines?)?;
    let message = format!("{}.", counted(boards.len(), "board"));
    answer(kind, &message, &json!({ "boards": shown, "total": boards.len() }))
}

fn delete(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut board = meant(tx, params.board.as_deref(), "delete")?;
    board.deleted_at = Some(tx.now().to_string());
    if active(tx)?.is_some_and(|active| active.id == board.id) {
        tx.remove(&key(ACTIVE)?)?;
    }
    board.keep(tx)?;
    answer("board_deleted", "", &board.outline(tx)?)
}

fn restore(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let mut board = find(tx, given(params.board.as_deref()).unwrap_or_default(), true)?;
    check_free(tx, Some(&board.id), &board.name)?;
    board.deleted_at = None;
    board.keep(tx)?;
    answer("board_restored", "", &board.outline(tx)?)
}

fn set_active(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let word = given(params.board.as_deref()).filter(|word| !word.eq_ignore_ascii_case("none"));
    let Some(word) = word else {
        let previous = active(tx)?.map(|board| board.name);
        tx.remove(&key(ACTIVE)?)?;
        return answer("active_board_cleared", "", &json!({ "previous": previous }));
    };
    let board = find(tx, word, false)?;
    tx.put(&key(ACTIVE)?, &board.id)?;
    answer("active_board_set", "", &board.outline(tx)?)
}

fn revisions(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let board = meant(tx, params.board.as_deref(), "revisions")?;
    let kept = board.revisions(tx)?;
    if let Some(wanted) = params.revision {
        let found = kept.into_iter().find(|kept| kept.revision == wanted);
        let current = || {
            (wanted == board.revision).then(|| (board.content.clone(), board.written_at.clone()))
        };
        let found = found.map(|kept| (kept.content, kept.written_at)).or_else(current);
        let Some((content, written_at)) = found else {
            let message = format!("Revision {wanted} of '{}' is not kept", board.name);
            return Err(Fault::failed(message).at("revision").with("revision", wanted));
        };
        let shown = json!({ "id": board.id, "name": board.name, "revision": wanted,
            "content": content, "written_at": written_at });
        return answer("board_revision", "", &shown);
    }
    let earlier: Vec<Value> = kept
        .iter()
        .map(|kept| {
            let chars = kept.content.as_ref().map_or(0, |content| content.chars().count());
            json!({ "revision": kept.revision, "characters": chars, "written_at": kept.written_at })
        })
        .collect();
    let shown = json!({ "id": board.id, "name": board.name, "revision": board.revision, "revisions": earlier });
    answer("board_revisions", "", &shown)
}

/// The board that is named, or else the active one.
fn meant(tx: &Transaction, word: Option<&str>, action: &str) -> Result<Board, Fault> {
    if let Some(word) = given(word) {
        return find(tx, word, false);
    }
    active(tx)?.ok_or_else(|| {
        let message = format!("board is required for {action} action: no board is active");
        Fault::invalid(message).at("board").with("required_param", "board")
    })
}
