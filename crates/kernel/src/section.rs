//! Decides which tools exist together: sections with their text, tools, policies and state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Agent;
use crate::digest::Digest;
use crate::event::Change;
use crate::fold::{Project, State, World};
use crate::key::Key;
use crate::names::{Family, GroupName, SectionName, ToolName};
use crate::policy::{Policy, SEEN_FAMILY};
use crate::tool::ToolSpec;

/// Where a family of keys is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// With the session; gone with it.
    Session,
    /// With the project; shared by all sessions.
    Project,
    /// In the project's folder.
    Files,
}

/// What counts the changes of the parts, in a whole that is an object.
pub const CHANGES: &str = "changes";

/// Who may change a family of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Calls may.
    Open,
    /// Only a person may; no call can stage a change.
    HumanOnly,
}

/// Makes a value written under an older layout one of the current layout.
pub type Upcast = Arc<dyn Fn(u16, Value) -> Value + Send + Sync>;

/// A family of keys that a section keeps.
#[derive(Clone)]
pub struct FamilySpec {
    /// Its name.
    pub name: Family,
    /// Where it is kept.
    pub home: Home,
    /// Who may change it.
    pub guard: Guard,
    /// Version of its layout; raise it when values change their shape.
    pub layout: u16,
    /// Brings older layouts up to date on read.
    pub upcast: Option<Upcast>,
    /// The whole these keys are parts of: a call that writes the whole may write them (ADR 0009).
    pub whole: Option<Key>,
}

impl FamilySpec {
    /// A family in its first layout that calls may change.
    pub fn new(name: Family, home: Home) -> Self {
        Self { name, home, guard: Guard::Open, layout: 1, upcast: None, whole: None }
    }

    /// The same, but only a person may change it.
    pub fn human_only(mut self) -> Self {
        self.guard = Guard::HumanOnly;
        self
    }

    /// The same as parts of a whole, which changes whenever one of them does. Best the whole counts:
    /// it is a number, or an object with the number [`CHANGES`]. Then an undo counts as a change too
    /// and takes nothing of the whole back, so that no number in it is given out twice.
    pub fn part_of(mut self, whole: Key) -> Self {
        self.whole = Some(whole);
        self
    }

    /// The same in a later layout, with what brings older values up to date.
    pub fn layout(mut self, layout: u16, upcast: Upcast) -> Self {
        (self.layout, self.upcast) = (layout, Some(upcast));
        self
    }
}

impl fmt::Debug for FamilySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FamilySpec({}, {:?}, {:?}, v{})", self.name, self.home, self.guard, self.layout)
    }
}

/// A word that prompts may use in braces, `{total_words}`, and what stands for it.
#[derive(Clone, Copy)]
pub struct Variable {
    /// Its name: lower-case letters and underscores.
    pub name: &'static str,
    /// What it says at the start of an iteration.
    pub show: fn(&World<'_>) -> String,
}

/// What a person changed in a file, as changes of the state; a sentence when it cannot be taken in.
/// The keys are of what a call wrote at the same moment: the person has not seen it, so that it is
/// missing in the file does not mean that it was removed.
pub type TakeIn = fn(&Project, &[u8], &[Key]) -> Result<Vec<Change>, String>;

/// What a person has locked and would have another content: from the state of the project as it is
/// and as it would be, the paths in order.
pub type Locked = fn(&State, &State) -> Vec<String>;

/// A file that shows state of the project and is kept current: calls write it together with the
/// state, and what a person writes into it is taken in as a person's change.
#[derive(Clone)]
pub struct Projection {
    /// The file.
    pub path: &'static str,
    /// Where calls keep the versions of the file, as a [`Shown`].
    pub key: Key,
    /// What a person changed, from the file as the person left it.
    pub take_in: TakeIn,
    /// The file as calls write it.
    pub render: fn(&Project) -> Vec<u8>,
}

/// The versions of a file that shows state, as calls leave them.
///
/// A settlement is appended before its file is put in place. In between, the file has the version
/// it had before, which is nobody's edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The version the file has once it is in place.
    pub file: Digest,
    /// The version it had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Digest>,
}

impl Projection {
    /// The versions that calls left.
    pub fn shown(&self, project: &Project) -> Option<Shown> {
        let kept = project.state.get(&self.key)?.as_one()?;
        Shown::deserialize(kept).ok()
    }

    /// Whether a key names this file, or its fingerprint.
    pub fn shows(&self, key: &Key) -> bool {
        *key == self.key || (key.family().as_str() == FILE_FAMILY && key.name() == self.path)
    }
}

