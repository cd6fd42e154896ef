//! Measures the names of the tree: how many type names are one word, bare participles or defined more
//! than once, which comments use banned words, and which types are largest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

/// Words that comments do not use, because they hide who acts or mean something only here.
pub const BANNED_IN_COMMENTS: &[&str] = &["whoever", "nobody", "somebody", "anybody's"];

/// Words that are no part of a type name: metaphors where the field has a term.
pub const BANNED_IN_NAMES: &[&str] = &[
    "Clerk", "Floor", "Hall", "Desk", "Seat", "Porter", "Pen", "Veil", "Curtain", "Ear", "Lap",
    "Bell", "Keeper", "Crew", "Mirror", "Shelf", "Den",
];

/// Names that every module may define for itself.
const SHARED_NAMES: &[&str] = &["Error", "Options", "Params", "State"];

/// Participles that do not end in `ed`.
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "Begun", "Bent", "Bound", "Built", "Cut", "Done", "Drawn", "Felt", "Found", "Given", "Gone",
    "Heard", "Held", "Hidden", "Kept", "Known", "Laid", "Left", "Lent", "Lost", "Lying", "Made",
    "Met", "Paid", "Put", "Ran", "Read", "Said", "Seen", "Sent", "Set", "Shown", "Spent", "Split",
    "Spoken", "Spun", "Taken", "Told", "Torn", "Undone", "Written",
];

/// Words that end like a participle and are none.
const NO_PARTICIPLES: &[&str] = &["Need", "Seed", "Feed", "Speed", "Embed", "Bed"];

/// One type of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDefinition {
    /// Its name.
    pub name: String,
    /// Where it is defined: path and line.
    pub place: String,
    /// Fields of a struct, variants of an enum.
    pub fields: usize,
    /// Whether `fields` counts the fields of a struct.
    pub is_struct: bool,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct NameReport {
    /// All types, in the order of the files.
    pub types: Vec<TypeDefinition>,
    /// Methods of each type, in the crate that it belongs to.
    pub methods: BTreeMap<(String, String), usize>,
    /// Comment lines with a banned word: path, line and word.
    pub banned_comments: Vec<String>,
    /// Files that open with "Decides".
    pub decides: Vec<String>,
}

/// The figures that must not grow, by name.
pub type Figures = BTreeMap<&'static str, usize>;

impl NameReport {
    /// Measures the product sources below a root: `crates/*/src`, without tests.
    ///
    /// # Errors
    ///
    /// A source that cannot be read or parsed.
    pub fn measure(root: &Path) -> Result<Self> {
        let mut report = Self::default();
        let mut paths = Vec::new();
        for folder in fs::read_dir(root.join("crates"))? {
            rust_files(&folder?.path().join("src"), &mut paths)?;
        }
        paths.sort();
        for path in paths {
            let text = fs::read_to_string(&path)?;
            let relative = path.strip_prefix(root)?.to_string_lossy().into_owned();
            report.add(&relative, &text).with_context(|| relative.clone())?;
        }
        Ok(report)
    }

    /// Adds one source file.
    ///
    /// # Errors
    ///
    /// A text that is not Rust.
    pub fn add(&mut self, path: &str, text: &str) -> Result<()> {
        let file = syn::parse_file(text)?;
        let crate_name = path.split('/').nth(1).unwrap_or_default().to_owned();
        let mut visitor = TypeVisitor { report: self, path, crate_name };
        visitor.visit_file(&file);
        self.add_comments(path, text);
        Ok(())
    }

    fn add_comments(&mut self, path: &str, text: &str) {
        if text.starts_with("//! Decides") {
            self.decides.push(path.to_owned());
        }
        for (at, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else { continue };
            let lower = comment.to_lowercase();
            let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '\'');
            if let Some(word) = words.find(|word| BANNED_IN_COMMENTS.contains(word)) {
                self.banned_comments.push(format!("{path}:{}: {word}", at + 1));
            }
        }
    }

    /// Type names of one word.
    pub fn one_word(&self) -> Vec<&TypeDefinition> {
        self.types.iter().filter(|one| words(&one.name).len() == 1).collect()
    }

    /// Type names that are one participle.
    pub fn participles(&self) -> Vec<&TypeDefinition> {
        self.types.iter().filter(|one| is_participle(&one.name)).collect()
    }

    /// Types whose name stands for another type too.
    pub fn defined_twice(&self) -> Vec<&TypeDefinition> {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for one in &self.types {
            *count.entry(&one.name).or_default() += 1;
        }
        let twice = |one: &&TypeDefinition| {
            count.get(one.name.as_str()).is_some_and(|n| *n > 1)
                && !SHARED_NAMES.contains(&one.name.as_str())
        };
        self.types.iter().filter(twice).collect()
    }

    /// Types with a banned word in their name.
    pub fn banned_names(&self) -> Vec<&TypeDefinition> {
        let banned = |one: &&TypeDefinition| {
            words(&one.name).iter().any(|word| BANNED_IN_NAMES.contains(&word.as_str()))
        };
        self.types.iter().filter(banned).collect()
    }

    /// The struct with the most fields.
    pub fn most_fields(&self) -> Option<&TypeDefinition> {
        self.types.iter().filter(|one| one.is_struct).max_by_key(|one| one.fields)
    }

    /// The type with the most methods: its crate, its name and how many.
    pub fn most_methods(&self) -> Option<(&str, &str, usize)> {
        let most = self.methods.iter().max_by_key(|(_, count)| **count)?;
        let ((crate_name, name), count) = most;
        Some((crate_name, name, *count))
    }

    /// All figures that must not grow.
    pub fn figures(&self) -> Figures {
        Figures::from([
            ("one_word_types", self.one_word().len()),
            ("participle_types", self.participles().len()),
            ("types_defined_twice", self.defined_twice().len()),
            ("banned_type_names", self.banned_names().len()),
            ("banned_comment_lines", self.banned_comments.len()),
            ("files_that_decide", self.decides.len()),
            ("most_methods", self.most_methods().map_or(0, |(_, _, count)| count)),
            ("most_fields", self.most_fields().map_or(0, |one| one.fields)),
        ])
    }
}

