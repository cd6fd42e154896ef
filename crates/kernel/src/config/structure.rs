//! Decides whether a file has the form of a configuration: which keys, which types, which names.
//!
//! It goes by the published JSON Schema, so that an editor and the program agree. What does not
//! fit is told and taken out, so that the rest can still be looked at.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Value};

use super::finding::{Finding, Mistake, Span, quoted};
use super::secret::is_secret;
use super::tree::{Key, Kind, Node, ambiguous, scalar};
use super::wanted::{
    advice, choices, expected, found, has_required, has_type, listed, only_null, scalar_kind, takes,
};
use crate::names::nearest;

/// Findings about the form; more would bury the first.
const FINDINGS_MAX: usize = 200;

/// The key that says which packs there are.
const PACKS: &str = "packs";

/// Other spellings of keys that are taken.
const ALIASES: &[(&str, &str)] =
    &[("max_tool_args_bytes", "args_bytes_max"), ("max_tool_output_bytes", "result_bytes_max")];

/// What other programs call our keys.
const FOREIGN: &[(&str, &str)] = &[
    ("start_phase", "default_phase"),
    ("initial_phase", "default_phase"),
    ("providers", "models"),
    ("mcp", "mcp_servers"),
    ("groups", "tool_groups"),
    ("instructions", "system_prompt"),
    ("prompt", "system_prompt"),
];

/// Checks a file against the schema of its form.
pub(super) fn check(schema: &Value, root: &mut Node) -> Form {
    let mut walk = Walk { root: schema, form: Form::default(), patterns: BTreeMap::new() };
    let place = At { key: None, list: "", secret: false };
    if !matches!(root.kind, Kind::Map(_)) {
        let finding = Finding::error(Mistake::WrongType, "a configuration is a map of keys");
        walk.push(finding.at(root.span).help("begin with a line such as `name: my-agent`"));
        root.kind = Kind::Map(Vec::new());
    }
    if let Kind::Map(entries) = &mut root.kind {
        walk.doubts(schema, entries, &place);
    }
    walk.form
}

/// What the form of a file is like.
#[derive(Default)]
pub(super) struct Form {
    pub(super) findings: Vec<Finding>,
    /// The keys at the top under which something did not fit.
    pub(super) doubtful: BTreeSet<String>,
    /// Names that are not legal, so that nobody is told that they do not exist.
    pub(super) dropped: BTreeSet<String>,
}

/// Where the walk stands.
#[derive(Clone, Copy)]
struct At<'a> {
    key: Option<&'a Key>,
    list: &'a str,
    secret: bool,
}

struct Walk<'s> {
    root: &'s Value,
    form: Form,
    patterns: BTreeMap<String, Option<Regex>>,
}

impl<'s> Walk<'s> {
    fn push(&mut self, finding: Finding) {
        if self.form.findings.len() < FINDINGS_MAX {
            self.form.findings.push(finding);
        }
    }

    /// The top level, where it is remembered under which key something did not fit.
    fn doubts(&mut self, schema: &'s Value, entries: &mut Vec<(Key, Node)>, at: &At<'_>) {
        let known = schema.get("properties").and_then(Value::as_object);
        self.keys(known, entries);
        entries.retain_mut(|(key, node)| {
            let before = self.form.findings.len();
            let inner = known.and_then(|known| known.get(&key.text));
            let kept = inner.is_none_or(|inner| self.fit(inner, node, &under(at, key)));
            if self.form.findings.len() > before {
                self.form.doubtful.insert(key.text.clone());
            }
            kept
        });
    }

    fn resolve(&self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..8 {
            let target = schema.get("$ref").and_then(Value::as_str);
            let found = target.and_then(|target| self.root.pointer(target.trim_start_matches('#')));
            match found {
                Some(found) => schema = found,
                None => break,
            }
        }
        schema
    }

