//! Decides which tools of a server there are: those whose definition can be used, is not suspicious,
//! and is the one that was seen first or that a person accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::config::ServerText;
use toolgate_kernel::flow::{FlowLabels, Sends};
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
    /// What is written down about the server, from which the labels of its tools follow.
    pub server: ServerText,
    /// Whether a login is kept for it.
    pub is_logged_in: bool,
}

/// Names that mean nothing new.
pub(crate) struct Names {
    /// Those that others have.
    pub(crate) taken: BTreeSet<String>,
    /// Those that tools of several servers could be shown by, and so none is.
    pub(crate) shared: BTreeSet<String>,
}

/// Names that tools of two servers with short names were ever seen by. Whoever was seen stays in the
/// log, so that a short name means one tool and never another, whoever is connected.
pub(crate) fn shared_names(terms: &BTreeMap<ServerName, Terms>, pins: &Pins) -> BTreeSet<String> {
    let short = |server: &str| {
        terms.iter().any(|(name, terms)| name.as_str() == server && terms.short_names)
    };
    pins.shared(short).into_iter().map(str::to_owned).collect()
}

/// What comes of a server's list.
#[derive(Default)]
pub(crate) struct Offer {
    /// The tools there are, each as its server describes it.
    pub(crate) tools: Vec<(Arc<ToolSpec>, Found)>,
    /// What is to be written down about definitions that are new.
    pub(crate) pinned: Vec<Pinned>,
    /// What is left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Looks at a server's list.
pub(crate) fn offer(
    server: &ServerName,
    listed: &Listed,
    terms: &Terms,
    pins: &Pins,
    names: &Names,
) -> Offer {
    let mut offer = Offer::default();
    let left_out = |what: &str| format!("MCP server {server}: {what}");
    offer.notes.extend(listed.unreadable.iter().map(|why| left_out(why)));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for found in &listed.tools {
        *counts.entry(&found.name).or_default() += 1;
    }
    let mut offered = BTreeSet::new();
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
        let believed = believed(found, &name, pins, &names.taken);
        if !matches!(believed, Belief::Unusable(_)) {
            offered.insert(name.clone());
        }
        match believed {
            Belief::Yes(definition, pinned) => {
                offer.pinned.extend(pinned.map(|pinned| *pinned));
                match spec(&name, &definition, terms, names) {
                    Ok((spec, unchecked)) => {
                        offer.notes.extend(unchecked.map(|why| unchecked_answers(&name, &why)));
                        offer.tools.push((Arc::new(spec), found.clone()));
                    }
                    Err(why) => offer.notes.push(format!("{name} is left out: {why}")),
                }
            }
            Belief::Held(why, pinned) => {
                offer.pinned.extend(pinned.map(|pinned| *pinned));
                offer.notes.push(format!(
                    "{name} is held: {why}. Look at it: `toolgate mcp pins diff {name}`"
                ));
            }
            Belief::Unusable(why) => offer.notes.push(format!("{name} is left out: {why}")),
            Belief::Rejected => offer.notes.push(format!(
                "{name} is left out: a person rejected it. To use it all the same: `toolgate mcp \
                 pins accept {name}`"
            )),
        }
    }
    offer.pinned.extend(gone(server, pins, &offered));
    offer
}

/// The tools that a server had and does not offer any more, as far as that was not written down.
fn gone(server: &ServerName, pins: &Pins, offered: &BTreeSet<ToolName>) -> Vec<Pinned> {
    let own = |name: &ToolName| name.of_server().is_some_and(|(of, _)| of == server.as_str());
    let missing =
        pins.iter().filter(|(name, pin)| own(name) && !pin.gone && !offered.contains(*name));
    let told = missing.filter_map(|(name, pin)| {
        let held = pin.held.as_ref().map(|(definition, _)| definition);
        let definition = pin.live.as_ref().or(held)?.clone();
        Some(Pinned { tool: name.clone(), ruling: Ruling::Gone, definition, why: Vec::new() })
    });
    told.collect()
}

