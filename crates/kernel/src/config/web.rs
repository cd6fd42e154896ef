//! Decides how the web is written down: where it is searched, and how far a page is followed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Searches of one response that can be asked for, and pages.
const CEILING: u64 = 100;

/// How the pack `web` is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebText {
    /// The address of a SearXNG that answers as JSON. Without it the web is not searched. It may be
    /// on this computer or on a private network; nothing else there is ever reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searxng_url: Option<String>,
    /// Whether a page that points to another is followed, at most 5 times and each looked at;
    /// otherwise the model is told where it points.
    pub follow_redirects: bool,
    /// Searches of one response; 10 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches_max: Option<u64>,
    /// Pages of one response; 20 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_max: Option<u64>,
}

impl WebText {
    /// Searches of one response.
    pub fn searches(&self) -> u64 {
        self.searches_max.unwrap_or(10).clamp(1, CEILING)
    }

    /// Pages of one response.
    pub fn pages(&self) -> u64 {
        self.pages_max.unwrap_or(20).clamp(1, CEILING)
    }

    /// The limits that cannot be: key, value and ceiling.
    pub(super) fn off(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let given = [("searches_max", self.searches_max), ("pages_max", self.pages_max)];
        let given = given.into_iter().filter_map(|(key, value)| Some((key, value?)));
        given.filter(|(_, value)| !(1..=CEILING).contains(value)).map(|(k, v)| (k, v, CEILING))
    }
}
