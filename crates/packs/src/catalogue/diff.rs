//! Shows how two versions of a prompt tool differ, field by field.

use serde::Serialize;

use super::prompt_tool::{FIELDS, PromptTool};

/// A field that is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The field.
    pub field: &'static str,
    /// What it was; empty where there was no tool.
    pub before: String,
    /// What it is; empty where the tool is gone.
    pub after: String,
}

/// Every field that differs, in their order.
pub fn field_diff(before: Option<&PromptTool>, after: Option<&PromptTool>) -> Vec<FieldChange> {
    let text = |tool: Option<&PromptTool>, field| {
        tool.map(|tool| tool.field(field)).unwrap_or_default().to_owned()
    };
    let change = |field: &&'static str| {
        let (before, after) = (text(before, field), text(after, field));
        (before != after).then_some(FieldChange { field, before, after })
    };
    FIELDS.iter().filter_map(change).collect()
}

/// The difference in lines: `-` before what was, `+` before what is.
pub fn diff_lines(changes: &[FieldChange]) -> Vec<String> {
    let mut lines = Vec::new();
    for FieldChange { field, before, after } in changes {
        lines.push(format!("  {field}:"));
        lines.extend(signed('-', before));
        lines.extend(signed('+', after));
    }
    if lines.is_empty() {
        lines.push("  (nothing)".to_owned());
    }
    lines
}

fn signed(sign: char, text: &str) -> impl Iterator<Item = String> {
    text.lines().map(move |line| format!("    {sign} {line}"))
}
