//! Decides how a domain tool is made: a list of actions, each with a handler of its own.
#![doc = include_str!("../../../docs/domain-tools.md")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolgate_kernel::flow::FlowLabels;
use toolgate_kernel::gate;
use toolgate_kernel::json::Document;
use toolgate_kernel::key::{Access, Key, KeyRefusal};
use toolgate_kernel::names::{Family, NameRefusal, SectionName};
use toolgate_kernel::section::{FamilySpec, Home, Section};
use toolgate_kernel::tool::{self, ACTION, Effect, Setting, SpecDraft, SpecRefusal, ToolSpec};
use toolgate_runtime::port::{Fault, Output, Promised, Tool, later};
use toolgate_runtime::{Pack, Transaction};

type Prompt<P> = Box<dyn Fn(&mut Transaction, P) -> Result<Output, Fault> + Send + Sync>;
type Waiting<P> = Box<
    dyn for<'a> Fn(&'a mut Transaction, P) -> BoxFuture<'a, Result<Output, Fault>> + Send + Sync,
>;

/// What does the work of one action.
enum Handler<P> {
    /// It answers at once.
    Prompt(Prompt<P>),
    /// It waits for something.
    Waiting(Waiting<P>),
}

/// A domain tool being described: one tool, one group and one section of the same name.
///
/// `P` has the parameters of all actions, every one of them optional. Which of them an action
/// requires is said with the action.
pub struct Domain<P> {
    name: String,
    draft: SpecDraft,
    actions: tool::Domain,
    handlers: BTreeMap<String, Handler<P>>,
}

impl<P: DeserializeOwned + JsonSchema + Send + Sync + 'static> Domain<P> {
    /// A domain that stages its changes and has no action yet.
    pub fn new(name: &str, about: &str) -> Self {
        let draft = SpecDraft::new(name, about)
            .group(name)
            .effect(Effect::Staged)
            .returns_schema(answer_schema())
            .params::<P>();
        let (name, actions) = (name.to_owned(), tool::Domain::default());
        Self { name, draft, actions, handlers: BTreeMap::new() }
    }

    /// An action whose handler answers at once. `required` are the parameters it cannot do without.
    pub fn action<F>(self, name: &str, about: &str, required: &[&str], handler: F) -> Self
    where
        F: Fn(&mut Transaction, P) -> Result<Output, Fault> + Send + Sync + 'static,
    {
        self.add(name, about, required, Handler::Prompt(Box::new(handler)))
    }

    /// An action whose handler waits for something.
    pub fn waiting_action<F>(self, name: &str, about: &str, required: &[&str], handler: F) -> Self
    where
        F: for<'a> Fn(&'a mut Transaction, P) -> BoxFuture<'a, Result<Output, Fault>>,
        F: Send + Sync + 'static,
    {
        self.add(name, about, required, Handler::Waiting(Box::new(handler)))
    }

    fn add(mut self, name: &str, about: &str, required: &[&str], handler: Handler<P>) -> Self {
        let required = required.iter().map(|field| (*field).to_owned()).collect();
        let (name_of, about) = (name.to_owned(), about.to_owned());
        let action = tool::Action { name: name_of, about, required, labels: None };
        self.actions.actions.push(action);
        self.handlers.insert(name.to_owned(), handler);
        self
    }

    /// What these actions bring into a session and where they send; see [`FlowLabels`].
    pub fn labels(mut self, actions: &[&str], labels: &FlowLabels) -> Self {
        for action in &mut self.actions.actions {
            if actions.contains(&action.name.as_str()) {
                action.labels = Some(labels.clone());
            }
        }
        self
    }

    /// Actions whose answers show what is kept, so that they are private.
    pub fn reads(self, actions: &[&str]) -> Self {
        self.labels(actions, &FlowLabels::private())
    }

    /// An action that is not offered here. Whoever calls it is told what would make it be.
    pub fn absent(mut self, name: &str, why: &str) -> Self {
        self.actions.absent.push((name.to_owned(), why.to_owned()));
        self
    }

    /// The fields that can be named; errors list them beside the actions.
    pub fn fields(mut self, fields: &[&str]) -> Self {
        self.actions.fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }

    /// Where the tool works; elsewhere its calls are refused before anything else is looked at.
    pub fn setting(mut self, setting: Setting) -> Self {
        self.actions.setting = setting;
        self
    }

    /// What rollback and resume can promise of all its actions.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.draft = self.draft.effect(effect);
        self
    }

    /// Which keys a call touches. `args` has the action too.
    pub fn touches<F>(mut self, touches: F) -> Self
    where
        F: Fn(&Document) -> Result<Vec<(Access, Key)>, KeyRefusal> + Send + Sync + 'static,
    {
        self.draft = self.draft.touches(touches);
        self
    }

    /// Whatever else can be said of a tool: aliases, examples, another group.
    pub fn describe(mut self, more: impl FnOnce(SpecDraft) -> SpecDraft) -> Self {
        self.draft = more(self.draft);
        self
    }

    /// The tool alone, for a pack that has several.
    pub fn tool(self) -> Result<Arc<dyn Tool>, SpecRefusal> {
        let Self { draft, actions, handlers, .. } = self;
        let spec = Arc::new(draft.domain(actions).build()?);
        Ok(Arc::new(DomainTool { spec, handlers }))
    }

    /// A pack of this one tool, with a text for the prompt and the families it keeps.
    pub fn pack<F>(self, text: &str, families: F) -> Result<Pack, SpecRefusal>
    where
        F: FnOnce(&str) -> Result<Vec<FamilySpec>, NameRefusal>,
    {
        let name = self.name.clone();
        section(&name, text, families)
            .and_then(|section| Ok(Pack::new(section, vec![self.tool()?])))
    }
}

