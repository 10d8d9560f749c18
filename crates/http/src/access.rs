//! Callers: who they are by their credential, and what they may do.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use countersign_core::{AgentId, Digest, OperatorId};
use countersign_host::error::HostError;
use countersign_host::files::read_secret_text;
use countersign_host::serve_part::{ClientPart, Duty, PeerPart, ServePart};
use serde::Deserialize;

use crate::problem::Problem;

/// Fewest characters of a bearer token: 192 random bits in base64.
const MIN_TOKEN: usize = 32;
/// Greatest number of callers.
const MAX_CALLERS: usize = 1_024;

/// A caller whose credential was verified.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) name: OperatorId,
    duties: BTreeSet<Duty>,
    agents: Option<Vec<AgentId>>,
    pub(crate) any_principal: bool,
    /// Whether an authorization server named it, and not the operator.
    is_of_token: bool,
}

/// The owner of sessions. A caller that an authorization server names is another one than the operator's of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner(bool, OperatorId);

impl Caller {
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.is_of_token, self.name.clone())
    }

    /// Returns the caller of an access token, who may have calls decided.
    pub(crate) fn of_token(name: OperatorId) -> Self {
        let duties = BTreeSet::from([Duty::Check]);
        Self { name, duties, agents: None, any_principal: false, is_of_token: true }
    }

    /// Checks that the caller has one of these duties.
    pub(crate) fn require(&self, one_of: &[Duty]) -> Result<(), Problem> {
        if one_of.iter().any(|duty| self.duties.contains(duty)) {
            return Ok(());
        }
        let text = "this caller lacks the duty that the request needs";
        Err(Problem::new(StatusCode::FORBIDDEN, "CALLER_NOT_ALLOWED", text))
    }

    pub(crate) fn may(&self, duty: Duty) -> bool {
        self.duties.contains(&duty)
    }

    /// Returns the agent of the caller's sessions where no message names one: the configuration's, if the caller may open its
    /// sessions, and otherwise the first of its own.
    pub(crate) fn agent<'a>(&'a self, own: &'a AgentId) -> &'a AgentId {
        self.agents.as_deref().filter(|agents| !agents.contains(own)).and_then(<[_]>::first).unwrap_or(own)
    }

    /// Returns whether the caller may open sessions of this agent. `own` is the configuration's.
    pub(crate) fn may_open(&self, agent: &AgentId, own: &AgentId) -> bool {
        self.agents.as_ref().map_or_else(|| agent == own, |agents| agents.contains(agent))
    }
}

/// All callers that the operator named.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    /// Digests of the tokens. They are compared in constant time.
    tokens: Vec<(Digest, Arc<Caller>)>,
    peers: Vec<(u32, Arc<Caller>)>,
    /// By the digest of their certificate.
    clients: Vec<(Digest, Arc<Caller>)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<TokenPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenPart {
    token: String,
    name: OperatorId,
    may: Vec<Duty>,
    agents: Option<Vec<AgentId>>,
    #[serde(default)]
    any_principal: bool,
}

impl Callers {
    /// Reads the token file and the peers of the configuration. The user that runs the service may have calls decided, and
    /// read, unless it is listed.
    pub(crate) fn read(part: &ServePart) -> Result<Self, HostError> {
        let mut callers = Self::default();
        if let Some(path) = &part.token_file {
            callers.read_tokens(path).map_err(|error| error.about(path.display()))?;
        }
        for PeerPart { uid, name, may, agents, any_principal, .. } in part.peers.iter().cloned() {
            if callers.peers.iter().any(|(other, _)| *other == uid) {
                return Err(HostError::new("CALLER_REPEATED", "`peers` of `serve` names a user twice"));
            }
            callers.peers.push((uid, caller(name, may, agents, any_principal)?));
        }
        let clients = part.tls.iter().flat_map(|tls| tls.clients.iter().cloned());
        for ClientPart { sha256, name, may, agents, any_principal, .. } in clients {
            if callers.by_certificate(&sha256).is_some() {
                return Err(HostError::new(
                    "CALLER_REPEATED",
                    "`clients` of `tls` names a certificate twice",
                ));
            }
            callers.clients.push((sha256, caller(name, may, agents, any_principal)?));
        }
        #[cfg(unix)]
        {
            let own = rustix::process::geteuid().as_raw();
            if callers.peers.iter().all(|(uid, _)| *uid != own) {
                let name = OperatorId::new("local").map_err(|_| HostError::internal("`local` is an id"))?;
                callers.peers.push((own, caller(name, vec![Duty::Check, Duty::Read], None, false)?));
            }
        }
        Ok(callers)
    }

