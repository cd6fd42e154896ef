//! Decides which definition of a tool from an MCP server is believed: the first one that was seen,
//! or the one that a person accepted. Every other one is held until a person has looked at it.

use std::collections::BTreeSet;

use imbl::OrdMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::actor::Actor;
use crate::digest::Digest;
use crate::names::ToolName;
use crate::seeded::{Bug, seeded};

/// A tool as its server describes it. All of it is the server's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Definition {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the model is told.
    #[serde(default)]
    pub about: String,
    /// JSON Schema of the arguments.
    pub input: Value,
    /// JSON Schema of the answer's data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Hints about what it does. They decide nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub annotations: Value,
}

impl Definition {
    /// What tells this definition from any other of the same tool.
    pub fn fingerprint(&self) -> Digest {
        Digest::of_json(&json!({
            "title": self.title, "about": self.about, "input": self.input, "output": self.output,
            "annotations": self.annotations,
        }))
    }
}

/// What was decided about a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It is the first one of its tool, nothing speaks against it, and it is believed.
    FirstSeen,
    /// It is held: it changed, or something in it needs a person's eyes.
    Quarantined,
    /// A person accepted it.
    Accepted,
    /// A person rejected it.
    Rejected,
    /// The one that is believed is offered again: nothing is held any more, and it is not gone.
    Returned,
    /// The server does not offer the tool any more, or not so that it could be used.
    Gone,
}

impl Ruling {
    /// Whether only a person may rule so.
    pub fn is_a_persons(self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected)
    }
}

/// What the project knows of one tool of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    /// The definition that is believed.
    pub live: Option<Definition>,
    /// One that waits for a person, with what speaks against it.
    pub held: Option<(Definition, Vec<String>)>,
    /// The last one that a person rejected.
    pub rejected: Option<Digest>,
    /// Whether the server did not offer it when it was asked last.
    #[serde(default)]
    pub gone: bool,
    /// The one that a person rejected, as long as its server has offered no other since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Box<Refused>>,
}

impl Pin {
    /// Whether the one that is believed is the one that was offered last.
    pub fn is_settled(&self) -> bool {
        !self.gone && self.held.is_none() && self.refused.is_none()
    }
}

/// A definition that a person rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// The definition.
    pub definition: Definition,
    /// Who rejected it.
    pub by: Actor,
}

/// How a definition stands that a server offers now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has seen this tool before.
    New,
    /// It is the one that is believed.
    Live,
    /// It waits for a person.
    Held,
    /// A person rejected it.
    Rejected,
    /// It is another one than what is known.
    Changed,
}

/// The pins of a project, by tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins(OrdMap<ToolName, Pin>);

impl Pins {
    /// What is known of a tool.
    pub fn get(&self, tool: &ToolName) -> Option<&Pin> {
        self.0.get(tool)
    }

