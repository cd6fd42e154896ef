//! The comprehension macros: one pass over a bounded list, or over the keys of a map.

use super::COMPREHENSION_ITEMS_MAX;
use super::datum::{Datum, Items, List};
use super::evaluate::{Evaluation, Outcome};
use super::fault::EvaluationFault;
use super::node::{Comprehension, Fold, Logic, Node};

impl<'a> Evaluation<'a> {
    pub(super) fn comprehend(
        &mut self,
        comprehension: &'a Comprehension,
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        let over = self.visit(&comprehension.over, item)?;
        let items = match over {
            Datum::List(list) => bounded(list.size()).map(|()| list.items())?,
            Datum::Map(map) => bounded(map.size()).map(|()| map.keys())?,
            Datum::Null | Datum::Bool(_) | Datum::Number(_) | Datum::Text(_) => {
                return Err(over.unfit("a comprehension"));
            }
        };
        match &comprehension.fold {
            Fold::All(test) => self.decide_each(items, test, Logic::And, "all()"),
            Fold::Exists(test) => self.decide_each(items, test, Logic::Or, "exists()"),
            Fold::ExistsOne(test) => self.exactly_one(items, test),
            Fold::Filter(test) => self.gather(items, Some(test), None),
            Fold::Map { test, to } => self.gather(items, test.as_ref(), Some(to)),
        }
    }

    /// `exists` is decided by one true, `all` by one false; a fault gives way to a later decision.
    fn decide_each(
        &mut self,
        items: Items<'a>,
        test: &'a Node,
        logic: Logic,
        operation: &'static str,
    ) -> Outcome<'a> {
        let mut first_fault = None;
        for item in items {
            match item.and_then(|item| self.truth(test, operation, Some(&item))) {
                Ok(truth) if truth == logic.decisive() => return Ok(Datum::Bool(truth)),
                Ok(_) => {}
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) => first_fault = first_fault.or(Some(fault)),
            }
        }
        first_fault.map_or(Ok(Datum::Bool(!logic.decisive())), Err)
    }

    fn exactly_one(&mut self, items: Items<'a>, test: &'a Node) -> Outcome<'a> {
        let mut count = 0;
        for item in items {
            count += usize::from(self.truth(test, "exists_one()", Some(&item?))?);
        }
        Ok(Datum::Bool(count == 1))
    }

    /// The items that pass `test`, each turned into `to`.
    fn gather(
        &mut self,
        items: Items<'a>,
        test: Option<&'a Node>,
        to: Option<&'a Node>,
    ) -> Outcome<'a> {
        let mut gathered = Vec::new();
        for item in items {
            let item = item?;
            let passes = match test {
                Some(test) => self.truth(test, "filter()", Some(&item))?,
                None => true,
            };
            if passes {
                gathered.push(match to {
                    Some(to) => self.visit(to, Some(&item))?,
                    None => item,
                });
            }
        }
        Ok(Datum::List(List::Made(gathered.into())))
    }
}

/// A lookup that hands out more than it said is stopped by the meter: every item costs a step.
fn bounded(items: usize) -> Result<(), EvaluationFault> {
    if items > COMPREHENSION_ITEMS_MAX {
        return Err(EvaluationFault::TooManyItems { items });
    }
    Ok(())
}
