//! The tree an evaluation walks: names resolved, functions known, patterns compiled.

use super::builtin::{Function, Search};
use super::number::{Arithmetic, Number};
use super::pattern::Pattern;

/// Two operands, left and right.
pub(super) type Pair = Box<(Node, Node)>;

#[derive(Clone)]
pub(super) enum Node {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    /// A variable of the scope.
    Root(Box<str>),
    /// The variable of the comprehension around; there is at most one, as they do not nest.
    Item,
    Member(Box<Node>, Box<str>),
    /// `has(of.name)`.
    Has(Box<Node>, Box<str>),
    Index(Pair),
    Not(Box<Node>),
    Negate(Box<Node>),
    Logic(Logic, Pair),
    /// `condition ? first : second`.
    Choose(Box<(Node, Node, Node)>),
    Arithmetic(Arithmetic, Pair),
    Compare(Comparison, Pair),
    Equal(Pair),
    NotEqual(Pair),
    In(Pair),
    Apply(Function, Box<Node>),
    Search(Search, Pair),
    Matches(Box<Node>, Pattern),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone)]
pub(super) struct Comprehension {
    pub(super) over: Node,
    pub(super) fold: Fold,
}

/// What a comprehension does with each item.
#[derive(Clone)]
pub(super) enum Fold {
    All(Node),
    Exists(Node),
    ExistsOne(Node),
    Filter(Node),
    Map { test: Option<Node>, to: Node },
}

#[derive(Clone, Copy)]
pub(super) enum Logic {
    And,
    Or,
}

impl Logic {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::And => "&&",
            Self::Or => "||",
        }
    }

    /// The answer of one side that settles it whatever the other side is.
    pub(super) fn decisive(self) -> bool {
        match self {
            Self::And => false,
            Self::Or => true,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}
