//! Lets a command start what a configuration names only where the configuration is trusted, and asks
//! the person at the terminal where it is not yet.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ring::signature::{ED25519, UnparsedPublicKey};
use toolgate_kernel::config::{
    AgentText, ConfigDigests, Secret, SecretPart, TrustBasis, TrustEvidence, TrustGap, TrustReason,
};
use toolgate_kernel::decision::{DecisionKind, SignedDecision};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{ProjectEvent, Record, StreamId};
use toolgate_kernel::fold::{Project, TrustedConfig};
use toolgate_kernel::tree::LogId;
use toolgate_runtime::port::Store;
use toolgate_runtime::{Author, Crew, Runtime, SayFault};
use toolgate_store::{OpenFault, TrustEntry, TrustFolder};

use crate::card_code::{CardCode, CardWord};
use crate::console::{hint, tell, visible};
use crate::credential;
use crate::environment::{self, Flags};
use crate::host::{SystemClock, anchors, anchors_to_read, own_state_folder, state_folder};
use crate::machine_policy;
use crate::person::{self, attended};
use crate::project::{LoadedConfig, Log, Place, bounded, to_be_measured};
use crate::trust_card;

/// What is kept about trust, in words.
const TRUST: &str = "trust in configurations";

/// Leave to use what a configuration names: its programs, its secrets and its addresses. Only the
/// decision about trust makes one.
pub(crate) struct TrustedAccess {
    folder: PathBuf,
    file: AgentText,
}

impl TrustedAccess {
    /// The project folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The configuration as its file says it.
    pub(crate) fn file(&self) -> &AgentText {
        &self.file
    }

    /// A secret, looked up in the environment and in files.
    pub(crate) fn look_up(&self, secret: &Secret) -> Result<String> {
        let found = secret.resolve(|part| match part {
            SecretPart::Variable(name) => environment::text(name).ok().flatten(),
            SecretPart::File(path) => {
                let bytes = bounded(&self.folder.join(path)).ok();
                bytes.and_then(|bytes| String::from_utf8(bytes).ok())
            }
            SecretPart::Word(word) => Some(word.to_owned()),
        });
        Ok(found?)
    }
}

/// An agent that may be run.
pub(crate) struct TrustedCrew {
    pub(crate) crew: Crew,
    /// The configuration that holds.
    pub(crate) text: AgentText,
    pub(crate) access: TrustedAccess,
}

/// A configuration that is not trusted, where one is needed.
#[derive(Debug)]
pub(crate) struct NotTrusted {
    folder: PathBuf,
    gap: TrustGap,
    reasons: Vec<TrustReason>,
    command: String,
}

impl std::error::Error for NotTrusted {}

/// Reasons that are named in an error.
const REASONS_MAX: usize = 5;

impl fmt::Display for NotTrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = visible(&self.folder.display().to_string());
        write!(f, "{folder}: {}. Nothing was started, read or connected to.", self.gap)?;
        for TrustReason { key, reason } in self.reasons.iter().take(REASONS_MAX) {
            write!(f, "\n  {}: {}", visible(key), visible(reason))?;
        }
        if let Some(more @ 1..) = self.reasons.len().checked_sub(REASONS_MAX) {
            write!(f, "\n  … and {more} more")?;
        }
        match self.gap {
            TrustGap::PeopleNeeded => write!(f, "\nA person trusts it at a terminal: "),
            TrustGap::OtherDigest { .. } => {
                write!(f, "\nLook at it, then name its own digest, which this prints: ")
            }
            TrustGap::NeverTrusted
            | TrustGap::Changed
            | TrustGap::GateChanged
            | TrustGap::TooFewOwners { .. } => {
                write!(f, "\nLook at it and trust it at a terminal: ")
            }
        }?;
        f.write_str(&self.command)
    }
}

/// What is known about the trust in a configuration.
pub(crate) struct TrustState {
    pub(crate) verdict: Result<TrustBasis, TrustGap>,
    pub(crate) digests: ConfigDigests,
    /// What in it needs trust.
    pub(crate) reasons: Vec<TrustReason>,
    /// Labels and keys of the people whose trust in it counts.
    pub(crate) trusted_by: Vec<String>,
    /// The text that was last trusted, or else last used, without secrets.
    pub(crate) before_text: Option<String>,
    /// What is wrong with the file of the trust.
    pub(crate) fault: Option<String>,
}