/// The words of a name in camel case: `HttpError` is two.
pub fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before_is_upper = true;
    for letter in name.chars() {
        let starts = letter.is_uppercase() && !before_is_upper;
        match words.last_mut() {
            Some(word) if !starts => word.push(letter),
            _ => words.push(letter.to_string()),
        }
        before_is_upper = letter.is_uppercase();
    }
    words
}

/// Whether a name is nothing but a participle, as `Told` or `Answered`.
pub fn is_participle(name: &str) -> bool {
    if words(name).len() != 1 || NO_PARTICIPLES.contains(&name) {
        return false;
    }
    IRREGULAR_PARTICIPLES.contains(&name) || (name.ends_with("ed") && name.len() > 4)
}

struct TypeVisitor<'a> {
    report: &'a mut NameReport,
    path: &'a str,
    crate_name: String,
}

impl TypeVisitor<'_> {
    fn add_type(&mut self, name: &syn::Ident, fields: usize, is_struct: bool) {
        let place = format!("{}:{}", self.path, name.span().start().line);
        let name = name.to_string();
        self.report.types.push(TypeDefinition { name, place, fields, is_struct });
    }
}

impl<'ast> Visit<'ast> for TypeVisitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if !is_test(&item.attrs) {
            self.add_type(&item.ident, item.fields.len(), true);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if !is_test(&item.attrs) {
            self.add_type(&item.ident, item.variants.len(), false);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        if !is_test(&item.attrs) {
            self.add_type(&item.ident, 0, false);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if is_test(&item.attrs) || item.trait_.is_some() {
            return;
        }
        let syn::Type::Path(path) = &*item.self_ty else { return };
        let Some(segment) = path.path.segments.last() else { return };
        let is_method = |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(_));
        let count = item.items.iter().filter(is_method).count();
        let key = (self.crate_name.clone(), segment.ident.to_string());
        *self.report.methods.entry(key).or_default() += count;
    }
}

/// Whether an item exists in tests only.
fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg") && {
            let syn::Meta::List(list) = &attr.meta else { return false };
            list.tokens.to_string() == "test"
        }
    })
}

fn rust_files(folder: &Path, found: &mut Vec<std::path::PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() {
            if !is_test {
                rust_files(&path, found)?;
            }
        } else if path.extension().is_some_and(|kind| kind == "rs") && !is_test {
            found.push(path);
        }
    }
    Ok(())
}

/// Names that several types share, each with its places, most frequent first.
pub fn shared_names(report: &NameReport) -> Vec<(String, Vec<String>)> {
    let names: BTreeSet<&str> = report.defined_twice().iter().map(|t| t.name.as_str()).collect();
    let places = |name: &str| {
        let same = report.types.iter().filter(|one| one.name == name);
        same.map(|one| one.place.clone()).collect::<Vec<_>>()
    };
    let mut shared: Vec<_> = names.iter().map(|name| ((*name).to_owned(), places(name))).collect();
    shared.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    shared
}

/// How many of all, in percent with one decimal.
pub fn percent(part: usize, all: usize) -> String {
    let tenths = (part * 1_000).checked_div(all).unwrap_or(0);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{NameReport, is_participle, percent, shared_names, words};

    const SAMPLE: &str = "\
//! Decides nothing.
struct Told { a: u8, b: u8 }
// Whoever reads this is somebody.
enum CallState { Open }
impl Told { fn a() {} fn b() {} }
impl Clone for Told { fn clone(&self) -> Self { Told { a: 0, b: 0 } } }
mod inner { struct CallState; trait Need {} }
#[cfg(test)]
mod tests { struct Hidden; }
";

    fn sample() -> NameReport {
        let mut report = NameReport::default();
        report.add("crates/kernel/src/sample.rs", SAMPLE).unwrap();
        report
    }

    #[test]
    fn types_of_tests_do_not_count() {
        let names: Vec<_> = sample().types.iter().map(|one| one.name.clone()).collect();
        assert_eq!(names, ["Told", "CallState", "CallState", "Need"]);
    }

    #[test]
    fn figures_of_a_sample() {
        let report = sample();
        let figures = report.figures();
        let figure = |name| figures.get(name).copied();
        assert_eq!(figure("one_word_types"), Some(2));
        assert_eq!(figure("participle_types"), Some(1));
        assert_eq!(figure("types_defined_twice"), Some(2));
        assert_eq!(figure("banned_comment_lines"), Some(1));
        assert_eq!(figure("files_that_decide"), Some(1));
        assert_eq!(figure("most_methods"), Some(2));
        assert_eq!(figure("most_fields"), Some(2));
        assert_eq!(shared_names(&report).len(), 1);
    }

    #[test]
    fn names_fall_into_words() {
        for (name, expected) in [("Told", 1), ("HttpError", 2), ("MCPServer", 1), ("A", 1)] {
            assert_eq!(words(name).len(), expected, "{name}");
        }
        assert!(is_participle("Answered") && is_participle("Ran"));
        assert!(!is_participle("Need") && !is_participle("AnsweredCall"));
        assert_eq!(percent(1, 3), "33.3 %");
    }
}
