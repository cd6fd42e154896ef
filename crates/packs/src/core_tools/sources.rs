//! Finds and reads the sources of a project: files, manuscript sections, notes and facts.
//!
//! A source is named by a ref. `Library` lists what there is in reading order, says which role each
//! source has, and reads within the bounds of one call.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::{Code, Trouble};
use toolgate_kernel::fold::{Shelf, Slot, State};
use toolgate_kernel::json::Document as Args;
use toolgate_kernel::key::{Access, Key};
use toolgate_kernel::path::project_path;
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Listed, Listing};

use super::Setup;
use super::names::KnownNames;
use super::text::{Text, listed, token_words};
use crate::files::near;
use crate::manuscript::{PlacedSection, placed_sections};
use crate::workspace::{Document, Root};

/// Largest source, in bytes.
const SOURCE_BYTES_MAX: u64 = 4 << 20;

/// Most bytes that one call reads.
const CALL_BYTES_MAX: u64 = 64 << 20;

/// Most refs that an error suggests.
const NEAR_MAX: usize = 10;

/// Endings of files that are sources.
const ENDINGS: &[&str] = &[".md", ".markdown", ".txt"];

/// What stands before the title in the name of a file or note.
const PREFIXES: &[&str] = &["SCN-", "CHAR-"];

/// The ref of the facts.
const FACTS: &str = "facts";

/// What a source is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    Outline,
    Canon,
    Scene,
    Other,
}

/// Where a source is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kept {
    File,
    Section,
    Note,
    Facts,
}

/// A source that is there, before it is read.
#[derive(Debug, Clone)]
pub(super) struct SourceEntry {
    pub(super) reference: String,
    pub(super) role: Role,
    pub(super) bytes: u64,
    kept: Kept,
}

/// A source that was read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) reference: String,
    pub(super) role: Role,
    pub(super) sha256: Digest,
    pub(super) text: Text,
}

/// Why a source was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadError {
    NotFound,
    Empty,
    NotText,
    TooLarge,
}

/// A source of a list of refs, or why it was not read.
pub(super) type ReadOutcome = Result<Arc<Source>, Unread>;

/// A ref of a list that was not read.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    pub(super) reference: String,
    pub(super) error: ReadError,
}

/// Globs that say which sources have a role; the order of a list is the order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceGlobs {
    /// The outline. The first one that is found is the default outline.
    pub outline: Vec<String>,
    /// What holds true in the story.
    pub canon: Vec<String>,
    /// Scenes and chapters. Sections of the manuscript are scenes without being named here.
    pub scenes: Vec<String>,
}

impl Default for SourceGlobs {
    fn default() -> Self {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        Self {
            outline: owned(&[
                "Story/SCN-outline.md",
                "**/*outline*.md",
                "section:outline*",
                "note:outline",
            ]),
            canon: owned(&[
                "Compendium/**",
                "canon/**",
                "**/CHAR-*",
                "note:{char,canon,lore,world,place}_*",
                FACTS,
            ]),
            scenes: owned(&["Story/Scenes/**", "scenes/**", "chapters/**", "**/SCN-*"]),
        }
    }
}

/// The globs of all roles, compiled.
#[derive(Debug)]
pub(super) struct RoleGlobs {
    outline: Vec<GlobMatcher>,
    canon: Vec<GlobMatcher>,
    scenes: Vec<GlobMatcher>,
    /// Folders that a canon glob takes as a whole, in lower case: `compendium/`.
    canon_roots: Vec<String>,
}

impl RoleGlobs {
    /// Compiles the globs; the sentence says which one is not usable.
    pub(super) fn new(globs: &SourceGlobs) -> Result<Self, String> {
        let all = |list: &[String]| list.iter().map(|text| glob(text)).collect::<Result<_, _>>();
        let roots = globs.canon.iter().filter_map(|glob| glob.strip_suffix("**"));
        Ok(Self {
            outline: all(&globs.outline)?,
            canon: all(&globs.canon)?,
            scenes: all(&globs.scenes)?,
            canon_roots: roots.map(str::to_lowercase).collect(),
        })
    }