    fn read_tokens(&mut self, path: &Path) -> Result<(), HostError> {
        let text = read_secret_text(path)?;
        // why: the parser's own message can quote the file.
        let file: TokenFile = toml::from_str(&text).map_err(|_| {
            HostError::new("TOKEN_FILE_MALFORMED", "expected: [[token]] with token, name, may")
        })?;
        if file.token.is_empty() || file.token.len() > MAX_CALLERS {
            let text = format!("1 to {MAX_CALLERS} tokens expected");
            return Err(HostError::new("TOKEN_FILE_MALFORMED", text));
        }
        for TokenPart { token, name, may, agents, any_principal } in file.token {
            let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
            if token.len() < MIN_TOKEN || !is_plain {
                let text =
                    format!("token of `{name}`: at least {MIN_TOKEN} printable ASCII characters expected");
                return Err(HostError::new("TOKEN_TOO_WEAK", text));
            }
            let digest = Digest::of(token.as_bytes());
            if self.tokens.iter().any(|(other, _)| *other == digest) {
                return Err(HostError::new("CALLER_REPEATED", format!("token of `{name}` is another's too")));
            }
            self.tokens.push((digest, caller(name, may, agents, any_principal)?));
        }
        Ok(())
    }

    /// Returns `true` if there are bearer tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Returns `true` if callers can have certificates.
    pub(crate) fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Returns the caller of a connection by its certificate, which an authority signed.
    pub(crate) fn by_certificate(&self, digest: &Digest) -> Option<Arc<Caller>> {
        self.clients.iter().find(|(known, _)| known == digest).map(|(_, caller)| Arc::clone(caller))
    }

    /// Returns the caller of a request by its bearer token.
    pub(crate) fn by_token(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Problem> {
        let unknown = || {
            let text = "a bearer token that the service knows is required";
            Problem::new(StatusCode::UNAUTHORIZED, "CALLER_UNKNOWN", text)
        };
        let token = bearer_token(headers).ok_or_else(unknown)?;
        let digest = Digest::of(token.as_bytes());
        // No early exit: the time does not depend on which token fits.
        let fits = self
            .tokens
            .iter()
            .fold(None, |found, (known, caller)| if *known == digest { Some(caller) } else { found });
        fits.cloned().ok_or_else(unknown)
    }

    /// Returns the caller of a connection by its user.
    pub(crate) fn by_user(&self, uid: u32) -> Option<Arc<Caller>> {
        self.peers.iter().find(|(known, _)| *known == uid).map(|(_, caller)| Arc::clone(caller))
    }
}

/// Returns the only bearer token of a request.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(one), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token)
}

fn caller(
    name: OperatorId,
    may: Vec<Duty>,
    agents: Option<Vec<AgentId>>,
    any_principal: bool,
) -> Result<Arc<Caller>, HostError> {
    let duties: BTreeSet<_> = may.into_iter().collect();
    if duties.is_empty() {
        return Err(HostError::new("CALLER_DUTIES", format!("`{name}` may do nothing: `may` is empty")));
    }
    // why: a program that makes an agent's calls must not approve them.
    if duties.contains(&Duty::Check) && duties.contains(&Duty::Answer) {
        let text = format!("`{name}` may both check and answer: a caller must not approve its own calls");
        return Err(HostError::new("CALLER_DUTIES", text));
    }
    Ok(Arc::new(Caller { name, duties, agents, any_principal, is_of_token: false }))
}

#[cfg(all(test, unix))]
mod tests;
