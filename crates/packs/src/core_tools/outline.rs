//! Reads the beats of an outline, and finds the beat a scene belongs to.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::Serialize;
use serde_json::{Value, json};

use super::sources::{Library, Role, Source, field_value, stem};
use super::text::{Quote, token_words};

/// Most characters of a beat's summary.
const SUMMARY_CHARS_MAX: usize = 300;

/// An outline, or the beats of the manuscript in its place.
#[derive(Debug)]
pub(super) struct Outline {
    /// The sources it was read from.
    pub(super) sources: Vec<Arc<Source>>,
    pub(super) beats: Vec<Beat>,
    pub(super) acts: Vec<Act>,
}

/// One beat.
#[derive(Debug)]
pub(super) struct Beat {
    pub(super) source: Arc<Source>,
    /// Its place, from one.
    pub(super) place: usize,
    /// The number that is written, else the place.
    pub(super) number: usize,
    pub(super) written: bool,
    pub(super) title: String,
    pub(super) pov: Option<String>,
    pub(super) when: Option<String>,
    pub(super) location: Option<String>,
    /// The heading, in bytes.
    pub(super) heading: Range<usize>,
    /// The text below it without its fields, in bytes.
    pub(super) body: Range<usize>,
    pub(super) words: usize,
    /// The act it stands in, by its place in `acts`.
    pub(super) act: Option<usize>,
}

/// An act, with the words of its beats.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) title: String,
    pub(super) words: usize,
}

/// By what a scene was matched with a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MatchBasis {
    /// The scene is the beat's own section of the manuscript.
    Section,
    FrontMatter,
    Title,
    Pov,
    Number,
}

static HEADING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?i:scene|chapter)\s+(\d{1,6})\b\s*[:\-–—]?\s*(.*)$").ok());

static POV: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\s*[(\[]\s*(?i:pov)\s*:?\s*([^)\]]+?)\s*[)\]]").ok());

static ITEM: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(\d{1,6})[.)]\s+(\S.*)$").ok());

/// A title without number and point of view.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TitleParts {
    pub(super) title: String,
    pub(super) number: Option<usize>,
    pub(super) pov: Option<String>,
}

impl TitleParts {
    /// Takes a heading apart.
    pub(super) fn of(heading: &str) -> Self {
        let found = POV.as_ref().and_then(|pov| pov.captures(heading));
        let pov = found.as_ref().and_then(|found| Some(found.get(1)?.as_str().trim().to_owned()));
        let rest = match found.as_ref().and_then(|found| found.get(0)) {
            Some(whole) => {
                let (before, after) = (heading.get(..whole.start()), heading.get(whole.end()..));
                format!("{}{}", before.unwrap_or_default(), after.unwrap_or_default())
            }
            None => heading.to_owned(),
        };
        let rest = rest.trim();
        let found = HEADING.as_ref().and_then(|heading| heading.captures(rest));
        let number = found.as_ref().and_then(|found| found.get(1)?.as_str().parse().ok());
        let title = found.as_ref().and_then(|found| Some(found.get(2)?.as_str().trim()));
        let title = title.filter(|title| !title.is_empty()).unwrap_or(rest).to_owned();
        Self { title, number, pov }
    }
}

impl Outline {
    /// The outline an argument names, else the default one. `None` when there is none at all.
    pub(super) fn find(
        library: &mut Library<'_>,
        field: &str,
        given: Option<&str>,
    ) -> Result<Option<Self>, toolgate_runtime::port::Fault> {
        if let Some(given) = given {
            return Ok(Some(Self::of(library.required(field, given)?)));
        }
        if let Some(entry) = library.default_outline()
            && let Ok(source) = library.read(&entry)
        {
            return Ok(Some(Self::of(source)));
        }
        Ok(Self::of_manuscript(library))
    }

    /// The sources that [`Outline::find`] would read.
    pub(super) fn entries(library: &Library<'_>) -> Vec<super::sources::SourceEntry> {
        match library.default_outline() {
            Some(entry) => vec![entry],
            None => library.manuscript_beats().into_iter().map(|(entry, ..)| entry).collect(),
        }
    }

    /// The beats of the manuscript: a chapter is an act.
    fn of_manuscript(library: &mut Library<'_>) -> Option<Self> {
        let mut outline = Self { sources: Vec::new(), beats: Vec::new(), acts: Vec::new() };
        for (entry, chapter, name) in library.manuscript_beats() {
            let Ok(source) = library.read(&entry) else { continue };
            if outline.acts.last().is_none_or(|act| act.title != chapter) {
                outline.acts.push(Act { title: chapter, words: 0 });
            }
            let parts = TitleParts::of(&name);
            let body = 0..source.text.raw.len();
            outline.sources.push(Arc::clone(&source));
            outline.add(source, parts, 0..0, body, None);
        }
        (!outline.beats.is_empty()).then_some(outline)
    }

