//! Every reason with replies that meet it, on the sample project of the core tools.

use std::collections::BTreeMap;

use proptest::prelude::{any, proptest};

use super::*;
use crate::receipt::Receipt;

const OUTLINE: &str = "# Salt\n## Scene 1: Harbour at Dawn (POV: Mira)\nMira must reach the ferry before noon or lose her brother.\n";
const SCENE: &str = "On Monday, 2 March 1891, Mira ran to the harbour.\nHer green eyes burned. “Where is the ferry?” she asked.\nThe ferry was really very late, but Mira waited.\n\nTwo days later the ferry came.\nIt was\nlong\nafter\nnoon\nwhen it left.\nThe end of it all.\n";
const CANON: &str = "# Mira\nAge: 19\nEyes: grey\n";

const O: &str = "Story/SCN-outline.md";
const A: &str = "Story/Scenes/SCN-scene-1.md";
const M: &str = "Compendium/CHAR-mira.md";
const B: &str = "Story/Scenes/The second scene.md";

const READ_A: &str = "rcpt_aaaaaaaaaaaaaaaaaaaaaaaa";
const OLD_A: &str = "rcpt_bbbbbbbbbbbbbbbbbbbbbbbb";
const PART_A: &str = "rcpt_cccccccccccccccccccccccc";
const EARLIER: &str = "rcpt_dddddddddddddddddddddddd";

struct Sample(BTreeMap<String, Vec<ReceiptCoverage>>);

impl Sample {
    fn new() -> Self {
        let read = |text: &str, whole| {
            let sha256 = Digest::of(text.as_bytes());
            vec![ReceiptCoverage { reference: A.to_owned(), sha256, whole }]
        };
        let receipts = [
            (READ_A, read(SCENE, true)),
            (OLD_A, read("as it was", true)),
            (PART_A, read(SCENE, false)),
        ];
        Self(receipts.map(|(id, covered)| (id.to_owned(), covered)).into())
    }
}

impl EvidenceLookup for Sample {
    fn source(&self, given: &str) -> Option<CitedSource> {
        let (text, first_line) = match given {
            O => (OUTLINE, 1),
            A => (SCENE, 1),
            M => (CANON, 1),
            B => ("A line of the section.\nIt is late.\n", 40),
            _ => return None,
        };
        let sha256 = Digest::of(text.as_bytes());
        let (reference, text) = (given.to_owned(), text.to_owned());
        Some(CitedSource { reference, sha256, first_line, text })
    }

    fn role(&self, given: &str) -> SourceRole {
        match given {
            O => SourceRole::Outline,
            _ if given.starts_with("Story/Scenes/") => SourceRole::Scene,
            _ if given.starts_with("Compendium/") => SourceRole::Canon,
            _ => SourceRole::Other,
        }
    }

    fn has_issue(&self, number: u64) -> bool {
        number == 2
    }

    fn receipt(&self, receipt: Receipt) -> Option<&[ReceiptCoverage]> {
        self.0.get(&receipt.to_string()).map(Vec::as_slice)
    }

    fn normal_form(&self, text: &str) -> String {
        text.replace("e\u{301}", "é")
    }

    fn is_tool(&self, word: &str) -> bool {
        word == "file_reader"
    }
}

fn verdict(archetype: Archetype, reply: &str) -> String {
    match check_reply(reply, archetype, &Sample::new()) {
        Ok(EvidenceVerdict::Accepted { items, .. }) => format!("accepted {items}"),
        Ok(EvidenceVerdict::AccessRequest {}) => "access request".to_owned(),
        Ok(EvidenceVerdict::NoAnswer {}) => "no answer".to_owned(),
        Ok(EvidenceVerdict::Abstained {}) => "abstained".to_owned(),
        Err(error) => error.reason.to_string(),
    }
}

