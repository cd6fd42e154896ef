//! Reads the pictures that a person hands over.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toolgate_kernel::limits::Limits;
use toolgate_runtime::Picture;

use crate::project::bounded;

/// Pictures from files.
pub(crate) fn pictures(files: &[PathBuf], limits: &Limits) -> Result<Vec<Picture>> {
    files.iter().map(|file| picture(file, limits)).collect()
}

/// A picture from a file.
pub(crate) fn picture(file: &Path, limits: &Limits) -> Result<Picture> {
    let bytes = bounded(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Picture::read(bytes, limits).with_context(|| format!("{} cannot be shown", file.display()))
}
