//! Decides which state an MCP client may read: that of sections the phase has a tool of.

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_kernel::fold::{Project, Session};
use toolgate_kernel::key::Key;
use toolgate_kernel::names::{Family, PhaseName};
use toolgate_kernel::section::Home;

use super::{READ, open_section, reading};
use crate::server::clerk::{Clerk, View};
use crate::server::refusal::Refused;
use crate::server::served::{Answer, Caller};

/// Entries that are listed.
const LISTED_MAX: usize = 2_000;

/// Bytes of one resource.
const READ_BYTES_MAX: usize = 1 << 20;

const SESSION: &str = "toolgate://session";
const SESSIONS: &str = "toolgate://sessions";
const FILE: &str = "toolgate://file/";
const STATE: &str = "toolgate://state/";

pub(super) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": "toolgate://state/{family}/{name}",
        "name": "state",
        "title": "What is kept under a key",
        "description": "A note, a plan or another piece of state, by its family and name.",
        "mimeType": "application/json",
    })]
}

/// What can be read now.
pub(super) fn list(clerk: &Clerk, caller: &Caller) -> Vec<Value> {
    let (session, project) = clerk.look();
    let view = clerk.view();
    let mut all = vec![
        entry(SESSION, "session", "Phase, calls and figures of this session.", "application/json"),
        entry(SESSIONS, "sessions", "The sessions of this project.", "application/json"),
    ];
    let Some(phase) = reading(&view, caller) else { return all };
    for (section, shown) in view.agent.toolset.shown() {
        if open_section(&view, phase, section) {
            let uri = format!("{FILE}{}", encoded(shown.path));
            all.push(entry(&uri, shown.path, "The file as calls write it.", "text/markdown"));
        }
    }
    for family in view.agent.toolset.families().map(|family| &family.name) {
        let Some(state) = kept(&view, phase, family, &session, &project) else { continue };
        let Some(shelf) = state.shelf(family.as_str()) else { continue };
        for (name, _) in shelf.iter() {
            let uri = format!("{STATE}{}/{}", family.as_str(), encoded(name));
            let title = format!("{}:{name}", family.as_str());
            all.push(entry(&uri, &title, "What is kept under this key.", "application/json"));
            if all.len() >= LISTED_MAX {
                return all;
            }
        }
    }
    all
}

fn entry(uri: &str, name: &str, about: &str, kind: &str) -> Value {
    json!({ "uri": uri, "name": name, "description": about, "mimeType": kind })
}

/// The state that has a family, if the phase has a tool of the section that keeps it.
fn kept<'a>(
    view: &View,
    phase: &PhaseName,
    family: &Family,
    session: &'a Session,
    project: &'a Project,
) -> Option<&'a toolgate_kernel::fold::State> {
    let toolset = &view.agent.toolset;
    let keeper = toolset.keeper(family)?;
    if !open_section(view, phase, keeper) {
        return None;
    }
    match toolset.family(family)?.home {
        Home::Session => Some(&session.state),
        Home::Project => Some(&project.state),
        Home::Files => None,
    }
}

pub(super) fn read(clerk: &Clerk, caller: &Caller, params: &str) -> Result<Answer, Refused> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Params { uri } =
        serde_json::from_str(params).map_err(|_| Refused::params("resources/read says a uri."))?;
    let (session, project) = clerk.look();
    let view = clerk.view();
    let found = match uri.as_str() {
        SESSION => Some(("application/json", glance(&session).to_string())),
        SESSIONS => {
            let sessions: Vec<&str> =
                project.sessions.iter().map(|id| id.as_str()).take(LISTED_MAX).collect();
            Some(("application/json", json!({ "sessions": sessions }).to_string()))
        }
        other => reading(&view, caller)
            .and_then(|phase| content(&view, phase, other, &session, &project)),
    };
    let (kind, text) = found.ok_or_else(|| Refused::resource(&uri, caller.revision))?;
    if text.len() > READ_BYTES_MAX {
        let words = format!("This has more than {READ_BYTES_MAX} bytes; use a tool to read parts.");
        return Err(Refused::params(words));
    }
    let result = json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] });
    Ok(Answer::kept(&result, READ))
}

fn content(
    view: &View,
    phase: &PhaseName,
    uri: &str,
    session: &Session,
    project: &Project,
) -> Option<(&'static str, String)> {
    if let Some(path) = uri.strip_prefix(FILE) {
        let mut shown = view.agent.toolset.shown().iter();
        let (section, shown) = shown.find(|(_, shown)| encoded(shown.path) == path)?;
        open_section(view, phase, section).then_some(())?;
        return Some(("text/markdown", String::from_utf8((shown.render)(project)).ok()?));
    }
    let (family, name) = uri.strip_prefix(STATE)?.split_once('/')?;
    let (family, name) = (Family::parse(family).ok()?, decoded(name)?);
    let state = kept(view, phase, &family, session, project)?;
    let slot = state.get(&Key::new(family, &name).ok()?)?;
    Some(("application/json", slot.value().to_string()))
}

fn glance(session: &Session) -> Value {
    json!({
        "session": session.id.as_str(),
        "title": session.title,
        "phase": session.phase.as_ref().map(|phase| phase.as_str()),
        "calls": session.next_call.saturating_sub(1),
        "open_calls": session.open.iter().count(),
        "records": session.seq,
        "ended": session.ended,
    })
}

/// A name as part of an address.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decoded(part: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::with_capacity(part.len()), part.bytes());
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (char::from(rest.next()?), char::from(rest.next()?));
            let value = high.to_digit(16)? * 16 + low.to_digit(16)?;
            out.push(u8::try_from(value).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_travel_as_addresses() {
        for name in ["anna", "two words", "a/b", "ü%", ""] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!(decoded("%zz"), None);
        assert_eq!(decoded("%f"), None);
        assert_eq!(decoded("%ff"), None);
    }
}