    /// The beats of a source.
    pub(super) fn of(source: Arc<Source>) -> Self {
        let mut outline =
            Self { sources: vec![Arc::clone(&source)], beats: Vec::new(), acts: Vec::new() };
        let text = &source.text;
        let at_level = |level| text.headings.iter().filter(move |it| it.level == level).count();
        let level =
            if at_level(2) > 0 { Some(2) } else { (1..=6).find(|level| at_level(*level) > 1) };
        match level {
            Some(level) => {
                for (at, heading) in text.headings.iter().enumerate() {
                    if heading.level < level {
                        outline.acts.push(Act { title: heading.title.clone(), words: 0 });
                    }
                    if heading.level != level {
                        continue;
                    }
                    let next = text.headings.iter().skip(at + 1).find(|it| it.level <= level);
                    let end = next.map_or(text.raw.len(), |next| text.line_range(next.at).start);
                    let line = text.line_range(heading.at);
                    let body = line.end.min(end)..end;
                    let parts = TitleParts::of(&heading.title);
                    outline.add(Arc::clone(&source), parts, line, body, None);
                }
            }
            None => outline.add_items(&source),
        }
        outline
    }

    /// Beats as the items of a numbered list.
    fn add_items(&mut self, source: &Arc<Source>) {
        let text = &source.text;
        let item = |line: &str| {
            let found = ITEM.as_ref()?.captures(line)?;
            let number: usize = found.get(1)?.as_str().parse().ok()?;
            Some((number, found.get(2)?.as_str().to_owned()))
        };
        let items: Vec<(usize, (usize, String))> =
            text.lines().filter_map(|(at, line)| Some((at, item(line)?))).collect();
        for (at, (line, (number, title))) in items.iter().enumerate() {
            let end = match items.get(at + 1) {
                Some((next, _)) => text.line_range(*next).start,
                None => text.raw.len(),
            };
            let range = text.line_range(*line);
            let parts = TitleParts::of(title);
            self.add(Arc::clone(source), parts, range.clone(), range.start..end, Some(*number));
        }
    }

    fn add(
        &mut self,
        source: Arc<Source>,
        parts: TitleParts,
        heading: Range<usize>,
        body: Range<usize>,
        number: Option<usize>,
    ) {
        let text = &source.text;
        let lines = text.line_index(body.start)..=text.line_index(body.end.saturating_sub(1));
        let field = |name: &str| lines.clone().find_map(|at| field_value(text.line(at), name));
        let fields = |at: &usize| {
            ["pov", "when", "where"].iter().any(|name| field_value(text.line(*at), name).is_some())
        };
        let field_words: usize =
            lines.clone().filter(fields).map(|at| text.words_between(&text.line_range(at))).sum();
        let (pov, when, location) = (field("pov"), field("when"), field("where"));
        let words = text.words_between(&body).saturating_sub(field_words);
        // The body begins where its prose does, behind the fields at its beginning.
        let leading = |at: &usize| text.line(*at).trim().is_empty() || fields(at);
        // The text of an item is its first line already.
        let is_item = !heading.is_empty() && body.start == heading.start;
        let under = lines.clone().filter(|at| text.line_range(*at).start >= body.start);
        let skipped = under.take_while(leading).filter(fields).last().filter(|_| !is_item);
        let from = skipped.map_or(body.start, |at| text.line_range(at).end.min(body.end));
        let blank = text.slice(from..body.end);
        let from = from + blank.len() - blank.trim_start().len();
        let first = text.tokens_between(&(from..body.end)).first();
        let start = first.map_or(body.end, |token| text.sentence_of(token).start.max(from));
        let place = self.beats.len() + 1;
        let written = parts.number.or(number);
        let act = self.acts.len().checked_sub(1);
        if let Some(act) = act.and_then(|at| self.acts.get_mut(at)) {
            act.words += words;
        }
        let pov = parts.pov.or(pov).or_else(|| match heading.is_empty() {
            true => text.front.pov.clone(),
            false => None,
        });
        self.beats.push(Beat {
            place,
            number: written.unwrap_or(place),
            written: written.is_some(),
            title: parts.title,
            pov,
            when,
            location,
            heading,
            body: start..body.end,
            words,
            act,
            source,
        });
    }

    /// The refs it was read from.
    pub(super) fn references(&self) -> Vec<&str> {
        self.sources.iter().map(|source| source.reference.as_str()).collect()
    }

    /// The beat a scene belongs to, and by what.
    pub(super) fn match_scene(&self, scene: &Source) -> Option<(&Beat, MatchBasis)> {
        let own = self
            .beats
            .iter()
            .find(|beat| beat.heading.is_empty() && beat.source.reference == scene.reference);
        if let Some(beat) = own {
            return Some((beat, MatchBasis::Section));
        }
        let front = &scene.text.front;
        let written = front.beat.as_ref().or(front.scene.as_ref());
        let by_front = written.and_then(|written| {
            let number = written.parse::<usize>().ok();
            let title = token_words(written);
            self.beats
                .iter()
                .find(|beat| Some(beat.number) == number || token_words(&beat.title) == title)
        });
        if let Some(beat) = by_front {
            return Some((beat, MatchBasis::FrontMatter));
        }
        let slug = slug_words(&scene.reference);
        let title = token_words(&scene.title());
        let has = |beat: &&Beat| {
            let words = token_words(&beat.title);
            !words.is_empty() && (contains_run(&slug, &words) || contains_run(&title, &words))
        };
        let length = |beat: &&Beat| token_words(&beat.title).len();
        let longest = self.beats.iter().filter(has).map(|beat| length(&beat)).max();
        let by_title = self.beats.iter().filter(has).find(|beat| Some(length(beat)) == longest);
        if let Some(beat) = by_title {
            return Some((beat, MatchBasis::Title));
        }
        let mut by_pov = self.beats.iter().filter(|beat| {
            beat.pov.as_ref().is_some_and(|pov| contains_run(&slug, &token_words(pov)))
        });
        if let (Some(beat), None) = (by_pov.next(), by_pov.next()) {
            return Some((beat, MatchBasis::Pov));
        }
        let number = scene_number(&slug)?;
        let beat = self.beats.iter().find(|beat| beat.number == number)?;
        Some((beat, MatchBasis::Number))
    }
}

