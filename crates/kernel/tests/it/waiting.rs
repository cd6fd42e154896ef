//! Calls that wait for a person's yes: what a yes is bound to, and what becomes of them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::decision::AllowanceTerms;
use toolgate_kernel::decision::DecisionRef;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{
    Answer, Basis, CallAdmitted, Decision, Event, RawCall, Said, StreamId,
};
use toolgate_kernel::fold::Progress;
use toolgate_kernel::gate::{Judgement, Refusal};
use toolgate_kernel::names::{CallId, PhaseName};
use toolgate_kernel::next::{Step, open_calls};
use toolgate_kernel::time::Timestamp;

use crate::approvals::asking;
use crate::support::{Desk, answered, human, policy, session_id, tool};

/// A call that a person was asked about, and nobody answered.
fn put_off(desk: &mut Desk, args: &str) -> CallId {
    let call = desk.receive("send", args);
    let open = Arc::clone(desk.session.open.get(&call).unwrap());
    let raw = Arc::clone(&open.raw);
    let judged = desk.admit(call);
    assert!(matches!(judged, Judgement::Asked { .. }), "{judged:?}");
    desk.note(&Actor::System, judged.event(&raw));
    let pending = Refusal::pending(&open, "says outside");
    desk.note(&Actor::System, Event::CallRefused(pending.event(&raw)));
    call
}

fn decision(desk: &Desk, call: CallId, answer: Answer) -> Decision {
    let waiting = desk.session.waiting.get(&call).unwrap();
    answered(call, "send", waiting.frame, waiting.args_hash, answer)
}

fn heard(decision: Decision) -> Said {
    Said::Answer(Box::new(decision))
}

fn terms() -> Option<AllowanceTerms> {
    Some(AllowanceTerms::default_from(Timestamp(1_000)))
}

/// Makes the new call, as a driver does.
fn take_up(desk: &mut Desk, of: CallId) -> CallId {
    let waiting = desk.session.waiting.get(&of).unwrap();
    assert_eq!(desk.session.spoken_about(&waiting.actor, "send", &waiting.raw.args), Some(of));
    let id = CallId(desk.session.next_call);
    let (name, args) = (waiting.tool.to_string(), waiting.args_text());
    let call = Arc::new(RawCall { id, name, args, alias: None });
    let actor = waiting.actor.clone();
    desk.note(&actor, Event::CallReceived { call, of: Some(of) });
    id
}

fn last_word(desk: &Desk) -> String {
    desk.session.feedback.back().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn a_yes_makes_one_new_call_and_no_second() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    assert!(open_calls(&desk.session).is_none(), "nobody has answered");
    let yes = decision(&desk, call, Answer::Approve);
    desk.hear(&human(), heard(yes.clone()));
    let made = take_up(&mut desk, call);
    assert!(matches!(desk.admit(made), Judgement::Admitted(_)));
    desk.hear(&human(), heard(yes));
    assert!(desk.session.waiting.is_empty());
    assert!(!matches!(open_calls(&desk.session), Some(Step::TakeUp(_))), "the yes was used");
}

#[test]
fn a_no_is_told_with_its_sentence_and_makes_nothing() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let note = "Not on a Friday.".to_owned();
    let no = Decision { note, ..decision(&desk, call, Answer::Deny) };
    desk.hear(&human(), heard(no));
    assert!(open_calls(&desk.session).is_none());
    // Whoever makes the call again is told.
    let again = take_up(&mut desk, call);
    let Judgement::Refused(refusal) = desk.admit(again) else { panic!("not refused") };
    assert!(refusal.errors[0].message.contains("said no: Not on a Friday"), "{refusal:?}");
    assert!(desk.session.waiting.is_empty());
}

#[test]
fn a_word_on_something_else_than_was_shown_counts_for_nothing() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let other = put_off(&mut desk, r#"{"to":"bank"}"#);
    let shown = desk.session.waiting.get(&other).unwrap().shown();
    let wrong = Decision { shown, ..decision(&desk, call, Answer::Approve) };
    desk.hear(&human(), heard(wrong));
    assert!(open_calls(&desk.session).is_none());
    assert_eq!(desk.session.waiting.len(), 2);
}

#[test]
fn a_yes_never_lifts_a_no_of_a_policy() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let yes = decision(&desk, call, Answer::Approve).with_args(json!({"to": "evil"}));
    desk.hear(&human(), heard(yes));
    let made = take_up(&mut desk, call);
    let judged = desk.admit(made);
    assert!(matches!(judged, Judgement::Refused(_)), "{judged:?}");
}

#[test]
fn other_arguments_run_when_the_person_wrote_them_and_the_caller_is_told() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let args: Value = json!({"to": "bank"});
    let yes = decision(&desk, call, Answer::Approve).with_args(args);
    desk.hear(&human(), heard(yes));
    let made = take_up(&mut desk, call);
    let Judgement::Admitted(admitted) = desk.admit(made) else { panic!("not admitted") };
    let event = admitted.event();
    assert!(event.basis.is_answer() && event.frame.is_some());
    assert!(event.warnings[0].contains(r#"{"to":"bank"}"#), "{:?}", event.warnings);
}

#[test]
fn a_yes_is_bound_to_the_phase_it_was_asked_in() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let yes = decision(&desk, call, Answer::Approve);
    desk.hear(&human(), heard(yes));
    let made = take_up(&mut desk, call);
    let from = desk.session.phase.clone().unwrap();
    // Where the phase has another name, it is another question, even about the same tool.
    let phase = PhaseName::parse("other").unwrap();
    let reason = String::new();
    desk.note(&Actor::System, Event::PhaseEntered { phase, from, reason, call: None });
    let open = desk.session.open.get(&made).unwrap();
    assert!(matches!(open.progress, Progress::Answered(_)));
    assert!(desk.prepare(made).is_err(), "the other phase does not even grant it");
}

