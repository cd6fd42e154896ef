//! Decides which tool a name means among those that are granted; never by likeness. And what was said
//! to the model that is asked.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;
use toolgate_kernel::names::ToolName;
use toolgate_kernel::plan::Plan;
use toolgate_kernel::tool::ToolSpec;

/// The tools that are granted, with their schemas where these are known.
#[derive(Debug, Clone, Default)]
pub struct Granted<'a> {
    tools: Vec<Tool<'a>>,
    /// The request that is answered.
    asked: Option<&'a Plan>,
}

#[derive(Debug, Clone, Copy)]
struct Tool<'a> {
    /// The name the model is shown.
    name: &'a str,
    /// The name in configuration and log.
    own: Option<&'a ToolName>,
    aliases: &'a [ToolName],
    input: Option<&'a Value>,
}

impl Granted<'_> {
    /// Whether the tool of this name is known to take arguments.
    pub(super) fn takes_arguments(&self, name: &str) -> bool {
        let input = self.tool(name).and_then(|tool| tool.input);
        let fields = input.and_then(|input| input.get("properties")?.as_object());
        input.is_some() && fields.is_none_or(|fields| !fields.is_empty())
    }
}

impl<'a> From<&'a [ToolName]> for Granted<'a> {
    fn from(names: &'a [ToolName]) -> Self {
        let tool =
            |name: &'a ToolName| Tool { name: name.as_str(), own: None, aliases: &[], input: None };
        Self { tools: names.iter().map(tool).collect(), asked: None }
    }
}

impl<'a> From<&'a Vec<ToolName>> for Granted<'a> {
    fn from(names: &'a Vec<ToolName>) -> Self {
        names.as_slice().into()
    }
}

impl<'a> From<&'a [Arc<ToolSpec>]> for Granted<'a> {
    fn from(specs: &'a [Arc<ToolSpec>]) -> Self {
        let tool = |spec: &'a Arc<ToolSpec>| Tool {
            name: spec.wire.as_str(),
            own: Some(&spec.name),
            aliases: &spec.aliases,
            input: Some(&spec.input),
        };
        Self { tools: specs.iter().map(tool).collect(), asked: None }
    }
}

impl<'a> From<&'a Vec<Arc<ToolSpec>>> for Granted<'a> {
    fn from(specs: &'a Vec<Arc<ToolSpec>>) -> Self {
        specs.as_slice().into()
    }
}

impl<'a> From<&'a Plan> for Granted<'a> {
    fn from(plan: &'a Plan) -> Self {
        Self { asked: Some(plan), ..Self::from(&plan.tools) }
    }
}

impl Granted<'_> {
    /// Everything that a person or a tool said to the model, results as JSON.
    pub(super) fn said(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.asked.into_iter().flat_map(|plan| {
            let words = std::iter::once(&plan.input).chain(&plan.feedback);
            let notes = plan.turns.iter().flat_map(|turn| turn.notes.iter());
            let told = plan.turns.iter().flat_map(|turn| turn.told.values());
            let told = told.map(|told| Cow::Owned(told.envelope.to_json()));
            words.chain(notes).map(|text| Cow::Borrowed(text.as_ref())).chain(told)
        })
    }

    /// Whether no tool is granted.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Whether a name or a declared alias is written exactly so.
    pub(super) fn has_exactly(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.is(name))
    }

    /// The one tool a name means when blanks around it, case, `-` and `.` are of no account.
    pub(super) fn meant(&self, name: &str) -> Option<&str> {
        let wanted = folded(name);
        let mut meant = self.tools.iter().filter(|tool| folded(tool.name) == wanted);
        let only = meant.next()?;
        meant.next().is_none().then_some(only.name)
    }

    /// Whether a name means a granted tool, exactly or in another spelling.
    pub(super) fn has(&self, name: &str) -> bool {
        self.has_exactly(name) || self.meant(name).is_some()
    }

    /// The schema of an argument; absent when it is not known.
    pub(super) fn field(&self, name: &str, field: &str) -> Option<&Value> {
        self.tool(name)?.input?.get("properties")?.get(field)
    }

    /// The tool a name means, exactly or in another spelling.
    fn tool(&self, name: &str) -> Option<&Tool<'_>> {
        self.tools.iter().find(|tool| tool.is(name)).or_else(|| {
            let meant = self.meant(name)?;
            self.tools.iter().find(|tool| tool.name == meant)
        })
    }

    /// Whether two names could mean one tool: they are one in another spelling, or a granted tool has
    /// both. The name that a server has for its tool counts too, though it is not called by it.
    pub(super) fn may_be_one(&self, one: &str, other: &str) -> bool {
        let (one, other) = (squeezed(one), squeezed(other));
        let has = |tool: &Tool<'_>, name: &str| tool.names().any(|known| squeezed(known) == name);
        one == other || self.tools.iter().any(|tool| has(tool, &one) && has(tool, &other))
    }
}

impl Tool<'_> {
    fn is(&self, name: &str) -> bool {
        let own = self.own.is_some_and(|own| own.as_str() == name);
        self.name == name || own || self.aliases.iter().any(|alias| alias.as_str() == name)
    }

    /// Every name it has, and the one its server has for it.
    fn names(&self) -> impl Iterator<Item = &str> {
        let of_server = self.own.and_then(|own| own.of_server()).map(|(_, tool)| tool);
        let own = self.own.map(ToolName::as_str);
        let aliases = self.aliases.iter().map(ToolName::as_str);
        aliases.chain([self.name]).chain(own).chain(of_server)
    }
}

/// A name in the one spelling in which names are compared.
pub(super) fn folded(name: &str) -> String {
    let fold = |c: char| if matches!(c, '-' | '.') { '_' } else { c.to_ascii_lowercase() };
    name.trim().chars().map(fold).collect()
}

/// A name without case, and with one sign for whatever stands between its words.
fn squeezed(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
impl<'a> Granted<'a> {
    /// Names, with the schemas of some of them.
    pub(super) fn with_schemas(
        names: &'a [ToolName],
        schemas: &'a std::collections::BTreeMap<String, Value>,
    ) -> Self {
        let mut granted = Self::from(names);
        granted.tools.iter_mut().for_each(|tool| tool.input = schemas.get(tool.name));
        granted
    }
}
