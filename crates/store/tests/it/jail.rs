//! Tricks with links and names: nothing outside the project and nothing of its law is reached.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::stage;
use tempfile::{TempDir, tempdir};
use toolgate_runtime::port::{Files, FilesFault, Placed};
use toolgate_store::Folder;

use crate::folder::{of, project, staged, tag};

/// A project with a law, and a neighbour that must stay as it is.
fn guarded() -> (TempDir, TempDir, Folder) {
    let (project, folder) = project();
    let neighbour = tempdir().unwrap();
    fs::write(neighbour.path().join("secret"), "secret").unwrap();
    fs::write(project.path().join("toolgate.yaml"), "law").unwrap();
    fs::write(project.path().join(".toolgate/log.db"), "log").unwrap();
    (project, neighbour, folder)
}

/// Neither reads nor writes reach a path.
fn unreachable(folder: &Folder, path: &str) {
    let read = folder.read(path);
    assert!(matches!(read, Err(FilesFault::Outside { .. }) | Ok(None)), "{path}: {read:?}");
    let staged = stage(folder, &tag(1, 0), path, Some(b"evil"));
    assert!(staged.is_err(), "{path}");
    let placed = folder.place(&tag(1, 0), path, None, of("evil"));
    assert!(!matches!(placed, Ok(Placed::Done)), "{path}: {placed:?}");
}

fn untouched(project: &Path, neighbour: &Path) {
    assert_eq!(fs::read(project.join("toolgate.yaml")).unwrap(), b"law");
    assert_eq!(fs::read(project.join(".toolgate/log.db")).unwrap(), b"log");
    assert_eq!(fs::read(neighbour.join("secret")).unwrap(), b"secret");
    assert_eq!(names(neighbour), ["secret"]);
    assert_eq!(names(&project.join(".toolgate")), ["log.db", "staged"]);
    assert_eq!(staged(project), [""; 0]);
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let (project, neighbour, folder) = guarded();
    let outside = neighbour.path().join("secret");
    let paths = [
        "../x",
        "a/../../x",
        "..",
        ".",
        "",
        "/etc/passwd",
        "./a",
        "a//b",
        "a/",
        "a\\..\\..\\x",
        "toolgate.yaml",
        "Toolgate.YAML",
        "toolgate.yml",
        ".toolgate/log.db",
        ".TOOLGATE/log.db",
        ".toolgate",
        "a\0b",
        outside.to_str().unwrap(),
    ];
    for path in paths {
        let outside = Err(FilesFault::Outside { path: path.to_owned() });
        assert_eq!(folder.read(path), outside, "{path:?}");
        unreachable(&folder, path);
    }
    untouched(project.path(), neighbour.path());
}

#[test]
fn links_out_of_the_project_are_refused() {
    let (project, neighbour, folder) = guarded();
    let link = |to: &Path, name: &str| symlink(to, project.path().join(name)).unwrap();
    link(Path::new("/etc"), "etc");
    link(neighbour.path(), "neighbour");
    link(&neighbour.path().join("secret"), "secret");
    link(Path::new("../"), "up");
    link(Path::new("neighbour"), "twice");
    link(Path::new("loop"), "loop");
    link(&neighbour.path().join("new"), "dangling");
    let up = format!("up/{}/secret", neighbour.path().file_name().unwrap().to_str().unwrap());
    for path in ["etc/passwd", "neighbour/secret", "neighbour/new", "secret", "twice/new", &up] {
        unreachable(&folder, path);
    }
    for path in ["dangling", "dangling/x", "loop/x", "loop"] {
        let staged = stage(&folder, &tag(1, 0), path, Some(b"evil"));
        let placed = folder.place(&tag(1, 0), path, None, of("evil"));
        assert!(staged.is_err() || !matches!(placed, Ok(Placed::Done)), "{path}");
        folder.discard(&tag(1, 0)).unwrap();
    }
    untouched(project.path(), neighbour.path());
}

