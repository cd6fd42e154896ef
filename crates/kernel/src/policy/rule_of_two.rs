//! Decides whether a session that has read private data and untrusted content may send something.
//!
//! It asks only where what was read may have influenced the call (ADR 0033), so that few questions are
//! asked in vain: a rule that asks too often is turned off.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Names, Policy, Verdict};
use crate::config::{EgressConfig, RuleOfTwoMode};
use crate::flow::{Addresses, RunSet, decoded_forms, percent_decoded, text_leaves, urls_in};
use crate::fold::{SeenFlow, Session, Shelf, World};
use crate::gate::{Call, Destination};
use crate::key::Touched;
use crate::names::{PolicyName, ToolName, ToolPattern};
use crate::tool::ToolSpec;

/// Its name, which no other policy may have.
pub const RULE_OF_TWO: &str = "rule-of-two";

/// Characters of a call that may stand in neither the person's words nor the plan.
const UNEXPLAINED_CHARS_MAX: usize = 200;

/// The family in which the pack `planning` keeps the plan.
const PLAN_FAMILY: &str = "plan";

/// Characters of the plan that are looked at; what stands behind them explains nothing.
const PLAN_CHARS_MAX: usize = 65_536;

/// A session that has read private data and untrusted content asks before it sends to a destination that
/// is not approved.
pub struct RuleOfTwo {
    name: PolicyName,
    mode: RuleOfTwoMode,
    allow: Vec<AllowedDestination>,
}

/// A destination that a person approved in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AllowedDestination {
    /// This host.
    Host(String),
    /// Every host under this domain.
    HostsUnder(String),
    /// The services of these tools.
    Tools(ToolPattern),
}

/// An entry of `egress.allow` that names no destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "egress.allow: {0:?} is neither a host, such as docs.rs or *.rust-lang.org, nor a tool, such as \
     mcp:github:create_issue"
)]
pub struct EgressRefusal(pub String);

impl AllowedDestination {
    fn parse(text: &str) -> Result<Self, EgressRefusal> {
        let refused = || EgressRefusal(text.chars().take(80).collect());
        let is_host = |host: &str| {
            let label = |label: &str| {
                !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            };
            host.contains('.') && host.split('.').all(label)
        };
        let small = text.to_ascii_lowercase();
        if let Some(domain) = small.strip_prefix("*.") {
            return is_host(domain)
                .then(|| Self::HostsUnder(domain.to_owned()))
                .ok_or_else(refused);
        }
        if is_host(&small) {
            return Ok(Self::Host(small));
        }
        // A star alone would approve everything, which is said with `rule_of_two: off`.
        let pattern = ToolPattern::parse(text).ok().filter(|pattern| pattern.as_str() != "*");
        pattern.map(Self::Tools).ok_or_else(refused)
    }

    fn is_host(&self, host: &str) -> bool {
        match self {
            Self::Host(allowed) => host == allowed,
            Self::HostsUnder(domain) => {
                host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
            }
            Self::Tools(_) => false,
        }
    }

    fn is_tool(&self, tool: &ToolName) -> bool {
        matches!(self, Self::Tools(pattern) if pattern.fits(tool))
    }
}

impl RuleOfTwo {
    /// The rule as it is configured; nothing where it is off.
    pub fn of(config: &EgressConfig) -> Result<Option<Self>, EgressRefusal> {
        let allow = config.allow.iter().map(|text| AllowedDestination::parse(text));
        let allow = allow.collect::<Result<_, _>>()?;
        let name = PolicyName::parse(RULE_OF_TWO);
        let name = name.map_err(|refusal| EgressRefusal(refusal.to_string()))?;
        let mode = config.rule_of_two;
        Ok((mode != RuleOfTwoMode::Off).then_some(Self { name, mode, allow }))
    }

