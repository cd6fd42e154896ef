//! Checks replies before anybody is shown them: whether a required tool was called, and whether the
//! evidence that is required can be verified.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_kernel::event::{FaultKind, Finish, Outcome, StreamId};
use toolgate_kernel::evidence::{
    CitedSource, EVIDENCE_REJECTED, EvidenceError, EvidenceLookup, EvidenceMode, EvidenceReason,
    EvidenceVerdict, ReceiptCoverage, SourceRole, check_reply, coverage,
};
use toolgate_kernel::fold::Project;
use toolgate_kernel::next::asks_last_words;
use toolgate_kernel::plan::{Choice, Plan};
use toolgate_kernel::receipt::Receipt;
use toolgate_kernel::section::Toolset;

use super::{DriveFault, Driver};
use crate::port::{EvidenceSources, Files, ProviderFault, Reply};

/// The code of a reply that does not call the tool it must.
const TOOL_REQUIRED: &str = "TOOL_REQUIRED";

/// Characters of a reply that was not accepted, as the log keeps them.
const REJECTED_CHARS_MAX: usize = 20_000;

/// A reply that is not accepted, as the log tells it.
pub(super) struct RejectedReply {
    pub(super) fault: ProviderFault,
    pub(super) evidence: Option<EvidenceReason>,
}

impl RejectedReply {
    fn new(kind: FaultKind, reason: String, reply: &Reply) -> Self {
        let partial = reply.text.chars().take(REJECTED_CHARS_MAX).collect();
        let fault = ProviderFault::of_reply(kind, reason, reply.clone());
        Self { fault: ProviderFault { partial, ..fault }, evidence: None }
    }
}

impl Driver {
    /// Whether the words of replies are kept back until their evidence was verified.
    pub(super) fn holds_words(&self) -> bool {
        self.crew.agent.evidence(&self.session) == EvidenceMode::Required
    }

    /// Checks a whole reply. What became of its evidence is part of its record.
    pub(super) async fn check_reply(
        &mut self,
        plan: &Plan,
        reply: &Reply,
    ) -> Result<Result<Option<EvidenceVerdict>, RejectedReply>, DriveFault> {
        let silent = reply.calls.is_empty() && reply.finish == Finish::Stop;
        let asked = matches!(plan.choice, Choice::Required | Choice::Tool(_));
        if silent && asked && self.session.required_tool().is_some() {
            let tool = match &plan.choice {
                Choice::Tool(tool) => tool.as_str(),
                Choice::Auto | Choice::None | Choice::Required | Choice::Form(_) => "a tool",
            };
            let reason = format!("{TOOL_REQUIRED}: call {tool} before you answer");
            return Ok(Err(RejectedReply::new(FaultKind::ToolRequired, reason, reply)));
        }
        if !self.holds_words() {
            return Ok(Ok(None));
        }
        let is_answer = match reply.finish {
            Finish::Stop | Finish::Length => reply.calls.is_empty(),
            Finish::Calls | Finish::Refused | Finish::Paused => false,
        };
        if !is_answer || asks_last_words(&self.crew.agent, &self.session, &reply.text) {
            return Ok(Ok(Some(EvidenceVerdict::NoAnswer {})));
        }
        Ok(match self.verify(&reply.text).await? {
            Ok(verdict) => Ok(Some(verdict)),
            Err(EvidenceError { reason, detail }) => {
                let told = format!("{EVIDENCE_REJECTED}: {reason}: {detail}");
                let rejected = RejectedReply::new(FaultKind::EvidenceRejected, told, reply);
                Err(RejectedReply { evidence: Some(reason), ..rejected })
            }
        })
    }

    async fn verify(
        &mut self,
        text: &str,
    ) -> Result<Result<EvidenceVerdict, EvidenceError>, DriveFault> {
        let Some(sources) = self.crew.evidence.clone() else {
            let detail = "this program cannot look sources up".to_owned();
            let reason = EvidenceReason::MissingFile;
            return Ok(Err(EvidenceError { reason, detail }));
        };
        let receipts = self.round_receipts().await?;
        let project = self.runtime.catch_up().await?;
        let lookup = RoundLookup {
            sources: sources.as_ref(),
            project: &project,
            files: self.runtime.files.as_ref(),
            toolset: &self.crew.agent.toolset,
            receipts,
        };
        Ok(check_reply(text, self.crew.agent.archetype(&self.session), &lookup))
    }

    /// The receipts that count: of done calls since the last words of a person, in a run of this
    /// iteration, whose records lie in the log as they were written.
    async fn round_receipts(
        &mut self,
    ) -> Result<BTreeMap<Receipt, Vec<ReceiptCoverage>>, DriveFault> {
        let session = Arc::clone(&self.session);
        let told: Vec<Receipt> = session.round().filter_map(|told| told.envelope.receipt).collect();
        let mut counted = BTreeMap::new();
        if told.is_empty() {
            return Ok(counted);
        }
        let stream = StreamId::Session(session.id.clone());
        self.receipts.catch_up(self.runtime.store.as_ref(), &stream).await?;
        for receipt in told {
            let found = self.receipts.get(receipt);
            let holds = found.filter(|it| it.recomputes && it.under_head && it.envelope.ok);
            if let Some(found) = holds.filter(|it| it.outcome == Outcome::Done) {
                counted.insert(receipt, coverage(&found.envelope));
            }
        }
        Ok(counted)
    }
}

/// What one check looks up.
struct RoundLookup<'a> {
    sources: &'a dyn EvidenceSources,
    project: &'a Project,
    files: &'a dyn Files,
    toolset: &'a Toolset,
    receipts: BTreeMap<Receipt, Vec<ReceiptCoverage>>,
}

impl EvidenceLookup for RoundLookup<'_> {
    fn source(&self, given: &str) -> Option<CitedSource> {
        self.sources.source(self.project, self.files, given)
    }

    fn role(&self, given: &str) -> SourceRole {
        self.sources.role(given)
    }

    fn has_issue(&self, number: u64) -> bool {
        self.sources.has_issue(self.project, number)
    }

    fn receipt(&self, receipt: Receipt) -> Option<&[ReceiptCoverage]> {
        self.receipts.get(&receipt).map(Vec::as_slice)
    }

    fn normal_form(&self, text: &str) -> String {
        self.sources.normal_form(text)
    }

    fn is_tool(&self, word: &str) -> bool {
        // Names of one plain word are words of the language too.
        word.contains(['_', '-']) && self.toolset.find(word).is_some()
    }
}
