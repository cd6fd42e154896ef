//! `toolgate people`: who may decide what in a project, enrolled and revoked by an owner.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::Role;
use toolgate_kernel::event::ProjectEvent;
use toolgate_kernel::fold::{EnrolledPerson, Project};
use toolgate_kernel::names::ToolPattern;

use crate::console::{self, hint, say};
use crate::credential::{self, sign_card};
use crate::exit::Exit;
use crate::project::{Place, block_on};
use crate::reading;
use crate::visible::exact;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  toolgate people list\n  toolgate people key\n  toolgate people enrol \
                  KEY --name bob --role approver\n  toolgate people revoke bob --reason \"Left the team.\""
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: PeopleCommand,
}

#[derive(Subcommand)]
enum PeopleCommand {
    /// Lists the people who may decide in this project. It needs no key.
    #[command(after_help = "Example:\n  toolgate people list --json")]
    List {
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Prints your public key, for an owner to enrol. The first time, the key is made.
    #[command(after_help = "Example:\n  toolgate people key")]
    Key,
    /// Lets a person decide, or gives them another role. An owner signs it.
    #[command(
        after_help = "Examples:\n  toolgate people enrol KEY --name bob --role approver\n  toolgate \
                      people enrol KEY --name eve --role approver --tools 'mcp:bank:*'"
    )]
    Enrol {
        /// Their public key, as `toolgate people key` prints it on their machine.
        key: String,
        /// How they are called in the log: a-z, 0-9 and ._-.
        #[arg(long)]
        name: String,
        /// What they may do. Each role may do what the ones before it may.
        #[arg(long, value_enum)]
        role: RoleArg,
        /// The tools they may answer about, such as `mcp:bank:*`; all without it. May be repeated.
        #[arg(long = "tools", value_name = "PATTERN")]
        tools: Vec<String>,
    },
    /// Ends what a person may decide. What they decided before stays good. An owner signs it.
    #[command(after_help = "Example:\n  toolgate people revoke bob --reason \"Left the team.\"")]
    Revoke {
        /// Their name or their public key, as `list` shows it.
        who: String,
        /// Why, for the log.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
}

/// A role on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum RoleArg {
    /// Reads.
    Viewer,
    /// Starts, resumes, stops and forks sessions, and talks to them.
    Runner,
    /// Answers questions; decides about facts, locks, tool definitions and undo.
    Approver,
    /// Enrols and revokes people, trusts configurations, delegates.
    Owner,
}

impl From<RoleArg> for Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Viewer => Self::Viewer,
            RoleArg::Runner => Self::Runner,
            RoleArg::Approver => Self::Approver,
            RoleArg::Owner => Self::Owner,
        }
    }
}

impl Options {
    pub(crate) fn json(&self) -> bool {
        matches!(self.what, PeopleCommand::List { json: true })
    }
}

pub(crate) fn run(place: &Place, options: &Options) -> Result<Exit> {
    match &options.what {
        PeopleCommand::List { json } => list(place, *json),
        PeopleCommand::Key => key(place),
        PeopleCommand::Enrol { key, name, role, tools } => {
            enrol(place, key, name, Role::from(*role), tools)
        }
        PeopleCommand::Revoke { who, reason } => revoke(place, who, reason),
    }
}

/// A person in the list.
#[derive(Serialize)]
struct PersonRow<'a> {
    name: &'a str,
    key: PersonKey,
    role: Role,
    #[serde(skip_serializing_if = "<[ToolPattern]>::is_empty")]
    tools: &'a [ToolPattern],
    /// The record of the project stream that enrolled them in this role.
    since: u64,
    /// The record that revoked them.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<u64>,
}