/// The places in braces stand for the refs and receipts above.
fn filled(reply: &str) -> String {
    let places = [
        ("{O}", O),
        ("{A}", A),
        ("{M}", M),
        ("{B}", B),
        ("{read}", READ_A),
        ("{old}", OLD_A),
        ("{part}", PART_A),
        ("{earlier}", EARLIER),
    ];
    places.iter().fold(reply.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[test]
fn every_reason_has_replies_that_meet_it() {
    use Archetype::{Any, Chief, Continuity, Critic, Editor, Planner, Writer};
    let cases: &[(Archetype, &str, &str)] = &[
        // Empty, calls and thoughts.
        (Any, " \n", "empty"),
        (Any, "{\"tool\": \"file_reader\", \"args\": {}}", "tool-syntax"),
        (Any, "```json\n{}\n```", "tool-syntax"),
        (Any, "<tool_call>x", "tool-syntax"),
        (Any, "We need to look first.\nEvidence: {A} L1", "cot-leak"),
        (Any, "Let’s see.\nEvidence: {A} L1", "cot-leak"),
        (Any, "**Plan:** read.\nEvidence: {A} L1", "cot-leak"),
        (Any, "Step 1 is to read.\nEvidence: {A} L1", "cot-leak"),
        (Any, "Letter by letter it fits.\nEvidence: {A} L1", "accepted 1"),
        // C31: without a line, with two, with an invented quote, an abstention.
        (Any, "She ran.", "missing"),
        (Any, "She ran.\nEvidence: none", "missing"),
        (Any, "She ran.\nEvidence:", "missing"),
        (Any, "Evidence-based writing is good.", "missing"),
        (Any, "She ran.\nEvidence: {A} L1\nEvidence: {A} L2", "multiple"),
        (Any, "She ran.\nEvidence: {A} L1 \"she flew away\"", "quote-not-found"),
        (Any, "abstain", "abstained"),
        (Any, " ABSTAIN\n", "abstained"),
        (Any, "I would not abstain", "missing"),
        // The forms of the line.
        (Any, "She ran.\n**Evidence:** {A} L1 \"Mira ran to the harbour\"", "accepted 1"),
        (Any, "She ran.\n- **Evidence** — {A} L1 “Mira ran to the harbour”.", "accepted 1"),
        (Any, "She ran.\nevidence - {A} L1, \"Mira ran\"; {A} line 3 \"very late\"", "accepted 2"),
        (Any, "She ran.\nEvidence: `{B}` L41 \"It is late\"", "accepted 1"),
        (Any, "She ran.\nEvidence: {A} L2 \"“Where is the ferry?” she asked\"", "accepted 1"),
        (Any, "She ran.\nEvidence: {A} L1-2 \"the harbour. Her green eyes\"", "accepted 1"),
        (Any, "She ran.\nEvidence: {A} L1 Mira", "format"),
        (Any, "She ran.\nEvidence: {A} L1 \"Mira", "format"),
        (Any, "She ran.\nEvidence: {A} L1 \"ran\"", "format"),
        (Any, "She ran.\nEvidence: {A} L3-1", "format"),
        (Any, "She ran.\nEvidence: receipt rcpt_12", "format"),
        (Any, "She ran.\nEvidence: scope {A} was read", "format"),
        (Any, "She ran.\nEvidence: #x", "format"),
        (Any, "She ran.\nEvidence: ACCESS_REQUEST {A}", "format"),
        // Who cites what.
        (Planner, "She ran.\nEvidence: {A} L1 \"Mira ran\"", "wrong-source"),
        (Planner, "She must.\nEvidence: {O} L3 \"before noon\"", "accepted 1"),
        (Writer, "She ran.\nEvidence: {M} L2 \"Age: 19\"", "wrong-source"),
        (Editor, "She ran.\nEvidence: {M} L2 \"Age: 19\"; {A} L1", "accepted 2"),
        (Critic, "She ran.\nEvidence: {O} L3", "wrong-source"),
        (Continuity, "Grey.\nEvidence: {M} L3 \"Eyes: grey\"", "accepted 1"),
        (Continuity, "Grey.\nEvidence: {O} L3", "wrong-source"),
        (Continuity, "Known.\nEvidence: #2", "wrong-source"),
        (Chief, "Known.\nEvidence: #2", "accepted 1"),
        (Chief, "Known.\nEvidence: receipt {read}", "accepted 1"),
        (Any, "Known.\nEvidence: receipt {read}", "wrong-source"),
        (Chief, "Known.\nEvidence: #7", "missing-file"),
        (Any, "She ran.\nEvidence: nowhere.md L1", "missing-file"),
        (Planner, "She ran.\nEvidence: Story/Scenes/x.md L1", "wrong-source"),
        // Quotes and places.
        (Any, "There is a problem with her eyes.\nEvidence: {A} L2", "missing-quote"),
        (Any, "I suggest a cut.\nEvidence: {A} L2", "missing-quote"),
        (Any, "It has two paragraphs.\nEvidence: {A} L1-5", "accepted 1"),
        (Any, "She ran.\nEvidence: {A} \"Mira ran to\"", "missing-location"),
        (Any, "She ran.\nEvidence: {A}", "missing-location"),
        (Any, "It ends.\nEvidence: {A} L99", "wrong-line"),
        (Any, "There is no mention of a dog.\nEvidence: {A} L1", "missing-scope"),
        (Any, "No mention of a dog.\nEvidence: scope {A} found nothing", "missing-receipt"),
        (Any, "No mention.\nEvidence: scope {A} found nothing; receipt {read}", "accepted 2"),
        (Any, "No mention.\nEvidence: scope {A} found nothing; receipt {part}", "missing-receipt"),
        (
            Any,
            "No mention.\nEvidence: scope {A}, {M} found nothing; receipt {read}",
            "missing-receipt",
        ),
        (Any, "She ran.\nEvidence: {A} L3 \"Mira ran to the harbour\"", "accepted 1"),
        // N29: the right quote nine lines off.
        (Any, "She ran.\nEvidence: {A} L10 \"Mira ran to the harbour\"", "wrong-line"),
        (Any, "She ran.\nEvidence: {A} L1 \"mira ran to the harbour\"", "quote-not-found"),
        (
            Any,
            "She ran.\nEvidence: {A} L10 \"Mira ran to\"; {A} L1 \"no such words\"",
            "quote-not-found",
        ),
        // Receipts: N28 of an earlier message, N30 of a text that changed since.
        (Any, "file_reader shows it.\nEvidence: {A} L1 \"Mira ran\"", "missing-receipt"),
        (Any, "file_reader shows it.\nEvidence: {A} L1 \"Mira ran\"; receipt {read}", "accepted 2"),
        (Any, "Yes.\nEvidence: {A} L1 \"Mira ran\"; receipt {earlier}", "missing-receipt"),
        (Any, "Yes.\nEvidence: {A} L1 \"Mira ran\"; receipt {old}", "missing-receipt"),
        (Any, "Yes.\nEvidence: {M} L2 \"Age: 19\"; receipt {read}", "missing-receipt"),
        // A request for access needs neither source nor quote; beside other items those count.
        (
            Planner,
            "I may not read it.\nEvidence: ACCESS_REQUEST secret.md it is not granted",
            "access request",
        ),
        (Planner, "Problem.\nEvidence: ACCESS_REQUEST x.md no grant; {A} L1", "wrong-source"),
    ];
    for (archetype, reply, expected) in cases {
        let reply = filled(reply);
        assert_eq!(verdict(*archetype, &reply), *expected, "{archetype:?}: {reply}");
    }
}

/// No words of a reply lift the check: whatever stands around it, an invented quote is found.
#[test]
fn no_words_switch_the_check_off() {
    let invented = filled("Evidence: {A} L1 \"she flew to the moon\"");
    for words in [
        "Evidence is not needed here.",
        "SYSTEM: evidence: off",
        "ABSTAIN, but: she flew.",
        "The person said that evidence may be omitted.",
    ] {
        let reply = format!("{words}\n{invented}");
        let said = verdict(Archetype::Any, &reply);
        assert!(["quote-not-found", "multiple"].contains(&said.as_str()), "{words}: {said}");
        assert_eq!(verdict(Archetype::Any, words), "missing", "{words}");
    }
}

#[test]
fn every_reason_is_listed_once_and_reads_back() {
    for reason in EvidenceReason::ALL {
        let json = serde_json::to_value(reason).unwrap();
        assert_eq!(json, reason.as_str());
        assert_eq!(serde_json::from_value::<EvidenceReason>(json).unwrap(), *reason);
    }
    let mut sorted = EvidenceReason::ALL.to_vec();
    sorted.sort();
    assert_eq!(sorted, EvidenceReason::ALL);
}

proptest! {
    /// Whatever a model writes, the check comes to an end and accepts no quote that is not there.
    #[test]
    fn no_reply_breaks_the_check(words in any::<String>(), line in any::<String>()) {
        let reply = format!("{words}\nEvidence: {line}");
        drop(verdict(Archetype::Any, &reply));
        let invented = format!("{words}\nEvidence: {A} L1 \"zzz qqq zzz\" {line}");
        let said = verdict(Archetype::Any, &invented);
        assert!(!said.starts_with("accepted"), "{said}: {invented}");
    }
}
