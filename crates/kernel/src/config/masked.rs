//! The text of a configuration with literal secrets masked, to be kept in the log.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::AgentText;
use super::address::authority;
use super::finding::Span;
use super::read::{read, schema};
use super::secret::{Secret, SecretPart, holds_secret, is_secret};
use super::shown::{MASK, masked_address, masked_args};
use super::tree::{Key, Kind, Node, scalar};
use super::values::{fitting, form_of_key};
use super::yaml;

/// A shorter word is too likely to stand elsewhere for another reason.
const WORD_BYTES_MIN: usize = 8;

/// A shorter argument is masked nowhere: as a word it would stand in many places.
const ARGUMENT_BYTES_MIN: usize = 4;

/// The text of a configuration with `***` in place of every literal secret. It can be read again.
/// `None` when the file cannot be read at all.
pub fn masked_text(bytes: &[u8]) -> Option<String> {
    let parsed = yaml::parse(bytes);
    let (source, root) = (parsed.source, parsed.root?);
    let usable = !read(bytes).refused();
    let mut masking = Masking::default();
    masking.collect(&root);
    masking.collect_arguments(&read(bytes).text);
    let first = masking.attempt(&source, &root, usable);
    // A secret that is also a word of the form, such as the name of a provider, stays where it is
    // that word: masked there, the text could not be read.
    first
        .or_else(|| {
            masking.forget_words_of(&root);
            masking.attempt(&source, &root, usable)
        })
        .or_else(|| {
            masking.words.clear();
            Some(pretty(&masking.json(&root, Some(schema()), Under::Other)))
        })
}

/// A text in which comments that name a secret lose what follows the name. Where that is no comment but
/// part of a value, the text does not read as it should, and is not used.
fn without_secret_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let start = line.find("# ").or_else(|| line.find('#'));
        let comment = start.and_then(|at| Some((at, line.get(at..)?)));
        let named = comment.and_then(|(at, comment)| {
            let end = comment.find([':', '='])?;
            let name = comment.get(..end)?.trim_start_matches(['#', ' ', '\t', '-']);
            is_secret(name.trim()).then_some(at + end)
        });
        match named.and_then(|end| line.get(..=end)) {
            Some(kept) => {
                out.push_str(kept);
                out.push_str(" ***");
                out.push_str(if line.ends_with('\n') { "\n" } else { "" });
            }
            None => out.push_str(line),
        }
    }
    out
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// What a value stands under.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    /// A key that holds a secret.
    Secret,
    /// A key for secrets that does not sound like one, such as a variable or a header.
    Value,
    /// Any other key.
    Other,
}

/// The secrets of a file.
#[derive(Default)]
struct Masking {
    /// Literal secrets that may be repeated elsewhere.
    words: Vec<String>,
}

impl Masking {
    /// The masked text, or its value as JSON where the text cannot be written over; none when that
    /// could not be read.
    fn attempt(&self, source: &str, root: &Node, usable: bool) -> Option<String> {
        let wanted = self.json(root, Some(schema()), Under::Other);
        let spliced = without_secret_comments(&self.splice(source, root));
        let again = yaml::parse(spliced.as_bytes()).root.map(|root| root.to_json());
        let spliced = Some(spliced).filter(|_| again.as_ref() == Some(&wanted));
        let clean = |text: &String| {
            let left = self.words.iter().any(|word| text.contains(word));
            !left && (!usable || !read(text.as_bytes()).refused())
        };
        spliced.filter(clean).or_else(|| Some(pretty(&wanted)).filter(clean))
    }

    /// Forgets the secrets that are a whole key or value elsewhere.
    fn forget_words_of(&mut self, root: &Node) {
        let mut others = BTreeSet::new();
        each(root, Some(schema()), Under::Other, &mut |node, under| match &node.kind {
            Kind::Scalar { text, .. } if under == Under::Other => drop(others.insert(text.clone())),
            Kind::Map(entries) => others.extend(entries.iter().map(|(key, _)| key.text.clone())),
            Kind::Scalar { .. } | Kind::List(_) => {}
        });
        self.words.retain(|word| !others.contains(word));
    }

    /// Finds the literal secrets, which are masked wherever they stand.
    fn collect(&mut self, root: &Node) {
        each(root, Some(schema()), Under::Other, &mut |node, under| {
            let Kind::Scalar { text, plain } = &node.kind else { return };
            if own_mask(text, *plain, under).is_some() {
                let words = literals(text, under).into_iter();
                self.words.extend(words.filter(|word| word.len() >= WORD_BYTES_MIN));
            }
        });
        self.words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        self.words.dedup();
    }

    /// Finds the secrets in arguments of programs: what stands behind an option that sounds like one.
    fn collect_arguments(&mut self, text: &AgentText) {
        for server in text.mcp_servers.values() {
            for (arg, masked) in server.args.iter().zip(masked_args(&server.args)) {
                if *arg == masked {
                    continue;
                }
                let value =
                    arg.split_once('=').filter(|_| masked.ends_with(MASK) && masked != MASK);
                self.words.push(value.map_or(arg.as_str(), |(_, value)| value).to_owned());
            }
        }
        self.words.retain(|word| word.len() >= ARGUMENT_BYTES_MIN);
        self.words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        self.words.dedup();
    }

    /// A text as it is kept, where that differs.
    fn mask(&self, text: &str, plain: bool, under: Under) -> Option<String> {
        if let Some(masked) = own_mask(text, plain, under) {
            return Some(masked);
        }
        let found = self.words.iter().any(|word| text.contains(word));
        found.then(|| self.replace(text))
    }

