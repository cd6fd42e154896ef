//! `toolgate catalogue list`, `show`, `history` and `diff`: nothing is changed.

use anyhow::Result;
use serde_json::json;
use similar::{ChangeTag, TextDiff};
use toolgate_kernel::time::Timestamp;
use toolgate_packs::catalogue::{
    Assessment, Catalogue, CatalogueEntry, EntryStatus, FieldChange, HarnessReport, PromptOrigin,
    PromptTool, Proposal, ProposalState, ToolVersion, after, field_diff, proposal, proposals,
    versions,
};

use super::{CatalogueDesk, number, project, refused, tell_findings};
use crate::console::{self, say};
use crate::exit::Exit;
use crate::project::{Place, block_on};
use crate::prompts;
use crate::visible::exact;

pub(super) fn list(place: &Place, desk: &CatalogueDesk, json: bool) -> Result<Exit> {
    block_on(async {
        let project = project(place).await?;
        let catalogue = Catalogue::of(&desk.user.tools, &project.state)?;
        let all = proposals(&project.state)?;
        let mut findings = desk.user.findings.clone();
        findings.extend(prompts::edited_finding(place, &project)?);
        if json {
            for entry in &catalogue.entries {
                console::json(&json!({
                    "what": "tool", "locked": entry.source == PromptOrigin::Core, "tool": entry,
                }));
            }
            for proposal in &all {
                let digest = proposal.digest();
                console::json(
                    &json!({ "what": "proposal", "proposal": proposal, "digest": digest }),
                );
            }
            tell_findings(&findings, true);
            return Ok(Exit::Done);
        }
        for entry in &catalogue.entries {
            let CatalogueEntry { tool, source, status, version, .. } = entry;
            let how = match (source, status) {
                (PromptOrigin::Core, _) => "Locked (core)".to_owned(),
                (_, EntryStatus::Held) => "held until accepted".to_owned(),
                (PromptOrigin::User, EntryStatus::Live) => "your own file".to_owned(),
                (PromptOrigin::Project, EntryStatus::Live) => {
                    format!("project, version {}", version.unwrap_or(1))
                }
            };
            let line = format!("{:<32} {:<24} {how}", exact(&tool.name), tool.id);
            say(&console::fit(line.trim_end()));
        }
        let open: Vec<&Proposal> = all.iter().filter(|proposal| proposal.state.is_open()).collect();
        if !open.is_empty() {
            say("\nProposals:");
        }
        for proposal in open {
            say(&console::fit(&format!("  {}", headline(proposal))));
            say(&format!("      next: {}", next(proposal)));
        }
        if !findings.is_empty() {
            say("");
        }
        tell_findings(&findings, false);
        Ok(Exit::Done)
    })
}

fn headline(proposal: &Proposal) -> String {
    let Proposal { id, kind, tool, revision, state, author, .. } = proposal;
    let (kind, state) = (kind.as_str(), state.as_str());
    exact(&format!(
        "{id}  {kind} {} ({}), revision {revision}, {state}, by {author}",
        tool.id, tool.name
    ))
}

/// What can be done with a proposal.
fn next(proposal: &Proposal) -> String {
    let id = proposal.id;
    match proposal.state {
        ProposalState::Pending => format!("toolgate catalogue assess {id}"),
        ProposalState::Assessed => format!("toolgate catalogue show {id}"),
        ProposalState::NeedsChanges => "its author revises it".to_owned(),
        ProposalState::Approved | ProposalState::Rejected | ProposalState::Withdrawn => {
            "nothing".to_owned()
        }
    }
}

pub(super) fn show(place: &Place, desk: &CatalogueDesk, what: &str, json: bool) -> Result<Exit> {
    block_on(async {
        let project = project(place).await?;
        if let Ok(id) = number(what) {
            let proposal = match proposal(&project.state, id) {
                Ok(proposal) => proposal,
                Err(error) => return Ok(refused(error, json)),
            };
            if json {
                let digest = proposal.digest();
                let changes = field_diff(proposal.before.as_ref(), after(&proposal));
                console::json(&json!({ "proposal": proposal, "digest": digest, "diff": changes }));
            } else {
                proposal_lines(&proposal).iter().for_each(|line| say(line));
                say(&format!("\nNext: {}", next_of_shown(&proposal)));
            }
            return Ok(Exit::Done);
        }
        let catalogue = Catalogue::of(&desk.user.tools, &project.state)?;
        let Some(entry) = catalogue.find(what) else {
            let known: Vec<&str> =
                catalogue.entries.iter().map(|entry| entry.tool.id.as_str()).collect();
            anyhow::bail!("there is no prompt tool {}; there is {}", exact(what), known.join(", "));
        };
        if json {
            let locked = entry.source == PromptOrigin::Core;
            console::json(&json!({ "tool": entry, "locked": locked }));
        } else {
            tool_lines(entry).iter().for_each(|line| say(line));
        }
        Ok(Exit::Done)
    })
}

fn next_of_shown(proposal: &Proposal) -> String {
    let id = proposal.id;
    match proposal.state {
        ProposalState::Assessed => format!(
            "toolgate catalogue approve {id}, needs-changes {id} --note …, or reject {id} --note …"
        ),
        ProposalState::Pending
        | ProposalState::NeedsChanges
        | ProposalState::Approved
        | ProposalState::Rejected
        | ProposalState::Withdrawn => next(proposal),
    }
}

