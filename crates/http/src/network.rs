//! Decides how names become addresses and addresses connections: as the operating system does it. A
//! test may put a network of its own in its place; which addresses may be reached is decided on
//! every answer, whoever gave it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::TcpStream;

/// Something of a network that is waited for.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Where names are looked up and connections are made.
pub trait Network: Send + Sync {
    /// The addresses of a name. It is asked once per connection, and never for an address.
    fn look_up<'a>(&'a self, host: &'a str, port: u16) -> Waiting<'a, Vec<SocketAddr>>;

    /// A connection to an address that was looked at before.
    fn connect(&self, address: SocketAddr) -> Waiting<'_, TcpStream>;
}

/// The network of the operating system.
pub(super) struct System;

impl Network for System {
    fn look_up<'a>(&'a self, host: &'a str, port: u16) -> Waiting<'a, Vec<SocketAddr>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
    }

    fn connect(&self, address: SocketAddr) -> Waiting<'_, TcpStream> {
        Box::pin(TcpStream::connect(address))
    }
}
