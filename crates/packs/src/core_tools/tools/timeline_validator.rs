//! `timeline_validator`: lists when things are said to be, and finds dates that do not follow.

use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::sources::{Library, Source, footprint};
use super::super::text::Quote;
use super::super::time_markers::{MarkerKind, MarkerValue, TimeMarker, time_markers};
use super::super::{Setup, core_tool};
use super::{SourceRef, texts};
use crate::text::counted;

const NAME: &str = "timeline_validator";

/// Most markers of each file, and of the timeline.
const FILE_MARKERS_MAX: usize = 30;
const TIMELINE_MAX: usize = 60;

/// Most candidates.
const CANDIDATES_MAX: usize = 30;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The sources in the order of the story, 1 to 12.
    #[schemars(length(min = 1, max = 12))]
    file_paths: Vec<SourceRef>,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// A date that may not follow from what is before it.
#[derive(Serialize)]
struct TimeCandidate {
    kind: &'static str,
    detail: String,
    /// What is before it; nothing for a weekday.
    before: Option<Quote>,
    quote: Quote,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Lists the time markers of 1 to 12 texts in order, and candidates: a date before the last one, a \
        weekday that is not the date's, a gap that is too short.";
    let draft = SpecDraft::new(NAME, about)
        .alias("timeline_check")
        .touches(|args| Ok(footprint(args, &["file_paths"])));
    core_tool(setup, draft, run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    let given = texts(&params.file_paths);
    if params.dry_run.unwrap_or_default() {
        let named: Vec<_> = given.iter().map(|path| ("file_paths", path.as_str())).collect();
        return dry_run(NAME, &library, &named, &[]);
    }
    let outcomes = library.each("file_paths", &given)?;
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let (mut files, mut timeline, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for outcome in &outcomes {
        let source = match outcome {
            Ok(source) => source,
            Err(unread) => {
                files.push(unread.shown());
                continue;
            }
        };
        answer.source(source);
        let Some(lists) = lists else {
            files.push(json!({ "source": source.reference, "markers": null }));
            continue;
        };
        let markers = time_markers(&source.text, lists);
        for marker in markers.iter().filter(|marker| marker.value == MarkerValue::Impossible) {
            let words = source.text.slice(marker.range.clone()).replace('\n', " ");
            let line = source.text.line_of(marker.range.start);
            answer.warn(format!(
                "{} L{line}: {words:?} is a date that no calendar has.",
                source.reference
            ));
        }
        answer.leave_out("files.markers", markers.len().saturating_sub(FILE_MARKERS_MAX));
        let shown: Vec<Value> = markers.iter().map(|marker| marker.shown(source)).collect();
        timeline.extend(shown.iter().cloned());
        files.push(json!({
            "source": source.reference, "title": source.title(), "count": markers.len(),
            "markers": shown.into_iter().take(FILE_MARKERS_MAX).collect::<Vec<_>>(),
        }));
        all.extend(markers.into_iter().map(|marker| (Arc::clone(source), marker)));
    }
    let found = candidates(&all);
    let (markers, count) = (all.len(), found.len());
    answer.set("files", &files)?;
    match lists {
        Some(_) => {
            answer.list("timeline", timeline, TIMELINE_MAX)?;
            answer.list("candidates", found, CANDIDATES_MAX)?;
        }
        None => {
            answer.set("timeline", &Value::Null)?;
            answer.set("candidates", &Value::Null)?;
        }
    }
    answer.finish(format!("{}, {}.", counted(markers, "time marker"), counted(count, "candidate")))
}

/// Dates that do not follow from the ones before, and weekdays that are not those of their dates.
fn candidates(markers: &[(Arc<Source>, TimeMarker)]) -> Vec<TimeCandidate> {
    let quote = |(source, marker): &(Arc<Source>, TimeMarker)| {
        source.text.quote(&source.reference, marker.range.clone())
    };
    let mut found = Vec::new();
    let mut last: Option<(Date, &(Arc<Source>, TimeMarker))> = None;
    // Days that are said to have passed since the last date.
    let mut passed = 0_i64;
    for entry in markers {
        match (&entry.1.value, entry.1.kind) {
            (MarkerValue::Days(days), MarkerKind::Relative) => passed += (*days).max(0),
            (MarkerValue::Date(date, weekday), _) => {
                let real = date.weekday().to_monday_one_offset();
                if let Some(written) = weekday.filter(|written| *written != real) {
                    let detail =
                        format!("{date} is a {}, not a {}", day_name(real), day_name(written));
                    found.push(TimeCandidate {
                        kind: "weekday_differs",
                        detail,
                        before: None,
                        quote: quote(entry),
                    });
                }
                if let Some((before, place)) = &last {
                    let due = before.checked_add(passed.days()).unwrap_or(*before);
                    let (kind, detail) = if date < before {
                        ("goes_back", format!("{date} comes after {before}"))
                    } else if *date < due {
                        (
                            "gap_short",
                            format!("{date} comes after {before} and {passed} days that passed"),
                        )
                    } else {
                        ("", String::new())
                    };
                    if !kind.is_empty() {
                        let before = Some(quote(place));
                        found.push(TimeCandidate { kind, detail, before, quote: quote(entry) });
                    }
                }
                last = Some((*date, entry));
                passed = 0;
            }
            _ => {}
        }
    }
    found
}

/// The English name of a day: the details of candidates are English whatever the texts are.
fn day_name(number: i8) -> String {
    Weekday::from_monday_one_offset(number)
        .map_or_else(|_| number.to_string(), |day| format!("{day:?}"))
}
