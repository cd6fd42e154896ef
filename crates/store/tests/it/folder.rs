//! How files change: staged, placed, taken back, and never overwritten blindly.

use std::fs;
use std::path::Path;

use crate::support::stage;
use tempfile::{TempDir, tempdir};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::{CallId, SessionId};
use toolgate_runtime::port::{Files, FilesFault, Placed, StageTag};
use toolgate_store::{FILE_BYTES_MAX, Folder, FolderFault};

pub(crate) fn project() -> (TempDir, Folder) {
    let project = tempdir().unwrap();
    let folder = Folder::open(project.path(), project.path().join(".toolgate/staged")).unwrap();
    (project, folder)
}

pub(crate) fn tag(call: u64, at: usize) -> StageTag {
    StageTag { session: SessionId::parse("s1").unwrap(), call: CallId(call), at }
}

pub(crate) fn of(text: &str) -> Option<Digest> {
    Some(Digest::of(text.as_bytes()))
}

/// The names of the staged copies.
pub(crate) fn staged(project: &Path) -> Vec<String> {
    let names = fs::read_dir(project.join(".toolgate/staged")).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_file_is_staged_and_then_placed() {
    let (project, folder) = project();
    assert_eq!(folder.read("a/b/new.md"), Ok(None));
    stage(&folder, &tag(1, 0), "a/b/new.md", Some(b"hello")).unwrap();
    assert!(!project.path().join("a").exists(), "staging changes nothing in the project");
    assert_eq!(folder.leftovers(), Ok(vec![tag(1, 0)]));
    assert_eq!(folder.place(&tag(1, 0), "a/b/new.md", None, of("hello")), Ok(Placed::Done));
    assert_eq!(folder.read("a/b/new.md"), Ok(Some(b"hello".to_vec())));
    assert_eq!(folder.version("a/b/new.md"), Ok(of("hello")));
    assert_eq!(staged(project.path()), [""; 0]);
}

#[test]
fn a_file_is_replaced_and_keeps_its_mode() {
    let (project, folder) = project();
    let script = project.path().join("run.sh");
    fs::write(&script, "old").unwrap();
    #[cfg(unix)]
    let set = std::os::unix::fs::PermissionsExt::from_mode;
    #[cfg(unix)]
    fs::set_permissions(&script, set(0o750)).unwrap();
    stage(&folder, &tag(1, 0), "run.sh", Some(b"new")).unwrap();
    assert_eq!(folder.place(&tag(1, 0), "run.sh", of("old"), of("new")), Ok(Placed::Done));
    assert_eq!(fs::read(&script).unwrap(), b"new");
    #[cfg(unix)]
    assert_eq!(fs::metadata(&script).unwrap().permissions(), set(0o100_750));
    assert_eq!(staged(project.path()), [""; 0]);
}

#[test]
fn a_file_is_removed() {
    let (project, folder) = project();
    fs::write(project.path().join("old.md"), "old").unwrap();
    stage(&folder, &tag(1, 0), "old.md", None).unwrap();
    assert_eq!(staged(project.path()), ["s1.c1.0.gone"]);
    assert_eq!(folder.place(&tag(1, 0), "old.md", of("old"), None), Ok(Placed::Done));
    assert_eq!(folder.read("old.md"), Ok(None));
    assert_eq!(folder.place(&tag(1, 0), "old.md", of("old"), None), Ok(Placed::Done));
    assert_eq!(staged(project.path()), [""; 0]);
}

#[test]
fn placing_again_after_a_crash_changes_nothing_more() {
    let (project, folder) = project();
    stage(&folder, &tag(1, 0), "a.md", Some(b"new")).unwrap();
    folder.place(&tag(1, 0), "a.md", None, of("new")).unwrap();
    // The copy was placed, and the process ended before it could say so.
    assert_eq!(folder.place(&tag(1, 0), "a.md", None, of("new")), Ok(Placed::Done));
    // Or the copy was linked and not yet forgotten.
    stage(&folder, &tag(1, 0), "a.md", Some(b"new")).unwrap();
    assert_eq!(folder.place(&tag(1, 0), "a.md", None, of("new")), Ok(Placed::Done));
    assert_eq!(folder.read("a.md"), Ok(Some(b"new".to_vec())));
    assert_eq!(staged(project.path()), [""; 0]);
}

#[test]
fn a_conflict_keeps_both() {
    let (project, folder) = project();
    fs::write(project.path().join("a.md"), "theirs").unwrap();
    stage(&folder, &tag(1, 0), "a.md", Some(b"ours")).unwrap();
    for old in [None, of("before")] {
        let placed = folder.place(&tag(1, 0), "a.md", old, of("ours"));
        assert_eq!(placed, Ok(Placed::Conflict { found: of("theirs") }));
    }
    // Removing what somebody else has changed is a conflict too, and so is what is gone.
    let placed = folder.place(&tag(1, 0), "a.md", of("before"), None);
    assert_eq!(placed, Ok(Placed::Conflict { found: of("theirs") }));
    let placed = folder.place(&tag(1, 0), "b.md", of("before"), of("ours"));
    assert_eq!(placed, Ok(Placed::Conflict { found: None }));
    assert_eq!(fs::read(project.path().join("a.md")).unwrap(), b"theirs");
    assert_eq!(staged(project.path()), ["s1.c1.0"]);
    // A file too large to be read is a conflict like any other.
    let large = vec![1; usize::try_from(FILE_BYTES_MAX).unwrap() + 1];
    fs::write(project.path().join("a.md"), &large).unwrap();
    let placed = folder.place(&tag(1, 0), "a.md", None, of("ours"));
    assert_eq!(placed, Ok(Placed::Conflict { found: Some(Digest::of(&large)) }));
    // And so is a folder.
    fs::create_dir(project.path().join("c.md")).unwrap();
    let placed = folder.place(&tag(1, 0), "c.md", None, of("ours"));
    assert_eq!(placed, Ok(Placed::Conflict { found: None }));
}

#[test]
fn staging_again_replaces_the_copy() {
    let (project, folder) = project();
    fs::write(project.path().join("a.md"), "old").unwrap();
    stage(&folder, &tag(1, 0), "a.md", None).unwrap();
    stage(&folder, &tag(1, 0), "a.md", Some(b"first")).unwrap();
    stage(&folder, &tag(1, 0), "a.md", Some(b"second")).unwrap();
    assert_eq!(staged(project.path()), ["s1.c1.0"]);
    // The copy must be the one that was settled.
    let placed = folder.place(&tag(1, 0), "a.md", of("old"), of("first"));
    assert!(matches!(placed, Err(FilesFault::Unavailable { .. })), "{placed:?}");
    assert_eq!(fs::read(project.path().join("a.md")).unwrap(), b"old");
    let placed = folder.place(&tag(1, 0), "a.md", of("old"), of("second"));
    assert_eq!(placed, Ok(Placed::Done));
    // Without a copy there is nothing to place.
    let placed = folder.place(&tag(2, 0), "a.md", of("second"), of("third"));
    assert!(matches!(placed, Err(FilesFault::Unavailable { .. })), "{placed:?}");
}

#[test]
fn leftovers_are_ours_and_can_be_discarded() {
    let (project, folder) = project();
    stage(&folder, &tag(10, 1), "b.md", None).unwrap();
    stage(&folder, &tag(2, 0), "a.md", Some(b"a")).unwrap();
    let strangers = project.path().join(".toolgate/staged");
    for name in ["README", "s1.c2", "s1.c2.0.tmp", "S1.c2.0", "s1.c02.0", ".s1.c2.0"] {
        fs::write(strangers.join(name), "").unwrap();
    }
    assert_eq!(folder.leftovers(), Ok(vec![tag(2, 0), tag(10, 1)]));
    for leftover in folder.leftovers().unwrap() {
        folder.discard(&leftover).unwrap();
        folder.discard(&leftover).unwrap();
    }
    assert_eq!(folder.leftovers(), Ok(vec![]));
    assert_eq!(staged(project.path()).len(), 6);
}

#[test]
fn sizes_are_bounded() {
    let (project, folder) = project();
    let largest = vec![1; usize::try_from(FILE_BYTES_MAX).unwrap()];
    stage(&folder, &tag(1, 0), "large.bin", Some(&largest)).unwrap();
    let new = Some(Digest::of(&largest));
    assert_eq!(folder.place(&tag(1, 0), "large.bin", None, new), Ok(Placed::Done));
    assert_eq!(folder.version("large.bin"), Ok(new));
    let too_large = [largest, vec![1]].concat();
    let refusal =
        || FilesFault::TooLarge { path: "large.bin".to_owned(), bytes_max: FILE_BYTES_MAX };
    assert_eq!(stage(&folder, &tag(2, 0), "large.bin", Some(&too_large)), Err(refusal()));
    fs::write(project.path().join("large.bin"), &too_large).unwrap();
    assert_eq!(folder.read("large.bin"), Err(refusal()));
    assert_eq!(staged(project.path()), [""; 0]);
}

#[test]
fn a_project_that_is_not_there_is_refused() {
    let parent = tempdir().unwrap();
    let (missing, file) = (parent.path().join("missing"), parent.path().join("file"));
    fs::write(&file, "").unwrap();
    for project in [&missing, &file] {
        let opened = Folder::open(project, parent.path().join("staged"));
        assert!(matches!(opened, Err(FolderFault::Project { .. })));
    }
    let opened = Folder::open(parent.path(), file.join("staged"));
    assert!(matches!(opened, Err(FolderFault::Staging { .. })));
}

/// What we put in place is known without reading it, until anybody touches it.
#[test]
fn a_change_after_placing_is_seen() {
    let (project, folder) = project();
    let path = project.path().join("a.md");
    for round in 0..30_u64 {
        let (text, other) = (format!("text {round:03}"), format!("mine {round:03}"));
        let old = folder.version("a.md").unwrap();
        stage(&folder, &tag(round + 1, 0), "a.md", Some(text.as_bytes())).unwrap();
        let placed = folder.place(&tag(round + 1, 0), "a.md", old, of(&text));
        assert_eq!(placed, Ok(Placed::Done));
        assert_eq!(folder.version("a.md"), Ok(of(&text)));
        match round % 3 {
            // In place, with the same length.
            0 => fs::write(&path, &other).unwrap(),
            // Another file under the same name.
            1 => {
                fs::write(project.path().join("b.md"), &other).unwrap();
                fs::rename(project.path().join("b.md"), &path).unwrap();
            }
            _ => fs::remove_file(&path).unwrap(),
        }
        let found = if round % 3 == 2 { None } else { of(&other) };
        assert_eq!(folder.version("a.md"), Ok(found), "round {round}");
        let placed = folder.place(&tag(round + 1, 0), "a.md", of(&text), of("x"));
        assert_ne!(placed, Ok(Placed::Done));
    }
}

/// Plays a test of this file again, in a process that may open few files.
#[cfg(unix)]
fn with_few_open_files(test: &str) {
    let run = "ulimit -n 64 && exec \"$0\" \"$1\" --exact --nocapture";
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", run]).arg(program).arg(format!("folder::{test}")).env(FEW, "1");
    let played = command.output().unwrap();
    let said = String::from_utf8_lossy(&played.stdout);
    assert!(played.status.success() && said.contains("1 passed"), "{played:?}");
}

#[cfg(unix)]
const FEW: &str = "TOOLGATE_TEST_FEW_OPEN_FILES";

#[cfg(unix)]
#[test]
fn a_project_may_have_more_folders_than_a_process_may_open() {
    if std::env::var_os(FEW).is_none() {
        with_few_open_files("a_project_may_have_more_folders_than_a_process_may_open");
        return;
    }
    let (project, folder) = project();
    for number in 0..150 {
        let deep = project.path().join(format!("f{number}/deep"));
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("x.md"), "x").unwrap();
    }
    let listing = folder.list(None).unwrap().unwrap();
    assert_eq!((listing.files.len(), listing.cut), (150, false));
    // What cannot be looked into is said to be missing.
    let mut held = Vec::new();
    while let Ok(file) = fs::File::open("/dev/null") {
        held.push(file);
    }
    held.truncate(held.len() - 3);
    let listing = folder.list(None);
    drop(held);
    if let Ok(listing) = listing {
        assert!(listing.unwrap().cut, "not all of it could be seen");
    }
}

