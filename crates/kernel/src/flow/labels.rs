//! Labels of tools and of calls: private, untrusted, sends.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What calls of a tool may bring into a session, and where they send.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowLabels {
    /// Whether its answers have private data: files, state of the project, what an account shows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Whether its answers have content that people outside may have written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Where its arguments are sent.
    #[serde(skip_serializing_if = "Sends::is_no")]
    pub sends: Sends,
    /// Whether its answer is the result list of a search, whose pages may be opened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub finds_urls: bool,
}

/// Where the arguments of a call are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// Nowhere outside.
    #[default]
    No,
    /// To the service that the configuration names; the destination is the tool.
    Configured,
    /// To the host of the address that this argument holds, as a JSON Pointer such as `/url`.
    To(String),
}

impl Sends {
    /// Whether nothing is sent.
    pub fn is_no(&self) -> bool {
        *self == Self::No
    }
}

impl FlowLabels {
    /// Labels of a tool that reads private data and sends nothing.
    pub fn private() -> Self {
        Self { private: true, ..Self::default() }
    }

    /// Whether nothing of it concerns the rule of two.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The stricter of two in everything: what the other one adds is added, nothing is taken away.
    pub fn tightened_by(&self, other: &Self) -> Self {
        Self {
            private: self.private || other.private,
            untrusted: self.untrusted || other.untrusted,
            sends: if self.sends.is_no() { other.sends.clone() } else { self.sends.clone() },
            // A list of search results approves destinations, so it is never added.
            finds_urls: self.finds_urls && other.finds_urls,
        }
    }
}

/// What the log says of an admitted call for the rule of two: its tool's labels, and what the call
/// adds to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CallLabels {
    /// Whether its answer has private data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Whether its answer has untrusted content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Where it sends to: a host, or the name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends: Option<String>,
    /// Whether its answer is the result list of a search.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub finds_urls: bool,
    /// What the rule of two would have asked, where it only observes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
}

impl CallLabels {
    /// Whether there is nothing to log.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_side_can_only_tighten() {
        let own = FlowLabels { private: true, finds_urls: true, ..FlowLabels::default() };
        let theirs = FlowLabels {
            untrusted: true,
            sends: Sends::Configured,
            finds_urls: true,
            ..FlowLabels::default()
        };
        let both = own.tightened_by(&theirs);
        assert!(both.private && both.untrusted && both.finds_urls);
        assert_eq!(both.sends, Sends::Configured);
        // Nothing is loosened by labels that say less.
        assert_eq!(both.tightened_by(&FlowLabels::default()).sends, Sends::Configured);
        assert!(!FlowLabels::default().tightened_by(&theirs).finds_urls);
        let to = FlowLabels { sends: Sends::To("/url".to_owned()), ..FlowLabels::default() };
        assert_eq!(to.tightened_by(&theirs).sends, to.sends);
    }
}
