//! `consistency_checker`: sets several texts beside each other: names, spellings, terms, times,
//! attributes.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::super::answer::{Answer, dry_run};
use super::super::attributes::candidates;
use super::super::names::{NameCount, NameHit, counted};
use super::super::sources::{Library, Source, footprint};
use super::super::text::Quote;
use super::super::time_markers::time_markers;
use super::super::{Setup, core_tool};
use super::{SourceRef, texts};

const NAME: &str = "consistency_checker";

/// Characters of all sources together.
const EXCERPT_CHARS_MAX: usize = 8_000;

/// Most items of each list.
const NAMES_MAX: usize = 30;
const MARKERS_MAX: usize = 10;
const CROSS_MAX: usize = 20;
const VARIANTS_MAX: usize = 20;
const TERMS_MAX: usize = 15;
const CANDIDATES_MAX: usize = 40;

/// Most spellings that are compared with each other.
const FORMS_MAX: usize = 1_500;

/// Letters from which on two names may differ by one, and by two.
const LETTERS_ONE: usize = 5;
const LETTERS_TWO: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Focus {
    /// Names, spellings of names, attributes.
    Characters,
    /// Shared terms and spellings.
    Terminology,
    /// Time markers.
    Events,
    /// All of it.
    General,
}

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The sources to compare, 2 to 10.
    #[schemars(length(min = 2, max = 10))]
    file_paths: Vec<SourceRef>,
    /// What to compare; everything when left out.
    focus: Option<Focus>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Sets 2 to 10 texts beside each other: names in several of them, names that are nearly spelled alike, \
        shared terms, time markers, attributes that differ.";
    let draft = SpecDraft::new(NAME, about).touches(|args| Ok(footprint(args, &["file_paths"])));
    core_tool(setup, draft, run)
}

/// A way in which a name is written, with its first place.
struct NameForm {
    shown: String,
    count: usize,
    quote: Quote,
}

/// Two spellings that may be one name.
#[derive(Serialize)]
struct Variant {
    basis: &'static str,
    names: [String; 2],
    counts: [usize; 2],
    quotes: [Quote; 2],
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = texts(&params.file_paths);
    if params.dry_run.unwrap_or_default() {
        let named: Vec<_> = given.iter().map(|path| ("file_paths", path.as_str())).collect();
        return dry_run(NAME, &library, &named, &[]);
    }
    let outcomes = library.each("file_paths", &given)?;
    let read: Vec<Arc<Source>> = outcomes.iter().flatten().cloned().collect();
    let focus = params.focus.unwrap_or(Focus::General);
    let wants = |one: Focus| focus == one || focus == Focus::General;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let known = library.known_names(read.iter().map(AsRef::as_ref));
    let hits: Vec<Vec<NameHit>> =
        read.iter().map(|source| known.names(&source.text, lists)).collect();
    let mut own = read.iter().zip(&hits);
    let mut sources = Vec::new();
    for outcome in &outcomes {
        sources.push(match outcome {
            Err(unread) => unread.shown(),
            Ok(_) => match own.next() {
                Some((source, hits)) => {
                    describe(setup, &mut answer, source, hits, focus, read.len())
                }
                None => Value::Null,
            },
        });
    }
    answer.set("texts", &sources)?;
    let crossing = cross_references(&read, &hits);
    let total = crossing.len();
    let mut found = 0;
    if wants(Focus::Characters) {
        answer.list("cross_references", crossing, CROSS_MAX)?;
    }
    if wants(Focus::Characters) || focus == Focus::Terminology {
        let variants = variants(&mut answer, forms(&read, &hits));
        found = variants.len();
        answer.list("variants", variants, VARIANTS_MAX)?;
    }
    if wants(Focus::Terminology) {
        match shared_terms(setup, &read) {
            Some(terms) => answer.list("shared_terms", terms, TERMS_MAX)?,
            None => answer.set("shared_terms", &Value::Null)?,
        }
    }
    if wants(Focus::Characters) {
        match lists {
            Some(lists) => {
                let pairs = read.iter().flat_map(|one| read.iter().map(move |other| (one, other)));
                let apart = pairs.filter(|(one, other)| one.reference != other.reference);
                let all = apart.flat_map(|(one, other)| candidates(one, other, lists));
                answer.list("candidates", all.collect(), CANDIDATES_MAX)?;
            }
            None => answer.set("candidates", &Value::Null)?,
        }
    }
    read.iter().for_each(|source| answer.source(source));
    answer.finish(format!(
        "{} compared; {} in more than one, {}.",
        crate::text::counted(read.len(), "text"),
        crate::text::counted(total, "name"),
        crate::text::counted(found, "possible variant")
    ))
}

