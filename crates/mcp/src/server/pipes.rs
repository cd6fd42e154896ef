//! Decides how the input and the output that this process was started with are waited for: pipes as
//! connections are, and anything else by a thread that blocks.

use tokio::io::{AsyncRead, AsyncWrite, BufReader, stdin, stdout};
use tokio::net::unix::pipe::OpenOptions;

/// Bytes that are read at once: as many as a pipe holds.
const BUFFER_BYTES: usize = 64 << 10;

/// Where the system shows what this process was started with. What is opened there is the same pipe
/// once more, and ours alone: that it does not block is nothing that others who hold it would notice.
const INPUT: &str = "/proc/self/fd/0";
const OUTPUT: &str = "/proc/self/fd/1";

/// What this process is told.
pub fn input() -> BufReader<Box<dyn AsyncRead + Send + Unpin>> {
    let pipe = if is_pipe(INPUT) { OpenOptions::new().open_receiver(INPUT).ok() } else { None };
    let input: Box<dyn AsyncRead + Send + Unpin> = match pipe {
        Some(pipe) => Box::new(pipe),
        None => Box::new(stdin()),
    };
    BufReader::with_capacity(BUFFER_BYTES, input)
}

/// What it says.
pub fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe = if is_pipe(OUTPUT) { OpenOptions::new().open_sender(OUTPUT).ok() } else { None };
    match pipe {
        Some(pipe) => Box::new(pipe),
        None => Box::new(stdout()),
    }
}

/// Whether this is a pipe without a name. Nothing else is opened: a terminal could become this
/// process's own, and of a named pipe that is opened again the end may never be heard.
fn is_pipe(path: &str) -> bool {
    let named = std::fs::read_link(path);
    named.is_ok_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"pipe:["))
}
