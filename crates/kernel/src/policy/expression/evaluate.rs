//! Walks a compiled tree over a scope and answers yes, no, or why there is no answer.

use super::builtin::{Function, Search};
use super::datum::{Datum, List, Map, Text, same_key};
use super::fault::EvaluationFault;
use super::meter::Meter;
use super::node::{Node, Pair};
use super::number::Number;
use super::pattern::Pattern;
use super::view::Scope;

/// The value of a node, or why it has none.
pub(super) type Outcome<'a> = Result<Datum<'a>, EvaluationFault>;

/// Answers `root` for `scope`.
pub(super) fn evaluate<'a>(root: &'a Node, scope: &'a dyn Scope) -> Result<bool, EvaluationFault> {
    let mut evaluation = Evaluation { scope, meter: Meter::new() };
    let answer = evaluation.visit(root, None)?;
    let Datum::Bool(truth) = answer else {
        return Err(EvaluationFault::NotBoolean { found: answer.kind() });
    };
    Ok(truth)
}

pub(super) struct Evaluation<'a> {
    scope: &'a dyn Scope,
    pub(super) meter: Meter,
}

impl<'a> Evaluation<'a> {
    /// Recurses no deeper than lowering allowed; every arm is a call, so that a level stays small.
    pub(super) fn visit(&mut self, node: &'a Node, item: Option<&Datum<'a>>) -> Outcome<'a> {
        self.meter.spend(1)?;
        match node {
            Node::Null => Ok(Datum::Null),
            Node::Bool(truth) => Ok(Datum::Bool(*truth)),
            Node::Number(number) => Ok(Datum::Number(*number)),
            Node::Text(text) => Ok(Datum::Text(Text::Borrowed(text))),
            Node::Root(name) => self.root(name),
            Node::Item => item.cloned().ok_or_else(|| no_variable("item")),
            Node::Member(of, name) => self.member(of, name, item),
            Node::Has(of, name) => self.has(of, name, item),
            Node::Index(pair) => self.index(pair, item),
            Node::Not(of) => self.not(of, item),
            Node::Negate(of) => self.negate(of, item),
            Node::Logic(logic, pair) => self.decide(*logic, pair, item),
            Node::Choose(branches) => self.choose(branches, item),
            Node::Arithmetic(operator, pair) => self.arithmetic(*operator, pair, item),
            Node::Compare(comparison, pair) => self.compare(*comparison, pair, item),
            Node::Equal(pair) => self.equal(pair, item),
            Node::NotEqual(pair) => self.not_equal(pair, item),
            Node::In(pair) => self.is_in(pair, item),
            Node::Apply(function, of) => self.apply(*function, of, item),
            Node::Search(search, pair) => self.search(*search, pair, item),
            Node::Matches(text, pattern) => self.matches(text, pattern, item),
            Node::List(nodes) => self.list(nodes, item),
            Node::Map(entries) => self.map(entries, item),
            Node::Comprehension(comprehension) => self.comprehend(comprehension, item),
        }
    }

    fn root(&self, name: &str) -> Outcome<'a> {
        let view = self.scope.get(name).ok_or_else(|| no_variable(name))?;
        Datum::from_view(view)
    }

    /// The value of `node`, which must be a boolean.
    pub(super) fn truth(
        &mut self,
        node: &'a Node,
        operation: &'static str,
        item: Option<&Datum<'a>>,
    ) -> Result<bool, EvaluationFault> {
        let datum = self.visit(node, item)?;
        let Datum::Bool(truth) = datum else { return Err(datum.unfit(operation)) };
        Ok(truth)
    }

    pub(super) fn both(
        &mut self,
        pair: &'a Pair,
        item: Option<&Datum<'a>>,
    ) -> Result<(Datum<'a>, Datum<'a>), EvaluationFault> {
        Ok((self.visit(&pair.0, item)?, self.visit(&pair.1, item)?))
    }

    fn member(&mut self, of: &'a Node, name: &str, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let of = self.visit(of, item)?;
        let Datum::Map(map) = &of else { return Err(of.unfit("a field access")) };
        map.member(name)?.ok_or_else(|| no_field(name))
    }

    fn has(&mut self, of: &'a Node, name: &str, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let of = self.visit(of, item)?;
        let Datum::Map(map) = &of else { return Err(of.unfit("has()")) };
        Ok(Datum::Bool(map.member(name)?.is_some()))
    }

    fn index(&mut self, pair: &'a Pair, item: Option<&Datum<'a>>) -> Outcome<'a> {
        match self.both(pair, item)? {
            (Datum::Map(map), key) => self.find(&map, &key)?.ok_or_else(|| no_field(&shown(&key))),
            (Datum::List(list), Datum::Number(place)) => {
                let outside = || EvaluationFault::NoItem {
                    index: shown(&Datum::Number(place)),
                    size: list.size(),
                };
                list.item(place.to_index().ok_or_else(outside)?)
            }
            (of, key) => Err(of.unfit_with("[ ]", &key)),
        }
    }

    /// The entry of a computed key, which may be long.
    pub(super) fn find(
        &mut self,
        map: &Map<'a>,
        key: &Datum<'a>,
    ) -> Result<Option<Datum<'a>>, EvaluationFault> {
        if let Datum::Text(key) = key {
            self.meter.spend_text(key.as_str().len())?;
        }
        map.entry(key)
    }

    fn apply(&mut self, function: Function, of: &'a Node, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let datum = self.visit(of, item)?;
        function.apply(&mut self.meter, datum)
    }

    fn search(&mut self, search: Search, pair: &'a Pair, item: Option<&Datum<'a>>) -> Outcome<'a> {
        let (text, part) = self.both(pair, item)?;
        search.holds(&mut self.meter, &text, &part).map(Datum::Bool)
    }

    fn matches(
        &mut self,
        text: &'a Node,
        pattern: &Pattern,
        item: Option<&Datum<'a>>,
    ) -> Outcome<'a> {
        let text = self.visit(text, item)?;
        let Datum::Text(text) = &text else { return Err(text.unfit("matches()")) };
        pattern.is_match(&mut self.meter, text.as_str()).map(Datum::Bool)
    }

    fn list(&mut self, nodes: &'a [Node], item: Option<&Datum<'a>>) -> Outcome<'a> {
        let items = nodes.iter().map(|node| self.visit(node, item));
        Ok(Datum::List(List::Made(items.collect::<Result<_, _>>()?)))
    }

    fn map(&mut self, nodes: &'a [(Node, Node)], item: Option<&Datum<'a>>) -> Outcome<'a> {
        let mut entries: Vec<(Datum<'a>, Datum<'a>)> = Vec::with_capacity(nodes.len());
        for (key, value) in nodes {
            let key = self.visit(key, item)?;
            if matches!(
                key,
                Datum::Null | Datum::List(_) | Datum::Map(_) | Datum::Number(Number::Float(_))
            ) {
                return Err(key.unfit("a map key"));
            }
            self.meter.spend(entries.len())?;
            if entries.iter().any(|(known, _)| same_key(known, &key)) {
                return Err(EvaluationFault::DuplicateKey);
            }
            entries.push((key, self.visit(value, item)?));
        }
        Ok(Datum::Map(Map::Made(entries.into())))
    }
}

fn no_variable(name: &str) -> EvaluationFault {
    EvaluationFault::NoVariable { name: name.to_owned() }
}

fn no_field(name: &str) -> EvaluationFault {
    EvaluationFault::NoField { name: name.chars().take(100).collect() }
}

/// A key as a message shows it.
fn shown(key: &Datum<'_>) -> String {
    match key {
        Datum::Text(text) => text.as_str().to_owned(),
        Datum::Bool(truth) => truth.to_string(),
        Datum::Number(Number::Int(int)) => int.to_string(),
        Datum::Number(Number::Uint(uint)) => uint.to_string(),
        Datum::Number(Number::Float(float)) => float.to_string(),
        Datum::Null | Datum::List(_) | Datum::Map(_) => key.kind().to_owned(),
    }
}
