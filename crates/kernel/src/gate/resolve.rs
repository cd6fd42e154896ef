//! Decides which tool a name means, and whether the caller may see it.

use std::sync::Arc;

use super::refusal::Refusal;
use crate::agent::{Agent, ToolAudience};
use crate::envelope::{Code, Trouble};
use crate::event::{Conversation, Stage};
use crate::fold::{OpenCall, Session};
use crate::names::{PhaseName, ServerName, ToolName, nearest};
use crate::pin::{Pin, Pins};
use crate::request::RequestOptions;
use crate::seeded::{Bug, seeded};
use crate::tool::{Setting, ToolSpec};

/// A tool that may be called, with the phase whose tools were shown.
pub(super) struct Resolved {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) place: usize,
    pub(super) shown_in: PhaseName,
}

/// Names listed in a refusal.
const AVAILABLE_MAX: usize = 64;

pub(super) fn resolve(
    agent: &Agent,
    session: &Session,
    pins: &Pins,
    open: &OpenCall,
) -> Result<Resolved, Refusal> {
    let Some(phase) = &session.phase else {
        return Err(unknown(&open.raw.name, Vec::new()));
    };
    let Some(shown_in) = &open.shown_in else { return Err(none_shown(&open.raw.name)) };
    let who = ToolAudience::from(session);
    let found = agent.toolset.find(&open.raw.name);
    let entry = found.and_then(|place| Some((place, agent.toolset.entries().get(place)?)));
    let Some((place, entry)) = entry else {
        let available = available(agent, who, phase, shown_in);
        let absent = Absent { agent, who, pins, phases: [phase, shown_in] };
        return Err(match absent.why(&open.raw.name) {
            Some(trouble) => Refusal::new(Stage::Resolve, trouble.allowing(available)),
            None => unknown(&open.raw.name, available),
        });
    };
    let granted = agent.grants(phase, place, who) && agent.grants(shown_in, place, who);
    if !granted && !seeded(Bug::ListOnlyVisibility) {
        let available = available(agent, who, phase, shown_in);
        return Err(withheld(agent, who, place, phase, available));
    }
    Ok(Resolved { spec: Arc::clone(&entry.spec), place, shown_in: shown_in.clone() })
}

/// Refuses a call of a tool that works only where an agent speaks in a group, elsewhere.
pub(super) fn in_its_setting(
    agent: &Agent,
    session: &Session,
    spec: &ToolSpec,
) -> Result<(), Refusal> {
    match spec.domain.as_ref().map(|domain| domain.setting) {
        None | Some(Setting::Anywhere) => return Ok(()),
        Some(Setting::AgentInGroup) => {}
    }
    let missing = match (&session.agent, session.conversation) {
        (Some(id), _) if !agent.agents.contains_key(id) => {
            format!("The agent {id} of this session is not declared any more.")
        }
        (Some(_), Conversation::Group) => return Ok(()),
        (_, Conversation::Group | Conversation::Direct) => {
            "A person starts one with `toolgate chat --agent NAME --conversation group`.".to_owned()
        }
    };
    let message =
        format!("This tool only works in group conversations with an agent context. {missing}");
    let trouble = Trouble::new(Code::CONTEXT_MISSING, message);
    Err(Refusal::new(Stage::Resolve, trouble))
}

/// What may be called: shown when the call was written AND granted now.
pub(super) fn available(
    agent: &Agent,
    who: ToolAudience<'_>,
    phase: &PhaseName,
    shown_in: &PhaseName,
) -> Vec<String> {
    let names = |phase| agent.visible(phase, who).map(|entry| entry.spec.wire.as_str());
    let shown: Vec<&str> = names(shown_in).collect();
    let granted = names(phase);
    let both = granted.filter(|name| shown.contains(name));
    both.take(AVAILABLE_MAX).map(str::to_owned).collect()
}

fn unknown(name: &str, available: Vec<String>) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    let mut message = format!("No tool is named {shown:?}.");
    match nearest(name, available.iter().map(String::as_str)) {
        Some(near) => message.push_str(&format!(" Did you mean {near}?")),
        None => message.push_str(" Use one of the available tools, by its exact name."),
    }
    let trouble = Trouble::new(Code::TOOL_UNKNOWN, message).allowing(available);
    Refusal::new(Stage::Resolve, trouble)
}

/// Why a tool of a server is not there, for callers who might use it. Nobody else learns of it.
struct Absent<'a> {
    agent: &'a Agent,
    who: ToolAudience<'a>,
    pins: &'a Pins,
    /// All of them must grant it.
    phases: [&'a PhaseName; 2],
}

impl<'a> Absent<'a> {
    fn why(&self, name: &str) -> Option<Trouble> {
        if let Some(tool) = self.seen(name, |_, pin| pin.held.is_some()) {
            return Some(is_held(tool));
        }
        if let Some(tool) = self.seen(name, |_, pin| pin.refused.is_some()) {
            return Some(is_refused(tool));
        }
        let down = |tool: &ToolName, _: &Pin| self.down(tool).is_some();
        let tool = self.seen(name, down).cloned().or_else(|| self.unseen(name))?;
        let (server, why) = self.down(&tool)?;
        Some(is_down(&tool, server, why))
    }

