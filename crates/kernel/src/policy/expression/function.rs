//! The table of everything an expression may call, with the way each is written.

use super::builtin::{Function, Search};

/// One name that may be called.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) meaning: Meaning,
    /// How it is written, for messages.
    pub(super) usage: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Meaning {
    /// A function of one value.
    Apply(Function, Form),
    /// `text.startsWith(part)` and its like.
    Search(Search),
    Matches,
    Has,
    Comprehension(Macro),
}

/// On which side of the dot the value stands.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// `f(value)`.
    Global,
    /// `value.f()`.
    Member,
    Either,
}

#[derive(Clone, Copy)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Everything that may be called, in the order messages list it.
pub(super) const ENTRIES: &[Entry] = &[
    entry("size", Meaning::Apply(Function::Size, Form::Either), "size(value) or value.size()"),
    entry("words", Meaning::Apply(Function::Words, Form::Global), "words(text)"),
    entry("startsWith", Meaning::Search(Search::StartsWith), "text.startsWith('part')"),
    entry("endsWith", Meaning::Search(Search::EndsWith), "text.endsWith('part')"),
    entry("contains", Meaning::Search(Search::Contains), "text.contains('part')"),
    entry("matches", Meaning::Matches, "text.matches('pattern')"),
    entry("lowerAscii", Meaning::Apply(Function::LowerAscii, Form::Member), "text.lowerAscii()"),
    entry("upperAscii", Meaning::Apply(Function::UpperAscii, Form::Member), "text.upperAscii()"),
    entry("int", Meaning::Apply(Function::Int, Form::Global), "int(value)"),
    entry("uint", Meaning::Apply(Function::Uint, Form::Global), "uint(value)"),
    entry("double", Meaning::Apply(Function::Double, Form::Global), "double(value)"),
    entry("string", Meaning::Apply(Function::String, Form::Global), "string(value)"),
    entry("has", Meaning::Has, "has(value.field), or 'key' in value"),
    entry("all", Meaning::Comprehension(Macro::All), "list.all(item, condition)"),
    entry("exists", Meaning::Comprehension(Macro::Exists), "list.exists(item, condition)"),
    entry(
        "exists_one",
        Meaning::Comprehension(Macro::ExistsOne),
        "list.exists_one(item, condition)",
    ),
    entry("existsOne", Meaning::Comprehension(Macro::ExistsOne), "list.existsOne(item, condition)"),
    entry("filter", Meaning::Comprehension(Macro::Filter), "list.filter(item, condition)"),
    entry(
        "map",
        Meaning::Comprehension(Macro::Map),
        "list.map(item, value) or list.map(item, condition, value)",
    ),
];

const fn entry(name: &'static str, meaning: Meaning, usage: &'static str) -> Entry {
    Entry { name, meaning, usage }
}
