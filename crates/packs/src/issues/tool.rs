//! The tool `issues`: agents open, comment, tag, assign, close and show issues.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolgate_kernel::config::IssuesConfig;
use toolgate_kernel::fold::State;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::tool::{ACTION, SpecRefusal};
use toolgate_runtime::port::{Fault, Output};
use toolgate_runtime::{Pack, Transaction};

use crate::domain::{Domain, answer, given, key};

use super::act::{
    IssueAct, IssueAuthor, IssueOutcome, IssueRefusal, NewComment, NewIssue, NewTags, decide_issue,
};
use super::breaker::IssueRules;
use super::{ISSUE_FAMILY, ISSUES, ImpactLevel, IssuePriority, all_issues, families};

const TEXT: &str = "## Issues\n\n\
    `issues` is a tracker that you share with the person and with other agents. Open one for what has to be decided or \
    done by others; assign it to `user` when a person has to decide. Write comments that stand for themselves: at least \
    150 characters and 20 different words, with evidence (source, line, quote) when a change is structural or changes \
    canon. Say what you have to say once: after two comments of yours an issue is frozen for agents for 30 minutes. You \
    close only issues that you opened, after three comments at least. Issues of proposals move with their proposal.";

/// How a session is called that speaks as no agent.
const UNNAMED: &str = "agent";

#[derive(Deserialize, JsonSchema)]
struct Params {
    /// The number of the issue; of `open`, one of your closed issues that is open again.
    id: Option<u64>,
    /// What a new issue is about, in at most 200 characters.
    title: Option<String>,
    /// The text of a new issue, or of a comment: at least 150 characters and 20 different words.
    body: Option<String>,
    /// Words by which everybody finds it, at most 12 of 40 characters; they replace those it has.
    tags: Option<Vec<String>>,
    /// How soon a new issue is needed; normal when left out.
    priority: Option<IssuePriority>,
    /// The agent or person who is to deal with it; `user` makes it wait for a person, an empty text
    /// makes it nobody's.
    assigned_to: Option<String>,
    /// What a comment wants done, in one line.
    comment_action: Option<String>,
    /// How far the change that a comment is about would reach.
    impact_level: Option<ImpactLevel>,
    /// What a comment rests on: source, line and quote.
    evidence: Option<String>,
    /// Your own tags, which nobody else is shown by; they replace those you gave it.
    personal_tags: Option<Vec<String>>,
    /// How much it matters to you: 1 to 5; 0 takes it away.
    interest: Option<u8>,
}

/// The pack `issues`.
pub fn issues(config: &IssuesConfig) -> Result<Pack, SpecRefusal> {
    let rules = IssueRules::from(config);
    let opened =
        json!({ "action": "open", "title": "Ferry time", "body": "Scene 1 and 2 disagree." });
    let act = move |build: fn(Params) -> Result<IssueAct, Fault>, kind: &'static str| {
        let rules = rules.clone();
        move |tx: &mut Transaction, params: Params| run(tx, &rules, &build(params)?, kind)
    };
    Domain::new("issues", "Keeps issues shared with people and agents: open, comment, tag, assign, close, show.")
        .action("open", "Opens an issue by title, or one of yours again by id.", &[], act(open, "issue_opened"))
        .action("comment", "Says something about an issue.", &["id", "body"], act(comment, "issue_commented"))
        .action("tag", "Sets tags, your own tags, or your interest.", &["id"], act(tag, "issue_tagged"))
        .action("assign", "Gives an issue to somebody.", &["id"], act(assign, "issue_assigned"))
        .action("close", "Closes an issue of yours.", &["id"], act(close, "issue_closed"))
        .action("show", "Shows an issue with its comments.", &["id"], show)
        .reads(&["show"])
        .touches(touches)
        .describe(|draft| {
            let answer = json!({ "type": "issue_opened", "issue": { "id": 3, "title": "Ferry time", "status": "open" } });
            draft.example("A new issue.", opened, answer)
        })
        .pack(TEXT, |_| families())
}

fn touches(args: &Document) -> Result<Vec<(Access, Key)>, KeyRefusal> {
    let access = if args.text(ACTION) == Some("show") { Access::Read } else { Access::Write };
    Ok(vec![(access, Key::parse(ISSUES)?)])
}

