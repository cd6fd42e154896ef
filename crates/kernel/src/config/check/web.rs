//! Decides whether the web can be used as written, and tells of tools by their former names.

use super::{Desk, Finding, Mistake, Severity, Step};
use crate::config::finding::quoted;
use crate::config::migrate::former;
use crate::config::server::{NO_ADDRESS, is_address};
use crate::config::{PackName, RuleOfTwoMode};

impl Desk<'_> {
    /// What is told of the rule of two, and of files that others may have written.
    pub(super) fn flow(&self, found: &mut Vec<Finding>) {
        let place = self.place(&[Step::Key("egress"), Step::Key("rule_of_two")]);
        let told = match self.text().egress.rule_of_two {
            RuleOfTwoMode::Off => Some("nothing is asked or logged"),
            RuleOfTwoMode::Observe => Some("what would be asked is logged, and nothing is asked"),
            RuleOfTwoMode::Ask | RuleOfTwoMode::Strict | RuleOfTwoMode::Deny => None,
        };
        if let Some(told) = told {
            let message = format!(
                "{told} before a session that has read private data and untrusted content sends \
                 something"
            );
            let finding = Finding::new(Severity::Warning, Mistake::Policy, message).at(place);
            found.push(finding.help("leave the line out, and name hosts under `egress.allow`"));
        }
        let packs = self.text().packs.as_deref().unwrap_or(PackName::DEFAULT);
        let is_idle = self.text().files.is_some() && !packs.contains(&PackName::Files);
        if is_idle && !self.doubtful("packs") {
            let message = "`files` changes nothing: the pack files is not enabled";
            let finding = Finding::new(Severity::Warning, Mistake::Idle, message);
            let place = self.key(&[Step::Key("files")]);
            found.push(finding.at(place).help("add `files` to `packs`"));
        }
    }

    pub(super) fn web(&self, found: &mut Vec<Finding>) {
        let Some(web) = &self.text().web else { return };
        let path = |key| [Step::Key("web"), Step::Key(key)];
        let unfit = |url: &String| !is_address(url) || url.contains(['@', '?', '#']);
        if web.searxng_url.as_ref().is_some_and(unfit) {
            let finding = Finding::error(Mistake::Server, NO_ADDRESS);
            let help = "write it like http://localhost:8888, without a name, a password or a query";
            found.push(finding.at(self.place(&path("searxng_url"))).help(help));
        }
        for (key, given, ceiling) in web.off() {
            found.push(match given {
                0 => self.zero(key, &path(key)),
                _ => self.too_high(key, given, ceiling, &path(key)),
            });
        }
        let packs = self.text().packs.as_deref().unwrap_or(PackName::DEFAULT);
        if !packs.contains(&PackName::Web) && !self.doubtful("packs") {
            let message = "`web` changes nothing: the pack web is not enabled";
            let finding = Finding::new(Severity::Warning, Mistake::Idle, message);
            let place = self.key(&[Step::Key("web")]);
            found.push(finding.at(place).help("add `web` to `packs`"));
        }
    }

    /// Tools by names that they had before. They work, and are told.
    pub(super) fn former(&self, found: &mut Vec<Finding>) {
        let Some(tree) = &self.reading.tree else { return };
        for (span, name, today) in former(self.reading.source(), tree) {
            let message = format!("{} is a former name of the tool `{today}`", quoted(&name));
            let finding = Finding::new(Severity::Warning, Mistake::FormerName, message);
            found.push(finding.at(span).help("`toolgate migrate` writes today's names"));
        }
    }
}
