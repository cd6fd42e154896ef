//! What a person who holds the key of the host alone can write into a session, and what none of it
//! lets run.

use std::collections::BTreeSet;
use std::sync::Arc;

use toolgate_kernel::actor::Actor;
use toolgate_kernel::approval::{ApprovalRequirement, DecisionSigner};
use toolgate_kernel::credential::PersonKey;
use toolgate_kernel::decision::{AllowanceTerms, Role};
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Basis, CallAdmitted, Decision, Event, RawCall, Said};
use toolgate_kernel::fold::{Counted, Progress, World};
use toolgate_kernel::gate::{Judgement, Refusal, confirm, readmit};
use toolgate_kernel::names::CallId;
use toolgate_kernel::policy::{Policy, Rule, RuleText};
use toolgate_kernel::time::Timestamp;

use crate::approvals::{asking, draft, rule_text};
use crate::support::{Desk, answered, human, policy, tool};

/// A desk where each call of `send` is asked about in this way.
fn strict(text: RuleText) -> Desk {
    let strict: Arc<dyn Policy> = Arc::new(Rule::new(policy("outside"), text).unwrap());
    Desk::new(draft(vec![strict]))
}

/// What the gate asks about a call, as it stands in the log, and what an answer is bound to.
fn question(desk: &Desk, call: CallId) -> (Event, Digest) {
    let judged = desk.admit(call);
    let Judgement::Asked { question, .. } = &judged else { panic!("{judged:?}") };
    let frame = question.frame;
    let raw = Arc::clone(&desk.session.open.get(&call).unwrap().raw);
    (judged.event(&raw), frame)
}

/// The same question as a thief writes it: about another tool, or with fewer requirements.
fn asked_with(event: Event, name: &str, wanted: Option<ApprovalRequirement>) -> Event {
    let Event::CallAsked { call, policy, reason, args, args_hash, frame, expires_at, .. } = event
    else {
        panic!("{event:?}")
    };
    let (tool, requires) = (tool(name), wanted.map(Box::new));
    Event::CallAsked { call, tool, policy, reason, args, args_hash, frame, expires_at, requires }
}

fn yes(desk: &Desk, call: CallId, frame: Digest) -> Decision {
    answered(call, "send", Some(frame), desk.args_hash(call), Answer::Approve)
}

fn heard(decision: Decision) -> Said {
    Said::Answer(Box::new(decision))
}

#[test]
fn a_signer_beside_an_answer_of_a_clients_user_is_not_believed() {
    let text = RuleText {
        by: vec![Role::Owner],
        count: Some(2),
        ..rule_text("outside", None, Some("true"))
    };
    let mut desk = strict(text);
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let (asked, frame) = question(&desk, call);
    desk.note(&Actor::System, asked);
    for key in [1, 2] {
        let word = Decision { delegation: Some(3), ..yes(&desk, call, frame) };
        let signer = DecisionSigner { key: PersonKey([key; 32]), role: Role::Owner };
        desk.hear_signed(&Actor::ClientUser("test".into()), heard(word), Some(signer));
    }
    let judged = desk.admit(call);
    assert!(matches!(judged, Judgement::Asked { .. }), "{judged:?}");
}

#[test]
fn an_answer_about_another_tool_is_not_for_the_tool_that_runs() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let (asked, frame) = question(&desk, call);
    desk.note(&Actor::System, asked_with(asked, "mail", None));
    desk.hear(&human(), heard(Decision { tool: tool("mail"), ..yes(&desk, call, frame) }));
    let Progress::Answered(said) = &desk.session.open.get(&call).unwrap().progress else {
        panic!("the answer is to the question")
    };
    let basis = said.basis.clone();
    let judged = desk.admit(call);
    assert!(matches!(judged, Judgement::Asked { .. }), "{judged:?}");
    // Neither does a record that says that it was admitted on that answer.
    let mut admitted = admission(&desk, call, frame);
    admitted.basis = basis;
    desk.note(&Actor::System, Event::CallAdmitted(admitted.into()));
    let Progress::Admitted(admitted) = &desk.session.open.get(&call).unwrap().progress else {
        panic!("it is read")
    };
    assert!(admitted.basis.is_rules(), "{admitted:?}");
}

/// An admission of a call of `send`, as a thief writes it.
fn admission(desk: &Desk, call: CallId, frame: Digest) -> CallAdmitted {
    let version = desk.prepare(call).unwrap().spec().version.into();
    CallAdmitted {
        call,
        tool: tool("send"),
        version,
        effect: toolgate_kernel::tool::Effect::External,
        args: None,
        args_hash: desk.args_hash(call),
        basis: Basis::Rules,
        frame: Some(frame),
        touches: Vec::new(),
        warnings: Vec::new(),
        labels: None,
    }
}

