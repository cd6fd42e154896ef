//! Bugs that are put in on purpose, to see that the suite would catch them. Never in a build
//! that is shipped: without the feature `seeded-bugs` every question here is answered "no".

/// A mistake that a runtime like this one must not make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Something is called done before it is durable.
    AckBeforeCommit,
    /// The world is reached without a durable intent.
    NoIntent,
    /// A call that may have reached the world is made again.
    BlindRetry,
    /// Session and project are changed in two appends.
    SplitTransaction,
    /// A policy that cannot answer allows.
    AllowOnPolicyError,
    /// A hidden tool is not listed and can be called.
    ListOnlyVisibility,
    /// A head is remembered outside the project before it is durable.
    AnchorBeforeCommit,
    /// What is remembered of a log is not compared with it.
    AnchorNotCompared,
    /// A record that says that a call was approved is taken at its word.
    BasisNotResolved,
    /// A person's signature is not checked.
    SignatureSkipped,
    /// What a revoked key signs counts.
    RevokedKeyCounts,
    /// A client's user answers without a delegation.
    ClientUserWithoutDelegation,
    /// A definition that is said to be the first one replaces the accepted one.
    FirstSeenMovesPin,
    /// An allowance covers another rule of the same name.
    AllowanceByName,
    /// A fork does not know what the session before it read.
    TaintLostAtFork,
    /// A kept fold is used though it lets calls run because a person said so.
    CheckpointCarriesAuthority,
    /// A configuration that nobody trusts starts programs.
    UntrustedConfigStarts,
    /// The digests of a configuration leave out which servers it starts and connects to.
    DigestWithoutServers,
    /// A session goes on though the project is not the one that it saw.
    SawNotCompared,
    /// The program of a server is granted the folder of the keys.
    KeyFolderGranted,
}

impl Bug {
    /// Every one of them.
    pub const ALL: [Self; 20] = [
        Self::AckBeforeCommit,
        Self::NoIntent,
        Self::BlindRetry,
        Self::SplitTransaction,
        Self::AllowOnPolicyError,
        Self::ListOnlyVisibility,
        Self::AnchorBeforeCommit,
        Self::AnchorNotCompared,
        Self::BasisNotResolved,
        Self::SignatureSkipped,
        Self::RevokedKeyCounts,
        Self::ClientUserWithoutDelegation,
        Self::FirstSeenMovesPin,
        Self::AllowanceByName,
        Self::TaintLostAtFork,
        Self::CheckpointCarriesAuthority,
        Self::UntrustedConfigStarts,
        Self::DigestWithoutServers,
        Self::SawNotCompared,
        Self::KeyFolderGranted,
    ];
}

#[cfg(feature = "seeded-bugs")]
mod chosen {
    use std::sync::{Mutex, PoisonError};

    use super::Bug;

    static CHOSEN: Mutex<Option<Bug>> = Mutex::new(None);

    /// Puts a bug in, or takes it out.
    pub fn seed(bug: Option<Bug>) {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = bug;
    }

    /// Whether this bug is in.
    pub fn seeded(bug: Bug) -> bool {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) == Some(bug)
    }
}

#[cfg(feature = "seeded-bugs")]
pub use chosen::{seed, seeded};

/// Whether this bug is in: it is not.
#[cfg(not(feature = "seeded-bugs"))]
pub const fn seeded(_: Bug) -> bool {
    false
}
