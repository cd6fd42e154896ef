//! A person's word on a call: for these very arguments, below every denial, and not for long.

use std::sync::Arc;

use serde_json::json;
use toolgate_kernel::actor::Actor;
use toolgate_kernel::agent::AgentDraft;
use toolgate_kernel::decision::Role;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::envelope::Code;
use toolgate_kernel::event::{Answer, Decision, DenialKind, Event, Said, Stage};
use toolgate_kernel::fold::Progress;
use toolgate_kernel::gate::{Judgement, Question, Refusal};
use toolgate_kernel::names::CallId;
use toolgate_kernel::policy::{Policy, Rule, RuleText};
use toolgate_kernel::tool::SpecDraft;

use crate::support::{Desk, answered, built, human, policy, section, tool};

pub(crate) fn rule(name: &str, deny: Option<&str>, ask: Option<&str>) -> Arc<dyn Policy> {
    Arc::new(Rule::new(policy(name), rule_text(name, deny, ask)).unwrap())
}

pub(crate) fn rule_text(name: &str, deny: Option<&str>, ask: Option<&str>) -> RuleText {
    RuleText {
        tools: vec![tool("send")],
        deny: deny.map(str::to_owned),
        ask: ask.map(str::to_owned),
        message: format!("says {name}"),
        by: Vec::new(),
        count: None,
        confirm: None,
        matches: Vec::new(),
        not_match: Vec::new(),
    }
}

/// A tool that is asked about when it goes outside, and never goes to `evil`.
pub(crate) fn draft(policies: Vec<Arc<dyn Policy>>) -> AgentDraft {
    let send = SpecDraft::new("send", "Sends.").params_schema(json!({
        "type": "object", "required": ["to"], "properties": {"to": {"type": "string"}},
    }));
    let mut draft = AgentDraft::new("desk", vec![section("mail", vec![built(send)])]);
    draft.policies = policies;
    draft
}

pub(crate) fn asking() -> Desk {
    Desk::new(draft(vec![
        rule("outside", None, Some("args.to != 'home'")),
        rule("never", Some("args.to == 'evil'"), None),
    ]))
}

/// Notes that the call was asked about, and what a person said.
fn answer(desk: &mut Desk, call: CallId, args_hash: Digest, answer: Answer) {
    // What the question stands on, as the gate asked it.
    let frame = match desk.admit(call) {
        Judgement::Asked { question, .. } => Some(question.frame),
        Judgement::Admitted(_) | Judgement::Refused(_) => None,
    };
    let asked = Event::CallAsked {
        call,
        tool: tool("send"),
        args_hash: desk.args_hash(call),
        policy: policy("outside"),
        reason: "says outside".into(),
        args: None,
        frame,
        expires_at: None,
        requires: None,
    };
    desk.note(&Actor::System, asked);
    let note = "so be it".to_owned();
    let decision = Decision { note, ..answered(call, "send", frame, args_hash, answer) };
    desk.hear(&human(), Said::Answer(Box::new(decision)));
}

fn refused(judgement: Judgement) -> Refusal {
    if let Judgement::Refused(refusal) = judgement { refusal } else { panic!("{judgement:?}") }
}

#[test]
fn a_call_is_asked_about_until_a_person_approves_it() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let judged = desk.admit(call);
    let Judgement::Asked { question, .. } = judged else { panic!("{judged:?}") };
    let Question { policy, reason, .. } = *question;
    assert_eq!((policy.as_str(), reason.as_str()), ("outside", "says outside"));
    let hash = desk.args_hash(call);
    answer(&mut desk, call, hash, Answer::Approve);
    assert!(matches!(desk.admit(call), Judgement::Admitted(_)));
}

/// Somebody with the host key may write down that a question wants less than its rule does.
#[test]
fn a_question_that_is_logged_as_a_smaller_one_is_asked_again() {
    for (role, count) in [(Role::Owner, None), (Role::Approver, Some(2))] {
        let text = RuleText { by: vec![role], count, ..rule_text("outside", None, Some("true")) };
        let strict: Arc<dyn Policy> = Arc::new(Rule::new(policy("outside"), text).unwrap());
        let mut desk = Desk::new(draft(vec![strict]));
        let call = desk.receive("send", r#"{"to":"work"}"#);
        let hash = desk.args_hash(call);
        // The record of the question says nothing of a role or a number.
        answer(&mut desk, call, hash, Answer::Approve);
        let judged = desk.admit(call);
        let Judgement::Asked { question, .. } = judged else { panic!("{judged:?}") };
        assert_eq!((question.requires.role, question.requires.count), (role, count.unwrap_or(1)));
    }
}

#[test]
fn what_nobody_asks_about_needs_no_approval() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"home"}"#);
    assert!(matches!(desk.admit(call), Judgement::Admitted(_)));
}

