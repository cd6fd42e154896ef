//! Refuses system calls that lead around the other rules.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::SandboxError;
use crate::policy::{NetworkAccess, SandboxPolicy};

/// Where the kernel lists what a filter can do.
const ACTIONS: &str = "/proc/sys/kernel/seccomp/actions_avail";

/// Refused as not permitted: other processes, keys, file systems, the kernel itself.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_move_pages,
    // Memory and queues that any program of the user can open.
    libc::SYS_msgget,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_semget,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_shmat,
    libc::SYS_shmget,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Refused as if the kernel did not have them, so that programs fall back to what can be judged:
/// rings make any call unseen, and the flags of `clone3` lie in memory that no filter reads.
const UNKNOWN: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
];

/// Types into a terminal as if a person had.
const TIOCSTI: u64 = 0x5412;
/// Pastes into a console.
const TIOCLINUX: u64 = 0x541c;

/// Lets everyone run a program as its owner.
const SET_USER_ID: c_int = 0o4000;

/// The bits of a socket's type that are not flags.
const TYPE_MASK: u64 = 0xf;

type CallRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whether the kernel filters system calls, and the filter is known for this processor.
pub(super) fn is_supported() -> bool {
    let has_errno = |actions: String| actions.split_whitespace().any(|action| action == "errno");
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
        && std::fs::read_to_string(ACTIONS).is_ok_and(has_errno)
}

/// Enforces the filters of a policy. A call of another architecture ends the program.
pub(super) fn restrict(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    let failed = |reason: String| SandboxError::Enforcement { what: "the call filter", reason };
    let forbidden = forbidden(policy).map_err(|error| failed(error.to_string()))?;
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    for (rules, errno) in [(unknown, libc::ENOSYS), (forbidden, libc::EPERM)] {
        let filter = compiled(rules, errno).map_err(|error| failed(error.to_string()))?;
        apply_filter(&filter).map_err(|error| failed(error.to_string()))?;
    }
    if cfg!(target_arch = "x86_64") {
        apply_filter(&no_x32()).map_err(|error| failed(error.to_string()))?;
    }
    Ok(())
}

fn compiled(rules: CallRules, errno: c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    let errno = u32::try_from(errno).unwrap_or(1);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno);
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Refuses the calls of x32, which have other numbers on the same architecture.
fn no_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    const REFUSE: u32 = 0x0005_0000 | libc::ENOSYS as u32;
    const ALLOW: u32 = 0x7fff_0000;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    vec![
        // Load the number of the call; compare; return.
        step(0x20, 0, 0, 0),
        step(0x35, 0, 1, X32_BIT),
        step(0x06, 0, 0, REFUSE),
        step(0x06, 0, 0, ALLOW),
    ]
}

fn forbidden(policy: &SandboxPolicy) -> Result<CallRules, seccompiler::BackendError> {
    let mut rules: CallRules = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    let terminal =
        [TIOCSTI, TIOCLINUX].map(|request| all_of([argument(1, SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<Result<_, _>>()?);
    let new_user = flag(0, libc::CLONE_NEWUSER);
    rules.insert(libc::SYS_clone, vec![all_of([new_user])?]);
    // A limit on processor time of another process ends it like a signal.
    let of_others = |place| all_of([argument(place, SeccompCmpOp::Ne, 0)]);
    rules.insert(libc::SYS_prlimit64, vec![of_others(0)?]);
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        rules.insert(call, vec![of_others(1)?]);
    }
    for (call, place) in set_user_id() {
        rules.insert(call, vec![all_of([flag(place, SET_USER_ID)])?]);
    }
    sockets(policy, &mut rules)?;
    pairs(policy, &mut rules)?;
    Ok(rules)
}

/// The calls that change the mode of a file, with the place of the mode.
fn set_user_id() -> Vec<(c_long, u8)> {
    let mut calls = vec![(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2)];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_chmod, 1));
    calls
}

/// Which kinds of sockets can be made.
fn sockets(policy: &SandboxPolicy, rules: &mut CallRules) -> Result<(), seccompiler::BackendError> {
    let network: &[c_int] = match policy.network {
        NetworkAccess::None => &[],
        // Names are looked up with the help of AF_NETLINK.
        NetworkAccess::All | NetworkAccess::Ports(_) => {
            &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        }
    };
    let unix = policy.unix_sockets.then_some(libc::AF_UNIX);
    let allowed: Vec<c_int> = network.iter().copied().chain(unix).collect();
    if allowed.is_empty() {
        rules.insert(libc::SYS_socket, Vec::new());
        return Ok(());
    }
    let others = allowed.iter().map(|family| argument(0, SeccompCmpOp::Ne, number(*family)));
    let mut refused = vec![all_of(others)?];
    if matches!(policy.network, NetworkAccess::Ports(_)) {
        only_tcp_and_udp(&mut refused, rules)?;
    }
    rules.insert(libc::SYS_socket, refused);
    Ok(())
}

/// Landlock limits the ports of plain TCP alone: other protocols, and data that travels with the
/// first packet, would pass it by.
fn only_tcp_and_udp(
    refused: &mut Vec<SeccompRule>,
    rules: &mut CallRules,
) -> Result<(), seccompiler::BackendError> {
    for family in [libc::AF_INET, libc::AF_INET6] {
        let of_family = || argument(0, SeccompCmpOp::Eq, number(family));
        let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
        let others = protocols.map(|known| argument(2, SeccompCmpOp::Ne, number(known)));
        refused.push(all_of(others.into_iter().chain([of_family()]))?);
        for kind in [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP] {
            refused.push(all_of([of_family(), kind_of_socket(1, kind)])?);
        }
    }
    for (call, place) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![all_of([flag(place, libc::MSG_FASTOPEN)])?]);
    }
    Ok(())
}

/// Pairs connect a program with what it starts. One for datagrams can be sent anywhere.
fn pairs(policy: &SandboxPolicy, rules: &mut CallRules) -> Result<(), seccompiler::BackendError> {
    let mut refused = vec![all_of([argument(0, SeccompCmpOp::Ne, number(libc::AF_UNIX))])?];
    if !policy.unix_sockets {
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            refused.push(all_of([kind_of_socket(1, kind)])?);
        }
    }
    rules.insert(libc::SYS_socketpair, refused);
    Ok(())
}

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

/// The kernel takes these arguments as 32 bits, so only those are compared.
fn argument(place: u8, compare: SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, compare, value)
}

fn kind_of_socket(place: u8, kind: c_int) -> Condition {
    argument(place, SeccompCmpOp::MaskedEq(TYPE_MASK), number(kind))
}

fn flag(place: u8, bit: c_int) -> Condition {
    argument(place, SeccompCmpOp::MaskedEq(number(bit)), number(bit))
}

fn all_of(
    conditions: impl IntoIterator<Item = Condition>,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

fn number(value: c_int) -> u64 {
    u64::from(value.unsigned_abs())
}
