//! Decides how former names of tools are written as today's, and back: in their places, with every
//! comment and every other character left as it was.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Finding, Mistake, Span};
use super::tree::{Key, Kind, Node};
use super::yaml;
use crate::names::{FORMER_TOOLS, today};

/// Which names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// Those that tools have today.
    Today,
    /// Those that they had before.
    Former,
}

/// One name that was written otherwise.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Renamed {
    /// The line it stands in, from one.
    pub line: usize,
    /// What stood there.
    pub from: String,
    /// What stands there now; nothing where the list has it already.
    pub to: Vec<String>,
}

/// A file with its tools named otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// The file.
    pub text: String,
    /// What changed, in the order of the file.
    pub renamed: Vec<Renamed>,
    /// Names that a person must look at, with their lines: writing two of them as one would give a
    /// key twice, or one of them as two would.
    pub left: Vec<Renamed>,
}

/// Writes the names of a file otherwise. A file that is no YAML is refused as it is by a reader.
pub fn migrate(bytes: &[u8], naming: Naming) -> Result<Migrated, Finding> {
    let first = attempt(bytes, naming)?;
    // Whatever was not foreseen shows here, and then nothing is written.
    let again = attempt(first.text.as_bytes(), naming)?;
    if !again.renamed.is_empty() {
        let message = "the names in this file cannot be written otherwise without changing more";
        let finding = Finding::error(Mistake::Syntax, message);
        return Err(finding.help("an anchor or an unusual list is in the way: edit it by hand"));
    }
    Ok(first)
}

fn attempt(bytes: &[u8], naming: Naming) -> Result<Migrated, Finding> {
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") { "\u{feff}" } else { "" };
    let yaml::Parsed { source, root, findings } = yaml::parse(bytes);
    let Some(root) = root else {
        let none = || Finding::error(Mistake::Empty, "the file says nothing");
        return Err(findings.into_iter().next().unwrap_or_else(none));
    };
    let mut pen = Pen { source: &source, naming, edits: BTreeMap::new(), left: Vec::new() };
    pen.file(&root);
    let Pen { edits, mut left, .. } = pen;
    left.sort_by_key(|renamed| renamed.line);
    left.dedup();
    let (mut text, mut at, mut renamed) = (mark.to_owned(), 0, Vec::new());
    for (start, Edit { end, put, told, .. }) in edits {
        text.push_str(source.get(at..start).unwrap_or_default());
        text.push_str(&put);
        at = end;
        renamed.push(told);
    }
    text.push_str(source.get(at..).unwrap_or_default());
    Ok(Migrated { text, renamed, left })
}

/// Where former names stand, each with the name of today.
pub(super) fn former(source: &str, root: &Node) -> Vec<(Span, String, String)> {
    let naming = Naming::Today;
    let mut pen = Pen { source, naming, edits: BTreeMap::new(), left: Vec::new() };
    pen.file(root);
    let edits = pen.edits.into_values().flat_map(|Edit { at, told, .. }| {
        let names: Vec<String> =
            told.from.split(',').map(|n| split_sign(n.trim()).1.into()).collect();
        names.into_iter().map(move |name| (at, name))
    });
    edits
        .filter_map(|(at, name)| today(&name).map(|today| (at, name.clone(), today.into())))
        .collect()
}

/// What is written in place of a stretch.
struct Edit {
    end: usize,
    /// Where the name itself stands.
    at: Span,
    put: String,
    told: Renamed,
}

/// What a list names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Tools.
    Tools,
    /// Groups, and tools with a sign.
    Groups,
}

struct Pen<'a> {
    source: &'a str,
    naming: Naming,
    edits: BTreeMap<usize, Edit>,
    left: Vec<Renamed>,
}

