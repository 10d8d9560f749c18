//! Errors as problem documents (RFC 9457).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use countersign_host::error::{ErrorKind, HostError};
use countersign_host::report::Reporter;
use serde_json::json;

/// Why a request was not carried out: a status, a stable code and one sentence. Nothing was changed.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    challenge: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), challenge: None }
    }

    /// Sets the challenge of the answer (`WWW-Authenticate`).
    pub(crate) fn challenge(self, challenge: String) -> Self {
        Self { challenge: Some(challenge), ..self }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// A body, path or member that does not fit.
    pub(crate) fn bad(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SERVE_BUSY", "too many requests are under way: try again")
    }

    /// A fault of the service. The operator gets the text, the caller the code.
    pub(crate) fn fault(error: &HostError, reporter: &Reporter) -> Self {
        reporter.warn_of(error);
        let detail = "the service could not do this: its operator finds the reason on standard error";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code(), detail)
    }

    /// A refusal as such, any other error as a fault of the service. Texts can name files, and stay with the operator.
    pub(crate) fn of(error: &HostError, reporter: &Reporter) -> Self {
        match error.kind() {
            ErrorKind::Refused => {
                reporter.warn_of(error);
                Self::new(StatusCode::FORBIDDEN, error.code(), "the registry or a signed file refuses this")
            }
            ErrorKind::Usage => Self::bad(error.code(), error.line()),
            ErrorKind::Failed | ErrorKind::Interrupted(_) | _ => Self::fault(error, reporter),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or_default();
        let document = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut response = Response::new(Body::from(document.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let challenge = self.challenge.and_then(|challenge| HeaderValue::try_from(challenge).ok());
        if let Some(challenge) = challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        } else if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json_answer(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
