//! Decides which names of servers' tools are doubted: those that no server ever offered.

use std::collections::BTreeSet;

use super::{Desk, Finding, Mistake, Severity, Span, Step};
use crate::config::finding::quoted;
use crate::names::{ServerName, ToolName, nearest};
use crate::pin::Pins;

/// Where tools are named, at the top of a file.
const LISTS: &[&str] = &["tool_groups", "policies", "allow", "deny", "tool_calling"];

impl Desk<'_> {
    /// Tells of names that nobody has seen. Servers change what they offer, so none is an error.
    pub(super) fn seen(&self, found: &mut Vec<Finding>) {
        let Some(pins) = &self.reading.pins else { return };
        let mut unasked: BTreeSet<ServerName> = BTreeSet::new();
        for (name, span) in self.remote_names() {
            let Some((server, tool)) = name.of_server() else { continue };
            let mut of_server = tools(pins, server).peekable();
            if of_server.peek().is_none() {
                unasked.extend(ServerName::parse(server).ok());
            } else if pins.get(&name).is_none() {
                let message =
                    format!("the MCP server {server} never offered a tool {}", quoted(tool));
                let finding = Finding::new(Severity::Warning, Mistake::UnknownName, message);
                let help = format!("`toolgate tools` lists what {server} has offered");
                found.push(match nearest(tool, of_server) {
                    Some(near) => finding.at(span).near(Some(near)),
                    None => finding.at(span).help(help),
                });
            }
        }
        self.shared(pins, found);
        for server in unasked {
            let message = format!(
                "the MCP server {server} was not connected to yet, so the names of its tools are \
                 not checked"
            );
            let place = self.key(&[Step::Key("mcp_servers"), Step::Key(server.as_str())]);
            let finding = Finding::new(Severity::Note, Mistake::Server, message).at(place);
            found.push(finding.help("`toolgate tools --connect` asks it once"));
        }
    }

    /// Whether a name means a tool of a configured server: by its id, as it is shown, or by a short
    /// name that was seen. Whether the server offers it is told with all other names.
    pub(super) fn of_a_server(&self, name: &str) -> bool {
        let servers = &self.text().mcp_servers;
        let id = ToolName::parse(name).ok();
        if let Some((server, _)) = id.as_ref().and_then(ToolName::of_server) {
            return servers.contains_key(server);
        }
        if servers.keys().any(|server| name.starts_with(&format!("mcp__{server}__"))) {
            return true;
        }
        let Some(pins) = &self.reading.pins else {
            // Nobody looked at what was seen, so it may be one.
            return servers.values().any(|text| text.short_names);
        };
        let mut seen = pins.iter().filter_map(|(tool, _)| tool.of_server());
        seen.any(|(server, tool)| {
            tool == name && servers.get(server).is_some_and(|text| text.short_names)
        })
    }

    /// Tells of short names that tools of two servers could have.
    fn shared(&self, pins: &Pins, found: &mut Vec<Finding>) {
        let servers = &self.text().mcp_servers;
        let short = |server: &str| servers.get(server).is_some_and(|text| text.short_names);
        for name in pins.shared(short) {
            let seen = pins.iter().map(|(tool, _)| tool);
            let own = seen.filter(|tool| {
                tool.of_server().is_some_and(|(server, tool)| short(server) && tool == name)
            });
            let long: Vec<String> = own.map(|tool| tool.on_wire().to_string()).collect();
            let message = format!(
                "the short name {} is nobody's, because tools of several servers have it",
                quoted(name)
            );
            let place = self.key(&[Step::Key("mcp_servers")]);
            let finding = Finding::new(Severity::Warning, Mistake::Server, message).at(place);
            found.push(finding.help(format!("they are shown as {}", long.join(" and "))));
        }
    }

    /// The names of tools of declared servers, each where it stands.
    fn remote_names(&self) -> Vec<(ToolName, Span)> {
        let Some(tree) = &self.reading.tree else { return Vec::new() };
        let servers = &self.text().mcp_servers;
        let mut names = Vec::new();
        let mut put = |name: ToolName, span| {
            let server = name.of_server().map(|(server, _)| server);
            if server.is_some_and(|server| servers.contains_key(server)) {
                names.push((name, span));
            }
        };
        let mut written = |path: &[Step<'_>]| {
            if let Some(node) = tree.find(path) {
                node.texts(&mut |text, span| {
                    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
                    ToolName::parse(bare).into_iter().for_each(|name| put(name, span));
                });
            }
        };
        LISTS.iter().for_each(|list| written(&[Step::Key(list)]));
        let tools = |phase| [Step::Key("phases"), Step::Key(phase), Step::Key("tools")];
        self.text().phases.keys().for_each(|phase| written(&tools(phase.as_str())));
        for phase in self.text().phases.keys() {
            let path = [&tools(phase.as_str())[..], &[Step::Key("mcp")]].concat();
            if let Some(node) = tree.find(&path) {
                node.texts(&mut |text, span| {
                    let Some((server, tool)) = text.split_once('/') else { return };
                    let Ok(server) = ServerName::parse(server) else { return };
                    ToolName::remote(&server, tool).into_iter().for_each(|name| put(name, span));
                });
            }
        }
        for server in servers.keys() {
            let path = [Step::Key("mcp_servers"), Step::Key(server.as_str()), Step::Key("effects")];
            for tool in servers.get(server).iter().flat_map(|text| text.effects.keys()) {
                let span = self.key(&[&path[..], &[Step::Key(tool.as_str())]].concat());
                let name = ToolName::remote(server, tool).ok();
                name.zip(span).into_iter().for_each(|(name, span)| put(name, span));
            }
        }
        names
    }
}

/// What a server calls its tools, of those that were seen.
fn tools<'a>(pins: &'a Pins, server: &'a str) -> impl Iterator<Item = &'a str> {
    let named = pins.iter().filter_map(|(name, _)| name.of_server());
    named.filter(move |(other, _)| *other == server).map(|(_, tool)| tool)
}
