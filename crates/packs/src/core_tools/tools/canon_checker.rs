//! `canon_checker`: sets a scene beside the canon. Without canon paths it shows what canon there is;
//! with them it quotes where the scene speaks of what the canon says.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::attributes::candidates;
use super::super::names::{NameHit, counted};
use super::super::sources::{Library, Role, Source, footprint};
use super::super::text::Quote;
use super::super::{Setup, core_tool};
use super::{SourceRef, texts};

const NAME: &str = "canon_checker";

/// Characters of the scene that are shown in discovery and in comparison.
const DISCOVERY_CHARS_MAX: usize = 600;
const SCENE_CHARS_MAX: usize = 4_000;

/// Characters of all canon sources together.
const CANON_CHARS_MAX: usize = 6_000;

/// Most entries of the manifest.
const MANIFEST_MAX: usize = 200;

/// Most names without canon that are shown.
const UNKNOWN_MAX: usize = 30;

/// Most quotes of one canon source's mentions.
const MENTIONS_MAX: usize = 5;

/// Most candidates.
const CANDIDATES_MAX: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Compares attributes such as `Eyes: grey` too.
    Strict,
    /// Looks at names alone.
    Names,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The scene.
    scene_path: SourceRef,
    /// The canon sources to compare with, at most 10. Left out: shows what canon there is.
    #[schemars(length(max = 10))]
    canon_paths: Option<Vec<SourceRef>>,
    /// strict (when left out) compares attributes too, names only shows mentions.
    mode: Option<Mode>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Sets a scene beside the canon: first without canon_paths for a manifest, then with them for quotes \
        where scene and canon speak of the same thing.";
    let draft = SpecDraft::new(NAME, about)
        .touches(|args| Ok(footprint(args, &["scene_path", "canon_paths"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let scene = params.scene_path.as_str();
    let canon = texts(&params.canon_paths.unwrap_or_default());
    if params.dry_run.unwrap_or_default() {
        let mut named = vec![("scene_path", scene)];
        named.extend(canon.iter().map(|path| ("canon_paths", path.as_str())));
        let all = if canon.is_empty() { library.of_role(Role::Canon) } else { Vec::new() };
        return dry_run(NAME, &library, &named, &all);
    }
    let scene = library.required("scene_path", scene)?;
    let mut answer = Answer::new(NAME);
    setup.lists_or_warn(&mut answer);
    answer.source(&scene);
    let outcomes = match canon.is_empty() {
        true => Vec::new(),
        // Paths of which none can be read lead back to discovery, which says what there is.
        false => library.each_or_none("canon_paths", &canon)?,
    };
    let readable = outcomes.iter().flatten().count();
    if readable == 0 {
        if !canon.is_empty() {
            answer.warn("None of canon_paths could be read; this is what canon there is.");
        }
        return discover(setup, &mut library, &scene, answer);
    }
    let known = library.known_names([scene.as_ref()]);
    let hits = known.names(&scene.text, setup.lists);
    let mode = params.mode.unwrap_or(Mode::Strict);
    let (mut entries, mut found) = (Vec::new(), Vec::new());
    for outcome in &outcomes {
        let source = match outcome {
            Ok(source) => source,
            Err(unread) => {
                entries.push(unread.shown());
                continue;
            }
        };
        answer.source(source);
        let mentions = mentions(source, &hits);
        let quotes: Vec<Quote> = quotes(&scene, &mentions);
        entries.push(json!({
            "source": source.reference, "title": source.title(),
            "category": library.category_of(&source.reference),
            "excerpt": source.text.excerpt(0, CANON_CHARS_MAX / readable),
            "mentions": { "count": mentions.len(), "quotes": quotes },
        }));
        if let (Mode::Strict, Some(lists)) = (mode, setup.lists) {
            found.extend(candidates(source, &scene, lists));
        }
    }
    let differs = found.iter().filter(|candidate| candidate.relation == "differs").count();
    answer.set("phase", &"compare")?;
    answer.set("scene", &json!({
        "source": scene.reference, "title": scene.title(), "excerpt": scene.text.excerpt(0, SCENE_CHARS_MAX),
    }))?;
    answer.set("canon", &entries)?;
    let total = found.len();
    match (mode, setup.lists) {
        (Mode::Strict, None) => answer.set("candidates", &Value::Null)?,
        _ => answer.list("candidates", found, CANDIDATES_MAX)?,
    }
    answer.finish(format!(
        "{} of {} compared; {}, {differs} of them differ.",
        readable,
        crate::text::counted(outcomes.len(), "canon source"),
        crate::text::counted(total, "candidate")
    ))
}

/// What canon there is, and which names of the scene it does not have.
fn discover(
    setup: &Setup,
    library: &mut Library<'_>,
    scene: &Arc<Source>,
    mut answer: Answer,
) -> Result<Output, Fault> {
    let known = library.known_names([scene.as_ref()]);
    let hits = known.names(&scene.text, setup.lists);
    let mut manifest = Vec::new();
    let mut mentioned = Vec::new();
    for entry in library.of_role(Role::Canon) {
        let read = library.read(&entry);
        let source = match &read {
            Ok(source) => source,
            Err(error) => {
                manifest.push((0, json!({ "source": entry.reference, "error": error.as_str() })));
                continue;
            }
        };
        let count = mentions(source, &hits).len();
        if count > 0 {
            mentioned.push(Arc::clone(source));
        }
        manifest.push((count, json!({
            "source": entry.reference, "title": source.title(), "category": library.category(&entry),
            "bytes": entry.bytes, "mentions": count,
        })));
    }
    // The sort is stable: what is mentioned as often stays in reading order.
    manifest.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let total = manifest.len();
    let unknown: Vec<NameHit> = hits.into_iter().filter(|hit| !known.in_canon(&hit.key)).collect();
    let unknown: Vec<Value> = counted(&unknown)
        .into_iter()
        .map(|name| {
            json!({
                "name": name.shown, "count": name.count,
                "quote": scene.text.quote_at(&scene.reference, name.first.start),
            })
        })
        .collect();
    answer.set("phase", &"discovery")?;
    answer.set(
        "scene",
        &json!({
            "source": scene.reference, "title": scene.title(),
            "excerpt": scene.text.excerpt(0, DISCOVERY_CHARS_MAX),
        }),
    )?;
    answer.list(
        "manifest",
        manifest.into_iter().map(|(_, entry)| entry).collect(),
        MANIFEST_MAX,
    )?;
    answer.list("unknown_names", unknown, UNKNOWN_MAX)?;
    mentioned.iter().for_each(|source| answer.source(source));
    let message = match total {
        0 => "There is no canon yet.".to_owned(),
        _ => format!(
            "{}, {} of them mentioned in the scene. Call again with canon_paths.",
            crate::text::counted(total, "canon source"),
            mentioned.len()
        ),
    };
    answer.finish(message)
}

/// The names of a scene that are those of a canon source.
fn mentions<'h>(source: &Source, hits: &'h [NameHit]) -> Vec<&'h NameHit> {
    let names = source.names();
    let named = |hit: &&NameHit| names.iter().any(|name| hit.has(name));
    hits.iter().filter(named).collect()
}

/// The sentences of the first mentions, each once.
fn quotes(scene: &Source, mentions: &[&NameHit]) -> Vec<Quote> {
    let mut quotes: Vec<Quote> = Vec::new();
    for hit in mentions {
        let quote = scene.text.quote_at(&scene.reference, hit.range.start);
        if quotes.len() < MENTIONS_MAX && !quotes.contains(&quote) {
            quotes.push(quote);
        }
    }
    quotes
}
