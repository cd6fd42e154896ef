//! `task_router`: says which roles a request belongs to, by the words of the request.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::{Answer, dry_run};
use super::super::outline::{scene_number, slug_words};
use super::super::sources::{Library, Role, SourceEntry};
use super::super::text::Text;
use super::super::word_lists::WordLists;
use super::super::{Setup, core_tool};

const NAME: &str = "task_router";

/// Tokens below which a request that no word routes is asked about.
const TOKENS_MIN: usize = 4;

/// Most sources that are named as context.
const CONTEXT_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// What the person asks for, in their words.
    #[schemars(length(min = 1, max = 8_000))]
    user_request: String,
    /// Only says what would be read.
    dry_run: Option<bool>,
}

/// The roles, in the order in which they work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum RouteRole {
    Planner,
    Writer,
    Editor,
    Continuity,
    Critic,
    Chief,
}

impl RouteRole {
    const ALL: [Self; 6] =
        [Self::Planner, Self::Writer, Self::Editor, Self::Continuity, Self::Critic, Self::Chief];

    fn as_str(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Writer => "writer",
            Self::Editor => "editor",
            Self::Continuity => "continuity",
            Self::Critic => "critic",
            Self::Chief => "chief",
        }
    }

    fn words(self, lists: &WordLists) -> &[String] {
        match self {
            Self::Planner => &lists.roles.planner,
            Self::Writer => &lists.roles.writer,
            Self::Editor => &lists.roles.editor,
            Self::Continuity => &lists.roles.continuity,
            Self::Critic => &lists.roles.critic,
            Self::Chief => &lists.roles.chief,
        }
    }

    /// The core tools that serve it.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Planner => &["outline_analyzer", "stakes_mapper"],
            Self::Writer => &["beat_architect", "scene_draft_validator"],
            Self::Editor => &["prose_analyzer", "line_editor"],
            Self::Continuity => &["canon_checker", "consistency_checker", "timeline_validator"],
            Self::Critic => &["scene_impact_analyzer", "reader_experience_simulator"],
            Self::Chief => &["issue_status_summarizer", "search_issues"],
        }
    }
}

#[derive(Serialize)]
struct MatchedWord {
    word: String,
    role: RouteRole,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Says which roles a request belongs to, in which order, with which sources and tools. It decides by \
        words alone and starts nothing.";
    core_tool(setup, SpecDraft::new(NAME, about), run)
}

fn run(setup: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let mut library = Library::open(tx, setup);
    if params.dry_run.unwrap_or_default() {
        return dry_run(NAME, &library, &[], &library.of_role(Role::Canon));
    }
    let mut answer = Answer::new(NAME);
    let lists = setup.lists_or_warn(&mut answer);
    let request = Text::new(params.user_request, 1, lists);
    let words: Vec<&str> = request.tokens.iter().map(|token| token.norm.as_str()).collect();
    let matched = lists.map(|lists| matched(&words, lists)).unwrap_or_default();
    let wanted = route(&matched);
    let mut fallback = wanted
        .is_empty()
        .then(|| json!({ "reason": "no word of the request belongs to a role", "roles": [] }));
    let clarify = wanted.is_empty() && words.len() < TOKENS_MIN;
    // A role that no agent of the project has is the chief's to place.
    let present = |role: &RouteRole| match &setup.archetypes {
        Some(archetypes) => {
            *role == RouteRole::Chief || archetypes.iter().any(|own| own == role.as_str())
        }
        None => true,
    };
    let absent: Vec<RouteRole> = wanted.iter().copied().filter(|role| !present(role)).collect();
    if !absent.is_empty() {
        fallback = Some(
            json!({ "reason": "no agent of the project has this archetype", "roles": absent }),
        );
    }
    let mut roles: Vec<RouteRole> = wanted.iter().copied().filter(present).collect();
    if roles.len() < wanted.len() || wanted.is_empty() {
        roles.push(RouteRole::Chief);
    }
    roles.sort_unstable();
    roles.dedup();
    let reviews = [RouteRole::Continuity, RouteRole::Critic];
    let parallel = reviews.iter().all(|role| roles.contains(role));
    let mut order: Vec<Vec<RouteRole>> = Vec::new();
    for role in &roles {
        match order.last_mut() {
            Some(stage) if parallel && *role == RouteRole::Critic => stage.push(*role),
            _ => order.push(vec![*role]),
        }
    }
    let (context, unresolved) = context(&mut library, &request, lists)?;
    let needs_locator = context.is_empty() || !unresolved.is_empty();
    let mut tools: Vec<&str> = Vec::new();
    tools.extend(needs_locator.then_some("file_locator"));
    roles.iter().for_each(|role| tools.extend(role.tools()));
    let has = |words_of: fn(&WordLists) -> &std::collections::BTreeSet<String>| {
        lists.is_some_and(|lists| words.iter().any(|word| words_of(lists).contains(*word)))
    };
    let evidence = match roles.first() {
        _ if has(|lists| &lists.scope) => "SCOPE_SCAN",
        Some(RouteRole::Planner | RouteRole::Chief) => "LINE_REF",
        _ => "QUOTE",
    };
    let complexity = match (roles.len(), context.len()) {
        (1, 0 | 1) => "LOW",
        (3.., _) | (_, 5..) => "HIGH",
        _ => "MEDIUM",
    };
    let priority = match (has(|lists| &lists.priority.high), has(|lists| &lists.priority.low)) {
        (true, _) => "HIGH",
        (false, true) => "LOW",
        (false, false) => "NORMAL",
    };
    let questions: &[&str] = if clarify {
        &[
            "Which text is this about: a scene, the outline, a character, or the whole?",
            "What shall be done with it: plan, write, edit, check against canon, or judge its effect?",
        ]
    } else {
        &[]
    };
    answer.set("route", &roles)?;
    answer.set("order", &order)?;
    answer.set("parallel", &if parallel { reviews.as_slice() } else { &[] })?;
    answer.set("context", &context.iter().map(|entry| &entry.reference).collect::<Vec<_>>())?;
    answer.set("unresolved", &unresolved)?;
    answer.set("needs_file_locator", &needs_locator)?;
    answer.set("tools", &tools)?;
    answer.set("evidence_type", &evidence)?;
    answer.set("complexity", &complexity)?;
    answer.set("priority", &priority)?;
    answer.set("fallback", &fallback)?;
    answer.set("clarify", &questions)?;
    answer.set("matched", &matched)?;
    for entry in &context {
        if let Ok(source) = library.read(entry) {
            answer.source(&source);
        }
    }
    let names: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    answer.finish(match clarify {
        true => "The request is too short to route; ask first.".to_owned(),
        false => format!("Route: {}.", names.join(", ")),
    })
}