    /// What it finds about a call that sends.
    fn look(&self, call: &Call, world: &World<'_>) -> Option<Finding> {
        let destination = call.destination()?;
        let session = world.session;
        let seen = session.flow.seen_by(call.origin());
        let (private, untrusted) = (seen.private(), seen.untrusted());
        let mut since = Vec::new();
        since.extend(private.map(|source| format!("private since {source}")));
        since.extend(untrusted.map(|source| format!("untrusted since {source}")));
        let to = match &destination {
            Destination::Service => format!("the service of {}", call.spec().name),
            Destination::Host { host, .. } => host.clone(),
            Destination::Unreadable => "an address that cannot be read".to_owned(),
        };
        let told = |word: &str| match since.is_empty() {
            true => format!("nothing private and nothing untrusted was read; {to} {word}"),
            false => format!("{}; {to} {word}", since.join(", ")),
        };
        if private.is_none() || untrusted.is_none() {
            return Some(Finding::free(told("may be sent to")));
        }
        if let Some(why) = self.approved(call, &destination, session) {
            return Some(Finding::free(told(&format!("is approved: {why}"))));
        }
        let influence = influence(call, &destination, session, seen);
        let found = match (influence, self.mode) {
            (Some(why), _) => format!("is new: asks, because {why}"),
            (None, RuleOfTwoMode::Strict) => "is new: asks".to_owned(),
            (None, _) => {
                let why = "is new, and nothing that was read shows in the call";
                return Some(Finding::free(told(why)));
            }
        };
        Some(Finding { told: told(&found), is_found: true })
    }

    /// Why a destination is approved.
    fn approved(
        &self,
        call: &Call,
        destination: &Destination<'_>,
        session: &Session,
    ) -> Option<&'static str> {
        match destination {
            Destination::Service => {
                let tool = &call.spec().name;
                let is_allowed = self.allow.iter().any(|allowed| allowed.is_tool(tool));
                is_allowed.then_some("it stands in egress.allow")
            }
            Destination::Host { host, url } => {
                if self.allow.iter().any(|allowed| allowed.is_host(host)) {
                    return Some("its host stands in egress.allow");
                }
                if session.flow.person().any(|words| urls_in(words).any(|one| one == *url)) {
                    return Some("a person named this address");
                }
                session.flow.may_open_found(url).then_some("a search found this address")
            }
            Destination::Unreadable => None,
        }
    }
}

/// What the rule says of a call that sends.
struct Finding {
    told: String,
    /// Whether it is something to ask about.
    is_found: bool,
}

impl Finding {
    fn free(told: String) -> Self {
        Self { told, is_found: false }
    }
}