/// How often and when it is looked again at a log without its tables: half a second in all.
const LOG_LOOKS_MAX: u32 = 25;
const LOG_LOOK: Duration = Duration::from_millis(20);

/// Whether a log has no tables or no name: a new one has neither until its first transaction is over.
fn is_unfinished(error: &anyhow::Error) -> bool {
    let fault = error.downcast_ref::<OpenFault>();
    matches!(fault, Some(OpenFault::Unusable { .. } | OpenFault::Nameless { .. }))
}

/// What a log says about trust.
struct KnownProject {
    log: Option<LogId>,
    project: Arc<Project>,
    /// The text of the configuration that was last used, without secrets.
    used_text: Option<String>,
}

impl Place {
    /// The agent with leave to use what its configuration names. The person at the terminal is asked
    /// where it is not trusted; elsewhere that is an error.
    pub(crate) async fn trusted_crew(&self, flags: &Flags) -> Result<TrustedCrew> {
        let loaded = self.load(flags, |_| {})?;
        let access = self.require_trust(&loaded).await?;
        let LoadedConfig { mut crew, text, .. } = loaded;
        crew.starter = credential::starter_key(self)?;
        Ok(TrustedCrew { crew, text, access })
    }

    async fn require_trust(&self, loaded: &LoadedConfig) -> Result<TrustedAccess> {
        let state = self.trust_state(loaded).await?;
        match self.access(loaded, &state) {
            Err(error) if attended() && is_a_persons(&state) => {
                if !ask(self, loaded, &state).await? {
                    return Err(error.into());
                }
                // The others that a machine asks for may still be missing.
                let state = self.trust_state(loaded).await?;
                Ok(self.access(loaded, &state)?)
            }
            access => Ok(access?),
        }
    }

    /// Leave to use what a configuration names, where it is trusted as things are.
    pub(crate) fn access(
        &self,
        loaded: &LoadedConfig,
        state: &TrustState,
    ) -> Result<TrustedAccess, NotTrusted> {
        match state.verdict {
            Ok(_) => Ok(TrustedAccess { folder: self.folder.clone(), file: loaded.file.clone() }),
            Err(gap) => Err(NotTrusted {
                folder: self.real_folder(),
                gap,
                reasons: state.reasons.clone(),
                command: self.trust_command(gap),
            }),
        }
    }

    /// The same without asking, for commands that can do without.
    pub(crate) async fn access_now(&self) -> Result<Option<TrustedAccess>> {
        let loaded = self.load(&Flags::default(), |_| {})?;
        let state = self.trust_state(&loaded).await?;
        Ok(self.access(&loaded, &state).ok())
    }