    /// Whether these are the same pins, without looking at each.
    pub fn same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0) || self.0 == other.0
    }

    /// Every tool that was ever seen.
    pub fn iter(&self) -> impl Iterator<Item = (&ToolName, &Pin)> {
        self.0.iter()
    }

    /// What tools of two servers were ever called, among servers of which `counts` says so. What was
    /// seen stays in the log, so that this only grows.
    pub fn shared(&self, counts: impl Fn(&str) -> bool) -> BTreeSet<&str> {
        let (mut once, mut shared) = (BTreeSet::new(), BTreeSet::new());
        let seen = self.0.keys().filter_map(ToolName::of_server);
        for (_, tool) in seen.filter(|(server, _)| counts(server)) {
            if !once.insert(tool) {
                shared.insert(tool);
            }
        }
        shared
    }

    /// How a definition stands.
    pub fn standing(&self, tool: &ToolName, offered: &Definition) -> Standing {
        let Some(pin) = self.0.get(tool) else { return Standing::New };
        let print = offered.fingerprint();
        if pin.live.as_ref().is_some_and(|live| live.fingerprint() == print) {
            Standing::Live
        } else if pin.held.as_ref().is_some_and(|(held, _)| held.fingerprint() == print) {
            Standing::Held
        } else if pin.rejected == Some(print) {
            Standing::Rejected
        } else {
            Standing::Changed
        }
    }

    /// Whether something that was decided about a definition is not known yet. Whoever looked at
    /// older pins may come too late; a person's word always counts.
    pub fn is_news(&self, pinned: &Pinned) -> bool {
        let known = self.0.get(&pinned.tool);
        let standing = self.standing(&pinned.tool, &pinned.definition);
        match pinned.ruling {
            Ruling::Accepted | Ruling::Rejected => true,
            Ruling::FirstSeen => standing == Standing::New,
            Ruling::Quarantined => match standing {
                Standing::New | Standing::Changed => true,
                Standing::Held => known.is_some_and(|pin| pin.gone),
                Standing::Rejected => known.is_some_and(|pin| pin.refused.is_none()),
                Standing::Live => false,
            },
            Ruling::Returned => {
                standing == Standing::Live && known.is_some_and(|pin| !pin.is_settled())
            }
            Ruling::Gone => known.is_some_and(|pin| !pin.gone),
        }
    }

    /// Whether a ruling can follow what is known. A definition is the first one only where none was
    /// ever seen, and the one that returns is the one that is believed: all else takes a person.
    pub fn can_follow(&self, pinned: &Pinned) -> bool {
        match pinned.ruling {
            Ruling::FirstSeen => !self.0.contains_key(&pinned.tool),
            Ruling::Returned => self.standing(&pinned.tool, &pinned.definition) == Standing::Live,
            Ruling::Quarantined | Ruling::Accepted | Ruling::Rejected | Ruling::Gone => true,
        }
    }

    /// Takes in what was decided. A ruling that cannot follow changes nothing.
    pub(crate) fn apply(&mut self, pinned: &Pinned, by: &Actor) {
        if !self.can_follow(pinned) && !seeded(Bug::FirstSeenMovesPin) {
            return;
        }
        let mut pin = self.0.get(&pinned.tool).cloned().unwrap_or_default();
        let definition = pinned.definition.clone();
        // A person's word does not bring a tool back; that its server offers it does.
        pin.gone = pinned.ruling == Ruling::Gone
            || (pin.gone && matches!(pinned.ruling, Ruling::Accepted | Ruling::Rejected));
        pin.refused = match pinned.ruling {
            Ruling::Rejected => {
                Some(Box::new(Refused { definition: definition.clone(), by: by.clone() }))
            }
            // It may come again, and is rejected then.
            Ruling::Gone => pin.refused,
            Ruling::FirstSeen | Ruling::Quarantined | Ruling::Accepted | Ruling::Returned => None,
        };
        match pinned.ruling {
            Ruling::FirstSeen => pin.live = Some(definition),
            Ruling::Quarantined => pin.held = Some((definition, pinned.why.clone())),
            Ruling::Accepted => {
                pin = Pin { live: Some(definition), gone: pin.gone, ..Pin::default() };
            }
            Ruling::Rejected => {
                pin.rejected = Some(definition.fingerprint());
                pin.held = None;
                if pin.live.as_ref() == Some(&definition) {
                    pin.live = None;
                }
            }
            // A definition that was withdrawn waits for nobody.
            Ruling::Returned => pin.held = None,
            Ruling::Gone => {}
        }
        self.0.insert(pinned.tool.clone(), pin);
    }
}

