//! The endpoint as an OAuth 2.1 resource server: access tokens are JWTs of one issuer, for this endpoint alone.
//!
//! Source: RFC 9068 (JWT access tokens), RFC 9728 (protected resource metadata), RFC 6750 (bearer tokens); MCP 2026-07-28,
//! *Authorization*.

mod issuer_keys;

use std::sync::Arc;

use axum::http::StatusCode;
use countersign_core::OperatorId;
use countersign_host::error::HostError;
use countersign_host::serve_part::OauthPart;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::issuer_keys::IssuerKeys;
use crate::access::Caller;
use crate::problem::Problem;

/// Path of the metadata, before the path of the resource (RFC 9728, section 3.1).
pub(crate) const METADATA: &str = "/.well-known/oauth-protected-resource";
/// Algorithms of signatures. Each has a key that the endpoint cannot sign with.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::ES256,
    Algorithm::EdDSA,
];
/// Difference of the clocks that is overlooked, in seconds.
const LEEWAY: u64 = 30;

/// The issuer whose tokens count, its keys, and this resource.
#[derive(Debug)]
pub(crate) struct Oauth {
    issuer: String,
    resource: String,
    metadata_url: String,
    scopes: Vec<String>,
    keys: IssuerKeys,
}

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenFault(&'static str, &'static str);

/// RFC 9728, section 2.
#[derive(Serialize)]
struct ResourceMetadata<'a> {
    resource: &'a str,
    authorization_servers: [&'a str; 1],
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    scopes_supported: Option<&'a [String]>,
}

#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    /// Granted scopes, separated by spaces (RFC 9068, section 2.2.3).
    #[serde(default)]
    scope: String,
}

impl TokenFault {
    const ALGORITHM: Self = Self("TOKEN_ALGORITHM", "the token's algorithm does not count");
    const OTHER_ALGORITHM: Self = Self("TOKEN_ALGORITHM", "the token's algorithm is not that of its key");

    #[expect(clippy::wildcard_enum_match_arm, reason = "any other error means an unreadable token")]
    const fn of(kind: &ErrorKind) -> Self {
        match kind {
            ErrorKind::ExpiredSignature => Self("TOKEN_EXPIRED", "the token has expired"),
            ErrorKind::ImmatureSignature => Self("TOKEN_EXPIRED", "the token is not valid yet"),
            ErrorKind::InvalidAudience => Self("TOKEN_AUDIENCE", "the token is for another resource"),
            ErrorKind::InvalidIssuer => Self("TOKEN_ISSUER", "the token is of another issuer"),
            ErrorKind::InvalidSignature => Self("TOKEN_SIGNATURE", "the token's signature does not hold"),
            ErrorKind::InvalidAlgorithm => Self::OTHER_ALGORITHM,
            ErrorKind::MissingRequiredClaim(_) => Self("TOKEN_CLAIM", "the token lacks a claim"),
            _ => Self("TOKEN_MALFORMED", "the token is not a JWT"),
        }
    }
}

