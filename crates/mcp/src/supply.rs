//! Decides what a session gets from MCP servers: each is asked when a phase first needs it, and what
//! it offers is looked at before anybody sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::Agent;
use toolgate_kernel::names::{PhaseName, SectionName, ServerName, ToolName, WIRE_BYTES_MAX};
use toolgate_kernel::pin::{Pinned, Pins};
use toolgate_kernel::section::Section;
use toolgate_runtime::port::{Supplier, Supply, SupplyFault, Tool, Wanted};
use toolgate_runtime::{Pack, Runtime, Toolbox};
use toolgate_sandbox::IsolationLevel;

use crate::client::{Asking, Listed, Pace, Registry, ServerFault};
use crate::offer::{Names, Terms, offer, shared_names};
use crate::remote::Remote;

/// Makes an agent of everything else and the sections of the servers.
pub type Build = Box<dyn Fn(Vec<Section>) -> Result<Agent, String> + Send + Sync>;

/// The tools of all configured servers, for the sessions of a project.
pub struct Supplies {
    registry: Arc<Registry>,
    runtime: Arc<Runtime>,
    terms: BTreeMap<ServerName, Terms>,
    own: Toolbox,
    build: Build,
    /// Whether nothing was ever asked of a server, so that sessions without any pay nothing.
    untouched: AtomicBool,
    state: Mutex<State>,
}

/// What was found out so far.
#[derive(Default)]
struct State {
    /// The news that were looked at.
    version: u64,
    /// The pins that were looked at.
    pins: Pins,
    /// When what people decided was read last.
    heard: Option<Instant>,
    /// What each server that was asked said last.
    lists: BTreeMap<ServerName, Said>,
    /// The servers that are being asked.
    asking: BTreeMap<ServerName, Asking>,
    /// What was made of it; nothing when there is news.
    made: Option<Arc<Made>>,
    /// What was made before.
    kept: Option<Arc<Made>>,
}

impl State {
    /// Takes what servers have said that were asked.
    fn gather(&mut self) {
        let said = |(server, asking): (&ServerName, &Asking)| {
            Some((server.clone(), asking.clone().now_or_never()?))
        };
        let said: Vec<_> = self.asking.iter().filter_map(said).collect();
        for (server, listed) in said {
            self.asking.remove(&server);
            if !is_same(self.lists.get(&server), &listed) {
                self.made = None;
            }
            self.lists.insert(server, listed);
        }
    }
}

type Said = Result<Arc<Listed>, ServerFault>;

fn is_same(before: Option<&Said>, now: &Said) -> bool {
    match (before, now) {
        (Some(Ok(before)), Ok(now)) => Arc::ptr_eq(before, now),
        (Some(Err(before)), Err(now)) => before == now,
        (Some(_) | None, _) => false,
    }
}

/// Milliseconds between two looks at what people decided.
const HEAR_MS: u64 = 1_000;

/// What servers offer, before an agent is made of it.
struct Offered {
    sections: Vec<Section>,
    tools: Toolbox,
    notes: Vec<String>,
    down: BTreeMap<ServerName, ServerFault>,
    isolation: BTreeMap<ServerName, String>,
}

struct Made {
    supply: Supply,
    /// Which servers are down, and why.
    down: BTreeMap<ServerName, ServerFault>,
}

impl Supplies {
    /// The tools of these servers. `own` are the handlers of all other tools.
    pub fn new(
        registry: Arc<Registry>,
        runtime: Arc<Runtime>,
        terms: BTreeMap<ServerName, Terms>,
        own: Toolbox,
        build: Build,
    ) -> Self {
        let (untouched, state) = (AtomicBool::new(true), Mutex::default());
        Self { registry, runtime, terms, own, build, untouched, state }
    }

