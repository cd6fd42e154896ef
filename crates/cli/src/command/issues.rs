//! `toolgate issues`: what people and agents discuss, and what a person says and does about it.

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::fold::Project;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::issues::{
    ImpactLevel, Issue, IssueAct, IssueAuthor, IssueComment, IssuePriority, IssueQuery,
    IssueRefusal, IssueRules, IssueStatus, NewComment, NewIssue, StatusFilter, all_issues,
    decide_issue,
};
use toolgate_runtime::SayFault;
use toolgate_runtime::port::Clock;

use crate::console::{self, say};
use crate::exit::Exit;
use crate::host::SystemClock;
use crate::person::{Nobody, attended, user_name};
use crate::project::{Opened, Place, block_on};
use crate::visible::exact;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate issues list\n  toolgate issues show 3\n  toolgate issues open \
                        \"Ferry time\" --body \"Scenes 1 and 2 disagree.\" --tag timeline\n  toolgate \
                        issues comment 3 \"The ferry comes on the second day.\"\n  toolgate issues assign \
                        3 editor\n  toolgate issues close 3"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists issues, the latest change first.
    #[command(after_help = "Example:\n  toolgate issues list --status all --tag timeline")]
    List {
        /// Where they stand.
        #[arg(long, value_enum, default_value = "active")]
        status: Listed,
        /// A tag they have; may be given several times.
        #[arg(long = "tag")]
        tags: Vec<String>,
        /// Whom they are assigned to.
        #[arg(long)]
        assigned_to: Option<String>,
        /// Words that all stand in title, text or comments.
        #[arg(long)]
        text: Option<String>,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Shows an issue with its comments.
    #[command(after_help = "Example:\n  toolgate issues show 3")]
    Show {
        /// Its number.
        id: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Opens an issue, or one that is closed again.
    #[command(
        after_help = "Examples:\n  toolgate issues open \"Ferry time\" --body \"Scenes 1 and 2 \
                            disagree.\"\n  toolgate issues open --again 3"
    )]
    Open {
        /// What it is about, in one line.
        #[arg(required_unless_present = "again")]
        title: Option<String>,
        /// The whole text.
        #[arg(long, default_value = "", conflicts_with = "again")]
        body: String,
        /// A word by which it is found; may be given several times.
        #[arg(long = "tag", conflicts_with = "again")]
        tags: Vec<String>,
        /// How soon it is needed.
        #[arg(long, value_enum, default_value = "normal", conflicts_with = "again")]
        priority: Priority,
        /// The agent or person who is to deal with it; `user` makes it wait for a person.
        #[arg(long, conflicts_with = "again")]
        assign: Option<String>,
        /// The number of a closed issue that is open again.
        #[arg(long, conflicts_with = "title")]
        again: Option<u64>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Says something about an issue.
    #[command(
        after_help = "Example:\n  toolgate issues comment 3 \"The ferry comes on the second day.\""
    )]
    Comment {
        /// Its number.
        id: u64,
        /// What is said.
        text: String,
        /// How far the change would reach.
        #[arg(long, value_enum)]
        impact: Option<Impact>,
        /// What it rests on.
        #[arg(long)]
        evidence: Option<String>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Gives an issue to somebody, or to nobody.
    #[command(
        after_help = "Examples:\n  toolgate issues assign 3 editor\n  toolgate issues assign 3 --nobody"
    )]
    Assign {
        /// Its number.
        id: u64,
        /// The agent or person; `user` makes it wait for a person.
        #[arg(required_unless_present = "nobody")]
        to: Option<String>,
        /// It is nobody's.
        #[arg(long, conflicts_with = "to")]
        nobody: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Closes an issue.
    #[command(after_help = "Example:\n  toolgate issues close 3")]
    Close {
        /// Its number.
        id: u64,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Which issues are listed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Listed {
    /// Those that are not closed.
    Active,
    /// Those that are open.
    Open,
    /// Those that wait for a person.
    WaitingOnUser,
    /// Those that are closed.
    Closed,
    /// All of them.
    All,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Priority {
    /// When there is time.
    Low,
    /// In its turn.
    Normal,
    /// Before others.
    High,
    /// At once.
    Urgent,
}

impl From<Priority> for IssuePriority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
            Priority::Urgent => Self::Urgent,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Impact {
    /// Wording alone.
    Cosmetic,
    /// One passage.
    Minor,
    /// The order or purpose of scenes.
    Structural,
    /// What is true in the story.
    CanonChanging,
}

impl From<Impact> for ImpactLevel {
    fn from(impact: Impact) -> Self {
        match impact {
            Impact::Cosmetic => Self::Cosmetic,
            Impact::Minor => Self::Minor,
            Impact::Structural => Self::Structural,
            Impact::CanonChanging => Self::CanonChanging,
        }
    }
}

impl Options {
    /// Whether whoever reads the output is a program.
    pub(crate) fn json(&self) -> bool {
        match &self.what {
            What::List { json, .. }
            | What::Show { json, .. }
            | What::Open { json, .. }
            | What::Comment { json, .. }
            | What::Assign { json, .. }
            | What::Close { json, .. } => *json,
        }
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    let json = options.json();
    let act = match &options.what {
        What::List { status, tags, assigned_to, text, .. } => {
            let query = IssueQuery {
                tags: tags.clone(),
                assigned_to: assigned_to.clone(),
                text: text.clone(),
                status: status.filter(),
                ..IssueQuery::default()
            };
            return list(place, *status, &query, json);
        }
        What::Show { id, .. } => return show(place, *id, json),
        What::Open { again: Some(id), .. } => IssueAct::Reopen(*id),
        What::Open { title, body, tags, priority, assign, .. } => IssueAct::Open(NewIssue {
            title: title.clone().unwrap_or_default(),
            body: body.clone(),
            tags: tags.clone(),
            priority: (*priority).into(),
            assigned_to: assign.clone(),
        }),
        What::Comment { id, text, impact, evidence, .. } => {
            let impact_level = impact.map(Into::into);
            let (body, evidence) = (text.clone(), evidence.clone());
            IssueAct::Comment(*id, NewComment { body, action: None, impact_level, evidence })
        }
        What::Assign { id, to, .. } => IssueAct::Assign(*id, to.clone()),
        What::Close { id, .. } => IssueAct::Close(*id),
    };
    change(place, &act, json)
}

impl Listed {
    fn filter(self) -> StatusFilter {
        match self {
            Self::Open => StatusFilter::Open,
            Self::WaitingOnUser => StatusFilter::WaitingOnUser,
            Self::Closed => StatusFilter::Closed,
            Self::Active | Self::All => StatusFilter::All,
        }
    }
}

/// Why a person's act was not written down.
enum Unwritten {
    Refused(IssueRefusal),
    Say(SayFault),
}

impl From<SayFault> for Unwritten {
    fn from(fault: SayFault) -> Self {
        Self::Say(fault)
    }
}

impl From<IssueRefusal> for Unwritten {
    fn from(refusal: IssueRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Writes down what the person at the terminal says. No key is asked for: it is a word about an
/// issue, and nothing rests on it (ADR 0037).
fn change(place: &Place, act: &IssueAct, json: bool) -> Result<Exit> {
    if !attended() {
        return Err(Nobody.into());
    }
    block_on(async {
        let who = Actor::human(&user_name());
        let name = who.name().map(ToString::to_string).unwrap_or_default();
        let (author, rules) = (IssueAuthor::Person(name), IssueRules::default());
        let Opened { runtime, .. } = place.open()?;
        let written = runtime.decide(&who, |project: &Project| {
            let now = SystemClock.now();
            let outcome = decide_issue(&project.state, &rules, &author, now, act)?;
            let event = outcome.event(&format!("issue {}", outcome.issue.id))?;
            Ok((vec![event], outcome.issue))
        });
        match written.await {
            Ok(issue) if json => console::json(&issue),
            Ok(issue) => say(&line(&issue)),
            Err(Unwritten::Say(fault)) => return Err(fault.into()),
            Err(Unwritten::Refused(refusal)) => {
                console::complain(&refusal.into(), json);
                return Ok(Exit::Failed);
            }
        }
        Ok(Exit::Done)
    })
}

/// The issues of the project as it is.
fn issues(place: &Place) -> Result<Vec<Issue>> {
    block_on(async {
        let project = place.look()?.runtime.catch_up().await?;
        Ok(all_issues(&project.state)?)
    })
}

fn list(place: &Place, listed: Listed, query: &IssueQuery, json: bool) -> Result<Exit> {
    let mut found = query.run(issues(place)?);
    if matches!(listed, Listed::Active) {
        found.retain(|issue| issue.status != IssueStatus::Closed);
    }
    if json {
        found.iter().for_each(console::json);
        return Ok(Exit::Done);
    }
    if found.is_empty() {
        say("There is no such issue.");
    }
    for issue in &found {
        say(&console::fit(&line(issue)));
    }
    Ok(Exit::Done)
}

/// An issue in one line.
fn line(issue: &Issue) -> String {
    let status = match issue.status {
        IssueStatus::Open => "open",
        IssueStatus::WaitingOnUser => "waiting-on-user",
        IssueStatus::Closed => "closed",
    };
    let mut line = format!("#{}  {status}  {}", issue.id, exact(&issue.title));
    if let Some(to) = &issue.assigned_to {
        line.push_str(&format!("  @{}", exact(to)));
    }
    for tag in &issue.tags {
        line.push_str(&format!("  [{}]", exact(tag)));
    }
    line
}

fn show(place: &Place, id: u64, json: bool) -> Result<Exit> {
    let Some(issue) = issues(place)?.into_iter().find(|issue| issue.id == id) else {
        console::complain(&anyhow!("there is no issue {id}"), json);
        return Ok(Exit::Failed);
    };
    if json {
        console::json(&issue);
        return Ok(Exit::Done);
    }
    say(&line(&issue));
    say(&format!("  opened by {} at {}", exact(&issue.opened_by), issue.created_at));
    let frozen = issue.frozen_until.filter(|until| SystemClock.now() < *until);
    if let Some(until) = frozen {
        say(&format!("  frozen for agents until {until}"));
    }
    if let Some(proposal) = &issue.proposal {
        say(&format!("  moves with proposal {}", exact(proposal)));
    }
    issue.body.lines().for_each(|line| say(&format!("  {}", exact(line))));
    issue.comments.iter().for_each(show_comment);
    Ok(Exit::Done)
}

fn show_comment(comment: &IssueComment) {
    let at: Timestamp = comment.created_at;
    say(&format!("\n{} at {at}:", exact(&comment.author)));
    comment.body.lines().for_each(|line| say(&format!("  {}", exact(line))));
    if let Some(action) = &comment.action {
        say(&format!("  wants: {}", exact(action)));
    }
    if let Some(evidence) = &comment.evidence {
        evidence.lines().for_each(|line| say(&format!("  evidence: {}", exact(line))));
    }
}
