//! Decides what is shown of a call that waits for a person's word: exactly what would run, for whom
//! and why.

use serde::Serialize;
use serde_json::{Map, Value};
use toolgate_kernel::actor::Actor;
use toolgate_kernel::digest::Digest;
use toolgate_kernel::event::{Answer, Decision};
use toolgate_kernel::fold::{OpenQuestion, Progress, Session, Waiting, shown};
use toolgate_kernel::names::{CallId, PhaseName, PolicyName, SessionId, ToolName};
use toolgate_kernel::time::Timestamp;

use crate::approval_needs::ApprovalNeeds;
use crate::card_code::CardCode;
use crate::console::{fit, say, visible, whole_lines, width};
use crate::visible::{exact, named};

/// A call that waits for a person's word.
#[derive(Debug, Serialize)]
pub(crate) struct Card {
    pub(crate) session: SessionId,
    pub(crate) call: CallId,
    pub(crate) tool: ToolName,
    /// Exactly what would run.
    args: Value,
    /// Who wants it.
    pub(crate) actor: Actor,
    pub(crate) policy: PolicyName,
    reason: String,
    /// The phase that a yes is bound to.
    pub(crate) phase: Option<PhaseName>,
    /// The phase the session is in now.
    phase_now: Option<PhaseName>,
    since: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    /// What a yes is bound to.
    pub(crate) shown: Digest,
    /// The part of it that is not the arguments.
    #[serde(skip)]
    frame: Option<Digest>,
    /// Hash of the arguments in question.
    #[serde(skip)]
    args_hash: Digest,
    /// Whether a yes was given that nothing was made of yet.
    approved: bool,
    /// What an approval takes, and what of it was given.
    #[serde(flatten)]
    pub(crate) needs: ApprovalNeeds,
    /// Whether no other session has a call of that name that waits.
    #[serde(skip)]
    alone: bool,
}

impl Card {
    pub(crate) fn args(&self) -> Map<String, Value> {
        self.args.as_object().cloned().unwrap_or_default()
    }

    /// A plain answer to it.
    pub(crate) fn decision(&self, answer: Answer) -> Decision {
        Decision::new(self.call, self.tool.clone(), self.frame, self.args_hash, answer)
    }

    /// Who wants it, as a person is shown it.
    pub(crate) fn who(&self) -> String {
        named(&self.actor)
    }

    /// What it is called in a command, so that no other one is meant.
    pub(crate) fn name(&self) -> String {
        match self.alone {
            true => self.call.to_string(),
            false => format!("{}/{}", self.session, self.call),
        }
    }

    /// What to type about it.
    pub(crate) fn command(&self, verb: &str) -> String {
        format!("toolgate approvals {verb} {}", self.name())
    }

    /// Its line in the list.
    pub(crate) fn row(&self) -> Row {
        let given = self.needs.given.len();
        let approved = match (self.approved, given) {
            (true, _) => "approved, not made yet: ".to_owned(),
            (false, 0) => String::new(),
            (false, given) => format!("{given} of {} approvals: ", self.needs.requires.count),
        };
        let tool = self.tool.to_string();
        Row {
            what: self.call.to_string(),
            tool: about(&self.args).map_or(tool.clone(), |about| format!("{tool} {about}")),
            why: format!("{approved}{}", exact(&self.reason)),
            session: self.session.clone(),
        }
    }

    /// Exactly what would run, for whom and why, with the code of the card where a yes is asked for.
    pub(crate) fn lines(&self, code: Option<&CardCode>) -> Vec<String> {
        let phase = self.phase.as_ref().map_or_else(String::new, |p| format!(", in phase {p}"));
        let mut lines = vec![
            format!("{} in session {}", self.call, self.session),
            format!("  asked by   {}{phase}", self.who()),
        ];
        lines.extend(whole_lines(
            &format!("  because    {} ({})", exact(&self.reason), self.policy),
            13,
        ));
        if let (Some(then), Some(now)) = (&self.phase, &self.phase_now)
            && then != now
        {
            let told =
                format!("  but now    the session is in phase {now}, and a yes is for {then}");
            lines.extend(whole_lines(&told, 13));
        }
        lines.extend(self.expires_at.map(|until| format!("  until      {until}")));
        if let Some(needs) = self.needs.line() {
            lines.extend(whole_lines(&format!("  needs      {needs}"), 13));
        }
        lines.push(format!("  bound to   {}", self.shown.short()));
        lines.push("  would run, and nothing else:".to_owned());
        lines.push(format!("    {}", self.tool));
        let args = serde_json::to_string_pretty(&self.args).unwrap_or_default();
        let rows: Vec<String> = args.lines().map(|line| format!("    {}", exact(line))).collect();
        lines.extend(match code {
            Some(code) => code.among(rows),
            None => rows,
        });
        lines
    }
}