/// A decision about a definition, as the log has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pinned {
    /// The tool.
    pub tool: ToolName,
    /// What was decided.
    pub ruling: Ruling,
    /// About which definition.
    pub definition: Definition,
    /// What speaks against it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(about: &str) -> Definition {
        Definition {
            title: None,
            about: about.to_owned(),
            input: json!({ "type": "object" }),
            output: None,
            annotations: Value::Null,
        }
    }

    fn pinned(ruling: Ruling, about: &str) -> Pinned {
        let tool = ToolName::parse("mcp:web:search").unwrap();
        Pinned { tool, ruling, definition: definition(about), why: vec![] }
    }

    fn ada() -> Actor {
        Actor::Human("ada".into())
    }

    /// Whoever was slow to say what it saw does not undo what a person said meanwhile.
    #[test]
    fn what_is_known_is_no_news() {
        let (mut pins, ada) = (Pins::default(), Actor::Human("ada".into()));
        let first = pinned(Ruling::FirstSeen, "a");
        assert!(pins.is_news(&first) && !pins.is_news(&pinned(Ruling::Gone, "a")));
        pins.apply(&first, &Actor::System);
        assert!(!pins.is_news(&first) && !pins.is_news(&pinned(Ruling::Returned, "a")));
        pins.apply(&pinned(Ruling::Rejected, "a"), &ada);
        assert!(!pins.is_news(&first) && !pins.is_news(&pinned(Ruling::Quarantined, "a")));
        assert!(pins.is_news(&pinned(Ruling::Accepted, "a")), "a person's word counts");
        let other = pinned(Ruling::Quarantined, "b");
        assert!(pins.is_news(&other));
        pins.apply(&other, &Actor::System);
        assert!(!pins.is_news(&other));
        // One that was rejected before and is offered again is held, so that it can be decided about.
        assert!(pins.is_news(&pinned(Ruling::Quarantined, "a")));
        pins.apply(&pinned(Ruling::Accepted, "b"), &ada);
        assert!(!pins.is_news(&other), "it is believed by now");
        assert!(pins.is_news(&pinned(Ruling::Gone, "b")));
        pins.apply(&pinned(Ruling::Gone, "b"), &Actor::System);
        assert!(!pins.is_news(&pinned(Ruling::Gone, "b")));
        assert!(pins.is_news(&pinned(Ruling::Returned, "b")));
    }

    #[test]
    fn only_what_was_seen_first_or_accepted_is_believed() {
        let tool = ToolName::parse("mcp:web:search").unwrap();
        let mut pins = Pins::default();
        let standing = |pins: &Pins, about| pins.standing(&tool, &definition(about));
        assert_eq!(standing(&pins, "one"), Standing::New);
        pins.apply(&pinned(Ruling::FirstSeen, "one"), &ada());
        assert_eq!(standing(&pins, "one"), Standing::Live);
        assert_eq!(standing(&pins, "two"), Standing::Changed);
        pins.apply(&pinned(Ruling::Quarantined, "two"), &ada());
        assert_eq!(standing(&pins, "two"), Standing::Held);
        assert_eq!(standing(&pins, "one"), Standing::Live, "the old one is still good");
        pins.apply(&pinned(Ruling::Rejected, "two"), &ada());
        assert_eq!(standing(&pins, "two"), Standing::Rejected);
        pins.apply(&pinned(Ruling::Quarantined, "three"), &ada());
        pins.apply(&pinned(Ruling::Accepted, "three"), &ada());
        assert_eq!(standing(&pins, "three"), Standing::Live);
        assert_eq!(standing(&pins, "one"), Standing::Changed, "one that was good before");
        pins.apply(&pinned(Ruling::Rejected, "three"), &ada());
        assert_eq!(standing(&pins, "three"), Standing::Rejected, "a person may change their mind");
    }

    #[test]
    fn what_came_back_waits_for_nobody_and_what_is_gone_is_known_to_be() {
        let tool = ToolName::parse("mcp:web:search").unwrap();
        let mut pins = Pins::default();
        let mut ruled = |ruling, about| {
            pins.apply(&pinned(ruling, about), &ada());
            let pin = pins.get(&tool).unwrap();
            (pin.live.is_some(), pin.held.is_some(), pin.gone)
        };
        assert_eq!(ruled(Ruling::FirstSeen, "one"), (true, false, false));
        assert_eq!(ruled(Ruling::Quarantined, "two"), (true, true, false));
        assert_eq!(ruled(Ruling::Gone, "two"), (true, true, true));
        assert_eq!(ruled(Ruling::Quarantined, "two"), (true, true, false));
        assert_eq!(ruled(Ruling::Returned, "one"), (true, false, false));
        assert_eq!(ruled(Ruling::Gone, "one"), (true, false, true));
        assert_eq!(
            ruled(Ruling::Rejected, "one"),
            (false, false, true),
            "only its server is asked"
        );
    }

    #[test]
    fn what_was_rejected_is_known_until_another_one_is_offered() {
        let tool = ToolName::parse("mcp:web:search").unwrap();
        let mut pins = Pins::default();
        let mut refused = |ruling, about| {
            pins.apply(&pinned(ruling, about), &ada());
            let refused = pins.get(&tool).unwrap().refused.clone();
            refused.map(|refused| (refused.definition.about, refused.by))
        };
        assert_eq!(refused(Ruling::FirstSeen, "one"), None);
        assert_eq!(refused(Ruling::Quarantined, "two"), None);
        let two = Some(("two".to_owned(), ada()));
        assert_eq!(refused(Ruling::Rejected, "two"), two);
        assert_eq!(refused(Ruling::Gone, "one"), two);
        assert_eq!(refused(Ruling::Returned, "one"), None, "the good one is offered again");
        assert_eq!(refused(Ruling::Rejected, "one"), Some(("one".to_owned(), ada())));
        assert_eq!(refused(Ruling::Accepted, "one"), None, "a person may change their mind");
    }

    #[test]
    fn every_part_of_a_definition_counts() {
        let plain = definition("x");
        let others = [
            Definition { title: Some("X".into()), ..plain.clone() },
            Definition { input: json!({ "type": "object", "properties": {} }), ..plain.clone() },
            Definition { output: Some(json!({ "type": "object" })), ..plain.clone() },
            Definition { annotations: json!({ "readOnlyHint": true }), ..plain.clone() },
        ];
        for other in others {
            assert_ne!(other.fingerprint(), plain.fingerprint(), "{other:?}");
        }
    }
}
