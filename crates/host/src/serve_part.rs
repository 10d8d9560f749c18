//! The `[serve]` table of a configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use countersign_core::{AgentId, Digest, OperatorId};
use serde::Deserialize;

use crate::time::Span;

/// Settings of the service: where it listens, and who may call it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServePart {
    /// Address to listen on; without it, a loopback address.
    pub listen: Option<SocketAddr>,
    /// Whether the address may be another than a loopback address.
    #[serde(default)]
    pub dangerous_listen_anywhere: bool,
    /// Names by which clients may address the service, besides loopback addresses and `localhost`.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// File with the bearer tokens of callers.
    pub token_file: Option<PathBuf>,
    /// TLS on the address.
    pub tls: Option<TlsPart>,
    /// File with the people who may log in to the page.
    pub users_file: Option<PathBuf>,
    /// Unix socket to listen on.
    pub socket: Option<PathBuf>,
    /// Users that may call over the Unix socket, besides the one that runs the service.
    #[serde(default)]
    pub peers: Vec<PeerPart>,
    /// Greatest number of sessions at a time.
    pub sessions: Option<usize>,
    /// Time without a request after which a session is ended.
    pub idle: Option<Span>,
    /// Issuer of access tokens for the MCP endpoint.
    pub oauth: Option<OauthPart>,
}

/// An OAuth 2.1 authorization server whose access tokens count at the MCP endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OauthPart {
    /// The authorization server's issuer identifier, a URL.
    pub issuer: String,
    /// The endpoint's URL as clients know it: the audience of every token.
    pub resource: String,
    /// File with the issuer's public keys, a JWK set.
    pub jwks_file: Option<PathBuf>,
    /// URL of the issuer's public keys, in place of a file.
    pub jwks_url: Option<String>,
    /// Scopes that a token needs.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Certificates of the service and of its callers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsPart {
    /// The service's certificate and those up to its authority, in PEM.
    pub certificate: PathBuf,
    /// The certificate's private key, in PEM.
    pub key: PathBuf,
    /// Authorities that sign certificates of callers, in PEM.
    pub client_ca: Option<PathBuf>,
    /// Callers that are known by their certificate.
    #[serde(default)]
    pub clients: Vec<ClientPart>,
}

/// A caller that is known by its certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientPart {
    /// SHA-256 of the certificate in DER.
    pub sha256: Digest,
    /// The caller's name. It is recorded as the approver of its answers.
    pub name: OperatorId,
    /// Duties of the caller.
    pub may: Vec<Duty>,
    /// Agents for which it may open sessions; without them, the configuration's agent.
    pub agents: Option<Vec<AgentId>>,
    /// Whether it may name any principal; otherwise sessions are on behalf of the configuration's.
    #[serde(default)]
    pub any_principal: bool,
}

/// A user of the system that may call over the Unix socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PeerPart {
    /// The user's number.
    pub uid: u32,
    /// The caller's name. It is recorded as the approver of its answers.
    pub name: OperatorId,
    /// Duties of the caller.
    pub may: Vec<Duty>,
    /// Agents for which it may open sessions; without them, the configuration's agent.
    pub agents: Option<Vec<AgentId>>,
    /// Whether it may name any principal; otherwise sessions are on behalf of the configuration's.
    #[serde(default)]
    pub any_principal: bool,
}

/// Duty of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a new duty has to break every match")]
pub enum Duty {
    /// Open sessions, have calls decided and report outcomes.
    Check,
    /// Read and answer questions.
    Answer,
    /// Read questions, the registry's state, receipts and metrics.
    Read,
}

impl ServePart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let tls = self
            .tls
            .iter_mut()
            .flat_map(|tls| [&mut tls.certificate, &mut tls.key].into_iter().chain(&mut tls.client_ca));
        let files = self.token_file.iter_mut().chain(&mut self.users_file);
        let keys = self.oauth.iter_mut().flat_map(|oauth| &mut oauth.jwks_file);
        files.chain(&mut self.socket).chain(tls).chain(keys)
    }
}