#[test]
fn links_to_the_law_are_refused() {
    let (project, neighbour, folder) = guarded();
    let link = |to: &str, name: &str| symlink(to, project.path().join(name)).unwrap();
    fs::create_dir(project.path().join("sub")).unwrap();
    link(".toolgate", "state");
    link("toolgate.yaml", "config.md");
    link(".", "here");
    link("../.toolgate/staged", "sub/staged");
    link("../toolgate.yaml", "sub/config");
    link("state", "again");
    fs::create_dir_all(project.path().join(".git/hooks")).unwrap();
    fs::create_dir_all(project.path().join("sub/.git")).unwrap();
    link("../.git/hooks", "sub/hooks");
    link("sub/.git", "inner");
    fs::hard_link(project.path().join("toolgate.yaml"), project.path().join("hard.md")).unwrap();
    let paths = [
        "state/log.db",
        "state/new.md",
        "state/new/new.md",
        "config.md",
        "here/toolgate.yaml",
        "here/.toolgate/log.db",
        "here/.toolgate/new/x.md",
        "sub/staged/s1.c1.0",
        "sub/config",
        "again/log.db",
        "hard.md",
        ".git/config",
        "here/.git/hooks/pre-commit",
        "sub/hooks/pre-commit",
        "inner/config",
    ];
    for path in paths {
        unreachable(&folder, path);
    }
    untouched(project.path(), neighbour.path());
}

/// A hard link is the file itself, so its name says nothing.
#[test]
fn hard_links_to_protected_files_are_refused() {
    let (project, neighbour, folder) = guarded();
    let at = |name: &str| project.path().join(name);
    fs::create_dir_all(at(".git/refs/heads")).unwrap();
    fs::create_dir_all(at("sub/deep/.git")).unwrap();
    fs::create_dir_all(neighbour.path().join("keys/inner")).unwrap();
    let key = neighbour.path().join("keys/inner/log.key");
    for path in [&at(".git/config"), &at(".git/refs/heads/main"), &at("sub/deep/.git/config"), &key]
    {
        fs::write(path, "protected").unwrap();
    }
    let folder = folder
        .keeping_outside_from_tools(neighbour.path().join("keys"))
        .keeping_outside_from_tools(neighbour.path().join("secret"))
        .keeping_outside_from_tools(neighbour.path().join("not there"));
    let targets = [
        at("toolgate.yaml"),
        at(".toolgate/log.db"),
        at(".git/config"),
        at(".git/refs/heads/main"),
        at("sub/deep/.git/config"),
        neighbour.path().join("secret"),
        key,
    ];
    for (number, target) in targets.iter().enumerate() {
        let name = format!("sub/notes{number}.md");
        fs::hard_link(target, at(&name)).unwrap();
        let before = fs::read(target).unwrap();
        let read = folder.read(&name);
        assert!(matches!(read, Err(FilesFault::Outside { .. })), "{target:?}: {read:?}");
        let digest = Some(toolgate_kernel::digest::Digest::of(&before));
        for old in [None, digest] {
            assert!(stage(&folder, &tag(1, 0), &name, Some(b"evil")).is_err(), "{target:?}");
            let placed = folder.place(&tag(1, 0), &name, old, of("evil"));
            assert!(!matches!(placed, Ok(Placed::Done)), "{target:?}: {placed:?}");
            let removed = folder.place(&tag(1, 0), &name, old, None);
            assert!(!matches!(removed, Ok(Placed::Done)), "{target:?}: {removed:?}");
        }
        assert_eq!(fs::read(target).unwrap(), before);
        assert!(at(&name).exists());
    }
    let listing = folder.list(None).unwrap().unwrap();
    assert_eq!((listing.files, listing.cut), (vec![], false), "no protected file is listed");
}

