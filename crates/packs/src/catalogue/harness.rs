//! Runs the test cases of a proposal: against the replies they bring, or against a model in a session
//! of its own that is kept in memory and has tools that only read.

use std::sync::{Arc, LazyLock};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::{Agent, AgentDraft};
use toolgate_kernel::budget::TokenLimit;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::names::SessionId;
use toolgate_runtime::memory::MemoryStore;
use toolgate_runtime::port::{Clock, Files, Provider};
use toolgate_runtime::{Crew, Driver, Runtime, Start, Toolbox};

use super::prompt_tool::PromptTool;
use super::proposal::{Expected, PATTERN_CHARS_MAX, Proposal, ReplyCheck, TestCase};
use crate::core_tools::{self, CoreToolsOptions};

/// Bytes that a compiled pattern may have.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Longest quote of a reply, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// Tokens that all cases of one run may spend together.
const TOKENS_MAX: u64 = 200_000;

/// What one test case gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// As it was expected.
    Passed,
    /// Not as it was expected.
    Failed,
    /// There is no reply to check.
    Skipped,
}

/// A check that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenCheck {
    /// The check.
    pub check: String,
    /// Why.
    pub why: String,
}

/// The result of one test case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// What it gave.
    pub outcome: CaseOutcome,
    /// Which checks did not hold, whatever was expected.
    pub broken: Vec<BrokenCheck>,
    /// The beginning of the reply.
    pub quote: String,
}

/// The results of all test cases of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HarnessReport {
    /// Digest of the revision.
    pub digest: Digest,
    /// The model; absent where only the replies that the cases bring were checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The cases, in order.
    pub cases: Vec<CaseResult>,
}

impl HarnessReport {
    /// The cases that did not give what was expected.
    pub fn failed(&self) -> impl Iterator<Item = &CaseResult> {
        self.cases.iter().filter(|case| case.outcome == CaseOutcome::Failed)
    }

    /// In one line, without anything of a reply.
    pub fn summary(&self) -> String {
        let count = |outcome| self.cases.iter().filter(|case| case.outcome == outcome).count();
        format!(
            "Test cases: {} passed, {} failed, {} skipped ({}).",
            count(CaseOutcome::Passed),
            count(CaseOutcome::Failed),
            count(CaseOutcome::Skipped),
            self.model.as_deref().unwrap_or("without a model")
        )
    }

    /// All of it, for a person.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.summary()];
        for case in &self.cases {
            let outcome = match case.outcome {
                CaseOutcome::Passed => "passed",
                CaseOutcome::Failed => "FAILED",
                CaseOutcome::Skipped => "skipped",
            };
            lines.push(format!("  {}: {outcome}", case.name));
            lines.extend(case.broken.iter().map(|one| format!("    {}: {}", one.check, one.why)));
            if !case.quote.is_empty() {
                lines.push(format!("    reply: {}", case.quote));
            }
        }
        lines
    }
}

/// A pattern within its bounds.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err("it is empty".to_owned());
    }
    if pattern.chars().count() > PATTERN_CHARS_MAX {
        return Err(format!("it has more than {PATTERN_CHARS_MAX} characters"));
    }
    let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    built.map_err(|error| error.to_string().lines().last().unwrap_or_default().trim().to_owned())
}

/// A reply with what was done to make it.
#[derive(Debug, Clone, Default)]
pub struct CheckedReply {
    /// The words.
    pub text: String,
    /// Receipts of the calls that were made for it.
    pub receipts: Vec<String>,
}

/// Holds a reply against a test case.
pub fn check_reply(case: &TestCase, reply: Option<&CheckedReply>) -> CaseResult {
    let name = case.name.clone();
    let Some(reply) = reply else {
        let (outcome, broken, quote) = (CaseOutcome::Skipped, Vec::new(), String::new());
        return CaseResult { name, outcome, broken, quote };
    };
    let broken = broken_checks(case, reply);
    let outcome = match (case.expect, broken.is_empty()) {
        (Expected::Pass, true) | (Expected::Fail, false) => CaseOutcome::Passed,
        (Expected::Pass, false) | (Expected::Fail, true) => CaseOutcome::Failed,
    };
    let quote = super::inject::one_line(&reply.text).chars().take(QUOTE_CHARS_MAX).collect();
    CaseResult { name, outcome, broken, quote }
}