impl Pen<'_> {
    fn file(&mut self, root: &Node) {
        for (key, node) in entries(root) {
            match key.text.as_str() {
                "allow" | "deny" => self.list(node, Names::Tools),
                "tool_groups" => values(node).for_each(|list| self.list(list, Names::Tools)),
                "tool_calling" => self.calling(node),
                "models" => under(node, "tool_calling").for_each(|calling| self.calling(calling)),
                "phases" => under(node, "tools").for_each(|tools| self.grant(tools)),
                "policies" => values(node).for_each(|policy| self.policy(policy)),
                "agents" => {
                    let lists = under(node, "enabled_tools");
                    lists.for_each(|list| self.list(list, Names::Tools));
                }
                _ => {}
            }
        }
    }

    fn grant(&mut self, tools: &Node) {
        if matches!(tools.kind, Kind::List(_)) {
            return self.list(tools, Names::Groups);
        }
        for (key, list) in entries(tools) {
            match key.text.as_str() {
                "groups" => self.list(list, Names::Groups),
                "include" | "exclude" | "required" => self.list(list, Names::Tools),
                _ => {}
            }
        }
    }

    fn calling(&mut self, calling: &Node) {
        for (key, node) in entries(calling) {
            if !matches!(key.text.as_str(), "tool_allowlist" | "tool_denylist") {
                continue;
            }
            match &node.kind {
                Kind::Scalar { text, .. } => self.in_one_text(text, node.span),
                Kind::List(_) | Kind::Map(_) => self.list(node, Names::Tools),
            }
        }
    }

    fn policy(&mut self, policy: &Node) {
        for (kind, inside) in entries(policy) {
            match kind.text.as_str() {
                "limit" | "rate" | "rule" => {
                    let lists = entries(inside).filter(|(key, _)| key.text == "tools");
                    lists.for_each(|(_, list)| self.list(list, Names::Tools));
                }
                "sequential" => {
                    self.keys(inside);
                    values(inside).for_each(|list| self.list(list, Names::Tools));
                }
                _ => {}
            }
        }
    }

    /// The tools that are keys: one key stands for one tool, and no key is there twice.
    fn keys(&mut self, map: &Node) {
        let names: Vec<&str> = entries(map).map(|(key, _)| key.text.as_str()).collect();
        for (key, _) in entries(map) {
            let to = self.written(&key.text);
            let line = self.line(key.span.start);
            let told = Renamed { line, from: key.text.clone(), to: to.clone() };
            match to.as_slice() {
                [] => {}
                [one] => {
                    let same = |name: &&&str| self.written(name) == to || ***name == **one;
                    if names.iter().filter(same).count() > 1 {
                        self.left.push(told);
                    } else {
                        let put = self.quoted(key.span, one);
                        let (at, end) = (key.span, key.span.end);
                        self.edits.insert(at.start, Edit { end, at, put, told });
                    }
                }
                _ => self.left.push(told),
            }
        }
    }

    /// The names that are written for one; none where it stays.
    fn written(&self, name: &str) -> Vec<String> {
        match self.naming {
            Naming::Today => today(name).map(str::to_owned).into_iter().collect(),
            Naming::Former => {
                let of = FORMER_TOOLS.iter().filter(|(_, today)| *today == name);
                of.map(|(former, _)| (*former).to_owned()).collect()
            }
        }
    }

    /// Several names in one text, with commas.
    fn in_one_text(&mut self, text: &str, span: Span) {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut out: Vec<String> = Vec::new();
        for name in &names {
            let to = self.written(name);
            let to = if to.is_empty() { vec![(*name).to_owned()] } else { to };
            for name in to {
                if !out.contains(&name) {
                    out.push(name);
                }
            }
        }
        if names.iter().any(|name| !self.written(name).is_empty()) {
            let told = Renamed { line: self.line(span.start), from: text.into(), to: out.clone() };
            let text = out.join(", ");
            let put = match self.quoted(span, &text) {
                // Without quotes a comma may mean the end of the text.
                plain if plain == text && out.len() > 1 => format!("\"{plain}\""),
                put => put,
            };
            self.edits.insert(span.start, Edit { end: span.end, at: span, put, told });
        }
    }

    fn list(&mut self, list: &Node, names: Names) {
        let Kind::List(items) = &list.kind else { return };
        let written = self.source.get(list.span.start..).unwrap_or_default();
        if written.starts_with('*') {
            // It stands for another list, which is looked at in its own place.
            return;
        }
        let flow = match written.strip_prefix('&') {
            Some(anchored) => {
                let rest = anchored.split_once(char::is_whitespace).map_or("", |(_, rest)| rest);
                rest.trim_start().starts_with('[')
            }
            None => written.starts_with('['),
        };
        let scalar = |node: &Node| match &node.kind {
            Kind::Scalar { text, .. } => Some((text.clone(), node.span)),
            Kind::List(_) | Kind::Map(_) => None,
        };
        let items: Vec<(String, Span)> = items.iter().filter_map(scalar).collect();
        let to = |text: &str| {
            let (sign, bare) = split_sign(text);
            if names == Names::Groups && sign.is_empty() && self.naming == Naming::Former {
                return Vec::new();
            }
            self.written(bare).into_iter().map(|name| format!("{sign}{name}")).collect()
        };
        let renamed: Vec<Vec<String>> = items.iter().map(|(text, _)| to(text)).collect();
        let new: BTreeSet<&String> = renamed.iter().flatten().collect();
        let mut there: BTreeSet<String> = BTreeSet::new();
        let mut edits = Vec::new();
        for (at, (text, span)) in items.iter().enumerate() {
            let moved = renamed.get(at).filter(|to| !to.is_empty());
            let to: Vec<String> = match moved {
                Some(to) => to.clone(),
                // A name that others became may stand here already.
                None if new.contains(text) => vec![text.clone()],
                None => continue,
            };
            let to: Vec<String> =
                to.into_iter().filter(|name| there.insert(name.clone())).collect();
            if moved.is_some() || to.is_empty() {
                edits.push((*span, text.clone(), to));
            }
        }
        for (span, from, to) in edits {
            let told = Renamed { line: self.line(span.start), from, to: to.clone() };
            let at = span;
            let (span, put) = match (to.is_empty(), flow) {
                (false, true) => {
                    let names: Vec<String> = to.iter().map(|n| self.quoted(span, n)).collect();
                    (span, names.join(", "))
                }
                (false, false) => {
                    let names: Vec<String> = to.iter().map(|n| self.quoted(span, n)).collect();
                    (span, names.join(&format!("\n{}", self.lead(span))))
                }
                (true, true) => (self.without_comma(span), String::new()),
                (true, false) => self.whole_line(span),
            };
            self.edits.insert(span.start, Edit { end: span.end, at, put, told });
        }
    }

    /// A name in the quotes that stand there.
    fn quoted(&self, span: Span, name: &str) -> String {
        let first = self.source.get(span.start..).and_then(|text| text.chars().next());
        match first {
            Some(quote @ ('"' | '\'')) => format!("{quote}{name}{quote}"),
            _ => name.to_owned(),
        }
    }

    fn line_start(&self, at: usize) -> usize {
        self.source.get(..at).and_then(|text| text.rfind('\n')).map_or(0, |found| found + 1)
    }

    fn line(&self, at: usize) -> usize {
        self.source.get(..at).map_or(0, |text| text.matches('\n').count()) + 1
    }

    /// What stands before an item of a list that has a line for each.
    fn lead(&self, span: Span) -> &str {
        self.source.get(self.line_start(span.start)..span.start).unwrap_or("- ")
    }

    /// An item of a list on one line, with the comma that goes with it.
    fn without_comma(&self, span: Span) -> Span {
        let after = self.source.get(span.end..).unwrap_or_default();
        let spaces = |text: &str| text.len() - text.trim_start().len();
        if let Some(rest) = after.trim_start().strip_prefix(',') {
            let gone = spaces(after) + 1 + rest.len() - rest.trim_start_matches(' ').len();
            return Span { start: span.start, end: span.end + gone };
        }
        let before = self.source.get(..span.start).unwrap_or_default().trim_end();
        match before.strip_suffix(',') {
            Some(kept) => Span { start: kept.len(), end: span.end },
            None => span,
        }
    }

    /// The line of an item; what somebody remarked on it stays.
    fn whole_line(&self, span: Span) -> (Span, String) {
        let start = self.line_start(span.start);
        let rest = self.source.get(span.end..).unwrap_or_default();
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        let end = span.end + line.len();
        let indent: String = self.lead(span).chars().take_while(|c| c.is_whitespace()).collect();
        let put = match line.trim() {
            "" => String::new(),
            remark => format!("{indent}{remark}\n"),
        };
        (Span { start, end }, put)
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    match text.strip_prefix(['+', '-']) {
        Some(bare) => (text.get(..1).unwrap_or_default(), bare),
        None => ("", text),
    }
}