impl Beat {
    /// A quote of the heading, or of the first words of the text where there is none.
    pub(super) fn heading_quote(&self) -> Quote {
        let text = &self.source.text;
        let range = if self.heading.is_empty() { text.unit_at(0) } else { self.heading.clone() };
        text.quote(&self.source.reference, range)
    }

    /// The first words of its text; nothing when it has none.
    pub(super) fn summary(&self) -> Option<Quote> {
        let text = &self.source.text;
        let range =
            self.body.start..self.body.start + text.slice(self.body.clone()).trim_end().len();
        let quote = || text.quote_within(&self.source.reference, range.clone(), SUMMARY_CHARS_MAX);
        (!range.is_empty()).then(quote)
    }

    /// First and last line, the heading included.
    pub(super) fn lines(&self) -> [usize; 2] {
        let text = &self.source.text;
        let start = if self.heading.is_empty() { self.body.start } else { self.heading.start };
        let body = text.slice(self.body.clone()).trim_end().len();
        let end = if body == 0 { self.heading.end } else { self.body.start + body };
        [text.line_of(start), text.line_of(end.saturating_sub(1).max(start))]
    }

    /// The beat as other tools name it.
    pub(super) fn brief(&self) -> Value {
        json!({
            "place": self.place, "number": self.number, "title": self.title, "pov": self.pov,
            "source": self.source.reference, "lines": self.lines(),
        })
    }
}

/// The words of the name of a source.
pub(super) fn slug_words(reference: &str) -> Vec<String> {
    token_words(&stem(reference).replace(['-', '_', '.', '/'], " "))
}

/// The number of a scene by its name: of `scene-N`, else the only number.
pub(super) fn scene_number(slug: &[String]) -> Option<usize> {
    let number = |word: &String| word.parse::<usize>().ok();
    let after = slug.windows(2).find_map(|pair| match pair {
        [word, next] if word == "scene" => number(next),
        _ => None,
    });
    let mut numbers = slug.iter().filter_map(number);
    after.or_else(|| match (numbers.next(), numbers.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    })
}

/// Whether some words stand in others, one after the other.
pub(super) fn contains_run(words: &[String], run: &[String]) -> bool {
    !run.is_empty() && words.windows(run.len()).any(|window| window == run)
}

/// The match of a scene with an outline as an answer shows it.
pub(super) fn shown_match(outline: Option<&Outline>, scene: &Source) -> Value {
    let Some(outline) = outline else { return Value::Null };
    match outline.match_scene(scene) {
        Some((beat, basis)) => json!({ "beat": beat.brief(), "basis": basis, "candidates": [] }),
        None => {
            let all: Vec<Value> = outline.beats.iter().map(Beat::brief).collect();
            json!({ "beat": null, "basis": null, "candidates": all })
        }
    }
}

/// The scenes of a project that can be read, in reading order.
pub(super) fn scenes(library: &mut Library<'_>) -> Vec<Arc<Source>> {
    let entries = library.of_role(Role::Scene);
    entries.iter().filter_map(|entry| library.read(entry).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_taken_apart() {
        for (heading, title, number, pov) in [
            ("Scene 1: Harbour at Dawn (POV: Mira)", "Harbour at Dawn", Some(1), Some("Mira")),
            (
                "Chapter 12 — The Crossing [POV Tomas Vale]",
                "The Crossing",
                Some(12),
                Some("Tomas Vale"),
            ),
            ("Scene 3", "Scene 3", Some(3), None),
            ("The Scene", "The Scene", None, None),
        ] {
            let parts = TitleParts::of(heading);
            let found = (parts.title.as_str(), parts.number, parts.pov.as_deref());
            assert_eq!(found, (title, number, pov), "{heading}");
        }
    }

    #[test]
    fn a_scene_has_one_number() {
        for (reference, number) in [
            ("Story/Scenes/SCN-scene-2-the-crossing.md", Some(2)),
            ("SCN-01-02.md", None),
            ("scene-3-of-7.md", Some(3)),
            ("07_storm.md", Some(7)),
            ("storm.md", None),
        ] {
            assert_eq!(scene_number(&slug_words(reference)), number, "{reference}");
        }
    }
}