fn broken_checks(case: &TestCase, reply: &CheckedReply) -> Vec<BrokenCheck> {
    let mut broken = Vec::new();
    let mut add = |check: &str, why: Option<String>| {
        broken.extend(why.map(|why| BrokenCheck { check: check.to_owned(), why }));
    };
    for check in &case.checks {
        match check {
            ReplyCheck::JsonOnly => add("json_only", not_json(&reply.text)),
            ReplyCheck::NoFences => {
                let fenced = reply.text.lines().any(|line| {
                    let line = line.trim_start();
                    line.starts_with("```") || line.starts_with("~~~")
                });
                add("no_fences", fenced.then(|| "it has a Markdown fence".to_owned()));
            }
            ReplyCheck::Evidence => add("evidence", no_evidence(&reply.text)),
            ReplyCheck::Receipt => {
                let cited = |receipt: &String| reply.text.contains(receipt.as_str());
                let none = !reply.receipts.iter().any(cited);
                add("receipt", none.then(|| "it cites no receipt of a call that was made".into()));
            }
            ReplyCheck::NoFakeCalls => add("no_fake_calls", fake_call(&reply.text)),
        }
    }
    for (check, patterns, wanted) in
        [("must", &case.must, true), ("must_not", &case.must_not, false)]
    {
        for pattern in patterns {
            let why = match compiled(pattern) {
                Err(error) => Some(format!("{pattern:?} is not a usable pattern: {error}")),
                Ok(found) if found.is_match(&reply.text) == wanted => None,
                Ok(_) if wanted => Some(format!("nothing in it fits {pattern:?}")),
                Ok(_) => Some(format!("something in it fits {pattern:?}")),
            };
            add(check, why);
        }
    }
    if let Some(max) = case.max_chars {
        let chars = u64::try_from(reply.text.chars().count()).unwrap_or(u64::MAX);
        add(
            "max_chars",
            (chars > max).then(|| format!("it has {chars} of at most {max} characters")),
        );
    }
    broken
}

fn not_json(text: &str) -> Option<String> {
    let error = serde_json::from_str::<Value>(text.trim()).err()?;
    Some(format!("it is not one JSON value and nothing else: {error}"))
}

/// Whether a reply has exactly one line of evidence, with something in it.
fn no_evidence(text: &str) -> Option<String> {
    let plain = |line: &str| line.trim().replace("**", "").replace("__", "");
    let items = |line: String| {
        let rest = line.strip_prefix("Evidence")?.trim_start();
        let rest = rest.strip_prefix([':', '-', '–', '—'])?.trim().to_owned();
        Some(rest)
    };
    let found: Vec<String> = text.lines().map(plain).filter_map(items).collect();
    match found.as_slice() {
        [] => Some("it has no line of evidence".to_owned()),
        [one] if one.is_empty() => Some("its line of evidence is empty".to_owned()),
        [_] => None,
        _ => Some("it has several lines of evidence".to_owned()),
    }
}

/// A call that is printed and not made.
fn fake_call(text: &str) -> Option<String> {
    static CALLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let names: Vec<String> =
            core_tools::core_prompts().iter().map(|core| regex::escape(&core.id)).collect();
        let pattern = format!(
            r#"(?i)</?(tool_call|function_calls|invoke|tool_response)\b|"(tool|name|function)"\s*:\s*"[^"]*"[^{{}}]*"(args|arguments|parameters|input)"\s*:|\b({})\s*\("#,
            names.join("|")
        );
        Regex::new(&pattern).ok()
    });
    let found = match &*CALLS {
        Some(calls) => calls.find(text).map(|found| found.as_str().to_owned()),
        None => Some("the pattern cannot be used".to_owned()),
    };
    found.map(|found| format!("it prints a call: {found:?}"))
}

/// What a run with a model needs.
pub struct HarnessRoom {
    /// The model, or the script that plays one.
    pub provider: Arc<dyn Provider>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The files that the tools read.
    pub files: Arc<dyn Files>,
    /// How the core tools are set up.
    pub options: CoreToolsOptions,
}

/// A run that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the test cases could not be run: {0}")]
pub struct HarnessError(String);

/// Checks the replies that the cases bring; the others are skipped.
pub fn run_replies(proposal: &Proposal) -> HarnessReport {
    let result = |case: &TestCase| {
        let reply = case.reply.clone().map(|text| CheckedReply { text, receipts: Vec::new() });
        check_reply(case, reply.as_ref())
    };
    let cases = proposal.test_cases.iter().map(result).collect();
    HarnessReport { digest: proposal.digest(), model: None, cases }
}

/// Lets a model answer the cases, each in a session of its own.
pub async fn run_model(
    proposal: &Proposal,
    room: &HarnessRoom,
) -> Result<HarnessReport, HarnessError> {
    let mut cases = Vec::new();
    for (at, case) in proposal.test_cases.iter().enumerate() {
        let reply = ask(&proposal.tool, case, at, room).await?;
        cases.push(check_reply(case, Some(&reply)));
    }
    let model = Some(room.provider.name().to_owned());
    Ok(HarnessReport { digest: proposal.digest(), model, cases })
}

