//! Finds a program and the folders that it needs of its own installation.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where programs are looked for when there is no PATH.
const NO_PATH: &str = "/bin:/usr/bin";

/// Programs that launchers such as `npx` and `uvx` start in turn.
const COMPANIONS: &[&str] = &["node", "python3", "python", "git"];

/// Files that are followed at most: links, scripts, interpreters.
const FILES_MAX: usize = 64;

/// What lies at the top of a package.
const PACKAGE_FILES: &[&str] = &["package.json", "pyproject.toml"];

/// Levels above a script at which its package may begin.
const PACKAGE_DEPTH_MAX: usize = 8;

/// Bytes of a file in which its interpreter is named.
const SHEBANG_BYTES: u64 = 512;

/// Folders of the user in which programs lie beside private data: only these parts are granted.
const MIXED: &[&str] = &[".local", ".cargo"];

/// Finds a program as a shell would.
pub(crate) fn find(program: &Path, cwd: &Path, path: Option<&str>) -> Option<PathBuf> {
    if program.components().count() > 1 || program.is_absolute() {
        return Some(cwd.join(program)).filter(|found| found.is_file());
    }
    let folders = std::env::split_paths(path.unwrap_or(NO_PATH));
    folders.map(|folder| cwd.join(folder).join(program)).find(|found| is_executable(found))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The folders that a program and its companions need of their installations. Links, interpreters
/// of scripts and what `env` finds for them are followed.
pub(crate) fn install_folders(
    program: &Path,
    cwd: &Path,
    path: Option<&str>,
    home: Option<&Path>,
) -> BTreeSet<PathBuf> {
    let companions = COMPANIONS.iter().filter_map(|name| find(Path::new(name), cwd, path));
    let mut open: Vec<PathBuf> = companions.chain([program.to_owned()]).collect();
    let (mut seen, mut folders) = (BTreeSet::new(), BTreeSet::new());
    while let Some(file) = open.pop() {
        if seen.len() >= FILES_MAX || !seen.insert(file.clone()) {
            continue;
        }
        folders.extend(around(&file, home));
        if let Some(target) = link_target(&file) {
            open.push(target);
            continue;
        }
        let real = file.canonicalize().ok().filter(|real| *real != file);
        open.extend(real);
        open.extend(interpreters(&file, cwd, path));
    }
    folders
}

/// What is granted around a file: the parent of its `bin`, else the folder it lies in.
fn around(file: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(folder) = file.parent().and_then(|folder| folder.canonicalize().ok()) else {
        return Vec::new();
    };
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_bin = ["bin", "sbin", "shims"].contains(&name);
    let Some(parent) = folder.parent().filter(|_| is_bin) else {
        return around_file(file, home).into_iter().collect();
    };
    if is_too_wide(parent, home) {
        return vec![folder];
    }
    let mixed = |home: &Path| MIXED.iter().any(|name| home.join(name) == parent);
    if home.is_some_and(mixed) {
        return vec![folder.clone(), parent.join("lib")];
    }
    vec![parent.to_owned()]
}

/// The package of a file, else its folder, or the file itself where its folder holds much else.
pub(crate) fn around_file(file: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let real = file.canonicalize().ok()?;
    let folder = real.parent()?;
    if is_too_wide(folder, home) {
        return Some(real);
    }
    Some(package(folder, home).unwrap_or(folder).to_owned())
}

/// The package that a folder is part of: a script imports from all of it. Installed packages of Node
/// import from each other.
fn package<'f>(folder: &'f Path, home: Option<&Path>) -> Option<&'f Path> {
    let narrow = |part: &&Path| !is_too_wide(part, home);
    let parts = || folder.ancestors().take(PACKAGE_DEPTH_MAX).take_while(narrow);
    let is_installed = |part: &&Path| part.file_name().is_some_and(|name| name == "node_modules");
    let is_package = |part: &&Path| PACKAGE_FILES.iter().any(|name| part.join(name).is_file());
    parts().filter(is_installed).last().or_else(|| parts().find(is_package))
}

/// Whether a folder holds what has nothing to do with a program in it.
pub(crate) fn is_too_wide(folder: &Path, home: Option<&Path>) -> bool {
    use std::os::unix::fs::MetadataExt;
    const STICKY: u32 = 0o1000;
    let around_home = home.is_some_and(|home| home.starts_with(folder));
    let shared = folder.metadata().is_ok_and(|found| found.mode() & STICKY != 0);
    folder.parent().is_none() || around_home || shared
}