fn tool_lines(entry: &CatalogueEntry) -> Vec<String> {
    let CatalogueEntry { tool, source, status, digest, .. } = entry;
    let locked = if *source == PromptOrigin::Core { ", Locked (core)" } else { "" };
    let held = if *status == EntryStatus::Held { ", held" } else { "" };
    let mut lines = vec![
        exact(&format!("{} ({}), {}{locked}{held}", tool.name, tool.id, source.as_str())),
        format!("  digest {digest}"),
    ];
    lines.extend(field_lines(tool));
    lines
}

fn field_lines(tool: &PromptTool) -> Vec<String> {
    let mut lines = Vec::new();
    for field in ["archetype", "scope", "usageNotes", "goals", "guardrails", "prompt"] {
        let text = tool.field(field);
        if !text.is_empty() {
            lines.push(format!("  {field}:"));
            lines.extend(text.lines().map(|line| format!("    {}", exact(line))));
        }
    }
    lines
}

/// Everything about a proposal, hidden characters made visible: what a person decides on.
pub(super) fn proposal_lines(proposal: &Proposal) -> Vec<String> {
    let mut lines = vec![headline(proposal), format!("  digest {}", proposal.digest())];
    lines.push(format!("  why: {}", exact(&proposal.rationale)));
    for example in &proposal.examples {
        lines.push(format!("  example: {}", exact(example)));
    }
    for case in &proposal.test_cases {
        lines.push(format!("  test case {}: {}", exact(&case.name), exact(&case.input)));
    }
    lines.push("Changes:".to_owned());
    lines.extend(change_lines(&field_diff(proposal.before.as_ref(), after(proposal))));
    if let Some(assessment) = &proposal.assessment {
        lines.push("Assessment:".to_owned());
        lines.extend(Assessment::lines(assessment).iter().map(|line| format!("  {}", exact(line))));
    }
    if let Some(harness) = &proposal.harness {
        lines.extend(HarnessReport::lines(harness).iter().map(|line| exact(line)));
    }
    if !proposal.note.is_empty() {
        lines.push(format!("Last word: {}", exact(&proposal.note)));
    }
    lines
}

/// The difference of each field, line by line.
pub(super) fn change_lines(changes: &[FieldChange]) -> Vec<String> {
    let mut lines = Vec::new();
    for FieldChange { field, before, after } in changes {
        lines.push(format!("  {field}:"));
        let ended = |text: &str| if text.is_empty() { String::new() } else { format!("{text}\n") };
        let (before, after) = (ended(before), ended(after));
        let diff = TextDiff::from_lines(&before, &after);
        for change in diff.iter_all_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let text = exact(change.value().trim_end_matches('\n'));
            lines.push(format!("    {sign} {text}"));
        }
    }
    if lines.is_empty() {
        lines.push("  (nothing)".to_owned());
    }
    lines
}

pub(super) fn history(place: &Place, desk: &CatalogueDesk, id: &str, json: bool) -> Result<Exit> {
    block_on(async {
        let project = project(place).await?;
        let all = versions(&project.state, id)?;
        if all.is_empty() {
            let catalogue = Catalogue::of(&desk.user.tools, &project.state)?;
            match catalogue.find(id) {
                Some(_) => console::hint(&format!("{} was never changed here.", exact(id))),
                None => anyhow::bail!("there is no prompt tool {}", exact(id)),
            }
        }
        for version in &all {
            if json {
                console::json(version);
                continue;
            }
            let ToolVersion { version, tool, proposal, rolled_back_to, by, at } = version;
            let from = match (proposal, rolled_back_to) {
                (Some(proposal), _) => format!("proposal {proposal}"),
                (None, Some(back)) => format!("rolled back to {back}"),
                (None, None) => String::new(),
            };
            let what = match tool {
                Some(tool) => tool.digest().short().to_string(),
                None => "retired".to_owned(),
            };
            let line =
                format!("{version:>3}  {}  {what}  {from}, by {}", Timestamp(*at), exact(by));
            say(&line);
        }
        Ok(Exit::Done)
    })
}

pub(super) fn diff(
    place: &Place,
    desk: &CatalogueDesk,
    id: &str,
    (from, to): (Option<u64>, Option<u64>),
    json: bool,
) -> Result<Exit> {
    block_on(async {
        let project = project(place).await?;
        let all = versions(&project.state, id)?;
        let Some(last) = all.last().map(|version| version.version) else {
            let _ = desk;
            anyhow::bail!("{} has no versions here", exact(id));
        };
        let to = to.unwrap_or(last);
        let from = from.unwrap_or_else(|| to.saturating_sub(1));
        let find = |wanted: u64| all.iter().find(|version| version.version == wanted);
        anyhow::ensure!(
            find(to).is_some() && (from == 0 || find(from).is_some()),
            "{} has the versions 1 to {last}",
            exact(id)
        );
        let tool = |wanted| find(wanted).and_then(|version| version.tool.as_ref());
        let changes = field_diff(tool(from), tool(to));
        if json {
            console::json(&json!({ "id": id, "from": from, "to": to, "diff": changes }));
        } else {
            say(&format!("{} {from} -> {to}", exact(id)));
            change_lines(&changes).iter().for_each(|line| say(line));
        }
        Ok(Exit::Done)
    })
}
