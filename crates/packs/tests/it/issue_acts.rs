//! What becomes of issues: each act by agents and people, each rule of the breaker, and issues of
//! proposals, which move with them alone.

use toolgate_kernel::config::IssuesConfig;
use toolgate_kernel::fold::State;
use toolgate_kernel::time::Timestamp;
use toolgate_packs::issues::{
    BreakerRule, FROZEN_MS, ImpactLevel, Issue, IssueAct, IssueAuthor, IssueRefusal, IssueRules,
    IssueStatus, NewComment, NewIssue, NewTags, ProposalIssue, USER, all_issues, decide_issue,
    move_proposal_issue, open_proposal_issue,
};

/// A comment that no rule speaks against.
const GOOD: &str = "The ferry cannot come two days later, because scene two begins on the \
    twenty-eighth of February; either the date of the crossing or the waiting of Mira has to change.";

/// Issues, and a clock that moves when it is told to.
struct Tracker {
    state: State,
    now: i64,
    rules: IssueRules,
}

impl Tracker {
    fn new() -> Self {
        Self { state: State::default(), now: 1_000, rules: IssueRules::default() }
    }

    fn act(&mut self, author: &IssueAuthor, act: &IssueAct) -> Result<Acted, IssueRefusal> {
        self.now += 1;
        let now = Timestamp(self.now);
        let outcome = decide_issue(&self.state, &self.rules, author, now, act)?;
        for change in outcome.changes()? {
            self.state.apply(&change).unwrap();
        }
        Ok(Acted { issue: outcome.issue, frozen: outcome.frozen })
    }

    fn opened(by: &IssueAuthor) -> Self {
        let mut tracker = Self::new();
        tracker.act(by, &open("Ferry time")).unwrap();
        tracker
    }

    fn says(&mut self, author: &IssueAuthor, body: &str) -> Result<Acted, IssueRefusal> {
        self.act(author, &comment(body))
    }

    /// Puts an issue in the place of the first, as a proposal would.
    fn put(&mut self, issue: &Issue) {
        let value = serde_json::to_value(issue).unwrap();
        let key = toolgate_kernel::key::Key::parse(&format!("issue:{}", issue.id)).unwrap();
        self.state.apply(&toolgate_kernel::event::Change::Put { key, value, v: 1 }).unwrap();
    }
}

#[derive(Debug, PartialEq)]
struct Acted {
    issue: Issue,
    frozen: Option<BreakerRule>,
}

fn agent(id: &str) -> IssueAuthor {
    IssueAuthor::Agent(id.to_owned())
}

fn ada() -> IssueAuthor {
    IssueAuthor::Person("ada".to_owned())
}

fn open(title: &str) -> IssueAct {
    IssueAct::Open(NewIssue { title: title.to_owned(), ..NewIssue::default() })
}

fn comment(body: &str) -> IssueAct {
    IssueAct::Comment(1, NewComment { body: body.to_owned(), ..NewComment::default() })
}

fn rule(acted: Result<Acted, IssueRefusal>) -> &'static str {
    acted.map(|acted| acted.issue).unwrap_err().rule()
}

#[test]
fn the_third_comment_of_an_agent_freezes_and_a_person_may_speak() {
    let (chief, mut tracker) = (agent("chief"), Tracker::opened(&agent("chief")));
    tracker.says(&chief, GOOD).unwrap();
    tracker.says(&chief, GOOD).unwrap();
    let third = tracker.says(&chief, GOOD).unwrap();
    assert_eq!(third.frozen, Some(BreakerRule::CommentsPerAgent), "N24");
    assert_eq!(third.issue.comments.len(), 2, "it is not kept");
    // Nobody but a person may speak now, another agent neither.
    assert_eq!(rule(tracker.says(&agent("editor"), GOOD)), "frozen");
    assert_eq!(tracker.says(&ada(), "Hm.").unwrap().issue.comments.len(), 3, "N24");
    assert_eq!(rule(tracker.says(&chief, GOOD)), "frozen");
    tracker.now += i64::try_from(FROZEN_MS).unwrap();
    assert_eq!(tracker.says(&chief, GOOD).unwrap().frozen, None);
}