    async fn look(
        &self,
        agent: &Agent,
        phase: &PhaseName,
        wanted: Wanted<'_>,
    ) -> Result<Option<Supply>, SupplyFault> {
        let fault = |reason| SupplyFault::new(phase, reason);
        let mut state = self.state.lock().await;
        self.hear(&mut state).await.map_err(fault)?;
        self.ask(&mut state, agent, phase, wanted);
        loop {
            state.gather();
            let needed = self.needed(&state, agent, phase, wanted);
            if needed.is_empty() {
                break;
            }
            // Whoever needs others, or none, goes on meanwhile.
            drop(state);
            join_all(needed).await;
            state = self.state.lock().await;
        }
        let project = self.runtime.project().0;
        let made = match &state.made {
            Some(made) if state.pins.same(&project.pins) => Arc::clone(made),
            Some(_) | None => {
                let made = self.make(&state, &project.pins).await.map_err(fault)?;
                state.pins = self.runtime.project().0.pins.clone();
                // Whoever works with the same tools already need not change.
                let before = state.kept.take().filter(|before| before.same(&made));
                let made = before.unwrap_or_else(|| Arc::new(made));
                (state.made, state.kept) = (Some(Arc::clone(&made)), Some(Arc::clone(&made)));
                made
            }
        };
        self.check(&made, &state, phase)?;
        let known = std::ptr::eq(agent, Arc::as_ptr(&made.supply.agent));
        Ok((!known).then(|| made.supply.clone()))
    }

    /// Reads what a person decided meanwhile in another process, once in a while.
    async fn hear(&self, state: &mut State) -> Result<(), String> {
        let now = tokio::time::Instant::now();
        let long = Duration::from_millis(HEAR_MS);
        if state.heard.is_some_and(|heard| now.duration_since(heard) < long) {
            return Ok(());
        }
        state.heard = Some(now);
        self.runtime.catch_up().await.map(drop).map_err(|fault| fault.to_string())
    }

    /// Asks the servers of a phase, and those that have news. Nobody is waited for here.
    fn ask(&self, state: &mut State, agent: &Agent, phase: &PhaseName, wanted: Wanted<'_>) {
        let version = self.registry.version();
        let is_asked = |server: &&ServerName| {
            state.lists.contains_key(*server) || state.asking.contains_key(*server)
        };
        let mut servers: BTreeSet<ServerName> =
            agent.servers(phase).filter(|server| !is_asked(server)).cloned().collect();
        if version != state.version {
            let known = state.lists.keys().filter(|server| !state.asking.contains_key(*server));
            servers.extend(known.cloned());
            state.version = version;
        }
        let again = self.down_again(state, agent, phase, wanted);
        for server in servers.union(&again) {
            let pace = if again.contains(server) { Pace::AtOnce } else { Pace::InTime };
            let asking = self.registry.ask(server, pace);
            state.asking.insert(server.clone(), asking);
        }
    }

    /// The servers that calls need which have to be sent again, and that are not there.
    fn down_again(
        &self,
        state: &State,
        agent: &Agent,
        phase: &PhaseName,
        wanted: Wanted<'_>,
    ) -> BTreeSet<ServerName> {
        let Wanted::Again(names) = wanted else { return BTreeSet::new() };
        let is_named =
            |server: &&ServerName| names.iter().any(|name| self.may_be_of(agent, name, server));
        let is_down = |server: &&ServerName| {
            !matches!(state.lists.get(*server), Some(Ok(_))) && !state.asking.contains_key(*server)
        };
        agent.servers(phase).filter(is_named).filter(is_down).cloned().collect()
    }

