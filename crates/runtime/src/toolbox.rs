//! Decides how a tool is made: from a description and a function, without a macro.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toolgate_kernel::names::ToolName;
use toolgate_kernel::section::Section;
use toolgate_kernel::tool::{SpecDraft, SpecRefusal, ToolSpec};

use crate::port::{Fault, Output, Promised, Tool, at_once};
use crate::transaction::Transaction;

/// The parameters of a tool that takes none.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// A section with the handlers of its tools.
pub struct Pack {
    /// What the kernel knows of it.
    pub section: Section,
    /// The tools that have a handler.
    pub tools: Vec<Arc<dyn Tool>>,
}

impl Pack {
    /// A pack whose tools are all handled.
    pub fn new(mut section: Section, tools: Vec<Arc<dyn Tool>>) -> Self {
        section.tools.extend(tools.iter().map(|tool| Arc::clone(tool.spec())));
        Self { section, tools }
    }
}

/// Handlers by name.
#[derive(Default, Clone)]
pub struct Toolbox {
    tools: BTreeMap<ToolName, Arc<dyn Tool>>,
}

impl Toolbox {
    /// The handlers of some packs.
    pub fn of(packs: &[Pack]) -> Self {
        let tools = packs.iter().flat_map(|pack| &pack.tools);
        Self { tools: tools.map(|t| (t.spec().name.clone(), Arc::clone(t))).collect() }
    }

    /// Takes in the handlers of one more pack.
    pub fn add(&mut self, pack: &Pack) {
        let tools = pack.tools.iter();
        self.tools.extend(tools.map(|tool| (tool.spec().name.clone(), Arc::clone(tool))));
    }

    /// The names of all tools that have a handler, in order.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }

    /// The handler of a tool.
    pub fn get(&self, name: &ToolName) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }
}

/// A tool whose handler answers at once.
pub fn tool<P, F>(draft: SpecDraft, handler: F) -> Result<Arc<dyn Tool>, SpecRefusal>
where
    P: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    F: Fn(&mut Transaction, P) -> Result<Output, Fault> + Send + Sync + 'static,
{
    let spec = Arc::new(draft.params::<P>().build()?);
    Ok(Arc::new(Prompt { spec, handler, params: PhantomData }))
}

/// A tool whose handler waits for something.
pub fn waiting_tool<P, F>(draft: SpecDraft, handler: F) -> Result<Arc<dyn Tool>, SpecRefusal>
where
    P: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    F: for<'a> Fn(&'a mut Transaction, P) -> BoxFuture<'a, Result<Output, Fault>>,
    F: Send + Sync + 'static,
{
    let spec = Arc::new(draft.params::<P>().build()?);
    Ok(Arc::new(Waiting { spec, handler, params: PhantomData }))
}

struct Prompt<P, F> {
    spec: Arc<ToolSpec>,
    handler: F,
    params: PhantomData<fn() -> P>,
}

impl<P, F> Tool for Prompt<P, F>
where
    P: DeserializeOwned + Send,
    F: Fn(&mut Transaction, P) -> Result<Output, Fault> + Send + Sync,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        at_once(tx.params().and_then(|params| (self.handler)(tx, params)))
    }
}

struct Waiting<P, F> {
    spec: Arc<ToolSpec>,
    handler: F,
    params: PhantomData<fn() -> P>,
}

impl<P, F> Tool for Waiting<P, F>
where
    P: DeserializeOwned + Send,
    F: for<'a> Fn(&'a mut Transaction, P) -> BoxFuture<'a, Result<Output, Fault>> + Send + Sync,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn run<'a>(&'a self, tx: &'a mut Transaction) -> Promised<'a, Result<Output, Fault>> {
        match tx.params() {
            Ok(params) => Either::Right((self.handler)(tx, params)),
            Err(fault) => at_once(Err(fault)),
        }
    }
}
