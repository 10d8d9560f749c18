//! The `[server.remote]` table of a configuration.

use std::path::PathBuf;

use serde::Deserialize;

use crate::time::Span;

/// Settings of a server at a URL: its credential, and where connections may lead.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RemotePart {
    /// File with the bearer token that the server gets. It is read again for each request.
    pub token_file: Option<PathBuf>,
    /// Bearer token in place of such a file. No configuration contains it.
    #[serde(skip)]
    pub token: Option<GivenToken>,
    /// Source of access tokens that the server gets.
    pub oauth: Option<TokenClientPart>,
    /// File with certificates in PEM of authorities that count besides the system's.
    pub ca: Option<PathBuf>,
    /// Addresses and ranges that connections may lead to, besides public ones.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Longest time in which a response may say nothing.
    pub quiet: Option<Span>,
    /// Whether clear text may leave this machine.
    #[serde(default)]
    pub dangerous_plain_http: bool,
}

/// A bearer token. Its `Debug` does not show it.
#[derive(Clone)]
pub struct GivenToken(String);

/// An OAuth 2.1 client of the operator's, with the grant of its own credentials.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenClientPart {
    /// The authorization server's token endpoint, a URL.
    pub token_url: String,
    /// The client's identifier.
    pub client_id: String,
    /// File with the client's secret.
    pub client_secret_file: PathBuf,
    /// Scopes to ask for.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Resource to ask for (RFC 8707); by default the server's URL.
    pub resource: Option<String>,
}

impl GivenToken {
    /// Takes the token's text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The token's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for GivenToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GivenToken(..)")
    }
}

impl RemotePart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let secret = self.oauth.iter_mut().map(|client| &mut client.client_secret_file);
        self.token_file.iter_mut().chain(&mut self.ca).chain(secret)
    }
}
