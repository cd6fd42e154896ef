//! Decides how the gate's decision on a call is told, stage by stage, without running anything.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::refusal::Refusal;
use super::{Call, former, judge, parse, resolve, validate};
use crate::agent::Agent;
use crate::envelope::Trouble;
use crate::fold::{OpenCall, Session, World};
use crate::key::{Access, Key, Touched};
use crate::tool::Effect;

/// What a stage of the gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The call passes.
    Pass,
    /// A person would be asked.
    Ask,
    /// The call is refused.
    Refuse,
    /// It is not reached.
    Skip,
}

/// One stage of the gate and its ruling.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StageRuling {
    /// The stage: resolve, parse, validate, footprint, repeat, a policy, effect.
    pub stage: String,
    /// Its ruling.
    pub ruling: Ruling,
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
    /// The worst ruling of all stages.
    pub verdict: Ruling,
    /// Every stage, in order.
    pub stages: Vec<StageRuling>,
    /// The arguments as the tool would get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// What it would touch, with the versions found.
    pub touches: Vec<Touched>,
}

/// The stages before the policies, in order.
const BEFORE: &[&str] = &["resolve", "parse", "validate", "footprint", "repeat"];

/// Tells what the gate would decide. `look_up` finds the versions of what the call touches.
pub fn explain(
    agent: &Agent,
    world: &World<'_>,
    open: &OpenCall,
    look_up: impl FnOnce(&[(Access, Key)]) -> Result<Vec<Touched>, Refusal>,
) -> Explanation {
    // The call is not made yet: a model would make it after all that was read.
    let flow = world.session.flow.at_next_reply();
    let session = Session { flow, ..world.session.clone() };
    let world = &World { session: &session, ..*world };
    let phase = world.session.phase.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut told = Explanation {
        tool: open.raw.name.chars().take(80).collect(),
        phase,
        verdict: Ruling::Pass,
        stages: Vec::new(),
        args: None,
        touches: Vec::new(),
    };
    if let Err((stage, refusal)) = told.walk(agent, world, open, look_up) {
        told.refused(stage, refusal);
        let rest = BEFORE.iter().skip_while(|before| **before != stage).skip(1);
        for stage in rest.chain(&["policies", "effect"]) {
            told.say(stage, Ruling::Skip, "not reached".to_owned());
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
        look_up: impl FnOnce(&[(Access, Key)]) -> Result<Vec<Touched>, Refusal>,
    ) -> Result<(), (&'static str, Refusal)> {
        let at = |stage: &'static str| move |refusal| (stage, refusal);
        let pins = &world.project.pins;
        let resolved = resolve::resolve(agent, world.session, pins, open).map_err(at("resolve"))?;
        let spec = resolved.spec.clone();
        resolve::in_its_setting(agent, world.session, &spec).map_err(at("resolve"))?;
        self.say("resolve", Ruling::Pass, format!("{} is granted in {}", spec.name, self.phase));
        let parsed = parse::parse_for(&open.raw, &spec, &agent.limits).map_err(at("parse"))?;
        let why = parsed.repaired.unwrap_or("one JSON object").to_owned();
        self.say("parse", Ruling::Pass, why);
        let parsed = former::translate(&open.raw, &spec, parsed).map_err(at("validate"))?;
        let call = validate::validate(resolved, parsed, open).map_err(at("validate"))?;
        validate::keeps_out(&agent.toolset, &call).map_err(at("validate"))?;
        let why = match call.warnings() {
            [] => "the arguments have the declared types".to_owned(),
            warnings => warnings.join("; "),
        };
        self.say("validate", Ruling::Pass, why);
        self.args = Some(Value::Object(call.args_tree().clone()));
        self.touches = look_up(call.keys()).map_err(at("footprint"))?;
        self.say("footprint", Ruling::Pass, footprint(&self.touches));
        self.judge(agent, &call, world).map_err(at("repeat"))?;
        self.say("effect", Ruling::Pass, effect(spec.effect).to_owned());
        Ok(())
    }

    /// Whether the call was made too often in a row, and every policy's word, also after one that
    /// refused: whoever asks wants to know them all.
    fn judge(&mut self, agent: &Agent, call: &Call, world: &World<'_>) -> Result<(), Refusal> {
        match judge::repeated(agent, world, call) {
            Some(refusal) => self.refused("repeat", refusal),
            None => self.say("repeat", Ruling::Pass, "not too often in a row".to_owned()),
        }
        let touches = self.touches.clone();
        let mut governed = false;
        for (policy, word) in judge::words(agent, world, call, &touches)? {
            governed = true;
            let stage = format!("policy {}", policy.name());
            match word {
                Ok(None) => {
                    let why = policy.explain(call, world);
                    let why = why.unwrap_or_else(|| "does not object".to_owned());
                    self.say(&stage, Ruling::Pass, why);
                }
                Ok(Some(reason)) => self.say(&stage, Ruling::Ask, reason),
                Err(refusal) => self.refused(&stage, refusal),
            }
        }
        if !governed {
            self.say("policies", Ruling::Pass, "no policy governs this tool".to_owned());
        }
        Ok(())
    }

    fn say(&mut self, stage: &str, ruling: Ruling, why: String) {
        self.verdict = match (self.verdict, ruling) {
            (Ruling::Refuse, _) | (_, Ruling::Refuse) => Ruling::Refuse,
            (Ruling::Ask, _) | (_, Ruling::Ask) => Ruling::Ask,
            (before, _) => before,
        };
        self.stages.push(StageRuling { stage: stage.to_owned(), ruling, why, errors: Vec::new() });
    }

    fn refused(&mut self, stage: &str, refusal: Refusal) {
        let why = refusal.errors.first().map(|first| first.message.clone()).unwrap_or_default();
        self.say(stage, Ruling::Refuse, why);
        if let Some(last) = self.stages.last_mut() {
            last.errors = refusal.errors.clone();
        }
    }
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