    /// The role of a source by its ref alone.
    pub(super) fn role_of(&self, reference: &str) -> Role {
        let section = reference.starts_with("section:");
        self.role(reference, if section { Kept::Section } else { Kept::File })
    }

    fn role(&self, reference: &str, kept: Kept) -> Role {
        let fits = |globs: &[GlobMatcher]| globs.iter().any(|glob| glob.is_match(reference));
        if fits(&self.outline) {
            Role::Outline
        } else if fits(&self.canon) {
            Role::Canon
        } else if fits(&self.scenes) || kept == Kept::Section {
            Role::Scene
        } else {
            Role::Other
        }
    }
}

/// A glob over refs: `*` stays within a folder, and letters fit in any case.
pub(super) fn glob(text: &str) -> Result<GlobMatcher, String> {
    let mut builder = GlobBuilder::new(text);
    builder.case_insensitive(true).literal_separator(true).backslash_escape(true);
    let glob =
        builder.build().map_err(|error| format!("{text:?} is not a usable glob: {error}"))?;
    Ok(glob.compile_matcher())
}

impl ReadError {
    /// The word for it in an answer.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Empty => "empty",
            Self::NotText => "not_text",
            Self::TooLarge => "too_large",
        }
    }

    fn sentence(self, reference: &str) -> String {
        match self {
            Self::NotFound => format!("There is no source {reference}."),
            Self::Empty => format!("{reference} is empty."),
            Self::NotText => format!("{reference} is not a text file in UTF-8."),
            Self::TooLarge => {
                format!(
                    "{reference} is larger than what one call may read ({SOURCE_BYTES_MAX} bytes)."
                )
            }
        }
    }
}

impl Unread {
    /// The entry of an answer.
    pub(super) fn shown(&self) -> Value {
        json!({ "source": self.reference, "error": self.error.as_str() })
    }
}

impl SourceEntry {
    /// The last part of the ref without its ending: what names the source.
    pub(super) fn stem(&self) -> &str {
        stem(&self.reference)
    }

    /// The title that follows from the ref alone.
    pub(super) fn name_title(&self) -> String {
        name_title(&self.reference)
    }
}

impl Source {
    /// The title: of the front matter, else the first heading, else of the ref.
    pub(super) fn title(&self) -> String {
        let heading = || self.text.headings.iter().map(|it| &it.title).find(|it| !it.is_empty());
        let written = self.text.front.title.clone().or_else(|| heading().cloned());
        written.unwrap_or_else(|| name_title(&self.reference))
    }

    /// Other names: of the front matter, and of a line `Aliases: a, b`.
    pub(super) fn aliases(&self) -> Vec<String> {
        let mut aliases = self.text.front.aliases.clone();
        for (_, line) in self.text.lines() {
            if let Some(value) = field_value(line, "aliases") {
                aliases.extend(listed(&value));
            }
        }
        aliases.dedup();
        aliases
    }

    /// What it is about, as tokens: its title and aliases, or what the facts have a value of.
    pub(super) fn names(&self) -> Vec<Vec<String>> {
        let mut names: Vec<Vec<String>> = Vec::new();
        let mut add = |name: &str| {
            let words = token_words(name);
            if !words.is_empty() && !names.contains(&words) {
                names.push(words);
            }
        };
        if self.reference != FACTS {
            add(&self.title());
            self.aliases().iter().for_each(|alias| add(alias));
            return names;
        }
        for (_, line) in self.text.lines() {
            let path = line.split_once(": ").map_or(line, |(path, _)| path);
            let parents = path.rsplit_once('/').map_or("", |(parents, _)| parents);
            // The first two are nothing and `facts`.
            parents.split('/').skip(2).for_each(|name| add(&name.replace(['_', '-'], " ")));
        }
        names
    }

    /// How the source stands in the `sources` of an answer.
    pub(super) fn shown(&self) -> Value {
        json!({
            "source": self.reference, "role": self.role, "lines": self.text.line_count(),
            "sha256": self.sha256,
        })
    }
}