async fn ask(
    tool: &PromptTool,
    case: &TestCase,
    at: usize,
    room: &HarnessRoom,
) -> Result<CheckedReply, HarnessError> {
    let wrong = |error: &dyn std::fmt::Display| HarnessError(error.to_string());
    let pack = core_tools::catalogue(room.options.clone()).map_err(|error| wrong(&error))?;
    let mut draft = AgentDraft::new("harness", vec![pack.section.clone()]);
    // A brace in the text is a brace, and no word that is filled in.
    let shown = format!("{}\n\n{}", tool.guardrails, tool.prompt).replace('{', "{{");
    draft.system_prompt = format!("You use the prompt tool {}.\n\n{shown}", tool.id);
    draft.budget.total_tokens_max = TokenLimit::Tokens(TOKENS_MAX);
    let agent = Agent::build(draft).map_err(|error| wrong(&error))?;
    let mut crew = Crew::new(Arc::new(agent), Toolbox::of(std::slice::from_ref(&pack)));
    crew.provider = Some(Arc::clone(&room.provider));
    let runtime = Runtime::new(Arc::new(MemoryStore::new()), Arc::clone(&room.clock));
    let runtime = Arc::new(runtime.with_files(Arc::clone(&room.files)));
    let id = SessionId::parse(&format!("case-{at}")).map_err(|error| wrong(&error))?;
    let start = Start { title: case.input.clone(), ..Start::default() };
    let opened = Driver::open_with(runtime, crew, id, &Actor::command_line(), start).await;
    let mut driver = opened.map_err(|error| wrong(&error))?;
    driver.run(&|_| {}).await.map_err(|error| wrong(&error))?;
    let session = driver.session();
    if let Some(reason) = session.failure.as_ref().map(|(_, reason)| reason) {
        return Err(HarnessError(reason.to_string()));
    }
    let told = session.turns.iter().flat_map(|turn| turn.told.values());
    let receipts = told.filter_map(|told| told.envelope.receipt.map(|one| one.to_string()));
    let receipts = receipts.collect();
    let text = session.turns.back().map(|turn| turn.text.to_string()).unwrap_or_default();
    Ok(CheckedReply { text, receipts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(expect: Expected, checks: &[ReplyCheck]) -> TestCase {
        TestCase {
            name: "one".to_owned(),
            input: "Go.".to_owned(),
            expect,
            checks: checks.to_vec(),
            must: Vec::new(),
            must_not: Vec::new(),
            max_chars: None,
            reply: None,
        }
    }

    fn reply(text: &str) -> CheckedReply {
        CheckedReply { text: text.to_owned(), receipts: vec!["rcpt_1".to_owned()] }
    }

    /// N27: a fenced reply breaks `json_only`, and where that is expected the case passes.
    #[test]
    fn a_case_passes_when_it_gives_what_was_expected() {
        let fenced = reply("```json\n{}\n```");
        for (expect, outcome) in
            [(Expected::Fail, CaseOutcome::Passed), (Expected::Pass, CaseOutcome::Failed)]
        {
            let result = check_reply(&case(expect, &[ReplyCheck::JsonOnly]), Some(&fenced));
            assert_eq!(result.outcome, outcome);
            assert_eq!(result.broken.len(), 1, "{result:?}");
        }
        let skipped = check_reply(&case(Expected::Pass, &[ReplyCheck::JsonOnly]), None);
        assert_eq!(skipped.outcome, CaseOutcome::Skipped);
    }

    #[test]
    fn each_check_says_what_it_looks_at() {
        use ReplyCheck::{Evidence, JsonOnly, NoFakeCalls, NoFences, Receipt};
        for (check, good, bad) in [
            (JsonOnly, "{\"a\": 1}", "Here: {\"a\": 1}"),
            (NoFences, "plain `code`", "a\n```\nb\n```"),
            (Evidence, "Yes.\nEvidence: a.md L3", "Yes."),
            (Evidence, "**Evidence** – a.md L3 \"x\"", "Evidence: a\nEvidence: b"),
            (Receipt, "As rcpt_1 shows.", "As rcpt_2 shows."),
            (NoFakeCalls, "I used file_reader on it.", "file_reader(\"a.md\")"),
            (NoFakeCalls, "A tool is a thing.", "{\"tool\": \"x\", \"args\": {}}"),
            (NoFakeCalls, "tool call", "<tool_call>x</tool_call>"),
        ] {
            let held = broken_checks(&case(Expected::Pass, &[check]), &reply(good));
            assert_eq!(held, [], "{check:?}: {good}");
            let broken = broken_checks(&case(Expected::Pass, &[check]), &reply(bad));
            assert_eq!(broken.len(), 1, "{check:?}: {bad}");
        }
    }

    #[test]
    fn patterns_and_length_are_held() {
        let mut one = case(Expected::Pass, &[]);
        one.must = vec!["(?i)verdict: (pass|fail)".to_owned()];
        one.must_not = vec![r"\bperhaps\b".to_owned()];
        one.max_chars = Some(20);
        assert_eq!(broken_checks(&one, &reply("Verdict: PASS")), []);
        let broken = broken_checks(&one, &reply("perhaps it is, perhaps it is not"));
        let checks: Vec<&str> = broken.iter().map(|one| one.check.as_str()).collect();
        assert_eq!(checks, ["must", "must_not", "max_chars"]);
        assert!(compiled(&"a".repeat(201)).is_err() && compiled("(").is_err());
    }
}