    /// The servers that are being asked and must be waited for.
    fn needed(
        &self,
        state: &State,
        agent: &Agent,
        phase: &PhaseName,
        wanted: Wanted<'_>,
    ) -> Vec<Asking> {
        if state.asking.is_empty() {
            return Vec::new();
        }
        let declared = agent.phase(phase).map(|phase| phase.required.as_slice());
        let requires = |server: &ServerName| {
            let mut tools = declared.unwrap_or_default().iter().filter_map(ToolName::of_server);
            self.terms.get(server).is_some_and(|terms| terms.required)
                || tools.any(|(other, _)| other == server.as_str())
        };
        let is_named = |server: &ServerName| match wanted {
            Wanted::All => true,
            Wanted::AtHand => false,
            Wanted::Calls(names) | Wanted::Again(names) => {
                names.iter().any(|name| self.may_be_of(agent, name, server))
            }
        };
        // Who only looks at what is there is not held up by what the phase requires either.
        let is_needed = |server: &ServerName| {
            wanted != Wanted::AtHand && (requires(server) || is_named(server))
        };
        let needed = agent.servers(phase).filter(|server| is_needed(server));
        needed.filter_map(|server| state.asking.get(server).cloned()).collect()
    }

    /// Whether a name could be that of a tool of this server.
    fn may_be_of(&self, agent: &Agent, name: &str, server: &ServerName) -> bool {
        let entry = agent.toolset.find(name).and_then(|place| agent.toolset.entries().get(place));
        if let Some(entry) = entry {
            let own = entry.spec.name.of_server();
            return own.is_some_and(|(other, _)| other == server.as_str());
        }
        if ToolName::begins_with_server(name, server) {
            return true;
        }
        // A name that is too long says only with its list whose it is.
        let long = name.len() >= WIRE_BYTES_MAX && name.starts_with("mcp__");
        let short = self.terms.get(server).is_some_and(|terms| terms.short_names);
        long || (short && !name.starts_with("mcp"))
    }

    /// Makes an agent with what the servers offer, and writes down what was new.
    async fn make(&self, state: &State, pins: &Pins) -> Result<Made, String> {
        let (made, pinned) = self.offered(state, pins)?;
        if pinned.is_empty() {
            return self.built(made);
        }
        // What is shown must be what the log says was seen.
        // Whoever waits for tools may not be looked at for a while, as when the same driver settles a
        // call. What it holds of the project meanwhile would never be let go.
        let runtime = Arc::clone(&self.runtime);
        let pinning = tokio::spawn(async move { runtime.pin(&Actor::System, pinned).await });
        let kept = pinning.await.map_err(|fault| fault.to_string())?;
        kept.map_err(|fault| format!("what servers offer cannot be written down: {fault}"))?;
        // Only now it is known of every name whether two have it.
        let pins = self.runtime.project().0.pins.clone();
        self.built(self.offered(state, &pins)?.0)
    }

    fn built(&self, offered: Offered) -> Result<Made, String> {
        let Offered { sections, tools, notes, down, isolation } = offered;
        let mut agent = (self.build)(sections)?;
        let in_our_words =
            |(server, fault): (&ServerName, &ServerFault)| (server.clone(), fault.in_our_words());
        agent.down = down.iter().map(in_our_words).collect();
        let agent = Arc::new(agent);
        Ok(Made { supply: Supply { agent, tools, notes, isolation }, down })
    }

    /// What the servers offer, with what is new of it.
    fn offered(&self, state: &State, pins: &Pins) -> Result<(Offered, Vec<Pinned>), String> {
        let (mut sections, mut tools) = (Vec::new(), self.own.clone());
        let (mut notes, mut pinned, mut down) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut isolation = BTreeMap::new();
        let taken = self.own.names().map(|name| name.to_string()).collect();
        let mut names = Names { taken, shared: shared_names(&self.terms, pins) };
        for (server, listed) in &state.lists {
            let listed = match listed {
                Ok(listed) => listed,
                Err(fault) => {
                    notes.push(format!(
                        "MCP server {server} cannot be used, and its tools are left out: {fault}"
                    ));
                    down.insert(server.clone(), fault.clone());
                    continue;
                }
            };
            if let Some(level) = &listed.isolation {
                isolation.insert(server.clone(), level.to_string());
                notes.extend(not_isolated(server, level));
            }
            let terms = self.terms.get(server).cloned().unwrap_or_default();
            let offered = offer(server, listed, &terms, pins, &names);
            names.taken.extend(offered.tools.iter().map(|(spec, _)| spec.wire.to_string()));
            notes.extend(offered.notes);
            pinned.extend(offered.pinned);
            let handlers = offered.tools.into_iter().map(|(spec, found)| {
                let (server, registry) = (server.clone(), Arc::clone(&self.registry));
                Arc::new(Remote { spec, server, found, registry }) as Arc<dyn Tool>
            });
            let name = SectionName::parse(&section_name(server)).map_err(|e| e.to_string())?;
            let pack = Pack::new(Section::new(name), handlers.collect());
            tools.add(&pack);
            sections.push(pack.section);
        }
        Ok((Offered { sections, tools, notes, down, isolation }, pinned))
    }