#[test]
fn what_nobody_answers_in_time_is_gone_whatever_the_clock_says_later() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let yes = decision(&desk, call, Answer::Approve);
    let until = desk.session.waiting.get(&call).unwrap().expires_at.unwrap();
    let stop = || Said::Feedback { text: "hm".into(), images: Vec::new() };
    desk.hear_at(until, &human(), stop());
    assert_eq!(desk.session.waiting.len(), 1, "not yet");
    desk.hear_at(Timestamp(until.0 + 1), &human(), stop());
    assert!(desk.session.waiting.is_empty());
    assert!(last_word(&desk).contains("Nobody answered in time"), "{}", last_word(&desk));
    desk.hear(&human(), heard(yes));
    assert!(open_calls(&desk.session).is_none(), "the clock went back");
}

#[test]
fn another_configuration_lets_everything_lapse() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let yes = Decision { allow: terms(), ..decision(&desk, call, Answer::Approve) };
    desk.hear(&human(), heard(yes));
    assert_eq!(desk.session.allowances.len(), 1);
    let phase = desk.session.phase.clone().unwrap();
    let other =
        Event::ConfigBound { config: Digest::of(b"other"), program: "2".into(), phase, file: None };
    desk.note(&Actor::System, other);
    assert!(desk.session.waiting.is_empty() && desk.session.allowances.is_empty());
    assert!(open_calls(&desk.session).is_none());
}

#[test]
fn always_holds_for_the_tool_and_the_policy_until_it_is_withdrawn() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let yes = Decision { allow: terms(), ..decision(&desk, call, Answer::Approve) };
    desk.hear(&human(), heard(yes));
    take_up(&mut desk, call);
    let next = desk.receive("send", r#"{"to":"bank"}"#);
    assert!(matches!(desk.admit(next), Judgement::Admitted(_)));
    let evil = desk.receive("send", r#"{"to":"evil"}"#);
    assert!(matches!(desk.admit(evil), Judgement::Refused(_)), "a grant lifts no denial");
    let said = Said::Withdraw { tool: tool("send"), policy: policy("outside") };
    desk.hear(&human(), said);
    let last = desk.receive("send", r#"{"to":"bank"}"#);
    assert!(matches!(desk.admit(last), Judgement::Asked { .. }));
}

#[test]
fn an_allowance_ends_with_its_time_and_its_count() {
    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let allow = Some(AllowanceTerms { until: Timestamp(2_000), uses_max: 2 });
    let yes = Decision { allow, ..decision(&desk, call, Answer::Approve) };
    desk.hear(&human(), heard(yes));
    let made = take_up(&mut desk, call);
    let Judgement::Admitted(admitted) = desk.admit(made) else { panic!("not admitted") };
    desk.note(&Actor::System, Event::CallAdmitted(admitted.event().into()));
    for uses in 1..=2 {
        let next = desk.receive("send", r#"{"to":"bank"}"#);
        let Judgement::Admitted(admitted) = desk.admit(next) else { panic!("use {uses} is asked") };
        assert!(matches!(admitted.event().basis, Basis::Allowance(_)), "{:?}", admitted.event());
        desk.note(&Actor::System, Event::CallAdmitted(admitted.event().into()));
        assert_eq!(desk.session.allowances[0].uses, uses);
    }
    let third = desk.receive("send", r#"{"to":"bank"}"#);
    assert!(matches!(desk.admit(third), Judgement::Asked { .. }), "two uses are two");

    let mut desk = asking();
    let call = put_off(&mut desk, r#"{"to":"work"}"#);
    let allow = Some(AllowanceTerms { until: Timestamp(999), uses_max: 2 });
    let yes = Decision { allow, ..decision(&desk, call, Answer::Approve) };
    desk.hear(&human(), heard(yes));
    take_up(&mut desk, call);
    let late = desk.receive("send", r#"{"to":"bank"}"#);
    assert!(matches!(desk.admit(late), Judgement::Asked { .. }), "its time is over");
}

/// A record that names a decision approves nothing where that decision is not before it.
#[test]
fn a_forged_basis_counts_as_none() {
    let decision = |seq| DecisionRef {
        stream: StreamId::Inbox(session_id()),
        seq,
        hash: Digest::of(b"forged"),
    };
    for basis in [
        Basis::Answer(decision(1)),
        Basis::Allowance(decision(1)),
        Basis::Delegation { delegation: 1, answer: decision(1) },
    ] {
        let mut desk = asking();
        let approved = put_off(&mut desk, r#"{"to":"work"}"#);
        desk.hear(&human(), heard(self::decision(&desk, approved, Answer::Approve)));
        let made = take_up(&mut desk, approved);
        let Judgement::Admitted(admitted) = desk.admit(made) else { panic!("not admitted") };
        let forged = CallAdmitted { basis, ..admitted.event() };
        let again = desk.receive("send", r#"{"to":"work"}"#);
        let forged = CallAdmitted { call: again, ..forged };
        desk.note(&Actor::System, Event::CallAdmitted(forged.into()));
        let progress = &desk.session.open.get(&again).unwrap().progress;
        let Progress::Admitted(counted) = progress else { panic!("{progress:?}") };
        assert!(counted.basis.is_rules() && counted.frame.is_none(), "{counted:?}");
    }
}
