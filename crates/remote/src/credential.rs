//! The credential that a server gets: the operator's own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use countersign_host::error::HostError;
use countersign_host::files::read_secret_text;
use countersign_host::remote_part::{RemotePart, TokenClientPart};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::rustls::ClientConfig;

use crate::address::AddressPolicy;
use crate::connection::{HttpOrigin, PlainText};
use crate::failure::RemoteFailure;

/// Bytes of an answer of the authorization server, and the time for it.
const MAX_ANSWER: usize = 64 << 10;
const ANSWER: Duration = Duration::from_secs(10);
/// Time before its end from which a token is no longer used.
const MARGIN: Duration = Duration::from_secs(30);
/// Lifetime of a token whose answer states none.
const UNSTATED: u64 = 60;
/// Longest lifetime that is believed: a day.
const MAX_LIFETIME: u64 = 86_400;
/// Letters of a form that stand for themselves (WHATWG URL, *application/x-www-form-urlencoded percent-encode set*).
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

/// Source of the header `Authorization`.
#[derive(Debug)]
pub(crate) enum Credential {
    Missing,
    Given(HeaderValue),
    /// File with a token. It is read for each request, so that it can be replaced.
    File(PathBuf),
    Client(Box<TokenClient>),
}

/// A client of an authorization server, with the grant of its own credentials (RFC 6749, section 4.4).
#[derive(Debug)]
pub(crate) struct TokenClient {
    endpoint: HttpOrigin,
    part: TokenClientPart,
    resource: String,
    token: Mutex<Option<AccessToken>>,
}

#[derive(Debug)]
struct AccessToken {
    header: HeaderValue,
    until: Instant,
}

impl Credential {
    pub(crate) fn new(
        part: &RemotePart,
        url: &str,
        tls: &Arc<ClientConfig>,
        policy: &AddressPolicy,
        plain: PlainText,
    ) -> Result<Self, HostError> {
        if let Some(token) = &part.token {
            let header = bearer(token.as_str()).map_err(|text| HostError::new("TOKEN_FILE", text))?;
            return Ok(Self::Given(header));
        }
        match (&part.token_file, &part.oauth) {
            (Some(_), Some(_)) => {
                let text = "`token_file` and `oauth` of `server.remote` exclude each other";
                Err(HostError::new("CONFIG_CONFLICT", text))
            }
            (Some(path), None) => {
                // A file that cannot be used is an error now, and not at the first request.
                bearer(&read_secret_text(path)?)
                    .map_err(|text| HostError::new("TOKEN_FILE", text).about(path.display()))?;
                Ok(Self::File(path.clone()))
            }
            (None, Some(client)) => {
                drop(read_secret_text(&client.client_secret_file)?);
                let endpoint = HttpOrigin::new(&client.token_url, tls, policy, plain)?;
                let resource = client.resource.clone().unwrap_or_else(|| url.to_owned());
                let (part, token) = (client.clone(), Mutex::default());
                Ok(Self::Client(Box::new(TokenClient { endpoint, part, resource, token })))
            }
            (None, None) => Ok(Self::Missing),
        }
    }

    /// Returns the header's value.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, RemoteFailure> {
        match self {
            Self::Missing => Ok(None),
            Self::Given(header) => Ok(Some(header.clone())),
            Self::File(path) => {
                let text = read_secret_text(path).map_err(|error| RemoteFailure::not_sent(error.line()))?;
                bearer(&text).map(Some).map_err(RemoteFailure::not_sent)
            }
            Self::Client(client) => client.header().await.map(Some),
        }
    }

    /// Forgets a token that the server refused. Returns whether another can be had.
    pub(crate) async fn forget(&self, refused: Option<&HeaderValue>) -> bool {
        let Self::Client(client) = self else { return false };
        let mut token = client.token.lock().await;
        if token.as_ref().is_some_and(|token| Some(&token.header) == refused) {
            *token = None;
        }
        true
    }
}

fn bearer(token: &str) -> Result<HeaderValue, &'static str> {
    let token = token.trim();
    // RFC 6750, section 2.1.
    let is_token = !token.is_empty()
        && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
    let header = is_token.then(|| HeaderValue::from_str(&format!("Bearer {token}")).ok()).flatten();
    let mut header = header.ok_or("no bearer token")?;
    header.set_sensitive(true);
    Ok(header)
}

impl TokenClient {
    async fn header(&self) -> Result<HeaderValue, RemoteFailure> {
        let mut kept = self.token.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| Instant::now() < token.until) {
            return Ok(token.header.clone());
        }
        let asked = timeout(ANSWER, self.ask()).await;
        let token = asked.unwrap_or_else(|_| Err(failed("no answer in time")))?;
        let header = token.header.clone();
        *kept = Some(token);
        Ok(header)
    }

    async fn ask(&self) -> Result<AccessToken, RemoteFailure> {
        let secret = read_secret_text(&self.part.client_secret_file)
            .map_err(|it| RemoteFailure::not_sent(it.line()))?;
        let encoded = |text: &str| utf8_percent_encode(text, FORM).to_string();
        let scopes = self.part.scopes.join(" ");
        let mut form = format!("grant_type=client_credentials&resource={}", encoded(&self.resource));
        if !scopes.is_empty() {
            form.push_str("&scope=");
            form.push_str(&encoded(&scopes));
        }
        // RFC 6749, section 2.3.1.
        let basic = format!("{}:{}", encoded(&self.part.client_id), encoded(secret.trim()));
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.url().path())
            .header(AUTHORIZATION, format!("Basic {}", Base64::encode_string(basic.as_bytes())))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(Full::from(form))
            .map_err(|_| failed("the request cannot be built"))?;
        let response = self.endpoint.send(request).await.map_err(|failure| failed(&failure.text))?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(failed(&format!("status {}", status.as_u16())));
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|_| failed("the answer breaks off or is too long"))?.to_bytes();
        let answer: serde_json::Value =
            serde_json::from_slice(&body).map_err(|_| failed("the answer is not JSON"))?;
        let text = |name: &str| answer.get(name).and_then(serde_json::Value::as_str);
        let is_bearer = text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
        let token = text("access_token").filter(|_| is_bearer);
        let header = token.map(bearer).transpose().map_err(failed)?;
        let header = header.ok_or_else(|| failed("the answer has no bearer token"))?;
        let lifetime = answer
            .get("expires_in")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(UNSTATED)
            .min(MAX_LIFETIME);
        let lifetime = Duration::from_secs(lifetime);
        // A short token is used for half of its lifetime.
        let margin = lifetime.checked_div(2).map_or(MARGIN, |half| MARGIN.min(half));
        let until = Instant::now().checked_add(lifetime.saturating_sub(margin));
        Ok(AccessToken { header, until: until.unwrap_or_else(Instant::now) })
    }
}

/// The request to the server was not sent, because the authorization server gave no token for it.
fn failed(text: &str) -> RemoteFailure {
    RemoteFailure::not_sent(format!("no access token: {text}"))
}