/// The value of a line `Field: value`, in any case, also as a list item or in bold.
pub(super) fn field_value(line: &str, field: &str) -> Option<String> {
    let (key, value) = line.split_once(':')?;
    let bare = |text: &str| {
        text.trim_matches(|c: char| c.is_whitespace() || "*_-+>|".contains(c)).to_owned()
    };
    let value = bare(value);
    (bare(key).to_lowercase() == field && !value.is_empty()).then_some(value)
}

/// The last part of a ref without folder, prefix of its kind and ending.
pub(super) fn stem(reference: &str) -> &str {
    let name = reference.split_once(':').map_or(reference, |(_, name)| name);
    let name = name.rsplit('/').next().unwrap_or(name);
    ENDINGS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// A title made of a ref: without `SCN-` and `CHAR-`, with blanks for hyphens.
fn name_title(reference: &str) -> String {
    let stem = stem(reference);
    let cut = |prefix: &&&str| {
        stem.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let prefix = PREFIXES.iter().find(cut).map_or(0, |prefix| prefix.len());
    let mut name = stem.get(prefix..).unwrap_or(stem);
    if reference.starts_with("note:") {
        // `note:char_mira` is about Mira.
        name = name.split_once('_').map_or(name, |(_, name)| name);
    }
    name.replace(['-', '_'], " ").trim().to_owned()
}

/// Where sources are kept: what a call may read, or what is there at the moment.
pub(super) trait SourceAccess {
    /// The state of the project.
    fn state(&self) -> &State;

    /// The files of the project.
    fn listing(&self) -> Listing;

    /// The content of a file that may be read.
    fn content(&self, path: &str) -> Option<Vec<u8>>;
}

impl SourceAccess for Transaction {
    fn state(&self) -> &State {
        &self.project().state
    }

    fn listing(&self) -> Listing {
        // A session without a folder has no files; its other sources are there all the same.
        self.list_files(None).ok().flatten().unwrap_or_default()
    }

    fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.read_file(path).ok().flatten()
    }
}

/// The sources of a project, as one call sees them.
pub(super) struct Library<'a> {
    access: &'a dyn SourceAccess,
    setup: &'a Setup,
    entries: Vec<SourceEntry>,
    sections: Vec<PlacedSection>,
    /// Whether the folder has more files than were listed.
    pub(super) cut: bool,
    read: BTreeMap<String, Result<Arc<Source>, ReadError>>,
    bytes_read: u64,
}

impl<'a> Library<'a> {
    /// Lists the sources there are.
    pub(super) fn open(access: &'a dyn SourceAccess, setup: &'a Setup) -> Self {
        let state = access.state();
        let listing = access.listing();
        let sections = placed_sections(state);
        let mut entries: Vec<SourceEntry> = Vec::new();
        let mut add = |reference: String, kept, bytes| {
            let role = setup.globs.role(&reference, kept);
            entries.push(SourceEntry { reference, role, bytes, kept });
        };
        let mut files: Vec<Listed> =
            listing.files.into_iter().filter(|file| is_text_path(&file.path)).collect();
        files.sort_by(|a, b| natural(&a.path).cmp(&natural(&b.path)).then(a.path.cmp(&b.path)));
        for file in files {
            add(file.path, Kept::File, file.bytes);
        }
        for section in &sections {
            add(format!("section:{}", section.name()), Kept::Section, length(section.text()));
        }
        for (name, slot) in state.shelf("note").into_iter().flat_map(Shelf::iter) {
            add(format!("note:{name}"), Kept::Note, length(&note_text(slot)));
        }
        let facts = facts_text(state);
        if !facts.is_empty() {
            add(FACTS.to_owned(), Kept::Facts, length(&facts));
        }
        let (read, cut) = (BTreeMap::new(), listing.cut);
        Self { access, setup, entries, sections, cut, read, bytes_read: 0 }
    }

