//! The Merkle tree over the ends of all streams at one moment.

use super::{empty_root, leaf_hash, node_hash};
use crate::digest::Digest;

/// The end of one stream, as it is fingerprinted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEnd {
    /// Its name.
    pub name: String,
    /// How often it was taken over.
    pub epoch: u64,
    /// Place of its last record; 0 before the first.
    pub seq: u64,
    /// Chain hash up to and with that record.
    pub link: Digest,
    /// Digest of the fold that is kept of it, when one is.
    pub checkpoint: Option<Digest>,
}

impl StreamEnd {
    /// A stream without records.
    pub fn new(name: String) -> Self {
        Self { name, epoch: 0, seq: 0, link: Digest::ZERO, checkpoint: None }
    }

    /// Its hash in the tree.
    pub fn hash(&self) -> Digest {
        let mut content = Vec::with_capacity(112 + self.name.len());
        content.extend_from_slice(&self.epoch.to_be_bytes());
        content.extend_from_slice(&self.seq.to_be_bytes());
        content.extend_from_slice(&self.link.0);
        content.push(u8::from(self.checkpoint.is_some()));
        content.extend_from_slice(&self.checkpoint.unwrap_or(Digest::ZERO).0);
        // Last, because it is the only part without a fixed length.
        content.extend_from_slice(self.name.as_bytes());
        leaf_hash(&content)
    }
}

/// The tree over the ends of all streams, in the order in which they were first written.
#[derive(Debug, Clone, Default)]
pub struct StreamTree {
    /// Leaves first, the root last. A node without a neighbour stands for itself one level up.
    levels: Vec<Vec<Digest>>,
}

impl StreamTree {
    /// A tree over these leaves.
    pub fn new(leaves: Vec<Digest>) -> Self {
        let mut tree = Self { levels: vec![leaves] };
        while let Some(below) = tree.levels.last().filter(|level| level.len() > 1) {
            let above = (0..below.len().div_ceil(2)).filter_map(|at| joined(below, at)).collect();
            tree.levels.push(above);
        }
        tree
    }

    /// How many leaves there are.
    pub fn len(&self) -> usize {
        self.levels.first().map_or(0, Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The root over all of them.
    pub fn root(&self) -> Digest {
        let top = self.levels.last().and_then(|level| level.first());
        top.copied().unwrap_or_else(empty_root)
    }

    /// Sets leaves, each at its place. New ones must follow the last one without a gap; what does not
    /// is refused, and nothing is changed.
    #[must_use]
    pub fn set(&mut self, leaves: &[(usize, Digest)]) -> bool {
        let mut length = self.len();
        for (at, _) in leaves {
            if *at > length {
                return false;
            }
            length = length.max(at + 1);
        }
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let mut changed: Vec<usize> = Vec::with_capacity(leaves.len());
        for (at, leaf) in leaves {
            if let Some(level) = self.levels.first_mut() {
                put(level, *at, *leaf);
            }
            changed.push(*at);
        }
        self.rebuild_above(changed);
        true
    }

    /// Computes again what stands above changed leaves, each node once.
    fn rebuild_above(&mut self, mut changed: Vec<usize>) {
        changed.sort_unstable();
        let mut level = 0;
        while self.levels.get(level).is_some_and(|below| below.len() > 1) {
            changed.iter_mut().for_each(|at| *at /= 2);
            changed.dedup();
            if self.levels.len() == level + 1 {
                self.levels.push(Vec::new());
                // A tree that grows by a level has nodes there that no changed leaf is below.
                changed = (0..self.levels.get(level).map_or(0, Vec::len).div_ceil(2)).collect();
            }
            let (below, above) = self.levels.split_at_mut(level + 1);
            if let (Some(below), Some(above)) = (below.last(), above.first_mut()) {
                for at in &changed {
                    if let Some(node) = joined(below, *at) {
                        put(above, *at, node);
                    }
                }
            }
            level += 1;
        }
    }
}

/// The node above a pair.
fn joined(below: &[Digest], at: usize) -> Option<Digest> {
    let left = *below.get(2 * at)?;
    Some(below.get(2 * at + 1).map_or(left, |right| node_hash(left, *right)))
}

fn put(level: &mut Vec<Digest>, at: usize, value: Digest) {
    match level.get_mut(at) {
        Some(there) => *there = value,
        None => level.push(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{REFERENCE, bytes};
    use super::*;

    #[test]
    fn roots_are_those_of_the_reference_implementation() {
        let mut leaves = Vec::new();
        let mut grown = StreamTree::default();
        assert_eq!(grown.root(), empty_root());
        for (content, expected) in REFERENCE {
            let leaf = leaf_hash(&bytes(content));
            assert!(grown.set(&[(leaves.len(), leaf)]));
            leaves.push(leaf);
            assert_eq!(StreamTree::new(leaves.clone()).root().to_string(), expected);
            assert_eq!(grown.root().to_string(), expected);
        }
    }

    #[test]
    fn a_tree_that_was_changed_is_the_tree_of_what_it_holds() {
        let leaf =
            |at: usize, round: usize| leaf_hash(&[at.to_be_bytes(), round.to_be_bytes()].concat());
        let (mut leaves, mut tree) = (Vec::new(), StreamTree::default());
        for round in 0..60_usize {
            // A few old ones and a few new ones, in one step.
            let grows = round % 4;
            let old = (0..leaves.len()).filter(|at| at % 7 == round % 7);
            let changed: Vec<(usize, Digest)> = old
                .chain(leaves.len()..leaves.len() + grows)
                .map(|at| (at, leaf(at, round)))
                .collect();
            for (at, leaf) in &changed {
                put(&mut leaves, *at, *leaf);
            }
            assert!(tree.set(&changed));
            assert_eq!(tree.root(), StreamTree::new(leaves.clone()).root(), "round {round}");
        }
        let before = tree.root();
        assert!(!tree.set(&[(leaves.len() + 1, Digest::ZERO)]), "a gap");
        assert_eq!(tree.root(), before);
    }

    #[test]
    fn every_part_of_a_stream_is_in_its_leaf() {
        let one = StreamEnd {
            name: "project".into(),
            epoch: 1,
            seq: 2,
            link: Digest::of(b"x"),
            checkpoint: None,
        };
        let others = [
            StreamEnd { name: "projects".into(), ..one.clone() },
            StreamEnd { epoch: 2, ..one.clone() },
            StreamEnd { seq: 3, ..one.clone() },
            StreamEnd { link: Digest::of(b"y"), ..one.clone() },
            StreamEnd { checkpoint: Some(Digest::of(b"z")), ..one.clone() },
            StreamEnd { checkpoint: Some(Digest::ZERO), ..one.clone() },
        ];
        for other in others {
            assert_ne!(one.hash(), other.hash(), "{other:?}");
        }
    }
}