/// A folder below the top may name any folder of the project as its repository, and git obeys a bare
/// one where it stands.
#[test]
fn a_repository_is_refused_wherever_it_is() {
    let (project, neighbour, folder) = guarded();
    let at = |name: &str| project.path().join(name);
    let repository = |name: &str| {
        for inner in ["hooks", "objects", "refs"] {
            fs::create_dir_all(at(&format!("{name}/{inner}"))).unwrap();
        }
        for (inner, text) in [("HEAD", "ref: refs/heads/main"), ("config", "token"), ("new.md", "")]
        {
            fs::write(at(&format!("{name}/{inner}")), text).unwrap();
        }
    };
    for name in ["linked.d", "pointed.d", "deep/bare.d"] {
        repository(name);
    }
    fs::create_dir_all(at("sub")).unwrap();
    fs::create_dir_all(at("tree")).unwrap();
    symlink("../linked.d", at("sub/.git")).unwrap();
    fs::write(at("tree/.git"), "gitdir: ../pointed.d").unwrap();
    // The repository of a worktree has its objects elsewhere.
    fs::create_dir_all(at("worktree.d")).unwrap();
    for (inner, text) in [("HEAD", "ref: refs/heads/side"), ("commondir", "../pointed.d")] {
        fs::write(at(&format!("worktree.d/{inner}")), text).unwrap();
    }
    for name in ["linked.d", "pointed.d", "deep/bare.d"] {
        for inner in ["config", "new.md", "hooks/pre-commit", "other/new.md"] {
            unreachable(&folder, &format!("{name}/{inner}"));
        }
    }
    unreachable(&folder, "worktree.d/config.worktree");
    fs::hard_link(at("deep/bare.d/config"), at("hard.md")).unwrap();
    unreachable(&folder, "hard.md");
    // No repositories: one has no objects, one a folder of that name.
    for name in ["notes/HEAD.md", "alone/a.md", "parts/objects/a.md"] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), "a").unwrap();
    }
    fs::write(at("alone/HEAD"), "a").unwrap();
    fs::create_dir(at("parts/HEAD")).unwrap();
    for name in ["notes/HEAD.md", "alone/a.md", "parts/objects/a.md"] {
        assert_eq!(folder.read(name).unwrap().as_deref(), Some(b"a".as_slice()), "{name}");
    }
    let listing = folder.list(None).unwrap().unwrap();
    let listed: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        (listed, listing.cut),
        (vec!["alone/a.md", "notes/HEAD.md", "parts/objects/a.md"], false)
    );
    untouched(project.path(), neighbour.path());
}

#[test]
fn hard_links_to_other_files_are_read_and_written() {
    let (project, neighbour, folder) = guarded();
    let at = |name: &str| project.path().join(name);
    let store = neighbour.path().join("package.js");
    fs::write(&store, "one").unwrap();
    fs::hard_link(&store, at("package.js")).unwrap();
    assert_eq!(folder.read("package.js").unwrap().unwrap(), b"one");
    assert_eq!(folder.list(None).unwrap().unwrap().files.len(), 1);
    stage(&folder, &tag(1, 0), "package.js", Some(b"two")).unwrap();
    assert_eq!(folder.place(&tag(1, 0), "package.js", of("one"), of("two")), Ok(Placed::Done));
    // The other name keeps what it had.
    assert_eq!(fs::read(&store).unwrap(), b"one");
    // A copy that is linked into the project and not removed yet, as a crash leaves it.
    stage(&folder, &tag(2, 0), "new.md", Some(b"new")).unwrap();
    fs::hard_link(at(".toolgate/staged/s1.c2.0"), at("new.md")).unwrap();
    assert_eq!(folder.place(&tag(2, 0), "new.md", None, of("new")), Ok(Placed::Done));
    assert_eq!(folder.read("new.md").unwrap().unwrap(), b"new");
    assert_eq!(staged(project.path()), [""; 0]);
}

/// What cannot be searched may hold the other name.
#[test]
fn a_search_that_fails_refuses_files_with_several_names() {
    let (project, neighbour, folder) = guarded();
    let at = |name: &str| project.path().join(name);
    fs::write(neighbour.path().join("a"), "a").unwrap();
    fs::hard_link(neighbour.path().join("a"), at("a.md")).unwrap();
    fs::write(at("b.md"), "b").unwrap();
    symlink(neighbour.path(), at(".git")).unwrap();
    assert!(folder.read("a.md").is_err());
    assert_eq!(folder.read("b.md").unwrap().unwrap(), b"b");
    let listing = folder.list(None).unwrap().unwrap();
    assert!(listing.cut && listing.files.len() == 1, "{listing:?}");
}