#[test]
fn lists_are_sorted_and_leave_out_what_is_reserved() {
    let (project, folder) = project();
    for path in ["b.md", "a/c.md", "a.md", "toolgate.yaml", ".toolgate/x", ".hidden"] {
        let path = project.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let paths = |under| {
        let listing = folder.list(under).unwrap()?;
        assert!(!listing.cut);
        Some(listing.files.into_iter().map(|file| file.path).collect::<Vec<_>>())
    };
    let some = |paths: &[&str]| Some(paths.iter().map(|path| (*path).to_owned()).collect());
    assert_eq!(paths(None), some(&["a.md", "a/c.md", "b.md"]));
    assert_eq!(paths(Some("a")), some(&["a/c.md"]));
    assert_eq!(paths(Some("b.md")), some(&["b.md"]));
    assert_eq!(paths(Some("none")), None);
    for under in ["", "..", ".toolgate", "a/../..", "/", "ToolGate.yaml"] {
        let outside = Err(FilesFault::Outside { path: under.to_owned() });
        assert_eq!(folder.list(Some(under)), outside, "{under}");
    }
    for number in 0..2_100 {
        fs::write(project.path().join(format!("a/{number}")), "").unwrap();
    }
    let listing = folder.list(None).unwrap().unwrap();
    assert!(listing.cut && listing.files.len() == 2_000);
}