fn link_target(file: &Path) -> Option<PathBuf> {
    let target = std::fs::read_link(file).ok()?;
    let folder = file.parent()?.canonicalize().ok()?;
    Some(folder.join(target))
}

/// The interpreter that the first line of a script names, and what `env` would find for it.
fn interpreters(file: &Path, cwd: &Path, path: Option<&str>) -> Vec<PathBuf> {
    let mut first = Vec::new();
    let Ok(opened) = std::fs::File::open(file) else { return Vec::new() };
    if opened.take(SHEBANG_BYTES).read_to_end(&mut first).is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&first);
    let Some(line) = text.strip_prefix("#!").and_then(|rest| rest.lines().next()) else {
        return Vec::new();
    };
    let mut words = line.split_whitespace();
    let Some(interpreter) = words.next().map(PathBuf::from) else { return Vec::new() };
    let is_env = interpreter.file_name().is_some_and(|name| name == "env");
    let named = words.find(|word| is_env && !word.starts_with('-') && !word.contains('='));
    let named = named.and_then(|name| find(Path::new(name), cwd, path));
    std::iter::once(cwd.join(interpreter)).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn program(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn an_installation_is_found_through_links_and_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let home = top.join("me");
        let node = home.join(".nvm/v20");
        program(&node.join("bin/node"), "\u{7f}ELF");
        program(&node.join("lib/node_modules/npm/bin/npx-cli.js"), "#!/usr/bin/env -S node --x\n");
        symlink("../lib/node_modules/npm/bin/npx-cli.js", node.join("bin/npx")).unwrap();
        program(&home.join(".pyenv/shims/uvx"), "#!/bin/sh\n");
        program(&home.join("python/bin/python3"), "\u{7f}ELF");
        fs::create_dir_all(home.join("venv/bin")).unwrap();
        symlink(home.join("python/bin/python3"), home.join("venv/bin/python")).unwrap();
        let python = home.join("venv/bin/python");
        program(&home.join("venv/bin/server"), &format!("#!{}\n", python.display()));
        program(&home.join(".local/bin/tool"), "\u{7f}ELF");
        program(&home.join("alone"), "\u{7f}ELF");
        program(&top.join("opt/server/start"), "\u{7f}ELF");
        let modules = top.join("app/node_modules");
        program(&modules.join("@a/server/dist/index.js"), "");
        program(&modules.join("@a/server/package.json"), "");
        fs::create_dir_all(modules.join(".bin")).unwrap();
        symlink("../@a/server/dist/index.js", modules.join(".bin/server")).unwrap();
        program(&top.join("src/server/dist/deep/index.js"), "");
        program(&top.join("src/server/package.json"), "");
        let path = format!("{}", node.join("bin").display());
        for (file, expected) in [
            (node.join("bin/npx"), vec![node.clone(), node.join("lib/node_modules/npm")]),
            (home.join(".pyenv/shims/uvx"), vec![home.join(".pyenv")]),
            (home.join("venv/bin/server"), vec![home.join("venv"), home.join("python")]),
            (home.join(".local/bin/tool"), vec![home.join(".local/bin"), home.join(".local/lib")]),
            (home.join("alone"), vec![home.join("alone")]),
            (top.join("opt/server/start"), vec![top.join("opt/server")]),
            (modules.join(".bin/server"), vec![modules.clone()]),
            (top.join("src/server/dist/deep/index.js"), vec![top.join("src/server")]),
        ] {
            let found = install_folders(&file, &top, Some(&path), Some(&home));
            for folder in &expected {
                assert!(found.contains(folder), "{}: {found:?}", file.display());
            }
            let known = |folder: &&PathBuf| !folder.starts_with(&node) && folder.starts_with(&top);
            let wanted = expected.iter().filter(known).count();
            assert_eq!(found.iter().filter(known).count(), wanted, "{}: {found:?}", file.display());
        }
    }

    #[test]
    fn a_folder_around_the_home_is_never_an_installation() {
        let home = Path::new("/srv/people/me");
        for (folder, wide) in [
            ("/", true),
            ("/srv", true),
            ("/srv/people/me", true),
            ("/srv/people/me/project", false),
            ("/srv/other", false),
            ("/tmp", true),
        ] {
            assert_eq!(is_too_wide(Path::new(folder), Some(home)), wide, "{folder}");
        }
    }
}