/// A section with a text for the prompt and the families it keeps, for a pack of domain tools.
pub fn section<F>(name: &str, text: &str, families: F) -> Result<Section, SpecRefusal>
where
    F: FnOnce(&str) -> Result<Vec<FamilySpec>, NameRefusal>,
{
    let named = |source: NameRefusal| SpecRefusal::Name { tool: name.to_owned(), source };
    let mut section = Section::new(SectionName::parse(name).map_err(named)?);
    section.text = text.to_owned();
    section.families = families(name).map_err(named)?;
    Ok(section)
}

/// A family of one key that changes whenever one of its parts does, and the families of the parts
/// (ADR 0009). A call that declares a write of the whole may write them all.
pub fn whole_and_parts(whole: &str, parts: &[&str]) -> Result<Vec<FamilySpec>, NameRefusal> {
    whole_and_parts_in(Home::Project, whole, parts)
}

/// The same, kept elsewhere than with the project.
pub(crate) fn whole_and_parts_in(
    home: Home,
    whole: &str,
    parts: &[&str],
) -> Result<Vec<FamilySpec>, NameRefusal> {
    let mut families = vec![FamilySpec::new(Family::parse(whole)?, home)];
    for part in parts {
        let family = FamilySpec::new(Family::parse(part)?, home);
        // A family's name alone is always a key.
        families.extend(Key::parse(whole).ok().map(|key| family.part_of(key)));
    }
    Ok(families)
}

/// A tool that hands each call to the handler of its action.
struct DomainTool<P> {
    spec: Arc<ToolSpec>,
    handlers: BTreeMap<String, Handler<P>>,
}

impl<P: DeserializeOwned + Send + Sync + 'static> Tool for DomainTool<P> {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        later(async move {
            let action = tx.call().args().text(ACTION).unwrap_or_default();
            // The gate lets no other action pass.
            let Some(handler) = self.handlers.get(action) else {
                return Err(Fault::invalid(format!("Invalid action '{action}'")).at(ACTION));
            };
            let params = tx.params()?;
            match handler {
                Handler::Prompt(handler) => handler(tx, params),
                Handler::Waiting(handler) => handler(tx, params).await,
            }
        })
    }
}

/// An answer: an object whose first field is its `type`. Fields that are not set are null.
pub fn answer(kind: &str, message: &str, data: &impl Serialize) -> Result<Output, Fault> {
    let data = serde_json::to_value(data)
        .map_err(|error| Fault::failed(format!("The answer is not JSON: {error}.")))?;
    let mut whole = Map::new();
    whole.insert("type".to_owned(), kind.into());
    match data {
        Value::Object(fields) => whole.extend(fields),
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Fault::failed("The answer of a domain tool is an object."));
        }
    }
    Output::data(message, &whole)
}

/// How many calls with this action came before this one in the same model reply. Calls that the
/// gate refused do not count; calls that failed do. A call whose arguments had to be mended to be
/// read counts all the same.
pub fn earlier(tx: &Transaction, action: &str) -> usize {
    let same = |name: Option<String>| name.is_none_or(|name| name == action);
    tx.earlier().filter(|raw| same(gate::meant_action(tx.agent(), raw))).count()
}

/// Whether a text is there and not blank: the text, without the space around it.
pub fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Refuses a text that is too long. `field` is the parameter.
pub(crate) fn check_length(field: &str, text: &str, chars_max: usize) -> Result<(), Fault> {
    let chars = text.chars().count();
    if chars <= chars_max {
        return Ok(());
    }
    let message = format!("{field} has {chars} characters; use at most {chars_max}");
    Err(Fault::invalid(message).at(field).with("field", field))
}

/// As many items as an answer has room for, and how many are left out.
pub(crate) fn fitting<T: Serialize>(
    tx: &Transaction,
    items: impl IntoIterator<Item = T>,
) -> Result<(Vec<Value>, usize), Fault> {
    // Half of the room: the envelope and its message need some too.
    let mut room = usize::try_from(tx.agent().limits.result_bytes_max / 2).unwrap_or(usize::MAX);
    let (mut shown, mut left) = (Vec::new(), 0);
    for item in items {
        let item = serde_json::to_value(item)
            .map_err(|error| Fault::failed(format!("The answer is not JSON: {error}.")))?;
        let bytes = item.to_string().len();
        if left > 0 || bytes > room {
            left += 1;
        } else {
            room -= bytes;
            shown.push(item);
        }
    }
    Ok((shown, left))
}

/// A key that a domain keeps something under.
pub(crate) fn key(text: &str) -> Result<Key, Fault> {
    Key::parse(text).map_err(|refusal| Fault::failed(refusal.to_string()))
}

/// Every answer says what it is.
fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "type": { "type": "string" } },
        "required": ["type"],
        "additionalProperties": true,
    })
}
