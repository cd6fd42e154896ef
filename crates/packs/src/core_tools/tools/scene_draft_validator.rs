//! `scene_draft_validator`: sets a draft beside its beat: what of the beat the draft has, what marks
//! it as unfinished, and what the canon says of the point of view.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::names::KnownNames;
use super::super::outline::{Beat, Outline, contains_run, shown_match};
use super::super::sources::{Library, Role, Source, footprint};
use super::super::text::{Quote, Text, token_words};
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};
use super::SourceRef;

const NAME: &str = "scene_draft_validator";

/// Characters of the canon card.
const CARD_CHARS_MAX: usize = 1_500;

/// Most checks that are shown.
const CHECKS_MAX: usize = 40;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The draft.
    scene_path: SourceRef,
    /// The outline; the outline of the project when left out.
    outline_path: Option<SourceRef>,
    /// Whether to show what the canon says of the point of view; true when left out.
    include_canon: Option<bool>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// A word or name of the beat, and where the draft has it.
#[derive(Serialize)]
struct CoveredTerm {
    term: String,
    is_name: bool,
    /// The first line that has it.
    line: Option<usize>,
}

/// A mechanical mark of an unfinished draft.
#[derive(Serialize)]
struct Check {
    kind: &'static str,
    word: Option<String>,
    quote: Option<Quote>,
}