    fn replace(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, word| text.replace(word, MASK))
    }

    /// The value of the masked file.
    fn json(&self, node: &Node, form: Option<&Value>, under: Under) -> Value {
        let form = form.map(|form| fitting(&node.to_json(), form));
        match &node.kind {
            Kind::Scalar { text, plain } => match self.mask(text, *plain, under) {
                Some(masked) => masked.into(),
                None => scalar(text, *plain),
            },
            Kind::List(items) => {
                let form = form.and_then(|form| form.get("items"));
                items.iter().map(|item| self.json(item, form, under)).collect()
            }
            Kind::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    let (form, under) = inside(form, key, under);
                    let name = self.replace(&key.text);
                    map.entry(name).or_insert_with(|| self.json(value, form, under));
                }
                map.into()
            }
        }
    }

    /// The source with every masked text written over.
    fn splice(&self, source: &str, root: &Node) -> String {
        let mut edits: Vec<(Span, String)> = Vec::new();
        each(root, Some(schema()), Under::Other, &mut |node, under| {
            if let Kind::Scalar { text, plain } = &node.kind {
                edits.extend(self.mask(text, *plain, under).map(|masked| (node.span, masked)));
            }
        });
        edits.sort_by_key(|(span, _)| span.start);
        let (mut out, mut at) = (String::with_capacity(source.len()), 0);
        for (span, masked) in edits {
            let Some(between) = source.get(at..span.start) else { continue };
            out.push_str(&self.replace(between));
            out.push_str(&Value::from(masked).to_string());
            at = span.end;
        }
        out.push_str(&self.replace(source.get(at..).unwrap_or_default()));
        out
    }
}

/// Every value with what it stands under.
fn each(node: &Node, form: Option<&Value>, under: Under, told: &mut impl FnMut(&Node, Under)) {
    let form = form.map(|form| fitting(&node.to_json(), form));
    told(node, under);
    match &node.kind {
        Kind::Scalar { .. } => {}
        Kind::List(items) => {
            let form = form.and_then(|form| form.get("items"));
            items.iter().for_each(|item| each(item, form, under, told));
        }
        Kind::Map(entries) => {
            for (key, value) in entries {
                let (form, under) = inside(form, key, under);
                each(value, form, under, told);
            }
        }
    }
}

/// The schema under a key, and whether what stands there is a secret: as the schema says, or, in
/// maps of any keys, as the key sounds.
fn inside<'a>(form: Option<&'a Value>, key: &Key, under: Under) -> (Option<&'a Value>, Under) {
    let inner = form.and_then(|form| form_of_key(form, &key.text));
    let sounds = is_secret(&key.text);
    let under = match inner {
        Some(inner) if is_secret_form(inner) && sounds => Under::Secret,
        Some(inner) if is_secret_form(inner) => Under::Value,
        Some(_) => Under::Other,
        None if sounds => Under::Secret,
        None => under,
    };
    (inner, under)
}

fn is_secret_form(form: &Value) -> bool {
    let own = form.get("$ref").and_then(Value::as_str) == Some("#/$defs/Secret");
    let forms = form.get("anyOf").and_then(Value::as_array);
    own || forms.is_some_and(|forms| forms.iter().any(is_secret_form))
}

/// A text that is masked for its own sake: the literal parts of a secret, and what an address holds.
fn own_mask(text: &str, plain: bool, under: Under) -> Option<String> {
    let nothing = plain && scalar(text, plain).is_null();
    let masked = match under {
        Under::Secret | Under::Value if nothing => return None,
        Under::Secret | Under::Value => Secret::new(text).without_literals(MASK),
        Under::Other if holds_secret(text) && text.contains("://") => masked_address(text),
        Under::Other => return None,
    };
    (masked != text).then_some(masked)
}

/// The literal parts of a secret that are masked wherever they stand. Addresses, paths and names of
/// hosts of variables and headers are masked in their place only: they are said elsewhere for other
/// reasons.
fn literals(text: &str, under: Under) -> Vec<String> {
    if under == Under::Other {
        let userinfo = authority(text).rsplit_once('@').map(|(userinfo, _)| userinfo);
        let password =
            userinfo.map(|userinfo| userinfo.split_once(':').map_or(userinfo, |it| it.1));
        let query = text.split_once('?').map(|(_, query)| query.split('&')).into_iter().flatten();
        let values = query.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
        return values.chain(password).map(str::to_owned).collect();
    }
    let secret = Secret::new(text);
    let Ok(parts) = secret.parts() else { return vec![text.trim().to_owned()] };
    let words = parts.into_iter().filter_map(|part| match part {
        SecretPart::Word(word) => Some(word.trim()),
        SecretPart::Variable(_) | SecretPart::File(_) => None,
    });
    let bare = words.map(|word| match word.split_once(' ') {
        Some((kind, rest)) if AUTH_KINDS.contains(&kind.to_lowercase().as_str()) => rest.trim(),
        Some(_) | None => word,
    });
    let host = |word: &str| {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        word.contains('.') && word.chars().all(legal)
    };
    let place =
        |word: &str| word.contains("://") || word.starts_with(['/', '.', '~']) || host(word);
    bare.filter(|word| under == Under::Secret || !place(word)).map(str::to_owned).collect()
}

/// The words before a token that say how it is sent.
const AUTH_KINDS: &[&str] = &["bearer", "basic", "token"];