#[test]
fn what_freezes_an_issue() {
    let names = ["a", "b", "c", "d", "e"];
    let twice = names.iter().flat_map(|name| [*name, *name]);
    let all: Vec<&str> = twice.chain(["f"]).collect();
    let loud = format!("{GOOD} Urgent, urgent, crucial, critical: a disaster!");
    let (good, loud) = (GOOD.to_owned(), loud);
    for (about, authors, last, expected) in [
        ("2 comments each", vec!["a", "a", "a"], &good, Some(BreakerRule::CommentsPerAgent)),
        ("2 of another between", vec!["a", "b", "a"], &good, None),
        ("10 in all", all.clone(), &good, Some(BreakerRule::Comments)),
        ("the tenth", all[..10].to_vec(), &good, None),
        ("2 answers of a pair", vec!["a", "b", "a"], &good, None),
        ("3 answers of a pair", vec!["a", "b", "a", "b"], &good, Some(BreakerRule::Exchanges)),
        ("a third one between", vec!["a", "b", "c", "a", "b"], &good, None),
        ("a person between", vec!["a", "b", "a", "human:ada", "b"], &good, None),
        ("4 words that escalate", vec!["a"], &good, None),
        ("5 words that escalate", vec!["a"], &loud, Some(BreakerRule::EscalationWords)),
    ] {
        let mut tracker = Tracker::opened(&ada());
        let (end, before) = authors.split_last().unwrap();
        for author in before {
            let author = if *author == "human:ada" { ada() } else { agent(author) };
            assert_eq!(tracker.says(&author, GOOD).unwrap().frozen, None, "{about}");
        }
        let acted = tracker.says(&agent(end), last).unwrap();
        assert_eq!(acted.frozen, expected, "{about}");
        let kept = before.len() + usize::from(expected.is_none());
        assert_eq!(acted.issue.comments.len(), kept, "{about}");
        let until = acted.issue.frozen_until;
        let thirty = Timestamp(tracker.now).plus_ms(FROZEN_MS);
        assert_eq!(until, expected.map(|_| thirty), "{about}");
    }
}

#[test]
fn words_that_escalate_are_set() {
    let words = vec!["Ferry".to_owned(), "MIRA".to_owned()];
    let config = IssuesConfig { escalation_words: words, escalation_words_max: 1 };
    let mut tracker = Tracker::opened(&ada());
    tracker.rules = IssueRules::from(&config);
    let acted = tracker.says(&agent("a"), GOOD).unwrap();
    assert_eq!(acted.frozen, Some(BreakerRule::EscalationWords));
    tracker.rules.escalation_words_max = 2;
    tracker.now += i64::try_from(FROZEN_MS).unwrap();
    assert_eq!(tracker.says(&agent("a"), GOOD).unwrap().frozen, None);
}

#[test]
fn what_an_agent_may_not_write_and_a_person_may() {
    let short = "x ".repeat(20);
    let same = "The ferry is late. ".repeat(10);
    let impact = |impact_level, evidence: Option<&str>| NewComment {
        body: GOOD.to_owned(),
        impact_level: Some(impact_level),
        evidence: evidence.map(str::to_owned),
        ..NewComment::default()
    };
    let plain = |body: &str| NewComment { body: body.to_owned(), ..NewComment::default() };
    let refused = [
        (plain(&short), "comment_chars"),
        (plain(&same), "comment_words"),
        (impact(ImpactLevel::Structural, None), "evidence"),
        (impact(ImpactLevel::CanonChanging, None), "evidence"),
    ];
    for (new, expected) in refused {
        let mut tracker = Tracker::opened(&ada());
        let act = IssueAct::Comment(1, new);
        assert_eq!(rule(tracker.act(&agent("a"), &act)), expected, "N25");
        assert_eq!(all_issues(&tracker.state).unwrap()[0].frozen_until, None, "{expected}");
        assert_eq!(tracker.act(&ada(), &act).unwrap().issue.comments.len(), 1, "{expected}");
    }
    for new in [
        impact(ImpactLevel::Minor, None),
        impact(ImpactLevel::Structural, Some("Story/SCN-outline.md L3 \"before noon\"")),
    ] {
        let mut tracker = Tracker::opened(&ada());
        assert!(tracker.act(&agent("a"), &IssueAct::Comment(1, new)).is_ok());
    }
}

