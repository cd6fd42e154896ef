//! The operators: logic, arithmetic, joining, order, equality and membership.

use std::rc::Rc;

use super::builtin::made;
use super::datum::{Datum, List, Text};
use super::equal::{contains, equal};
use super::evaluate::{Evaluation, Outcome};
use super::fault::EvaluationFault;
use super::node::{Comparison, Logic, Node, Pair};
use super::number::Arithmetic;
use super::{COMPREHENSION_ITEMS_MAX, TEXT_BYTES_MAX};

impl<'a> Evaluation<'a> {
    /// A fault on one side gives way if the other side decides.
    pub(super) fn decide(
        &mut self,
        logic: Logic,
        pair: &'a Pair,
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        let (left, right) = pair.as_ref();
        let fault = match self.truth(left, logic.symbol(), item) {
            Ok(truth) if truth == logic.decisive() => return Ok(Datum::Bool(truth)),
            Ok(_) => return self.truth(right, logic.symbol(), item).map(Datum::Bool),
            Err(fault) if fault.is_final() => return Err(fault),
            Err(fault) => fault,
        };
        match self.truth(right, logic.symbol(), item) {
            Ok(truth) if truth == logic.decisive() => Ok(Datum::Bool(truth)),
            Err(second) if second.is_final() => Err(second),
            Ok(_) | Err(_) => Err(fault),
        }
    }

    pub(super) fn not(&mut self, of: &'a Node, item: Option<&Datum<'a>>) -> Outcome<'a> {
        self.truth(of, "!", item).map(|truth| Datum::Bool(!truth))
    }

    pub(super) fn choose(
        &mut self,
        branches: &'a (Node, Node, Node),
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        let (condition, first, second) = branches;
        let chosen = if self.truth(condition, "? :", item)? { first } else { second };
        self.visit(chosen, item)
    }

    pub(super) fn negate(&mut self, of: &'a Node, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let of = self.visit(of, item)?;
        let Datum::Number(number) = of else { return Err(of.unfit("-")) };
        number.negate().map(Datum::Number)
    }

    pub(super) fn arithmetic(
        &mut self,
        operator: Arithmetic,
        pair: &'a Pair,
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        match (operator, self.both(pair, item)?) {
            (_, (Datum::Number(left), Datum::Number(right))) => {
                operator.apply(left, right).map(Datum::Number)
            }
            (Arithmetic::Add, (Datum::Text(left), Datum::Text(right))) => self.join(&left, &right),
            (Arithmetic::Add, (Datum::List(left), Datum::List(right))) => self.append(left, right),
            (_, (left, right)) => Err(left.unfit_with(operator.symbol(), &right)),
        }
    }

    fn join(&mut self, left: &Text<'_>, right: &Text<'_>) -> Outcome<'a> {
        let bytes = left.as_str().len().saturating_add(right.as_str().len());
        if bytes > TEXT_BYTES_MAX {
            return Err(EvaluationFault::TooLongText { bytes });
        }
        self.meter.spend_text(bytes)?;
        Ok(made([left.as_str(), right.as_str()].concat()))
    }

    fn append(&mut self, left: List<'a>, right: List<'a>) -> Outcome<'a> {
        let items = left.size().saturating_add(right.size());
        if items > COMPREHENSION_ITEMS_MAX {
            return Err(EvaluationFault::TooManyItems { items });
        }
        self.meter.spend(items)?;
        let joined = left.items().chain(right.items()).collect::<Result<Rc<[_]>, _>>()?;
        Ok(Datum::List(List::Made(joined)))
    }

    /// Numbers by value, texts by code point, booleans with false first.
    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        pair: &'a Pair,
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        let order = match self.both(pair, item)? {
            // NaN has no order, so every comparison with it is false.
            (Datum::Number(left), Datum::Number(right)) => left.order(right),
            (Datum::Bool(left), Datum::Bool(right)) => Some(left.cmp(&right)),
            (Datum::Text(left), Datum::Text(right)) => {
                let (left, right) = (left.as_str(), right.as_str());
                self.meter.spend_text(left.len().min(right.len()))?;
                Some(left.cmp(right))
            }
            (left, right) => return Err(left.unfit_with(comparison.symbol(), &right)),
        };
        Ok(Datum::Bool(order.is_some_and(|order| comparison.holds(order))))
    }

    pub(super) fn equal(&mut self, pair: &'a Pair, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let (left, right) = self.both(pair, item)?;
        equal(&mut self.meter, &left, &right).map(Datum::Bool)
    }

    pub(super) fn not_equal(&mut self, pair: &'a Pair, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let (left, right) = self.both(pair, item)?;
        equal(&mut self.meter, &left, &right).map(|same| Datum::Bool(!same))
    }

    pub(super) fn is_in(&mut self, pair: &'a Pair, item: Option<&Datum<'a>>) -> Outcome<'a> {
        match self.both(pair, item)? {
            (wanted, Datum::List(list)) => {
                contains(&mut self.meter, list, &wanted).map(Datum::Bool)
            }
            (wanted, Datum::Map(map)) => Ok(Datum::Bool(self.find(&map, &wanted)?.is_some())),
            (wanted, other) => Err(wanted.unfit_with("in", &other)),
        }
    }
}
