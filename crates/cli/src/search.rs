//! Finds the project that the current folder belongs to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toolgate_store::LogPointer;

use crate::console::{hint, visible};
use crate::environment;

/// The folder of the project: the current one, or the nearest one above it that has a configuration or
/// a log. The current one where there is none.
pub(crate) fn project_folder() -> PathBuf {
    let here = PathBuf::from(".");
    let Ok(current) = std::env::current_dir().and_then(|path| path.canonicalize()) else {
        return here;
    };
    let home = environment::home().and_then(|home| home.canonicalize().ok());
    match above(&current, home.as_deref()) {
        Some(found) => {
            hint(&format!("The project is {}.", visible(&found.display().to_string())));
            found
        }
        None => here,
    }
}

/// The nearest project above a folder that is none itself. The search ends at the home, at the border of
/// a file system, and at a folder of another owner or one that everyone may write: what lies there may
/// have been put there by others.
fn above(current: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if is_project(current) || Some(current) == home {
        return None;
    }
    let own = current.metadata().ok()?;
    for folder in current.ancestors().skip(1) {
        let found = folder.metadata().ok()?;
        let is_foreign = found.uid() != own.uid() || found.mode() & 0o002 != 0;
        if Some(folder) == home || found.dev() != own.dev() || is_foreign {
            return None;
        }
        if is_project(folder) {
            return Some(folder.to_owned());
        }
    }
    None
}

fn is_project(folder: &Path) -> bool {
    let is_there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    // A log that lies outside has a file in its place.
    let is_pointer = matches!(LogPointer::read(&folder.join(".toolgate")), Ok(Some(_)));
    is_there("toolgate.yaml") || is_there(".toolgate/log.db") || is_pointer
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_nearest_project_above_is_found_within_the_borders() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().canonicalize().unwrap().join("home");
        let (project, below) = (home.join("work/project"), home.join("work/project/src/deep"));
        create_dir_all(&below).unwrap();
        assert_eq!(above(&below, Some(&home)), None);
        write(project.join("toolgate.yaml"), "").unwrap();
        assert_eq!(above(&below, Some(&home)), Some(project.clone()));
        assert_eq!(above(&project, Some(&home)), None, "it is the current one");
        // One in the home is for the home alone.
        std::fs::rename(project.join("toolgate.yaml"), home.join("toolgate.yaml")).unwrap();
        assert_eq!(above(&below, Some(&home)), None);
        // A log is a project too.
        create_dir_all(home.join("work/.toolgate")).unwrap();
        write(home.join("work/.toolgate/log.db"), "").unwrap();
        assert_eq!(above(&below, Some(&home)), Some(home.join("work")));
        std::fs::remove_dir_all(home.join("work/.toolgate")).unwrap();
        write(home.join("work/.toolgate"), "anything\n").unwrap();
        assert_eq!(above(&below, Some(&home)), None, "it names no log");
        write(home.join("work/.toolgate"), "toolgate-log: /srv/logs/1\n").unwrap();
        assert_eq!(above(&below, Some(&home)), Some(home.join("work")), "one that lies outside");
        set_permissions(&project, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(above(&below, Some(&home)), None, "others may write in between");
    }
}
