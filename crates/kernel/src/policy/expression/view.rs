//! What an expression may look at: roots, members and items, each handed out only when asked for.

use serde_json::Value;

/// The root variables of one evaluation, such as `args`, `phase` or `project`.
pub trait Scope {
    /// The value of the root variable `name`, or nothing if this scope does not have it.
    fn get(&self, name: &str) -> Option<View<'_>>;
}

/// An object whose members are looked up one by one, so that nothing is converted ahead.
pub trait Lookup {
    /// The member `name`, or nothing if the object lacks it; then access is a fault.
    fn field(&self, name: &str) -> Option<View<'_>>;
    /// How many members there are.
    fn size(&self) -> usize;
    /// The names of the members, in a stable order.
    fn keys(&self) -> Box<dyn Iterator<Item = &str> + '_>;
}

/// A list whose items are looked up one by one.
pub trait Sequence {
    /// The item at `index`, counted from zero.
    fn item(&self, index: usize) -> Option<View<'_>>;
    /// How many items there are.
    fn size(&self) -> usize;
}

/// A borrowed value, as a scope, an object or a list hands it out.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// Nothing, on purpose: CEL `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; it compares with signed ones by value.
    Uint(u64),
    /// A floating point number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Any JSON, read in place.
    Json(&'a Value),
    /// An object, read member by member.
    Object(&'a dyn Lookup),
    /// A list, read item by item.
    List(&'a dyn Sequence),
}
