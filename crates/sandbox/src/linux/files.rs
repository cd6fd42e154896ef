//! Limits files, TCP ports, signals and abstract sockets by Landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;

use crate::SandboxError;
use crate::policy::{NetworkAccess, PathAccess, PathGrant, SandboxPolicy};

/// The newest version whose rights are known here.
const ABI_MAX: u8 = 9;

/// The version that the kernel supports; 0 where there is none. It is asked by making a ruleset that
/// is never enforced.
pub(super) fn supported_abi() -> u8 {
    let supported = |abi: &u8| ruleset(*abi, true).and_then(Ruleset::create).is_ok();
    (1..=ABI_MAX).rev().find(supported).unwrap_or(0)
}

/// What is limited: every right of a version, and with `net` the TCP ports.
fn ruleset(abi: u8, net: bool) -> Result<Ruleset, landlock::RulesetError> {
    let version = ABI::from(i32::from(abi));
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let mut rules = rules.handle_access(AccessFs::from_all(version))?;
    if net && abi >= 4 {
        rules = rules.handle_access(AccessNet::from_all(version))?;
    }
    if abi >= 6 {
        rules = rules.scope(Scope::from_all(version))?;
    }
    Ok(rules)
}

/// Enforces the rules of a policy.
pub(super) fn restrict(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    let failed = |reason: String| SandboxError::Enforcement { what: "Landlock", reason };
    if policy.landlock_abi > ABI_MAX {
        return Err(failed(format!("version {} is not known", policy.landlock_abi)));
    }
    let (abi, net) = (policy.landlock_abi, policy.network != NetworkAccess::All);
    let rules = ruleset(abi, net).and_then(Ruleset::create);
    let rules = rules.map_err(|error| failed(error.to_string()))?;
    let rules = with_paths(rules, policy)?;
    let rules = match &policy.network {
        NetworkAccess::Ports(ports) if abi >= 4 => with_ports(rules, ports)?,
        NetworkAccess::Ports(_) | NetworkAccess::All | NetworkAccess::None => rules,
    };
    let status = rules.restrict_self().map_err(|error| failed(error.to_string()))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(failed("the kernel did not take all rules".to_owned()))
        }
    }
}

fn with_paths(
    mut rules: RulesetCreated,
    policy: &SandboxPolicy,
) -> Result<RulesetCreated, SandboxError> {
    let failed = |reason: String| SandboxError::Enforcement { what: "Landlock", reason };
    let version = ABI::from(i32::from(policy.landlock_abi));
    // The folder of this very process, which will be that of the program.
    let own = open("/proc/self", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    if let Ok(own) = own {
        let rule = PathBeneath::new(own, AccessFs::ReadFile | AccessFs::ReadDir);
        rules = rules.add_rule(rule).map_err(|error| failed(error.to_string()))?;
    }
    for PathGrant { path, access } in &policy.paths {
        // The paths were resolved by the parent. A link that stands there now was put there since,
        // to have something else granted.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let opened = match opened {
            Ok(opened) => opened,
            // What cannot be opened is not granted.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS | Errno::PERM) => {
                continue;
            }
            Err(error) => return Err(failed(format!("{}: {error}", path.display()))),
        };
        let rights = rights(*access, version, &opened)?;
        if rights.is_empty() {
            continue;
        }
        let rule = PathBeneath::new(opened, rights);
        rules = rules.add_rule(rule).map_err(|error| failed(error.to_string()))?;
    }
    Ok(rules)
}

/// The rights that an access means, for a file or a folder.
fn rights(
    access: PathAccess,
    version: ABI,
    opened: &OwnedFd,
) -> Result<BitFlags<AccessFs>, SandboxError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let rights = match access {
        PathAccess::List => AccessFs::ReadDir.into(),
        PathAccess::Read => read,
        PathAccess::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        PathAccess::Write => AccessFs::from_all(version) & !devices,
    };
    let found = fstat(opened).map_err(|error| SandboxError::Enforcement {
        what: "Landlock",
        reason: error.to_string(),
    })?;
    let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let meant = if is_folder { rights } else { rights & AccessFs::from_file(version) };
    Ok(meant & AccessFs::from_all(version))
}

fn with_ports(rules: RulesetCreated, ports: &[u16]) -> Result<RulesetCreated, SandboxError> {
    ports.iter().try_fold(rules, |rules, port| {
        let rule = NetPort::new(*port, AccessNet::ConnectTcp | AccessNet::BindTcp);
        rules.add_rule(rule).map_err(|error| SandboxError::Enforcement {
            what: "the list of ports",
            reason: error.to_string(),
        })
    })
}
