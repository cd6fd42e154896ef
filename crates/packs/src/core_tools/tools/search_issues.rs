//! `search_issues`: finds issues; every filter that is given must hold.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::Answer;
use super::super::{Setup, core_tool};
use crate::issues::{Issue, IssuePriority, IssueQuery, StatusFilter, all_issues};
use crate::text::counted;

const NAME: &str = "search_issues";

/// Issues in one answer when the call does not say.
const LIMIT: u16 = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Params {
    /// Tags an issue must all have, in any case.
    #[schemars(length(max = 20), inner(length(min = 1, max = 400)))]
    tags: Option<Vec<String>>,
    /// The agent or person it is assigned to.
    #[schemars(length(min = 1, max = 400))]
    assigned_to: Option<String>,
    /// Where it stands; open when left out.
    status: Option<StatusFilter>,
    /// How soon it is needed.
    priority: Option<IssuePriority>,
    /// Tags the agent of `personalAgent` gave it for itself.
    #[schemars(length(max = 20), inner(length(min = 1, max = 400)))]
    personal_tags: Option<Vec<String>>,
    /// Whose personal tags and interest count; the agent of this session when left out.
    #[schemars(length(min = 1, max = 400))]
    personal_agent: Option<String>,
    /// Personal tags it must not have.
    #[schemars(length(max = 20), inner(length(min = 1, max = 400)))]
    exclude_personal_tags: Option<Vec<String>>,
    /// The least interest that agent noted.
    #[schemars(range(min = 1, max = 5))]
    min_interest_level: Option<u8>,
    /// Words that must all stand in title, body or comments.
    #[schemars(length(min = 1, max = 400))]
    text: Option<String>,
    /// Most issues in the answer; 20 when left out.
    #[schemars(range(min = 1, max = 50))]
    limit: Option<u16>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Finds issues by tags, assignee, status, priority, personal notes and words. All filters must hold. \
        Shows open issues unless `status` says otherwise.";
    core_tool(setup, SpecDraft::new(NAME, about).alias("issue_search"), run)
}

fn run(_: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let agent =
        params.personal_agent.or_else(|| tx.session().agent.as_ref().map(ToString::to_string));
    let given = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    let personal = [
        ("personalTags", given(&params.personal_tags)),
        ("excludePersonalTags", given(&params.exclude_personal_tags)),
        ("minInterestLevel", params.min_interest_level.is_some()),
    ];
    if let (None, Some((field, _))) = (&agent, personal.iter().find(|(_, given)| *given)) {
        let message = format!(
            "{field}: this session speaks as no agent, so it has no personal notes; name one in personalAgent."
        );
        return Err(Fault::invalid(message).at(field));
    }
    let query = IssueQuery {
        tags: params.tags.unwrap_or_default(),
        assigned_to: params.assigned_to,
        status: params.status.unwrap_or_default(),
        priority: params.priority,
        personal_agent: agent,
        personal_tags: params.personal_tags.unwrap_or_default(),
        exclude_personal_tags: params.exclude_personal_tags.unwrap_or_default(),
        min_interest: params.min_interest_level,
        text: params.text,
    };
    let issues =
        all_issues(&tx.project().state).map_err(|error| Fault::failed(format!("{error}.")))?;
    let found = query.run(issues);
    let total = found.len();
    let limit = usize::from(params.limit.unwrap_or(LIMIT));
    let mut answer = Answer::new(NAME);
    found.iter().take(limit).for_each(|issue| answer.shown_source(issue_source(issue)));
    answer.list("issues", found.iter().map(shown).collect(), limit)?;
    answer.set("total", &total)?;
    answer.finish(format!("{}.", counted(total, "issue")))
}

/// An issue as answers list it.
pub(super) fn shown(issue: &Issue) -> Value {
    json!({
        "id": issue.id, "title": issue.title, "status": issue.status, "priority": issue.priority,
        "assignedTo": issue.assigned_to, "tags": issue.tags, "comments": issue.comments.len(),
        "updatedAt": issue.updated_at,
    })
}

/// An issue as the `sources` of an answer have it; the hash covers everything of it.
pub(super) fn issue_source(issue: &Issue) -> Value {
    let sha256 = serde_json::to_value(issue).ok().map(|json| Digest::of_json(&json));
    json!({
        "source": format!("#{}", issue.id), "role": "issue", "lines": issue.body.lines().count(),
        "sha256": sha256,
    })
}
