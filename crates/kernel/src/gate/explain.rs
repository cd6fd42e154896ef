//! Decides how the gate's decision on a call is told, stage by stage, without running anything.

use std::panic::{AssertUnwindSafe, catch_unwind};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::refusal::Refusal;
use super::{Call, parse, resolve, validate};
use crate::agent::Agent;
use crate::envelope::Trouble;
use crate::fold::{OpenCall, World};
use crate::key::{Access, Key, Touched};
use crate::policy::{Policy, Verdict};
use crate::section::Entry;
use crate::tool::Effect;

/// What a stage of the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The call passes.
    Pass,
    /// A person would be asked.
    Ask,
    /// The call is refused.
    Refuse,
    /// It is not reached.
    Skip,
}

/// One stage of the gate and its word.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StageWord {
    /// The stage: resolve, parse, validate, footprint, a policy, effect.
    pub stage: String,
    /// Its word.
    pub word: Word,
    /// Why, in one sentence.
    pub why: String,
    /// What the caller would be told.
    pub errors: Vec<Trouble>,
}

/// What would become of a call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The tool, as it was named.
    pub tool: String,
    /// The phase it was tried in.
    pub phase: String,
    /// The worst word of all stages.
    pub verdict: Word,
    /// Every stage, in order.
    pub stages: Vec<StageWord>,
    /// The arguments as the tool would get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What it would touch, with the versions found.
    pub touches: Vec<Touched>,
}

/// The stages before the policies, in order.
const BEFORE: &[&str] = &["resolve", "parse", "validate", "footprint"];

/// Tells what the gate would decide. `look_up` finds the versions of what the call touches.
pub fn explain(
    agent: &Agent,
    world: &World<'_>,
    open: &OpenCall,
    look_up: impl FnOnce(&[(Access, Key)]) -> Result<Vec<Touched>, String>,
) -> Explanation {
    let phase = world.session.phase.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut told = Explanation {
        tool: open.raw.name.chars().take(80).collect(),
        phase,
        verdict: Word::Pass,
        stages: Vec::new(),
        args: None,
        touches: Vec::new(),
    };
    if let Err((stage, refusal)) = told.walk(agent, world, open, look_up) {
        told.refused(stage, refusal);
        let rest = BEFORE.iter().skip_while(|before| **before != stage).skip(1);
        for stage in rest.chain(&["policies", "effect"]) {
            told.say(stage, Word::Skip, "not reached".to_owned());
        }
    }
    told
}

impl Explanation {
    fn walk(
        &mut self,
        agent: &Agent,
        world: &World<'_>,
        open: &OpenCall,
        look_up: impl FnOnce(&[(Access, Key)]) -> Result<Vec<Touched>, String>,
    ) -> Result<(), (&'static str, Refusal)> {
        let at = |stage: &'static str| move |refusal| (stage, refusal);
        let resolved = resolve::resolve(agent, world.session, open).map_err(at("resolve"))?;
        let (spec, place) = (resolved.spec.clone(), resolved.place);
        self.say("resolve", Word::Pass, format!("{} is granted in {}", spec.name, self.phase));
        let parsed = parse::parse(&open.raw, spec.effect, &agent.limits).map_err(at("parse"))?;
        let why = parsed.repaired.unwrap_or("one JSON object").to_owned();
        self.say("parse", Word::Pass, why);
        let call = validate::validate(resolved, parsed, open).map_err(at("validate"))?;
        validate::keeps_out(&agent.toolset, &call).map_err(at("validate"))?;
        let why = match call.warnings() {
            [] => "the arguments have the declared types".to_owned(),
            warnings => warnings.join("; "),
        };
        self.say("validate", Word::Pass, why);
        self.args = Some(Value::Object(call.args().clone()));
        let found = look_up(call.keys()).map_err(|reason| Refusal::unreachable(&reason));
        self.touches = found.map_err(at("footprint"))?;
        self.say("footprint", Word::Pass, footprint(&self.touches));
        if let Some(entry) = agent.toolset.entries().get(place) {
            self.policies(entry, &call, world);
        }
        self.say("effect", Word::Pass, effect(spec.effect).to_owned());
        Ok(())
    }

    /// Every policy's word, also after one that refused: whoever asks wants to know them all.
    fn policies(&mut self, entry: &Entry, call: &Call, world: &World<'_>) {
        if entry.policies.is_empty() {
            self.say("policies", Word::Pass, "no policy governs this tool".to_owned());
        }
        for policy in &entry.policies {
            let stage = format!("policy {}", policy.name());
            match judged(policy.as_ref(), call, &self.touches, world) {
                Verdict::Allow => self.say(&stage, Word::Pass, "does not object".to_owned()),
                Verdict::Ask(reason) => self.say(&stage, Word::Ask, reason),
                Verdict::Deny(reason) => self.say(&stage, Word::Refuse, reason),
                Verdict::Broken(reason) => {
                    let why = format!("could not be evaluated ({reason}), so it denies");
                    self.say(&stage, Word::Refuse, why);
                }
            }
        }
    }

    fn say(&mut self, stage: &str, word: Word, why: String) {
        self.verdict = match (self.verdict, word) {
            (Word::Refuse, _) | (_, Word::Refuse) => Word::Refuse,
            (Word::Ask, _) | (_, Word::Ask) => Word::Ask,
            (before, _) => before,
        };
        self.stages.push(StageWord { stage: stage.to_owned(), word, why, errors: Vec::new() });
    }

    fn refused(&mut self, stage: &str, refusal: Refusal) {
        let why = refusal.errors.first().map(|first| first.message.clone()).unwrap_or_default();
        self.say(stage, Word::Refuse, why);
        if let Some(last) = self.stages.last_mut() {
            last.errors = refusal.errors;
        }
    }
}

fn judged(policy: &dyn Policy, call: &Call, touched: &[Touched], world: &World<'_>) -> Verdict {
    let judged = catch_unwind(AssertUnwindSafe(|| policy.judge(call, touched, world)));
    judged.unwrap_or_else(|_| Verdict::Broken("the policy broke down".to_owned()))
}

fn footprint(touched: &[Touched]) -> String {
    if touched.is_empty() {
        return "touches nothing that is kept".to_owned();
    }
    let one = |touched: &Touched| {
        let verb = match touched.access {
            Access::Read => "reads",
            Access::Write => "writes",
        };
        let state = if touched.version.is_some() { "" } else { " (new)" };
        format!("{verb} {}{state}", touched.key)
    };
    touched.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "reads only; nothing to roll back",
        Effect::Staged => "changes are staged and committed with the result, or forgotten",
        Effect::Idempotent => "an intent is written first; after a crash it is sent again",
        Effect::External => "an intent is written first; after a crash the outcome is unknown",
    }
}
