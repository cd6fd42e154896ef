//! Decides whom a server's certificate is checked against: the authorities of the operating system,
//! or a file in their place, and a file beside them. Whoever makes the transport names the files.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, InvalidMessage, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::Origin;
use super::fault::HttpFault;

/// Where operating systems keep the certificates of the authorities they trust.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt", // Debian, Ubuntu, Arch, Alpine, NixOS
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // Fedora, RHEL
    "/etc/pki/tls/certs/ca-bundle.crt",   // older RHEL
    "/etc/ssl/ca-bundle.pem",             // openSUSE
    "/etc/ssl/cert.pem",                  // macOS, the BSDs
];

/// Where certificates of authorities are found.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    /// A file in place of the operating system's.
    pub only: Option<PathBuf>,
    /// A file beside them, such as a company's own authority.
    pub beside: Option<PathBuf>,
}

/// TLS for all connections; the authorities are read when the first one needs them.
pub(super) struct Tls {
    roots: Roots,
    connector: OnceLock<Result<TlsConnector, HttpFault>>,
}

impl Tls {
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, connector: OnceLock::new() }
    }

    /// Speaks TLS over a connection. What fails here is never tried without TLS.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        stream: TcpStream,
        private: bool,
    ) -> Result<TlsStream<TcpStream>, HttpFault> {
        let host = origin.host.as_str();
        let connector = self.connector.get_or_init(|| connector(&self.roots)).clone()?;
        let distrusted = |reason: String| HttpFault::Tls { host: host.to_owned(), reason };
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| distrusted("its name cannot stand in a certificate".to_owned()))?;
        connector.connect(name, stream).await.map_err(|error| {
            if is_no_tls(&error) {
                let how = "answered without TLS";
                return HttpFault::NoTls { host: origin.to_string(), how };
            }
            // Far away it may be trouble on the way; nearby it is somebody who speaks otherwise.
            let hung_up = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
            if private && hung_up.contains(&error.kind()) {
                let how = "closed the connection when it was spoken to in TLS";
                return HttpFault::NoTls { host: origin.to_string(), how };
            }
            distrusted(error.to_string())
        })
    }
}

/// Whether the very first thing the server said is no TLS.
fn is_no_tls(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)))
}

fn connector(roots: &Roots) -> Result<TlsConnector, HttpFault> {
    let unusable = |reason: String| HttpFault::NoRoots { reason };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    let mut config = builder.with_root_certificates(store(roots)?).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn store(roots: &Roots) -> Result<RootCertStore, HttpFault> {
    let mut store = RootCertStore::empty();
    match &roots.only {
        Some(only) => named(&mut store, only)?,
        None => {
            let found = BUNDLES.iter().any(|bundle| add(&mut store, Path::new(bundle)) > 0);
            if !found && roots.beside.is_none() {
                let reason = format!(
                    "none of {} has one. Install the package ca-certificates, \
                     or name a file with SSL_CERT_FILE",
                    BUNDLES.join(", ")
                );
                return Err(HttpFault::NoRoots { reason });
            }
        }
    }
    if let Some(beside) = &roots.beside {
        named(&mut store, beside)?;
    }
    Ok(store)
}

/// Adds the certificates of a file that somebody named, so it must have some.
fn named(store: &mut RootCertStore, path: &Path) -> Result<(), HttpFault> {
    if add(store, path) > 0 {
        return Ok(());
    }
    let reason = format!("{} cannot be read or holds no certificate", path.display());
    Err(HttpFault::NoRoots { reason })
}

/// Adds what a file holds; how many that were.
fn add(store: &mut RootCertStore, path: &Path) -> usize {
    let Ok(certificates) = CertificateDer::pem_file_iter(path) else { return 0 };
    // Operating systems carry a few certificates that cannot be used; they trust nobody then.
    store.add_parsable_certificates(certificates.filter_map(Result::ok)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_empty_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem");
        for text in [None, Some(""), Some("no certificate at all")] {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let roots = Roots { only: Some(file.clone()), beside: None };
            let told = store(&roots).unwrap_err().to_string();
            assert!(told.contains("roots.pem") && told.contains("https"), "{told}");
        }
    }
}