    /// Every source, in reading order.
    pub(super) fn entries(&self) -> &[SourceEntry] {
        &self.entries
    }

    /// The sources of a role, in reading order.
    pub(super) fn of_role(&self, role: Role) -> Vec<SourceEntry> {
        self.entries.iter().filter(|entry| entry.role == role).cloned().collect()
    }

    /// The beats of the manuscript, with storyline, chapter and beat.
    pub(super) fn manuscript_beats(&self) -> Vec<(SourceEntry, String, String)> {
        let beats = self.sections.iter().filter_map(|section| {
            let (_, chapter, beat) = section.beat()?;
            let entry = self.exact(&format!("section:{}", section.name()))?;
            Some((entry, chapter.to_owned(), beat.to_owned()))
        });
        beats.collect()
    }

    /// The default outline among files, sections and notes: the first one in the order of the globs.
    pub(super) fn default_outline(&self) -> Option<SourceEntry> {
        let found = self
            .setup
            .globs
            .outline
            .iter()
            .find_map(|glob| self.entries.iter().find(|entry| glob.is_match(&entry.reference)));
        found.cloned()
    }

    /// The source that an argument names: an exact ref, else the only one that fits in any case.
    /// A path that no tool may reach is refused.
    pub(super) fn find(&self, field: &str, given: &str) -> Result<Option<SourceEntry>, Fault> {
        let given = given.trim();
        if let Some(entry) = self.exact(given) {
            return Ok(Some(entry));
        }
        let path = project_path(given, None);
        if let Ok(path) = &path {
            if let Some(entry) = self.exact(path) {
                return Ok(Some(entry));
            }
            // Hidden files are not listed and can be read, as with the file tools.
            if is_text_path(path)
                && let Some(content) = self.access.content(path)
            {
                let (reference, bytes) = (path.clone(), content.len());
                let role = self.setup.globs.role(&reference, Kept::File);
                let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
                return Ok(Some(SourceEntry { reference, role, bytes, kept: Kept::File }));
            }
        }
        let wanted = given.to_lowercase();
        let fits = |entry: &&SourceEntry| {
            let reference = entry.reference.to_lowercase();
            let end = reference.strip_suffix(&wanted);
            end.is_some_and(|start| start.is_empty() || start.ends_with(['/', ':']))
        };
        let mut fitting = self.entries.iter().filter(fits);
        match (fitting.next(), fitting.next(), path) {
            (Some(entry), None, _) if !wanted.is_empty() => Ok(Some(entry.clone())),
            (_, _, Err(refusal)) if !self.has_prefix(given) => {
                Err(Fault::invalid(format!("{field}: {refusal}.")).at(field))
            }
            _ => Ok(None),
        }
    }

    fn has_prefix(&self, given: &str) -> bool {
        given == FACTS || given.starts_with("section:") || given.starts_with("note:")
    }

    fn exact(&self, reference: &str) -> Option<SourceEntry> {
        let found = self.entries.iter().find(|entry| entry.reference == reference);
        let found = found.or_else(|| {
            let section = format!("section:{reference}");
            self.entries.iter().find(|entry| entry.reference == section)
        });
        found.cloned()
    }

    /// Refs that may have been meant.
    pub(super) fn near(&self, given: &str, max: usize) -> Vec<String> {
        let listed =
            |entry: &SourceEntry| Listed { path: entry.reference.clone(), bytes: entry.bytes };
        let all: Vec<Listed> = self.entries.iter().map(listed).collect();
        let mut found = near(given, &all);
        let words = token_words(&given.replace(['-', '_', '/'], " "));
        for entry in &self.entries {
            let own = token_words(&entry.reference.replace(['-', '_', '/'], " "));
            let shared = words.iter().any(|word| word.len() > 2 && own.contains(word));
            if shared && !found.contains(&entry.reference) {
                found.push(entry.reference.clone());
            }
        }
        found.truncate(max.min(NEAR_MAX));
        found
    }