impl Oauth {
    /// Reads the issuer's keys.
    pub(crate) fn read(part: &OauthPart) -> Result<Self, HostError> {
        let wrong = |text: &str| HostError::new("CONFIG_OAUTH", format!("`oauth` of `serve`: {text}"));
        let (scheme, rest) = part
            .resource
            .split_once("://")
            .filter(|(scheme, rest)| matches!(*scheme, "http" | "https") && !rest.contains(['?', '#']))
            .ok_or_else(|| wrong("`resource`: the URL of the endpoint expected, as clients know it"))?;
        if !part.issuer.starts_with("https://") && !part.issuer.starts_with("http://") {
            return Err(wrong("`issuer`: a URL expected"));
        }
        let is_scope = |scope: &String| !scope.is_empty() && scope.bytes().all(is_scope_byte);
        if !part.scopes.iter().all(is_scope) {
            return Err(wrong("`scopes`: scope tokens expected (RFC 6749, section 3.3)"));
        }
        let (host, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
        Ok(Self {
            issuer: part.issuer.clone(),
            resource: part.resource.clone(),
            metadata_url: format!("{scheme}://{host}{METADATA}{}", path.trim_end_matches('/')),
            scopes: part.scopes.clone(),
            keys: IssuerKeys::read(part)?,
        })
    }

    /// Returns the metadata of the resource, as JSON.
    pub(crate) fn metadata(&self) -> String {
        let scopes = Some(&self.scopes).filter(|scopes| !scopes.is_empty());
        let metadata = ResourceMetadata {
            resource: &self.resource,
            authorization_servers: [&self.issuer],
            bearer_methods_supported: ["header"],
            scopes_supported: scopes.map(Vec::as_slice),
        };
        json!(metadata).to_string()
    }

    /// Returns whether a look at this token may wait for the issuer.
    pub(crate) fn waits(&self, token: &str) -> bool {
        decode_header(token).ok().and_then(|header| header.kid).is_some_and(|id| self.keys.waits(&id))
    }

    /// Returns the caller of a token: the subject is its name. It may [wait](Self::waits) for the issuer.
    pub(crate) fn caller(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        let claims = self.claims(token).map_err(|TokenFault(code, text)| {
            let challenge = self.challenge("invalid_token", text);
            Problem::new(StatusCode::UNAUTHORIZED, code, text).challenge(challenge)
        })?;
        let granted: Vec<&str> = claims.scope.split(' ').collect();
        if self.scopes.iter().any(|scope| !granted.contains(&&**scope)) {
            let text = "the token lacks a scope";
            let challenge = self.challenge("insufficient_scope", text);
            return Err(Problem::new(StatusCode::FORBIDDEN, "TOKEN_SCOPE", text).challenge(challenge));
        }
        let name = OperatorId::new(&claims.sub).map_err(|_| {
            let text = "the token's subject is no name of a principal";
            let challenge = self.challenge("invalid_token", text);
            Problem::new(StatusCode::UNAUTHORIZED, "TOKEN_SUBJECT", text).challenge(challenge)
        })?;
        Ok(Arc::new(Caller::of_token(name)))
    }

    /// Returns the challenge for a request without a token (RFC 6750, section 3).
    pub(crate) fn first_challenge(&self) -> String {
        let scope = self.scopes.join(" ");
        let scope = if scope.is_empty() { scope } else { format!(", scope=\"{scope}\"") };
        format!("Bearer resource_metadata=\"{}\"{scope}", self.metadata_url)
    }

    fn challenge(&self, error: &str, text: &str) -> String {
        format!("{}, error=\"{error}\", error_description=\"{text}\"", self.first_challenge())
    }

    fn claims(&self, token: &str) -> Result<Claims, TokenFault> {
        // An algorithm that the library does not know is `none`, or another one that does not count.
        let header = decode_header(token).map_err(|error| {
            let is_unknown = matches!(error.kind(), ErrorKind::Json(_));
            if is_unknown { TokenFault::ALGORITHM } else { TokenFault::of(error.kind()) }
        })?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(TokenFault::ALGORITHM);
        }
        let id = header.kid.ok_or(TokenFault("TOKEN_KEY_MISSING", "the token names no key"))?;
        let key = self.keys.find(&id).ok_or(TokenFault("TOKEN_KEY_UNKNOWN", "the issuer has no such key"))?;
        if !signs_with(&key, header.alg) {
            return Err(TokenFault::OTHER_ALGORITHM);
        }
        let key = DecodingKey::from_jwk(&key)
            .map_err(|_| TokenFault("TOKEN_KEY_UNKNOWN", "the issuer's key cannot be used"))?;
        let mut validation = Validation::new(header.alg);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_audience(&[&self.resource]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss", "sub"]);
        let decoded = decode::<Claims>(token, &key, &validation);
        Ok(decoded.map_err(|error| TokenFault::of(error.kind()))?.claims)
    }
}

/// Returns whether a key is for signatures of this algorithm.
fn signs_with(key: &Jwk, algorithm: Algorithm) -> bool {
    let named = key.common.key_algorithm;
    let is_named = named.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    let is_for_signatures =
        key.common.public_key_use.as_ref().is_none_or(|of| *of == PublicKeyUse::Signature);
    let may_verify =
        key.common.key_operations.as_ref().is_none_or(|may| may.contains(&KeyOperations::Verify));
    is_named && is_for_signatures && may_verify
}

const fn is_scope_byte(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)
}

#[cfg(test)]
mod tests;