    /// Whether a value fits; what does not fit inside it is taken out.
    fn fit(&mut self, schema: &'s Value, node: &mut Node, at: &At<'_>) -> bool {
        let schema = self.resolve(schema);
        let branches = self.branches(schema);
        let null =
            matches!(&node.kind, Kind::Scalar { text, plain } if scalar(text, *plain).is_null());
        if null && branches.iter().any(|branch| has_type(branch, "null")) {
            // Null could be read as "no limit", which nothing is: a bound is a number or left out.
            let is_number =
                |branch: &&Value| has_type(branch, "integer") || has_type(branch, "number");
            if let Some(number) = branches.iter().find(|branch| is_number(branch)) {
                let expected = format!("{}, or the line left out", expected(number, at.list));
                self.wrong(&expected, node, at);
                return false;
            }
            return true;
        }
        let constants: Vec<&str> = branches.iter().flat_map(|branch| choices(branch)).collect();
        let kinds: Vec<&Value> = branches
            .iter()
            .copied()
            .filter(|branch| !only_null(branch) && choices(branch).is_empty())
            .collect();
        let fitting = kinds.iter().copied().find(|branch| takes(branch, &node.kind));
        // A union such as "a number, or `none`" takes the word only where it is that word.
        let is_constant = matches!(
            &node.kind,
            Kind::Scalar { text, .. } if constants.iter().any(|word| word.eq_ignore_ascii_case(text))
        );
        if !constants.is_empty() && (kinds.is_empty() || is_constant) {
            return self.choice(&constants, node, at);
        }
        let Some(branch) = fitting else {
            let kinds = kinds.iter().map(|branch| expected(branch, at.list));
            let words = constants.iter().map(|word| format!("`{word}`"));
            let expected: Vec<String> = kinds.chain(words).collect();
            self.wrong(&expected.join(" or "), node, at);
            return false;
        };
        match &mut node.kind {
            Kind::Map(entries) => {
                let span = at.key.map_or(node.span, |key| key.span);
                self.map(branch, entries, span, at)
            }
            Kind::List(items) => {
                if let Some(item) = branch.get("items") {
                    let inside = At { key: None, ..*at };
                    items.retain_mut(|node| self.fit(item, node, &inside));
                } else {
                    items.iter_mut().for_each(|node| self.any(node));
                }
                true
            }
            Kind::Scalar { .. } => self.scalar(branch, node, at),
        }
    }

    /// What a schema allows: its branches, or itself.
    fn branches(&self, schema: &'s Value) -> Vec<&'s Value> {
        for union in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(union).and_then(Value::as_array) {
                let inner = branches.iter().map(|branch| self.resolve(branch));
                return inner.flat_map(|branch| self.branches(branch)).collect();
            }
        }
        vec![schema]
    }

    /// A value of any form still has no key twice.
    fn any(&mut self, node: &mut Node) {
        match &mut node.kind {
            Kind::Scalar { .. } => {}
            Kind::List(items) => items.iter_mut().for_each(|item| self.any(item)),
            Kind::Map(entries) => {
                self.twice(entries);
                entries.iter_mut().for_each(|(_, value)| self.any(value));
            }
        }
    }

    fn map(
        &mut self,
        schema: &'s Value,
        entries: &mut Vec<(Key, Node)>,
        span: Span,
        at: &At<'_>,
    ) -> bool {
        let known = schema.get("properties").and_then(Value::as_object);
        let named = schema.get("patternProperties").and_then(Value::as_object);
        let named = named.and_then(|named| named.iter().next());
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        match (known, named, others) {
            (Some(_), _, _) => {
                self.keys(known, entries);
                let whole = self.required(schema, entries, span);
                entries.retain_mut(|(key, node)| {
                    let name = alias(&key.text);
                    let inner = known.and_then(|known| known.get(&key.text).or(known.get(name)));
                    inner.is_none_or(|inner| self.fit(inner, node, &under(at, key)))
                });
                // What does not fit was told; without it the rest of this cannot be used.
                whole && has_required(schema, entries)
            }
            (None, Some((pattern, inner)), _) => {
                self.twice(entries);
                entries.retain(|(key, _)| self.name(pattern, key));
                self.entries(inner, entries, at)
            }
            (None, None, Some(inner)) => {
                self.twice(entries);
                self.entries(inner, entries, at)
            }
            (None, None, None) => {
                self.twice(entries);
                entries.iter_mut().for_each(|(_, value)| self.any(value));
                true
            }
        }
    }

    /// Entries whose names somebody chose: one that does not fit stays as an empty one, so that
    /// what names it is not told to be wrong as well.
    fn entries(&mut self, inner: &'s Value, entries: &mut [(Key, Node)], at: &At<'_>) -> bool {
        for (key, node) in entries {
            let inside = At { list: at.list, ..under(at, key) };
            if !self.fit(inner, node, &inside) {
                let list = has_type(self.resolve(inner), "array");
                node.kind = if list { Kind::List(Vec::new()) } else { Kind::Map(Vec::new()) };
            }
        }
        true
    }