/// What one text has.
fn describe(
    setup: &Setup,
    answer: &mut Answer,
    source: &Source,
    hits: &[NameHit],
    focus: Focus,
    sources: usize,
) -> Value {
    let mut shown = json!({ "source": source.reference, "title": source.title() });
    let Some(map) = shown.as_object_mut() else { return shown };
    if matches!(focus, Focus::Characters | Focus::General) {
        let mut names: Vec<NameCount> = counted(hits);
        answer.leave_out("texts.names", names.len().saturating_sub(NAMES_MAX));
        names.truncate(NAMES_MAX);
        let names = names.iter().map(|it| json!({ "name": it.shown, "count": it.count }));
        map.insert("names".to_owned(), names.collect());
    }
    if matches!(focus, Focus::Events | Focus::General) {
        let markers = setup.lists.map(|lists| {
            let mut markers = time_markers(&source.text, lists);
            answer.leave_out("texts.time_markers", markers.len().saturating_sub(MARKERS_MAX));
            markers.truncate(MARKERS_MAX);
            markers.iter().map(|it| it.shown(source)).collect::<Vec<_>>()
        });
        map.insert("time_markers".to_owned(), json!(markers));
    }
    let excerpt = source.text.excerpt(0, EXCERPT_CHARS_MAX / sources.max(1));
    map.insert("excerpt".to_owned(), json!(excerpt));
    shown
}

/// Names that stand in two texts or more, the most frequent first.
fn cross_references(read: &[Arc<Source>], hits: &[Vec<NameHit>]) -> Vec<Value> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names: Vec<(String, usize, Vec<Value>)> = Vec::new();
    for (source, hits) in read.iter().zip(hits) {
        let counts = counted(hits);
        // In the order of the text, so that ties stay in it.
        let mut counts: Vec<&NameCount> = counts.iter().collect();
        counts.sort_by_key(|name| name.first.start);
        for name in counts {
            let Some(hit) = hits.iter().find(|hit| hit.key == name.key) else { continue };
            let at = *places.entry(&hit.key).or_insert(names.len());
            if at == names.len() {
                names.push((name.shown.clone(), 0, Vec::new()));
            }
            let Some(entry) = names.get_mut(at) else { continue };
            entry.1 += name.count;
            let quote = source.text.quote_at(&source.reference, name.first.start);
            entry
                .2
                .push(json!({ "source": source.reference, "count": name.count, "quote": quote }));
        }
    }
    names.retain(|(_, _, places)| places.len() > 1);
    names.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    let shown = |(name, count, places)| json!({ "name": name, "count": count, "in": places });
    names.into_iter().map(shown).collect()
}

/// Every spelling of every name, in order of its first place.
fn forms(read: &[Arc<Source>], hits: &[Vec<NameHit>]) -> Vec<NameForm> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let mut forms: Vec<NameForm> = Vec::new();
    for (source, hits) in read.iter().zip(hits) {
        for hit in hits {
            let at = *index.entry(&hit.shown).or_insert(forms.len());
            if at == forms.len() {
                let quote = source.text.quote_at(&source.reference, hit.range.start);
                forms.push(NameForm { shown: hit.shown.clone(), count: 0, quote });
            }
            if let Some(form) = forms.get_mut(at) {
                form.count += 1;
            }
        }
    }
    forms
}