impl<'a> PersonRow<'a> {
    fn of((key, person): (&PersonKey, &'a EnrolledPerson)) -> Self {
        let EnrolledPerson { name, role, tools, since, revoked, .. } = person;
        Self { name, key: *key, role: *role, tools, since: *since, revoked: *revoked }
    }

    fn line(&self) -> String {
        let tools: Vec<&str> = self.tools.iter().map(ToolPattern::as_str).collect();
        let scope = match tools.as_slice() {
            [] => String::new(),
            tools => format!(", only {}", tools.join(", ")),
        };
        let revoked = self.revoked.map_or(String::new(), |at| format!(", revoked in record {at}"));
        format!("{:<16} {}{scope}{revoked}", self.name, self.role)
    }
}

fn list(place: &Place, json: bool) -> Result<Exit> {
    let project = block_on(async { reading::project(place.log()?.store.as_ref()).await })?;
    for row in project.people.iter().map(PersonRow::of) {
        if json {
            console::json(&row);
        } else {
            say(&row.line());
            say(&format!("  key {}", row.key));
        }
    }
    if project.people.is_empty() && !json {
        hint("Nobody is enrolled yet. The first person who decides something is the owner.");
    }
    Ok(Exit::Done)
}

fn key(place: &Place) -> Result<Exit> {
    let path = credential::key_file(place)?;
    let key = match credential::read(&path)? {
        Some(kept) => kept.key,
        None => block_on(credential::decider(place))?.key(),
    };
    say(&key.to_string());
    hint("An owner enrols it: toolgate people enrol KEY --name NAME --role approver");
    Ok(Exit::Done)
}

fn enrol(place: &Place, key: &str, name: &str, role: Role, tools: &[String]) -> Result<Exit> {
    let key = PersonKey::try_from(key.to_owned())?;
    let label = toolgate_kernel::actor::Actor::try_from(format!("human:{name}"));
    ensure!(label.is_ok(), "{:?} is no name for the log: 1 to 32 of a-z, 0-9 and ._-", exact(name));
    let tools = tools.iter().map(|text| ToolPattern::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let project = block_on(async {
        match place.log() {
            Ok(log) => reading::project(log.store.as_ref()).await,
            Err(_) => Ok(Project::default()),
        }
    })?;
    ensure!(
        role == Role::Owner || !is_only_owner(&project, &key),
        "{name} is the only owner; enrol another owner first"
    );
    let scope = match tools.as_slice() {
        [] => "about all tools".to_owned(),
        some => {
            let names: Vec<&str> = some.iter().map(ToolPattern::as_str).collect();
            format!("about {} only", names.join(", "))
        }
    };
    let card = vec![
        format!("{name} may decide here as {role}, {scope}."),
        format!("  key {key}"),
        format!("  {}", meaning(role)),
    ];
    let event = ProjectEvent::PersonEnrolled { key, name: name.to_owned(), role, tools };
    let done = format!("{name} is enrolled as {role}.");
    sign_card(place, &card, "enrol", &done, |_| Ok(event.clone()))
}

fn meaning(role: Role) -> &'static str {
    match role {
        Role::Viewer => "They read; nothing that they sign counts.",
        Role::Runner => "They start, resume, stop and fork sessions, and talk to them.",
        Role::Approver => "They answer questions and decide about facts, locks, pins and undo.",
        Role::Owner => "They may do everything that you may, also revoke you.",
    }
}

fn revoke(place: &Place, who: &str, reason: &str) -> Result<Exit> {
    let project = block_on(async { reading::project(place.log()?.store.as_ref()).await })?;
    let (key, person) = find(&project, who)?;
    ensure!(person.revoked.is_none(), "{} is revoked already", person.name);
    let mut card = vec![
        format!("What {} signs from now on does not count here.", person.name),
        format!("  key {key}"),
        "  What they decided before stays good.".to_owned(),
    ];
    if !reason.is_empty() {
        card.push(format!("  your reason: {}", exact(reason)));
    }
    if is_only_owner(&project, &key) {
        bail!(
            "{} is the only owner; enrol another one first, or begin anew with `toolgate log restart`",
            person.name
        );
    }
    let done = format!("{} is revoked.", person.name);
    let event = ProjectEvent::PersonRevoked { key, reason: reason.to_owned() };
    sign_card(place, &card, "revoke", &done, |project| {
        let still = project.people.get(&key).is_some_and(|person| person.revoked.is_none());
        if still { Ok(event.clone()) } else { bail!("this changed while you were looking at it") }
    })
}

/// Whether this key is that of the only owner there is.
fn is_only_owner(project: &Project, key: &PersonKey) -> bool {
    let is_owner = |one: &EnrolledPerson| one.role == Role::Owner && one.revoked.is_none();
    let others = || project.people.iter().filter(|(other, _)| *other != key);
    project.people.get(key).is_some_and(is_owner) && !others().any(|(_, one)| is_owner(one))
}

/// The one person that a name or a key means.
fn find(project: &Project, who: &str) -> Result<(PersonKey, EnrolledPerson)> {
    let fits = |(key, person): &(&PersonKey, &EnrolledPerson)| {
        *person.name == *who || key.to_string() == who
    };
    let mut found = project.people.iter().filter(fits);
    let (key, person) = found.next().with_context(|| {
        format!("{:?} is not enrolled here; see `toolgate people list`", exact(who))
    })?;
    ensure!(found.next().is_none(), "several people are called {who}; give the key");
    Ok((*key, person.clone()))
}
