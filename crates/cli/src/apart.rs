//! Decides how the program of an MCP server is kept from the terminal: it begins in a session of its
//! own, so that it cannot type there in the person's place.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use toolgate_mcp::client::APART;

use crate::console;

/// What a shell reports for a program that could not be started.
const NOT_STARTED: u8 = 127;

/// What starts a program apart: this one. Without it no program is started.
pub(crate) fn starter() -> Result<PathBuf> {
    // This leads here also when the file was replaced meanwhile.
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() {
        return Ok(own);
    }
    std::env::current_exe().context("toolgate cannot start programs apart from your terminal")
}

/// Becomes another program, when that is what this one was started for. Comes back only when it
/// cannot.
pub(crate) fn become_program() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != APART {
        return None;
    }
    let program = args.next()?;
    let failed = match rustix::process::setsid() {
        Ok(_) => Command::new(&program).args(args).exec().kind(),
        Err(error) => error.kind(),
    };
    console::hint(&format!("error: the program did not start: {failed}"));
    Some(ExitCode::from(NOT_STARTED))
}
