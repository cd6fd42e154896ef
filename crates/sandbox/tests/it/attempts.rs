//! What the hostile program tries, one word each. It prints a line for each attempt.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sched::CloneFlags;
use nix::unistd::Pid;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket, socketpair};

/// The first argument of the hostile program.
pub(crate) const ATTEMPT: &str = "--attempt";
/// An attempt that makes all others in a process that nothing ties to this one.
pub(crate) const DETACHED: &str = "detached";

/// Makes each attempt and prints what came of it.
pub(crate) fn run(attempts: &[String]) -> ExitCode {
    if let Some((DETACHED, rest)) = attempts.split_first().map(|(word, rest)| (word.as_str(), rest))
    {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg(ATTEMPT)
            .args(rest)
            .env_clear()
            .process_group(0)
            .stdin(Stdio::null())
            .spawn();
        return match child.and_then(|mut child| child.wait()) {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) | Err(_) => ExitCode::FAILURE,
        };
    }
    for attempt in attempts {
        let (verb, what) = attempt.split_once(' ').unwrap_or((attempt, ""));
        match tried(verb, what) {
            Ok(()) => println!("{attempt}: done"),
            Err(error) => println!("{attempt}: refused ({error})"),
        }
    }
    ExitCode::SUCCESS
}

fn tried(verb: &str, what: &str) -> Result<(), Error> {
    let path = Path::new(what);
    match verb {
        "read" => fs::File::open(path)?.read_exact(&mut [0; 1]),
        "list" => fs::read_dir(path)?.next().transpose().map(drop),
        "write" => OpenOptions::new().append(true).open(path)?.write_all(b"x"),
        "empty" => OpenOptions::new().write(true).truncate(true).open(path).map(drop),
        "create" => OpenOptions::new().write(true).create_new(true).open(path).map(drop),
        "remove" => fs::remove_file(path),
        "rename" => fs::rename(path, path.with_extension("moved")),
        "link" => {
            let name = Path::new(&own_folder()).join("hard");
            let _ = fs::remove_file(&name);
            fs::hard_link(path, &name)?;
            tried("read", &name.display().to_string())
        }
        "follow" => {
            let name = Path::new(&own_folder()).join("soft");
            let _ = fs::remove_file(&name);
            std::os::unix::fs::symlink(path, &name)?;
            tried("read", &name.display().to_string())
        }
        "execute" => {
            let ran = Command::new(path).stdin(Stdio::null()).output()?;
            if ran.status.success() { Ok(()) } else { Err(ErrorKind::Other.into()) }
        }
        "signal" => nix::sys::signal::kill(process(what), None).map_err(Error::from),
        "limit" => {
            // What it has already, so that nothing is changed where this is not refused.
            let pid = rustix::process::Pid::from_raw(process(what).as_raw());
            let cpu = rustix::process::Resource::Cpu;
            let own = rustix::process::getrlimit(cpu);
            rustix::process::prlimit(pid, cpu, own).map(drop).map_err(Error::from)
        }
        "trace" => nix::sys::ptrace::attach(process(what)).map_err(Error::from),
        "mount" => nix::mount::mount(
            Some("none"),
            &*own_folder(),
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        )
        .map_err(Error::from),
        "namespace" => nix::sched::unshare(CloneFlags::CLONE_NEWUSER).map_err(Error::from),
        "unix" => UnixStream::connect(path).map(drop),
        "abstract" => UnixStream::connect_addr(&SocketAddr::from_abstract_name(what)?).map(drop),
        "pair" => {
            let kind = if what == "datagram" { SocketType::DGRAM } else { SocketType::STREAM };
            let pair = socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None);
            pair.map(drop).map_err(Error::from)
        }
        "family" => {
            let family = AddressFamily::from_raw(what.parse().unwrap());
            let made = socket(family, SocketType::DGRAM, None);
            made.map(drop).map_err(Error::from)
        }
        "tcp" => TcpStream::connect(("127.0.0.1", what.parse().unwrap())).map(drop),
        "udp" => {
            UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", format!("127.0.0.1:{what}")).map(drop)
        }
        "capability" => capability(what),
        "terminal" => match rustix::stdio::stdin() {
            stdin if std::io::IsTerminal::is_terminal(&stdin) => Ok(()),
            _ => Err(ErrorKind::NotFound.into()),
        },
        "descriptors" => {
            let open = fs::read_dir("/proc/self/fd")?.flatten();
            let open: Vec<String> =
                open.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            // The listing itself is one.
            if open.len() > 4 { Ok(()) } else { Err(Error::other(open.join(" "))) }
        }
        other => panic!("{other}"),
    }
}

fn process(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap())
}

/// The private folder; the detached child has no environment and finds it by its only grant.
fn own_folder() -> String {
    std::env::var("HOME").unwrap_or_else(|_| {
        std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default()
    })
}

/// Whether this process may do what only this capability allows.
fn capability(name: &str) -> Result<(), Error> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let bits = u64::from_str_radix(line.unwrap_or("0").trim(), 16).map_err(Error::other)?;
    let number = match name {
        "sys_ptrace" => 19,
        "sys_admin" => 21,
        "perfmon" => 38,
        other => panic!("{other}"),
    };
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective =
        u64::from_str_radix(effective.unwrap_or("0").trim(), 16).map_err(Error::other)?;
    let held = (bits & effective) >> number & 1 == 1;
    if held { Ok(()) } else { Err(ErrorKind::PermissionDenied.into()) }
}