#[test]
fn an_agent_closes_its_own_after_three_comments() {
    let mut tracker = Tracker::opened(&agent("chief"));
    let close = IssueAct::Close(1);
    for author in ["chief", "editor", "critic"] {
        assert_eq!(rule(tracker.act(&agent("chief"), &close)), "comments_before_close");
        tracker.says(&agent(author), GOOD).unwrap();
    }
    assert_eq!(rule(tracker.act(&agent("editor"), &close)), "not_own");
    let closed = tracker.act(&agent("chief"), &close).unwrap().issue;
    assert_eq!(
        (closed.status, closed.closed_at),
        (IssueStatus::Closed, Some(Timestamp(tracker.now)))
    );
    assert_eq!(rule(tracker.act(&agent("chief"), &close)), "closed");
    assert_eq!(rule(tracker.says(&agent("editor"), GOOD)), "closed");
    assert_eq!(rule(tracker.act(&ada(), &IssueAct::Assign(1, Some(USER.to_owned())))), "closed");
    assert_eq!(rule(tracker.act(&agent("editor"), &IssueAct::Reopen(1))), "not_own");
    let again = tracker.act(&agent("chief"), &IssueAct::Reopen(1)).unwrap().issue;
    assert_eq!((again.status, again.closed_at), (IssueStatus::Open, None));
    assert_eq!(rule(tracker.act(&ada(), &IssueAct::Reopen(1))), "not_closed");
    // A person closes what is not theirs, however little was said.
    let mut other = Tracker::opened(&agent("chief"));
    assert_eq!(other.act(&ada(), &close).unwrap().issue.status, IssueStatus::Closed);
}

#[test]
fn an_issue_waits_for_a_person_until_one_speaks() {
    let mut tracker = Tracker::opened(&agent("chief"));
    let to = |to: &str| IssueAct::Assign(1, Some(to.to_owned()));
    let waits = tracker.act(&agent("chief"), &to("User")).unwrap().issue;
    assert_eq!(waits.status, IssueStatus::WaitingOnUser);
    tracker.says(&agent("editor"), GOOD).unwrap();
    assert_eq!(all_issues(&tracker.state).unwrap()[0].status, IssueStatus::WaitingOnUser);
    assert_eq!(tracker.says(&ada(), "Yes.").unwrap().issue.status, IssueStatus::Open);
    tracker.act(&agent("chief"), &to(USER)).unwrap();
    assert_eq!(
        tracker.act(&agent("chief"), &to("editor")).unwrap().issue.status,
        IssueStatus::Open
    );
    let nobody = tracker.act(&ada(), &IssueAct::Assign(1, None)).unwrap().issue;
    assert_eq!((nobody.status, nobody.assigned_to), (IssueStatus::Open, None));
    tracker.act(&agent("chief"), &to(USER)).unwrap();
    assert_eq!(tracker.act(&ada(), &IssueAct::Close(1)).unwrap().issue.status, IssueStatus::Closed);
}

#[test]
fn issues_of_proposals_move_with_them_alone() {
    let marked = |issue: &mut Issue| issue.proposal = Some("p1".to_owned());
    let titled = |issue: &mut Issue| issue.title = "[Tool Decision] Tone".to_owned();
    for mark in [&marked as &dyn Fn(&mut Issue), &titled] {
        let mut tracker = Tracker::opened(&agent("chief"));
        for author in ["chief", "editor", "critic"] {
            tracker.says(&agent(author), GOOD).unwrap();
        }
        let mut issue = all_issues(&tracker.state).unwrap().remove(0);
        mark(&mut issue);
        tracker.put(&issue);
        for act in [
            IssueAct::Close(1),
            IssueAct::Reopen(1),
            IssueAct::Assign(1, Some("editor".to_owned())),
        ] {
            for author in [agent("chief"), ada()] {
                assert_eq!(rule(tracker.act(&author, &act)), "proposal", "N26: {author:?} {act:?}");
            }
        }
        // It may be spoken about, and found.
        assert!(tracker.says(&ada(), "Nice.").is_ok());
        let tags = NewTags { tags: Some(vec!["tone".to_owned()]), ..NewTags::default() };
        assert!(tracker.act(&agent("editor"), &IssueAct::Tag(1, tags)).is_ok());
    }
}

