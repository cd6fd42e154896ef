//! Decides which tools of a server there are: those whose definition can be used, is not suspicious,
//! and is the one that was seen first or that a person accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::names::{ServerName, ToolName};
use toolgate_kernel::pin::{Definition, Pinned, Pins, Ruling, Standing};
use toolgate_kernel::tool::{Effect, SpecDraft, ToolSpec};

use crate::client::{Found, Listed};
use crate::scan::{Scanned, scan};

/// What a person wrote down about a server's tools. The server has no say in it.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// What its tools do; `external` for those that are not named.
    pub effects: BTreeMap<String, Effect>,
    /// Whether its tools are shown by their own names, where those are free.
    pub short_names: bool,
    /// Whether a phase that uses it must not begin without it.
    pub required: bool,
}

/// What comes of a server's list.
#[derive(Default)]
pub(crate) struct Offer {
    /// The tools there are, with what the server calls them.
    pub(crate) tools: Vec<(Arc<ToolSpec>, String)>,
    /// What is to be written down about definitions that are new.
    pub(crate) pinned: Vec<Pinned>,
    /// What is left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Looks at a server's list. `taken` are the names that others have.
pub(crate) fn offer(
    server: &ServerName,
    listed: &Listed,
    terms: &Terms,
    pins: &Pins,
    taken: &BTreeSet<String>,
) -> Offer {
    let mut offer = Offer::default();
    let left_out = |what: &str| format!("MCP server {server}: {what}");
    offer.notes.extend(listed.unreadable.iter().map(|why| left_out(why)));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for found in &listed.tools {
        *counts.entry(&found.name).or_default() += 1;
    }
    for found in &listed.tools {
        let name = match ToolName::remote(server, &found.name) {
            Ok(name) => name,
            Err(refusal) => {
                offer.notes.push(left_out(&format!("a tool is left out: {refusal}")));
                continue;
            }
        };
        if counts.get(found.name.as_str()).is_some_and(|count| *count > 1) {
            let note = format!("{name} is left out: its server has two tools of this name");
            if !offer.notes.contains(&note) {
                offer.notes.push(note);
            }
            continue;
        }
        match believed(found, &name, pins, taken) {
            Belief::Yes(definition, pinned) => {
                offer.pinned.extend(pinned.map(|pinned| *pinned));
                match spec(&name, &definition, terms, taken) {
                    Ok(spec) => offer.tools.push((Arc::new(spec), found.name.clone())),
                    Err(why) => offer.notes.push(format!("{name} is left out: {why}")),
                }
            }
            Belief::Held(why, pinned) => {
                offer.pinned.extend(pinned.map(|pinned| *pinned));
                offer.notes.push(format!(
                    "{name} is held: {why}. Look at it: `toolgate mcp pins diff {name}`"
                ));
            }
            Belief::No(why) => offer.notes.push(format!("{name} is left out: {why}")),
        }
    }
    offer
}

/// Whether a definition is believed.
enum Belief {
    /// It is; with what is to be written down.
    Yes(Box<Definition>, Option<Box<Pinned>>),
    /// A person has to look at it, because of this.
    Held(String, Option<Box<Pinned>>),
    /// It is not, because of this.
    No(String),
}

fn believed(found: &Found, name: &ToolName, pins: &Pins, taken: &BTreeSet<String>) -> Belief {
    let definition = Definition {
        title: found.title.clone(),
        about: found.about.clone().unwrap_or_default(),
        input: found.input.clone(),
        output: found.output.clone(),
        annotations: found.annotations.clone(),
    };
    let mut why = match scan(&found.name, &definition, taken) {
        Scanned::Excluded(why) => return Belief::No(why),
        Scanned::Flagged(why) => why,
        Scanned::Clean => Vec::new(),
    };
    let held = |definition: Definition, why: Vec<String>| {
        let (told, tool, ruling) = (why.join("; "), name.clone(), Ruling::Quarantined);
        Belief::Held(told, Some(Box::new(Pinned { tool, ruling, definition, why })))
    };
    match pins.standing(name, &definition) {
        Standing::Live => Belief::Yes(Box::new(definition), None),
        Standing::New if why.is_empty() => {
            let (tool, ruling) = (name.clone(), Ruling::FirstSeen);
            let first = Pinned { tool, ruling, definition: definition.clone(), why };
            Belief::Yes(Box::new(definition), Some(Box::new(first)))
        }
        Standing::New => held(definition, why),
        Standing::Changed => {
            why.insert(0, "it is not what it was".to_owned());
            held(definition, why)
        }
        Standing::Held => {
            let known = pins.get(name).and_then(|pin| pin.held.as_ref());
            Belief::Held(known.map(|(_, why)| why.join("; ")).unwrap_or_default(), None)
        }
        Standing::Rejected => Belief::No("a person rejected it".to_owned()),
    }
}

/// A tool as its definition has it.
pub(crate) fn spec(
    name: &ToolName,
    definition: &Definition,
    terms: &Terms,
    taken: &BTreeSet<String>,
) -> Result<ToolSpec, String> {
    let own = name.of_server().map_or(name.as_str(), |(_, tool)| tool);
    let title = definition.title.as_deref().filter(|title| !title.trim().is_empty());
    let about = Some(definition.about.as_str()).filter(|about| !about.trim().is_empty());
    let about = about.or(title).unwrap_or(own);
    let effect = terms.effects.get(own).copied().unwrap_or(Effect::External);
    let mut draft = SpecDraft::of_server(name.clone(), about)
        .params_schema(definition.input.clone())
        .returns_schema(definition.output.clone().unwrap_or(Value::Bool(true)))
        .effect(effect);
    // A name that reads like a tool of some server's is nobody's short name.
    let free = !own.starts_with("mcp__") && !taken.contains(own);
    if terms.short_names && ToolName::own(own).is_ok() && free {
        draft = draft.shown_as(own);
    }
    draft.build().map_err(|refusal| {
        let mut told = refusal.to_string();
        let mut source = std::error::Error::source(&refusal);
        while let Some(inner) = source {
            told = format!("{told}: {inner}");
            source = inner.source();
        }
        told
    })
}
