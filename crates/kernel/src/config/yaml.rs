//! Decides which files are a configuration's YAML at all, and makes a tree of them.

use std::collections::BTreeMap;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::finding::{Finding, Mistake, Span, quoted};
use super::tree::{Key, Kind, Node};

/// Bytes of a file that is read at all.
const BYTES_MAX: usize = 1 << 20;
/// Values in a file, with what aliases repeat.
const NODES_MAX: usize = 50_000;
/// How deep it may be nested.
const DEPTH_MAX: usize = 64;

const EMPTY_HELP: &str = "write at least `packs: [planning]`, or let `toolgate init` write a file";

/// A file as far as it could be read.
pub(super) struct Parsed {
    pub(super) source: String,
    pub(super) root: Option<Node>,
    pub(super) findings: Vec<Finding>,
}

/// Reads a file. What follows something that is no YAML is not looked at.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut findings = Vec::new();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.len() > BYTES_MAX {
        let message = format!("the file has {} bytes, at most {BYTES_MAX} are read", bytes.len());
        findings.push(Finding::error(Mistake::TooLarge, message));
        return Parsed { source: String::new(), root: None, findings };
    }
    let source = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) => {
            let at = error.valid_up_to();
            let message = format!("the file is not UTF-8: byte {at} belongs to no character");
            let finding =
                Finding::error(Mistake::Encoding, message).at(Span { start: at, end: at });
            findings.push(finding.help("save the file as UTF-8"));
            let source = String::from_utf8_lossy(bytes).into_owned();
            return Parsed { source, root: None, findings };
        }
    };
    let root = match Reader::new(&source).document() {
        Ok(Some(root)) => Some(root),
        Ok(None) => {
            let finding = Finding::error(Mistake::Empty, "the file says nothing");
            findings.push(finding.help(EMPTY_HELP));
            None
        }
        Err(finding) => {
            findings.push(*finding);
            None
        }
    };
    Parsed { source, root, findings }
}

/// A list or a map that is not closed yet.
struct Open {
    start: usize,
    anchor: usize,
    kind: Kind,
    key: Option<Key>,
}

struct Reader<'a> {
    source: &'a str,
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    /// Where the tag of the present event stands.
    tag: Option<Span>,
}

type Refused = Box<Finding>;

fn refused(code: Mistake, message: impl Into<String>, at: Span, help: &str) -> Refused {
    Box::new(Finding::error(code, message).at(at).help(help))
}

impl<'a> Reader<'a> {
    fn new(source: &'a str) -> Self {
        Self { source, open: Vec::new(), anchors: BTreeMap::new(), nodes: 0, root: None, tag: None }
    }

    fn document(mut self) -> Result<Option<Node>, Refused> {
        let mut options = granit_parser::Options::default();
        options.set_emit_comments(false);
        options.flow_nesting_limit = DEPTH_MAX;
        options.block_nesting_limit = DEPTH_MAX;
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(self.source, options) {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            let tag = span.tag_span().and_then(|tag| tag.byte_range());
            self.tag = tag.map(|range| self.clip(range));
            let span = span.byte_range().map_or_else(Span::default, |range| self.clip(range));
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
                if documents > 1 {
                    let help = "put everything into one document, without a line of `---`";
                    let message = "a second document begins here; only one is read";
                    return Err(refused(Mistake::SecondDocument, message, span, help));
                }
            }
            self.take(event, span)?;
        }
        let blank = |node: &Node| matches!(&node.kind, Kind::Scalar { text, plain: true } if text.is_empty());
        Ok(self.root.filter(|root| !blank(root)))
    }

    fn clip(&self, range: std::ops::Range<usize>) -> Span {
        let end = range.end.min(self.source.len());
        Span { start: range.start.min(end), end }
    }

    fn syntax(&self, error: &ScanError) -> Refused {
        let at = error.marker().byte_offset().unwrap_or(self.source.len());
        let at = at.min(self.source.len());
        let span = Span { start: at, end: at };
        let help = "look at the indentation, the quotes and the colons here and in the line before";
        let message = format!("this is not YAML: {}", error.info());
        refused(Mistake::Syntax, message, span, help)
    }

    // The parser's events are an open list. What is none of these is no value.
    #[allow(clippy::wildcard_enum_match_arm)]
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refused> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && !self.checked(tag.as_deref(), span)?;
                let text = text.into_owned();
                self.put(Node { span, kind: Kind::Scalar { text, plain } }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.checked(tag.as_deref(), span)?;
                self.begin(Kind::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.checked(tag.as_deref(), span)?;
                self.begin(Kind::Map(Vec::new()), anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { start, anchor, kind, .. }) => {
                    let span = Span { start, end: span.end.max(start) };
                    self.put(Node { span, kind }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(id) => self.repeat(id, span),
            _ => Ok(()),
        }
    }

    /// Whether a tag says that this is a text. Any other tag is refused.
    fn checked(&self, tag: Option<&Tag>, span: Span) -> Result<bool, Refused> {
        match tag {
            None => Ok(false),
            Some(tag) if tag.is_yaml_core_schema_tag("str") => Ok(true),
            Some(tag) => {
                let message = format!("the tag {} is not known here", quoted(&tag.original()));
                let span = self.tag.unwrap_or(span);
                Err(refused(Mistake::Tag, message, span, "leave the tag out: a tag does nothing"))
            }
        }
    }

    fn begin(&mut self, kind: Kind, anchor: usize, span: Span) -> Result<(), Refused> {
        self.open.push(Open { start: span.start, anchor, kind, key: None });
        Ok(())
    }

    /// An alias stands for what its anchor names, and counts as much.
    fn repeat(&mut self, id: usize, span: Span) -> Result<(), Refused> {
        let Some(mut node) = self.anchors.get(&id).cloned() else {
            let message = "this alias is inside of what it stands for";
            return Err(refused(Mistake::Syntax, message, span, "write the value out"));
        };
        self.nodes = self.nodes.saturating_add(count(&node));
        node.span = span;
        self.put(node, 0)
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), Refused> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values, aliases counted");
            return Err(refused(Mistake::TooLarge, message, node.span, "write less"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.kind, open.key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(entries), Some(key)) => entries.push((key, node)),
            (Kind::Map(_), None) => match node.kind {
                Kind::Scalar { text, plain } => {
                    open.key = Some(Key { text, plain, span: node.span });
                }
                Kind::List(_) | Kind::Map(_) => {
                    let message = "a key must be a text";
                    return Err(refused(Mistake::Syntax, message, node.span, "write a word here"));
                }
            },
            (Kind::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

fn count(node: &Node) -> usize {
    match &node.kind {
        Kind::Scalar { .. } => 1,
        Kind::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Kind::Map(entries) => 1 + entries.iter().map(|(_, value)| count(value)).sum::<usize>(),
    }
}