/// What a section tells the model of the project as it is: at the end of the system prompt, and
/// between requests when it changes inside an iteration.
pub trait LiveText: Send + Sync {
    /// What is known of the project, shown once in each iteration.
    fn grounding(&self, agent: &Agent, world: &World<'_>) -> Option<String>;

    /// The prompts of the tools that the phase grants. When it changes inside an iteration, it is
    /// shown again.
    fn catalogue(&self, agent: &Agent, world: &World<'_>) -> Option<String>;

    /// Prompts that are due with the results of the last turn.
    fn with_results(&self, agent: &Agent, world: &World<'_>) -> Vec<String>;
}

/// A part of the prompt: its text, its tools, its policies and the state it keeps.
#[derive(Clone)]
pub struct Section {
    /// Its name.
    pub name: SectionName,
    /// Text for the system prompt.
    pub text: String,
    /// Tools, in the order they are shown.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Policies that govern these tools and no others.
    pub policies: Vec<Arc<dyn Policy>>,
    /// Families of keys it keeps.
    pub families: Vec<FamilySpec>,
    /// Words that prompts may use.
    pub variables: Vec<Variable>,
    /// What it tells of the project as it is.
    pub live: Option<Arc<dyn LiveText>>,
    /// What else of it decides what the model may do or is told: part of the agent's fingerprint. Null
    /// where there is nothing.
    pub face: Value,
    /// A file that shows its state.
    pub projection: Option<Projection>,
    /// What of its state a person has locked.
    pub locked: Option<Locked>,
    /// Whether it is there at all.
    pub enabled: bool,
}

impl Section {
    /// An enabled section with nothing in it.
    pub fn new(name: SectionName) -> Self {
        Self {
            name,
            text: String::new(),
            tools: Vec::new(),
            policies: Vec::new(),
            families: Vec::new(),
            variables: Vec::new(),
            live: None,
            face: Value::Null,
            projection: None,
            locked: None,
            enabled: true,
        }
    }
}

/// One tool with the policies that govern it, its section's first.
pub struct Entry {
    /// The tool.
    pub spec: Arc<ToolSpec>,
    /// The section that brought it.
    pub section: SectionName,
    /// The policies that govern it, in the order they judge.
    pub policies: Vec<Arc<dyn Policy>>,
}

/// The tools of all enabled sections, in declaration order.
pub struct Toolset {
    entries: Vec<Entry>,
    names: BTreeMap<ToolName, usize>,
    families: BTreeMap<Family, FamilySpec>,
    keepers: BTreeMap<Family, SectionName>,
    variables: Vec<Variable>,
    projections: Vec<(SectionName, Projection)>,
    locked: Vec<Locked>,
    texts: Vec<String>,
    live: Vec<Arc<dyn LiveText>>,
    faces: BTreeMap<SectionName, Value>,
}

/// The family of the project's files.
pub const FILE_FAMILY: &str = "file";

/// Families that are there without any section: the project's files, and what was read.
fn own_families() -> BTreeMap<Family, FamilySpec> {
    let own = [(FILE_FAMILY, Home::Files), (SEEN_FAMILY, Home::Project)];
    let named = own.into_iter().filter_map(|(name, home)| Some((Family::parse(name).ok()?, home)));
    named.map(|(name, home)| (name.clone(), FamilySpec::new(name, home))).collect()
}

/// Sections that cannot stand together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolsetRefusal {
    /// Two tools answer to one name.
    #[error("the name {name} is given twice: by section {first} and by section {second}")]
    NameTaken {
        /// The name or alias.
        name: ToolName,
        /// The section that has it.
        first: SectionName,
        /// The section that wants it too.
        second: SectionName,
    },
    /// Two sections keep a family of the same name.
    #[error("the state family {family} is kept twice: section {second} must use another name")]
    FamilyTaken {
        /// The family.
        family: Family,
        /// The section that wants it too.
        second: SectionName,
    },
    /// Two enabled sections have one name.
    #[error("section {0} is given twice")]
    SectionTwice(SectionName),
}

impl Toolset {
    /// Puts sections together; `everywhere` are the policies that govern all tools.
    pub fn build(
        sections: &[Section],
        everywhere: &[Arc<dyn Policy>],
    ) -> Result<Self, ToolsetRefusal> {
        let mut set = Self {
            entries: Vec::new(),
            names: BTreeMap::new(),
            families: own_families(),
            keepers: BTreeMap::new(),
            variables: Vec::new(),
            projections: Vec::new(),
            locked: Vec::new(),
            texts: Vec::new(),
            live: Vec::new(),
            faces: BTreeMap::new(),
        };
        let mut seen = Vec::new();
        for section in sections.iter().filter(|section| section.enabled) {
            if seen.contains(&&section.name) {
                return Err(ToolsetRefusal::SectionTwice(section.name.clone()));
            }
            seen.push(&section.name);
            set.add(section, everywhere)?;
        }
        Ok(set)
    }

    fn add(
        &mut self,
        section: &Section,
        everywhere: &[Arc<dyn Policy>],
    ) -> Result<(), ToolsetRefusal> {
        for family in &section.families {
            if self.families.insert(family.name.clone(), family.clone()).is_some() {
                let (family, second) = (family.name.clone(), section.name.clone());
                return Err(ToolsetRefusal::FamilyTaken { family, second });
            }
            self.keepers.insert(family.name.clone(), section.name.clone());
        }
        self.variables.extend(&section.variables);
        let projection = section.projection.clone();
        self.projections.extend(projection.map(|shown| (section.name.clone(), shown)));
        self.locked.extend(section.locked);
        self.live.extend(section.live.clone());
        if !section.face.is_null() {
            self.faces.insert(section.name.clone(), section.face.clone());
        }
        if !section.text.trim().is_empty() {
            self.texts.push(section.text.trim().to_owned());
        }
        for spec in &section.tools {
            let at = self.entries.len();
            for name in std::iter::once(&spec.name).chain(&spec.aliases) {
                let Some(taken) = self.names.insert(name.clone(), at) else { continue };
                let first = self.entries.get(taken).map_or(&section.name, |entry| &entry.section);
                return Err(ToolsetRefusal::NameTaken {
                    name: name.clone(),
                    first: first.clone(),
                    second: section.name.clone(),
                });
            }
            let governs = |policy: &&Arc<dyn Policy>| policy.governs(spec);
            let policies = section.policies.iter().chain(everywhere).filter(governs);
            self.entries.push(Entry {
                spec: Arc::clone(spec),
                section: section.name.clone(),
                policies: policies.cloned().collect(),
            });
        }
        Ok(())
    }

    /// Every tool, in declaration order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Place of a tool by its exact name or a declared alias.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The family a key belongs to.
    pub fn family(&self, family: &Family) -> Option<&FamilySpec> {
        self.families.get(family)
    }

    /// Every family of keys, in order.
    pub fn families(&self) -> impl Iterator<Item = &FamilySpec> {
        self.families.values()
    }

    /// The section that keeps a family; none for those that are there without any.
    pub fn keeper(&self, family: &Family) -> Option<&SectionName> {
        self.keepers.get(family)
    }

    /// A family by its name as text.
    pub(crate) fn family_named(&self, name: &str) -> Option<&FamilySpec> {
        self.families.get(name)
    }

    /// The words that the sections give to prompts.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The files that show state.
    pub fn projections(&self) -> impl Iterator<Item = &Projection> {
        self.projections.iter().map(|(_, projection)| projection)
    }

    /// The files that show state, each with the section whose state it is.
    pub fn shown(&self) -> &[(SectionName, Projection)] {
        &self.projections
    }

    /// Every path that a person has locked and that has another content in the second state.
    pub fn locked(&self, now: &State, then: &State) -> Vec<String> {
        self.locked.iter().flat_map(|locked| locked(now, then)).collect()
    }

    /// Whether a file shows the state of another section than a tool's own. What is found in such
    /// a file counts as a person's word, so no other tool may write there.
    pub(crate) fn shows_another(&self, tool: usize, key: &Key) -> bool {
        // Some file systems drop trailing dots and spaces, and some know no case.
        let name = key.name().trim_end_matches(['.', ' ']);
        let mut others = self.kept_from(tool);
        key.family().as_str() == FILE_FAMILY
            && others.any(|projection| projection.path.eq_ignore_ascii_case(name))
    }

    /// The files that a tool may not write, because they show the state of other sections.
    pub fn kept_from(&self, tool: usize) -> impl Iterator<Item = &Projection> {
        let own = self.entries.get(tool).map(|entry| &entry.section);
        let others = self.projections.iter().filter(move |(section, _)| Some(section) != own);
        others.map(|(_, projection)| projection)
    }

    /// The sections' texts, in order.
    pub fn texts(&self) -> &[String] {
        &self.texts
    }

    /// What sections tell of the project as it is, in order.
    pub fn live(&self) -> &[Arc<dyn LiveText>] {
        &self.live
    }

    /// What else of the sections is part of the agent's fingerprint.
    pub fn faces(&self) -> &BTreeMap<SectionName, Value> {
        &self.faces
    }

    /// The groups of the tools, in the order they first appear.
    pub fn groups(&self) -> Vec<&GroupName> {
        let mut groups: Vec<&GroupName> = Vec::new();
        for entry in &self.entries {
            if !groups.contains(&&entry.spec.group) {
                groups.push(&entry.spec.group);
            }
        }
        groups
    }
}
