//! Decides what models share: the transport, the clock, the dice, and one breaker per provider.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use toolgate_kernel::digest::Digest;
use toolgate_runtime::port::Clock;

use super::endpoint::{Endpoint, ModelRefusal};
use super::{Model, ModelSpec, Seat};
use crate::breaker::{Breaker, BreakerRules};
use crate::retry::Dice;
use toolgate_http::{Roots, Transport};
use toolgate_kernel::hidden::Hidden;

/// What the models of a process share.
pub struct Exchange {
    transport: Transport,
    clock: Arc<dyn Clock>,
    dice: Arc<Dice>,
    rules: BreakerRules,
    breakers: Mutex<BTreeMap<Digest, Arc<Breaker>>>,
}

impl Exchange {
    /// Models that trust these authorities, live by this clock, and wait by these dice.
    pub fn new(roots: Roots, clock: Arc<dyn Clock>, seed: u64, rules: BreakerRules) -> Self {
        let (transport, dice) = (Transport::new(roots), Arc::new(Dice::new(seed)));
        Self { transport, clock, dice, rules, breakers: Mutex::default() }
    }

    /// A model with those that stand in for it. Nothing is sent yet.
    pub fn model(&self, spec: &ModelSpec) -> Result<Model, ModelRefusal> {
        let chain = std::iter::once(spec).chain(&spec.fallback);
        let seats: Vec<Seat> = chain.map(|spec| self.seat(spec)).collect::<Result<_, _>>()?;
        let faces = std::iter::once(spec).chain(&spec.fallback).map(face).collect();
        let digest = Digest::of_json(&Value::Array(faces));
        Ok(Model { seats, digest })
    }

    pub(super) fn seat(&self, spec: &ModelSpec) -> Result<Seat, ModelRefusal> {
        spec.patience.check()?;
        if spec.turn_ms_max == 0 {
            return Err(ModelRefusal::Zero("turn_ms_max"));
        }
        if spec.retries.attempts_max == 0 {
            return Err(ModelRefusal::Zero("attempts_max"));
        }
        let mut options = spec.options.clone();
        let endpoint = Endpoint::new(spec, &self.transport)?;
        options.transforms = options.transforms.at(&spec.base_url).made_by(endpoint.maker);
        Ok(Seat {
            name: spec.name.clone(),
            dialect: spec.dialect,
            endpoint,
            options,
            patience: spec.patience.clone(),
            retries: spec.retries.clone(),
            turn_ms_max: spec.turn_ms_max,
            bounds: spec.bounds,
            calls_max: spec.calls_max,
            breaker: self.breaker(spec),
            clock: Arc::clone(&self.clock),
            dice: Arc::clone(&self.dice),
        })
    }

    /// One breaker for all models of one provider: the same address with the same key.
    fn breaker(&self, spec: &ModelSpec) -> Arc<Breaker> {
        let key = spec.key.as_ref().map_or("", Hidden::reveal);
        let id = Digest::of(format!("{}\n{key}", spec.base_url.trim()).as_bytes());
        let mut breakers = self.breakers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Breaker::new(self.rules.clone()));
        Arc::clone(breakers.entry(id).or_insert_with(new))
    }
}

/// Everything a model adds to a plan, and no secret. Where its server stands is no part of it,
/// except where the provider's own wants something else than all others.
fn face(spec: &ModelSpec) -> Value {
    let home = spec.options.transforms.clone().at(&spec.base_url).home();
    json!({
        "name": spec.name,
        "dialect": spec.dialect.as_str(),
        "home": home.as_str(),
        "options": spec.options.face(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    /// The digest is of canonical JSON, so this number holds on every machine and in every
    /// version that sends the same.
    #[test]
    fn what_a_model_adds_has_one_fingerprint_everywhere() {
        let mut spec = ModelSpec::new("openai:x", Dialect::Chat, "http://127.0.0.1:1/v1", "x");
        let sampling = json!({"top_p": 1, "temperature": 0.5});
        spec.options.sampling = sampling.as_object().unwrap().clone();
        let plain = Digest::of_json(&face(&spec));
        assert_eq!(plain.short(), "129fca12d12a");
        let turned = json!({"temperature": 0.5, "top_p": 1});
        spec.options.sampling = turned.as_object().unwrap().clone();
        assert_eq!(Digest::of_json(&face(&spec)), plain, "the order of keys says nothing");
        spec.base_url = "http://192.168.0.7:1234/v1".to_owned();
        spec.options.stream = !spec.options.stream;
        assert_eq!(Digest::of_json(&face(&spec)), plain, "nor does how it is reached");
        spec.options.preserve_cache = true;
        assert_ne!(Digest::of_json(&face(&spec)), plain);
    }
}
