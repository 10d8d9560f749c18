//! TLS, with certificates of callers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::Digest;
use countersign_host::error::HostError;
use countersign_host::files::{read_secret_text, read_trusted_text};
use countersign_host::serve_part::TlsPart;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Whether a client without a certificate may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uncertified {
    /// It may: it has a bearer token.
    Allowed,
    Refused,
}

/// The service's certificate, and the authorities of its callers' certificates.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads certificates and key. TLS 1.3 alone is spoken.
    pub(crate) fn read(part: &TlsPart, uncertified: Uncertified) -> Result<Self, HostError> {
        let chain = certificates(&part.certificate)?;
        let wrong = |path: &Path, text: String| HostError::new("TLS_FILE", text).about(path.display());
        let key = PrivateKeyDer::from_pem_slice(read_secret_text(&part.key)?.as_bytes());
        let key = key.map_err(|_| wrong(&part.key, "no private key in PEM".to_owned()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| wrong(&part.certificate, error.to_string()))?;
        let builder = match &part.client_ca {
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| wrong(path, error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match uncertified {
                    Uncertified::Allowed => verifier.allow_unauthenticated(),
                    Uncertified::Refused => verifier,
                };
                builder.with_client_cert_verifier(
                    verifier.build().map_err(|error| wrong(path, error.to_string()))?,
                )
            }
            None => builder.with_no_client_auth(),
        };
        let config = builder.with_single_cert(chain, key);
        let config = config.map_err(|error| wrong(&part.certificate, error.to_string()))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Makes the handshake. Returns the digest of the client's certificate, if it has one, which an authority signed.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<(TlsStream<TcpStream>, Option<Digest>)> {
        let stream = timeout(HANDSHAKE_TIME, self.0.accept(stream)).await.ok()?.ok()?;
        let certificates = stream.get_ref().1.peer_certificates();
        let digest = certificates.and_then(<[_]>::first).map(|leaf| Digest::of(leaf));
        Some((stream, digest))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HostError> {
    let text = read_trusted_text(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(HostError::new("TLS_FILE", "no certificate in PEM").about(path.display())),
    }
}