fn entries(node: &Node) -> impl Iterator<Item = (&Key, &Node)> {
    let entries: &[(Key, Node)] = match &node.kind {
        Kind::Map(entries) => entries,
        Kind::List(_) | Kind::Scalar { .. } => &[],
    };
    entries.iter().map(|(key, node)| (key, node))
}

/// The values of a map or a list.
fn values(node: &Node) -> impl Iterator<Item = &Node> {
    let items: &[Node] = match &node.kind {
        Kind::List(items) => items,
        Kind::Map(_) | Kind::Scalar { .. } => &[],
    };
    items.iter().chain(entries(node).map(|(_, value)| value))
}

/// What stands under one key in each of the values.
fn under<'n>(node: &'n Node, name: &'n str) -> impl Iterator<Item = &'n Node> {
    values(node).flat_map(entries).filter(move |(key, _)| key.text == name).map(|(_, node)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forth(text: &str) -> Migrated {
        migrate(text.as_bytes(), Naming::Today).unwrap()
    }

    fn back(text: &str) -> Migrated {
        migrate(text.as_bytes(), Naming::Former).unwrap()
    }

    const OLD: &str = "\
# My agent.
name: finder   # a name
packs: [web]
tool_groups:
  # Looking things up.
  look: [WebSearchTool, \"WebFetchTool\", read_file]
allow:
  - WebSearchTool   # first
  - WebFetchTool    # second
  - 'ViewSystemPromptTool'

  - read_file
deny: [ UpdateSystemPromptTool ]
tool_calling: {tool_denylist: 'WebFetchTool, x'}
phases:
  a:
    tools: [web, +WebSearchTool, -WebFetchTool]
  b:
    tools:
      include: [read_file, WebSearchTool, web]
policies:
  - rule: {tools: [WebFetchTool], deny: 'true', message: 'WebFetchTool stays'}
  - sequential: {WebFetchTool: [WebSearchTool]}
  - sequential: {WebFetchTool: [a], WebSearchTool: [b]}
agents:
  ada: {enabled_tools: [ViewSystemPromptTool, UpdateSystemPromptTool, web]}
";

    #[test]
    fn names_are_written_in_their_places_and_nothing_else_is_touched() {
        let migrated = forth(OLD);
        let expected = "\
# My agent.
name: finder   # a name
packs: [web]
tool_groups:
  # Looking things up.
  look: [web, read_file]
allow:
  - web   # first
  # second
  - 'self_authoring'

  - read_file
deny: [ self_authoring ]
tool_calling: {tool_denylist: 'web, x'}
phases:
  a:
    tools: [web, +web, -web]
  b:
    tools:
      include: [read_file, web]
policies:
  - rule: {tools: [web], deny: 'true', message: 'WebFetchTool stays'}
  - sequential: {web: [web]}
  - sequential: {WebFetchTool: [a], WebSearchTool: [b]}
agents:
  ada: {enabled_tools: [self_authoring, web]}
";
        assert_eq!(migrated.text, expected);
        let left: Vec<(usize, &str)> =
            migrated.left.iter().map(|left| (left.line, left.from.as_str())).collect();
        assert_eq!(left, [(24, "WebFetchTool"), (24, "WebSearchTool")]);
        assert!(migrated.renamed.contains(&Renamed {
            line: 9,
            from: "WebFetchTool".into(),
            to: Vec::new()
        }));
        // Once more changes nothing.
        let again = forth(&migrated.text);
        assert_eq!((again.text, again.renamed), (migrated.text, Vec::new()));
    }

    #[test]
    fn back_restores_the_four_names() {
        let today = "allow:\n  - self_authoring # mine\n  - web\ndeny: [web]\n\
                     phases: {a: {tools: [web, -web]}}\ntool_calling: {tool_allowlist: web}\n";
        let former = back(today);
        assert_eq!(
            former.text,
            "allow:\n  - ViewSystemPromptTool\n  - UpdateSystemPromptTool # mine\n  \
             - WebSearchTool\n  - WebFetchTool\ndeny: [WebSearchTool, WebFetchTool]\n\
             phases: {a: {tools: [web, -WebSearchTool, -WebFetchTool]}}\n\
             tool_calling: {tool_allowlist: \"WebSearchTool, WebFetchTool\"}\n"
        );
    }

    #[test]
    fn what_has_no_former_name_stays_byte_for_byte() {
        for text in
            ["name: x\r\nallow: [a]\r\n", "\u{feff}name: x\n", "allow: &a [web]\ndeny: *a\n"]
        {
            let migrated = forth(text);
            assert_eq!((migrated.text.as_str(), migrated.renamed.len()), (text, 0));
        }
        let repeated = forth("allow: &a [WebSearchTool, WebFetchTool]\ndeny: *a\n");
        assert_eq!(repeated.text, "allow: &a [web]\ndeny: *a\n");
        assert!(migrate(b"a: [", Naming::Today).is_err());
        assert!(migrate(b"", Naming::Today).is_err());
    }
}
