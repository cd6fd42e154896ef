//! The Merkle tree over all commits of a log, which only grows.
//!
//! Its nodes are kept where they were completed: the leaf with number `n` completes the nodes of all
//! whole subtrees that end with it. So any earlier root is found with one lookup per bit of its size.

use super::{empty_root, leaf_hash, node_hash};
use crate::digest::Digest;
use crate::time::Timestamp;

/// What one commit adds to the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLeaf {
    /// Its number, from 0.
    pub number: u64,
    /// The root over the ends of all streams.
    pub streams_root: Digest,
    /// When it was made.
    pub at: Timestamp,
}

impl CommitLeaf {
    /// Its hash in the tree.
    pub fn hash(&self) -> Digest {
        let mut content = Vec::with_capacity(48);
        content.extend_from_slice(&self.number.to_be_bytes());
        content.extend_from_slice(&self.streams_root.0);
        content.extend_from_slice(&self.at.0.to_be_bytes());
        leaf_hash(&content)
    }
}

/// The whole subtrees that a tree consists of, which are all that its root and its growth depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// The root of the whole subtree at each level that has one; the others are of no account.
    nodes: Vec<Digest>,
}

impl Frontier {
    /// Of a tree without leaves.
    pub const EMPTY: Self = Self { size: 0, nodes: Vec::new() };

    /// Of the first leaves of a stored tree. `stored` gives the nodes that a leaf completed; `None`
    /// where one that is needed is not there.
    pub fn load<E>(
        size: u64,
        mut stored: impl FnMut(u64) -> Result<Vec<Digest>, E>,
    ) -> Result<Option<Self>, E> {
        let mut frontier = Self { size, nodes: Vec::new() };
        // From the smallest whole subtree, at the right end, to the largest.
        let mut end = size;
        for level in levels(size) {
            let completed = stored(end - 1)?;
            let Some(node) = usize::try_from(level).ok().and_then(|level| completed.get(level))
            else {
                return Ok(None);
            };
            frontier.put(level, *node);
            end -= 1 << level;
        }
        Ok(Some(frontier))
    }

    /// How many leaves the tree has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root over all of them.
    pub fn root(&self) -> Digest {
        let nodes = levels(self.size).filter_map(|level| self.node(level));
        nodes.reduce(|right, left| node_hash(left, right)).unwrap_or_else(empty_root)
    }

    /// Adds a leaf. Answers the nodes that it completes: itself, the node above it and its neighbour,
    /// and so on.
    pub fn push(&mut self, leaf: Digest) -> Vec<Digest> {
        let (mut node, mut completed) = (leaf, vec![leaf]);
        let above = self.size.trailing_ones();
        for left in (0..above).filter_map(|level| self.node(level)) {
            node = node_hash(left, node);
            completed.push(node);
        }
        self.put(above, node);
        self.size = self.size.saturating_add(1);
        completed
    }

    fn node(&self, level: u32) -> Option<Digest> {
        self.nodes.get(usize::try_from(level).ok()?).copied()
    }

    fn put(&mut self, level: u32, node: Digest) {
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        if self.nodes.len() <= level {
            self.nodes.resize(level.saturating_add(1), Digest::ZERO);
        }
        if let Some(place) = self.nodes.get_mut(level) {
            *place = node;
        }
    }
}

/// The levels at which a tree of some size has a whole subtree, from the lowest.
fn levels(size: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |level| size >> level & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::super::vectors::{REFERENCE, bytes};
    use super::*;

    /// Every node of a tree over the leaves, as they were completed.
    fn grown(leaves: &[Digest]) -> Vec<Vec<Digest>> {
        let mut frontier = Frontier::EMPTY;
        leaves.iter().map(|leaf| frontier.push(*leaf)).collect()
    }

    fn root(all: &[Vec<Digest>], size: u64) -> Option<Digest> {
        let stored = |at: u64| {
            let kept = usize::try_from(at).ok().and_then(|at| all.get(at));
            Ok::<_, Infallible>(kept.cloned().unwrap_or_default())
        };
        Frontier::load(size, stored).unwrap().map(|frontier| frontier.root())
    }

    #[test]
    fn roots_are_those_of_the_reference_implementation() {
        let leaves: Vec<Digest> =
            REFERENCE.iter().map(|(content, _)| leaf_hash(&bytes(content))).collect();
        let all = grown(&leaves);
        let mut frontier = Frontier::EMPTY;
        assert_eq!(frontier.root(), empty_root());
        for ((size, (_, expected)), leaf) in (1_u64..).zip(REFERENCE).zip(&leaves) {
            frontier.push(*leaf);
            assert_eq!(frontier.root().to_string(), expected, "size {size}");
            assert_eq!(root(&all, size).unwrap().to_string(), expected, "size {size}");
        }
        assert_eq!(root(&all, 0), Some(empty_root()));
        assert_eq!(root(&all, 9), None, "more than there is");
    }

    /// The definition of RFC 6962, word for word.
    fn defined(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => empty_root(),
            [one] => *one,
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                node_hash(defined(&leaves[..split]), defined(&leaves[split..]))
            }
        }
    }

    #[test]
    fn any_earlier_root_is_found_in_a_longer_tree() {
        let leaves: Vec<Digest> = (0_u64..70).map(|at| leaf_hash(&at.to_be_bytes())).collect();
        let all = grown(&leaves);
        for size in 0..=leaves.len() {
            let found = root(&all, u64::try_from(size).unwrap());
            assert_eq!(found, Some(defined(&leaves[..size])), "size {size}");
        }
    }
}
