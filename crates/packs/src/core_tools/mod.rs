//! The sixteen core tools: they gather grounded material from the texts of a project.
//!
//! Every tool is deterministic and reads only. It answers with quotes, lines, counts and the hashes
//! of what it read; judging is the model's part, and a candidate is never a verdict.
//!
//! `sources` finds and reads texts, `text` splits them, `names`, `outline`, `attributes` and
//! `time_markers` find what several tools need, `word_lists` has the words of a language, `answer`
//! keeps an answer within its bound. `tools` has one file per tool, `prompts` what a model is told
//! of each.
#![doc = include_str!("../../../../docs/core-tools.md")]

mod answer;
mod attributes;
mod evidence;
mod names;
mod outline;
mod prompts;
mod receipts;
mod sources;
mod text;
mod time_markers;
mod tools;
mod word_lists;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::names::{NameRefusal, SectionName, ToolName};
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{Effect, SpecDraft, SpecRefusal};
use toolgate_runtime::port::{Fault, Output, Tool};
use toolgate_runtime::{Pack, Transaction, tool};

pub use evidence::ProjectSources;
pub use prompts::{CorePrompt, core_prompts};
pub use receipts::{ReceiptHistory, RecentReceipt};
pub use sources::SourceGlobs;

use answer::Answer;
use sources::RoleGlobs;
pub(crate) use text::token_words;
use word_lists::WordLists;

/// The section, and the pack in a configuration.
const NAME: &str = "catalogue";

/// The group of the tools.
const GROUP: &str = "core_tools";

const TEXT: &str = "## Core tools\n\n\
    The core tools read the project's texts and answer with quotes, lines, counts and hashes. A text is named by a ref: \
    a path such as `Story/Scenes/SCN-scene-1.md`, `section:<name>` of the manuscript, `note:<key>`, or `facts`. \
    Begin with `file_locator` when you do not know a ref. What a tool calls a candidate is a place to look at, not a \
    verdict: read it, then judge. Cite source and line of what you claim, and the receipt of the call. Invent no file, \
    quote or issue; where a tool found nothing, say so.";

/// How the core tools are set up in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreToolsOptions {
    /// The language of the texts, by the code of its word lists.
    pub language: String,
    /// Which sources are outline, canon and scenes.
    pub sources: SourceGlobs,
    /// The archetypes that agents of the project have, in lower case; `None` where no agents are
    /// declared.
    pub archetypes: Option<Vec<String>>,
    /// Whether the pack `files` is there, whose names `read_file` and `list_files` are then taken.
    pub file_tools: bool,
}

impl Default for CoreToolsOptions {
    fn default() -> Self {
        Self {
            language: "en".to_owned(),
            sources: SourceGlobs::default(),
            archetypes: None,
            file_tools: false,
        }
    }
}

/// What every call of a core tool works with.
#[derive(Debug)]
struct Setup {
    language: String,
    /// The word lists of the language, where it has some.
    lists: Option<&'static WordLists>,
    globs: RoleGlobs,
    archetypes: Option<Vec<String>>,
    file_tools: bool,
}

impl Setup {
    /// The word lists; without them the answer is told so once.
    fn lists_or_warn(&self, answer: &mut Answer) -> Option<&'static WordLists> {
        if self.lists.is_none() {
            answer.warn(format!(
                "There are no word lists for the language {:?}; fields that need them are null.",
                self.language
            ));
        }
        self.lists
    }
}

/// The pack `catalogue` with the sixteen core tools.
pub fn catalogue(options: CoreToolsOptions) -> Result<Pack, SpecRefusal> {
    let named = |source: NameRefusal| SpecRefusal::Name { tool: NAME.to_owned(), source };
    let locator = ToolName::parse("file_locator").map_err(named)?;
    let CoreToolsOptions { language, sources, archetypes, file_tools } = options;
    let globs =
        RoleGlobs::new(&sources).map_err(|reason| SpecRefusal::Domain { tool: locator, reason })?;
    let lists = WordLists::of(&language);
    let setup = Arc::new(Setup { language, lists, globs, archetypes, file_tools });
    let mut section = Section::new(SectionName::parse(NAME).map_err(named)?);
    section.text = TEXT.to_owned();
    Ok(Pack::new(section, tools::all(&setup)?))
}

/// A core tool: it reads, belongs to the group, and its description is locked.
fn core_tool<P>(
    setup: &Arc<Setup>,
    draft: SpecDraft,
    run: fn(&Setup, &Transaction, P) -> Result<Output, Fault>,
) -> Result<Arc<dyn Tool>, SpecRefusal>
where
    P: DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    let schema = schemars::schema_for!(P).to_value();
    let fields = schema.get("properties").and_then(Value::as_object);
    let fields = fields.into_iter().flat_map(|fields| fields.keys());
    let spellings = fields.filter_map(|field| Some((field.clone(), other_spelling(field)?)));
    let draft = spellings.fold(draft, |draft, (field, other)| draft.argument_alias(&field, &other));
    let draft = draft.group(GROUP).effect(Effect::Read).labels(FlowLabels::private());
    let draft = draft.returns_schema(answer_schema()).locked();
    let setup = Arc::clone(setup);
    tool(draft, move |tx, params| run(&setup, tx, params))
}

/// The content words of a text by the English word lists: at least four letters, and no stop word.
pub(crate) fn content_words(text: &str) -> Vec<String> {
    let mut words = token_words(text);
    if let Some(lists) = WordLists::of("en") {
        words.retain(|word| lists.is_content(word));
    }
    words
}

/// A field in camel case when it is written with underscores, and the other way round.
fn other_spelling(field: &str) -> Option<String> {
    let mut other = String::new();
    let mut raise = false;
    for c in field.chars() {
        if c == '_' {
            raise = true;
        } else if c.is_uppercase() {
            other.push('_');
            other.extend(c.to_lowercase());
        } else if raise {
            other.extend(c.to_uppercase());
            raise = false;
        } else {
            other.push(c);
        }
    }
    (other != field).then_some(other)
}

/// Every answer says what it is, what it was made from, and what was left out.
fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "type": { "type": "string" } },
        "required": ["type"],
        "additionalProperties": true,
    })
}
