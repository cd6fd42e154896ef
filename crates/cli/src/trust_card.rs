//! What a person is shown before they trust a configuration: everything that it reaches, and what
//! changed since the one before.

use std::collections::BTreeSet;

use toolgate_kernel::config::{
    AgentText, ConfigChange, ConfigDifference, DigestPart, SandboxModeConfig, read,
};
use toolgate_kernel::names::ServerName;
use toolgate_sandbox::{IsolationLevel, KernelSupport, NetworkAccess};

use crate::card_code::CardCode;
use crate::console::{columns, whole_lines, width};
use crate::isolation::Isolation;
use crate::project::{LoadedConfig, Place};
use crate::trust::TrustState;
use crate::visible::exact;

/// The card about a configuration, with its code between two of the rows.
pub(crate) fn lines(
    place: &Place,
    loaded: &LoadedConfig,
    state: &TrustState,
    code: &CardCode,
) -> Vec<String> {
    let before = state.before_text.as_deref().map(|text| read(text.as_bytes()).text);
    let mut rows = reach_rows(place, before.as_ref(), &loaded.file);
    if let Some(before) = &before {
        rows.extend(changed_rows(before, loaded));
    }
    let (agent, file) = (&loaded.crew.agent, &loaded.file);
    rows.push("What may be called, and who is asked:".to_owned());
    let phases: Vec<&str> = agent.phases().map(|phase| phase.name.as_str()).collect();
    rows.push(format!("    phases {}", phases.join(", ")));
    let policies = file.policies.len();
    rows.push(format!(
        "    {policies} policies of its own; `toolgate check` draws what is granted"
    ));
    let why = match state.verdict {
        Ok(_) => "it is trusted as it is, and is signed once more".to_owned(),
        Err(gap) => gap.to_string(),
    };
    let folder = exact(&place.real_folder().display().to_string());
    let config = place.config.as_ref().map(|path| exact(&path.display().to_string()));
    let mut card = vec![
        String::new(),
        "Do you trust the configuration of this folder?".to_owned(),
        format!("  folder         {folder}"),
        format!("  configuration  {}", config.unwrap_or_else(|| "toolgate.yaml".to_owned())),
        format!("  sha256:{}", state.digests.trust_digest()),
    ];
    card.extend(whole_lines(&format!("  because        {why}"), 17));
    // No row is parted by the code.
    card.extend(code.among(rows).iter().flat_map(|row| match width(row) > columns() {
        true => whole_lines(row, 6),
        false => vec![row.clone()],
    }));
    card
}

/// What it reaches; what is new and what is gone is marked.
fn reach_rows(place: &Place, before: Option<&AgentText>, after: &AgentText) -> Vec<String> {
    let known: BTreeSet<String> = before.into_iter().flat_map(texts).collect();
    let now: BTreeSet<String> = texts(after).collect();
    let mut rows = vec!["What it starts, reads and connects to:".to_owned()];
    for line in after.reach_lines() {
        let mark = if known.contains(&line.text) { ' ' } else { '+' };
        let level = line.program.as_ref().map(|name| format!("; {}", level(place, after, name)));
        let text = format!("  {mark} {}{}", exact(&line.text), level.unwrap_or_default());
        rows.push(text);
    }
    for gone in known.difference(&now) {
        rows.push(format!("  - {}", exact(gone)));
    }
    if rows.len() == 1 {
        rows.push("    nothing that needs trust".to_owned());
    }
    rows
}

fn texts(text: &AgentText) -> impl Iterator<Item = String> {
    text.reach_lines().into_iter().map(|line| line.text)
}

/// What changed, key by key. What only a model is told is left out.
fn changed_rows(before: &AgentText, loaded: &LoadedConfig) -> Vec<String> {
    // Both without secrets, so that masked ones are no change.
    let after = read(loaded.masked_text().as_bytes()).text;
    let difference = ConfigDifference::between(before, &after);
    let counts = |change: &&ConfigChange| change.part != DigestPart::Rest;
    let changes: Vec<_> = difference.changes.iter().filter(counts).collect();
    if changes.is_empty() {
        return Vec::new();
    }
    let mut rows = vec!["What changed:".to_owned()];
    for change in changes {
        rows.push(format!("  {}", exact(&change.to_string())));
    }
    if difference.left_off > 0 {
        rows.push(format!("  … and {} more; see the file", difference.left_off));
    }
    rows
}

/// How isolated the program of a server would be here.
fn level(place: &Place, text: &AgentText, name: &ServerName) -> String {
    let Some(server) = text.mcp_servers.get(name) else { return String::new() };
    let sandbox = server.sandbox.clone().unwrap_or_default();
    if sandbox.mode == SandboxModeConfig::Off {
        return "it can read your keys and this log".to_owned();
    }
    let network = Isolation::of(place, text).map(|one| one.request(name, server).network);
    let network = network.unwrap_or(NetworkAccess::All);
    match KernelSupport::probe().level(&network, sandbox.unix_sockets) {
        IsolationLevel::None(why) => format!("NOT isolated here: {why}"),
        level @ (IsolationLevel::Full | IsolationLevel::Partial(_)) => {
            format!("isolation: {level}")
        }
    }
}
