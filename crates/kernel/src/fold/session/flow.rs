//! Keeps what a session read, as far as the rule of two has to know: since when it is private and
//! untrusted, which runs of characters are private, which destinations untrusted content names.
//!
//! Everything here is bounded, and a bound that is reached makes the rule ask.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Actor;
use crate::event::{CallAdmitted, CallSettled, Outcome, RawCall};
use crate::flow::{
    AddressSet, Addresses, RUN_CHARS, RunSet, decoded_addresses, text_leaves, urls_in,
};
use crate::names::{CallId, ToolName};

/// Characters of what people said that are remembered; the newest.
const PERSON_CHARS_MAX: usize = 65_536;

/// Arguments of tools whose last characters are remembered.
const SENT_MAX: usize = 256;

/// Pages of search results that a session may open as such.
const FOUND_USES_MAX: u64 = 20;

/// What a session read and sent, for the rule of two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InformationFlow {
    /// What stood in the context when the model wrote its last reply.
    #[serde(skip_serializing_if = "is_default")]
    known: LearnedFlow,
    /// What came after it. It cannot have influenced the calls of that reply.
    #[serde(skip_serializing_if = "is_default")]
    fresh: LearnedFlow,
    /// What people said, the newest last.
    #[serde(skip_serializing_if = "is_default")]
    person: Vector<Arc<str>>,
    /// The pages that searches found.
    #[serde(skip_serializing_if = "is_default")]
    found_urls: AddressSet,
    /// How many of them were opened.
    #[serde(skip_serializing_if = "is_default")]
    found_uses: u64,
    /// The last characters that were sent as each argument, so that a value in pieces is found.
    #[serde(skip_serializing_if = "is_default")]
    sent: OrdMap<Arc<str>, Arc<str>>,
    /// Whether there were more arguments than are remembered.
    #[serde(skip_serializing_if = "is_default")]
    sent_is_cut: bool,
    /// The last record by which something private or untrusted came in.
    #[serde(skip_serializing_if = "is_default")]
    read_at: u64,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct LearnedFlow {
    #[serde(skip_serializing_if = "is_default")]
    private: Option<Arc<TaintSource>>,
    #[serde(skip_serializing_if = "is_default")]
    untrusted: Option<Arc<TaintSource>>,
    /// What stands in private values.
    #[serde(skip_serializing_if = "is_default")]
    private_runs: RunSet,
    /// Pages that private values name which nobody outside wrote.
    #[serde(skip_serializing_if = "is_default")]
    private_urls: AddressSet,
    /// Destinations that untrusted content names.
    #[serde(skip_serializing_if = "is_default")]
    addresses: AddressSet,
}

/// The first call that read something private, or untrusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaintSource {
    /// The call.
    pub call: CallId,
    /// Its tool.
    pub tool: ToolName,
    /// Where it sent to, when that is not the tool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
}

impl std::fmt::Display for TaintSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.call, self.tool)?;
        self.host.as_ref().map_or(Ok(()), |host| write!(f, " {host}"))
    }
}

/// When a call was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOrigin {
    /// In the model's last reply, before anything that was read since.
    LastReply,
    /// By somebody who may know everything that was read.
    Outside,
}

impl InformationFlow {
    /// Whether nothing was read and nothing said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether private data and untrusted content was read, so that a call that sends may be asked about.
    pub fn may_ask(&self) -> bool {
        let seen = self.seen_by(CallOrigin::Outside);
        seen.private().is_some() && seen.untrusted().is_some()
    }

    /// Takes in what a person said.
    pub(super) fn hear(&mut self, text: &str, actor: &Actor) {
        if !actor.is_human() || text.trim().is_empty() {
            return;
        }
        let text: String = text.chars().take(PERSON_CHARS_MAX).collect();
        self.person.push_back(text.into());
        let chars = |texts: &Vector<Arc<str>>| texts.iter().map(|text| text.len()).sum::<usize>();
        while chars(&self.person) > 4 * PERSON_CHARS_MAX {
            self.person.pop_front();
        }
    }

    /// The model wrote a reply: whatever was read before it may have influenced it.
    pub(super) fn replied(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if fresh != LearnedFlow::default() {
            self.known.add_all(fresh);
        }
    }