#[test]
fn a_law_that_is_itself_a_link_is_known_by_its_other_name() {
    let project = tempdir().unwrap();
    let at = |name: &str| project.path().join(name);
    fs::create_dir_all(at("state/staged")).unwrap();
    fs::create_dir(at("conf")).unwrap();
    fs::write(at("state/log.db"), "log").unwrap();
    fs::write(at("conf/law.yaml"), "law").unwrap();
    symlink("state", at(".toolgate")).unwrap();
    symlink("conf/law.yaml", at("toolgate.yaml")).unwrap();
    let folder = Folder::open(project.path(), at("state/staged")).unwrap();
    for path in ["state/log.db", "state/new.md", "state/staged/x", "conf/law.yaml"] {
        unreachable(&folder, path);
    }
    stage(&folder, &tag(1, 0), "conf/other.md", Some(b"fine")).unwrap();
    assert_eq!(folder.place(&tag(1, 0), "conf/other.md", None, of("fine")), Ok(Placed::Done));
    assert_eq!(fs::read(at("conf/law.yaml")).unwrap(), b"law");
}

/// Policies look at paths, so a file has one: the one without links.
#[test]
fn a_path_through_a_link_is_refused_with_the_path_that_is_meant() {
    let (project, _neighbour, folder) = guarded();
    fs::create_dir(project.path().join("real")).unwrap();
    fs::write(project.path().join("real/a.md"), "a").unwrap();
    symlink("real", project.path().join("linked")).unwrap();
    symlink(".", project.path().join("self")).unwrap();
    symlink("real/a.md", project.path().join("a.md")).unwrap();
    let through =
        [("linked/a.md", "real/a.md"), ("a.md", "real/a.md"), ("self/real/a.md", "real/a.md")];
    for (path, real) in through {
        let refused = folder.read(path).unwrap_err().to_string();
        assert!(refused.contains(&format!("use {real}")), "{refused}");
        assert!(stage(&folder, &tag(1, 0), path, Some(b"new")).is_err(), "{path}");
    }
    assert!(stage(&folder, &tag(1, 0), "linked/b/c.md", Some(b"c")).is_err());
    let placed = folder.place(&tag(2, 0), "a.md", of("a"), of("new"));
    assert_eq!(placed, Ok(Placed::Conflict { found: None }));
    assert!(project.path().join("a.md").is_symlink());
    fs::hard_link(project.path().join("real/a.md"), project.path().join("twin.md")).unwrap();
    assert_eq!(folder.same_file("twin.md", "real/a.md"), Ok(true));
    assert_eq!(folder.same_file("other.md", "real/a.md"), Ok(false));
}

#[test]
fn a_pipe_keeps_nobody_waiting() {
    let (project, _neighbour, folder) = guarded();
    let pipe = project.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(folder.read("pipe").is_err());
    assert!(stage(&folder, &tag(1, 0), "pipe", Some(b"x")).is_err());
    let placed = folder.place(&tag(1, 0), "pipe", None, of("x"));
    assert_eq!(placed, Ok(Placed::Conflict { found: None }));
}

#[test]
fn swapping_a_folder_for_a_link_gains_nothing() {
    let (project, neighbour, folder) = guarded();
    let path = project.path().join("a");
    let targets = [neighbour.path(), Path::new(".toolgate")];
    let done = AtomicBool::new(false);
    let attempts = AtomicU64::new(0);
    let mut placed = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            for (round, target) in targets.iter().cycle().enumerate() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                // Each of these may fail, because placing a file makes its folder again.
                drop(fs::create_dir(&path));
                drop(fs::rename(&path, project.path().join(format!("away{round}"))));
                drop(symlink(target, &path));
                drop(fs::remove_file(&path));
                // Now and then the path is left alone for one whole attempt, however slow the
                // machine is: the attempt under way and the one after it.
                let seen = attempts.load(Ordering::Relaxed);
                while round % 8 == 0
                    && attempts.load(Ordering::Relaxed) < seen + 2
                    && !done.load(Ordering::Relaxed)
                {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for round in 0..400 {
            let (name, text) = (format!("a/{round}.md"), format!("round {round}"));
            for path in ["a/secret", "a/log.db"].repeat(20) {
                assert!(!matches!(folder.read(path), Ok(Some(_))), "{path}");
            }
            if stage(&folder, &tag(round, 0), &name, Some(text.as_bytes())).is_ok()
                && folder.place(&tag(round, 0), &name, None, of(&text)) == Ok(Placed::Done)
            {
                placed += 1;
            }
            folder.discard(&tag(round, 0)).unwrap();
            attempts.fetch_add(1, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(placed > 0, "some rounds get through");
    untouched(project.path(), neighbour.path());
}