    /// Whether everything is there without which the phase must not begin.
    fn check(&self, made: &Made, state: &State, phase: &PhaseName) -> Result<(), SupplyFault> {
        let agent = &made.supply.agent;
        for server in agent.servers(phase) {
            let required = self.terms.get(server).is_some_and(|terms| terms.required);
            if let (true, Some(why)) = (required, made.down.get(server)) {
                let needs = |why: String| format!("it needs the MCP server {server}: {why}");
                let (reason, told) = (needs(why.to_string()), needs(why.in_our_words()));
                return Err(SupplyFault { phase: phase.clone(), reason, told });
            }
        }
        let Some(wanted) = agent.phase(phase) else { return Ok(()) };
        let is_known = |tool: &&ToolName| {
            let mut waiting = state.asking.keys().filter(|it| !state.lists.contains_key(*it));
            tool.of_server().is_some_and(|(server, _)| waiting.all(|it| it.as_str() != server))
        };
        for tool in wanted.required.iter().filter(is_known) {
            let at = agent.toolset.find(tool.as_str());
            if !at.is_some_and(|at| agent.grants(phase, at, None)) {
                let about = |note: &&String| note.contains(tool.as_str());
                let why = made.supply.notes.iter().find(about).map(String::as_str);
                let down = tool.of_server().and_then(|(server, _)| made.down.get_key_value(server));
                let down = |words: fn(&ServerFault) -> String| {
                    down.map(|(server, fault)| format!("MCP server {server}: {}", words(fault)))
                };
                let needs = |why: Option<String>| {
                    let why = why.unwrap_or_else(|| "its server does not offer it".to_owned());
                    format!("it needs {tool}: {why}")
                };
                let reason = needs(why.map(str::to_owned).or_else(|| down(ToString::to_string)));
                let told = needs(down(ServerFault::in_our_words));
                return Err(SupplyFault { phase: phase.clone(), reason, told });
            }
        }
        Ok(())
    }
}

impl Made {
    fn same(&self, other: &Self) -> bool {
        let versions = |made: &Self| -> Vec<_> {
            let entries = made.supply.agent.toolset.entries().iter();
            entries.map(|entry| entry.spec.version).collect()
        };
        self.supply.notes == other.supply.notes
            && self.supply.isolation == other.supply.isolation
            && versions(self) == versions(other)
    }
}

/// What a person is told of a program that can read whatever its user can read.
fn not_isolated(server: &ServerName, level: &IsolationLevel) -> Option<String> {
    let IsolationLevel::None(why) = level else { return None };
    Some(format!("MCP server {server} is NOT isolated: {why}. It can read your keys and this log"))
}

/// Sections of servers have names that no pack has.
pub(crate) fn section_name(server: &ServerName) -> String {
    format!("mcp-{server}").chars().take(64).collect()
}

impl Supplier for Supplies {
    fn supply<'a>(
        &'a self,
        agent: &'a Agent,
        phase: &'a PhaseName,
        wanted: Wanted<'a>,
    ) -> BoxFuture<'a, Result<Option<Supply>, SupplyFault>> {
        Box::pin(async move {
            if self.untouched.load(Ordering::Acquire) && agent.servers(phase).next().is_none() {
                return Ok(None);
            }
            self.untouched.store(false, Ordering::Release);
            self.look(agent, phase, wanted).await
        })
    }
}