    /// The same as the model's next reply will see it.
    pub fn at_next_reply(&self) -> Self {
        let mut next = self.clone();
        next.replied();
        next
    }

    /// What another session had read came in with this record of the fork.
    pub(super) fn taken_over_at(&mut self, seq: u64) {
        if self.read_at > 0 {
            self.read_at = seq;
        }
    }

    /// A person looked at what was read up to a record. If more came in since, nothing is cleared.
    pub(super) fn clear(&mut self, seen: u64) {
        if self.read_at > seen {
            return;
        }
        (self.known, self.fresh) = (LearnedFlow::default(), LearnedFlow::default());
        (self.sent, self.sent_is_cut) = (OrdMap::new(), false);
    }

    /// Takes in what a call sends, once there is something private that it could send.
    pub(super) fn admitted(&mut self, admitted: &CallAdmitted, raw: &RawCall) {
        if admitted.labels.as_ref().is_some_and(|labels| labels.sends.is_some()) {
            self.sends(admitted.tool.as_str(), admitted.args.as_ref(), raw);
        }
    }

    /// Takes in what a call sends, or would have sent: whoever is refused a piece of a value may go on
    /// with the next one. `args` are the arguments where they differ from what was written.
    pub(super) fn sends(&mut self, tool: &str, args: Option<&Value>, raw: &RawCall) {
        if self.known.private.is_none() && self.fresh.private.is_none() {
            return;
        }
        let read: Option<Value>;
        let args = match args {
            Some(args) => args,
            None => {
                read = serde_json::from_str(&raw.args).ok();
                let Some(args) = &read else {
                    self.sent_is_cut = true;
                    return;
                };
                args
            }
        };
        for (path, leaf) in text_leaves(args) {
            if self.found_urls.surely_has(&leaf) {
                self.found_uses = self.found_uses.saturating_add(1);
            }
            let key = sent_key(tool, &path);
            if self.sent.len() >= SENT_MAX && !self.sent.contains_key(&key) {
                self.sent_is_cut = true;
                continue;
            }
            let before = self.sent.get(&key).map_or("", |before| before);
            let tail = tail_of(&format!("{before}{leaf}"));
            self.sent.insert(key, tail.into());
        }
    }

    /// Takes in what a call answered, by the record with this number.
    pub(super) fn settled(&mut self, admitted: &CallAdmitted, settled: &CallSettled, seq: u64) {
        let Some(labels) = admitted.labels.as_deref() else { return };
        if !labels.private && !labels.untrusted {
            return;
        }
        self.read_at = seq;
        let host = labels.sends.as_deref().filter(|to| *to != admitted.tool.as_str());
        let source = || {
            let (tool, host) = (admitted.tool.clone(), host.map(Into::into));
            Arc::new(TaintSource { call: admitted.call, tool, host })
        };
        let envelope = &settled.envelope;
        let data = (!settled.message_only).then(|| text_leaves(&envelope.data));
        let leaves: Vec<(String, Cow<'_, str>)> = data.into_iter().flatten().collect();
        let errors = envelope.errors.iter().map(|trouble| trouble.message.as_str());
        let texts = leaves.iter().map(|(_, text)| text.as_ref());
        let texts = texts.chain([envelope.message.as_str()]);
        let texts = texts.chain(envelope.warnings.iter().map(String::as_str)).chain(errors);
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        let has_pictures = settled.attached.iter().any(|attached| attached.shown);
        if labels.private {
            self.fresh.private.get_or_insert_with(source);
            texts.iter().for_each(|text| self.fresh.private_runs.add(text));
            if has_pictures {
                self.fresh.private_runs.add_unknown();
            }
        }
        if labels.private && !labels.untrusted {
            let urls = texts.iter().flat_map(|text| urls_in(text));
            urls.for_each(|url| self.fresh.private_urls.add_name(url));
        }
        if labels.untrusted {
            self.fresh.untrusted.get_or_insert_with(source);
            let addresses = &mut self.fresh.addresses;
            texts.iter().for_each(|text| decoded_addresses(text, addresses));
            if has_pictures {
                addresses.add_unknown();
            }
            // The page itself is a destination that it can name without saying so.
            if let Some(host) = host {
                addresses.add(&Addresses::of(&format!("https://{host}/")));
            }
        }
        if labels.finds_urls && settled.outcome == Outcome::Done {
            let urls = leaves.iter().filter(|(path, _)| path.ends_with("/url"));
            urls.for_each(|(_, url)| self.found_urls.add_name(url));
        }
    }

    /// What people said, the oldest first.
    pub fn person(&self) -> impl Iterator<Item = &str> {
        self.person.iter().map(AsRef::as_ref)
    }

    /// Whether a search found exactly this page, and not too many such pages were opened.
    pub fn may_open_found(&self, url: &str) -> bool {
        self.found_uses < FOUND_USES_MAX && self.found_urls.surely_has(url)
    }

    /// What was sent as this argument before, the last characters of it, in small letters and without
    /// separators; nothing where that is not known.
    pub fn sent_before(&self, tool: &ToolName, path: &str) -> Option<&str> {
        match self.sent.get(&sent_key(tool.as_str(), path)) {
            Some(tail) => Some(tail),
            None if self.sent_is_cut => None,
            None => Some(""),
        }
    }

    /// What may have influenced a call. One of the model's last reply was written before anything came
    /// that was read since.
    pub fn seen_by(&self, origin: CallOrigin) -> SeenFlow<'_> {
        let fresh = (origin == CallOrigin::Outside).then_some(&self.fresh);
        SeenFlow { known: &self.known, fresh }
    }
}

