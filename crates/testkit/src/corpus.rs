//! Decides what the corpus of bad inputs says: one loader for all surfaces, one way to make an input.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

/// The corpus: cases by surface, and how many of each there must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Corpus {
    /// Version of the file's layout.
    pub format: u64,
    /// What it is.
    pub title: String,
    /// How a case is read.
    pub how_to_read: Vec<String>,
    /// What each outcome means.
    pub outcomes: BTreeMap<Outcome, String>,
    /// What each recipe makes.
    pub generators: BTreeMap<String, String>,
    /// Cases per surface.
    pub counts: BTreeMap<String, usize>,
    /// Cases altogether.
    pub total: usize,
    /// The cases.
    pub cases: Vec<Case>,
}

/// One bad input, and what must come of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name for ever.
    pub id: String,
    /// Where it comes in: `tool.args`, `config.yaml`, …
    pub surface: String,
    /// What is bad about it.
    pub category: String,
    /// The input itself, or a sentence that the surface's adapter stages.
    #[serde(default)]
    pub input: Option<String>,
    /// How to make an input that is too large to write down.
    #[serde(default)]
    pub generate: Option<Recipe>,
    /// What must come of it.
    pub expect: Expect,
    /// The promises it belongs to.
    pub promises: Vec<String>,
    /// Where it was met in the wild.
    #[serde(default)]
    pub source: Option<String>,
    /// What else is worth knowing.
    #[serde(default)]
    pub note: Option<String>,
    /// What a reference parser makes of an address.
    #[serde(default)]
    pub ref_parse: Option<String>,
}

/// What must come of a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The outcome.
    pub outcome: Outcome,
    /// What its adapter asserts besides.
    pub must: Vec<String>,
}

/// The closed list of outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Refused to load; nothing is partially applied.
    RejectAtLoad,
    /// A typed error, no effect.
    Reject,
    /// A denial in the log; the tool is not run.
    Deny,
    /// Kept, and not live before a person approves it.
    Quarantine,
    /// Taken as data, no effect.
    Inert,
    /// Stopped at a limit.
    Bounded,
    /// The turn ends in an error and nothing of it runs.
    FailTurn,
    /// Put right by a documented rule.
    Recover,
    /// It works.
    Accept,
}

/// How an input is made.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Recipe {
    /// `prefix + unit * count + suffix`.
    Repeat {
        /// Before it.
        #[serde(default)]
        prefix: String,
        /// What is repeated.
        unit: String,
        /// How often.
        count: usize,
        /// After it.
        #[serde(default)]
        suffix: String,
    },
    /// `prefix + open * depth + core + close * depth`.
    Nest {
        /// Before it.
        #[serde(default)]
        prefix: String,
        /// What opens a level.
        open: String,
        /// What closes it.
        close: String,
        /// How many levels.
        depth: usize,
        /// What is inside.
        #[serde(default)]
        core: String,
    },
    /// Raw bytes in hex.
    Hex {
        /// The digits.
        bytes: String,
    },
    /// A JSON object with so many distinct keys.
    Keys {
        /// How many.
        count: usize,
    },
    /// A schema with so many choices.
    Enum {
        /// How many.
        count: usize,
    },
    /// A schema that unfolds to `fanout` to the power of `depth` parts.
    SchemaFanout {
        /// The keyword whose list branches.
        keyword: String,
        /// Branches per level.
        fanout: usize,
        /// Levels.
        depth: usize,
    },
    /// A schema of nested records.
    SchemaNest {
        /// Levels.
        depth: usize,
    },
    /// A JSON patch of so many operations.
    PatchOps {
        /// How many.
        count: usize,
    },
    /// A text as it is.
    Text {
        /// The text.
        text: String,
    },
    /// A gzip stream of zeros; the adapter of its surface serves it.
    GzipZeros {
        /// How many bytes it unpacks to.
        decompressed: u64,
    },
    /// Bytes that keep coming; the adapter of its surface serves them.
    Stream {
        /// How fast.
        rate: String,
        /// How long.
        seconds: u64,
    },
}