/// Text between square brackets; whether it is a link is looked at afterwards.
static BRACKETS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\[([^\[\]\n]{1,200})\]").ok());

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Sets a draft beside its beat: which words and names of the beat it has, placeholders and other marks \
        of an unfinished draft, and the canon of its point of view.";
    let draft = SpecDraft::new(NAME, about)
        .touches(|args| Ok(footprint(args, &["scene_path", "outline_path"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = params.outline_path.as_ref().map(SourceRef::as_str);
    let scene = params.scene_path.as_str();
    let include_canon = params.include_canon.unwrap_or(true);
    if params.dry_run.unwrap_or_default() {
        let mut named = vec![("scene_path", scene)];
        named.extend(given.map(|given| ("outline_path", given)));
        let mut also = if given.is_some() { Vec::new() } else { Outline::entries(&library) };
        also.extend(library.of_role(Role::Canon));
        return dry_run(NAME, &library, &named, &also);
    }
    let scene = library.required("scene_path", scene)?;
    let outline = Outline::find(&mut library, "outline_path", given)?;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    answer.source(&scene);
    answer.set("source", &scene.reference)?;
    answer.set("title", &scene.title())?;
    answer.set("words", &scene.text.words())?;
    answer.set("outline", &outline.as_ref().map(|outline| outline.references()))?;
    answer.set("outline_match", &shown_match(outline.as_ref(), &scene))?;
    let beat =
        outline.as_ref().and_then(|outline| outline.match_scene(&scene)).map(|(beat, _)| beat);
    if outline.is_none() {
        answer.set("note", &"There is no outline; only the draft itself was checked.")?;
    }
    let known = library
        .known_names([scene.as_ref()].into_iter().chain(beat.map(|beat| beat.source.as_ref())));
    let coverage = match (beat, lists) {
        (Some(beat), Some(lists)) => Some(coverage(beat, &scene, &known, lists)),
        _ => None,
    };
    if let Some(beat) = beat {
        answer.source(&beat.source);
        answer.set("beat_text", &beat.summary())?;
    }
    let covered =
        coverage.as_ref().map(|terms| terms.iter().filter(|term| term.line.is_some()).count());
    let all = coverage.as_ref().map_or(0, Vec::len);
    answer.set(
        "coverage",
        &coverage.map(|terms| {
            let (present, missing): (Vec<_>, Vec<_>) =
                terms.into_iter().partition(|term| term.line.is_some());
            json!({ "present": present, "missing": missing })
        }),
    )?;
    let pov = beat.and_then(|beat| beat.pov.clone()).or_else(|| scene.text.front.pov.clone());
    let checks = checks(&scene, beat, lists);
    let count = checks.len();
    answer.list("checks", checks, CHECKS_MAX)?;
    answer.set("pov", &pov)?;
    let card = pov.as_ref().filter(|_| include_canon).and_then(|pov| card(&mut library, pov));
    answer.set(
        "canon_card",
        &card.as_ref().map(|card| {
            json!({
                "source": card.reference, "title": card.title(),
                "excerpt": card.text.excerpt(0, CARD_CHARS_MAX),
            })
        }),
    )?;
    if let Some(card) = &card {
        answer.source(card);
    }
    let checks = crate::text::counted(count, "check");
    answer.finish(match (beat, covered) {
        (Some(beat), Some(covered)) => {
            format!(
                "Beat {} {:?}: {covered} of {all} terms are in the draft; {checks} failed.",
                beat.number, beat.title
            )
        }
        _ => format!("No beat was matched; {checks} failed."),
    })
}

/// The content tokens and names of a beat, in order, each once.
fn coverage(
    beat: &Beat,
    scene: &Source,
    known: &KnownNames,
    lists: &WordLists,
) -> Vec<CoveredTerm> {
    let text = &beat.source.text;
    let within =
        |range: &Range<usize>| beat.body.start <= range.start && range.end <= beat.body.end;
    let names: Vec<_> =
        known.names(text, Some(lists)).into_iter().filter(|hit| within(&hit.range)).collect();
    let mut terms: Vec<CoveredTerm> = Vec::new();
    let mut names = names.into_iter().peekable();
    let (start, tokens) = text.numbered_between(&beat.body);
    for (at, token) in tokens.iter().enumerate() {
        while names.next_if(|name| name.tokens.end <= start + at).is_some() {}
        let (term, words, is_name) = match names.peek() {
            Some(name) if name.tokens.start == start + at => {
                (name.shown.clone(), name.key.split(' ').map(str::to_owned).collect(), true)
            }
            Some(name) if name.tokens.contains(&(start + at)) => continue,
            _ => {
                if !lists.is_content(&token.norm) {
                    continue;
                }
                (token.norm.clone(), vec![token.norm.clone()], false)
            }
        };
        if terms.iter().any(|known| token_words(&known.term) == words) {
            continue;
        }
        terms.push(CoveredTerm {
            line: first_line(&scene.text, &words, is_name, lists),
            term,
            is_name,
        });
    }
    terms
}

/// The first line of the prose that has the words in a row; a single word also in another form.
fn first_line(text: &Text, words: &[String], is_name: bool, lists: &WordLists) -> Option<usize> {
    let same =
        |word: &str, token: &str| lists.is_form_of(word, token) || lists.is_form_of(token, word);
    let fits = |word: &String, token: &str| word == token || (!is_name && same(word, token));
    let found = text.tokens.windows(words.len().max(1)).find(|run| {
        run.len() == words.len()
            && run.iter().zip(words).all(|(token, word)| fits(word, &token.norm))
    });
    found.and_then(|run| run.first()).map(|token| text.line_of(token.start))
}

fn checks(scene: &Source, beat: Option<&Beat>, lists: Option<&WordLists>) -> Vec<Check> {
    let text = &scene.text;
    let quote = |range: Range<usize>| Some(text.quote(&scene.reference, range));
    let quote_at = |at: usize| Some(text.quote_at(&scene.reference, at));
    let mut checks = Vec::new();
    if let Some(lists) = lists {
        for token in
            text.tokens.iter().filter(|token| lists.placeholders.words.contains(&token.norm))
        {
            let word = Some(text.shown(token).to_owned());
            checks.push(Check { kind: "placeholder", word, quote: quote_at(token.start) });
        }
        for phrase in &lists.placeholders.phrases {
            let words = token_words(phrase);
            for run in text.tokens.windows(words.len().max(1)) {
                if run.iter().map(|token| &token.norm).eq(&words)
                    && let Some(first) = run.first()
                {
                    let word = Some(phrase.clone());
                    checks.push(Check { kind: "placeholder", word, quote: quote_at(first.start) });
                }
            }
        }
    }
    for found in BRACKETS.iter().flat_map(|brackets| brackets.find_iter(&text.raw)) {
        let rest = text.raw.get(found.end()..).unwrap_or_default();
        let inner = found.as_str().trim_matches(['[', ']']);
        let link = rest.starts_with(['(', ':', '[']) || inner.starts_with('^');
        let tick_box = matches!(inner, " " | "x" | "X");
        let in_prose = text.paragraphs.iter().any(|it| it.range.contains(&found.start()));
        if !link && !tick_box && in_prose {
            let word = Some(found.as_str().to_owned());
            checks.push(Check { kind: "placeholder", word, quote: quote_at(found.start()) });
        }
    }
    for open in &text.open_quotes {
        checks.push(Check { kind: "open_quotation_mark", word: None, quote: quote_at(*open) });
    }
    if let Some(last) = text.sentences.last() {
        let end = text.slice(last.range.clone()).trim_end();
        let end = end.trim_end_matches(|c: char| "\"”“'’»」』)]*_".contains(c));
        if !end.ends_with(['.', '!', '?', '…', '。', '！', '？', '—', '–']) {
            checks.push(Check {
                kind: "no_final_punctuation",
                word: None,
                quote: quote(last.range.clone()),
            });
        }
    }
    if let Some((beat, pov)) = beat.and_then(|beat| Some((beat, beat.pov.as_ref()?))) {
        let words: Vec<String> = text.tokens.iter().map(|token| token.norm.clone()).collect();
        if !contains_run(&words, &token_words(pov)) {
            let quote = Some(beat.heading_quote());
            checks.push(Check { kind: "pov_never_named", word: Some(pov.clone()), quote });
        }
    }
    checks
}

/// The canon source that a name is the title or an alias of.
fn card(library: &mut Library<'_>, name: &str) -> Option<Arc<Source>> {
    let words = token_words(name);
    let canon = library.canon();
    let exact = canon.iter().find(|source| source.names().contains(&words));
    let part =
        || canon.iter().find(|source| source.names().iter().any(|own| contains_run(own, &words)));
    exact.or_else(part).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_placeholders_unless_they_are_links() {
        let raw = "She [describe the sea] and [a link](x) and note [^1]. [ ] [x] done.";
        let text = Text::new(raw.to_owned(), 1, WordLists::of("en"));
        let source = Source {
            reference: "a.md".to_owned(),
            role: Role::Scene,
            sha256: toolgate_kernel::digest::Digest::of(raw.as_bytes()),
            text,
        };
        let found = checks(&source, None, WordLists::of("en"));
        let words: Vec<_> = found.iter().filter_map(|check| check.word.as_deref()).collect();
        assert_eq!(words, ["[describe the sea]"]);
        assert_eq!(found[0].kind, "placeholder");
    }
}