/// Why what was read may have influenced a call.
fn influence(
    call: &Call,
    destination: &Destination<'_>,
    session: &Session,
    seen: SeenFlow<'_>,
) -> Option<String> {
    let args = Value::Object(call.args_tree().clone());
    let leaves: Vec<(String, Cow<'_, str>)> = text_leaves(&args).collect();
    match destination {
        Destination::Unreadable => return Some("its destination cannot be read".to_owned()),
        Destination::Host { host, .. } if seen.names_host(host) => {
            return Some("untrusted content names it".to_owned());
        }
        Destination::Host { url, .. } if seen.has_private_url(url) => {
            // It stands in what the person keeps and in nothing that others wrote.
            return None;
        }
        Destination::Host { .. } => {}
        Destination::Service => {
            if let Some(name) = named_by_untrusted(&leaves, session, seen) {
                return Some(format!("untrusted content names {name}"));
            }
        }
    }
    let mut person = RunSet::default();
    session.flow.person().for_each(|words| person.add(words));
    for (path, leaf) in &leaves {
        let Some(before) = session.flow.sent_before(&call.spec().name, path) else {
            return Some("more was sent before than is remembered".to_owned());
        };
        let forms = decoded_forms(leaf);
        let in_pieces = (!before.is_empty()).then(|| format!("{before}{leaf}"));
        let mut texts = forms.texts.iter().chain(&in_pieces);
        if texts.any(|text| seen.shares_private_run(text, &person)) {
            return Some("its arguments repeat private values".to_owned());
        }
        if forms.is_cut {
            return Some("its arguments are too long to be looked through".to_owned());
        }
    }
    let plan = plan_of(session);
    let decoded: Vec<String> = leaves.iter().map(|(_, leaf)| percent_decoded(leaf)).collect();
    let sources = session.flow.person().chain(plan.iter().map(String::as_str));
    let unexplained = crate::flow::uncovered_chars(decoded.iter().map(String::as_str), sources);
    (unexplained > UNEXPLAINED_CHARS_MAX).then(|| {
        format!("{unexplained} characters of it stand in neither a person's words nor the plan")
    })
}

/// An address among the arguments that untrusted content names and no person does.
fn named_by_untrusted(
    leaves: &[(String, Cow<'_, str>)],
    session: &Session,
    seen: SeenFlow<'_>,
) -> Option<String> {
    let mut person = Addresses::default();
    for words in session.flow.person() {
        person.names.extend(Addresses::of(words).names);
    }
    for (_, leaf) in leaves {
        let found = Addresses::of(leaf);
        let named = |name: &&String| !person.names.contains(*name) && seen.names(name);
        if let Some(name) = found.names.iter().find(named) {
            return Some(name.clone());
        }
    }
    None
}

/// The texts of the plan.
fn plan_of(session: &Session) -> Vec<String> {
    let mut left = PLAN_CHARS_MAX;
    let mut texts = Vec::new();
    for (_, slot) in session.state.shelf(PLAN_FAMILY).into_iter().flat_map(Shelf::iter) {
        for (_, leaf) in text_leaves(&slot.value()) {
            let text: String = leaf.chars().take(left).collect();
            left = left.saturating_sub(text.chars().count());
            texts.push(text);
        }
    }
    texts
}

impl Policy for RuleOfTwo {
    fn name(&self) -> &PolicyName {
        &self.name
    }

    fn governs(&self, tool: &ToolSpec) -> bool {
        tool.every_label().any(|labels| !labels.sends.is_no())
    }

    fn judge(&self, call: &Call, _: &[Touched], world: &World<'_>) -> Verdict {
        match (self.look(call, world).filter(|found| found.is_found), self.mode) {
            (None, _) | (_, RuleOfTwoMode::Observe | RuleOfTwoMode::Off) => Verdict::Allow,
            (Some(found), RuleOfTwoMode::Ask | RuleOfTwoMode::Strict) => Verdict::Ask(found.told),
            (Some(found), RuleOfTwoMode::Deny) => Verdict::Deny(format!(
                "{} This configuration refuses it. Send nothing there, or leave out what was read.",
                found.told.replace(": asks", ": refused")
            )),
        }
    }

    fn observe(&self, call: &Call, world: &World<'_>) -> Option<String> {
        let observes = self.mode == RuleOfTwoMode::Observe;
        let found = observes.then(|| self.look(call, world)).flatten();
        found.filter(|found| found.is_found).map(|found| found.told)
    }

    fn explain(&self, call: &Call, world: &World<'_>) -> Option<String> {
        self.look(call, world).map(|found| found.told)
    }

    /// A yes for later calls is for the same destination.
    fn binding(&self, call: &Call) -> Option<Value> {
        match call.destination()? {
            Destination::Host { host, .. } => Some(json!({ "host": host })),
            Destination::Unreadable => Some(json!({ "args": call.args_hash() })),
            Destination::Service => None,
        }
    }

    fn names(&self) -> Names<'_> {
        Names::default()
    }

    fn describe(&self) -> Value {
        let allow = self.allow.iter().map(|allowed| match allowed {
            AllowedDestination::Host(host) => host.clone(),
            AllowedDestination::HostsUnder(domain) => format!("*.{domain}"),
            AllowedDestination::Tools(pattern) => pattern.to_string(),
        });
        json!({ "rule_of_two": { "mode": self.mode, "allow": allow.collect::<Vec<_>>() } })
    }
}
