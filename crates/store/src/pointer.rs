//! Reads and writes the file that stands in the place of a log's folder when the log lies outside of
//! its project.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What the file begins with.
const PREFIX: &str = "toolgate-log: ";

/// Bytes of such a file at most.
const POINTER_BYTES_MAX: u64 = 8 << 10;

/// Where the folder of a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPointer {
    /// The folder, as a whole path.
    pub target: PathBuf,
}

impl LogPointer {
    /// Reads the pointer in a path; nothing where there is no plain file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match path.symlink_metadata() {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut text = String::new();
        File::open(path)?.take(POINTER_BYTES_MAX).read_to_string(&mut text)?;
        let target = text.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix('\n'));
        let target = target.map(PathBuf::from).filter(|target| target.is_absolute());
        let pointer = target.map(|target| Self { target });
        pointer.map(Some).ok_or_else(|| io::Error::other("it is a file, and does not name a log"))
    }

    /// Writes the pointer, in place of what is there.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let target = self.target.to_str().filter(|text| !text.contains('\n'));
        let target = target.ok_or_else(|| {
            io::Error::other("a path that is not one line of text cannot be written down")
        })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        writeln!(file, "{PREFIX}{target}")?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_as_it_was_written_and_other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".toolgate");
        assert_eq!(LogPointer::read(&path).unwrap(), None);
        let pointer = LogPointer { target: PathBuf::from("/srv/log of mine") };
        pointer.write(&path).unwrap();
        assert_eq!(LogPointer::read(&path).unwrap(), Some(pointer));
        for text in ["", "x", "toolgate-log: logs\n", "toolgate-log: /a", "toolgate-log: \n"] {
            std::fs::write(&path, text).unwrap();
            assert!(LogPointer::read(&path).is_err(), "{text:?}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(LogPointer::read(&path).unwrap(), None);
        assert!(LogPointer { target: PathBuf::from("/a\nb") }.write(&path).is_err());
    }
}