    /// What is known about the trust in a configuration. Nothing is asked and nothing is written.
    pub(crate) async fn trust_state(&self, loaded: &LoadedConfig) -> Result<TrustState> {
        let digests = loaded.digests();
        let policy = machine_policy::read()?;
        let known = self.known_project().await?;
        let (entry, mut fault) = match self.trust_entry() {
            Ok(entry) => (entry, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let decisions = entry.iter().flat_map(|entry| &entry.decisions);
        let signed: Vec<SignedTrust> =
            decisions.filter_map(|signed| counted(signed, &known)).collect();
        let statements: Vec<TrustedConfig> = signed.iter().map(|one| one.trusted).collect();
        // A change is shown against the text that was signed, or not at all.
        let before_text = match entry {
            None => known.used_text.clone(),
            Some(entry) => {
                let text = Digest::of(entry.text.as_bytes());
                let is_signed = signed.iter().any(|one| one.text == text);
                if !is_signed && !signed.is_empty() {
                    let what = "the text kept beside the trust is not the one that was signed";
                    fault = Some(what.to_owned());
                }
                is_signed.then_some(entry.text)
            }
        };
        let reasons = loaded.file.trust_reasons();
        let evidence = TrustEvidence {
            digests: &digests,
            is_harmless: reasons.is_empty(),
            gate_rule: known.project.gate_rule(),
            statements: &statements,
            operator: self.operator,
            policy: &policy,
        };
        let verdict = evidence.decide();
        let same = |one: &&TrustedConfig| one.reach == digests.reach && one.gate == digests.gate;
        let label = |one: &TrustedConfig| {
            let name = known.project.people.get(&one.by).map(|person| person.name.clone());
            format!("{} ({})", name.unwrap_or_default(), one.by.short())
        };
        let trusted_by = statements.iter().filter(same).map(label).collect();
        Ok(TrustState { verdict, digests, reasons, trusted_by, before_text, fault })
    }

    /// What the log says: who its people are, and what they signed.
    async fn known_project(&self) -> Result<KnownProject> {
        if !self.home()?.join("log.db").exists() {
            return Ok(KnownProject { log: None, project: Arc::default(), used_text: None });
        }
        let log = self.log_when_made().await?;
        let runtime = Runtime::new(Arc::clone(&log.store), Arc::new(SystemClock));
        let project = runtime.catch_up().await?;
        self.compare_root_person(log.store.log_id(), &project)?;
        let used = match &project.config_file {
            Some(file) => log.store.blob(file.text).await?,
            None => None,
        };
        let used_text = used.and_then(|text| String::from_utf8(text).ok());
        Ok(KnownProject { log: Some(log.store.log_id()), project, used_text })
    }

    /// Compares who decided first in the log with who it was when the log was seen first. A log that
    /// was written anew with the host key could name another person there.
    fn compare_root_person(&self, log: LogId, project: &Project) -> Result<()> {
        let Some(to_read) = anchors_to_read() else { return Ok(()) };
        let known = to_read.root_person(log).context("who decided first in this log")?;
        match (known, project.root_person) {
            (Some(known), found) if found != Some(known) => {
                let found = found.map_or("nobody".to_owned(), |key| key.short());
                bail!(
                    "{}: the person who decided first in this log was {}, and now it is {found}: it \
                     was written anew. See `toolgate verify`; to go on, `toolgate log restart`",
                    self.folder.display(),
                    known.short(),
                )
            }
            (None, Some(found)) => {
                let context = "who decided first in this log cannot be remembered";
                anchors(&self.folder)?.remember_root_person(log, found).context(context)
            }
            _ => Ok(()),
        }
    }

    /// The log to look at. Another process may be making it at this moment.
    async fn log_when_made(&self) -> Result<Log> {
        for _ in 0..LOG_LOOKS_MAX {
            match self.log() {
                Err(error) if is_unfinished(&error) => tokio::time::sleep(LOG_LOOK).await,
                log => return log,
            }
        }
        self.log()
    }

    /// What is kept outside the project about this configuration file.
    fn trust_entry(&self) -> Result<Option<TrustEntry>> {
        let folder = self.real_folder();
        let trust = TrustFolder::at(&state_folder(TRUST)?);
        let context = || format!("{} cannot be used", trust.file(&folder).display());
        let name = self.config_name();
        let entries = trust.read(&folder).with_context(context)?;
        Ok(entries.into_iter().find(|entry| entry.config == name))
    }

    /// Forgets the trust in every configuration of this folder. Tells whether there was any.
    pub(crate) fn revoke_trust(&self) -> Result<bool> {
        let folder = self.real_folder();
        let trust = TrustFolder::at(&state_folder(TRUST)?);
        let context = || format!("{} cannot be removed", trust.file(&folder).display());
        trust.forget(&folder).with_context(context)
    }

    /// The folder without links, by which its trust is known.
    pub(crate) fn real_folder(&self) -> PathBuf {
        self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone())
    }

    /// How the trust of this configuration file is told from that of another one.
    fn config_name(&self) -> String {
        match &self.config {
            None => "toolgate.yaml".to_owned(),
            Some(path) => {
                let real = path.canonicalize().unwrap_or_else(|_| path.clone());
                real.display().to_string()
            }
        }
    }

    /// The command that a person types to trust this configuration, from anywhere.
    fn trust_command(&self, gap: TrustGap) -> String {
        let mut command = "toolgate trust".to_owned();
        if matches!(gap, TrustGap::OtherDigest { .. }) {
            command.push_str(" --print");
        }
        command.push_str(&format!(" --project {}", quoted(&self.real_folder())));
        if let Some(config) = &self.config {
            let config = config.canonicalize().unwrap_or_else(|_| config.clone());
            command.push_str(&format!(" --config {}", quoted(&config)));
        }
        command
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = visible(&path.display().to_string());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=@%,:".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Whether the trust that is missing is a person's to give.
fn is_a_persons(state: &TrustState) -> bool {
    match state.verdict {
        Ok(_) => false,
        Err(TrustGap::OtherDigest { .. } | TrustGap::PeopleNeeded) => false,
        Err(
            TrustGap::NeverTrusted
            | TrustGap::Changed
            | TrustGap::GateChanged
            | TrustGap::TooFewOwners { .. },
        ) => true,
    }
}

/// What an owner signed about a configuration.
struct SignedTrust {
    trusted: TrustedConfig,
    /// Digest of the text that they trusted, without secrets.
    text: Digest,
}

/// What a kept statement trusts, where it counts: it is for this log and stands in it, its key is an
/// owner's who is enrolled there, and the signature fits.
fn counted(signed: &SignedDecision, known: &KnownProject) -> Option<SignedTrust> {
    let SignedDecision { statement, signature } = signed;
    let DecisionKind::Trust { reach, gate, text } = statement.what else { return None };
    let project = &known.project;
    let is_owner = project.people.get(&statement.by)?.may(&statement.what, project.seq);
    let is_recorded = project.statements.contains(&statement.digest());
    let key = UnparsedPublicKey::new(&ED25519, statement.by.0);
    let fits = key.verify(&statement.signed_bytes(), &signature.0).is_ok();
    let counts = known.log == Some(statement.log) && is_owner && is_recorded && fits;
    let trusted = TrustedConfig { reach, gate, by: statement.by };
    counts.then_some(SignedTrust { trusted, text })
}

/// Shows a person what a configuration does and takes their word for it. Tells whether they trust it.
pub(crate) async fn ask(place: &Place, loaded: &LoadedConfig, state: &TrustState) -> Result<bool> {
    // A log that cannot be written is told of before a person signs.
    if place.home()?.join("log.db").exists() {
        drop(place.open()?);
    }
    let code = CardCode::new()?;
    let card = trust_card::lines(place, loaded, state, &code);
    person::forget_typed();
    if person::paged(&card).await.is_none() || !typed_code(&code).await {
        hint("It is not trusted.");
        return Ok(false);
    }
    let person = credential::decider(place).await?;
    // What was shown must still be what the file says.
    let again = place.load(&Flags::default(), to_be_measured)?;
    if again.digests() != state.digests {
        bail!("the configuration changed while you were looking at it; look again");
    }
    sign(place, loaded, person.author(&card)).await?;
    tell("This folder is trusted. A change of what it reaches or allows is asked about again.");
    Ok(true)
}

/// Waits for the code of the card. A slip of the hand is asked about again.
async fn typed_code(code: &CardCode) -> bool {
    for left in (0..person::TRIES).rev() {
        hint(&code.trust_prompt());
        let Some(typed) = person::word().await else { return false };
        match code.read(&typed) {
            CardWord::Trust => return true,
            CardWord::No(_) | CardWord::Blank => return false,
            CardWord::Yes
            | CardWord::Always
            | CardWord::Edit
            | CardWord::Restore
            | CardWord::NoCode
            | CardWord::Unknown => {
                if left > 0 {
                    hint("To trust it, type the word with the code that stands above.");
                }
            }
        }
    }
    false
}

/// Writes a person's trust down: in the log, and outside of the project.
async fn sign(place: &Place, loaded: &LoadedConfig, person: Author<'_>) -> Result<()> {
    let ConfigDigests { reach, gate, rest: _ } = loaded.digests();
    let state = own_state_folder(&place.folder, TRUST)?;
    let opened = place.open()?;
    let before = opened.runtime.catch_up().await?.seq;
    let text = Digest::of(loaded.masked_text().as_bytes());
    let event = ProjectEvent::ConfigTrusted { reach, gate, text };
    let signed = |_: &Project| Ok::<_, SayFault>((vec![event.clone()], ()));
    opened.runtime.decide(person, signed).await?;
    let signed = recorded(opened.store.as_ref(), before, &event).await?;
    let (trust, folder) = (TrustFolder::at(&state), place.real_folder());
    let added = trust.add(&folder, &place.config_name(), signed, loaded.masked_text());
    added.with_context(|| format!("{} cannot be written", trust.file(&folder).display()))
}

/// Records behind a place that are looked at for the statement that was just signed.
const LOOKED_AT_MAX: usize = 100;

/// The statement of a record that was just written.
async fn recorded(store: &dyn Store, before: u64, event: &ProjectEvent) -> Result<SignedDecision> {
    let rows = store.read(&StreamId::Project, before + 1, LOOKED_AT_MAX).await?;
    let records = rows.iter().filter_map(|row| Record::<ProjectEvent>::decode(&row.bytes).ok());
    let mut signed = records.filter(|record| record.event == *event).filter_map(|one| one.decision);
    let newest = signed.next_back().context("the statement was not written to the log")?;
    Ok(*newest)
}
