//! Decides what of a tool's definition keeps it out, and what a person must look at first. It reads
//! and nothing else: no reference is followed, no file opened, nobody asked.

mod header;
mod schema;

use std::collections::BTreeSet;

use serde_json::Value;
use toolgate_kernel::bounded::bounded_text;
use toolgate_kernel::pin::Definition;
use toolgate_kernel::prompt_text::suspicious_words;
use toolgate_kernel::reserved::person_only_act;

/// Bytes of a description.
pub const ABOUT_BYTES_MAX: usize = 4 << 10;
/// Bytes of a title, and of annotations.
pub const ASIDE_BYTES_MAX: usize = 4 << 10;
/// Bytes of a schema.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Levels of a schema.
pub const SCHEMA_DEPTH_MAX: usize = 32;

/// What came of looking at a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned {
    /// It cannot be used; nobody can change that but its server.
    Excluded(String),
    /// It is shown to no model before a person accepted these very words.
    Flagged(Vec<String>),
    /// Nothing speaks against it.
    Clean,
}

/// Looks at a tool's definition. `others` are the names of tools that others have: a definition
/// that names one of them wants to change what that one does.
pub fn scan(name: &str, definition: &Definition, others: &BTreeSet<String>) -> Scanned {
    /// Bytes of a reason, which may quote the definition.
    const REASON_BYTES_MAX: u64 = 500;
    let cut = |why: String| bounded_text(&why, REASON_BYTES_MAX).into_owned();
    match looked_at(name, definition, others) {
        Scanned::Excluded(why) => Scanned::Excluded(cut(why)),
        Scanned::Flagged(why) => Scanned::Flagged(why.into_iter().map(cut).collect()),
        Scanned::Clean => Scanned::Clean,
    }
}

fn looked_at(name: &str, definition: &Definition, others: &BTreeSet<String>) -> Scanned {
    if let Some(act) = person_only_act(name) {
        let why = format!("its name is reserved: `{act}` is for a person alone, never for a tool");
        return Scanned::Excluded(why);
    }
    if definition.about.len() > ABOUT_BYTES_MAX {
        let why = format!("its description has more than {ABOUT_BYTES_MAX} bytes");
        return Scanned::Excluded(why);
    }
    // It stands for a lone surrogate too, and then a pattern or a choice means something else.
    let schemas = [Some(&definition.input), definition.output.as_ref()];
    if schemas.into_iter().flatten().any(|schema| schema.to_string().contains('\u{fffd}')) {
        let why = "its schema has a character that cannot be read (U+FFFD)";
        return Scanned::Excluded(why.to_owned());
    }
    let input = schema::check_input(&definition.input)
        .and_then(|shape| header::check(&definition.input).map(|()| shape));
    let input = match input {
        Ok(shape) => shape,
        Err(why) => return Scanned::Excluded(format!("its input schema {why}")),
    };
    if let Some(Err(why)) = definition.output.as_ref().map(schema::check) {
        return Scanned::Excluded(format!("its output schema {why}"));
    }
    for (what, value) in [
        ("its title", definition.title.as_deref().map_or(0, str::len)),
        ("its list of annotations", definition.annotations.to_string().len()),
    ] {
        if value > ASIDE_BYTES_MAX {
            let why = format!("{what} has {value} bytes; at most {ASIDE_BYTES_MAX} are taken");
            return Scanned::Excluded(why);
        }
    }
    let mut why = Vec::new();
    let mut look = |place: &str, text: &str| {
        for found in suspicious_words(text, name, others) {
            let told = format!("{place} {found}");
            if !why.contains(&told) {
                why.push(told);
            }
        }
    };
    look("its description", &definition.about);
    look("its name", name);
    look("its title", definition.title.as_deref().unwrap_or_default());
    each_text(&definition.input, &mut |text| look("its input schema", text));
    each_text(&definition.annotations, &mut |text| look("its annotations", text));
    if let Some(output) = &definition.output {
        each_text(output, &mut |text| look("its output schema", text));
    }
    why.extend(schema::open(&input));
    why.extend(schema::curious(&definition.input));
    if why.is_empty() { Scanned::Clean } else { Scanned::Flagged(why) }
}

/// Every text in a value, the names of its fields too.
fn each_text(value: &Value, look: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => look(text),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, look)),
        Value::Object(fields) => {
            for (name, field) in fields {
                look(name);
                each_text(field, look);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(name: &str, definition: &Definition) -> Option<String> {
        match scan(name, definition, &BTreeSet::new()) {
            Scanned::Excluded(why) => Some(why),
            Scanned::Flagged(_) | Scanned::Clean => None,
        }
    }

    fn definition() -> Definition {
        Definition {
            title: None,
            about: "Looks.".to_owned(),
            input: serde_json::json!({"type": "object", "additionalProperties": false}),
            output: None,
            annotations: Value::Null,
        }
    }

    #[test]
    fn a_tool_with_the_name_of_a_persons_act_is_left_out() {
        for name in ["facts_commit", "Facts.Commit", "approve", "approvals-list", "TRUST"] {
            let why = excluded(name, &definition()).unwrap_or_default();
            assert!(why.contains("its name is reserved"), "{name}: {why}");
        }
        assert_eq!(excluded("approve_pull_request", &definition()), None);
    }

    #[test]
    fn titles_and_annotations_are_bounded() {
        let long = "x".repeat(ASIDE_BYTES_MAX + 1);
        let titled = Definition { title: Some(long.clone()), ..definition() };
        assert!(excluded("look", &titled).unwrap_or_default().contains("its title has"));
        let annotated = Definition { annotations: Value::String(long), ..definition() };
        assert!(
            excluded("look", &annotated)
                .unwrap_or_default()
                .contains("its list of annotations has")
        );
    }
}