    fn grants(&self, tool: &ToolName) -> bool {
        self.phases.iter().all(|phase| self.agent.grants_outside(phase, tool, self.who))
    }

    fn down(&self, tool: &ToolName) -> Option<(&'a ServerName, &'a str)> {
        let (server, why) = self.agent.down.get_key_value(tool.of_server()?.0)?;
        Some((server, why))
    }

    /// A tool that was seen, where a name means one: in full, or by its short name where no other is
    /// meant.
    fn seen(&self, name: &str, which: impl Fn(&ToolName, &Pin) -> bool) -> Option<&'a ToolName> {
        let wanted = |(tool, pin): &(&ToolName, &Pin)| which(tool, pin) && self.grants(tool);
        let found: Vec<&ToolName> = self.pins.iter().filter(wanted).map(|(tool, _)| tool).collect();
        let full = |tool: &&&ToolName| tool.as_str() == name || tool.on_wire().as_str() == name;
        if let Some(tool) = found.iter().find(full) {
            return Some(tool);
        }
        let short = |tool: &&&ToolName| tool.of_server().is_some_and(|(_, tool)| tool == name);
        // A name that tools of two servers have is nobody's.
        found.iter().find(short).filter(|_| !self.pins.shared(|_| true).contains(name)).copied()
    }

    /// A tool of a server that is down, by its full name: nobody can say whether there is one.
    fn unseen(&self, name: &str) -> Option<ToolName> {
        let of = |server: &ServerName| {
            let rest = |open: &str, close: &str| {
                name.strip_prefix(open)?.strip_prefix(server.as_str())?.strip_prefix(close)
            };
            let own = rest("mcp:", ":").or_else(|| rest("mcp__", "__"))?;
            ToolName::remote(server, own).ok().filter(|tool| self.grants(tool))
        };
        self.agent.down.keys().find_map(of)
    }
}

/// What is told of a tool whose server is down.
pub fn is_down(tool: &ToolName, server: &ServerName, why: &str) -> Trouble {
    let message = format!(
        "Tool '{tool}' cannot be used now: MCP server {server} is down ({why}). Nothing of the call \
         ran. The server is tried again by itself: make the call again later, or go on without it. \
         A person sees more with `toolgate tools --connect`."
    );
    Trouble::new(Code::TOOL_UNAVAILABLE, message)
}

/// What is told of a tool that waits for a person.
pub fn is_held(tool: &ToolName) -> Trouble {
    let message = format!(
        "Tool '{tool}' is held: its definition is new or has changed, and a person must look at it \
         first. A person sees it with `toolgate mcp pins diff {tool}`, and decides with `toolgate \
         mcp pins accept {tool}` or `reject`. Go on without it."
    );
    Trouble::new(Code::TOOL_HELD, message)
}

/// What is told of a tool that a person rejected.
fn is_refused(tool: &ToolName) -> Trouble {
    let message = format!(
        "Tool '{tool}' is held: a person looked at its definition and rejected it. Only a person \
         changes that, with `toolgate mcp pins accept {tool}`. Go on without it."
    );
    Trouble::new(Code::TOOL_HELD, message)
}

fn none_shown(name: &str) -> Refusal {
    let shown: String = name.chars().take(80).collect();
    let message = format!("No tool was offered, so {shown:?} was not called. Answer in words.");
    let trouble = Trouble::new(Code::TOOL_NOT_GRANTED, message).allowing(Vec::new());
    Refusal::new(Stage::Resolve, trouble)
}

/// Why a tool that is there may not be called: a person left it out of the agent's own list, or the
/// phase does not grant it. The refusal names the tool, and nothing else of it.
pub(super) fn withheld(
    agent: &Agent,
    who: ToolAudience<'_>,
    place: usize,
    phase: &PhaseName,
    available: Vec<String>,
) -> Refusal {
    let entry = agent.toolset.entries().get(place);
    let tool = entry.map_or("", |entry| entry.spec.wire.as_str());
    let narrowed =
        |request: &RequestOptions| entry.is_some_and(|it| !request.allows(&it.spec.name));
    let Some(who) = who.agent.filter(|who| !agent.enables(Some(who), place)) else {
        if who.request.is_some_and(narrowed) {
            let message = format!(
                "Tool '{tool}' is not among the tools that this request may use. Use one of the \
                 available tools."
            );
            return Refusal::not_granted(message, available);
        }
        let message = format!(
            "Tool '{tool}' is not available in phase {phase}. Use one of the available tools."
        );
        return Refusal::not_granted(message, available);
    };
    let message = format!(
        "Tool '{tool}' is not among the tools that agent {who} may use, in any phase; only a person \
         changes that list. Use one of the available tools."
    );
    Refusal::not_enabled(message, available)
}