#[test]
fn a_call_with_other_arguments_does_not_take_up_an_answer() {
    for (name, args) in [("send", r#"{"to":"evil-bank"}"#), ("mail", r#"{"to":"work"}"#)] {
        let mut desk = asking();
        let of = desk.receive("send", r#"{"to":"work"}"#);
        let (asked, frame) = question(&desk, of);
        let open = Arc::clone(desk.session.open.get(&of).unwrap());
        let word = yes(&desk, of, frame);
        desk.note(&Actor::System, asked);
        let pending = Refusal::pending(&open, "says outside");
        desk.note(&Actor::System, Event::CallRefused(pending.event(&open.raw)));
        desk.hear(&human(), heard(word));
        let id = CallId(desk.session.next_call);
        let (name, args) = (name.to_owned(), args.to_owned());
        let call = Arc::new(RawCall { id, name, args, alias: None });
        desk.note(&open.actor, Event::CallReceived { call, of: Some(of) });
        let progress = &desk.session.open.get(&id).unwrap().progress;
        assert_eq!(*progress, Progress::Received);
    }
}

#[test]
fn the_number_of_a_call_is_not_used_again() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let args = r#"{"to":"evil-bank"}"#.to_owned();
    let again = Arc::new(RawCall { id: call, name: "send".into(), args, alias: None });
    desk.note(&Actor::Client("test".into()), Event::CallReceived { call: again, of: None });
    assert!(desk.session.open.get(&call).unwrap().raw.args.contains("work"));
}

#[test]
fn a_session_hears_its_inbox_in_order_and_once() {
    let mut desk = asking();
    let said = |text: &str| Said::Feedback { text: text.into(), images: Vec::new() };
    desk.hear(&human(), said("one"));
    for inbox in [1, 3] {
        let hash = Digest::of(b"forged");
        let said = said("two");
        let event = Event::Heard { inbox, hash, said, statement: None, signer: None };
        desk.note(&human(), event);
        assert_eq!((desk.session.inbox, desk.session.feedback.len()), (1, 1), "{inbox}");
    }
}

#[test]
fn the_user_of_a_client_answers_about_its_own_calls() {
    for (client, counts) in [("test", true), ("other", false)] {
        let mut desk = asking();
        let call = desk.receive("send", r#"{"to":"work"}"#);
        let (asked, frame) = question(&desk, call);
        desk.note(&Actor::System, asked);
        let word = Decision { delegation: Some(3), ..yes(&desk, call, frame) };
        desk.hear(&Actor::ClientUser(client.into()), heard(word));
        let is_admitted = matches!(desk.admit(call), Judgement::Admitted(_));
        assert_eq!(is_admitted, counts, "{client}");
    }
}

#[test]
fn an_allowance_of_a_lower_role_lifts_no_question() {
    let text = RuleText { by: vec![Role::Owner], ..rule_text("outside", None, Some("true")) };
    let mut desk = strict(text);
    let call = desk.receive("send", r#"{"to":"work"}"#);
    let (asked, frame) = question(&desk, call);
    desk.note(&Actor::System, asked_with(asked, "send", None));
    let allow = Some(AllowanceTerms::default_from(Timestamp(1_000)));
    desk.hear(&human(), heard(Decision { allow, ..yes(&desk, call, frame) }));
    assert!(matches!(desk.admit(call), Judgement::Asked { .. }), "the call itself");
    let later = desk.receive("send", r#"{"to":"bank"}"#);
    assert!(matches!(desk.admit(later), Judgement::Asked { .. }), "a later call");
}

#[test]
fn an_allowance_that_ended_meanwhile_runs_nothing_after_a_crash() {
    for (now, runs) in [(2_000, true), (2_001, false)] {
        let mut desk = asking();
        let first = desk.receive("send", r#"{"to":"work"}"#);
        let (asked, frame) = question(&desk, first);
        desk.note(&Actor::System, asked);
        let allow = Some(AllowanceTerms { until: Timestamp(2_000), uses_max: 9 });
        desk.hear(&human(), heard(Decision { allow, ..yes(&desk, first, frame) }));
        let call = desk.receive("send", r#"{"to":"bank"}"#);
        let Judgement::Admitted(admitted) = desk.admit(call) else { panic!("it is allowed") };
        assert!(matches!(admitted.event().basis, Basis::Allowance(_)));
        desk.note(&Actor::System, Event::CallAdmitted(admitted.event().into()));
        let world = World {
            session: &desk.session,
            project: &desk.project,
            toolset: &desk.agent.toolset,
            now: Timestamp(now),
            counted: Counted::Already,
        };
        let again = readmit(&desk.agent, &world, call).unwrap().unwrap();
        let touched = again.touched().to_vec();
        assert_eq!(confirm(&desk.agent, &world, again, touched).is_ok(), runs, "{now}");
    }
}

/// A person is shown what an answer is for, or is not asked.
#[test]
fn a_question_about_other_arguments_than_it_shows_has_none_to_show() {
    let mut desk = asking();
    let call = desk.receive("send", r#"{ "to": "work" }"#);
    let (asked, _) = question(&desk, call);
    for hides in [false, true] {
        let mut asked = asked.clone();
        if let Event::CallAsked { args_hash, .. } = &mut asked {
            *args_hash = if hides { Digest::of(b"other arguments") } else { *args_hash };
        }
        desk.note(&Actor::System, asked);
        let open = desk.session.open.get(&call).unwrap();
        let Progress::Asked(question) = &open.progress else { panic!("it is asked") };
        assert_eq!(question.shown_args(&open.raw).is_none(), hides);
    }
}

/// The values that a rule wants typed are part of the answer, whatever the log says that it asked for.
#[test]
fn an_approval_without_the_typed_values_does_not_lift() {
    for (typed, counts) in [(BTreeSet::new(), false), (BTreeSet::from(["to".to_owned()]), true)] {
        let text =
            RuleText { confirm: Some("to".to_owned()), ..rule_text("outside", None, Some("true")) };
        for wanted in [true, false] {
            let mut desk = strict(text.clone());
            let call = desk.receive("send", r#"{"to":"work"}"#);
            let (asked, frame) = question(&desk, call);
            desk.note(&Actor::System, if wanted { asked } else { asked_with(asked, "send", None) });
            desk.hear(&human(), heard(confirmed(yes(&desk, call, frame), typed.clone())));
            let judged = desk.admit(call);
            assert_eq!(matches!(judged, Judgement::Admitted(_)), counts, "{judged:?}");
        }
    }
}

fn confirmed(decision: Decision, confirmed: BTreeSet<String>) -> Decision {
    Decision { confirmed, ..decision }
}
