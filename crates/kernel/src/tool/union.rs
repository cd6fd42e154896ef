//! Decides which kind of a union a value is: as written before coerced, by its tag where it has one.

use serde_json::Value;

use super::exact::ExactJudge;
use super::misfit::{Misfit, Path, Problem};
use super::shape::{Field, Fit, Node, Walk};

/// How many kinds of a union a value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matching {
    /// At least one.
    Any,
    /// Exactly one.
    One,
}

/// What came of trying one kind.
struct Attempt {
    value: Value,
    fit: Fit,
    misfits: Vec<Misfit>,
    warnings: Vec<String>,
}

impl Attempt {
    fn as_written(&self) -> bool {
        self.misfits.is_empty() && self.fit == Fit::AsWritten
    }

    /// How far off it is: another type altogether, a value that is not allowed, or less.
    fn distance(&self, path: &Path<'_>) -> (bool, bool, usize) {
        let here = path.to_string();
        let wrong = |misfit: &Misfit| misfit.problem == Problem::WrongType && misfit.path == here;
        let not_allowed = |misfit: &Misfit| misfit.problem == Problem::NotAllowed;
        let misfits = &self.misfits;
        (misfits.iter().any(wrong), misfits.iter().any(not_allowed), misfits.len())
    }
}

impl Walk<'_, '_> {
    pub(super) fn union(
        &mut self,
        branches: &[Node],
        matching: Matching,
        value: &mut Value,
        path: &Path<'_>,
    ) {
        let Some(meant) = self.meant(branches, value, path) else { return };
        let mut attempts = Vec::with_capacity(meant.len());
        for branch in meant {
            let attempt = self.attempt(branch, value, path);
            // What fits as it is needs no coercing into another kind.
            if attempt.as_written() && matching == Matching::Any {
                return;
            }
            attempts.push(attempt);
        }
        if attempts.iter().any(Attempt::as_written) {
            return self.check_single(branches, value, path);
        }
        let Some(fitting) = attempts.iter().position(|attempt| attempt.misfits.is_empty()) else {
            let nearest = attempts.into_iter().min_by_key(|attempt| attempt.distance(path));
            return self.complain(nearest.map(|attempt| attempt.misfits).unwrap_or_default());
        };
        let Attempt { value: coerced, warnings, .. } = attempts.swap_remove(fitting);
        if matching == Matching::One {
            self.check_single(branches, &coerced, path);
        }
        self.coerce(value, coerced);
        self.warnings.extend(warnings);
    }

    /// Refuses what fits several kinds to JSON Schema, also where it fits one only to us.
    fn check_single(&mut self, branches: &[Node], value: &Value, path: &Path<'_>) {
        let (steps_left, depth_left) = (self.steps_left, self.depth_left);
        let mut judge = ExactJudge { shape: self.shape, steps_left, depth_left };
        let count = judge.count(branches, value);
        self.steps_left = judge.steps_left;
        if count != Some(1) {
            self.ambiguous(path);
        }
    }

    /// Tries one kind and leaves no trace of it.
    fn attempt(&mut self, branch: &Node, value: &Value, path: &Path<'_>) -> Attempt {
        let (mut value, mut warnings) = (value.clone(), Vec::new());
        let mut walk = Walk::new(self.shape, &mut warnings, self.steps_left, self.depth_left);
        walk.node(branch, &mut value, path);
        let (fit, misfits) = (walk.fit, walk.misfits);
        self.steps_left = walk.steps_left;
        Attempt { value, fit, misfits, warnings }
    }

    /// The kinds a value can be by its tag; none when it has a tag that no kind has, which is
    /// then what is wrong with it.
    fn meant<'n>(
        &mut self,
        branches: &'n [Node],
        value: &Value,
        path: &Path<'_>,
    ) -> Option<Vec<&'n Node>> {
        let off = |branch: &&Node| {
            self.tags(branch).any(|(field, tag)| value.get(&field.name).is_some_and(|v| v != tag))
        };
        let meant: Vec<&Node> = branches.iter().filter(|branch| !off(branch)).collect();
        if !meant.is_empty() {
            return Some(meant);
        }
        let name = branches.first().and_then(|branch| self.tags(branch).next());
        let name = name.map(|(field, _)| field.name.clone()).unwrap_or_default();
        let known: Vec<Value> = branches
            .iter()
            .flat_map(|branch| self.tags(branch).filter(|(field, _)| field.name == name))
            .map(|(_, tag)| tag.clone())
            .collect();
        match value.get(&name) {
            Some(given) if !known.contains(given) => {
                self.one_of(&known, given, &Path::Field(path, &name));
                None
            }
            _ => Some(branches.iter().collect()),
        }
    }

    /// The required fields of a record that have one possible value.
    fn tags<'n>(&self, branch: &'n Node) -> impl Iterator<Item = (&'n Field, &'n Value)>
    where
        Self: 'n,
    {
        let fields = match branch {
            Node::Object { fields, .. } => fields.as_slice(),
            Node::Any
            | Node::Null
            | Node::Bool
            | Node::Integer { .. }
            | Node::Number { .. }
            | Node::Text { .. }
            | Node::OneOf(_)
            | Node::List { .. }
            | Node::Nullable(_)
            | Node::Union { .. }
            | Node::Typed { .. }
            | Node::Definition(_) => &[],
        };
        let tagging = fields.iter().filter(|field| field.required && field.aliases.is_empty());
        tagging.filter_map(|field| {
            let Node::OneOf(values) = &field.node else { return None };
            let [tag] = values.as_slice() else { return None };
            Some((field, tag))
        })
    }

    fn ambiguous(&mut self, path: &Path<'_>) {
        let message = "fits several of the possible kinds; send what fits one only".to_owned();
        self.misfit(path, Problem::WrongType, message, Vec::new());
    }
}