/// The words of the lists that stand in a request, each once per role.
fn matched(words: &[&str], lists: &WordLists) -> Vec<MatchedWord> {
    let mut matched: Vec<MatchedWord> = Vec::new();
    for role in RouteRole::ALL {
        for word in words {
            let Some(found) = lists.role_word(role.words(lists), word) else { continue };
            if !matched.iter().any(|it| it.role == role && it.word == found) {
                matched.push(MatchedWord { word: found.to_owned(), role });
            }
        }
    }
    matched
}

/// The roles with at least half the score of the first one.
fn route(matched: &[MatchedWord]) -> Vec<RouteRole> {
    let score = |role: RouteRole| matched.iter().filter(|it| it.role == role).count();
    let top = RouteRole::ALL.into_iter().map(score).max().unwrap_or(0);
    RouteRole::ALL.into_iter().filter(|role| score(*role) > 0 && score(*role) * 2 >= top).collect()
}

/// What a request mentions: sources that are there, and mentions that lead to none.
fn context(
    library: &mut Library<'_>,
    request: &Text,
    lists: Option<&WordLists>,
) -> Result<(Vec<SourceEntry>, Vec<String>), Fault> {
    let (mut found, mut unresolved): (Vec<SourceEntry>, Vec<String>) = (Vec::new(), Vec::new());
    let mut take = |mention: &str, entry: Option<SourceEntry>| match entry {
        Some(entry) => {
            if !found.iter().any(|it| it.reference == entry.reference) && found.len() < CONTEXT_MAX
            {
                found.push(entry);
            }
        }
        None => {
            if !unresolved.iter().any(|it| it == mention) {
                unresolved.push(mention.to_owned());
            }
        }
    };
    let words: Vec<&str> = request.tokens.iter().map(|token| token.norm.as_str()).collect();
    if words.contains(&"outline") {
        take("outline", library.default_outline());
    }
    for pair in words.windows(2) {
        if let [word, number] = pair
            && *word == "scene"
            && let Ok(number) = number.parse::<usize>()
        {
            let scenes = library.of_role(Role::Scene);
            let fits =
                |entry: &SourceEntry| scene_number(&slug_words(&entry.reference)) == Some(number);
            take(&format!("scene {number}"), scenes.into_iter().find(fits));
        }
    }
    for mention in mentioned_refs(&request.raw) {
        // A path that no tool may reach is not context; the tool that reads it refuses it.
        take(&mention, library.find("user_request", &mention).ok().flatten());
    }
    let known = library.known_names([]);
    let hits = known.names(request, lists);
    for entry in library.of_role(Role::Canon) {
        let Ok(source) = library.read(&entry) else { continue };
        let names = source.names();
        if hits.iter().any(|hit| names.iter().any(|name| hit.has(name))) {
            take(&source.reference, Some(entry));
        }
    }
    Ok((found, unresolved))
}

/// What is written like a ref: `a/b.md`, `x.txt`, `section:x`, or anything between backticks.
fn mentioned_refs(text: &str) -> Vec<String> {
    let mut refs: Vec<String> =
        text.split('`').skip(1).step_by(2).map(|it| it.trim().to_owned()).collect();
    for word in text.split_whitespace() {
        let word =
            word.trim_matches(|c: char| "`'\"“”(),;!?".contains(c)).trim_end_matches(['.', ':']);
        let ending =
            [".md", ".markdown", ".txt"].iter().any(|end| word.to_lowercase().ends_with(end));
        if ending || word.starts_with("section:") || word.starts_with("note:") {
            refs.push(word.to_owned());
        }
    }
    refs.retain(|it| !it.is_empty() && it.chars().count() <= 400);
    let mut unique: Vec<String> = Vec::new();
    for it in refs {
        if !unique.contains(&it) {
            unique.push(it);
        }
    }
    unique
}