    /// Reads a source. What was read in this call is not read again.
    pub(super) fn read(&mut self, entry: &SourceEntry) -> Result<Arc<Source>, ReadError> {
        if let Some(read) = self.read.get(&entry.reference) {
            return read.clone();
        }
        let read = self.fetch(entry);
        self.read.insert(entry.reference.clone(), read.clone());
        read
    }

    fn fetch(&mut self, entry: &SourceEntry) -> Result<Arc<Source>, ReadError> {
        let total = self.bytes_read.saturating_add(entry.bytes);
        if entry.bytes > SOURCE_BYTES_MAX || total > CALL_BYTES_MAX {
            return Err(ReadError::TooLarge);
        }
        let state = self.access.state();
        let (mut line, name) = (1, entry.reference.split_once(':').map_or("", |(_, name)| name));
        let bytes = match entry.kept {
            Kept::File => self.access.content(&entry.reference).ok_or(ReadError::NotFound)?,
            Kept::Section => {
                let section = self.sections.iter().find(|section| section.name() == name);
                let section = section.ok_or(ReadError::NotFound)?;
                line = section.line;
                section.text().as_bytes().to_vec()
            }
            Kept::Note => {
                let slot = state.shelf("note").and_then(|shelf| shelf.get(name));
                note_text(slot.ok_or(ReadError::NotFound)?).into_bytes()
            }
            Kept::Facts => facts_text(state).into_bytes(),
        };
        self.bytes_read = total;
        if bytes.len() > usize::try_from(SOURCE_BYTES_MAX).unwrap_or(usize::MAX) {
            return Err(ReadError::TooLarge);
        }
        let sha256 = Digest::of(&bytes);
        let text = plain_text(bytes).ok_or(ReadError::NotText)?;
        if text.trim().is_empty() {
            return Err(ReadError::Empty);
        }
        let text = Text::new(text, line, self.setup.lists);
        let (reference, role) = (entry.reference.clone(), entry.role);
        Ok(Arc::new(Source { reference, role, sha256, text }))
    }

    /// The source that a required argument names.
    pub(super) fn required(&mut self, field: &str, given: &str) -> Result<Arc<Source>, Fault> {
        match self.one(field, given)? {
            Ok(source) => Ok(source),
            Err(unread) => Err(self.not_found(field, &unread)),
        }
    }

    /// The sources of a list, in its order. A list of which nothing can be read fails, and so does
    /// one that names a source twice.
    pub(super) fn each(
        &mut self,
        field: &str,
        given: &[String],
    ) -> Result<Vec<ReadOutcome>, Fault> {
        let outcomes = self.each_or_none(field, given)?;
        match outcomes.iter().find_map(|outcome| outcome.as_ref().err()) {
            Some(first) if outcomes.iter().all(Result::is_err) => {
                let first = first.clone();
                Err(self.not_found(field, &first))
            }
            _ => Ok(outcomes),
        }
    }