/// Pairs of spellings that may be one name, the most frequent first.
fn variants(answer: &mut Answer, mut forms: Vec<NameForm>) -> Vec<Variant> {
    if forms.len() > FORMS_MAX {
        answer.warn(format!(
            "There are {} spellings of names; the first {FORMS_MAX} were compared.",
            forms.len()
        ));
        forms.truncate(FORMS_MAX);
    }
    let letters: Vec<(Vec<char>, String)> = forms
        .iter()
        .map(|form| {
            (form.shown.nfc().flat_map(char::to_lowercase).collect(), skeleton(&form.shown))
        })
        .collect();
    let mut variants = Vec::new();
    for (at, (one, (chars, bare))) in forms.iter().zip(&letters).enumerate() {
        for (other, (other_chars, other_bare)) in forms.iter().zip(&letters).skip(at + 1) {
            let shorter = chars.len().min(other_chars.len());
            let most = match shorter {
                LETTERS_TWO.. => 2,
                LETTERS_ONE.. => 1,
                _ => 0,
            };
            let basis = if bare == other_bare {
                "same_letters"
            } else if most > 0 && within_distance(chars, other_chars, most) {
                "edit_distance"
            } else {
                continue;
            };
            variants.push(Variant {
                basis,
                names: [one.shown.clone(), other.shown.clone()],
                counts: [one.count, other.count],
                quotes: [one.quote.clone(), other.quote.clone()],
            });
        }
    }
    variants.sort_by_key(|it| std::cmp::Reverse(it.counts.iter().sum::<usize>()));
    variants
}

/// A name without case, marks, hyphens, apostrophes and blanks.
fn skeleton(name: &str) -> String {
    let letters = name.nfd().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c));
    letters.flat_map(char::to_lowercase).collect()
}

/// Whether one word becomes the other by at most `most` insertions, removals or exchanges of letters.
fn within_distance(one: &[char], other: &[char], most: usize) -> bool {
    if one.len().abs_diff(other.len()) > most {
        return false;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, c) in one.iter().enumerate() {
        let mut left = at + 1;
        let mut diagonal = at;
        let mut least = left;
        let mut next = vec![left];
        for (above, d) in row.iter().skip(1).zip(other) {
            let cell = (diagonal + usize::from(c != d)).min(above + 1).min(left + 1);
            (diagonal, left) = (*above, cell);
            least = least.min(cell);
            next.push(cell);
        }
        if least > most {
            return false;
        }
        row = next;
    }
    row.last().is_some_and(|distance| *distance <= most)
}

/// Content tokens that stand in two texts or more; `None` without a list of stop words.
fn shared_terms(setup: &Setup, read: &[Arc<Source>]) -> Option<Vec<Value>> {
    let lists = setup.lists?;
    let mut counts: BTreeMap<&str, BTreeMap<usize, usize>> = BTreeMap::new();
    for (at, source) in read.iter().enumerate() {
        for token in source.text.tokens.iter().filter(|token| lists.is_content(&token.norm)) {
            *counts.entry(&token.norm).or_default().entry(at).or_default() += 1;
        }
    }
    let mut shared: Vec<_> = counts.into_iter().filter(|(_, places)| places.len() > 1).collect();
    let total = |places: &BTreeMap<usize, usize>| places.values().sum::<usize>();
    shared.sort_by(|a, b| total(&b.1).cmp(&total(&a.1)).then(a.0.cmp(b.0)));
    let shown = |(term, places): (&str, BTreeMap<usize, usize>)| {
        let places = places.into_iter().filter_map(|(at, count)| {
            Some(json!({ "source": read.get(at)?.reference, "count": count }))
        });
        json!({ "term": term, "in": places.collect::<Vec<_>>() })
    };
    Some(shared.into_iter().map(shown).collect())
}
