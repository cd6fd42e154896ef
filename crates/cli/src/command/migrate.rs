//! `toolgate migrate`: writes today's names of tools in place of former ones, and back.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use toolgate_kernel::config::{Migrated, Naming, migrate, read};

use crate::console::{self, hint, say};
use crate::diagnose::{self, File};
use crate::exit::Exit;
use crate::project::{Place, named};

#[derive(Args)]
#[command(after_help = "Examples:\n  toolgate migrate --dry-run\n  toolgate migrate\n  \
                        toolgate migrate --reverse agents/ada.yaml\n\n\
                        Exit codes: 0 done or nothing to do, 1 some names are left to a person, 2 a \
                        file cannot be read.")]
pub(crate) struct Options {
    /// The files, in place of the project's configuration.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show what would be changed, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Write the former names again.
    #[arg(long)]
    reverse: bool,
    /// Print one JSON object per file.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let own = || place.config.clone().unwrap_or_else(|| place.folder.join("toolgate.yaml"));
    let files = if options.files.is_empty() { vec![own()] } else { options.files.clone() };
    let naming = if options.reverse { Naming::Former } else { Naming::Today };
    // Nothing is written before every file was read.
    let mut work = Vec::new();
    for path in files {
        let (name, bytes) = named(&path)?;
        let migrated = one(&name, &bytes, naming)?;
        work.push((path, name, bytes, migrated));
    }
    let mut left = false;
    for (path, name, bytes, migrated) in &work {
        let changed = !migrated.renamed.is_empty();
        if changed && !options.dry_run {
            write(path, migrated.text.as_bytes())?;
        }
        left |= !migrated.left.is_empty();
        if options.json {
            console::json(&json!({
                "kind": "migrated", "file": name, "changed": changed,
                "written": changed && !options.dry_run,
                "renamed": migrated.renamed, "left": migrated.left,
            }));
        } else {
            show(name, bytes, migrated, options.dry_run);
        }
    }
    Ok(if left { Exit::Failed } else { Exit::Done })
}

fn one(name: &str, bytes: &[u8], naming: Naming) -> Result<Migrated> {
    migrate(bytes, naming).or_else(|finding| {
        let reading = read(bytes);
        let file = File { name, source: reading.source() };
        hint(&file.text(&finding, diagnose::colour(&std::io::stderr())));
        bail!("{name} cannot be migrated; nothing was changed")
    })
}

/// Shows what changed, line by line. Secrets are blanked before, so that no line shows one.
fn show(name: &str, bytes: &[u8], migrated: &Migrated, dry: bool) {
    if migrated.renamed.is_empty() && migrated.left.is_empty() {
        say(&format!("✓ {name} has nothing to change."));
        return;
    }
    // The same lines with their secrets blanked.
    let blanked =
        |bytes: &[u8]| -> Vec<String> { read(bytes).source().lines().map(str::to_owned).collect() };
    let before = String::from_utf8_lossy(bytes).into_owned();
    let (old, new) = (blanked(bytes), blanked(migrated.text.as_bytes()));
    say(&format!("{name}:"));
    for change in TextDiff::from_lines(&before, &migrated.text).iter_all_changes() {
        let (sign, line, lines) = match change.tag() {
            ChangeTag::Delete => ('-', change.old_index(), &old),
            ChangeTag::Insert => ('+', change.new_index(), &new),
            ChangeTag::Equal => continue,
        };
        let line = line.unwrap_or_default();
        let text = lines.get(line).map_or_else(String::new, |text| console::visible(text));
        say(&format!("{sign}{:>4} {text}", line + 1));
    }
    for left in &migrated.left {
        let to = left.to.join(" and ");
        say(&format!(
            "  line {}: {} stays; writing {to} here takes a person",
            left.line, left.from
        ));
    }
    let count = migrated.renamed.len();
    let s = if count == 1 { "" } else { "s" };
    say(&match (count, dry) {
        (0, _) => format!("{name} was not changed."),
        (_, true) => format!("{count} name{s} would be changed; nothing is written."),
        (_, false) => format!("✓ {name} is written: {count} name{s} changed."),
    });
}

/// Writes a file whole or not at all, with the rights it has.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let context = || format!("{} cannot be written", path.display());
    // A link stays a link.
    let path = path.canonicalize().with_context(context)?;
    let folder = path.parent().context("the file has no folder")?;
    let rights = std::fs::metadata(&path).with_context(context)?.permissions();
    let temporary = folder.join(format!(".toolgate-migrate-{}", std::process::id()));
    let written = (|| {
        let mut file = std::fs::File::create_new(&temporary)?;
        file.set_permissions(rights)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)
    })();
    if written.is_err() {
        drop(std::fs::remove_file(&temporary));
    }
    written.with_context(context)
}
