//! Decides which files a list shows: plain ones, by names a tool may use, within bounds.

use std::collections::BTreeSet;
use std::io;

use cap_std::fs::Dir;
use toolgate_kernel::path::project_path;
use toolgate_runtime::port::{Listed, Listing};

use super::walk::Walk;

/// Most files in one list.
const FILES_MAX: usize = 2_000;

/// Most names that are looked at for one list.
const NAMES_MAX: usize = 20_000;

/// Lists the files below a folder that was walked to. `path` is its path as it was given.
pub(super) fn below(walk: Walk, path: &str) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut looked_at = 0;
    // Folders that wait to be entered, in the order of their paths.
    let mut waiting = vec![(path.to_owned(), walk)];
    while let Some((path, walk)) = waiting.pop() {
        let names = names(walk.folder(), &mut looked_at, &mut listing.cut)?;
        let mut folders = Vec::new();
        for name in names {
            let inner = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            // A name that a tool could not write back is not shown; nor is the law.
            if project_path(&inner, None).as_deref() != Ok(inner.as_str()) {
                continue;
            }
            // What vanished meanwhile, or cannot be looked at, is not there.
            let Ok(seen) = walk.folder().symlink_metadata(&name) else { continue };
            if seen.is_dir() {
                folders.push((inner, name));
            } else if seen.is_file() && !walk.is_law(&seen) {
                listing.files.push(Listed { path: inner, bytes: seen.len() });
            }
        }
        for (inner, name) in folders.into_iter().rev() {
            // A folder that leads elsewhere, or that may not be read, has nothing to show.
            if let Ok(walk) = walk.further(&name) {
                waiting.push((inner, walk));
            }
        }
        if listing.files.len() > FILES_MAX || looked_at >= NAMES_MAX {
            listing.cut |= !waiting.is_empty() || listing.files.len() > FILES_MAX;
            break;
        }
    }
    listing.files.truncate(FILES_MAX);
    listing.files.sort();
    Ok(listing)
}

/// The names in a folder that are not hidden, in order.
fn names(folder: &Dir, looked_at: &mut usize, cut: &mut bool) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in folder.entries()? {
        if *looked_at >= NAMES_MAX {
            *cut = true;
            break;
        }
        *looked_at += 1;
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| !name.starts_with('.')).map(str::to_owned));
    }
    Ok(names)
}
