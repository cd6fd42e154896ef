//! Decides how the input and the output that this process was started with are waited for: pipes, and
//! what was handed over so that it does not block, as connections are; anything else by a thread that
//! blocks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{OFlags, fcntl_getfl};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, Interest, ReadBuf, stdin, stdout};
use tokio::net::unix::pipe::{OpenOptions, Receiver, Sender};

/// Bytes that are read at once: as many as a pipe holds.
const BUFFER_BYTES: usize = 64 << 10;

/// Where the system shows what this process was started with. What is opened there is the same pipe
/// once more, and ours alone: that it does not block is nothing that others who hold it would notice.
const INPUT: &str = "/proc/self/fd/0";
const OUTPUT: &str = "/proc/self/fd/1";

/// What this process is told. It ends with the client, who may have left without closing this: then
/// nobody reads any more what is said.
pub fn input() -> BufReader<Box<dyn AsyncRead + Send + Unpin>> {
    let pipe = if is_pipe(OUTPUT) { OpenOptions::new().open_sender(OUTPUT).ok() } else { None };
    let input = told();
    let input = match pipe {
        Some(pipe) => Box::new(WhileRead { input, unread: Box::pin(unread(pipe)) }),
        None => input,
    };
    BufReader::with_capacity(BUFFER_BYTES, input)
}

/// Waits until nobody is there any more to read from a pipe.
async fn unread(pipe: Sender) {
    if pipe.ready(Interest::ERROR).await.is_err() {
        // Writing tells, then.
        std::future::pending().await
    }
}

/// An input that ends when nobody reads the output.
struct WhileRead {
    input: Box<dyn AsyncRead + Send + Unpin>,
    unread: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl AsyncRead for WhileRead {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What came before is heard first.
        match Pin::new(&mut self.input).poll_read(cx, buffer) {
            Poll::Pending => self.unread.as_mut().poll(cx).map(Ok),
            read @ Poll::Ready(_) => read,
        }
    }
}

fn told() -> Box<dyn AsyncRead + Send + Unpin> {
    let pipe = if is_pipe(INPUT) { OpenOptions::new().open_receiver(INPUT).ok() } else { None };
    let handed = || Receiver::from_owned_fd_unchecked(unblocking(io::stdin().as_fd())?).ok();
    match pipe.or_else(handed) {
        Some(input) => Box::new(input),
        None => Box::new(stdin()),
    }
}

/// What it says.
pub fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    let pipe = if is_pipe(OUTPUT) { OpenOptions::new().open_sender(OUTPUT).ok() } else { None };
    let handed = || Sender::from_owned_fd_unchecked(unblocking(io::stdout().as_fd())?).ok();
    match pipe.or_else(handed) {
        Some(output) => Box::new(output),
        None => Box::new(stdout()),
    }
}

/// Whether this is a pipe without a name. Nothing else is opened: a terminal could become this
/// process's own, and of a named pipe that is opened again the end may never be heard.
fn is_pipe(path: &str) -> bool {
    let named = std::fs::read_link(path);
    named.is_ok_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"pipe:["))
}

/// A socket or a terminal that was handed over so that it does not block; nothing where it blocks. It
/// stays as it is, because others may hold it too.
fn unblocking(handed: BorrowedFd<'_>) -> Option<OwnedFd> {
    fcntl_getfl(handed).ok().filter(|flags| flags.contains(OFlags::NONBLOCK))?;
    handed.try_clone_to_owned().ok()
}
