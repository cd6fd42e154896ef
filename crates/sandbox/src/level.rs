//! Finds out what the running kernel can enforce, and says how isolated a program is.

use std::fmt;

use crate::policy::NetworkAccess;

/// What the running kernel can enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelSupport {
    /// The version of Landlock; 0 where there is none.
    pub landlock_abi: u8,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
}

/// How isolated a program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Everything that was asked for is enforced.
    Full,
    /// Files are isolated, and this is missing.
    Partial(Vec<IsolationGap>),
    /// Files are not isolated, for this reason. The program can read what its user can read.
    None(String),
}

/// What a partly isolated program can do nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationGap {
    /// The configuration allows Unix sockets, and the kernel cannot limit them by path.
    UnixSocketsAllowed,
    /// System calls are not filtered.
    CallsNotFiltered,
    /// TCP ports are not limited.
    PortsNotLimited,
    /// Files that may be read can be emptied.
    FilesCanBeEmptied,
    /// Devices can be controlled.
    DevicesNotLimited,
    /// Signals reach other programs of the user.
    SignalsNotLimited,
}

impl KernelSupport {
    /// Asks the kernel. Nothing is restricted by asking.
    #[cfg(target_os = "linux")]
    pub fn probe() -> Self {
        crate::linux::probe()
    }

    /// No other system is supported yet.
    #[cfg(not(target_os = "linux"))]
    pub fn probe() -> Self {
        Self::default()
    }

    /// How isolated a program is here that asks for this.
    pub fn level(self, network: &NetworkAccess, unix_sockets: bool) -> IsolationLevel {
        if self.landlock_abi == 0 {
            return IsolationLevel::None(self.why_none().to_owned());
        }
        let ports = matches!(network, NetworkAccess::Ports(_));
        let gaps = [
            // Version 9 limits sockets to the paths that may be written.
            (unix_sockets && self.landlock_abi < 9, IsolationGap::UnixSocketsAllowed),
            (!self.seccomp, IsolationGap::CallsNotFiltered),
            (ports && self.landlock_abi < 4, IsolationGap::PortsNotLimited),
            (self.landlock_abi < 3, IsolationGap::FilesCanBeEmptied),
            (self.landlock_abi < 5, IsolationGap::DevicesNotLimited),
            (self.landlock_abi < 6, IsolationGap::SignalsNotLimited),
        ];
        let gaps: Vec<_> = gaps.into_iter().filter(|(open, _)| *open).map(|(_, gap)| gap).collect();
        if gaps.is_empty() { IsolationLevel::Full } else { IsolationLevel::Partial(gaps) }
    }

    fn why_none(self) -> &'static str {
        if cfg!(target_os = "linux") {
            "this kernel has no Landlock, or does not let it be used"
        } else {
            "programs can be isolated on Linux only"
        }
    }
}

impl IsolationLevel {
    /// What the system lacks, for a configuration that demands isolation. What the configuration
    /// itself allows is no lack.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::None(why) => Some(why.clone()),
            Self::Partial(gaps) => {
                let gaps = gaps.iter().filter(|gap| **gap != IsolationGap::UnixSocketsAllowed);
                let gaps: Vec<String> = gaps.map(ToString::to_string).collect();
                (!gaps.is_empty()).then(|| gaps.join(", "))
            }
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => out.write_str("full"),
            Self::None(why) => write!(out, "none: {why}"),
            Self::Partial(gaps) => {
                out.write_str("partial: ")?;
                for (at, gap) in gaps.iter().enumerate() {
                    write!(out, "{}{gap}", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for IsolationGap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::UnixSocketsAllowed => "Unix sockets of other programs can be used",
            Self::CallsNotFiltered => "system calls are not filtered",
            Self::PortsNotLimited => "TCP ports are not limited",
            Self::FilesCanBeEmptied => "readable files can be emptied",
            Self::DevicesNotLimited => "devices can be controlled",
            Self::SignalsNotLimited => "signals reach other programs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_names_what_the_kernel_lacks() {
        let (all, ports) = (NetworkAccess::All, NetworkAccess::Ports(vec![443]));
        let here = |landlock_abi, seccomp| KernelSupport { landlock_abi, seccomp };
        for (support, network, sockets, level, missing) in [
            (here(6, true), &all, false, "full", false),
            (here(6, true), &ports, false, "full", false),
            (here(9, true), &all, true, "full", false),
            (here(6, true), &all, true, "partial: Unix sockets", false),
            (here(5, true), &all, false, "partial: signals reach", true),
            (here(3, true), &ports, false, "partial: TCP ports are not limited, devices", true),
            (here(6, false), &all, false, "partial: system calls are not filtered", true),
            (here(0, true), &all, false, "none: ", true),
        ] {
            let found = support.level(network, sockets);
            assert!(found.to_string().starts_with(level), "{support:?}: {found}");
            assert_eq!(found.missing().is_some(), missing, "{support:?}: {found}");
        }
    }
}