    /// Refuses keys that are given twice or do not exist.
    fn keys(&mut self, known: Option<&Map<String, Value>>, entries: &mut Vec<(Key, Node)>) {
        self.twice(entries);
        let names = || known.iter().flat_map(|known| known.keys()).map(String::as_str);
        entries.retain(|(key, _)| {
            if names().any(|name| name == key.text || name == alias(&key.text)) {
                return true;
            }
            self.unknown(key, &names().collect::<Vec<_>>());
            false
        });
    }

    fn unknown(&mut self, key: &Key, names: &[&str]) {
        let mut finding =
            Finding::error(Mistake::UnknownKey, format!("there is no key {}", quoted(&key.text)));
        let foreign =
            FOREIGN.iter().find(|(theirs, ours)| *theirs == key.text && names.contains(ours));
        let strange = key.text.chars().find(|c| !c.is_ascii());
        let near = nearest(&key.text, names.iter().copied()).or(foreign.map(|(_, ours)| *ours));
        finding = match (near, strange) {
            (Some(near), Some(c)) => finding.help(format!(
                "did you mean `{near}`? There is a {c:?} (U+{:04X}) in it that only looks right",
                u32::from(c)
            )),
            (Some(near), None) => finding.near(Some(near)),
            (None, _) if names.len() > 12 => finding.help(format!("there is {}, …", listed(names))),
            (None, _) => finding.help(format!("there is {}", listed(names))),
        };
        self.push(finding.at(key.span));
    }

    fn twice(&mut self, entries: &mut Vec<(Key, Node)>) {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        entries.retain(|(key, _)| {
            if seen.insert(key.text.clone()) {
                return true;
            }
            let message = format!("the key {} is given twice", quoted(&key.text));
            let help = "nothing is overwritten: put both together, or take one out";
            self.push(Finding::error(Mistake::DuplicateKey, message).at(key.span).help(help));
            false
        });
    }