fn open(params: Params) -> Result<IssueAct, Fault> {
    match (params.id, given(params.title.as_deref())) {
        (Some(id), None) => Ok(IssueAct::Reopen(id)),
        (None, Some(title)) => Ok(IssueAct::Open(NewIssue {
            title: title.to_owned(),
            body: params.body.unwrap_or_default(),
            tags: params.tags.unwrap_or_default(),
            priority: params.priority.unwrap_or_default(),
            assigned_to: params.assigned_to,
        })),
        (None, None) => {
            Err(Fault::invalid("title is required for open action").with("required_param", "title"))
        }
        (Some(_), Some(_)) => {
            Err(Fault::invalid("open takes a title for a new issue, or the id of a closed one")
                .at("id"))
        }
    }
}

fn comment(params: Params) -> Result<IssueAct, Fault> {
    let some = |text: Option<String>| given(text.as_deref()).map(str::to_owned);
    let comment = NewComment {
        body: params.body.unwrap_or_default(),
        action: some(params.comment_action),
        impact_level: params.impact_level,
        evidence: some(params.evidence),
    };
    Ok(IssueAct::Comment(params.id.unwrap_or_default(), comment))
}

fn tag(params: Params) -> Result<IssueAct, Fault> {
    let Params { id, tags, personal_tags, interest, .. } = params;
    Ok(IssueAct::Tag(id.unwrap_or_default(), NewTags { tags, personal_tags, interest }))
}

fn assign(params: Params) -> Result<IssueAct, Fault> {
    let missing = || {
        Fault::invalid("assigned_to is required for assign action; an empty text makes it nobody's")
            .with("required_param", "assigned_to")
    };
    let to = params.assigned_to.ok_or_else(missing)?;
    Ok(IssueAct::Assign(params.id.unwrap_or_default(), Some(to)))
}

fn close(params: Params) -> Result<IssueAct, Fault> {
    Ok(IssueAct::Close(params.id.unwrap_or_default()))
}

fn run(
    tx: &mut Transaction,
    rules: &IssueRules,
    act: &IssueAct,
    kind: &str,
) -> Result<Output, Fault> {
    let outcome = decide_issue(state(tx), rules, &author(tx), tx.now(), act).map_err(fault)?;
    keep(tx, &outcome)?;
    let id = outcome.issue.id;
    if let (Some(rule), Some(until)) = (outcome.frozen, outcome.issue.frozen_until) {
        let message = format!(
            "The comment was not kept: {rule}. Issue {id} is frozen for agents until {until}; a person may comment."
        );
        let data = json!({ "rule": rule, "frozenUntil": until, "issue": outcome.issue });
        return answer("issue_frozen", &message, &data);
    }
    answer(kind, "", &json!({ "issue": outcome.issue }))
}

fn keep(tx: &mut Transaction, outcome: &IssueOutcome) -> Result<(), Fault> {
    tx.put(&key(ISSUES)?, &outcome.counter())?;
    tx.put(&key(&format!("{ISSUE_FAMILY}:{}", outcome.issue.id))?, &outcome.issue)?;
    match outcome.removed() {
        Some(removed) => tx.remove(&key(&format!("{ISSUE_FAMILY}:{removed}"))?),
        None => Ok(()),
    }
}

fn show(tx: &mut Transaction, params: Params) -> Result<Output, Fault> {
    let id = params.id.unwrap_or_default();
    let issues = all_issues(state(tx)).map_err(|error| Fault::failed(format!("{error}.")))?;
    let issue = issues.into_iter().find(|issue| issue.id == id);
    let issue = issue.ok_or_else(|| fault(IssueRefusal::Missing(id)))?;
    answer("issue", "", &json!({ "issue": issue }))
}

fn state(tx: &Transaction) -> &State {
    &tx.project().state
}

/// Every call is an agent's, also one that an MCP client makes: no person signed it.
fn author(tx: &Transaction) -> IssueAuthor {
    let agent = tx.session().agent.as_ref().map(ToString::to_string);
    IssueAuthor::Agent(agent.unwrap_or_else(|| UNNAMED.to_owned()))
}

fn fault(refusal: IssueRefusal) -> Fault {
    let (rule, field) = (refusal.rule(), refusal.field());
    let message = refusal.to_string();
    let fault = match field {
        Some(field) if rule != "missing" && rule != "closed" && rule != "not_closed" => {
            Fault::invalid(message).at(field)
        }
        Some(field) => Fault::failed(message).at(field),
        None => Fault::failed(message),
    };
    fault.with("rule", rule)
}