/// Whether a definition is believed.
enum Belief {
    /// It is; with what is to be written down.
    Yes(Box<Definition>, Option<Box<Pinned>>),
    /// A person has to look at it, because of this.
    Held(String, Option<Box<Pinned>>),
    /// It cannot be, because of this.
    Unusable(String),
    /// A person rejected it.
    Rejected,
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
        Scanned::Excluded(why) => return Belief::Unusable(why),
        Scanned::Flagged(why) => why,
        Scanned::Clean => Vec::new(),
    };
    let held = |definition: Definition, why: Vec<String>| {
        let (told, tool, ruling) = (why.join("; "), name.clone(), Ruling::Quarantined);
        Belief::Held(told, Some(Box::new(Pinned { tool, ruling, definition, why })))
    };
    let known = pins.get(name);
    match pins.standing(name, &definition) {
        Standing::Live => {
            let back = known.is_some_and(|pin| !pin.is_settled()).then(|| {
                let (tool, ruling) = (name.clone(), Ruling::Returned);
                Box::new(Pinned { tool, ruling, definition: definition.clone(), why: Vec::new() })
            });
            Belief::Yes(Box::new(definition), back)
        }
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
            let told = known.and_then(|pin| pin.held.as_ref());
            let why = told.map(|(_, why)| why.clone()).unwrap_or_default();
            match known.is_some_and(|pin| pin.gone) {
                true => held(definition, why),
                false => Belief::Held(why.join("; "), None),
            }
        }
        Standing::Rejected if known.is_some_and(|pin| pin.refused.is_some()) => Belief::Rejected,
        // Another one was offered meanwhile, so that nobody would find it where it could be decided.
        Standing::Rejected => {
            why.insert(0, "a person rejected it before".to_owned());
            held(definition, why)
        }
    }
}

fn unchecked_answers(name: &ToolName, why: &str) -> String {
    format!("{name}: its answers are not checked against the schema it gives for them: {why}")
}

/// A tool as its definition has it, and why its answers cannot be checked where that is so. What it
/// takes must be checked; what it gives is its own affair.
pub(crate) fn spec(
    name: &ToolName,
    definition: &Definition,
    terms: &Terms,
    names: &Names,
) -> Result<(ToolSpec, Option<String>), String> {
    let own = name.of_server().map_or(name.as_str(), |(_, tool)| tool);
    let title = definition.title.as_deref().filter(|title| !title.trim().is_empty());
    let about = Some(definition.about.as_str()).filter(|about| !about.trim().is_empty());
    let about = about.or(title).unwrap_or(own);
    let effect = terms.effects.get(own).copied().unwrap_or(Effect::External);
    // A name that reads like a tool of some server's is nobody's short name.
    let free = !own.starts_with("mcp__") && !names.taken.contains(own);
    let free = free && !names.shared.contains(own) && ToolName::own(own).is_ok();
    let told = told_labels(definition);
    let labels = terms.server.tool_labels(own, terms.is_logged_in, &told);
    let build = |output: Value| {
        let draft = SpecDraft::of_server(name.clone(), about)
            .params_schema(definition.input.clone())
            .returns_schema(output)
            .effect(effect)
            .labels(labels.clone());
        let draft = if terms.short_names && free { draft.shown_as(own) } else { draft };
        draft.build().map_err(|refusal| chained(&refusal))
    };
    let Some(output) = definition.output.clone() else {
        return Ok((build(Value::Bool(true))?, None));
    };
    match build(output) {
        Ok(spec) => Ok((spec, None)),
        // Where it is something else that cannot be used, that is told.
        Err(why) => Ok((build(Value::Bool(true))?, Some(why))),
    }
}

/// What a server says itself of where a tool sends. It can only add something.
fn told_labels(definition: &Definition) -> FlowLabels {
    let hint = |name: &str| definition.annotations.get(name)?.as_bool();
    let is_open = hint("openWorldHint") == Some(true);
    let changes = hint("readOnlyHint") == Some(false) || hint("destructiveHint") == Some(true);
    let sends = if is_open || changes { Sends::Configured } else { Sends::No };
    FlowLabels { untrusted: is_open, sends, ..FlowLabels::default() }
}

/// A refusal with all that is behind it.
fn chained(refusal: &dyn std::error::Error) -> String {
    let mut told = refusal.to_string();
    let mut source = refusal.source();
    while let Some(inner) = source {
        told = format!("{told}: {inner}");
        source = inner.source();
    }
    told
}