#[test]
fn an_approval_of_other_arguments_does_not_lift() {
    let mut desk = asking();
    let seen = desk.receive("send", r#"{"to":"bank"}"#);
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let other = desk.args_hash(seen);
    answer(&mut desk, call, other, Answer::Approve);
    assert!(matches!(desk.admit(call), Judgement::Asked { .. }), "the hash is another one");
}

#[test]
fn an_approval_does_not_carry_over_to_the_next_call() {
    let mut desk = asking();
    let first = desk.receive("send", r#"{"to":"work"}"#);
    let hash = desk.args_hash(first);
    answer(&mut desk, first, hash, Answer::Approve);
    let second = desk.receive("send", r#"{"to":"work"}"#);
    assert!(matches!(desk.admit(first), Judgement::Admitted(_)));
    assert!(matches!(desk.admit(second), Judgement::Asked { .. }), "equal arguments, another call");
}

#[test]
fn a_denial_of_what_was_shown_refuses_with_its_sentence() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"work"}"#);
    answer(&mut desk, call, Digest::ZERO, Answer::Deny);
    assert!(matches!(desk.admit(call), Judgement::Asked { .. }), "it was shown something else");
    let hash = desk.args_hash(call);
    answer(&mut desk, call, hash, Answer::Deny);
    let refusal = refused(desk.admit(call));
    assert_eq!(refusal.stage, Stage::Answer);
    let trouble = &refusal.errors[0];
    assert_eq!(trouble.code, Code::APPROVAL_DENIED);
    assert!(trouble.message.contains("so be it"), "{}", trouble.message);
}

#[test]
fn a_denial_beats_an_approval() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"evil"}"#);
    let hash = desk.args_hash(call);
    answer(&mut desk, call, hash, Answer::Approve);
    let refusal = refused(desk.admit(call));
    assert_eq!(refusal.errors[0].code, Code::POLICY_DENIED);
    let denial = refusal.denial.clone().unwrap();
    assert_eq!((denial.policy.as_str(), denial.kind), ("never", DenialKind::RuleDenied));
}

#[test]
fn an_approval_does_not_mend_a_policy_that_cannot_answer() {
    let broken = rule("broken", Some("args.amount > 1"), None);
    let mut desk = Desk::new(draft(vec![rule("outside", None, Some("true")), broken]));
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let hash = desk.args_hash(call);
    answer(&mut desk, call, hash, Answer::Approve);
    let refusal = refused(desk.admit(call));
    assert_eq!(refusal.errors[0].code, Code::POLICY_ERROR);
    assert_eq!(refusal.denial.clone().unwrap().kind, DenialKind::PolicyError);
}

/// The worst word wins, whatever the order of the policies.
#[test]
fn deny_beats_ask_in_any_order() {
    let ask = || rule("outside", None, Some("true"));
    let deny = || rule("never", Some("true"), None);
    for policies in [vec![ask(), deny()], vec![deny(), ask()]] {
        let mut desk = Desk::new(draft(policies));
        let call = desk.receive("send", r#"{"to":"work"}"#);
        assert_eq!(refused(desk.admit(call)).denial.clone().unwrap().policy.as_str(), "never");
    }
}

/// Questions and answers hold under the configuration they were asked under.
#[test]
fn another_configuration_asks_again() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let hash = desk.args_hash(call);
    answer(&mut desk, call, hash, Answer::Approve);
    let (phase, program) = (desk.session.phase.clone().unwrap(), "2".to_owned());
    let same = Event::ConfigBound {
        config: desk.agent.fingerprint,
        program: program.clone(),
        phase: phase.clone(),
        file: None,
    };
    desk.note(&Actor::System, same);
    assert!(matches!(desk.admit(call), Judgement::Admitted(_)), "the same configuration again");
    let other = Event::ConfigBound { config: Digest::of(b"other"), program, phase, file: None };
    desk.note(&Actor::System, other);
    let progress = &desk.session.open.get(&call).unwrap().progress;
    assert_eq!(*progress, Progress::Received);
    assert!(matches!(desk.admit(call), Judgement::Asked { .. }));
}

/// An approval binds to what runs: the same arguments in other words have the same hash.
#[test]
fn the_hash_is_of_the_arguments_and_not_of_their_spelling() {
    let mut desk = asking();
    let plain = desk.receive("send", r#"{"to":"work"}"#);
    let spaced = desk.receive("send", "{ \"to\" : \"w\\u006frk\" }");
    let other = desk.receive("send", r#"{"to":"Work"}"#);
    assert_eq!(desk.args_hash(plain), desk.args_hash(spaced));
    assert_ne!(desk.args_hash(plain), desk.args_hash(other));
}
