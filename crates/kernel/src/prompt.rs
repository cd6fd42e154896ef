//! Decides what the system prompt says: a text with words in braces, filled at the start of an iteration.

use crate::agent::Agent;
use crate::fold::World;
use crate::names::nearest;
use crate::phase::Phase;
use crate::profile;
use crate::prompt_skips::PromptSkips;
use crate::section::Toolset;

/// A prompt with its words in braces found.
///
/// `{name}` is a word, `{{` is a brace, and every other brace is text, so that JSON in a prompt
/// stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Word(String),
}

/// A word that nobody gives a meaning to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{{{name}}} is not known in a prompt{}; write {{{{ for a brace", suggest(.near))]
pub struct UnknownWord {
    /// The word.
    pub name: String,
    /// Where it stands, in bytes from the start of the text.
    pub at: usize,
    /// The nearest word there is.
    pub near: Option<String>,
}

fn suggest(near: &Option<String>) -> String {
    near.as_ref().map(|near| format!("; did you mean {{{near}}}?")).unwrap_or_default()
}

/// Longest word in braces, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// The words that every prompt may use, whatever the sections.
pub const OWN_WORDS: &[&str] = &[
    "initial_seed",
    "phase",
    "phase_desc",
    "transitions_text",
    "guide",
    "phase_rules",
    "previous_summary",
    "agent_name",
    "agent_prompt",
    "agent_reflection_prompt",
    "agent_memory_reflection_prompt",
];

impl Template {
    /// Reads a template; a word that no section and no phase gives is refused, each one.
    pub fn parse(text: &str, toolset: &Toolset) -> Result<Self, Vec<UnknownWord>> {
        let sections = toolset.variables().iter().map(|variable| variable.name);
        let known: Vec<&str> = OWN_WORDS.iter().copied().chain(sections).collect();
        let (mut parts, mut unknown, mut plain) = (Vec::new(), Vec::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            let inside = from.get(1..).unwrap_or_default();
            if let Some(after) = inside.strip_prefix('{') {
                plain.push('{');
                rest = after;
                continue;
            }
            match word(inside) {
                None => {
                    plain.push('{');
                    rest = inside;
                }
                Some((name, after)) => {
                    if !known.contains(&name) {
                        let at = text.len() - from.len();
                        let near = nearest(name, known.iter().copied()).map(str::to_owned);
                        unknown.push(UnknownWord { name: name.to_owned(), at, near });
                    }
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(Part::Word(name.to_owned()));
                    rest = after;
                }
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        if unknown.is_empty() { Ok(Self { parts }) } else { Err(unknown) }
    }

    /// Whether it uses a word.
    pub fn uses(&self, name: &str) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Word(word) if word == name))
    }

    fn fill(&self, mut meaning: impl FnMut(&str) -> String) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Word(name) => out.push_str(&meaning(name)),
            }
        }
        out
    }
}

/// The word at the start of a text that follows a brace, and what comes after its closing brace.
fn word(text: &str) -> Option<(&str, &str)> {
    let inside = |b: &u8| b.is_ascii_lowercase() || *b == b'_';
    let bytes = text.bytes().take(WORD_BYTES_MAX).take_while(inside).count();
    let (name, after) = text.split_at_checked(bytes)?;
    (bytes > 0).then_some((name, after.strip_prefix('}')?))
}

/// The system prompt of an iteration: the template, the sections' texts, what the template does not
/// say of the phase, then what is known of the project and the catalogue of its prompts.
pub fn system_prompt(agent: &Agent, world: &World<'_>, skips: &PromptSkips) -> String {
    let session = world.session;
    let phase = session.phase.as_ref().and_then(|phase| agent.phase(phase));
    let meaning = |name: &str| match name {
        "initial_seed" => session.title.to_string(),
        "previous_summary" => or_none(session.summary.to_string()),
        _ => phase
            .and_then(|phase| phase_word(phase, name))
            .or_else(|| profile::meaning(agent, world, name))
            .unwrap_or_else(|| section_word(world, name)),
    };
    let template = &agent.prompt;
    let mut parts = vec![template.fill(meaning).trim().to_owned()];
    if !skips.skip_tools {
        parts.extend(agent.toolset.texts().iter().cloned());
    }
    parts.extend(phase.map(|phase| phase_block(phase, |word| !template.uses(word))));
    let live = agent.toolset.live().iter();
    if skips.shows_grounding() {
        parts.extend(live.flat_map(|live| live.grounding(agent, world)));
    }
    parts.extend(catalogue(agent, world, skips));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// The prompts that the sections show of the tools that the phase grants; nothing where they are left
/// out, or there are none.
pub(crate) fn catalogue(agent: &Agent, world: &World<'_>, skips: &PromptSkips) -> Option<String> {
    if !skips.shows_catalogue() {
        return None;
    }
    let live = agent.toolset.live().iter();
    let shown: Vec<String> = live.flat_map(|live| live.catalogue(agent, world)).collect();
    (!shown.is_empty()).then(|| shown.join("\n\n"))
}

/// What a model is told when the phase changes inside an iteration.
pub fn phase_note(phase: &Phase) -> String {
    format!("The phase changed. {}", phase_block(phase, |_| true))
}

fn section_word(world: &World<'_>, name: &str) -> String {
    let variable = world.toolset.variables().iter().find(|variable| variable.name == name);
    variable.map(|variable| (variable.show)(world)).unwrap_or_default()
}

fn phase_word(phase: &Phase, name: &str) -> Option<String> {
    Some(match name {
        "phase" => phase.name.to_string(),
        "phase_desc" => phase.about.trim().to_owned(),
        "transitions_text" => or_none(ways(phase)),
        "guide" => phase.guide.trim().to_owned(),
        "phase_rules" => rules(phase),
        _ => return None,
    })
}

fn ways(phase: &Phase) -> String {
    let names: Vec<&str> = phase.transitions.iter().map(|to| to.to.as_str()).collect();
    names.join(", ")
}

fn or_none(text: String) -> String {
    if text.trim().is_empty() { "none".to_owned() } else { text }
}

fn rules(phase: &Phase) -> String {
    if phase.rules.is_empty() {
        return "  None".to_owned();
    }
    let rule = |(at, rule): (usize, &String)| format!("  {}. {}", at + 1, rule.trim());
    phase.rules.iter().enumerate().map(rule).collect::<Vec<_>>().join("\n")
}

/// The phase in words, without what was said elsewhere.
fn phase_block(phase: &Phase, says: impl Fn(&str) -> bool) -> String {
    let mut lines = Vec::new();
    if says("phase") {
        lines.push(format!("Phase: {}", phase.name));
    }
    for (word, text) in [("phase_desc", &phase.about), ("guide", &phase.guide)] {
        if says(word) && !text.trim().is_empty() {
            lines.push(text.trim().to_owned());
        }
    }
    if says("transitions_text") && !phase.transitions.is_empty() {
        lines.push(format!("Next phases: {}", ways(phase)));
    }
    if says("phase_rules") {
        lines.push(format!("Phase rules:\n{}", rules(phase)));
    }
    lines.join("\n")
}