impl LearnedFlow {
    fn add_all(&mut self, other: Self) {
        let LearnedFlow { private, untrusted, private_runs, private_urls, addresses } = other;
        self.private = self.private.take().or(private);
        self.untrusted = self.untrusted.take().or(untrusted);
        if self.private_runs.is_empty() {
            self.private_runs = private_runs;
        } else {
            self.private_runs.add_all(&private_runs);
        }
        self.private_urls.add_all(&private_urls);
        self.addresses.add_all(&addresses);
    }
}

/// What may have influenced a call.
#[derive(Clone, Copy)]
pub struct SeenFlow<'a> {
    known: &'a LearnedFlow,
    fresh: Option<&'a LearnedFlow>,
}

impl<'a> SeenFlow<'a> {
    fn parts(self) -> impl Iterator<Item = &'a LearnedFlow> {
        std::iter::once(self.known).chain(self.fresh)
    }

    /// The first call that read something private.
    pub fn private(self) -> Option<&'a TaintSource> {
        self.parts().find_map(|part| part.private.as_deref())
    }

    /// The first call that read untrusted content.
    pub fn untrusted(self) -> Option<&'a TaintSource> {
        self.parts().find_map(|part| part.untrusted.as_deref())
    }

    /// Whether a run of the text stands in private values, and not in `but`.
    pub fn shares_private_run(self, text: &str, but: &RunSet) -> bool {
        self.parts().any(|part| part.private_runs.shares_run(text, but))
    }

    /// Whether private values that nobody outside wrote name exactly this page.
    pub fn has_private_url(self, url: &str) -> bool {
        self.parts().any(|part| part.private_urls.surely_has(url))
    }

    /// Whether untrusted content names a host, or a domain that it is under.
    pub fn names_host(self, host: &str) -> bool {
        self.parts().any(|part| part.addresses.has_host(host))
    }

    /// Whether untrusted content names a destination.
    pub fn names(self, name: &str) -> bool {
        self.parts().any(|part| part.addresses.has(name))
    }
}

/// Whether there is nothing to write.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The argument of a tool; the items of a list count as one.
fn sent_key(tool: &str, path: &str) -> Arc<str> {
    let is_index = |step: &str| !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
    let steps = path.split('/').map(|step| if is_index(step) { "*" } else { step });
    format!("{tool} {}", steps.collect::<Vec<_>>().join("/")).into()
}

/// The last letters and digits of a text, one fewer than are a run.
fn tail_of(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    let letters: Vec<char> = letters.collect();
    letters.get(letters.len().saturating_sub(RUN_CHARS - 1)..).unwrap_or_default().iter().collect()
}
