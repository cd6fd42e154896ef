//! Decides which files a list shows: plain ones, by names a tool may use, within bounds.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use toolgate_kernel::path::project_path;
use toolgate_runtime::port::{Listed, Listing};

use super::protected::{ProtectedFiles, has_several_names};
use super::walk::{Root, Walk, leads_elsewhere};

/// Most files in one list.
const FILES_MAX: usize = 2_000;

/// Most names that are looked at for one list.
const NAMES_MAX: usize = 20_000;

/// Lists the files below a folder that was walked to. `path` is its path as it was given.
pub(super) fn below(start: Walk, root: &Root, path: &str) -> io::Result<Listing> {
    let mut listing = Listing::default();
    // Searched for once, and only where a file has several names.
    let mut protected: Option<io::Result<ProtectedFiles>> = None;
    let mut looked_at = 0;
    // Folders that wait to be entered, in the order of their paths, as ways from the start. They
    // wait closed: a process may have fewer open files than a project has folders.
    let mut waiting = vec![PathBuf::new()];
    while let Some(way) = waiting.pop() {
        let entered = start.further(&way).and_then(|walk| {
            let names = names(walk.folder(), &mut looked_at, &mut listing.cut)?;
            Ok((walk, names))
        });
        let (walk, names) = match entered {
            Ok(entered) => entered,
            Err(error) if way.as_os_str().is_empty() => return Err(error),
            Err(error) => {
                listing.cut |= !leads_elsewhere(&error);
                continue;
            }
        };
        let mut folders = Vec::new();
        for name in names {
            let inner = inside(path, &way, &name);
            // A name that a tool could not write back is not shown; nor is the law.
            if project_path(&inner, None).as_deref() != Ok(inner.as_str()) {
                continue;
            }
            let seen = match walk.folder().symlink_metadata(&name) {
                Ok(seen) => seen,
                Err(error) => {
                    listing.cut |= !leads_elsewhere(&error);
                    continue;
                }
            };
            if seen.is_dir() {
                folders.push(way.join(name));
            } else if seen.is_file() && !walk.is_law(&seen) {
                if has_several_names(&seen) {
                    let search = || ProtectedFiles::search(root);
                    match protected.get_or_insert_with(search) {
                        Ok(protected) if !protected.contains(&seen) => {}
                        Ok(_) => continue,
                        Err(_) => {
                            listing.cut = true;
                            continue;
                        }
                    }
                }
                listing.files.push(Listed { path: inner, bytes: seen.len() });
            }
        }
        waiting.extend(folders.into_iter().rev());
        if listing.files.len() > FILES_MAX || looked_at >= NAMES_MAX {
            listing.cut |= !waiting.is_empty() || listing.files.len() > FILES_MAX;
            break;
        }
    }
    listing.files.truncate(FILES_MAX);
    listing.files.sort();
    Ok(listing)
}

/// The path of a name: where the list begins, the way from there, the name.
fn inside(path: &str, way: &Path, name: &str) -> String {
    let parts = way.iter().filter_map(OsStr::to_str);
    let parts = [path].into_iter().chain(parts).chain([name]).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
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