    /// Tells what is missing. An empty text stands in for a text, so that the rest is looked at.
    fn required(&mut self, schema: &'s Value, entries: &mut Vec<(Key, Node)>, span: Span) -> bool {
        let required = schema.get("required").and_then(Value::as_array);
        let mut whole = true;
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !entries.iter().any(|(key, _)| key.text == name) {
                let message = format!("the key `{name}` is missing here");
                self.push(Finding::error(Mistake::MissingKey, message).at(span));
                let due = schema.get("properties").and_then(|known| known.get(name));
                if due.is_some_and(|due| has_type(due, "string") && due.get("pattern").is_none()) {
                    let key = Key { text: name.to_owned(), plain: true, span };
                    let kind = Kind::Scalar { text: String::new(), plain: false };
                    entries.push((key, Node { span, kind }));
                } else {
                    whole = false;
                }
            }
        }
        whole
    }

    /// Whether a name that somebody chose is legal.
    fn name(&mut self, pattern: &str, key: &Key) -> bool {
        if key.plain && ambiguous(&key.text) {
            let text = &key.text;
            let message = format!("the name {} is no text for every reader of YAML", quoted(text));
            let help = format!("write \"{text}\" in quotes, or choose another name");
            self.push(Finding::error(Mistake::BadName, message).at(key.span).help(help));
            self.form.dropped.insert(text.clone());
            return false;
        }
        self.legal(pattern, &key.text, key.span)
    }

    fn legal(&mut self, pattern: &str, text: &str, span: Span) -> bool {
        let compiled = self.patterns.entry(pattern.to_owned());
        let compiled = compiled.or_insert_with(|| Regex::new(pattern).ok());
        if compiled.as_ref().is_none_or(|regex| regex.is_match(text)) {
            return true;
        }
        self.form.dropped.insert(text.to_owned());
        if text == "*" {
            return self.star(span);
        }
        let upper = pattern.starts_with("^[A-Z");
        let letters = if upper { "A-Z, a-z, 0-9, _, - and ." } else { "a-z, 0-9, _ and -" };
        let message = format!("the name {} is not legal", quoted(text));
        let meant = legal_form(text, upper);
        let fits = compiled.as_ref().is_some_and(|regex| regex.is_match(&meant));
        let such = if fits { format!(", such as {}", quoted(&meant)) } else { String::new() };
        let help = format!("use 1 to 64 characters from {letters}{such}");
        self.push(Finding::error(Mistake::BadName, message).at(span).help(help));
        false
    }

    fn star(&mut self, span: Span) -> bool {
        self.push(star(span));
        false
    }

    fn choice(&mut self, allowed: &[&str], node: &mut Node, at: &At<'_>) -> bool {
        // Large letters and hyphens say nothing.
        if let Kind::Scalar { text, .. } = &mut node.kind {
            let meant = text.replace('-', "_");
            if let Some(word) = allowed.iter().find(|word| word.eq_ignore_ascii_case(&meant)) {
                (*word).clone_into(text);
            }
        }
        let given = match &node.kind {
            Kind::Scalar { text, .. } => text.as_str(),
            Kind::List(_) | Kind::Map(_) => "",
        };
        // `version: 1.0` is a number that reads like the text that is due.
        if allowed.contains(&given) && scalar_kind(&node.kind) == "a text" {
            return true;
        }
        let span = node.shown(at.key);
        let finding = if allowed.contains(&given) {
            let message = format!("expected a text, found {}", found(&node.kind, at.secret));
            Finding::error(Mistake::WrongType, message).help(format!("write \"{given}\" in quotes"))
        } else {
            let found = found(&node.kind, at.secret);
            let message = format!("expected one of {}, found {found}", allowed.join(", "));
            let near = nearest(given, allowed.iter().copied());
            Finding::error(Mistake::NotAllowed, message).near(near)
        };
        self.push(finding.at(span));
        if at.list == PACKS {
            // What it stands for is not known, so nobody is told that it does not exist.
            self.form.dropped.insert(given.to_owned());
        }
        false
    }

    fn scalar(&mut self, schema: &'s Value, node: &Node, at: &At<'_>) -> bool {
        let Kind::Scalar { text, plain } = &node.kind else { return true };
        let span = node.shown(at.key);
        match scalar(text, *plain) {
            Value::String(text) => match schema.get("pattern").and_then(Value::as_str) {
                Some(pattern) => self.legal(pattern, &text, span),
                None => true,
            },
            Value::Number(number) if has_type(schema, "integer") => {
                let bound = |name| schema.get(name).and_then(Value::as_u64);
                let (least, most) = (bound("minimum"), bound("maximum"));
                match (number.as_u64(), least.zip(most)) {
                    (Some(given), Some((least, most))) if !(least..=most).contains(&given) => {
                        let name = at.key.map_or("it", |key| key.text.as_str());
                        let message = format!("{name} must be from {least} to {most}, not {given}");
                        self.push(Finding::error(Mistake::OutOfRange, message).at(span));
                        false
                    }
                    (Some(_), _) => true,
                    (None, _) if number.is_i64() && least.is_none() => true,
                    (None, _) => {
                        self.wrong("a whole number that is not negative", node, at);
                        false
                    }
                }
            }
            Value::Number(_)
            | Value::Bool(_)
            | Value::Null
            | Value::Array(_)
            | Value::Object(_) => true,
        }
    }

    fn wrong(&mut self, expected: &str, node: &Node, at: &At<'_>) {
        let found = found(&node.kind, at.secret);
        let message = match at.key {
            Some(key) => format!("`{}`: expected {expected}, found {found}", key.text),
            None => format!("expected {expected}, found {found}"),
        };
        let mut finding = Finding::error(Mistake::WrongType, message).at(node.shown(at.key));
        finding.help = advice(expected, node, at.secret);
        self.push(finding);
    }
}

/// A star grants nothing: what is granted is written down, or everything is.
pub(super) fn star(span: Span) -> Finding {
    let finding = Finding::error(Mistake::Wildcard, "`*` grants nothing: groups are named");
    finding.at(span).help("name the groups, or leave `tools:` out to grant all tools")
}

/// A name as it was probably meant, in letters that are legal: `CreateSection` and `create section`
/// as `create_section`.
fn legal_form(text: &str, upper: bool) -> String {
    let mut form = String::new();
    for c in text.chars().take(80) {
        if !c.is_ascii_alphanumeric() {
            form.push('_');
            continue;
        }
        let hump = c.is_ascii_uppercase() && form.ends_with(|c: char| c.is_ascii_lowercase());
        if !upper && hump {
            form.push('_');
        }
        form.push(c);
    }
    let form = form.trim_matches('_');
    if upper { form.to_owned() } else { form.to_ascii_lowercase() }
}

fn under<'a>(at: &At<'a>, key: &'a Key) -> At<'a> {
    At { key: Some(key), list: &key.text, secret: at.secret || is_secret(&key.text) }
}

fn alias(name: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, ours)| ours)
}
