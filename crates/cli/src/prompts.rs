//! Reads the user's own prompt file, and writes what the project approved into its folder, where it is
//! only for people to read: nothing is ever loaded from there.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_kernel::config::{AgentText, PackName};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::fold::{Project, Shelf};
use toolgate_packs::catalogue::{
    Catalogue, FILE_BYTES_MAX, HISTORY_FAMILY, PromptFinding, PromptOrigin, UserPrompts,
};

use crate::console;
use crate::host::config_folder;
use crate::project::Place;

/// Where the user's own prompts lie, below the folder for what belongs to this user.
const USER_FILE: &str = "prompts/tools.json";

/// What is written into the project's folder.
const REGISTRY_FILE: &str = "prompts/prompts.json";
const HISTORY_FOLDER: &str = "prompts/history";

/// The user's own prompts, where the configuration uses them.
pub(crate) fn user_prompts(text: &AgentText) -> UserPrompts {
    let packs = text.packs.as_deref().unwrap_or(PackName::DEFAULT);
    if !packs.contains(&PackName::Catalogue) {
        return UserPrompts::default();
    }
    let Ok(folder) = config_folder("prompt file") else { return UserPrompts::default() };
    let path = folder.join(USER_FILE);
    match bytes(&path) {
        Ok(None) => UserPrompts::default(),
        Ok(Some(bytes)) => {
            let mut read = UserPrompts::read(&bytes);
            for finding in &mut read.findings {
                finding.place = format!("{}, {}", path.display(), finding.place);
            }
            read
        }
        Err(error) => {
            let (code, message) = ("PROMPT_FILE_BROKEN", format!("{error:#}; nothing is loaded"));
            let finding = PromptFinding { code, place: path.display().to_string(), message };
            UserPrompts { tools: Vec::new(), findings: vec![finding] }
        }
    }
}

/// A plain file, read as far as it may go; nothing where there is none.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    anyhow::ensure!(found.is_file(), "it is not a plain file");
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The approved tools as they are written for people.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    version: u64,
    /// Digest of `prompts`, by which an edit by hand is told.
    digest: Digest,
    prompts: Vec<Value>,
}

/// What was found in the project's folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exported {
    /// What the project approved.
    Current,
    /// An earlier state, or nothing yet.
    Behind,
    /// It was edited by hand, which has no effect.
    Edited,
}

/// Compares the written registry with the project.
pub(crate) fn compare(place: &Place, project: &Project) -> Result<Exported> {
    let path = place.home()?.join(REGISTRY_FILE);
    let Some(found) = bytes(&path)? else { return Ok(Exported::Behind) };
    if found == registry(project)? {
        return Ok(Exported::Current);
    }
    let read: Result<Registry, _> = serde_json::from_slice(&found);
    let own = read.is_ok_and(|read| read.digest == Digest::of_json(&Value::from(read.prompts)));
    Ok(if own { Exported::Behind } else { Exported::Edited })
}

/// Says that the registry was edited, which has no effect.
pub(crate) fn edited_finding(place: &Place, project: &Project) -> Result<Option<PromptFinding>> {
    if compare(place, project)? != Exported::Edited {
        return Ok(None);
    }
    Ok(Some(PromptFinding {
        code: "EXPORT_EDITED",
        place: format!(".toolgate/{REGISTRY_FILE}"),
        message: "it was edited by hand. That has no effect: nothing is loaded from it. Write it anew \
                  with `toolgate catalogue export`, and propose your change with `toolgate catalogue \
                  propose`"
            .to_owned(),
    }))
}

fn registry(project: &Project) -> Result<Vec<u8>> {
    let catalogue = Catalogue::of(&[], &project.state)?;
    let own = catalogue.entries.iter().filter(|entry| entry.source == PromptOrigin::Project);
    let prompts: Vec<Value> =
        own.map(|entry| serde_json::to_value(&entry.tool)).collect::<Result<_, _>>()?;
    let digest = Digest::of_json(&Value::from(prompts.clone()));
    let mut text = serde_json::to_vec_pretty(&Registry { version: 1, digest, prompts })?;
    text.push(b'\n');
    Ok(text)
}

/// Whether an edit by hand is written over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edits {
    Kept,
    Overwritten,
}

/// Writes what is not written yet: the history first, durably, then the registry.
pub(crate) fn export(place: &Place, project: &Project, edits: Edits) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    let home = place.home()?;
    let shelf = project.state.shelf(HISTORY_FAMILY);
    let versions = shelf.into_iter().flat_map(Shelf::iter);
    let mut any = false;
    for (name, slot) in versions {
        any = true;
        let Some((id, _)) = name.rsplit_once('/') else { continue };
        let value = slot.value();
        let at = value.get("at").and_then(Value::as_i64).unwrap_or(0);
        let version = value.get("version").and_then(Value::as_u64).unwrap_or(0);
        let moment = toolgate_kernel::time::Timestamp(at).to_string();
        // Two versions of one moment are two files.
        let file = format!("{}-{version}.json", moment.replace([':', '.'], "-"));
        let path = home.join(HISTORY_FOLDER).join(id).join(file);
        if !path.exists() {
            let mut text = serde_json::to_vec_pretty(&value)?;
            text.push(b'\n');
            put(&path, &text)?;
            written.push(path);
        }
    }
    let stands = compare(place, project)?;
    let due = match (stands, edits) {
        (Exported::Current, _) | (Exported::Edited, Edits::Kept) => false,
        (Exported::Behind, Edits::Kept) => any,
        (Exported::Behind | Exported::Edited, Edits::Overwritten) => true,
    };
    if due {
        let path = home.join(REGISTRY_FILE);
        put(&path, &registry(project)?)?;
        written.push(path);
    }
    Ok(written)
}

/// Writes at a start what was approved and not written before the last end. What cannot be written is
/// told: the log has it all.
pub(crate) fn roll_forward(place: &Place, project: &Project) {
    if project.state.shelf(HISTORY_FAMILY).is_none() {
        return;
    }
    if let Err(error) = export(place, project, Edits::Kept) {
        console::hint(&format!("The approved prompt tools could not be written: {error:#}"));
    }
}

/// Puts a file in place as a whole, and on the disk before anything else is done.
fn put(path: &Path, text: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    let shown = || format!("{} cannot be written", path.display());
    fs::create_dir_all(folder).with_context(shown)?;
    let staged = path.with_extension("json.new");
    let mut file = File::create(&staged).with_context(shown)?;
    file.write_all(text).and_then(|()| file.sync_all()).with_context(shown)?;
    fs::rename(&staged, path).with_context(shown)?;
    // The name is on the disk too.
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(shown)
}
