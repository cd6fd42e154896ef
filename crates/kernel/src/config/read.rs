//! Decides what a configuration file says, and keeps the place of everything in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::finding::{Finding, Mistake, Severity, Span};
use super::secret::{holds_secret, is_secret};
use super::tree::{Kind, Node};
use super::{AgentText, PackName, structure, yaml};
use crate::pin::Pins;
use crate::section::Section;

/// A configuration file as far as it could be read. What did not fit is not in it.
#[derive(Clone)]
pub struct Reading {
    /// What it says.
    pub text: AgentText,
    /// What was found so far.
    pub findings: Vec<Finding>,
    pub(super) source: String,
    pub(super) tree: Option<Node>,
    pub(super) doubtful: BTreeSet<String>,
    pub(super) dropped: BTreeSet<String>,
    pub(super) pins: Option<Pins>,
    pub(super) every: Option<Everything>,
}

/// The names that all packs together have, whichever are enabled.
#[derive(Clone)]
pub(super) struct Everything {
    pub(super) tools: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
    pub(super) families: BTreeSet<String>,
    pub(super) words: BTreeSet<String>,
    /// Which pack brings a tool or a group.
    pub(super) packs: BTreeMap<String, String>,
}

/// Reads a configuration file. Nothing of it is used as long as there is an error.
pub fn read(bytes: &[u8]) -> Reading {
    let yaml::Parsed { source, root, mut findings } = yaml::parse(bytes);
    let source = blanked(&source, root.as_ref());
    let Some(mut tree) = root else {
        let text = AgentText::default();
        let (doubtful, dropped) = (BTreeSet::new(), BTreeSet::new());
        return Reading {
            text,
            findings,
            source,
            tree: None,
            doubtful,
            dropped,
            pins: None,
            every: None,
        };
    };
    let form = structure::check(schema(), &mut tree);
    findings.extend(form.findings);
    let text = serde_json::from_value(tree.to_json()).unwrap_or_else(|error| {
        // The schema is made from the types, so this is only what a schema cannot say, or what is
        // left of something that was told already.
        if findings.is_empty() {
            let message = format!("the file cannot be read: {error}");
            findings.push(Finding::error(Mistake::WrongType, message).at(Span::default()));
        }
        AgentText::default()
    });
    let (doubtful, dropped) = (form.doubtful, form.dropped);
    Reading { text, findings, source, tree: Some(tree), doubtful, dropped, pins: None, every: None }
}

impl Reading {
    /// The file to show snippets of: what is secret in it is blanked, and nothing is moved.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The same, with which tools of MCP servers the project has ever seen, so that names of others
    /// are told.
    pub fn beside(self, pins: &Pins) -> Self {
        Self { pins: Some(pins.clone()), ..self }
    }

    /// The same, with the sections of all packs there are. A name that none of them has is wrong,
    /// also where it is not certain which packs were meant.
    pub fn among(self, sections: &[Section]) -> Self {
        let specs = || sections.iter().flat_map(|section| &section.tools);
        let names = specs().flat_map(|spec| std::iter::once(&spec.name).chain(&spec.aliases));
        let families = sections.iter().flat_map(|section| &section.families);
        let words = sections.iter().flat_map(|section| &section.variables);
        let every = Everything {
            tools: names.map(|name| name.to_string()).collect(),
            groups: specs().map(|spec| spec.group.to_string()).collect(),
            families: families.map(|family| family.name.to_string()).collect(),
            words: words.map(|word| word.name.to_owned()).collect(),
            packs: sections.iter().flat_map(brought).collect(),
        };
        Self { every: Some(every), ..self }
    }

    /// Whether it must not be used.
    pub fn refused(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// The JSON Schema of a configuration.
pub(super) fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| schemars::schema_for!(AgentText).to_value())
}

/// A shorter word is too likely to stand elsewhere for another reason.
const SECRET_BYTES_MIN: usize = 8;

/// The tools and groups of a section, each with the pack that brings it: of several packs that make
/// one section, the one that is called as the group.
fn brought(section: &Section) -> impl Iterator<Item = (String, String)> {
    section.tools.iter().flat_map(|spec| {
        let group = spec.group.to_string();
        let own = PackName::ALL.iter().any(|pack| pack.as_str() == group);
        let pack = if own { group.clone() } else { section.name.to_string() };
        [(spec.name.to_string(), pack.clone()), (group, pack)]
    })
}

/// The file with every secret blanked.
fn blanked(source: &str, root: Option<&Node>) -> String {
    let (mut spans, mut words) = (Vec::new(), Vec::new());
    match root {
        Some(root) => secrets(root, false, &mut spans, &mut words),
        None => lines(source, &mut spans),
    }
    // A secret that an alias repeats, or a comment, stands somewhere else too.
    for word in words.iter().filter(|word| word.len() >= SECRET_BYTES_MIN) {
        let found = source.match_indices(word.as_str());
        spans.extend(found.map(|(start, _)| Span { start, end: start + word.len() }));
    }
    let mut bytes = source.as_bytes().to_vec();
    for Span { start, end } in spans {
        for byte in bytes.iter_mut().take(end).skip(start) {
            if !matches!(*byte, b'\n' | b'\r') {
                *byte = b'*';
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Where the tree holds secrets. A reference to one is none.
fn secrets(node: &Node, secret: bool, spans: &mut Vec<Span>, words: &mut Vec<String>) {
    match &node.kind {
        Kind::Scalar { text, .. } => {
            let reference = text.starts_with("env:")
                || text.starts_with("file:")
                || text.starts_with("${") && text.ends_with('}');
            if (secret && !reference) || holds_secret(text) {
                spans.push(node.span);
                words.push(text.clone());
            }
        }
        Kind::List(items) => items.iter().for_each(|item| secrets(item, secret, spans, words)),
        Kind::Map(entries) => {
            for (key, value) in entries {
                secrets(value, secret || is_secret(&key.text), spans, words);
            }
        }
    }
}

/// Where lines of something that is no YAML may hold secrets: behind every colon after a word
/// that sounds like one.
fn lines(source: &str, spans: &mut Vec<Span>) {
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let end = start + line.len();
        let colon = line.char_indices().filter(|(_, c)| *c == ':').find(|(at, _)| {
            let before = line.get(..*at).unwrap_or_default().trim_end_matches(['"', '\'', ' ']);
            let word = before.rsplit([' ', '{', ',', '"', '\'', '\t']).next().unwrap_or_default();
            is_secret(word)
        });
        if let Some((at, _)) = colon {
            spans.push(Span { start: start + at + 1, end });
        }
        start = end;
    }
}
