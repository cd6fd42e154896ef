//! Decides how an agent works with the files of the project folder, and with nothing outside it.

mod read;
mod search;
mod write;

use toolgate_kernel::config::FilesConfig;
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::names::{NameRefusal, SectionName};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::SpecRefusal;
use toolgate_runtime::port::{Fault, Listed, Tool};
use toolgate_runtime::{Pack, Transaction};

use std::sync::Arc;

/// The section.
const NAME: &str = "files";

/// The group of the tools that read.
const READ: &str = "files_read";

/// The group of the tools that write.
const WRITE: &str = "files_write";

/// Most names that are suggested for one that is not there.
const NEAR_MAX: usize = 10;

const TEXT: &str = "## Files\n\n\
    The files of the project folder can be listed, read, searched and changed. Paths are relative \
    to the folder, such as `chapters/one.md`. Nothing outside of it can be reached.";

/// The five file tools.
pub fn files(config: FilesConfig) -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    let labels = FlowLabels { untrusted: config.untrusted, ..FlowLabels::private() };
    let mut tools: Vec<Arc<dyn Tool>> = read::all(&labels)?;
    tools.extend(search::all(labels)?);
    tools.extend(write::all()?);
    Ok(Pack::new(section, tools))
}

/// The file that the argument `path` names.
fn touch(args: &Document, access: Access) -> Vec<(Access, Key)> {
    let path = args.text("path").unwrap_or_default();
    Key::parse(&format!("file:{path}")).ok().map(|key| (access, key)).into_iter().collect()
}

/// The text of a file. A file that is not there or is no text is a fault that helps.
fn text(tx: &Transaction, path: &str) -> Result<String, Fault> {
    let Some(content) = tx.read_file(path).map_err(|fault| fault.at("path"))? else {
        return Err(missing(tx, path)?);
    };
    String::from_utf8(content).map_err(|_| {
        Fault::failed(format!("{path} is not UTF-8 text and cannot be shown.")).at("path")
    })
}

/// The fault for a file that is not there, with names that are near.
fn missing(tx: &Transaction, path: &str) -> Result<Fault, Fault> {
    let files = tx.list_files(None)?.unwrap_or_default().files;
    let near = near(path, &files);
    let hint = match (files.is_empty(), near.is_empty()) {
        (true, _) => "The folder has no files yet.",
        (false, true) => "See what there is with list_files.",
        (false, false) => "Did you mean one of those listed?",
    };
    let fault = Fault::failed(format!("{path} does not exist. {hint}")).at("path");
    Ok(if near.is_empty() { fault } else { fault.allowing(near) })
}

/// Paths that may have been meant: the same name elsewhere, the same stem, the same folder.
pub(crate) fn near(path: &str, files: &[Listed]) -> Vec<String> {
    let parts = |path: &str| {
        let lower = path.to_lowercase();
        let (folder, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let stem = name.split('.').next().unwrap_or(name);
        (folder.to_owned(), name.to_owned(), stem.to_owned())
    };
    let wanted = parts(path);
    let far = |listed: &Listed| {
        let found = parts(&listed.path);
        let spelled = toolgate_kernel::names::nearest(&wanted.2, [found.2.as_str()]).is_some();
        match (found.1 == wanted.1, spelled, found.0 == wanted.0) {
            (true, _, _) => Some(0),
            (false, true, _) => Some(1),
            (false, false, true) => Some(2),
            (false, false, false) => None,
        }
    };
    let mut near: Vec<(i32, &str)> =
        files.iter().filter_map(|file| Some((far(file)?, file.path.as_str()))).collect();
    near.sort_unstable();
    near.into_iter().take(NEAR_MAX).map(|(_, path)| path.to_owned()).collect()
}