impl Corpus {
    /// Where the corpus is kept.
    pub fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/bad_inputs.yaml")
    }

    /// Reads the corpus and checks that it is what it says it is.
    pub fn read() -> Result<Self> {
        let path = Self::path();
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let corpus: Self = serde_saphyr::from_str(&text)
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        corpus.check()?;
        Ok(corpus)
    }

    fn check(&self) -> Result<()> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for case in &self.cases {
            *counts.entry(case.surface.clone()).or_default() += 1;
            ensure!(ids.insert(&case.id), "{} is given twice", case.id);
            ensure!(!case.expect.must.is_empty(), "{} says nothing that must hold", case.id);
            let inputs = usize::from(case.input.is_some()) + usize::from(case.generate.is_some());
            ensure!(inputs == 1, "{} has {inputs} inputs", case.id);
        }
        ensure!(counts == self.counts, "counted {counts:?}, the corpus says {:?}", self.counts);
        ensure!(self.cases.len() == self.total, "counted {} cases", self.cases.len());
        Ok(())
    }

    /// The cases of a surface, in order.
    pub fn of<'a>(&'a self, surface: &'a str) -> impl Iterator<Item = &'a Case> {
        self.cases.iter().filter(move |case| case.surface == surface)
    }
}

impl Case {
    /// The input as text.
    pub fn text(&self) -> Result<String> {
        match (&self.input, &self.generate) {
            (Some(input), _) => Ok(input.clone()),
            (None, Some(recipe)) => Ok(String::from_utf8(recipe.bytes()?)?),
            (None, None) => bail!("{} has no input", self.id),
        }
    }
}

impl Recipe {
    /// Makes the input.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let text = match self {
            Self::Repeat { prefix, unit, count, suffix } => {
                format!("{prefix}{}{suffix}", unit.repeat(*count))
            }
            Self::Nest { prefix, open, close, depth, core } => {
                format!("{prefix}{}{core}{}", open.repeat(*depth), close.repeat(*depth))
            }
            Self::Hex { bytes } => return unhex(bytes),
            Self::Keys { count } => {
                listed("{", *count, "}", |out, at| write!(out, "\"k{at}\":{at}"))?
            }
            Self::Enum { count } => {
                listed("{\"enum\":[", *count, "]}", |out, at| write!(out, "\"v{at}\""))?
            }
            Self::SchemaFanout { keyword, fanout, depth } => fan(keyword, *fanout, *depth)?,
            Self::SchemaNest { depth } => {
                let open = r#"{"type":"object","properties":{"a":"#;
                format!("{}{{}}{}", open.repeat(*depth), "}}".repeat(*depth))
            }
            Self::PatchOps { count } => listed("[", *count, "]", |out, at| {
                write!(out, r#"{{"op":"add","path":"/a{at}","value":{at}}}"#)
            })?,
            Self::Text { text } => text.clone(),
            Self::GzipZeros { .. } | Self::Stream { .. } => {
                bail!("a stream is served by the adapter of its surface")
            }
        };
        Ok(text.into_bytes())
    }
}

/// Items with commas between them.
fn listed(
    open: &str,
    count: usize,
    close: &str,
    item: impl Fn(&mut String, usize) -> std::fmt::Result,
) -> Result<String> {
    let mut out = open.to_owned();
    for at in 0..count {
        if at > 0 {
            out.push(',');
        }
        item(&mut out, at)?;
    }
    out.push_str(close);
    Ok(out)
}

/// Each level refers to the one below `fanout` times, so the text stays short and what it
/// unfolds to does not.
fn fan(keyword: &str, fanout: usize, depth: usize) -> Result<String> {
    let levels = listed("{", depth + 1, "}", |out, level| match level {
        0 => write!(out, r#""l0":{{"type":"string"}}"#),
        _ => {
            write!(out, r#""l{level}":{{"{keyword}":["#)?;
            for at in 0..fanout {
                let comma = if at > 0 { "," } else { "" };
                write!(out, r##"{comma}{{"$ref":"#/$defs/l{}"}}"##, level - 1)?;
            }
            out.push_str("]}");
            Ok(())
        }
    })?;
    Ok(format!(r##"{{"$ref":"#/$defs/l{depth}","$defs":{levels}}}"##))
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    ensure!(text.len().is_multiple_of(2), "an odd number of hex digits");
    let digit = |c: u8| char::from(c).to_digit(16).context("no hex digit");
    let mut out = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks_exact(2) {
        if let [high, low] = pair {
            out.push(u8::try_from(digit(*high)? * 16 + digit(*low)?)?);
        }
    }
    Ok(out)
}
