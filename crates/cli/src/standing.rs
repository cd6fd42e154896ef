//! Decides what is told of whose word counts as a person's in a project, and what that promises.

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::fold::EnrolledPerson;

use crate::console;
use crate::credential::{Decider, key_file, read};
use crate::project::Place;
use crate::reading;

/// The command that makes a person's key known to a project.
pub(crate) const ENROL: &str = "toolgate init --enrol";

/// Whose word counts as a person's, and what that promises.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Standing {
    /// How the person is called in the log; absent while there is no key.
    name: Option<String>,
    /// The public half of the key.
    key: Option<PersonKey>,
    /// Whether a passphrase guards it.
    passphrase: bool,
    /// Whether the project knows this key, when it knows any.
    known: Option<bool>,
    /// Whether the project knows a person's key at all.
    enrolled: bool,
    /// What is wrong with the file of the key.
    fault: Option<String>,
    /// What is promised, in a sentence.
    says: String,
}

impl Standing {
    /// The person here, and whether the project knows them. A project without a log knows nobody.
    pub(crate) async fn of(project: &Place) -> Result<Self> {
        let known = match project.log() {
            Ok(log) => {
                let project = reading::project(log.store.as_ref()).await?;
                let counts = |person: &EnrolledPerson| person.revoked.is_none();
                let people = project.people.into_iter().filter(|(_, person)| counts(person));
                people.map(|(key, _)| key).collect()
            }
            Err(_) => Vec::new(),
        };
        Ok(Self::beside(project, &known))
    }

    fn beside(project: &Place, people: &[PersonKey]) -> Self {
        let mut found = Self {
            name: None,
            key: None,
            passphrase: false,
            known: None,
            enrolled: !people.is_empty(),
            fault: None,
            says: String::new(),
        };
        match key_file(project).and_then(|path| Ok((read(&path)?, path))) {
            Err(error) => {
                found.says = format!("Your key cannot be used: {error:#}\n");
                found.fault = Some(format!("{error:#}"));
            }
            Ok((None, _)) => found.says = "There is no key of yours yet.".to_owned(),
            Ok((Some(kept), path)) => {
                found.passphrase = kept.guarded();
                let who = if found.passphrase {
                    "Only who knows its passphrase can do it."
                } else {
                    "It has no passphrase, so anyone with this user account can do it, programs too."
                };
                let path = path.display();
                found.says = format!("What only a person may do is signed with {path}. {who}");
                found.known = found.enrolled.then(|| people.contains(&kept.key));
                (found.name, found.key) = (Some(kept.name), Some(kept.key));
            }
        }
        let more = match (found.known, found.enrolled) {
            (Some(true), _) => "This project knows it.".to_owned(),
            (Some(false), _) => {
                "But this project knows another key, so nothing that is signed with this one counts \
                 here. Bring back the file of the key that it knows."
                    .to_owned()
            }
            (None, true) if found.fault.is_some() => {
                "This project knows a key, and only what that one signs counts here.".to_owned()
            }
            (None, true) => {
                "This project knows a key, and only what that one signs counts here. Bring back its \
                 file."
                    .to_owned()
            }
            (None, false) => nobody_enrolled(),
        };
        let gap = if found.fault.is_some() { "" } else { " " };
        found.says = format!("{}{gap}{more}", found.says);
        found
    }

    /// Whether the key can be used, or need not be.
    pub(crate) fn usable(&self) -> bool {
        self.fault.is_none()
    }

    pub(crate) fn print(&self) {
        let mark = match (&self.fault, self.passphrase && self.known == Some(true)) {
            (Some(_), _) => '✗',
            (None, true) => '✓',
            (None, false) => '!',
        };
        let name = match (&self.name, &self.fault) {
            (Some(name), _) => name,
            (None, Some(_)) => "a key that cannot be used",
            (None, None) => "nobody yet",
        };
        console::say("");
        let line = format!("{} person: {}", console::mark(mark), console::visible(name));
        console::say(&console::fit(&line));
        console::paragraph(&self.says);
    }
}

/// That nobody is known here yet, what that means and what to do.
pub(crate) fn nobody_enrolled() -> String {
    format!(
        "No person is enrolled in this project yet, so it would believe the first key that signs \
         here. Enrol yours at a terminal: {ENROL}"
    )
}

/// Makes the key of whoever decides here known to the project, where none is known yet.
pub(crate) async fn enrol(project: &Place, person: &Decider) -> Result<()> {
    let opened = project.open()?;
    opened.runtime.enrol(person.author(&[])).await?;
    let people = opened.runtime.catch_up().await?.people.clone();
    anyhow::ensure!(
        people.contains_key(&person.key()),
        "this project knows another person's key; see `toolgate doctor`"
    );
    Ok(())
}