    /// The sources of a list, in its order, also when none can be read. A source that is named twice
    /// is refused.
    pub(super) fn each_or_none(
        &mut self,
        field: &str,
        given: &[String],
    ) -> Result<Vec<ReadOutcome>, Fault> {
        let mut outcomes = Vec::with_capacity(given.len());
        let mut seen: Vec<String> = Vec::new();
        for given in given {
            let outcome = self.one(field, given)?;
            let reference = match &outcome {
                Ok(source) => source.reference.clone(),
                Err(unread) => unread.reference.clone(),
            };
            if seen.contains(&reference) {
                let message =
                    format!("{field}: {reference} is named twice; name each source once.");
                return Err(Fault::invalid(message).at(field));
            }
            seen.push(reference);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn one(&mut self, field: &str, given: &str) -> Result<ReadOutcome, Fault> {
        let Some(entry) = self.find(field, given)? else {
            let listed = self.access.listing().files;
            // A file of another kind is there and is no source.
            let other = listed.iter().any(|file| file.path == given.trim());
            let error = if other { ReadError::NotText } else { ReadError::NotFound };
            return Ok(Err(Unread { reference: given.trim().to_owned(), error }));
        };
        let unread = |error| Unread { reference: entry.reference.clone(), error };
        Ok(self.read(&entry).map_err(unread))
    }

    /// The fault for a required source that was not read.
    fn not_found(&self, field: &str, unread: &Unread) -> Fault {
        let near = match unread.error {
            ReadError::NotFound => self.near(&unread.reference, NEAR_MAX),
            ReadError::Empty | ReadError::NotText | ReadError::TooLarge => Vec::new(),
        };
        let hint = match (unread.error, near.is_empty()) {
            (ReadError::NotFound, false) => "Use one of those listed, or file_locator.",
            _ => "file_locator shows which sources there are.",
        };
        let message = format!("{} {hint}", unread.error.sentence(&unread.reference));
        let code = Code::domain("SOURCE_NOT_FOUND").unwrap_or(Code::TOOL_FAILED);
        let fault = Fault::of(Trouble::new(code, message)).at(field);
        if near.is_empty() { fault } else { fault.allowing(near) }
    }

    /// The canon that can be read, in reading order.
    pub(super) fn canon(&mut self) -> Vec<Arc<Source>> {
        let entries = self.of_role(Role::Canon);
        entries.iter().filter_map(|entry| self.read(entry).ok()).collect()
    }

    /// What the canon knows by name, and the names in some texts.
    pub(super) fn known_names<'s>(
        &mut self,
        texts: impl IntoIterator<Item = &'s Source>,
    ) -> KnownNames {
        let mut known = KnownNames::default();
        for source in self.canon() {
            source.names().into_iter().for_each(|name| known.add_canon(name, self.setup.lists));
        }
        texts.into_iter().for_each(|source| known.learn(&source.text, self.setup.lists));
        known
    }

    /// The category of a source by its ref.
    pub(super) fn category_of(&self, reference: &str) -> String {
        self.exact(reference).map_or_else(|| "other".to_owned(), |entry| self.category(&entry))
    }

    /// The category of a canon source: the folder below the root, else the prefix, else `other`.
    pub(super) fn category(&self, entry: &SourceEntry) -> String {
        let lower = entry.reference.to_lowercase();
        let below = self.setup.globs.canon_roots.iter().find_map(|root| {
            let rest = lower.strip_prefix(root.as_str()).filter(|_| !root.is_empty())?;
            let at = entry.reference.len() - rest.len();
            Some(entry.reference.get(at..)?.split_once('/')?.0.to_owned())
        });
        let stem = entry.stem();
        let prefix = stem.split_once(['-', '_']).map(|(prefix, _)| prefix);
        let prefix = prefix.filter(|prefix| {
            entry.kept == Kept::Note || prefix.chars().all(|c| c.is_ascii_uppercase())
        });
        below.or_else(|| prefix.map(str::to_lowercase)).unwrap_or_else(|| "other".to_owned())
    }
}

/// Which keys the refs of some arguments name.
pub(super) fn footprint(args: &Args, fields: &[&str]) -> Vec<(Access, Key)> {
    let mut keys = Vec::new();
    let mut add = |reference: &str| {
        let reference = reference.trim();
        let state = reference == FACTS
            || reference.starts_with("section:")
            || reference.starts_with("note:");
        let key = match (state, project_path(reference, None)) {
            (true, _) => Key::parse(reference).ok(),
            (false, Ok(path)) => Key::parse(&format!("file:{path}")).ok(),
            // The handler refuses it in words that help.
            (false, Err(_)) => None,
        };
        keys.extend(key.map(|key| (Access::Read, key)));
    };
    let args = args.to_map();
    for field in fields {
        match args.get(*field) {
            Some(Value::String(reference)) => add(reference),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).for_each(&mut add),
            _ => {}
        }
    }
    keys
}

/// A path in an order in which numbers count as numbers.
fn natural(path: &str) -> Vec<(u8, u64, String)> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = match digits {
            0 => rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()),
            digits => digits,
        };
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match part.parse() {
            Ok(number) if digits > 0 => parts.push((0, number, String::new())),
            _ => parts.push((1, 0, part.to_lowercase())),
        }
        rest = after;
    }
    parts
}

