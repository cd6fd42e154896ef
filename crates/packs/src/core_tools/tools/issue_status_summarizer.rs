//! `issue_status_summarizer`: what is open, what waits for a decision, and what was done last.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::tool::{SpecDraft, SpecRefusal};
use toolgate_runtime::Transaction;
use toolgate_runtime::port::{Fault, Output, Tool};

use super::super::answer::Answer;
use super::super::receipts::{ReceiptScope, RecentReceipt, recent, sources};
use super::super::{Setup, core_tool};
use super::search_issues::{issue_source, shown};
use crate::issues::{Issue, IssueStatus, all_issues};

const NAME: &str = "issue_status_summarizer";

/// Most issues that are shown.
const ACTIVE_MAX: usize = 20;

/// Most receipts that are shown.
const RECEIPTS_MAX: usize = 5;

/// Most refs that are listed.
const FILES_MAX: usize = 30;

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// Only says what would be read.
    dry_run: Option<bool>,
}

pub(super) fn tool(setup: &Arc<Setup>) -> Result<Arc<dyn Tool>, SpecRefusal> {
    let about = "Says how many issues are open, waiting and closed, shows the active ones, which decisions wait, and \
        the last calls of this session with their sources.";
    core_tool(setup, SpecDraft::new(NAME, about).alias("issue_summary"), run)
}

fn run(_: &Setup, tx: &Transaction, params: Params) -> Result<Output, Fault> {
    let issues =
        all_issues(&tx.project().state).map_err(|error| Fault::failed(format!("{error}.")))?;
    if params.dry_run.unwrap_or_default() {
        let bytes: usize = issues.iter().map(|issue| issue.body.len()).sum();
        let entry = json!({ "source": "issues", "found": !issues.is_empty(), "bytes": bytes });
        let data = json!({
            "type": NAME, "dry_run": true, "would_read": [entry],
            "estimated_tokens": bytes.div_ceil(4), "sources": [], "left_out": {},
        });
        return Output::data("Nothing was read.", &data);
    }
    let count = |status| issues.iter().filter(|issue| issue.status == status).count();
    let counts = json!({
        "open": count(IssueStatus::Open), "waiting": count(IssueStatus::WaitingOnUser),
        "closed": count(IssueStatus::Closed),
    });
    let mut active: Vec<&Issue> =
        issues.iter().filter(|issue| issue.status != IssueStatus::Closed).collect();
    active.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then(b.id.cmp(&a.id)));
    let waiting = active.iter().filter(|issue| issue.status == IssueStatus::WaitingOnUser);
    let waiting: Vec<Value> =
        waiting.map(|issue| json!({ "id": issue.id, "title": issue.title })).collect();
    let (scope, receipts) = recent(tx, RECEIPTS_MAX);
    let mut files: Vec<String> = Vec::new();
    for reference in receipts.iter().flat_map(|receipt| sources(&receipt.envelope)) {
        if !files.contains(&reference) {
            files.push(reference);
        }
    }
    let mut answer = Answer::new(NAME);
    active.iter().take(ACTIVE_MAX).for_each(|issue| answer.shown_source(issue_source(issue)));
    answer.set("counts", &counts)?;
    answer.list("active_issues", active.iter().map(|issue| shown(issue)).collect(), ACTIVE_MAX)?;
    answer.list("decisions_waiting", waiting, ACTIVE_MAX)?;
    answer.set("recent_activity", &receipts.iter().map(activity).collect::<Vec<_>>())?;
    answer.set("activity_scope", &scope.as_str())?;
    answer.list("files_touched", files, FILES_MAX)?;
    let note = match (receipts.is_empty(), scope) {
        (true, ReceiptScope::Session) => Some("This session has no settled call yet."),
        (true, ReceiptScope::Iteration) => Some("This iteration has no settled call yet."),
        (false, _) => None,
    };
    answer.set("note", &note)?;
    answer.finish(format!(
        "open {}, waiting {}, closed {}.",
        count(IssueStatus::Open),
        count(IssueStatus::WaitingOnUser),
        count(IssueStatus::Closed)
    ))
}

fn activity(receipt: &RecentReceipt) -> Value {
    let envelope = &receipt.envelope;
    json!({
        "receipt": envelope.receipt, "tool": envelope.tool, "ok": envelope.ok, "agent": receipt.agent,
        "time": receipt.at.map(|at| at.to_string()), "sources": sources(envelope),
        "error": envelope.code(),
    })
}
