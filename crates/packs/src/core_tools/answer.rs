//! Builds the answer of a core tool: its type, its fields, the sources with their hashes, and what
//! was left out to stay within the bound.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolgate_runtime::port::{Fault, Output};

use super::sources::{Library, Source};

/// Most characters of an answer's data.
const ANSWER_CHARS_MAX: usize = 24_000;

/// An answer that is being put together.
pub(super) struct Answer {
    kind: &'static str,
    fields: Map<String, Value>,
    sources: Vec<Value>,
    left_out: BTreeMap<String, usize>,
    warnings: Vec<String>,
}

impl Answer {
    /// An answer of a tool.
    pub(super) fn new(kind: &'static str) -> Self {
        let (fields, sources) = (Map::new(), Vec::new());
        Self { kind, fields, sources, left_out: BTreeMap::new(), warnings: Vec::new() }
    }

    /// Sets a field.
    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) -> Result<(), Fault> {
        let value = serde_json::to_value(value)
            .map_err(|error| Fault::failed(format!("The answer is not JSON: {error}.")))?;
        self.fields.insert(name.to_owned(), value);
        Ok(())
    }

    /// Sets a list of at most `max` items and counts what is left out.
    pub(super) fn list<T: Serialize>(
        &mut self,
        name: &str,
        mut items: Vec<T>,
        max: usize,
    ) -> Result<(), Fault> {
        self.leave_out(name, items.len().saturating_sub(max));
        items.truncate(max);
        self.set(name, &items)
    }

    /// Counts items of a field that are not shown.
    pub(super) fn leave_out(&mut self, name: &str, count: usize) {
        if count > 0 {
            *self.left_out.entry(name.to_owned()).or_default() += count;
        }
    }

    /// Names a source the answer was made from.
    pub(super) fn source(&mut self, source: &Source) {
        self.shown_source(source.shown());
    }

    /// Names something else the answer was made from, as it is shown.
    pub(super) fn shown_source(&mut self, shown: Value) {
        if !self.sources.contains(&shown) {
            self.sources.push(shown);
        }
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// The answer within its bound.
    pub(super) fn finish(self, message: impl Into<String>) -> Result<Output, Fault> {
        let mut data = Map::new();
        data.insert("type".to_owned(), self.kind.into());
        data.extend(self.fields);
        data.insert("sources".to_owned(), Value::Array(self.sources));
        data.insert("left_out".to_owned(), json!(self.left_out));
        let mut data = Value::Object(data);
        shrink(&mut data);
        let mut output = Output::data(message, &data)?;
        output.warnings = self.warnings;
        Ok(output)
    }
}

/// What a call would read. No text is read for it.
pub(super) fn dry_run(
    kind: &'static str,
    library: &Library<'_>,
    named: &[(&str, &str)],
    also: &[super::sources::SourceEntry],
) -> Result<Output, Fault> {
    let (mut would_read, mut bytes, mut seen) = (Vec::new(), 0_u64, Vec::new());
    let mut add = |reference: &str, found: bool, length: u64| {
        if !seen.contains(&reference.to_owned()) {
            seen.push(reference.to_owned());
            bytes = bytes.saturating_add(length);
            would_read.push(json!({ "source": reference, "found": found, "bytes": length }));
        }
    };
    for (field, given) in named {
        match library.find(field, given)? {
            Some(entry) => add(&entry.reference, true, entry.bytes),
            None => add(given.trim(), false, 0),
        }
    }
    for entry in also {
        add(&entry.reference, true, entry.bytes);
    }
    let mut data = json!({
        "type": kind, "dry_run": true, "would_read": would_read,
        "estimated_tokens": bytes.div_ceil(4), "sources": [], "left_out": {},
    });
    shrink(&mut data);
    Output::data("Nothing was read.", &data)
}

/// Where a list or an excerpt is in an answer.
type Place = Vec<Step>;

/// One step of a place.
#[derive(Clone)]
enum Step {
    Field(String),
    Item(usize),
}

/// Cuts lists from their ends, the largest first, then excerpts by whole lines.
fn shrink(data: &mut Value) {
    while let Some(excess) = size(data).checked_sub(ANSWER_CHARS_MAX).filter(|excess| *excess > 0) {
        let mut lists = Vec::new();
        collect_lists(data, &mut Vec::new(), &mut lists);
        // The hashes are what evidence is checked against: they go last of all.
        let (hashes, lists): (Vec<_>, Vec<_>) =
            lists.into_iter().partition(|(_, place)| is_sources(place));
        let half = |(size, place): (usize, Place)| (place, excess.min(size.div_ceil(2)));
        let cut = match lists.into_iter().max_by_key(|(size, _)| *size).map(half) {
            Some((place, excess)) => cut_list(data, &place, excess),
            None => {
                cut_excerpt(data, excess)
                    || hashes
                        .into_iter()
                        .map(half)
                        .any(|(place, excess)| cut_list(data, &place, excess))
            }
        };
        if !cut {
            return;
        }
    }
}

fn is_sources(place: &[Step]) -> bool {
    matches!(place, [Step::Field(name)] if name == "sources")
}