fn is_text_path(path: &str) -> bool {
    let lower = path.to_lowercase();
    ENDINGS.iter().any(|end| lower.ends_with(end))
}

/// UTF-8 without a byte order mark, with plain line ends.
fn plain_text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Some(if text.contains('\r') { text.replace("\r\n", "\n") } else { text })
}

fn note_text(slot: &Slot) -> String {
    match slot.as_one() {
        Some(Value::String(text)) => text.clone(),
        _ => serde_json::to_string_pretty(&sorted(slot.value())).unwrap_or_default(),
    }
}

/// A value with the keys of its objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => other,
    }
}

/// The facts as one line per leaf.
fn facts_text(state: &State) -> String {
    let facts = Document::of(state, Root::Facts).value;
    let mut lines = Vec::new();
    leaves(&facts, "/facts", &mut lines);
    if facts.as_object().is_some_and(serde_json::Map::is_empty) {
        lines.clear();
    }
    lines.sort();
    lines.join("\n")
}

fn leaves(value: &Value, path: &str, lines: &mut Vec<String>) {
    let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1").replace('\n', " ");
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(name, value)| {
                leaves(value, &format!("{path}/{}", escaped(name)), lines);
            });
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(at, value)| {
                leaves(value, &format!("{path}/{at}"), lines);
            });
        }
        Value::String(text) => lines.push(format!("{path}: {}", text.replace('\n', " "))),
        // An empty object or list is a leaf too.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) | Value::Array(_) => {
            lines.push(format!("{path}: {value}"));
        }
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_paths_are_numbers() {
        let mut paths = ["s/10.md", "s/2.md", "S/1.md", "a.md", "s/2b.md"];
        paths.sort_by_key(|path| natural(path));
        assert_eq!(paths, ["a.md", "S/1.md", "s/2.md", "s/2b.md", "s/10.md"]);
    }

    #[test]
    fn roles_follow_the_globs() {
        let globs = RoleGlobs::new(&SourceGlobs::default()).unwrap();
        for (reference, kept, role) in [
            ("Story/SCN-outline.md", Kept::File, Role::Outline),
            ("story/My-Outline.md", Kept::File, Role::Outline),
            ("section:Outline of it", Kept::Section, Role::Outline),
            ("note:outline", Kept::Note, Role::Outline),
            ("compendium/characters/char-mira.md", Kept::File, Role::Canon),
            ("deep/down/CHAR-x.md", Kept::File, Role::Canon),
            ("note:char_mira", Kept::Note, Role::Canon),
            ("facts", Kept::Facts, Role::Canon),
            ("SCN-1.md", Kept::File, Role::Scene),
            ("section:One", Kept::Section, Role::Scene),
            ("note:todo", Kept::Note, Role::Other),
            ("README.md", Kept::File, Role::Other),
        ] {
            assert_eq!(globs.role(reference, kept), role, "{reference}");
        }
        assert!(glob("a[").is_err());
    }

    #[test]
    fn titles_follow_from_refs() {
        for (reference, title) in [
            ("Story/Scenes/SCN-scene-1-harbour-at-dawn.md", "scene 1 harbour at dawn"),
            ("CHAR-mira.md", "mira"),
            ("note:char_mira", "mira"),
            ("section:main/one/The storm", "The storm"),
        ] {
            assert_eq!(name_title(reference), title);
        }
    }

    #[test]
    fn facts_are_lines() {
        let mut lines = Vec::new();
        leaves(
            &json!({ "king": { "age": 41, "a/b": "x\ny", "none": {} }, "n": [1, null] }),
            "/facts",
            &mut lines,
        );
        lines.sort();
        assert_eq!(
            lines,
            [
                "/facts/king/age: 41",
                "/facts/king/a~1b: x y",
                "/facts/king/none: {}",
                "/facts/n/0: 1",
                "/facts/n/1: null",
            ]
        );
    }
}
