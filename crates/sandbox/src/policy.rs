//! Defines what the starter is told to enforce, and how it travels as one argument.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// Bytes of a policy. The kernel takes at most 128 KiB for one argument.
const POLICY_BYTES_MAX: usize = 120 << 10;

/// What the starter enforces before it becomes the program. It names no secret: arguments can be
/// read by other users while the starter runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPolicy {
    /// The version of Landlock to enforce; 0 for none. The starter fails where the kernel has less.
    pub landlock_abi: u8,
    /// Whether system calls are filtered. The starter fails where the kernel cannot.
    pub filter_calls: bool,
    /// Whether capabilities are dropped.
    pub drop_privileges: bool,
    /// Everything that may be opened. The paths are absolute and have no symbolic links.
    pub paths: Vec<PathGrant>,
    /// What it may connect to.
    pub network: NetworkAccess,
    /// Whether it may use Unix sockets.
    pub unix_sockets: bool,
    /// Folders that are made once the rules are in force, so that links in them lead nowhere else.
    pub create_folders: Vec<PathBuf>,
}

/// One path and what may be done with it and everything beneath it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathGrant {
    /// The path.
    pub path: PathBuf,
    /// What may be done.
    pub access: PathAccess,
}

/// What may be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathAccess {
    /// The names in it may be listed.
    List,
    /// It may be read and executed.
    Read,
    /// A device that may be read and written.
    Device,
    /// It may be read, executed, changed and removed.
    Write,
}

/// What a program may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Everything.
    #[default]
    All,
    /// Nothing.
    None,
    /// These TCP ports, wherever they are. UDP is not limited by port.
    Ports(Vec<u16>),
}

impl SandboxPolicy {
    /// The policy as one argument.
    pub(crate) fn to_argument(&self) -> Result<String, SandboxError> {
        let text =
            serde_json::to_string(self).map_err(|error| SandboxError::Policy(error.to_string()))?;
        if text.len() > POLICY_BYTES_MAX {
            return Err(SandboxError::TooManyPaths { paths: self.paths.len() });
        }
        Ok(text)
    }

    /// The policy that an argument holds.
    pub(crate) fn from_argument(text: &str) -> Result<Self, SandboxError> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(SandboxError::Policy("it is too long".to_owned()));
        }
        serde_json::from_str(text).map_err(|error| SandboxError::Policy(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_survives_the_way_to_the_starter() {
        let policy = SandboxPolicy {
            landlock_abi: 6,
            filter_calls: true,
            paths: vec![PathGrant { path: "/usr".into(), access: PathAccess::Read }],
            network: NetworkAccess::Ports(vec![443]),
            ..SandboxPolicy::default()
        };
        let argument = policy.to_argument().unwrap();
        assert_eq!(SandboxPolicy::from_argument(&argument).unwrap(), policy);
    }

    #[test]
    fn what_is_not_exactly_a_policy_is_refused() {
        let good = SandboxPolicy::default().to_argument().unwrap();
        let more = good.replacen('{', "{\"mode\":\"off\",", 1);
        for text in ["", "{}", "null", "[]", "off", &good[1..], &more] {
            assert!(SandboxPolicy::from_argument(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_that_no_argument_can_hold_is_refused() {
        let grant = PathGrant { path: "/a".repeat(500).into(), access: PathAccess::Read };
        let policy = SandboxPolicy { paths: vec![grant; 200], ..SandboxPolicy::default() };
        let refused = policy.to_argument().unwrap_err();
        assert!(refused.to_string().contains("200 paths"), "{refused}");
    }
}
