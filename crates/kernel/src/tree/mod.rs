//! Fingerprints a whole log: Merkle trees as of RFC 6962, and heads as signed notes.
//!
//! Every commit is one leaf of the log's tree. A leaf holds the root of a second tree, over the ends of
//! all streams at that moment. So one signature over the newest root vouches for every record.

mod head;
mod history;
mod note;
mod streams;

pub use head::{LogId, LogIdRefusal, TreeHead};
pub use history::{CommitLeaf, Frontier};
pub use note::{NoteRefusal, SignedNote, key_id};
pub use streams::{StreamEnd, StreamTree};

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;

/// The root of a tree without leaves.
pub fn empty_root() -> Digest {
    Digest::of(b"")
}

/// The hash of a leaf.
pub fn leaf_hash(content: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([0]);
    hasher.update(content);
    Digest(hasher.finalize().into())
}

/// The hash of a node above two others.
pub fn node_hash(left: Digest, right: Digest) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update([1]);
    hasher.update(left.0);
    hasher.update(right.0);
    Digest(hasher.finalize().into())
}

#[cfg(test)]
mod vectors {
    /// Contents of the leaves and roots of the first 1 to 8 of them, as published with the reference
    /// implementation of RFC 6962.
    pub(super) const REFERENCE: [(&str, &str); 8] = [
        ("", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        ("00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
        ("10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
        ("2021", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
        ("3031", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
        ("40414243", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
        ("5051525354555657", "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c"),
        (
            "606162636465666768696a6b6c6d6e6f",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ),
    ];

    /// The bytes that a text of hex digits stands for.
    pub(super) fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks_exact(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}