fn size(value: &Value) -> usize {
    value.to_string().chars().count()
}

/// Lists of more than one item that hold no such list themselves.
fn collect_lists(value: &Value, at: &mut Place, lists: &mut Vec<(usize, Place)>) -> bool {
    let mut found = false;
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                at.push(Step::Field(name.clone()));
                found |= collect_lists(value, at, lists);
                at.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                at.push(Step::Item(index));
                found |= collect_lists(value, at, lists);
                at.pop();
            }
            // Two numbers are a range of lines.
            let range = items.len() == 2 && items.iter().all(Value::is_number);
            if !found && items.len() > 1 && !range {
                lists.push((size(value), at.clone()));
                found = true;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

fn at_place<'a>(data: &'a mut Value, place: &[Step]) -> Option<&'a mut Value> {
    place.iter().try_fold(data, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Item(index) => value.get_mut(*index),
    })
}

/// Takes items from the end of a list until this much is gone or one is left.
fn cut_list(data: &mut Value, place: &[Step], excess: usize) -> bool {
    let Some(Value::Array(items)) = at_place(data, place) else { return false };
    let (mut gone, mut count) = (0, 0);
    while gone < excess && items.len() > 1 {
        gone += items.pop().map_or(0, |item| size(&item) + 1);
        count += 1;
    }
    let fields = place.iter().filter_map(|step| match step {
        Step::Field(name) => Some(name.as_str()),
        Step::Item(_) => None,
    });
    let name = fields.collect::<Vec<_>>().join(".");
    if let Some(Value::Object(left_out)) = data.get_mut("left_out") {
        let before = left_out.get(&name).and_then(Value::as_u64).unwrap_or(0);
        left_out.insert(name, json!(before + u64::try_from(count).unwrap_or(u64::MAX)));
    }
    count > 0
}

/// Shortens the longest excerpt by lines, or its only line by half.
fn cut_excerpt(data: &mut Value, excess: usize) -> bool {
    let mut excerpts = Vec::new();
    collect_excerpts(data, &mut Vec::new(), &mut excerpts);
    let Some((_, place)) = excerpts.into_iter().max_by_key(|(size, _)| *size) else { return false };
    let Some(Value::Object(excerpt)) = at_place(data, &place) else { return false };
    let Some(Value::String(text)) = excerpt.get_mut("text") else { return false };
    let (mut gone, mut lines) = (0, 0_u64);
    while gone < excess {
        let Some((head, tail)) = text.rsplit_once('\n') else { break };
        gone += tail.chars().count() + 2;
        lines += 1;
        *text = head.to_owned();
    }
    if lines == 0 {
        let half = text.chars().count() / 2;
        *text = super::text::cut_between_tokens(text, half).to_owned();
    }
    excerpt.insert("cut".to_owned(), Value::Bool(true));
    if let Some(last) = excerpt.get_mut("lines").and_then(|lines| lines.get_mut(1)) {
        *last = json!(last.as_u64().unwrap_or(0).saturating_sub(lines));
    }
    true
}

fn collect_excerpts(value: &Value, at: &mut Place, excerpts: &mut Vec<(usize, Place)>) {
    match value {
        Value::Object(map) => {
            let text = map.get("text").and_then(Value::as_str).filter(|text| text.len() > 80);
            if map.contains_key("total_lines")
                && let Some(text) = text
            {
                excerpts.push((text.chars().count(), at.clone()));
            }
            for (name, value) in map {
                at.push(Step::Field(name.clone()));
                collect_excerpts(value, at, excerpts);
                at.pop();
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                at.push(Step::Item(index));
                collect_excerpts(value, at, excerpts);
                at.pop();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_cut_before_excerpts() {
        let lines: Vec<String> = (1..=300).map(|n| format!("{n}: {}", "word ".repeat(8))).collect();
        let excerpt = json!({ "lines": [1, 300], "total_lines": 300, "text": lines.join("\n"), "cut": false });
        let quotes: Vec<Value> =
            (0..200).map(|n| json!({ "n": n, "text": "x".repeat(90) })).collect();
        let mut answer = Answer::new("probe");
        answer.set("excerpt", &excerpt).unwrap();
        answer.set("groups", &json!([{ "quotes": quotes }])).unwrap();
        let data = answer.finish("").unwrap().data;
        assert!(size(&data) <= ANSWER_CHARS_MAX);
        assert_eq!(data["excerpt"], excerpt, "the excerpt had room");
        let shown = data["groups"][0]["quotes"].as_array().unwrap().len();
        assert_eq!(data["left_out"], json!({ "groups.quotes": 200 - shown }));
        let mut answer = Answer::new("probe");
        let long = json!({ "lines": [1, 600], "total_lines": 600, "text": format!("{0}\n{0}", lines.join("\n")), "cut": false });
        answer.set("excerpt", &long).unwrap();
        let data = answer.finish("").unwrap().data;
        assert!(size(&data) <= ANSWER_CHARS_MAX && data["excerpt"]["cut"] == true);
        let shown = data["excerpt"]["text"].as_str().unwrap().lines().count();
        assert_eq!(data["excerpt"]["lines"], json!([1, shown]));
    }
}