/// The first short words of a call's arguments.
pub(crate) fn about(args: &Value) -> Option<String> {
    args.as_object()?.values().find_map(|value| match value {
        Value::String(text) if (1..=28).contains(&text.chars().count()) => Some(visible(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    })
}

/// Everything that waits in some sessions.
pub(crate) fn all_cards(sessions: &[Session], now: Timestamp) -> Vec<Card> {
    let mut all: Vec<Card> = sessions.iter().flat_map(|session| cards(session, now)).collect();
    let calls: Vec<CallId> = all.iter().map(|card| card.call).collect();
    for card in &mut all {
        card.alone = calls.iter().filter(|call| **call == card.call).count() == 1;
    }
    all
}

/// Calls whose question shows other arguments than an answer to it is for: no person is asked about them.
pub(crate) fn unfit_questions(session: &Session) -> Vec<CallId> {
    let waiting = session.waiting.iter().filter(|(_, waiting)| waiting.shown_args().is_none());
    let asked = session.open.iter().filter_map(|open| {
        let Progress::Asked(question) = &open.progress else { return None };
        question.shown_args(&open.raw).is_none().then_some(open.raw.id)
    });
    waiting.map(|(call, _)| *call).chain(asked).collect()
}

/// Everything that waits in a session: put off, or asked about at this moment. What a person is shown
/// is what the answer is for.
pub(crate) fn cards(session: &Session, now: Timestamp) -> Vec<Card> {
    // Nothing is made any more in a session that is over.
    if session.ended.is_some() {
        return Vec::new();
    }
    let now_in = session.phase.clone();
    let denied = |waiting: &Waiting| waiting.word.is_some() && !waiting.approved();
    let waiting = session.waiting.iter().filter(|(_, waiting)| !denied(waiting));
    let put_off = waiting.filter_map(|(call, waiting)| {
        Some(Card {
            session: session.id.clone(),
            call: *call,
            tool: waiting.tool.clone(),
            args: waiting.shown_args()?,
            actor: waiting.actor.clone(),
            policy: waiting.policy.clone(),
            reason: waiting.reason.to_string(),
            phase: waiting.phase.clone().or_else(|| now_in.clone()),
            phase_now: now_in.clone(),
            since: Some(waiting.since),
            expires_at: waiting.expires_at,
            shown: waiting.shown(),
            frame: waiting.frame,
            args_hash: waiting.args_hash,
            approved: waiting.approved(),
            needs: ApprovalNeeds {
                requires: waiting.requires.clone(),
                given: waiting.given.clone(),
                starter: session.starter,
            },
            alone: true,
        })
    });
    let asked = session.open.iter().filter_map(|open| {
        let Progress::Asked(question) = &open.progress else { return None };
        let OpenQuestion {
            tool,
            policy,
            reason,
            args_hash,
            frame,
            expires_at,
            phase,
            requires,
            given,
            ..
        } = question.as_ref();
        Some(Card {
            session: session.id.clone(),
            call: open.raw.id,
            tool: tool.clone(),
            args: question.shown_args(&open.raw)?,
            actor: open.actor.clone(),
            policy: policy.clone(),
            reason: reason.to_string(),
            phase: phase.clone().or_else(|| now_in.clone()),
            phase_now: now_in.clone(),
            since: None,
            expires_at: *expires_at,
            shown: shown(*frame, *args_hash),
            frame: *frame,
            args_hash: *args_hash,
            approved: false,
            needs: ApprovalNeeds {
                requires: requires.clone(),
                given: given.clone(),
                starter: session.starter,
            },
            alone: true,
        })
    });
    let over = |card: &Card| card.expires_at.is_some_and(|at| at < now);
    put_off.chain(asked).filter(|card| !over(card)).collect()
}

/// A line of the list, and the session below it.
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) tool: String,
    pub(crate) why: String,
    pub(crate) session: SessionId,
}

/// Columns that names of tools take at most; a longer one has a line of its own.
const TOOL_COLUMNS_MAX: usize = 32;

/// Prints lines under each other, as wide as the longest of them needs.
pub(crate) fn print_rows(rows: &[Row]) {
    let widest = |part: fn(&Row) -> &str| rows.iter().map(|row| width(part(row))).max();
    let what = widest(|row| &row.what).unwrap_or(0);
    let tools = rows.iter().map(|row| width(&row.tool)).filter(|width| *width <= TOOL_COLUMNS_MAX);
    let tool = tools.max().unwrap_or(0);
    for row in rows {
        let (left, gap) = (format!("{:<what$}  ", row.what), " ".repeat(what + 2));
        if width(&row.tool) > tool {
            say(&format!("{left}{}", row.tool));
            say(&fit(&format!("{gap}{}  {}", " ".repeat(tool), row.why)));
        } else {
            say(&fit(&format!("{left}{:<tool$}  {}", row.tool, row.why)));
        }
        say(&fit(&format!("{gap}in session {}", row.session)));
    }
}