#[test]
fn a_proposal_opens_and_moves_its_issue() {
    let mut tracker = Tracker::opened(&ada());
    let new = ProposalIssue {
        proposal: "p1".to_owned(),
        title: "[Tool Proposal] Tone".to_owned(),
        body: "A prompt for tone.".to_owned(),
        assigned_to: Some("chief".to_owned()),
        status: IssueStatus::Open,
    };
    let at = Timestamp(2_000);
    let opened = open_proposal_issue(&tracker.state, &agent("editor"), at, &new).unwrap();
    assert_eq!((opened.issue.id, opened.issue.is_of_a_proposal()), (2, true));
    for change in opened.changes().unwrap() {
        tracker.state.apply(&change).unwrap();
    }
    let waits = IssueStatus::WaitingOnUser;
    let moved = move_proposal_issue(&tracker.state, 2, at, waits, Some(USER.to_owned())).unwrap();
    assert_eq!((moved.issue.status, moved.issue.assigned_to.as_deref()), (waits, Some(USER)));
    let closed = move_proposal_issue(&tracker.state, 2, at, IssueStatus::Closed, None).unwrap();
    assert_eq!(closed.issue.closed_at, Some(at));
    let other = move_proposal_issue(&tracker.state, 1, at, waits, None);
    assert_eq!(other.unwrap_err(), IssueRefusal::NoProposal(1));
}

#[test]
fn only_a_proposal_has_a_proposals_title() {
    for title in [
        "[Tool Proposal] Tone",
        "[tool proposal]Tone",
        "[T\u{43e}ol Decision] x",
        "Tool-Proposal x",
    ] {
        for author in [agent("a"), ada()] {
            assert_eq!(
                rule(Tracker::new().act(&author, &open(title))),
                "proposal_title",
                "{title}"
            );
        }
    }
    assert!(Tracker::new().act(&ada(), &open("A tool proposal is late")).is_ok());
}

#[test]
fn tags_and_interest_are_kept_within_bounds() {
    let mut tracker = Tracker::opened(&ada());
    let tag = |tags: &[&str]| {
        let tags = Some(tags.iter().map(|tag| (*tag).to_owned()).collect());
        IssueAct::Tag(1, NewTags { tags, ..NewTags::default() })
    };
    let kept = tracker.act(&agent("a"), &tag(&[" ferry ", "Ferry", "time"])).unwrap().issue;
    assert_eq!(kept.tags, ["ferry", "time"]);
    let many: Vec<String> = (0..13).map(|at| format!("t{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(rule(tracker.act(&ada(), &tag(&many))), "tags");
    assert!(tracker.act(&ada(), &tag(&many[..12])).is_ok());
    assert_eq!(rule(tracker.act(&ada(), &tag(&["x".repeat(41).as_str()]))), "length");
    assert_eq!(rule(tracker.act(&ada(), &tag(&["a\nb"]))), "line");
    assert_eq!(rule(tracker.act(&ada(), &tag(&["\u{200b}"]))), "line");
    assert_eq!(rule(tracker.act(&ada(), &IssueAct::Tag(1, NewTags::default()))), "tags");
    let own = |interest| {
        let personal_tags = Some(vec!["mine".to_owned()]);
        IssueAct::Tag(1, NewTags { personal_tags, interest, ..NewTags::default() })
    };
    assert_eq!(rule(tracker.act(&agent("a"), &own(Some(6)))), "interest");
    let noted = tracker.act(&agent("a"), &own(Some(5))).unwrap().issue;
    assert_eq!((noted.personal["a"].interest, noted.personal.len()), (Some(5), 1));
    let gone = NewTags { personal_tags: Some(vec![]), interest: Some(0), ..NewTags::default() };
    let gone = tracker.act(&agent("a"), &IssueAct::Tag(1, gone)).unwrap().issue;
    assert!(gone.personal.is_empty());
}

#[test]
fn texts_are_bounded_and_numbers_never_come_again() {
    let mut tracker = Tracker::new();
    assert_eq!(rule(tracker.act(&ada(), &open(&"x".repeat(201)))), "length");
    assert_eq!(rule(tracker.act(&ada(), &open(" "))), "length");
    assert_eq!(rule(tracker.act(&ada(), &open("a\nb"))), "line");
    let body = "x".repeat(20_001);
    let long = NewIssue { title: "x".to_owned(), body, ..NewIssue::default() };
    assert_eq!(rule(tracker.act(&ada(), &IssueAct::Open(long))), "length");
    for number in 1..=3 {
        assert_eq!(tracker.act(&ada(), &open("x")).unwrap().issue.id, number);
    }
    assert_eq!(rule(tracker.act(&ada(), &IssueAct::Close(9))), "missing");
    assert_eq!(rule(tracker.says(&ada(), " ")), "length");
    assert_eq!(rule(tracker.says(&ada(), &"x".repeat(20_001))), "length");
}
